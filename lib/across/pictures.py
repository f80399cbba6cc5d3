"""The one picture vocabulary of the course: colours, tables, bars and timelines, each with alt text made from its data.

A picture is white paper, on a dark page too: no ink has a contrast of 4.5 to 1 on white and on JupyterLab's dark theme alike.
What is written inside a filled shape is black or white, whichever reads better on it. Differences are never told by colour
alone. Colours: Okabe and Ito, "Color universal design" (2008).
"""

from __future__ import annotations

import base64
import html
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar

from across._language import pictured
from across._language.catalogue import given, said

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "ALERT",
    "FONT",
    "INK",
    "PALETTE",
    "Picture",
    "Span",
    "Stepper",
    "Tabled",
    "bars",
    "luminance",
    "moment",
    "new_figure",
    "plot",
    "readable_on",
    "render",
    "sheet",
    "style",
    "table_html",
    "table_text",
    "timeline",
]

PAPER = "#ffffff"  # what a picture is drawn on
INK = "#595959"  # text and lines: 7 to 1 on paper, 6 to 1 on the grey of a lane
PALETTE = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#0072B2", "#999999", "#D55E00")
ALERT = "#D55E00"  # what the eye should find: a copy between devices, say
DPI = 160
FONT = 9.0  # points


@dataclass(frozen=True)
class Picture:
    """A picture as the last value of a cell or an argument of `display`. `alt` says in words what it shows."""

    png: bytes = field(repr=False)
    alt: str
    width: int  # CSS pixels
    height: int

    def save(self, path: str | Path) -> Path:
        """Write the PNG to `path` and return it."""
        Path(path).write_bytes(self.png)
        return Path(path)

    def __repr__(self) -> str:
        return self.alt

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        data = base64.b64encode(self.png).decode()
        alt = html.escape(self.alt, quote=True)
        image = (  # HTML too, because JupyterLab shows an image/png output without any alt text
            f'<img src="data:image/png;base64,{data}" alt="{alt}" width="{self.width}" style="max-width: 100%; height: auto">'
        )
        facts = {"alt": self.alt, "width": self.width, "height": self.height}
        return {"text/html": image, "image/png": data, "text/plain": self.alt}, {"image/png": facts}


@dataclass(frozen=True)
class Stepper:
    """Pictures of one thing, step by step: a slider moves through them, by mouse or arrow keys; no kernel is asked.

    `steps` has the words of each step, shown beside the slider, and its picture. Where scripts do not run, the first picture
    is shown alone.
    """

    steps: Mapping[str, Picture]
    title: str

    def __repr__(self) -> str:
        told = " ".join(said("{0}: {1}", given(words), picture.alt) for words, picture in self.steps.items())
        return said("{0}. {1}", given(self.title), told)

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        title, *said = (html.escape(given(words), quote=True) for words in (self.title, *self.steps))
        frames = []
        for words, picture in zip(said, self.steps.values(), strict=True):
            bundle, _facts = picture._repr_mimebundle_()
            frames.append(f'<div data-words="{words}"{" hidden" if frames else ""}>{bundle["text/html"]}</div>')
        slider = (  # Lumino, JupyterLab's keyboard, leaves the arrow keys to what says so
            '<input type="range" data-lm-suppress-shortcuts="true" '
            f'min="0" max="{len(frames) - 1}" value="0" step="1" style="width: 16em; max-width: 60%" '
            f'aria-label="{title}" aria-valuetext="{said[0]}" '
            f'oninput="{_MOVE}">'
        )
        shown = f'{"".join(frames)}<div>{slider}<output aria-live="polite" style="margin-left: 1em">{said[0]}</output></div>'
        text = f'<figure style="margin: 0">{shown}</figure>'
        bundle, facts = next(iter(self.steps.values()))._repr_mimebundle_()
        return {**bundle, "text/html": text, "text/plain": repr(self)}, facts


_MOVE = (  # an attribute, because it runs wherever scripts do, without an id that another output may have
    "var me = this, frames = me.closest('figure').querySelectorAll('[data-words]');"
    "frames.forEach(function (frame, number) { frame.hidden = number !== +me.value; });"
    "var words = frames[+me.value].dataset.words;"
    "me.nextElementSibling.textContent = words; me.setAttribute('aria-valuetext', words);"
)


def readable_on(fill: str) -> str:
    """Black or white: the text colour with the higher contrast on `fill` ("#rrggbb")."""
    return "#000000" if luminance(fill) > 0.179 else "#ffffff"


def luminance(colour: str) -> float:
    """Relative luminance of "#rrggbb", 0 to 1 (WCAG 2.2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def new_figure(width: float, height: float) -> Figure:
    """A figure of `width` x `height` inches that no other code sees (pyplot's state is left alone)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DPI)
    FigureCanvasAgg(figure)
    return figure


def sheet(width: float, height: float, *, unit: float = 1.0) -> tuple[Figure, Axes]:
    """An empty page without a chart's axes, in lengths of which `unit` are an inch, from its upper left corner on."""
    figure = new_figure(width / unit, height / unit)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    return figure, axes


def render(figure: Figure, alt: str) -> Picture:
    """Turn a figure into a Picture, its fixed words in the language of this process. Backticks are for prose: they go."""
    from matplotlib.text import Text

    pictured.translate(figure)
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        if "`" in text.get_text():
            text.set_text(text.get_text().replace("`", ""))
    stream = io.BytesIO()
    figure.savefig(stream, format="png", facecolor=PAPER, dpi=DPI)
    width, height = figure.get_size_inches()
    return Picture(stream.getvalue(), given(alt), round(width * 96), round(height * 96))


def plot(width: float = 7.0, height: float = 3.0, *, title: str, x: str, y: str) -> tuple[Figure, Axes]:
    """An empty chart in the course's style; `x` and `y` name the axes and their units. Finish it with `render`."""
    figure = new_figure(width, height)
    axes = figure.add_subplot()
    style(axes, title=title, x=x, y=y)
    figure.set_layout_engine("constrained")
    return figure, axes


def moment(axes: Axes, at: float, height: float, words: str, line: str) -> None:
    """When something happened: an upright line of that style at `at`, with a chapter's words for it at its top."""
    axes.plot([at] * 2, [0, height], color=ALERT, linestyle=line, linewidth=1.0)
    axes.text(at, height, f" {pictured.word(words)}", color=INK, fontsize=FONT, va="center")


def style(axes: Axes, *, title: str, x: str, y: str) -> None:
    """Give `axes` the course's style; `x` and `y` name them and their units."""
    axes.set_title(title, color=INK, fontsize=FONT + 1, fontweight="bold", loc="left")
    axes.set_xlabel(x, color=INK, fontsize=FONT)
    axes.set_ylabel(y, color=INK, fontsize=FONT)
    axes.tick_params(colors=INK, labelsize=FONT)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(INK)
    axes.set_axisbelow(True)


def bars(values: Mapping[str, float | Sequence[float]], *, title: str, unit: str) -> Picture:
    """One bar a name. Several measurements of a name become their median, every one of them a dot beside it.

    `unit` names the axis: "milliseconds", "images a second". Raises ValueError when there is nothing to draw.
    """
    if not values:
        raise ValueError("bars: no values")
    runs = {
        name: [float(v) for v in value] if isinstance(value, Sequence) else [float(value)]
        for name, value in values.items()
    }
    figure, axes = plot(7.0, 1.0 + 0.42 * len(runs), title=title, x=unit, y="")
    axes.grid(axis="x", color=INK, alpha=0.3, linewidth=0.6)
    furthest = max(max(run) for run in runs.values())
    for row, run in enumerate(runs.values()):
        middle = median(run)
        axes.barh(row, middle, height=0.62, color=PALETTE[0], edgecolor=INK, linewidth=0.8)
        if len(run) > 1:
            axes.plot(run, [row] * len(run), "o", color="white", markeredgecolor="black", markersize=4)
        axes.annotate(
            f"{middle:.3g}",
            (max(*run, middle, 0.0), row),
            (6, 0),
            textcoords="offset points",
            va="center",
            color=INK,
            fontsize=FONT,
        )
    axes.set_yticks(range(len(runs)), list(runs))
    axes.invert_yaxis()
    axes.set_xlim(min(0.0, *(min(run) for run in runs.values())), furthest * 1.12 or 1.0)
    several = max(len(run) for run in runs.values()) > 1
    if several:
        axes.set_xlabel(
            pictured.said("{0} (bar: median; dots: each run)", pictured.word(unit)), color=INK, fontsize=FONT
        )
    sentences = [
        said("{0} {1:.3g}", given(name), median(run))
        + (said(" ({0:.3g} to {1:.3g} in {2} runs)", min(run), max(run), len(run)) if len(run) > 1 else "")
        for name, run in runs.items()
    ]
    return render(figure, said("Bar chart, {0}, in {1}: {2}.", given(title), given(unit), said("; ").join(sentences)))


@dataclass(frozen=True)
class Span:
    """Something that lasted from `start` to `end`, in one lane of a timeline."""

    lane: str
    start: float
    end: float
    label: str = ""


def timeline(
    spans: Sequence[Span], *, title: str, unit: str, lanes: Sequence[str] = (), until: float | None = None
) -> Picture:
    """Spans in lanes (a device, a thread, a worker) over time in `unit`. Spans of one lane that overlap are stacked.

    Colour means the op: spans of one label, `MatMul` and `MatMul_1`, look alike in every lane; of no label, those of a lane.
    Pictures that are to be compared are given the same `lanes`, idle ones too, and the same end of the time axis, `until`.
    Raises ValueError when there is nothing to draw.
    """
    if not spans:
        raise ValueError("timeline: no spans")
    lanes = list(dict.fromkeys([*lanes, *(span.lane for span in spans)]))
    rows, ticks, height = [], [], 0
    for lane in lanes:
        placed, depth = _stacked([span for span in spans if span.lane == lane])
        rows += [(span, height + row) for span, row in placed]
        depth = max(depth, 1)
        ticks.append(height + (depth - 1) / 2)
        height += depth
    figure, axes = plot(7.5, 1.0 + 0.34 * height, title=title, x=unit, y="")
    axes.grid(axis="x", color=INK, alpha=0.3, linewidth=0.6)
    first, last = min(span.start for span in spans), max([until or 0.0, *(span.end for span in spans)])
    axes.set_xlim(first, last if last > first else first + 1)
    axes.set_ylim(height - 0.5, -0.5)
    axes.set_yticks(ticks, lanes)
    texts = []
    kinds = sorted(set(map(_kind, spans)))  # so that pictures of the same ops are of the same colours
    for span, row in rows:
        fill = PALETTE[kinds.index(_kind(span)) % len(PALETTE)]
        axes.barh(row, span.end - span.start, left=span.start, height=0.8, color=fill, edgecolor=INK, linewidth=0.8)
        middle = (span.start + span.end) / 2
        texts.append(
            (
                span,
                axes.text(
                    middle, row, span.label, ha="center", va="center", fontsize=FONT - 1.5, color=readable_on(fill)
                ),
            )
        )
    pictured.translate(figure)  # as wide as they will be
    figure.canvas.draw()
    for span, text in texts:  # a label that does not fit would cover its neighbours: the alt text keeps it
        left, right = (axes.transData.transform((x, 0))[0] for x in (span.start, span.end))
        text.set_visible(text.get_window_extent().width <= right - left - 2)
    told = {lane: list[str]() for lane in lanes}
    for each in spans:
        told[each.lane].append(said("{0} {1:.3g} to {2:.3g}", given(each.label) or said("busy"), each.start, each.end))
    sentences = [said("{0}: {1}", given(lane), said(", ").join(each) or said("idle")) for lane, each in told.items()]
    return render(figure, said("Timeline, {0}, in {1}. {2}.", given(title), given(unit), said("; ").join(sentences)))


def _kind(span: Span) -> str:
    return re.sub(r"_\d+$", "", span.label) or span.lane


def _stacked(spans: Sequence[Span]) -> tuple[list[tuple[Span, int]], int]:
    """Give each span the first row that is free when it starts; return them and the number of rows."""
    ends: list[float] = []
    placed = []
    for span in sorted(spans, key=lambda span: span.start):
        row = next((i for i, end in enumerate(ends) if end <= span.start), len(ends))
        ends[row : row + 1] = [span.end]
        placed.append((span, row))
    return placed, len(ends)


def table_text(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as plain text; columns without any entry are left out."""
    from rich import box
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    kept = _filled(columns, rows)
    for column in kept:
        width = max(cell_len(text) for text in (columns[column], *(row[column] for row in rows)))
        least = width if column == kept[0] else None  # what a row is about is never cut
        table.add_column(columns[column], no_wrap=True, min_width=least)
    for row in rows:
        table.add_row(*(Text(row[column]) for column in kept))
    out = io.StringIO()
    Console(file=out, width=200, color_system=None, force_jupyter=False).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


def table_html(columns: Sequence[str], rows: Sequence[Sequence[str]], *, note: str = "") -> str:
    """The same table for a notebook, its heads in the reader's language, with a line of text under it."""
    kept = _filled(columns, rows)
    left = 'style="text-align: left"'
    head = "".join(f'<th scope="col" {left}>{html.escape(given(columns[column]))}</th>' for column in kept)
    body = "".join(
        "<tr>" + "".join(f"<td {left}>{html.escape(row[column])}</td>" for column in kept) + "</tr>" for row in rows
    )
    end = f"<p>{html.escape(note)}</p>" if note else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{end}"


class Tabled:
    """What is shown as a table, here and in a notebook: `rows` under `columns`, and under them a `note`."""

    columns: ClassVar[Sequence[str]]

    def rows(self) -> list[list[str]]:
        """The text of each row, an entry a column."""
        raise NotImplementedError

    def note(self) -> str:
        """A line under the table; none if it is empty."""
        return ""

    def __repr__(self) -> str:
        return "\n".join(filter(None, [table_text(self.columns, self.rows()), self.note()]))

    def _repr_html_(self) -> str:
        return table_html(self.columns, self.rows(), note=self.note())


def _filled(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [i for i in range(len(columns)) if not rows or any(row[i] for row in rows)]
