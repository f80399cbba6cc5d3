"""`across doctor --cluster` names the cause of each failure of `across.hangs`, on its real processes, from outside of them."""

from __future__ import annotations

import json
import time

import pytest
from processes import forked, often

from across import hangs
from across._cluster_doctor import gathering, rules
from across._cluster_doctor.facts import Finding
from across._hanging.tasks import Run

pytestmark = forked
SECONDS = 60.0  # for the processes to come to where they hang, and for it to be named
NAMED = {  # failure -> the cause that is told first, and the task
    "a copied TF_CONFIG": "same task worker:1",
    "collectives that differ": "collectives ",
    "collectives in another order": "collectives ",
    "a ps that is dead at start": "gone ps:0",
    "a ps that dies": "gone ps:0",
    "a wrong port": "addresses differ worker:1",
    "a taken port": "taken port worker:1",
    "a full disk at a checkpoint": "full disk worker:1",
    "NaN from one replica": "NaN worker:1",
    "an uneven last batch": "uneven data worker:1",
    "a chief that waits for an evaluator": "evaluator evaluator:0",
    "a firewall": "no answer worker:1",
    "two versions": "versions worker:1",
    "a clock that is set back": "clock evaluator:0",
}


def looked(run: Run) -> list[Finding]:
    """What is found now; the folder of logs is named where no process is left to show it."""
    job = next(iter(run.spec))
    asked = json.dumps({"cluster": run.spec, "task": {"type": job, "index": 0}})
    facts = gathering.gather(asked, None, None)
    if not facts.processes:
        facts = gathering.gather(asked, None, next(iter(run.logs.values())).parent)
    return rules.diagnose(facts)


@pytest.mark.parametrize("name", often(hangs.names()))
def test_the_cause_is_named_first_and_within_its_time(name: str):
    with hangs.running(name) as run:
        until = time.monotonic() + SECONDS
        run.wait(1.5, SECONDS)
        while True:
            found = looked(run)
            told = [f"{each.key} {each.task}" for each in found]
            if told and told[0].startswith(NAMED[name]):
                return
            assert time.monotonic() < until, (told, found)
