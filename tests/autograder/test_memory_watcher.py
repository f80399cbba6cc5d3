"""Where there are no control groups, what a box uses is read off its processes, whatever they do to be read wrongly."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from pathlib import Path

import pytest

from autograder.sandbox import boxes, memory_watcher, owners

PR_SET_NAME = 15


@pytest.fixture
def nameless():
    """A process whose name is no text."""
    child = os.fork()
    if not child:
        ctypes.CDLL(None).prctl(PR_SET_NAME, b"\xff\xfe", 0, 0, 0)
        time.sleep(60)
        os._exit(0)
    until = time.monotonic() + 10
    while b"\xff" not in Path(f"/proc/{child}/comm").read_bytes() and time.monotonic() < until:
        time.sleep(0.01)
    yield child
    os.kill(child, 9)
    os.waitpid(child, 0)


def test_a_process_whose_name_is_no_text_is_counted(nameless):
    assert memory_watcher.used_by(nameless).tasks > 0
    assert not boxes._exiting(nameless)
    assert owners._began(nameless) > 0


def test_a_box_that_can_be_watched_no_more_is_ended(monkeypatch):
    ended = threading.Event()

    def fails(_: int) -> memory_watcher.Used:
        raise ValueError("whatever it is")

    monkeypatch.setattr(memory_watcher, "used_by", fails)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    watcher = memory_watcher.MemoryWatcher(os.getpid(), 1 << 40, 1 << 20, [], ended.set)
    assert ended.wait(10)
    watcher.close()
    assert watcher.killed
