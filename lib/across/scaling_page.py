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
from across._language import pictured
from across._language.catalogue import given, marked, said
from across.study import Ratio, Stated, Study, machine

COLUMNS = (
    marked("configuration"),
    marked("predicted"),
    marked("measured"),
    marked("smallest to largest"),
    marked("pairs"),
    marked("left out"),
    marked("chance, if the prediction is right"),
)


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
        copied = f"<p>{html.escape(said('To copy:'))}</p><pre>{html.escape(self.markdown)}</pre>"
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
    for name in (each for each in study.configurations if each != base):
        ratio = study.speedup(base, name, (work or {}).get(name, 1.0))
        failed = {
            run.repeat for run in study.runs() if run.error and run.name in (base, name)
        }  # repeats of which one has
        row = [name, _predicted(stated, name), said("not measured"), "", "0", str(len(failed)), ""]
        row += [""] if dollars and not ratio else []
        if ratio:
            row[2:5] = [
                f"{ratio.median:.2f}",
                said("{0:.2f} to {1:.2f}", ratio.low, ratio.high),
                str(len(ratio.values)),
            ]
            if dollars:
                hours = 100 / ratio.median
                row.append(f"{hours:.0f} h, {hours * dollars[name]:.0f} USD")
            if chance and stated and name in stated.values:
                row[6] = _number(chance, [each / stated.values[name] for each in ratio.values])
        rows.append(row)
        shown[name] = (row[1], stated.values.get(name) if stated else None, ratio)
    times = said("Examples a second, times those of {0}, in each of {1} repeats.", base, study.repeats)
    note = " ".join([said("{0}.", machine()), times, _when(study)])
    note = " ".join([note, _runs(study, base), *notes])
    columns = list(map(given, COLUMNS))
    columns += [said("what the base does in 100 h, {0:.2f} USD each", dollars[base])] if dollars else []
    lines = [" | ".join(columns), "|".join(["---"] * len(columns)), *(" | ".join(row) for row in rows)]
    text = "\n".join([f"| {lines[0]} |", f"|{lines[1]}|", *(f"| {line} |" for line in lines[2:]), "", note])
    text += "".join("\n\n" + said("**{0}.** …", given(heading)) for heading in headings)
    return Page(text, pictures.table_html(columns, rows, note=note), _drawn(shown, base, marked("Speed-up")))


def drawn(rows: Mapping[str, tuple[float, Sequence[float]]], base: str, *, title: str) -> pictures.Picture:
    """A page's picture, of numbers that were kept: of each name the prediction, and the ratio of each repeat."""
    return _drawn(
        {name: (f"{stated:.2f}", stated, Ratio(tuple(values), 0)) for name, (stated, values) in rows.items()},
        base,
        title,
    )


def _drawn(rows: Mapping[str, tuple[str, float | None, Ratio | None]], base: str, title: str) -> pictures.Picture:
    """A row for each configuration but `base`: each repeat's ratio a dot, their median a line, the prediction dashed."""
    x = pictured.said(
        "examples a second, times those of {0} (dots: each repeat; line: median; dashed: predicted)", base
    )
    figure, axes = pictures.plot(7.5, 1.1 + 0.5 * max(1, len(rows)), title=title, x=x, y="")
    axes.xaxis.label.set_fontsize(pictures.FONT - 1)
    axes.grid(axis="x", color=pictures.INK, alpha=0.3, linewidth=0.6)
    axes.axvline(1.0, color=pictures.INK, linewidth=0.8)
    words = []
    for row, (name, (predicted, at, ratio)) in enumerate(rows.items()):
        told = said("measured by no pair")
        if ratio:
            dots = {"color": "white", "markeredgecolor": pictures.INK, "markersize": 5}
            axes.plot(ratio.values, [row] * len(ratio.values), "o", **dots)
            axes.vlines(ratio.median, row - 0.3, row + 0.3, color=pictures.PALETTE[5], linewidth=2.2)
            told = said("measured {0}", _in_words(ratio))
        if at is not None:
            axes.vlines(at, row - 0.4, row + 0.4, color=pictures.ALERT, linestyle="--", linewidth=1.8)
            told = said("predicted {0}, {1}", predicted, told)
        words.append(said("{0}: {1}", given(name), told))
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_ylim(max(1, len(rows)) - 0.5, -0.5)
    axes.set_xlim(left=0.0)
    told = said("; ").join(words)
    return pictures.render(figure, said("{0}, examples a second, times those of {1}. {2}.", given(title), base, told))


def _predicted(stated: Stated | None, name: str) -> str:
    """The prediction that counts, and what it was changed to later."""
    if stated is None:
        return ""
    own = stated.values.get(name)
    later = [said("later {0:.2f}", each.values[name]) for each in stated.later if each.values.get(name, own) != own]
    return ", ".join(["" if own is None else f"{own:.2f}", *later]).removeprefix(", ")


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
    told[0] += said("; {0:.1f} ms a step", statistics.median(steps)) if steps else ""
    for name, run in study.configurations.items():
        changed = [f"{key} {_plainly(value)}" for key, value in run.items() if value != first.get(key)]
        told += [f"{name}: {', '.join(changed) or said('the same')}"] if name != base else []
    return said("{0}.", said(". ").join(told))


def _plainly(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _in_words(ratio: Ratio) -> str:
    """What `str` says of it, in the language of this process: programs print that in English."""
    count = said("1 pair") if len(ratio.values) == 1 else said("{0} pairs", len(ratio.values))
    failed = said(", {0} left out", ratio.left_out) if ratio.left_out else ""
    return said("{0:.2f} ({1:.2f} to {2:.2f}, {3})", ratio.median, ratio.low, ratio.high, count + failed)


def _count(runs: int) -> str:
    return said("1 run") if runs == 1 else said("{0} runs", runs)


def _when(study: Study) -> str:
    """When the prediction was stated, before or after which runs; and what else is in the file."""
    stated = study.stated()
    told = [said("The prediction was {0}.", stated) if stated else said("Nothing was predicted.")]
    failed = [run for run in study.runs() if run.error]
    if failed:
        count, first = _count(len(failed)), failed[0]
        told.append(said("{0} failed (left out), the first: {1}: {2}.", count, first.name, first.error))
    told += [said("Not counted: {0} of {1}.", _count(count), why) for why, count in study.others().items()]
    return " ".join(told)
