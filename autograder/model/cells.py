"""What a notebook's cell says of itself, whoever wrote the notebook: a file's may hold anything at any place."""

from __future__ import annotations

from typing import Any


def within(value: Any, *keys: str) -> Any:
    """What lies in objects within objects at these keys; None where one of them is none, or has no such key."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def grade_id(cell: Any) -> Any:
    """What a cell says that its grade id is; None if it says none."""
    return within(cell, "metadata", "nbgrader", "grade_id")


def source(cell: Any) -> str | None:
    """A cell's source, text or a list of lines; None when it is neither."""
    found = within(cell, "source")
    if isinstance(found, list) and all(isinstance(line, str) for line in found):
        return "".join(found)
    return found if isinstance(found, str) else None
