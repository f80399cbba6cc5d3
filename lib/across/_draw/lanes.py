"""The picture of a placement: one lane a device, ops as boxes from top to bottom, copies between devices dashed.

Control edges are dotted, with a hollow head; a path that is to be seen is drawn thick.

The layout is a small version of Sugiyama's: a row for each level of dependency, long edges led through free places, the
order within a row by the mean position of the neighbours. Units are points (1/72 inch), y downwards.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import mean
from typing import TYPE_CHECKING

from across._draw.cluster import colours_of
from across._draw.partitions import OP, PLUMBING, Op, short_device
from across._draw.placed import Edge, Placed
from across._language import catalogue, pictured
from across._language.catalogue import marked, said
from across.pictures import ALERT, FONT, INK, PALETTE, Picture, new_figure, readable_on, render, sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LANES = 8  # more are not shown unless they were used
BOX_HEIGHT, ROW_GAP, BOX_GAP, LANE_GAP, MARGIN, HEADER = 27.0, 25.0, 10.0, 12.0, 8.0, 22.0
HEAD = 6.0  # of an arrow
THREAD, THREAD_GAP = 5.0, 2.0  # width kept free for an edge that passes a row
IDLE_WIDTH = 62.0
LETTER = 6.0  # of a lane's name, about
PAGE_WIDTH = 640.0  # of boxes: about what a notebook shows without shrinking it


@dataclass
class _Place:
    """A box, or a point that an edge passes through (`op` is None)."""

    lane: str
    row: int
    op: Op | None
    width: float
    x: float = 0.0  # of the middle


_Sides = tuple[float, float]


DATA, COPY, CONTROL = marked("same device"), marked("copied to another device"), marked("control edge")
_STYLES = {
    DATA: {"color": INK, "linestyle": "-", "linewidth": 1.2},
    COPY: {"color": ALERT, "linestyle": (0, (4, 2)), "linewidth": 1.8},
    CONTROL: {"color": ALERT, "linestyle": (0, (1, 1.3)), "linewidth": 2.0},
}
KINDS = {"Input": marked("input"), "Variable": marked("variable")}
THICK = 3.0  # points, of what is on the path that is to be seen


def draw(
    trace: Placed,
    *,
    title: str = "",
    devices: Sequence[str] | None = None,
    path: Sequence[str] = (),
    come: Sequence[str] | None = None,
    alt: str = "",
) -> Picture:
    """Draw a trace; see `Trace.draw`. `path` names ops in order: they and the edges between them are drawn thick.

    Of `come`, where it is given, nothing else is drawn, each at its place among all, the last one with an edge.
    `alt` says what the picture shows where that is no placement, or a part of one.
    """
    lanes = _lanes(trace, devices)
    trace = replace(
        trace, everything=tuple(op for op in trace.everything if op.device in lanes), available=tuple(lanes)
    )
    shown = [op for op in trace.everything if op.kind != PLUMBING]
    edges = trace.edges()
    labels = {op.name: label(op) for op in shown}
    widths = _text_widths(labels)
    rows = _rows(shown, [(edge.source, edge.target) for edge in edges], lanes, mean([*widths.values(), 40]) + 12)
    boxes = {op.name: _Place(op.device, rows[op.name], op, max(widths[op.name] + 12, 40)) for op in shown}
    ways = [_way(boxes[edge.source], boxes[edge.target]) for edge in edges]
    sides = _arrange(lanes, list(boxes.values()), ways)

    top = 24.0 if title else 4.0
    rows_height = max((place.row for place in boxes.values()), default=0) * (BOX_HEIGHT + ROW_GAP) + BOX_HEIGHT
    header = HEADER if any(lanes) else 0.0
    height = header + rows_height + 2 * MARGIN
    kinds = list(dict.fromkeys(_kind(edge) for edge in sorted(edges, key=lambda edge: (edge.control, edge.copied))))
    given = any(op.kind != OP for op in shown)
    legend = sum(42 + 4.3 * len(kind) for kind in kinds) + 60.0 * given + 90.0 * bool(path)
    width = max(sides[lanes[-1]][1] if lanes else 0.0, 7.0 * len(title), legend if edges else 0.0) + 4
    total_height = top + height + (22.0 if edges or trace.given else 4.0)
    figure, axes = sheet(width, total_height, unit=72)
    if title:
        axes.text(4, 4, title, color=INK, fontsize=FONT + 1, fontweight="bold", va="top")
    for lane in lanes:
        _draw_lane(axes, lane, sides[lane], top, height, not any(op.device == lane for op in shown))
    origin = top + header + MARGIN
    ports = _ports(ways)
    thick = set(pairwise(path))
    there = set(boxes if come is None else come)
    for number, (edge, way) in enumerate(zip(edges, ways, strict=True)):
        if not there >= {edge.source, edge.target}:
            continue
        _draw_edge(axes, way, ports[number], origin, _kind(edge), (edge.source, edge.target) in thick)
    colours = fills(lanes)
    for name, place in boxes.items():
        if name in there:
            marked_out = name in path or (come is not None and name == come[-1])
            _draw_box(axes, place, labels[name], origin, colours[lanes.index(place.lane)], marked_out)
    says = {DATA: marked("tensor")} if alt and come is None else {}
    _draw_legend(axes, total_height - 11, [(kind, says.get(kind, kind)) for kind in kinds], given, bool(path))
    return render(figure, alt or describe(trace, title))


def fills(lanes: Sequence[str]) -> list[str]:
    """A colour for each lane: its job's, as in the picture of the cluster; of its place where there is no job."""
    jobs = [lane.partition(":")[0] if " " in lane else "" for lane in lanes]  # "worker:1 CPU:0", and "CPU:0"
    colours = colours_of(jobs)
    return [colours[job] if any(jobs) else PALETTE[i % len(PALETTE)] for i, job in enumerate(jobs)]


def _kind(edge: Edge) -> str:
    return CONTROL if edge.control else COPY if edge.copied else DATA


def describe(trace: Placed, title: str = "") -> str:
    """What the picture shows, in words: "3 ops on 2 devices. CPU:0: Mul (c). CPU:1: ... Copied: ..."."""
    ops, devices = trace.ops, trace.devices()
    where = said("1 device") if len(devices) == 1 else said("{0} devices", len(devices))
    sentences = [said("1 op on {0}", where) if len(ops) == 1 else said("{0} ops on {1}", len(ops), where)]
    for device in devices:
        named = [op.type if _same(op) else f"{op.type} ({op.name})" for op in ops if op.device == device]
        sentences.append(said("{0} ran {1}", device, ", ".join(named)))
    if trace.given:
        given = [
            said("{0} {1} on {2}", said(KINDS.get(op.type, op.type.lower())), op.name, op.device) for op in trace.given
        ]
        sentences.append(said("Given: {0}", ", ".join(given)))
    if idle := [device for device in trace.available if device not in devices]:
        sentences.append(said("Nothing ran on {0}", ", ".join(idle)))
    copies = [said("{0} from {1} to {2}", name, trace[name].device, device) for name, device in trace.copies()]
    copied = said("Copied between devices: {0}", ", ".join(copies))
    sentences.append(copied if copies else said("Nothing was copied between devices"))
    words = said(". ").join(sentences)
    return said("{0}: {1}.", catalogue.given(title), words) if title else said("{0}.", words)


def _lanes(trace: Placed, devices: Sequence[str] | None) -> list[str]:
    if devices is not None:
        return list(dict.fromkeys(short_device(device) for device in devices))
    used = dict.fromkeys(op.device for op in (*trace.ops, *trace.given))
    known = list(dict.fromkeys([*trace.available, *used]))
    return known if len(known) <= LANES else [device for device in known if device in used]


def _same(op: Op) -> bool:
    """Whether the name says no more than the type: MatMul_1 of type MatMul."""
    return re.sub(r"(_\d+)?$", "", op.name.rpartition("/")[2], count=1).lower() == op.type.lower()


def label(op: Op) -> tuple[str, str]:
    """The two lines of a box: the type, and the name where it says more."""
    if op.kind != OP:
        name = "/".join(op.name.split("/")[-2:])  # of a model's weight: its layer and its name
        return name if len(name) <= 22 else name[:21] + "…", KINDS.get(op.type, op.type.lower())
    name = op.name if len(op.name) <= 22 else "…/" + op.name.rpartition("/")[2]
    name = name if len(name) <= 22 else name[:10] + "…" + name[-11:]
    parent = op.name.rpartition("/")[0].rpartition("/")[2]
    if _same(op):
        name = f"{parent}/…" if parent and len(parent) <= 20 and parent != "StatefulPartitionedCall" else ""
    return op.type, name


def _text_widths(labels: Mapping[str, tuple[str, str]]) -> dict[str, float]:
    """The width of each label in points, as it will be drawn."""
    figure = new_figure(1, 1)
    renderer = figure.canvas.get_renderer()  # pyright: ignore[reportAttributeAccessIssue]
    text = figure.text(0, 0, "")

    def width(words: str, size: float, weight: str) -> float:
        text.set(text=words, fontsize=size, fontweight=weight)
        return text.get_window_extent(renderer).width * 72 / figure.dpi

    return {name: max(width(a, FONT - 1, "bold"), width(b, FONT - 2.5, "normal")) for name, (a, b) in labels.items()}


def _rows(
    shown: Sequence[Op], edges: Sequence[tuple[str, str]], lanes: Sequence[str], typical: float
) -> dict[str, int]:
    """A row for each op: below all that it reads, just above its first reader if it reads nothing.

    A row that would make the picture wider than a page (of boxes `typical` points wide) is made into several.
    """
    before: dict[str, list[str]] = {op.name: [] for op in shown}
    after: dict[str, list[str]] = {op.name: [] for op in shown}
    rank = {op.name: i for i, op in enumerate(shown)}
    for source, target in edges:
        if rank[source] < rank[target]:  # the closing edge of a loop goes upwards: it makes no level
            before[target].append(source)
            after[source].append(target)
    level: dict[str, int] = {}
    for op in shown:
        level[op.name] = max((level[name] + 1 for name in before[op.name]), default=0)
    for op in reversed(shown):
        if not before[op.name] and after[op.name]:
            level[op.name] = min(level[name] for name in after[op.name]) - 1
    used = {op.device for op in shown}
    across = max(
        1, int((PAGE_WIDTH - IDLE_WIDTH * (len(lanes) - len(used))) / max(1, len(used)) // (typical + BOX_GAP))
    )
    rows: dict[str, int] = {}
    start = 0
    for number in range(max(level.values(), default=-1) + 1):
        count = dict.fromkeys(lanes, 0)
        for op in (op for op in shown if level[op.name] == number):
            rows[op.name] = start + count[op.device] // across
            count[op.device] += 1
        start += max(-(-most // across) for most in count.values()) if count else 1
    return rows


def _way(source: _Place, target: _Place) -> list[_Place]:
    """The ends of an edge and, between them, the places where it passes a row, in the lane that it goes to."""
    return [source, *(_Place(target.lane, row, None, THREAD) for row in range(source.row + 1, target.row)), target]


def _arrange(lanes: Sequence[str], boxes: Sequence[_Place], ways: Sequence[Sequence[_Place]]) -> dict[str, _Sides]:
    """Set the x of every place so that edges cross little; return the left and the right side of each lane."""
    cells: dict[tuple[str, int], list[_Place]] = {}
    for place in [*boxes, *(place for way in ways for place in way[1:-1])]:
        cells.setdefault((place.lane, place.row), []).append(place)
    above: dict[int, list[_Place]] = {}
    below: dict[int, list[_Place]] = {}
    for way in ways:
        for upper, lower in pairwise(way):
            above.setdefault(id(lower), []).append(upper)
            below.setdefault(id(upper), []).append(lower)
    sides: dict[str, _Sides] = {}
    left = 4.0
    for lane in lanes:
        needed = [_width(cell) for (where, _), cell in cells.items() if where == lane]
        right = left + max([IDLE_WIDTH, LETTER * len(lane) + MARGIN, *(width + 2 * MARGIN for width in needed)])
        sides[lane] = (left, right)
        left = right + LANE_GAP
    for (lane, _), cell in cells.items():
        _spread(cell, sides[lane])
    for sweep in range(6):
        near = above if sweep % 2 == 0 else below
        for (lane, _), cell in sorted(cells.items(), key=lambda item: item[0][1], reverse=bool(sweep % 2)):
            cell.sort(key=lambda place: mean([other.x for other in near.get(id(place), [place])]))
            _spread(cell, sides[lane])
    return sides


def _width(cell: Sequence[_Place]) -> float:
    return sum(place.width for place in cell) + sum(_gap(*pair) for pair in pairwise(cell))


def _gap(left: _Place, right: _Place) -> float:
    return BOX_GAP if left.op or right.op else THREAD_GAP


def _spread(cell: Sequence[_Place], sides: _Sides) -> None:
    """Put the places of a row side by side in the middle of their lane."""
    x = (sides[0] + sides[1] - _width(cell)) / 2
    for place, after in zip(cell, [*cell[1:], None], strict=True):
        place.x = x + place.width / 2
        x += place.width + (_gap(place, after) if after else 0.0)


def _ports(ways: Sequence[Sequence[_Place]]) -> list[tuple[float, float]]:
    """Where each edge leaves its source and enters its target (x): side by side, in the order of where they lead."""
    ports = [[way[0].x, way[-1].x] for way in ways]
    for end, near in ((0, 1), (-1, -2)):
        groups: dict[int, list[int]] = {}
        for number, way in enumerate(ways):
            groups.setdefault(id(way[end]), []).append(number)
        for numbers in groups.values():
            numbers.sort(key=lambda number: ways[number][near].x)
            place = ways[numbers[0]][end]
            step = min(12.0, place.width * 0.7 / len(numbers))
            for position, number in enumerate(numbers):
                ports[number][end] = place.x + (position - (len(numbers) - 1) / 2) * step
    return [(first, last) for first, last in ports]


def _draw_lane(axes: Axes, lane: str, sides: _Sides, top: float, height: float, idle: bool) -> None:
    from matplotlib.patches import FancyBboxPatch

    left, right = sides
    axes.add_patch(
        FancyBboxPatch(
            (left, top), right - left, height, boxstyle="round,pad=0,rounding_size=5", fc=INK, ec="none", alpha=0.09
        )
    )
    middle = (left + right) / 2
    axes.text(middle, top + MARGIN, lane, color=INK, fontsize=FONT, fontweight="bold", ha="center", va="top")
    if idle:
        axes.text(
            middle,
            top + HEADER + MARGIN,
            marked("idle"),
            color=INK,
            fontsize=FONT - 1,
            ha="center",
            va="top",
            fontstyle="italic",
        )


def _draw_box(axes: Axes, place: _Place, label: tuple[str, str], origin: float, fill: str, thick: bool) -> None:
    """An op is a filled box; what the function was given is only outlined."""
    from matplotlib.patches import FancyBboxPatch

    assert place.op is not None
    y = origin + place.row * (BOX_HEIGHT + ROW_GAP)
    given = place.op.kind != OP
    axes.add_patch(
        FancyBboxPatch(
            (place.x - place.width / 2, y),
            place.width,
            BOX_HEIGHT,
            boxstyle="round,pad=0,rounding_size=4",
            fc="none" if given else fill,
            ec=INK if given or thick else "none",
            lw=THICK if thick else 1.2,
            zorder=3,
        )
    )
    ink = INK if given else readable_on(fill)
    middle = y + BOX_HEIGHT / 2
    first, second = label
    axes.text(
        place.x,
        middle - (5 if second else 0),
        first,
        color=ink,
        fontsize=FONT - 1,
        fontweight="bold",
        ha="center",
        va="center",
        zorder=4,
        gid=pictured.NAME,
    )
    style = {"fontsize": FONT - 2.5, "ha": "center", "va": "center", "zorder": 4}
    axes.text(place.x, middle + 6.5, second, color=ink, gid=None if given else pictured.NAME, **style)


def _draw_edge(
    axes: Axes, way: Sequence[_Place], ports: tuple[float, float], origin: float, kind: str, thick: bool
) -> None:
    """A curve with an arrow's head; it moves sideways only between two rows, where there are no boxes."""
    from matplotlib.patches import PathPatch, Polygon
    from matplotlib.path import Path

    tops = [origin + place.row * (BOX_HEIGHT + ROW_GAP) for place in way]
    xs = [ports[0], *(place.x for place in way[1:-1]), ports[1]]
    x, y = xs[0], tops[0] + BOX_HEIGHT
    points, codes = [(x, y)], [Path.MOVETO]
    for x, y in zip(xs[1:], tops[1:], strict=True):
        from_x, from_y = points[-1]
        half = max(abs(y - from_y) / 2, 12.0)
        points += [(from_x, from_y + half), (x, y - half), (x, y)]
        codes += [Path.CURVE4] * 3
        if (x, y) != (xs[-1], tops[-1]):
            points.append((x, y + BOX_HEIGHT))
            codes.append(Path.LINETO)
    colour = str(_STYLES[kind]["color"])
    style = {**_STYLES[kind], "linewidth": THICK} if thick else _STYLES[kind]
    axes.add_patch(PathPatch(Path([*points[:-1], (x, y - HEAD / 2)], codes), fc="none", zorder=2, **style))
    head = [(x - HEAD / 2, y - HEAD), (x + HEAD / 2, y - HEAD), (x, y)]
    axes.add_patch(Polygon(head, fc="none" if kind == CONTROL else colour, ec=colour, lw=0.8, zorder=2))


def _draw_legend(axes: Axes, y: float, kinds: Sequence[tuple[str, str]], given: bool, path: bool) -> None:
    from matplotlib.patches import Rectangle

    x = 6.0
    for kind, text in kinds:
        axes.plot([x, x + 22], [y, y], **_STYLES[kind])
        axes.text(x + 27, y, text, color=INK, fontsize=FONT - 1.5, va="center")
        x += 42 + 4.3 * len(text)
    for there, width, text in ((given, 1.2, marked("given")), (path, THICK, marked("critical path"))):
        if there:
            axes.add_patch(Rectangle((x, y - 5), 18, 10, fc="none", ec=INK, lw=width))
            axes.text(x + 23, y, text, color=INK, fontsize=FONT - 1.5, va="center")
            x += 60
