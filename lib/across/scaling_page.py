"""The page of a scaling study, made from its data: what was predicted, what was measured, and a picture of both.

    draw(study, "1 replica", title="Strong scaling")              # the prediction dashed, each run a dot
    page(study, "1 replica", headings=["Prediction", "Difference"])

`work` says how many times the examples of the base a configuration gets through: {"2 replicas, twice the batch": 2}.
"""

from __future__ import annotations

import contextlib
import html
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from across import pictures
from across.study import Ratio, Study, machine

__all__ = ["Page", "draw", "page"]

COLUMNS = ("configuration", "predicted", "measured", "smallest to largest", "pairs", "left out", "chance")


@dataclass(frozen=True)
class Page:
    """A page as the last value of a cell: a table and a picture to look at, and the same as Markdown to copy."""

    markdown: str
    table: str  # HTML
    picture: pictures.Picture

    def __repr__(self) -> str:
        return self.markdown

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        image = self.picture._repr_mimebundle_()[0]["text/html"]
        copied = f"<p>To copy:</p><pre>{html.escape(self.markdown)}</pre>"
        return {"text/html": f"{self.table}{image}{copied}", "text/plain": self.markdown}


def page(
    study: Study,
    base: str,
    work: Mapping[str, float] | None = None,
    *,
    headings: Sequence[str] = (),
    chance: Callable[[list[float]], float] | None = None,
) -> Page:
    """The page of `study`: a row for each configuration but `base`, then the `headings`, under which somebody writes.

    `chance` gives of the ratios of a row the number in its last column; one that is not written yet leaves it empty.
    """
    stated = study.stated()
    values = stated.values if stated else {}
    rows = []
    for name, ratio in _ratios(study, base, work).items():
        said = f"{values[name]:.2f}" if name in values else ""
        row = [name, said, "not measured", "", "0", str(_failed(study, base, name)), ""]
        if ratio:
            row[2:5] = [f"{ratio.median:.2f}", f"{ratio.low:.2f} to {ratio.high:.2f}", str(len(ratio.values))]
            with contextlib.suppress(NotImplementedError):
                row[6] = f"{chance(list(ratio.values)):.3f}" if chance else ""
        rows.append(row)
    note = f"{machine()}. Examples a second, times those of {base}, in each of {study.repeats} repeats. {_when(study)}"
    lines = [" | ".join(COLUMNS), "|".join(["---"] * len(COLUMNS)), *(" | ".join(row) for row in rows)]
    text = "\n".join([f"| {lines[0]} |", f"|{lines[1]}|", *(f"| {line} |" for line in lines[2:]), "", note])
    text += "".join(f"\n\n**{heading}.** …" for heading in headings)
    return Page(text, pictures.table_html(COLUMNS, rows, note=note), draw(study, base, work, title="Speed-up"))


def draw(study: Study, base: str, work: Mapping[str, float] | None = None, *, title: str) -> pictures.Picture:
    """A row for each configuration but `base`: each repeat's ratio a dot, their median a line, the prediction dashed."""
    stated = study.stated()
    values = stated.values if stated else {}
    found = _ratios(study, base, work)
    x = f"examples a second, times those of {base} (dots: each repeat; line: median; dashed: predicted)"
    figure, axes = pictures.plot(7.5, 1.1 + 0.5 * max(1, len(found)), title=title, x=x, y="")
    axes.xaxis.label.set_fontsize(pictures.FONT - 1)
    axes.grid(axis="x", color=pictures.INK, alpha=0.3, linewidth=0.6)
    axes.axvline(1.0, color=pictures.INK, linewidth=0.8)
    words = []
    for row, (name, ratio) in enumerate(found.items()):
        said = "measured by no pair"
        if ratio:
            dots = {"color": "white", "markeredgecolor": pictures.INK, "markersize": 5}
            axes.plot(ratio.values, [row] * len(ratio.values), "o", **dots)
            axes.vlines(ratio.median, row - 0.3, row + 0.3, color=pictures.PALETTE[5], linewidth=2.2)
            said = f"measured {ratio}"
        if name in values:
            axes.vlines(values[name], row - 0.4, row + 0.4, color=pictures.ALERT, linestyle="--", linewidth=1.8)
            said = f"predicted {values[name]:.2f}, {said}"
        words.append(f"{name}: {said}")
    axes.set_yticks(range(len(found)), list(found))
    axes.set_ylim(max(1, len(found)) - 0.5, -0.5)
    axes.set_xlim(left=0.0)
    return pictures.render(figure, f"{title}, examples a second, times those of {base}. {'; '.join(words)}.")


def _ratios(study: Study, base: str, work: Mapping[str, float] | None) -> dict[str, Ratio | None]:
    return {
        name: study.speedup(base, name, (work or {}).get(name, 1.0)) for name in study.configurations if name != base
    }


def _failed(study: Study, base: str, name: str) -> int:
    """Of how many repeats a run of one of the two has failed."""
    return len({run.repeat for run in study.runs() if run.error and run.name in (base, name)})


def _when(study: Study) -> str:
    """When the prediction was stated, and whether that was before the first run."""
    stated = study.stated()
    if stated is None:
        return "Nothing was predicted."
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(stated.at))
    if stated.before:
        return f"Predicted at {at}, before the first run."
    return f"Predicted at {at}, after runs had been seen" + (
        "; changed since the first one." if stated.changed else "."
    )
