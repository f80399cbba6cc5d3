"""What was found, as at most 20 lines for the terminal, or as one JSON object."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from across._cluster_doctor import rules_of_programs
from across._cluster_doctor.facts import GRPC, Facts, Finding, Process

TASKS, CAUSES = 6, 2  # that are shown whole
STATES = {"R": "runs", "D": "waits for a disk", "T": "is stopped", "t": "is stopped", "Z": "has ended"}


def rendered(facts: Facts, found: Sequence[Finding]) -> RenderableType:
    """The causes with their mends, the likeliest first, and the tasks as they stand."""
    lines: list[RenderableType] = [Text(f"{len(facts.endpoints)} tasks by the TF_CONFIG of {facts.source}")]
    lines.append(_table(facts, {task for each in found for task in (each.task, *each.explains)}))
    for number, each in enumerate(found[:CAUSES], 1):
        lines.append(Text.assemble((f"{number}. {each.key}: ", "bold red"), each.says))
        lines.append(Text(f"   Mend: {each.mend}"))
    if found[CAUSES:]:
        also = "; ".join(f"{each.key}{f' ({each.task})' if each.task else ''}" for each in found[CAUSES : CAUSES + 5])
        lines.append(Text(f"Also: {also}."))
    if not found:
        lines.append(Text(nothing(facts), style="bold green"))
    if facts.missing:
        lines.append(
            Text(
                f"Not seen: {facts.missing[0]}"
                + f" (and {len(facts.missing) - 1} more: --json)" * (len(facts.missing) > 1)
            )
        )
    return Group(*lines)


def nothing(facts: Facts) -> str:
    """What to say where nothing was found."""
    busy = [one.task for one in facts.processes if one.cpu > rules_of_programs.BUSY]
    if busy:
        return f"Nothing found; {', '.join(busy)} compute{'s' * (len(busy) == 1)}: slow, not hung?"
    return "Nothing found from this machine. Run it on the others, or --meet on all."


def as_json(facts: Facts, found: Sequence[Finding]) -> dict[str, Any]:
    """All of it as plain values; of logs the last lines."""
    told = dataclasses.asdict(dataclasses.replace(facts, logs=tuple(_cut(facts))))
    return {"findings": [dataclasses.asdict(each) for each in found], "facts": told}


def _cut(facts: Facts) -> Iterator[Any]:
    for log in facts.logs:
        yield dataclasses.replace(log, lines=log.lines[-20:])


def _table(facts: Facts, guilty: set[str]) -> Table:
    table = Table("task", "address", "answers", "process here", box=None, pad_edge=False, header_style="dim")
    shown = sorted(facts.endpoints, key=lambda each: (each.task not in guilty, each.answer == GRPC))[:TASKS]
    for each in (each for each in facts.endpoints if each in shown):
        table.add_row(each.task, each.address, each.answer, "; ".join(map(_stands, facts.of(each.task))) or "-")
    for one in [one for one in facts.processes if facts.endpoint(one.task) is None][:2]:
        table.add_row(one.task, "-", "-", _stands(one))
    if len(facts.endpoints) > len(shown):
        table.add_row(f"and {len(facts.endpoints) - len(shown)} more", "", "", "")
    return table


def _stands(one: Process) -> str:
    does = STATES.get(one.state) or ("computes" if one.cpu > rules_of_programs.BUSY else "waits")
    at = rules_of_programs.where(one) if one.stack else one.waits_in
    return f"{one.pid} {does}" + (f" at {at}" if at else "")
