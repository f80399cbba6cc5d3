"""Points, and how many there are of something, as they are written everywhere."""

from __future__ import annotations


def number(points: float) -> str:
    """Points as they are written everywhere: `3`, `1.5`, `0.6667`; never `-0`."""
    return f"{round(points, 4) + 0.0:.10g}"


def some(count: float, what: str) -> str:
    """How many there are: `1 mark`, `2 marks`, `0.5 points`."""
    return f"{number(count)} {what}{'' if number(count) == '1' else 's'}"


def are(count: float) -> str:
    """What `some` of them do: one is, all others are."""
    return "is" if number(count) == "1" else "are"
