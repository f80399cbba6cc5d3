"""How long each exercise took, by the student's diary, beside the minutes that its chapter promises: `across diary`."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from across._jupyter import headless, progress
from across._language.catalogue import said
from across._process import diary
from across._process.recorded import NOT_YET, PASSES

PAUSE = 300.0  # seconds without a key, a click or a turn of the wheel: whoever was away for longer was not at work
BESIDE = ""  # the exercise's name of what one does between them: reads, runs what is given


@dataclass
class Spent:
    """What one exercise took."""

    began: float = 0.0  # when one was first there, in seconds since 1970; 0: never seen
    seconds: float = 0.0
    tries: set[str] = field(
        default_factory=set
    )  # digests of answers of which its check has said whether they are right
    state: str = ""  # as its check said last


def by_exercise(events: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Spent]]:
    """What each exercise took, by chapter and name. `events`: as the diary has them, oldest first."""
    found: dict[str, dict[str, Spent]] = {}
    at: Mapping[str, Any] | None = None
    for event in events:
        its = found.setdefault(event["chapter"], {}).setdefault(event["exercise"], Spent())
        if event["event"] == diary.SAID:
            its.state = str(event.get("state", ""))
            if its.state in (PASSES, NOT_YET):
                its.tries.add(str(event.get("answer", "")))
        else:
            its.began = its.began or event["time"]
            if at is not None and event["time"] - at["time"] <= PAUSE:
                found[at["chapter"]][at["exercise"]].seconds += event["time"] - at["time"]
            at = event
    return found


def rendered(course: Sequence[progress.Chapter]) -> Group | None:
    """A table a chapter of which the diary tells, in the course's order; None where it tells of none of them."""
    found = by_exercise(diary.read())
    tables = [_table(each, found[each.name]) for each in course if each.name in found]
    return Group(*tables, Text(said("Pauses of more than {0:g} minutes are left out.", PAUSE / 60))) if tables else None


def _table(chapter: progress.Chapter, spent: Mapping[str, Spent]) -> Table:
    took = sum(each.seconds for each in spent.values())
    title = said("{0}: {1} minutes", chapter.name, _minutes(took))
    if chapter.minutes:
        title = said("{0}: {1} of {2} promised minutes", chapter.name, _minutes(took), chapter.minutes)
    heads = said("exercise"), said("begun"), said("minutes"), said("tries"), said("check")
    table = Table(*heads, title=title)
    rows = [(each.name, each.name) for each in chapter.exercises]
    for name, shown in itertools.chain(rows, [(BESIDE, said("reading, given cells"))]):
        its = spent.get(name, Spent())
        began = datetime.fromtimestamp(its.began).strftime("%m-%d %H:%M") if its.began else ""
        state = said(headless.WORDS[its.state]) if its.state in headless.WORDS else ""
        table.add_row(Text(shown), began, _minutes(its.seconds) if its.began else "", str(len(its.tries) or ""), state)
    return table


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f}"
