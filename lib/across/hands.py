"""Pictures that are moved by hand: sliders, a finger or the arrow keys; no kernel is asked, nothing is loaded.

    hands.draw_lines({"a ring": seconds}, {"devices": [2, 4, 8], "MB": [1, 10]}, title="One sum", y="seconds")

What a line shows is asked of its function when the cell runs, at each place that the sliders can reach, and travels with the
picture; its script picks from that. Where scripts do not run there are the picture as it starts, and a table.
"""

from __future__ import annotations

import html
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from across import pictures, placement
from across._draw import lanes
from across._draw.partitions import VARIABLE, short_device
from across._draw.placed import Placed, bytes_of
from across._language.catalogue import given, said
from across.pictures import FONT, INK, PALETTE, Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SCRIPT = Path(__file__).parent / "_draw" / "hands.js"
STYLES = (
    (PALETTE[7], "s-", ""),
    (PALETTE[5], "o--", "7 4"),
    (PALETTE[2], "^:", "2 3"),
)  # colour; of matplotlib, of SVG


@dataclass(frozen=True)
class Hands:
    """A picture as it starts, and what moves in its place where scripts run. `says` tells in words what is shown at first."""

    start: Picture
    moves: str  # HTML
    says: str
    table: str  # HTML: the numbers that `start` shows
    data: Mapping[str, Any]  # that the script picks from

    def __repr__(self) -> str:
        return self.start.alt

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        bundle, facts = self.start._repr_mimebundle_()
        known = html.escape(json.dumps(self.data, ensure_ascii=False, separators=(",", ":")), quote=False)
        known = known.replace("'", "&#39;")
        words = html.escape(self.says)
        text = (  # Lumino, JupyterLab's keyboard, leaves the arrow keys to what says so
            f"<figure style='margin: 0' data-lm-suppress-shortcuts='true' data-hands='{known}'>"
            f"<div data-still>{bundle['text/html']}</div><div data-moves hidden>{self.moves}</div>"
            f'<output aria-live="polite" style="display: block; margin: 0.3em 0">{words}</output>'
            f"<details><summary>{html.escape(said('The same as a table'))}</summary>{self.table}</details>"
            f"<script>({SCRIPT.read_text(encoding='utf-8')})(document.currentScript.closest('figure'))</script></figure>"
        )
        return {**bundle, "text/html": text}, facts


def draw_lines(
    lines: Mapping[str, Callable[..., float]],
    over: Mapping[str, Sequence[float | str]],
    *,
    title: str,
    y: str,
    start: Sequence[float | str],
    log: bool = False,
    none: str = "",
) -> Hands:
    """A line for each function over the first values of `over`, and a slider for each of its names.

    A function is called with a value of each name, in their order; `start` has those that are shown at first. `y` names what it
    returns, with the unit, and `none` what it means where that is NaN. `log`: both axes are logarithmic. Raises ValueError for
    a value of `start` that no slider has.
    """
    names, values = list(over), list(over.values())
    at = [each.index(value) for each, value in zip(map(list, values), start, strict=True)]
    settings = list(itertools.product(*values[1:]))
    grid = {
        name: [[float(line(x, *setting)) for x in values[0]] for setting in settings] for name, line in lines.items()
    }
    row = settings.index(tuple(start[1:]))
    figure, axes = pictures.plot(5.8, 3.2, title=title, x=names[0], y=y)
    axes.set_title(title, color=INK, fontsize=FONT + 1, fontweight="bold", loc="left", pad=24)  # of the legend's height
    for name, (colour, form, _) in zip(grid, STYLES, strict=False):
        axes.plot([], [], form, color=colour, label=name)
    _scale(axes, values[0], [v for rows in grid.values() for v in itertools.chain(*rows) if not math.isnan(v)], log)
    axes.legend(
        frameon=False, labelcolor=INK, fontsize=FONT, loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderpad=0
    )
    under = pictures.render(figure, "")
    across, down, bounds = _points(figure, axes, values[0], grid)
    texts = [[_text(value) for value in each] for each in values]
    says = {name: [[_said(value, none) for value in each] for each in rows] for name, rows in grid.items()}
    shown = {name: rows[row] for name, rows in says.items()}
    pair, comma = said("{0} {1}", "{0}", "{1}"), said(", ")  # places that are filled in below, and by the script
    whole = said("{0}: {1}; {2}", given(y), "{1}", "{2}")
    words = [pair.format(given(name), texts[i][at[i]]) for i, name in enumerate(names)]
    told = [pair.format(given(name), row[at[0]]) for name, row in shown.items()]
    for (_, rows), (colour, form, _) in zip(grid.items(), STYLES, strict=False):
        axes.plot(values[0], rows[row], form, color=colour)
    ends, semicolon = said("{0} {1} at {2}, {3} at {4}", "{0}", "{1}", texts[0][0], "{3}", texts[0][-1]), said("; ")
    all_told = said("{0}, in {1}, at {2}. {3}.", given(title), given(y), "{2}", "{3}")
    each = semicolon.join(
        ends.replace("{0}", given(name)).replace("{1}", row[0]).replace("{3}", row[-1]) for name, row in shown.items()
    )
    alt = all_told.replace("{2}", comma.join(words[1:])).replace("{3}", each)
    rows = [[x, *numbers] for x, *numbers in zip(texts[0], *shown.values(), strict=True)]
    return Hands(
        pictures.render(figure, alt),
        _moving(replace(under, alt=alt), len(lines), bounds) + _sliders([given(name) for name in names], texts, at),
        whole.replace("{1}", comma.join(told)).replace("{2}", comma.join(words)),
        pictures.table_html([given(names[0]), *map(given, lines)], rows, note=comma.join(words[1:])),
        {
            "kind": "lines",
            "names": [given(name) for name in names],
            "values": texts,
            "x": across,
            "lines": [{"name": given(name), "y": down[name], "says": says[name]} for name in grid],
            "pair": pair,
            "comma": comma,
            "whole": whole,
            "alt": all_told,
            "ends": ends,
            "semicolon": semicolon,
        },
    )


def draw_placement(fn: Callable[..., Any], *args: Any, title: str, devices: Sequence[str]) -> Hands:
    """The ops of `fn(*args)`, each dragged to another of the lanes `devices`; what is copied then, and its bytes, follow.

    They begin where TensorFlow ran them, in a graph of `fn`. The graph runs once more for each lane, with all of its ops pinned
    there: an op that TensorFlow ran elsewhere all the same goes where it ran. Raises ValueError for a tensor of unknown size.
    """
    import tensorflow as tf

    def pinned(device: str) -> placement.Trace:
        def graph(*inputs: Any) -> Any:
            with tf.compat.v1.device(lambda op: device or op.device):
                return fn(*inputs)

        traced = tf.function(graph)
        traced.get_concrete_function(*args)  # where a call traces, TensorFlow counts: it would warn of the fifth
        return placement.trace(traced, *args)

    return _placed(pinned(""), [pinned(device) for device in devices], title, devices)


def _placed(seen: Placed, answers: Sequence[Placed], title: str, devices: Sequence[str]) -> Hands:
    """`seen`: what ran where; `answers`: the same, of each lane, where all was pinned to it."""
    names = [short_device(device) for device in devices]
    of = said("{0}: {1}", given(title), "{1}") if title else "{1}"  # a place that is filled in below, and by the script
    ran = [{op.name: op.device for op in each.ops} for each in answers]
    given_ops = [op for op in seen.given if op.device in names]
    ops = [*given_ops, *(op for op in seen.ops if op.device in names)]
    at = {op.name: number for number, op in enumerate(ops)}
    rows = [sum(other.device == op.device for other in given_ops[:number]) for number, op in enumerate(given_ops)]
    first = max(rows, default=-1) + 1
    reads = {op.name: [at[e.source] for e in seen.edges() if e.target == op.name and e.source in at] for op in ops}
    carried = {each for sources in reads.values() for each in sources if ops[each].kind != VARIABLE}
    found = []
    for number, op in enumerate(ops):
        fixed, (first_line, second) = number < len(given_ops), lanes.label(op)
        went = [each.get(op.name, op.device) for each in ran]
        found.append(
            {
                "name": op.name if fixed else " ".join(filter(None, (first_line, second))),
                "label": [first_line, given(second) if fixed else second],
                "fixed": fixed,
                "lane": names.index(op.device),
                "row": rows[number] if fixed else first + number - len(given_ops),
                "reads": reads[op.name],
                "bytes": bytes_of(op) if number in carried else 0,
                "answers": [names.index(device) if device in names else None for device in went],
                "said": went,
            }
        )
    total = said("{0}: {1} copies, {2} bytes", "{0}", "{1}", "{2}")
    recorded = said("TensorFlow's placement")
    copied = [(name, to) for name, to in seen.copies() if name in at and to in names]
    says = total.format(recorded, len(copied), sum(bytes_of(seen[name]) for name, _ in copied))
    cells = [[op.name, op.type, op.device, ", ".join(ops[each].name for each in reads[op.name])] for op in ops]
    table = pictures.table_html([said("op"), said("type"), said("device"), said("reads")], cells)
    return Hands(
        lanes.draw(seen, title=title, devices=devices),
        f'<svg role="group" aria-label="{html.escape(of.replace("{1}", says), quote=True)}" '
        'font-size="12" font-family="sans-serif" style="width: 100%; background: #ffffff; touch-action: pan-y"></svg>'
        f"<div>{html.escape(said('Drag an op to another device; or go to it by Tab, and move it by the arrow keys.'))}</div>",
        says,
        table,
        {
            "kind": "placement",
            "lanes": names,
            "fills": [[fill, pictures.readable_on(fill)] for fill in lanes.fills(names)],
            "ops": found,
            "rows": first + len(ops) - len(given_ops),
            "ink": INK,
            "alert": pictures.ALERT,
            "title": f"{given(title)} ({{0}})",
            "recorded": recorded,
            "simulated": said("SIMULATED"),
            "sum": total,
            "of": of,
            "moved": said("{0} on {1}. ", "{0}", "{1}"),
            "stays": said("RECORDED: {0}, pinned to {1}, ran on {2}. ", "{0}", "{1}", "{2}"),
        },
    )


def _scale(axes: Axes, x: Sequence[float | str], every: Sequence[float], log: bool) -> None:
    """Axes that hold every place of a line, so that none moves with it."""
    low, high = min(every), max(every)
    if log:
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_ylim(low / 1.5, high * 1.5)
        axes.minorticks_off()
    else:
        axes.set_ylim(min(0.0, low), high * 1.08)
    axes.set_xticks(list(x), [_text(each) for each in x])
    axes.grid(axis="y", color=INK, alpha=0.3, linewidth=0.6)
    axes.plot(x, [low] * len(x), alpha=0)


def _points(
    figure: Figure, axes: Axes, x: Sequence[Any], grid: Mapping[str, Sequence[Sequence[float]]]
) -> tuple[list[float], dict[str, list[list[float | None]]], list[float]]:
    """Where the numbers are in the picture, in CSS pixels from its upper left corner; None for what is no number.

    The last value: where the axes begin and end, from above.
    """
    scale, height = 96 / figure.dpi, figure.get_size_inches()[1] * 96

    def place(at: Any, value: float) -> tuple[float, float]:
        right, up = axes.transData.transform((at, value)) * scale
        return round(float(right), 1), round(float(height - up), 1)

    down = {
        name: [[None if math.isnan(v) else place(x[0], v)[1] for v in row] for row in rows]
        for name, rows in grid.items()
    }
    ends = [place(x[0], each)[1] for each in axes.get_ylim()]
    return [place(each, axes.get_ylim()[0])[0] for each in x], down, ends[::-1]


def _moving(under: Picture, count: int, ends: Sequence[float]) -> str:
    """The picture without its lines, and lines above it that the script moves: one picture, of `under`'s words."""
    bundle, _facts = under._repr_mimebundle_()
    drawn = "".join(
        f'<polyline fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>'
        f'<circle r="5" fill="{colour}" stroke="#ffffff"/>'
        for colour, _, dash in STYLES[:count]
    )
    return (
        f'<div style="position: relative; width: {under.width}px; max-width: 100%">{bundle["text/html"]}'
        f'<svg viewBox="0 0 {under.width} {under.height}" aria-hidden="true" '
        'style="position: absolute; left: 0; top: 0; width: 100%; height: auto; touch-action: pan-y; cursor: crosshair">'
        f'<line data-at y1="{ends[0]}" y2="{ends[1]}" stroke="{INK}" stroke-dasharray="1 3"/>{drawn}</svg></div>'
    )


def _sliders(names: Sequence[str], texts: Sequence[Sequence[str]], at: Sequence[int]) -> str:
    rows = [
        f'<label style="display: inline-flex; align-items: center; gap: 0.5em">{html.escape(name)}'
        f'<input type="range" min="0" max="{len(each) - 1}" value="{now}" step="1" style="width: 9em" '
        f'aria-label="{html.escape(name, quote=True)}" aria-valuetext="{html.escape(each[now], quote=True)}">'
        f'<span style="min-width: 3.5em">{html.escape(each[now])}</span></label>'
        for name, each, now in zip(names, texts, at, strict=True)
    ]
    return f'<div style="display: flex; flex-wrap: wrap; gap: 0.2em 1.5em">{"".join(rows)}</div>'


def _said(value: float, none: str) -> str:
    return given(none) if math.isnan(value) else f"{value:.3g}"


def _text(value: float | str) -> str:
    return given(value) if isinstance(value, str) else f"{value:.3g}"
