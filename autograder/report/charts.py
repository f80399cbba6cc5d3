"""The charts of a class's page: where each bar and each word stands. `templates/charts.html` draws them.

Across, lengths are percents of a chart's width, so that it fits a phone and its words keep their size; down, pixels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from autograder.gradebook.record import Record, number
from autograder.model import harmless
from autograder.model.course import Chapter
from autograder.model.verdict import Result
from autograder.report.standing import Marked, told_apart

ENDED_BADLY = (Result.CRASHED, Result.TIMEOUT, Result.MEMORY, Result.OUTPUT, Result.PROCESSES)
GROUPS = {  # what it is called, with a sign, so that a colour never is the only one
    ("passed", "●"): (Result.PASSED,),
    ("partial", "◐"): (Result.PARTIAL,),
    ("by hand", "✎"): (Result.MANUAL,),
    ("failed", "○"): (Result.FAILED, *ENDED_BADLY),
    ("blank or invalid", "·"): (Result.BLANK, Result.MISSING, Result.INVALID, Result.ABSENT),
}


@dataclass(frozen=True)
class Bar:
    """A filled box, by its upper left corner."""

    x: float
    y: float
    width: float
    height: float
    kind: str = ""  # its class in the page's style
    says: str = ""  # under the pointer


@dataclass(frozen=True)
class Label:
    """A word at a point."""

    x: float
    y: float
    text: str
    kind: str = ""


@dataclass
class Chart:
    """What is drawn, and all that it shows in words."""

    says: str
    height: int
    floor: int = 0  # where its axis is, if it has one
    bars: list[Bar] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)


def distribution(marked: Marked) -> Chart | None:
    """A histogram of the points: bars of equal width from 0 to all points; who has all of them is in the last."""
    if not marked.points or marked.max_points <= 0:
        return None
    bars = min(10, max(1, round(marked.max_points)))
    step = marked.max_points / bars
    counts = Counter(min(bars - 1, int(points / step)) for points in marked.points)
    highest = max(counts.values())
    width, left, floor = 94 / bars, 3.0, 180
    chart = Chart("", floor + 24, floor)
    in_words = []
    for i in range(bars):
        height, x = 150 * counts[i] / highest, left + i * width
        chart.bars.append(Bar(x + 0.4, floor - height, width - 0.8, height))
        if counts[i]:
            chart.labels.append(Label(x + width / 2, floor - height - 6, str(counts[i]), "mid"))
            in_words.append(f"{number(i * step)} to {number((i + 1) * step)}: {counts[i]}")
        chart.labels.append(Label(x, floor + 18, f"{i * step:.3g}", "mid quiet"))
    chart.labels.append(Label(97, floor + 18, f"{marked.max_points:.3g}", "mid quiet"))
    chart.says = "Students by points. " + "; ".join(in_words)
    return chart


def exercises(chapter: Chapter, class_: Sequence[Record]) -> Chart | None:
    """For each exercise a bar of 100 percent of the class, split by how it ended, with the numbers below it."""
    if not class_:
        return None
    tall, apart = 66, told_apart(chapter, class_)
    chart, in_words = Chart("", tall * len(chapter.exercises)), []
    for i, exercise in enumerate(chapter.exercises):
        results = [row.verdict for record in class_ for row in record.rows if row.exercise == exercise.name]
        y, x = tall * i, 0.0
        split, signs = [], []
        for group, ((name, sign), members) in enumerate(GROUPS.items()):
            count = sum(result in members for result in results)
            if not count:
                continue
            width = 100 * count / len(results)
            split.append(f"{name} {count}")
            signs.append(f"{sign} {count}")
            chart.bars.append(
                Bar(x, y + 22, max(width - 0.3, 0.3), 14, f"g{group}", f"{name}: {count} of {len(results)}")
            )
            x += width
        rate = sum(result is Result.PASSED for result in results) / max(1, len(results))
        chart.labels.append(Label(0, y + 15, harmless.line(exercise.name, 26)))
        chart.labels.append(Label(100, y + 15, "by hand" if exercise.manual else f"{rate:.0%} passed", "end"))
        chart.labels.append(Label(0, y + 52, ", ".join(signs), "quiet"))
        said = ""
        if exercise.name in apart:
            share, tells = apart[exercise.name]
            said = f"mean {share:.0%}" + (f", discrimination {tells:.2f}" if tells is not None else "")
            chart.labels.append(Label(100, y + 52, said, "end quiet"))
        in_words.append(f"{harmless.line(exercise.name)}: {', '.join([*split, said] if said else split)}")
    chart.says = "How each exercise ended, in students. " + "; ".join(in_words)
    return chart
