"""The picture of a cluster: a box for each task, a row for each job, and an arrow for what one task sent to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from across._language import catalogue, pictured
from across._language.catalogue import marked, said
from across.pictures import ALERT, FONT, INK, PALETTE, Picture, readable_on, render, sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BOX, HEIGHT, GAP, ROW, MARGIN = 112.0, 50.0, 50.0, 54.0, 10.0  # points
CLIENT = "client"
JOBS = ("ps", "worker", "chief", "evaluator")  # a job's colour is the same in every picture


@dataclass(frozen=True)
class Box:
    """One task, as it is drawn."""

    name: str  # "worker:1"
    address: str
    devices: tuple[str, ...]
    alive: bool = True


def draw(tasks: Sequence[Box], moved: Mapping[tuple[str, str], int], title: str = "") -> Picture:
    """Draw `tasks`, a row for each job, and the bytes that `moved` from task to task; who is no task is the client."""
    rows: dict[str, list[Box]] = {}
    for task in tasks:
        rows.setdefault(task.name.partition(":")[0], []).append(task)
    if any(CLIENT in ends for ends in moved):
        rows[CLIENT] = [Box(CLIENT, marked("this notebook"), ())]
    widest = max(len(row) for row in rows.values())
    beside = GAP if widest == 1 and len(rows) > 2 else 0.0  # for an arrow that passes a row
    width = 2 * (MARGIN + beside) + widest * BOX + (widest - 1) * GAP
    top = 24.0 if title else 6.0
    height = top + len(rows) * HEIGHT + (len(rows) - 1) * ROW + (28.0 if moved else 10.0)
    figure, axes = sheet(width, height, unit=72)
    if title:
        axes.text(4, 4, title, color=INK, fontsize=FONT + 1, fontweight="bold", va="top")
    colours = colours_of(list(rows))
    middles: dict[str, tuple[float, float]] = {}
    gaps: dict[float, list[float]] = {}  # of a row, by its y: where an arrow can pass
    for number, row in enumerate(rows.values()):
        left = (width - len(row) * BOX - (len(row) - 1) * GAP) / 2
        for place, task in enumerate(row):
            x, y = left + place * (BOX + GAP), top + number * (HEIGHT + ROW)
            middles[task.name] = (x + BOX / 2, y + HEIGHT / 2)
            gaps.setdefault(y + HEIGHT / 2, [left - GAP / 2 if beside else left - MARGIN / 2]).append(
                x + BOX + (GAP / 2 if task is not row[-1] else GAP / 4)
            )
            _draw_box(axes, task, x, y, colours[task.name.partition(":")[0]])
    for (source, target), size in moved.items():
        _draw_arrow(axes, middles[source], middles[target], gaps, amount(size))
    if moved:
        axes.plot([6, 28], [height - 10] * 2, color=ALERT, linestyle=(0, (4, 2)), lw=1.8)
        axes.text(33, height - 10, marked("sent over the network"), color=INK, fontsize=FONT - 1.5, va="center")
    return render(figure, describe(tasks, moved, title))


def colours_of(jobs: Sequence[str]) -> dict[str, str]:
    """A colour for each job of a picture, those of `JOBS` their own."""
    known = [*JOBS, *dict.fromkeys(job for job in jobs if job not in JOBS)]
    return {job: PALETTE[known.index(job) % len(PALETTE)] for job in jobs}


def describe(tasks: Sequence[Box], moved: Mapping[tuple[str, str], int], title: str = "") -> str:
    """What the picture shows, in words."""
    told = []
    for task in tasks:
        has = ", ".join(map(catalogue.given, task.devices)) or said("devices of its own")
        told.append(said("{0} at {1} has {2}", task.name, task.address, has) + ("" if task.alive else said(" (ended)")))
    told += [said("{0} sent {1} to {2}", source, amount(size), target) for (source, target), size in moved.items()]
    count = said("A cluster of 1 task") if len(tasks) == 1 else said("A cluster of {0} tasks", len(tasks))
    words = said("{0}: {1}", count, said("; ").join(told))
    return said("{0}: {1}.", catalogue.given(title), words) if title else said("{0}.", words)


def amount(size: int) -> str:
    """A number of bytes as a reader wants it: "12 B", "64 kB"."""
    for unit, least in (("MB", 1_000_000), ("kB", 1_000)):
        if size >= least:
            return f"{size / least:.3g} {unit}"
    return f"{size} B"


def _draw_box(axes: Axes, task: Box, x: float, y: float, fill: str) -> None:
    from matplotlib.patches import FancyBboxPatch

    filled = task.alive and task.name != CLIENT
    shape = "round,pad=0,rounding_size=5"
    style = {"fc": fill if filled else "none", "ec": "none" if filled else INK, "lw": 1.2}
    style |= {} if task.alive else {"ls": (0, (2, 2))}
    axes.add_patch(FancyBboxPatch((x, y), BOX, HEIGHT, boxstyle=shape, zorder=3, **style))
    ink = readable_on(fill) if filled else INK
    lines = [
        (task.name if task.alive else pictured.said("{0} (ended)", task.name), FONT + 0.5, "bold"),
        (task.address, FONT - 1.5, "normal"),
    ]
    if task.devices:
        shown = [*task.devices[:3], *(["…"] if len(task.devices) > 3 else [])]
        lines.append((", ".join(shown), FONT - 1.5, "normal"))
    first = y + HEIGHT / 2 - (len(lines) - 1) * 7.5
    for number, (text, size, weight) in enumerate(lines):
        at = (x + BOX / 2, first + number * 15)
        axes.text(*at, text, color=ink, fontsize=size, fontweight=weight, ha="center", va="center", zorder=4)


def _draw_arrow(
    axes: Axes,
    source: tuple[float, float],
    target: tuple[float, float],
    gaps: Mapping[float, Sequence[float]],
    text: str,
) -> None:
    """From box to box; each way on a side of its own, so that two that cross the same gap are two."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    (x0, y0), (x1, y1) = source, target
    if y0 == y1 and abs(x1 - x0) < 1.5 * (BOX + GAP):  # neighbours: through the gap
        away = 1 if x1 > x0 else -1
        points = [(x0 + away * BOX / 2, y0 + 8 * away), (x1 - away * BOX / 2, y1 + 8 * away)]
        at = ((points[0][0] + points[1][0]) / 2, points[0][1] - 7)
        path = Path(points)
    elif y0 == y1:  # below what stands between
        away = 1 if x1 > x0 else -1
        edge, low = y0 + HEIGHT / 2, y0 + HEIGHT / 2 + 26
        points = [(x0 + away * 20, edge), (x0 + away * 40, low), (x1 - away * 40, low), (x1 - away * 20, edge)]
        at = ((x0 + x1) / 2, edge + 20)
        path = Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])
    else:
        down = 1 if y1 > y0 else -1
        points, codes = [(x0 + 14 * down, y0 + down * HEIGHT / 2)], [Path.MOVETO]
        end = (x1 + 14 * down, y1 - down * HEIGHT / 2)
        for y in sorted((y for y in gaps if min(y0, y1) < y < max(y0, y1)), reverse=down < 0):
            x = min(gaps[y], key=lambda x: abs(x - points[0][0]) + abs(x - end[0]))
            points += [(x, y - down * HEIGHT / 2), (x, y + down * HEIGHT / 2)]
            codes += [Path.LINETO, Path.LINETO]
        path = Path([*points, end], [*codes, Path.LINETO])
        following = [*points, end][1]
        part = 0.4 if len(codes) == 1 else 0.75
        at = (points[0][0] + (following[0] - points[0][0]) * part, points[0][1] + (following[1] - points[0][1]) * part)
    axes.add_patch(
        FancyArrowPatch(
            path=path, arrowstyle="-|>", mutation_scale=11, color=ALERT, ls=(0, (4, 2)), lw=1.8, fc=ALERT, zorder=2
        )
    )
    box = {"boxstyle": "round,pad=0.2", "fc": ALERT, "ec": "none"}
    ink = readable_on(ALERT)
    axes.text(at[0], at[1], text, color=ink, fontsize=FONT - 1.5, ha="center", va="center", zorder=5, bbox=box)
