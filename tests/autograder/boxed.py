"""What needs a box, and a function run in one of its own, for the tests of what a box keeps out."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from autograder.sandbox import boxes, cgroups, entering

needs_a_box = pytest.mark.skipif(bool(boxes.problem()), reason=boxes.problem())
needs_groups = pytest.mark.skipif(not cgroups.available(), reason="no control groups may be made here")
root_only = pytest.mark.skipif(os.getuid() != 0, reason="only root can become an ordinary user for this test")

DEVICES = [  # of this machine, which stand in for a card's
    path for path in ("/dev/fuse", "/dev/autofs", "/dev/hwrng", "/dev/kmsg", "/dev/rtc0") if os.path.exists(path)
]
CAPS = boxes.Caps(memory=256 << 20, pids=64, file=4 << 20, tmp=8 << 20, cpu_seconds=60)


class Ended(NamedTuple):
    """A box, closed by now, and what it said before."""

    box: boxes.Box
    broken: bool
    out_of_memory: bool


def inherited(forks=1):
    """Bytes that `forks` forks of this process have without having asked for any: where a box's memory is watched, as many
    parts of them count as there are forks, and one part is ours."""
    status = Path("/proc/self/status").read_text()
    ours = sum(1024 * int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon:"))
    return ours * forks // (forks + 1)


def fork_into(box, function, tell=None, **how):
    """Fork a child that steps into an open box and writes `function()`, as JSON, to the pipe `tell`; its number."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            entering.enter(json.loads(json.dumps(box.request(**how))))
            said = function()
            if tell is not None:
                os.write(tell, json.dumps(said).encode())
            code = 0
        finally:
            os._exit(code)
    return child


def inside(function, caps=CAPS, forks=1, devices=()):
    """Run `function`, which has at most so many `forks` at once, in a box of its own; its value, the exit code, the box."""
    if os.getuid() != 0:
        caps = replace(caps, memory=caps.memory + inherited(forks))
    read, write = os.pipe()
    with boxes.Box(f"test-{os.getpid()}", caps, devices=devices) as box:
        child = fork_into(box, function, write)
        os.close(write)
        _, status = os.waitpid(child, 0)
        ended = Ended(box, box.broken(), box.out_of_memory())
    with open(read) as answer:
        text = answer.read()
        return json.loads(text) if text else None, os.waitstatus_to_exitcode(status), ended


def tried(*actions):
    """What each action raised, or "done"."""
    said = []
    for action in actions:
        try:
            action()
            said.append("done")
        except OSError as error:
            said.append(os.strerror(error.errno))
    return said
