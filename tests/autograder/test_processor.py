"""A slow answer is told from a busy machine: by what the box has used of the processors, not by what waits in it alone."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import replace
from typing import NoReturn

import boxed
import pytest

from autograder.sandbox import boxes, cgroups, entering, owners, processor
from autograder.sandbox.processor import Load


def test_a_thread_that_waits_for_others_of_its_own_box_does_not_count():
    before = Load(10.0, 1.0, {1: 0.5, 2: 7.0})
    assert processor.starved(before, Load(20.0, 10.5, {1: 0.6, 2: 7.0, 3: 9.8})) == 0.0
    assert processor.starved(before, Load(20.0, 6.1, {1: 0.6, 2: 12.0, 3: 9.8})) == 0.0


def test_where_others_had_the_processors_it_is_what_all_threads_waited_since_then():
    before = Load(10.0, 1.0, {1: 0.5, 2: 7.0})
    assert processor.starved(before, Load(20.0, 5.0, {1: 6.0, 2: 7.5})) == 6.0
    assert processor.starved(before, Load(20.0, 5.0, {2: 7.5, 3: 6.5})) == 7.0
    assert processor.starved(before, Load(20.0, 5.0, {})) == 0.0


def test_a_pipeline_none_of_whose_threads_waits_for_long_is_starved_all_the_same():
    now = Load(30.0, 2.7, dict.fromkeys(range(10), 2.5))
    assert processor.starved(Load(0.0, 0.0, {}), now) == 25.0


def test_who_computed_for_longer_than_it_waited_or_waited_for_a_small_part_of_the_time_was_not_starved():
    before = Load(0.0, 0.0, {})
    assert processor.starved(before, Load(10.0, 4.9, {1: 2.0, 2: 2.5})) == 0.0
    assert processor.starved(before, Load(10.0, 0.5, {1: 2.0, 2: 2.5})) == 0.0


def test_a_thread_whose_number_was_anothers_takes_nothing_off_what_the_others_waited():
    assert processor.starved(Load(0.0, 0.0, {1: 50.0, 2: 0.0}), Load(10.0, 1.0, {1: 0.0, 2: 6.0})) == 6.0


def test_where_nobody_counts_what_was_used_nothing_was_waited_for():
    assert processor.starved(Load(0.0, None, {1: 0.0}), Load(10.0, None, {1: 9.0})) == 0.0


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


@pytest.mark.skipif(bool(boxes.problem()) or not cgroups.available(), reason="no control groups here")
def test_what_ended_and_was_never_waited_for_was_used_all_the_same():
    caps = replace(boxed.CAPS, memory=2 << 30)  # a fork of a large pytest takes more than a kernel's
    with boxes.Box(owners.new_name("j"), caps) as box:
        before = box.load()
        child = os.fork()
        if not child:
            try:
                signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that its own children's time is nowhere in /proc
                entering.enter(json.loads(json.dumps(box.request())))
                for _ in range(3):
                    if not os.fork():
                        _burn(0.2)
                time.sleep(0.1)
                while True:
                    os.wait()
            finally:  # there is none left, or something went wrong: pytest goes on in the parent only
                os._exit(0)
        os.waitpid(child, 0)
        used = box.load().used
        assert before.used is not None
        assert used is not None
        assert used - before.used > 0.55


def _burn(seconds: float) -> NoReturn:
    while time.process_time() < seconds:
        pass
    os._exit(0)
