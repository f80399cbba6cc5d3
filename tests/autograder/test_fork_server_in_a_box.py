"""The server of fresh processes that a kernel's process leaves beside itself works in every kind of box."""

import json
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from boxed import CAPS, inherited, inside, needs_a_box

from across._process import pristine, warm

pytestmark = needs_a_box


def rights():
    """Of this process: the lines that say what it may."""
    names = ("Uid", "Gid", "Groups", "NoNewPrivs", "Seccomp", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
    return [line for line in Path("/proc/self/status").read_text().splitlines() if line.split(":")[0] in names]


def child(message, fds, connection):
    groups = Path("/proc/self/cgroup").read_text()
    connection.send(json.dumps({"seen": [rights(), groups, os.getppid(), parent(os.getppid())]}).encode())
    return message["code"]


def leave_and_ask():
    """Leave a server and have it fork: what the child may that we may not, whether all is in place, its exit code."""
    held = os.open("/box/held", os.O_RDWR | os.O_CREAT)
    pristine.leave(SimpleNamespace(child=child))
    path = pristine.socket_path()
    assert path is not None
    with warm.request(path, {"code": 7}) as forked:
        its_rights, groups, server, grandparent = forked.receive(30)["seen"]
        code = forked.wait(30)
    folder = f"/proc/{server}/fd"  # of a box with another user than ours nobody may look into it
    links = [os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder)] if os.access(folder, os.R_OK) else []
    os.close(held)
    return [
        [line for line in its_rights if line not in rights()],
        grandparent == os.getpid(),
        groups == Path("/proc/self/cgroup").read_text(),
        [link for link in links if "held" in link],
        code,
    ]


def parent(pid):
    try:
        return int(Path(f"/proc/{pid}/status").read_text().split("\nPPid:\t")[1].split()[0])
    except OSError:
        return 0


def test_what_it_forks_is_in_the_box_and_has_the_kernels_rights_and_limits(in_each_box):
    caps = replace(CAPS, memory=CAPS.memory + 3 * inherited())  # the server and what it forks are forks of pytest, too
    assert in_each_box(leave_and_ask, caps) == [[[], True, True, [], 7], 0]


def test_where_no_process_is_to_be_had_there_is_none_and_nothing_is_left():
    def refused():
        before = os.listdir("/tmp")

        def fork():
            raise OSError

        os.fork = fork
        pristine.leave(SimpleNamespace(child=child))
        return [pristine.socket_path(), os.listdir("/tmp") == before]

    assert inside(refused)[:2] == ([None, True], 0)
