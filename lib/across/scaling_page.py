"""The page of a scaling study, made from its data: what was predicted, what was measured, and a picture of both.

    page(study, "1 replica", headings=["Prediction", "Difference"])

`work` says how many times the examples of the base a configuration gets through: {"2 replicas, twice the batch": 2}.
"""

from __future__ import annotations

import html
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from across import pictures
from across.study import Ratio, Stated, Study, machine

__all__ = ["Page", "drawn", "page"]

COLUMNS = (
    "configuration",
    "predicted",
    "measured",
    "smallest to largest",
    "pairs",
    "left out",
    "chance, if the prediction is right",
)
PRICED = "what the base does in 100 h, {:.2f} USD each"


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
    dollars: Mapping[str, float] | None = None,
    notes: Sequence[str] = (),
) -> Page:
    """The page of `study`: a row for each configuration but `base`, then the `headings`, under which somebody writes.

    `dollars`: of each configuration what its machines cost an hour, all together; adds what the work of 100 hours of the
    base would take and cost by the measured median. `notes` are sentences below the table, such as a follow-up's.

    `chance` gets what was measured of a row, each ratio divided by the row's prediction, and gives the number in its last
    column; a function that is not written yet leaves it empty. A prediction that was changed when there were runs is
    shown behind the one that counts.
    """
    stated = study.stated()
    rows, shown = [], dict[str, tuple[str, float | None, Ratio | None]]()
    for name, ratio in _ratios(study, base, work).items():
        row = [name, _predicted(stated, name), "not measured", "", "0", str(_failed(study, base, name)), ""]
        row += [""] if dollars and not ratio else []
        if ratio:
            row[2:5] = [f"{ratio.median:.2f}", f"{ratio.low:.2f} to {ratio.high:.2f}", str(len(ratio.values))]
            if dollars:
                hours = 100 / ratio.median
                row.append(f"{hours:.0f} h, {hours * dollars[name]:.0f} USD")
            if chance and stated and name in stated.values:
                row[6] = _number(chance, [each / stated.values[name] for each in ratio.values])
        rows.append(row)
        shown[name] = (row[1], stated.values.get(name) if stated else None, ratio)
    note = f"{machine()}. Examples a second, times those of {base}, in each of {study.repeats} repeats. {_when(study)}"
    note = " ".join([note, _runs(study, base), *notes])
    columns = [*COLUMNS, *([PRICED.format(dollars[base])] if dollars else [])]
    lines = [" | ".join(columns), "|".join(["---"] * len(columns)), *(" | ".join(row) for row in rows)]
    text = "\n".join([f"| {lines[0]} |", f"|{lines[1]}|", *(f"| {line} |" for line in lines[2:]), "", note])
    text += "".join(f"\n\n**{heading}.** …" for heading in headings)
    return Page(text, pictures.table_html(columns, rows, note=note), _drawn(shown, base, "Speed-up"))


def drawn(rows: Mapping[str, tuple[float, Sequence[float]]], base: str, *, title: str) -> pictures.Picture:
    """A page's picture, of numbers that were kept: of each name the prediction, and the ratio of each repeat."""
    return _drawn(
        {name: (f"{said:.2f}", said, Ratio(tuple(values), 0)) for name, (said, values) in rows.items()}, base, title
    )


def _drawn(rows: Mapping[str, tuple[str, float | None, Ratio | None]], base: str, title: str) -> pictures.Picture:
    """A row for each configuration but `base`: each repeat's ratio a dot, their median a line, the prediction dashed."""
    x = f"examples a second, times those of {base} (dots: each repeat; line: median; dashed: predicted)"
    figure, axes = pictures.plot(7.5, 1.1 + 0.5 * max(1, len(rows)), title=title, x=x, y="")
    axes.xaxis.label.set_fontsize(pictures.FONT - 1)
    axes.grid(axis="x", color=pictures.INK, alpha=0.3, linewidth=0.6)
    axes.axvline(1.0, color=pictures.INK, linewidth=0.8)
    words = []
    for row, (name, (predicted, at, ratio)) in enumerate(rows.items()):
        said = "measured by no pair"
        if ratio:
            dots = {"color": "white", "markeredgecolor": pictures.INK, "markersize": 5}
            axes.plot(ratio.values, [row] * len(ratio.values), "o", **dots)
            axes.vlines(ratio.median, row - 0.3, row + 0.3, color=pictures.PALETTE[5], linewidth=2.2)
            said = f"measured {ratio}"
        if at is not None:
            axes.vlines(at, row - 0.4, row + 0.4, color=pictures.ALERT, linestyle="--", linewidth=1.8)
            said = f"predicted {predicted}, {said}"
        words.append(f"{name}: {said}")
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_ylim(max(1, len(rows)) - 0.5, -0.5)
    axes.set_xlim(left=0.0)
    return pictures.render(figure, f"{title}, examples a second, times those of {base}. {'; '.join(words)}.")


def _ratios(study: Study, base: str, work: Mapping[str, float] | None) -> dict[str, Ratio | None]:
    return {
        name: study.speedup(base, name, (work or {}).get(name, 1.0)) for name in study.configurations if name != base
    }


def _failed(study: Study, base: str, name: str) -> int:
    """Of how many repeats a run of one of the two has failed."""
    return len({run.repeat for run in study.runs() if run.error and run.name in (base, name)})


def _predicted(stated: Stated | None, name: str) -> str:
    """The prediction that counts, and what it was changed to later."""
    if stated is None:
        return ""
    later = [f"later {each.values[name]:.2f}" for each in stated.later if name in each.values]
    return ", ".join([f"{stated.values[name]:.2f}" if name in stated.values else "", *later]).removeprefix(", ")


def _number(chance: Callable[[list[float]], float], ratios: list[float]) -> str:
    try:
        return f"{float(chance(ratios)):.3f}"
    except NotImplementedError:
        return ""
    except Exception as error:  # the student's own function, which its check speaks of
        return type(error).__name__


def _runs(study: Study, base: str) -> str:
    """What each configuration is: all of the base and its milliseconds, of the others what differs from it."""
    first = study.configurations[base]
    steps = [1000 * each for each in study.seconds()[base] if each > 0]
    told = [f"{base}: " + ", ".join(f"{key} {_plainly(value)}" for key, value in first.items())]
    told[0] += f"; {statistics.median(steps):.1f} ms a step" if steps else ""
    for name, run in study.configurations.items():
        changed = [f"{key} {_plainly(value)}" for key, value in run.items() if value != first.get(key)]
        told += [f"{name}: {', '.join(changed) or 'the same'}"] if name != base else []
    return ". ".join(told) + "."


def _plainly(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _when(study: Study) -> str:
    """When the prediction was stated, before or after which runs; and what else is in the file."""
    stated = study.stated()
    told = [f"The prediction was {stated}." if stated else "Nothing was predicted."]
    failed = [run for run in study.runs() if run.error]
    if failed:
        count = f"{len(failed)} run{'s' * (len(failed) != 1)} failed (left out)"
        told.append(f"{count}, the first: {failed[0].name}: {failed[0].error}.")
    told += [f"Not counted: {count} run{'s' * (count != 1)} of {why}." for why, count in study.others().items()]
    return " ".join(told)
