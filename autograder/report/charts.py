"""The charts of a class's page: where each bar and each word stands. `templates/charts.html` draws them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from autograder.gradebook.record import Record, number
from autograder.model import harmless
from autograder.model.course import Chapter
from autograder.model.verdict import Result

WIDTH = 720  # of a chart, in its own units, as every length here
ENDED_BADLY = (Result.CRASHED, Result.TIMEOUT, Result.MEMORY, Result.OUTPUT, Result.PROCESSES)
GROUPS = {
    "passed": (Result.PASSED,),
    "partial": (Result.PARTIAL,),
    "by hand": (Result.MANUAL,),
    "failed": (Result.FAILED, *ENDED_BADLY),
    "blank or invalid": (Result.BLANK, Result.INVALID, Result.ABSENT),
}


@dataclass(frozen=True)
class Line:
    """From one point to another."""

    x1: float
    y1: float
    x2: float
    y2: float


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
    turned: bool = False  # upwards


@dataclass
class Chart:
    """What is drawn, and all that it shows in words."""

    says: str
    height: int
    lines: list[Line] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    width: int = WIDTH


def distribution(chapter: Chapter, class_: Sequence[Record]) -> Chart | None:
    """A histogram of the points: bars of equal width from 0 to all points; who has all of them is in the last."""
    if not class_ or chapter.max_points <= 0:
        return None
    bars = min(10, max(1, round(chapter.max_points)))
    step = chapter.max_points / bars
    counts = Counter(min(bars - 1, int(record.points / step)) for record in class_)
    highest = max(counts.values())
    width, left, floor = (WIDTH - 60) / bars, 50, 190
    chart = Chart("", 240, lines=[Line(left, floor, WIDTH - 10, floor)])
    in_words = []
    for i in range(bars):
        height, x = 150 * counts[i] / highest, left + i * width
        chart.bars.append(Bar(x + 3, floor - height, width - 6, height))
        if counts[i]:
            chart.labels.append(Label(x + width / 2, floor - height - 6, str(counts[i]), "mid"))
            in_words.append(f"{number(i * step)} to {number((i + 1) * step)}: {counts[i]}")
        chart.labels.append(Label(x, floor + 18, number(i * step), "mid quiet"))
    chart.labels.append(Label(WIDTH - 10, floor + 18, number(chapter.max_points), "end quiet"))
    chart.labels.append(Label((left + WIDTH) / 2, floor + 40, "points", "mid"))
    chart.labels.append(Label(14, 115, "students", "mid", turned=True))
    chart.says = "Students by points. " + "; ".join(in_words)
    return chart


def exercises(chapter: Chapter, class_: Sequence[Record]) -> Chart | None:
    """For each exercise a bar of 100 percent of the class, split by how it ended."""
    if not class_:
        return None
    left, right, in_words = 210, 70, []
    height = 34 * len(chapter.exercises) + 34
    chart = Chart("", height)
    for i, exercise in enumerate(chapter.exercises):
        results = [row.verdict for record in class_ for row in record.rows if row.exercise == exercise.name]
        y, x = 10 + 34 * i, float(left)
        chart.labels.append(Label(left - 10, y + 16, harmless.line(exercise.name, 26), "end"))
        split = []
        for group, (name, members) in enumerate(GROUPS.items()):
            count = sum(result in members for result in results)
            if not count:
                continue
            width = (WIDTH - left - right) * count / len(results)
            split.append(f"{name} {count}")
            says = f"{name}: {count} of {len(results)}"
            chart.bars.append(Bar(x, y, max(width - 1, 1), 22, f"g{group}", says))
            if width > 22:
                chart.labels.append(Label(x + width / 2, y + 16, str(count), f"mid on{group}"))
            x += width
        rate = sum(result is Result.PASSED for result in results) / max(1, len(results))
        chart.labels.append(Label(WIDTH - right + 10, y + 16, "by hand" if exercise.manual else f"{rate:.0%}"))
        in_words.append(f"{harmless.line(exercise.name)}: {', '.join(split)}")
    x = float(left)
    for group, name in enumerate(GROUPS):
        chart.bars.append(Bar(x, height - 16, 12, 12, f"g{group}"))
        chart.labels.append(Label(x + 17, height - 5, name, "quiet"))
        x += 17 + 7.5 * len(name) + 18
    chart.says = "How each exercise ended, in students. " + "; ".join(in_words)
    return chart


def slowest(class_: Sequence[Record], shown: int = 5) -> Chart | None:
    """The seconds that the slowest submissions took."""
    slow = sorted(class_, key=lambda record: -record.verdict.seconds)[:shown]
    if not slow:
        return None
    longest = max(slow[0].verdict.seconds, 1e-9)
    chart, in_words = Chart("", 30 * len(slow) + 12), []
    for i, record in enumerate(slow):
        y, seconds = 8 + 30 * i, record.verdict.seconds
        width = (WIDTH - 310) * seconds / longest
        chart.labels.append(Label(200, y + 15, harmless.line(record.student, 24), "end"))
        chart.bars.append(Bar(210, y, max(width, 1), 20))
        chart.labels.append(Label(220 + width, y + 15, f"{seconds:.2f} s"))
        in_words.append(f"{harmless.line(record.student)} {seconds:.2f} s")
    chart.says = "Seconds that the slowest submissions took. " + "; ".join(in_words)
    return chart
