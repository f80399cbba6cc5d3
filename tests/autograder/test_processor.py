"""A slow answer is told from a busy machine: by what the box has used of the processors, not by what waits in it alone."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import replace

import pytest
from boxed import CAPS, fork_into, needs_a_box, needs_groups

from autograder.sandbox import boxes, owners, processor
from autograder.sandbox.processor import Load

LATER = Load(10.0, 1.0, {1: 0.5, 2: 7.0})  # after 10 s, of which the box has had one


@pytest.mark.parametrize(
    ("before", "now", "starved"),
    [
        # who waits for others of its own box does not count
        (LATER, Load(20.0, 10.5, {1: 0.6, 2: 7.0, 3: 9.8}), 0.0),
        (LATER, Load(20.0, 6.1, {1: 0.6, 2: 12.0, 3: 9.8}), 0.0),
        # where others had the processors it is what all threads waited since then
        (LATER, Load(20.0, 5.0, {1: 6.0, 2: 7.5}), 6.0),
        (LATER, Load(20.0, 5.0, {2: 7.5, 3: 6.5}), 7.0),
        (LATER, Load(20.0, 5.0, {}), 0.0),
        # a pipeline of which no thread waits for long
        (Load(0.0, 0.0, {}), Load(30.0, 2.7, dict.fromkeys(range(10), 2.5)), 25.0),
        # computed for longer than it waited, or waited for a small part of the time
        (Load(0.0, 0.0, {}), Load(10.0, 4.9, {1: 2.0, 2: 2.5}), 0.0),
        (Load(0.0, 0.0, {}), Load(10.0, 0.5, {1: 2.0, 2: 2.5}), 0.0),
        # a number that was another thread's takes nothing off what the others waited
        (Load(0.0, 0.0, {1: 50.0, 2: 0.0}), Load(10.0, 1.0, {1: 0.0, 2: 6.0}), 6.0),
        # nobody counts what was used
        (Load(0.0, None, {1: 0.0}), Load(10.0, None, {1: 9.0}), 0.0),
    ],
)
def test_a_box_was_starved_for_as_long_as_others_had_the_processors_that_it_waited_for(before, now, starved):
    assert processor.starved(before, now) == starved


def test_a_thread_that_lets_others_go_before_it_is_left_out():
    child = os.fork()
    if not child:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        time.sleep(60)
    try:
        until = time.monotonic() + 10
        while os.sched_getscheduler(child) != os.SCHED_IDLE and time.monotonic() < until:
            time.sleep(0.01)
        assert set(processor.load(0.0, [child, os.getpid()]).waited) >= {os.getpid()}
        assert child not in processor.load(0.0, [child, os.getpid()]).waited
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def test_processes_and_threads_that_end_while_they_are_looked_at_are_left_out(monkeypatch):
    assert processor.load(0.0, [(1 << 22) + 1]).waited == {}
    monkeypatch.setattr(os, "listdir", lambda _: [str((1 << 22) + 1), str(os.getpid())])
    assert set(processor.load(0.0, [os.getpid()]).waited) == {os.getpid()}


@needs_a_box
@needs_groups
def test_what_ended_and_was_never_waited_for_was_used_all_the_same():
    def leaves():
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that its own children's time is nowhere in /proc
        for _ in range(3):
            if not os.fork():
                while time.process_time() < 0.2:
                    pass
                os._exit(0)
        with contextlib.suppress(ChildProcessError):  # once there is none left
            while True:
                os.wait()

    caps = replace(CAPS, memory=2 << 30)  # a fork of a large pytest takes more than a kernel's
    with boxes.Box(owners.new_name("j"), caps) as box:
        before = box.load().used
        os.waitpid(fork_into(box, leaves), 0)
        assert box.load().used - before > 0.55
