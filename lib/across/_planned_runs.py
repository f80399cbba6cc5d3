"""What is kept of a plan's runs: the text that a page quotes, and the file of a follow-up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from across._process.sources import digest
from across.study import Study

FAILED = 80  # characters of what a failed run says in a record


def own_file(plan: Study, pair: Mapping[str, Mapping[str, Any]]) -> str:
    """The file of a follow-up: another pair of runs has another one, and so has a plan that is measured anew.

    A second follow-up thus measures both of its runs, and what was stated for the first one is not its prediction.
    """
    stated = plan.stated()
    when = stated.at if stated else None
    return f"14_follow_up_{digest(json.dumps([pair, when], sort_keys=True), plan.program_digest)}.jsonl"


def record(plan: Study, follow_up: Study) -> str:
    """The predictions that count, and of all runs when they ended, the milliseconds of a step and the first loss, as text.

    Seconds count from when the plan was stated. Raises AssertionError where nothing was.
    """
    stated = plan.stated()
    assert stated is not None
    parts = [f'"{name}": {_kept(study, stated.at)}' for name, study in (("plan", plan), ("follow-up", follow_up))]
    return "{" + ",\n".join(parts) + "}"


def _kept(study: Study, start: float) -> str:
    """A study as JSON, a line for each configuration."""
    stated = study.stated()
    assert stated is not None
    runs: dict[str, list[Any]] = {name: [None] * study.repeats for name in study.configurations}
    for each in study.runs():
        milliseconds = _pasted(each.error) if each.seconds is None else max(0.1, round(1000 * each.seconds, 1))
        seen = None if each.seen is None else round(each.seen, 4)
        runs[each.name][each.repeat] = [round(each.at - start, 2), milliseconds, seen]
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(several)}" for name, several in runs.items())
    return f'{{"stated": {stated.at - start:.2f},\n"predicted": {json.dumps(stated.values)},\n"runs": {{\n{lines}}}}}'


def _pasted(error: str) -> str:
    """An error as it may stand in JSON between three quotes of Python: without quotes and backslashes."""
    return " ".join(error.replace("\\", "/").replace('"', "'").split())[:FAILED]
