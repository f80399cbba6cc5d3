"""A museum of hangs: each fails as it says, on real processes, is named by the doctor, and leaves nothing; some are drawn."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from processes import ended, forked, often

from across import hangs
from across._cluster_doctor import gathering, rules
from across._cluster_doctor.facts import Finding
from across._hanging.failures import FAILURES
from across._hanging.tasks import Run

WAITS = "hangs|raised UnavailableError"  # the latter after 10 s or more, where this machine is busy
INVALID = "raised InvalidArgumentError"
ENDS = {
    "a copied TF_CONFIG": {"worker:0": "hangs", "worker:1": "raised UnknownError"},
    "collectives that differ": {"worker:0": INVALID, "worker:1": f"{INVALID}|{WAITS}"},
    "collectives in another order": dict.fromkeys(["worker:0", "worker:1", "worker:2"], f"{INVALID}|{WAITS}"),
    "a ps that is dead at start": {"chief:0": "hangs", "worker:0": "hangs"},
    "a ps that dies": {"chief:0": "raised UnavailableError", "worker:0": "hangs", "ps:0": "signal SIGKILL"},
    "a wrong port": {"worker:0": "hangs", "worker:1": "hangs"},
    "a taken port": {"worker:0": "hangs", "worker:1": "raised UnknownError"},
    "a full disk at a checkpoint": {
        "worker:0": WAITS,
        "worker:1": "raised ResourceExhaustedError|raised OutOfRangeError",
    },
    "NaN from one replica": {"worker:0": "returned", "worker:1": "returned"},
    "an uneven last batch": {"worker:0": WAITS, "worker:1": "returned"},
    "a chief that waits for an evaluator": {"chief:0": "hangs", "worker:0": "hangs", "ps:0": "hangs"},
    "a firewall": {"worker:0": WAITS, "worker:1": WAITS},
    "two versions": {"worker:0": f"raised InternalError|{WAITS}", "worker:1": f"raised InternalError|{WAITS}"},
    "a clock that is set back": {"chief:0": "hangs", "evaluator:0": "hangs"},
}
SAYS = {  # what stands in a log, besides the message of the failure itself; a task is named where only one says it
    "a copied TF_CONFIG": [("worker:1", '"index": 0'), ("worker:0", "stragglers:\n/job:worker/replica:0/task:1")],
    "collectives that differ": [("worker:0", "step 2: adds norms"), ("worker:1", "step 3: adds gradients")],
    "collectives in another order": [
        ("worker:0", "adds kernel (4,), bias (3,)"),
        ("", "Shape mismatch in the collective"),
    ],
    "a ps that is dead at start": [("worker:0", "in join")],
    "a ps that dies": [("chief:0", "step 1: done, 2 in all")],
    "a wrong port": [("worker:1", "in ensure_initialized")],
    "a taken port": [("worker:1", '"index": 1')],
    "a full disk at a checkpoint": [("worker:1", "step 0: saved")],
    "NaN from one replica": [("worker:0", "step 2: loss nan"), ("worker:0", "step 3: own loss nan")],
    "an uneven last batch": [("worker:0", "step 4: adds"), ("worker:1", "step 3: sum 8.0")],
    "a chief that waits for an evaluator": [("chief:0", "in _connect_to_cluster"), ("ps:0", "listens: grpc://")],
    "a firewall": [("worker:1", "is one of 2 replicas"), ("worker:1", "step 0: adds")],
    "two versions": [("worker:0", "Keras 3."), ("worker:1", "Keras 2.")],
    "a clock that is set back": [("evaluator:0", "has scored ckpt-1"), ("chief:0", "step 1: waits for its score")],
}


SECONDS = 60.0  # for the doctor to name it, once nothing happens any more
NAMED = {  # failure -> what `across doctor --cluster` tells first, from outside: the cause, and the task
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


@forked
@pytest.mark.parametrize("name", often(hangs.names()))
def test_it_fails_as_it_says_and_the_doctor_names_who_is_guilty(name: str, monkeypatch: pytest.MonkeyPatch):
    def asked(run: Run) -> dict[str, hangs.End]:
        until = time.monotonic() + SECONDS
        while not (told := [f"{each.key} {each.task}" for each in looked(run)]) or not told[0].startswith(NAMED[name]):
            assert time.monotonic() < until, told
        run.wait(0.5, 90)  # meanwhile one may have ended
        return ends(run)

    ends = Run.ends
    monkeypatch.setattr(Run, "ends", asked)
    case = hangs.show(name, seconds=90, quiet=2.0)
    how_ended = {task: end.how for task, end in case.tasks.items()}
    assert how_ended.keys() == ENDS[name].keys()
    assert [(task, how) for task, how in how_ended.items() if not re.fullmatch(ENDS[name][task], how)] == [], case.logs
    for task, words in [FAILURES[name].message, *SAYS[name]]:
        assert words in (case.tasks[task].log if task else case.logs), case.logs
    for end in case.tasks.values():
        assert ("(most recent call first)" in end.log) is (end.how == "hangs")
    listed = {f"{job}:{index}" for job, each in _config(case.logs)["cluster"].items() for index in range(len(each))}
    assert case.failure.guilty in listed | {*case.tasks}
    assert f"{case.failure.guilty}, guilty" in case.draw().alt
    assert case.failure.symptom in repr(case)


def _config(log: str) -> dict:
    return json.loads(log.split("TF_CONFIG: ")[1].partition("\n")[0])


def test_a_stranger_is_told_what_there_is():
    with pytest.raises(KeyError, match="a wrong port"):
        hangs.show("a slow network")


@forked
def test_nothing_is_left_whatever_happens_while_they_run():
    def interrupted() -> None:
        with hangs.running("a wrong port") as run:
            run.wait(0.5, 30.0)
            seen.update(run.pids)
            folders.extend([run.folder, str(next(iter(run.logs.values())).parent)])
            raise KeyboardInterrupt

    seen: dict[str, int] = {}
    folders: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert set(seen) == {"worker:0", "worker:1"}
    assert all(ended(pid) for pid in seen.values())
    assert [folder for folder in folders if os.path.exists(folder)] == []


@pytest.mark.parametrize(
    "threads", ["", "import threading, time; threading.Thread(target=time.sleep, args=(2,)).start(); "]
)
def test_the_disk_is_full_for_this_process_alone_which_may_mount_one_while_it_has_one_thread(
    tmp_path: Path, threads: str
):
    program = (
        f"{threads}import sys; from across._hanging import disk; disk.small(sys.argv[1], 1 << 20); "
        "open(f'{sys.argv[1]}/file', 'wb').write(bytes(2 << 20))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False)
    assert re.search("No space left on device|File too large", done.stderr), done.stderr
    assert "File too large" in done.stderr or not threads
    (tmp_path / "file").write_bytes(bytes(2 << 20))


def test_evidence_is_drawn_of_some_of_them_and_says_who_it_was():
    assert len(hangs.causes()) >= 5
    assert set(hangs.causes()) <= set(hangs.names())
    for cause in hangs.causes():
        guilty = set()
        for seed in range(12):
            one = hangs.drawn(np.random.default_rng(seed), cause)
            assert list(one.evidence) == [f"worker:{index}" for index in range(4)]
            guilty.add(one.guilty)
            for task, log in one.evidence.items():
                assert log.splitlines()[0].split()[1] == task
                assert not re.search(r"<(\d|pid|cluster|wrong|worker|port)", log)
                assert ("still running" in log) is ("(most recent call first)" in log and "exit code" not in log)
        assert len(guilty) >= 3
        assert "worker:0" in guilty or cause == "a taken port"  # that is recorded of another one alone
    assert hangs.drawn(np.random.default_rng(1), cause) == hangs.drawn(np.random.default_rng(1), cause)
    of_a_seed = [
        {hangs.drawn(np.random.default_rng(seed), cause).guilty for cause in hangs.causes()} for seed in range(12)
    ]
    assert min(map(len, of_a_seed)) > 1  # or one answer would do for all causes
    with pytest.raises(KeyError, match="an uneven last batch"):
        hangs.drawn(np.random.default_rng(1), "a firewall")


def test_evidence_names_nothing_of_the_machine_where_it_was_recorded():
    text = Path(hangs.__file__).with_name("hangs_recorded.json").read_text(encoding="utf-8")
    paths = set(re.findall(r'File \\"([^"\\]*)\\"', text))
    assert {
        path for path in paths if not path.startswith(("/app/", "/opt/venv/lib/python3.11/site-packages/"))
    } == set()
    assert tempfile.gettempdir() + "/" not in text
    assert "127.0.0.1" not in text


def test_a_page_has_each_of_them_in_its_order_with_the_question_that_one_asks():
    page = (Path(__file__).parents[2] / "docs/hangs.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| `")]
    assert [row[0].strip("`") for row in rows] == hangs.names()
    for row in rows:
        assert len(row) == 5, row
    assert len([word for word in page.split() if word.strip("|-#")]) < 900  # it is read while something hangs
