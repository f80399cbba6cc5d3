"""What needs a box, and a function run in one of its own, for the tests of what a box keeps out."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from autograder.sandbox import boxes, entering

needs_a_box = pytest.mark.skipif(bool(boxes.problem()), reason=boxes.problem())

CAPS = boxes.Caps(memory=256 << 20, pids=64, file=4 << 20, tmp=8 << 20, cpu_seconds=60)


def inherited(forks=1):
    """Bytes that `forks` forks of this process have without having asked for any: where a box's memory is watched, as many
    parts of them count as there are forks, and one part is ours."""
    status = Path("/proc/self/status").read_text()
    ours = sum(1024 * int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon:"))
    return ours * forks // (forks + 1)


def inside(function, caps=CAPS, name="test", hidden=(), forks=1):
    """Run `function`, which has at most so many `forks` at once, in a box of its own; its value (JSON) and the exit code."""
    if os.getuid() != 0:
        caps = replace(caps, memory=caps.memory + inherited(forks))
    read, write = os.pipe()
    with boxes.Box(f"{name}-{os.getpid()}", caps, hidden=hidden) as box:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                entering.enter(json.loads(json.dumps(box.request())))
                os.write(write, json.dumps(function()).encode())
                code = 0
            finally:
                os._exit(code)
        os.close(write)
        _, status = os.waitpid(child, 0)
    with open(read) as answer:
        text = answer.read()
        return json.loads(text) if text else None, os.waitstatus_to_exitcode(status), box


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
