"""What `across doctor --cluster` says: at most 20 lines for the terminal, or one JSON object."""

from __future__ import annotations

import dataclasses
import json as text
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from across._cluster_doctor import gathering, processes, rules, rules_of_programs
from across._cluster_doctor.facts import GRPC, Endpoint, Facts, Finding, Process

TASKS, CAUSES = 6, 2  # that are shown whole
STATES = {"running": "runs", "disk-sleep": "waits for a disk", "stopped": "is stopped", "tracing-stop": "is stopped"}


def look(pid: int | None, folder: Path | None, json: bool) -> int:
    """Say why the cluster's job hangs, as seen from here; return the exit code: 1 where something was found.

    Raises gathering.NoCluster.
    """
    facts = gathering.gather(os.environ.get(processes.VARIABLE), pid, folder)
    found = rules.diagnose(facts)
    if json:
        print(text.dumps(as_json(facts, found), indent=2))
    else:
        Console().print(rendered(facts, found))
    return int(bool(found))


def rendered(facts: Facts, found: Sequence[Finding]) -> RenderableType:
    """The causes with their mends, the likeliest first, and the tasks as they stand."""
    lines: list[RenderableType] = [Text(f"{len(facts.endpoints)} tasks by the TF_CONFIG of {facts.source}")]
    lines.append(_table(facts, {task for each in found for task in (each.task, *each.explains)}))
    lines.append(causes(found) if found else Text(nothing(facts), style="bold green"))
    if facts.missing:
        lines.append(
            Text(
                f"Not seen: {facts.missing[0]}"
                + f" (and {len(facts.missing) - 1} more: --json)" * (len(facts.missing) > 1)
            )
        )
    return Group(*lines)


def causes(found: Sequence[Finding]) -> RenderableType:
    """The causes with their mends, the likeliest first."""
    lines: list[RenderableType] = []
    for number, each in enumerate(found[:CAUSES], 1):
        lines.append(Text.assemble((f"{number}. {each.key}: ", "bold red"), each.says))
        lines.append(Text(f"   Mend: {each.mend}"))
    if found[CAUSES:]:
        also = "; ".join(f"{each.key}{f' ({each.task})' if each.task else ''}" for each in found[CAUSES : CAUSES + 5])
        lines.append(Text(f"Also: {also}."))
    return Group(*lines)


def nothing(facts: Facts) -> str:
    """What to say where nothing was found."""
    busy = [one.task for one in facts.processes if one.cpu > rules_of_programs.BUSY]
    if busy:
        return f"Nothing found; {', '.join(busy)} compute{'s' * (len(busy) == 1)}: slow, not hung?"
    return "Nothing found from this machine. Run it on the others."


def as_json(facts: Facts, found: Sequence[Finding]) -> dict[str, Any]:
    """All of it as plain values; of logs the last lines."""
    told = dataclasses.asdict(dataclasses.replace(facts, logs=tuple(_cut(facts))))
    return {"findings": [dataclasses.asdict(each) for each in found], "facts": told}


def _row(table: Table, *cells: str) -> None:
    """Add a row of texts as they are: addresses of IPv6 have brackets, and what others say of themselves may."""
    table.add_row(*map(Text, cells))


def _cut(facts: Facts) -> Iterator[Any]:
    for log in facts.logs:
        yield dataclasses.replace(log, lines=log.lines[-20:])


def _table(facts: Facts, guilty: set[str]) -> Table:
    table = Table("task", "address", "answers", "process here", box=None, pad_edge=False, header_style="dim")
    shown = sorted(facts.endpoints, key=lambda each: (each.task not in guilty, each.answer == GRPC))[:TASKS]
    for each in (each for each in facts.endpoints if each in shown):
        _row(
            table,
            each.task,
            each.address,
            _answers(each),
            "; ".join(_stands(facts, one) for one in facts.of(each.task)) or "-",
        )
    for one in [one for one in facts.processes if facts.endpoint(one.task) is None][:2]:
        _row(table, one.task, "-", "-", _stands(facts, one))
    if len(facts.endpoints) > len(shown):
        _row(table, f"and {len(facts.endpoints) - len(shown)} more", "", "", "")
    return table


def _answers(each: Endpoint) -> str:
    if each.says:
        return f"TensorFlow, {each.says}"
    return f"{each.answer} (a proxy?)" if each.answer == GRPC else each.answer


def _stands(facts: Facts, one: Process) -> str:
    does = STATES.get(one.state) or ("computes" if one.cpu > rules_of_programs.BUSY else "waits")
    stack = one.stack or facts.stack(one.task)
    at = rules_of_programs.where(stack) if stack else one.waits_in
    return f"{one.pid} {does}" + (f" at {at}" if at else "")
