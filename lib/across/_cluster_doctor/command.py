"""What `across doctor --cluster` does: look, tell, and end with 1 where something was found."""

from __future__ import annotations

import json as text
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType

from across._cluster_doctor import config, gathering, meeting, probing, processes, report, rules, rules_of_meetings
from across._cluster_doctor.facts import Finding

FOUND, NOTHING = 1, 0  # exit codes


def look(pid: int | None, folder: Path | None, json: bool) -> int:
    """Say why the cluster's job hangs, as seen from here; return the exit code. Raises gathering.NoCluster."""
    facts = gathering.gather(os.environ.get(processes.VARIABLE), pid, folder)
    found = rules.diagnose(facts)
    return _told(found, report.as_json(facts, found), report.rendered(facts, found), json)


def meet(seconds: float, json: bool) -> int:
    """Meet the other machines of this environment's TF_CONFIG; return the exit code. Raises gathering.NoCluster."""
    said = os.environ.get(processes.VARIABLE)
    if said is None:
        raise gathering.NoCluster("--meet takes the place of the program: set TF_CONFIG as for the program")
    told = config.read(said)
    found = [Finding("TF_CONFIG", f"{fault}.", "Mend TF_CONFIG.", told.task) for fault in told.faults]
    if not told.addresses or not all(map(config.port, told.addresses.values())):
        return _told(found, {"findings": report.plain(found)}, report.causes(found), json)
    own = meeting.own_card(told)
    try:
        listener = meeting.listening(told)
    except OSError as error:
        address = told.addresses[told.task]
        there = gathering.with_listeners([probing.probe(told.task, address)])[0].listeners
        who = " and ".join(f"{program.name} ({program.pid})" for program in there) or "another program"
        says = f"{told.task} cannot listen at {address}: {error.strerror or error}; {who} is there."
        found.append(Finding("taken port", says, "End it first: --meet takes the place of the program.", told.task))
        return _told(found, {"findings": report.plain(found)}, report.causes(found), json)
    seen = meeting.meet(own, listener, seconds, time.time)
    found += rules_of_meetings.diagnose(seen)
    return _told(found, report.meeting_as_json(seen, found), report.rendered_meeting(seen, found), json)


def _told(found: Sequence[Finding], plain: dict[str, Any], shown: RenderableType, json: bool) -> int:
    if json:
        print(text.dumps(plain, indent=2))
    else:
        Console().print(shown)
    return FOUND if found else NOTHING
