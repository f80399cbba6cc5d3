"""`across doctor --cluster`: what it makes of facts, and that it finds them on real processes, whom it leaves as they are."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from processes import across, forked

from across._cluster_doctor import config, logs, probing, processes, report, rules
from across._cluster_doctor.config import Config
from across._cluster_doctor.facts import (
    GRPC,
    NO_ANSWER,
    NO_PORT,
    OTHER,
    REFUSED,
    SILENT,
    UNKNOWN,
    Endpoint,
    Facts,
    Frame,
    Log,
    Process,
    Program,
)
from across.clusters import LocalCluster
from across.workers import addresses

TWO = {"worker:0": "a:1000", "worker:1": "b:2000"}
OF_TWO = [Config(TWO, "worker:0"), Config(TWO, "worker:1")]
TF = Frame("/x/site-packages/tensorflow/python/eager/execute.py", 53, "quick_execute")


def text(cluster: object, job: str = "worker", index: object = 0) -> str:
    return json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ("{", "is no JSON"),
        ('{"task": {"type": "worker", "index": 0}}', "trains alone"),
        (text({"trainer": ["a:1"]}, "trainer"), 'no job "trainer"'),
        (text({"chief": ["b:1"], "worker": "a:1"}, "chief"), "is no list"),
        (text({"chief": ["a:1", "b:1"]}, "chief"), "2 chiefs"),
        (text({"worker": ["a:1"], "ps": ["b:1"]}), "a ps and no chief"),
        (text({"worker": ["a:1"], "evaluator": ["b:1", "c:1"]}), "several evaluators"),
        (text({"worker": ["a", "b:2"]}), "the address of worker:0, 'a', has no port"),
        (text({"worker": ["a:x", "b:2"]}), "has no port"),
        (text({"worker": ["a:1"], "chief": ["a:1"]}), "worker:0 and chief:0 have the same address, a:1"),
        ('{"cluster": {"worker": ["a:1"]}}', 'no "task"'),
        (text({"worker": ["a:1"]}, "ps"), "which the cluster has not"),
        (text({"worker": ["a:1", "b:1"]}, index=2), "worker:2, and the cluster has 2 workers, from 0 on"),
        (text({"worker": ["a:1"]}, index="0"), "is a text"),
        (text({"worker": ["a:1"]}, index=-1), "has 1 worker,"),
    ],
)
def test_each_fault_of_a_tf_config_is_one_sentence(said: str, fault: str):
    (found,) = config.read(said).faults
    assert fault in found


@pytest.mark.parametrize("job", ["worker", "evaluator"])
def test_a_right_tf_config_has_no_fault_also_with_ipv6_and_an_evaluator_beside_it(job: str):
    right = config.read(text({"chief": ["[::1]:7"], "worker": ["a:1"], "ps": ["c:2"]}, job))
    assert right == Config({"chief:0": "[::1]:7", "worker:0": "a:1", "ps:0": "c:2"}, f"{job}:0")
    assert (config.host("[::1]:7"), config.port("[::1]:7"), config.port("a")) == ("::1", 7, 0)


def well(task: str = "worker:0", pid: int = 10, **how) -> Process:
    return Process(pid, Config(TWO, task), listens=(config.port(TWO[task]),), **how)


def answering(*answers: str, **how) -> tuple[Endpoint, ...]:
    """Endpoints of worker:0, worker:1."""
    return tuple(
        Endpoint(task, TWO[task], answer, says=task if answer == GRPC else "", here=True, **how)
        for task, answer in zip(TWO, answers, strict=False)
    )


BOTH = (well(), well("worker:1", 11))
HEALTHY, GONE = answering(GRPC, GRPC), answering(GRPC, REFUSED)
AT = {"file": "/home/x/train.py", "function": "step"}
FOUR, NINE = ({"stack": (TF, Frame(line=line, **AT))} for line in (4, 9))
IN_USE = (
    "E0000 00:00:1795685784.215531 2163 add_port.cc:83] Failed to add port to server: No address added out of total 1 resolved "
    "for '0.0.0.0:1000'",
    "tensorflow.python.framework.errors_impl.UnknownError: Could not start gRPC server",
)
CAME_AGAIN = (
    "E0000 00:00:1.5 9 x.cc:1] ABORTED: /job:worker/replica:0/task:1 unexpectedly tried to connect with a different "
    "incarnation. It has likely restarted."
)


def one(answers: tuple[Endpoint, ...], *written: Log, **how) -> Facts:
    """What is known where worker:0 alone runs here."""
    return Facts(OF_TWO[0], "", (well(**how),), answers, written)


def both(other: Process = BOTH[1], *written: Log, answers: tuple[Endpoint, ...] = HEALTHY, source: str = "") -> Facts:
    """What is known where worker:0 runs here, and another one."""
    return Facts(OF_TWO[0], source, (well(), other), answers, written)


def printed(*lines: str, index: int = 1) -> Log:
    return Log(f"w{index}", f"worker:{index}", lines)


THREE = {**TWO, "worker:2": "c:3000"}
FACTS = {
    "TF_CONFIG": Facts(Config(TWO, "worker:7", ("the task is worker:7",)), "this environment"),
    "stopped worker:1": both(well("worker:1", 11, state="stopped"), answers=answering(GRPC, SILENT)),
    "same task": both(well("worker:0", 11), answers=GONE),
    "same task, one machine": one(GONE, Log("w1.log", "worker:1", IN_USE, 1795685785.0)),
    "taken port worker:1, or the same task, of a quiet log": one(GONE, printed(*IN_USE[1:])),
    "same task, apart": one((HEALTHY[0], Endpoint("worker:1", "b:2000", GRPC, says="worker:0"))),
    "same task worker:0, apart": replace(one((replace(HEALTHY[0], here=False), HEALTHY[1])), twins=("worker:0",)),
    "same task worker:1, or again": both(BOTH[1], printed(CAME_AGAIN, index=0)),
    "collectives worker:2": Facts(
        Config(THREE, "worker:0"),
        "",
        tuple(
            Process(9 + index, Config(THREE, f"worker:{index}"), **stack)
            for index, stack in enumerate((FOUR, FOUR, NINE))
        ),
        HEALTHY,
    ),
    "taken port": one((HEALTHY[0], Endpoint("worker:1", "b:2000", OTHER, here=True, listeners=(Program(9, "nginx"),)))),
    "addresses differ worker:1": both(
        Process(11, Config({**TWO, "worker:0": "a:9"}, "worker:1"), listens=(2000,)), source="process 10"
    ),
    "wrong port": Facts(OF_TWO[0], "process 10", (Process(10, OF_TWO[0], listens=(77,)),), answering(REFUSED, GRPC)),
    "versions worker:1": both(
        BOTH[1], printed("TensorFlow 2.21.0", index=0), printed("TensorFlow version: 2.15.1", index=1)
    ),
    "full disk worker:0": Facts(
        OF_TWO[0],
        "",
        BOTH[1:],
        answering(REFUSED, GRPC),
        (printed("ResourceExhaustedError: /c/ckpt-1; No space left on device", index=0),),
    ),
    "NaN worker:1": both(BOTH[1], printed("step 4 loss nan", index=0), printed("step 3 own loss nan")),
    "collectives": one(GONE, printed("InvalidArgumentError: Shape mismatch in the collective instance 100. Op at ...")),
    "collectives, by stacks": Facts(OF_TWO[0], "", (well(**FOUR), well("worker:1", 11, **NINE)), HEALTHY),
    "stands": Facts(OF_TWO[0], "", tuple(well(task, **FOUR) for task in TWO), HEALTHY),
    "late worker:1": Facts(
        OF_TWO[0],
        "",
        (well(**FOUR), well("worker:1", 11, stack=(Frame(line=9, **AT),), waits_in="pipe_read")),
        HEALTHY,
    ),
    "uneven data worker:1": one(
        GONE, printed("step 9 done", "step 10", index=0), printed("step 8 done", "step 9 done", "bye")
    ),
    "ended worker:1": one(GONE, printed("step 9", "KeyError: 'x'")),
    "gone worker:1": one(GONE),
    "gone worker:1, died": Facts(
        OF_TWO[0], "", (), answering(REFUSED, REFUSED)[1:], (printed("UnavailableError: Socket closed", index=0),)
    ),
    "evaluator evaluator:0": Facts(
        Config({"chief:0": "a:1", "evaluator:0": "b:2"}, "chief:0"),
        "",
        (),
        (Endpoint("chief:0", "a:1", GRPC, "chief:0"), Endpoint("evaluator:0", "b:2", REFUSED)),
    ),
    "unknown host worker:1": one(answering(GRPC, UNKNOWN)),
    "no answer worker:1": one(answering(GRPC, NO_ANSWER), peers={"b:2000": "SYN_SENT"}),
    "silent worker:1": one(answering(GRPC, SILENT)),
    "clock worker:1": both(BOTH[1], Log("w1", "worker:1", ("12:00:05 a", "11:00:06 b"), 1e9)),
    "settings": both(well("worker:1", 11, settings={"TF_X": "1"})),
}


@pytest.mark.parametrize("case", FACTS)
def test_facts_have_one_cause(case: str):
    (found,) = rules.diagnose(FACTS[case])
    assert found.key == re.split(r" \w+:\d|,", case)[0]
    named = re.search(r"\w+:\d", case)
    assert found.task == named[0] if named else True
    assert found.mend


def test_an_evaluator_in_the_cluster_hides_no_dead_ps():
    addresses = {"chief:0": "a:1", "ps:0": "b:2", "evaluator:0": "c:3"}
    endpoints = tuple(Endpoint(task, address, REFUSED) for task, address in addresses.items())
    facts = Facts(
        Config(addresses, "chief:0"), "", (Process(9, Config(addresses, "chief:0"), listens=(7,)),), endpoints[1:]
    )
    assert [(each.key, each.task) for each in rules.diagnose(facts)] == [("evaluator", "evaluator:0"), ("gone", "ps:0")]


def test_who_has_no_log_of_a_task_is_told_that_its_port_may_be_another():
    (found,) = rules.diagnose(FACTS["gone worker:1"])
    assert "or this TF_CONFIG's port is wrong: compare worker:1's" in found.says


def test_a_healthy_cluster_has_none():
    assert rules.diagnose(both()) == []


def test_a_cluster_of_many_tasks_and_causes_is_told_in_twenty_lines():
    import io

    from rich.console import Console

    addresses = {f"worker:{index}": f"machine-{index}.example:2222" for index in range(64)}
    endpoints = tuple(
        Endpoint(task, address, REFUSED if task > "worker:3" else GRPC) for task, address in addresses.items()
    )
    facts = Facts(Config(addresses, "worker:0"), "this environment", endpoints=endpoints, missing=("a", "b"))
    out = io.StringIO()
    Console(file=out, width=100).print(report.rendered(facts, rules.diagnose(facts)))
    assert len(out.getvalue().splitlines()) <= 20


def waits(spec, job, index):
    """Worker 0 waits for worker 1 in a sum, lives on where that is lost, and worker 1 sleeps."""
    import contextlib
    import faulthandler
    import time

    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    if index:
        print("sleeps", flush=True)
        time.sleep(300)
    faulthandler.dump_traceback_later(1.0)
    with contextlib.suppress(tf.errors.OpError):
        strategy.reduce("sum", tf.ones([]), axis=None)
    time.sleep(300)


@pytest.fixture(scope="module")
def hung() -> Iterator[LocalCluster]:
    with LocalCluster(waits, worker=2) as cluster:
        until = time.monotonic() + 60
        while "sleeps" not in cluster.logs("worker", 1) or "most recent call" not in cluster.logs("worker", 0):
            assert time.monotonic() < until, cluster.logs()
            time.sleep(0.05)
        yield cluster


def examined(cluster: LocalCluster, *arguments: str) -> tuple[int, dict, float]:
    """Exit code, JSON, seconds."""
    start = time.monotonic()
    ended = across("doctor", "--cluster", "--json", *arguments, TF_CONFIG=cluster.tf_config("worker", 0))
    assert ended.returncode in (0, 1), ended.stderr
    return ended.returncode, json.loads(ended.stdout), time.monotonic() - start


@forked
def test_processes_are_found_by_the_tf_config_that_they_have_set_themselves_and_told_apart_from_outside(hung):
    told, seconds = examined(hung)[1:]
    assert seconds < 60  # it is 2 where nobody else computes, and has deadlines that end it by 15
    facts = told["facts"]
    assert [one["config"]["task"] for one in facts["processes"]] == ["worker:0", "worker:1"]
    assert [one["pid"] for one in facts["processes"]] == [hung.pid("worker", index) for index in (0, 1)]
    assert [(one["answer"], one["says"]) for one in facts["endpoints"]] == [(GRPC, "worker:0"), (GRPC, "worker:1")]
    assert [one["listeners"][0]["pid"] for one in facts["endpoints"]] == [one["pid"] for one in facts["processes"]]
    assert any("waits" in frame["function"] for frame in facts["processes"][0]["stack"])  # by the dump in its log
    assert all(hung.alive("worker", index) for index in (0, 1))


@forked
@pytest.mark.whole
def test_a_stopped_task_and_then_a_missing_one_is_named_and_by_process_number_as_well(hung):
    pid = hung.pid("worker", 1)
    os.kill(pid, signal.SIGSTOP)
    code, told, _ = examined(hung)
    assert code == 1
    assert (told["findings"][0]["key"], told["findings"][0]["task"]) == ("stopped", "worker:1")
    assert str(pid) in told["findings"][0]["says"]
    hung.kill("worker", 1)
    ended = across("doctor", "--cluster", "--pid", str(hung.pid("worker", 0)), COLUMNS="100")
    assert ended.returncode == 1, ended.stderr
    assert "1. gone: worker:1 is missing" in ended.stdout
    assert len(ended.stdout.splitlines()) <= 20


def trains(spec, job, index):
    """Steps for ever."""
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    for step in range(1 << 30):
        loss = strategy.reduce("sum", tf.ones([]), axis=None)
        if step % 100 == 0:
            print(f"step {step} loss {float(loss):.3f}", flush=True)


@forked
@pytest.mark.whole
def test_of_a_job_that_trains_nothing_is_found():
    with LocalCluster(trains, worker=2) as cluster:
        until = time.monotonic() + 60
        while "step 100 " not in cluster.logs("worker", 1):
            assert time.monotonic() < until, cluster.logs()
            time.sleep(0.05)
        code, told, _ = examined(cluster)
        assert (code, told["findings"]) == (0, [])
        assert all(cluster.alive("worker", index) for index in (0, 1))


def test_without_a_tf_config_the_command_says_what_it_wants():
    ended = across("doctor", "--cluster", "--pid", str(os.getpid()))
    assert ended.returncode == 2
    assert (
        ended.stderr
        == f"across: process {os.getpid()} has no TF_CONFIG that we may read, or there is no such process\n"
    )
    assert across("doctor", "--pid", "1").returncode == 2


@pytest.mark.parametrize(
    ("lines", "off"),
    [
        (["09:00:00 a", "2026-11-26 17:00:00 from Greenwich", "09:00:01 b"], 0.0),  # two zones are no fault
        (["23:59:58 a", "00:00:03 b"], 0.0),
        (["I0000 00:00:1795685784.5 1 x.cc:2] a"], 3600.0),
        (["I0000 00:00:1795685784.5 1 x.cc:2] a", "I0000 00:00:1795685744.5 1 x.cc:2] b"], -40.0),
        (["no time", ""], 0.0),
    ],
)
def test_a_clock_is_off_where_it_goes_back_or_ahead_of_its_own_file(lines: list[str], off: float):
    assert logs.clock(Log("a", "", tuple(lines), 1795685784.5 - max(off, 0.0))) == off


def test_stacks_are_read_from_dumps_and_tracebacks_and_the_innermost_line_is_first():
    lines = (
        "Thread 0x00007f (most recent call first):\n"
        '  File "/a/threading.py", line 1 in wait\n\n'
        "Current thread 0x00007e (most recent call first):\n"
        '  File "/a/site-packages/tensorflow/execute.py", line 53 in quick\n'
        '  File "/a/train.py", line 7 in step\n'
        "09:00:00 goes on\n"
        "Traceback (most recent call last):\n"
        '  File "/a/train.py", line 8, in main\n'
        "    step()\n"
        '  File "/a/train.py", line 9, in step\n'
        "    raise ValueError\n"
        "ValueError"
    ).splitlines()
    assert [str(frame) for frame in logs.dumped(lines)] == ["execute.py:53 quick", "train.py:7 step"]
    assert [str(frame) for frame in logs.raised(lines)] == ["train.py:9 step", "train.py:8 main"]


def test_what_py_spy_tells_of_the_main_thread_is_its_stack():
    frame = {"name": "step", "filename": "/a/train.py", "short_filename": "train.py", "line": 7}
    threads = [
        {"pid": 5, "thread_name": "MainThread", "os_thread_id": 5, "frames": [frame]},
        {"pid": 5, "thread_name": "Thread-1", "os_thread_id": 6, "frames": []},
    ]
    assert processes.of_main_thread(threads[::-1]) == (Frame("/a/train.py", 7, "step"),)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as one:
        yield one


def at(listener: socket.socket) -> str:
    return f"127.0.0.1:{listener.getsockname()[1]}"


def test_an_address_that_refuses_or_is_silent_or_speaks_something_else_or_is_unknown_is_told(listener: socket.socket):
    told = {"a:0": probing.probe("a:0", at(listener)).answer}  # the system accepts, nobody reads

    def speak() -> None:
        while True:
            connection, _ = listener.accept()
            with contextlib.suppress(OSError):  # of the probe before this one
                connection.sendall(b"SSH-2.0-OpenSSH_9.2p1 Debian\r\n")

    threading.Thread(target=speak, daemon=True).start()
    told |= {"b:0": probing.probe("b:0", at(listener)).answer}
    (free,) = addresses(1)
    asked = {"c:0": free, "d:0": "no.such.host.invalid:80", "e:0": "127.0.0.1"}
    told |= {task: each.answer for task, each in probing.answers(asked, 10.0).items()}
    assert told == {"a:0": SILENT, "b:0": OTHER, "c:0": REFUSED, "d:0": UNKNOWN, "e:0": NO_PORT}


@forked
def test_two_servers_of_one_task_are_told_apart_and_one_asked_twice_is_itself():
    with LocalCluster(worker=1) as first, LocalCluster(worker=1) as second:
        one, again, other = (probing.probe("worker:0", each.spec["worker"][0]) for each in (first, first, second))
    assert one.says == other.says == "worker:0"
    assert one.server == again.server != other.server
