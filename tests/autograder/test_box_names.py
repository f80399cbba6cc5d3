"""Whose a box is: what a killed grader left is found, and nothing of a living one's, or of another container's, is touched."""

import os
import signal
import subprocess
import sys
import time

import pytest
from boxed import CAPS, needs_a_box
from test_full_disk import MAY

from autograder.sandbox import boxes, cgroups, owners

pytestmark = needs_a_box
needs_groups = pytest.mark.skipif(not cgroups.available(), reason="no control groups may be made here")
needs_namespace = pytest.mark.skipif(
    not MAY, reason="stands for a container by namespaces, which this user may not make"
)
CONTAINER = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, "-c"]


def wait_for(true, seconds=10.0):
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_no_name_is_given_twice():
    names = {owners.new_name("j") for _ in range(1000)}
    assert len(names) == 1000
    assert all(name.startswith(f"j{os.getpid()}-") for name in names)


def named_by_another(command=()):
    """A name that another process gave, which has ended."""
    script = "from autograder.sandbox import owners; print(owners.new_name('j'))"
    return subprocess.run(
        [*(command or [sys.executable, "-c"]), script], capture_output=True, text=True, check=True
    ).stdout


def test_a_name_is_left_over_once_its_giver_has_ended():
    assert owners.is_leftover(named_by_another())
    assert not owners.is_leftover(owners.new_name("j"))


def test_a_number_that_was_given_again_is_another_process():
    pid, began, rest = owners.new_name("j").split("-", 2)
    assert owners.is_leftover(f"{pid}-{int(began, 16) - 1:x}-{rest}")


@pytest.mark.parametrize("name", ["jumble", "j1-2", "across-x-12345678-1", "j-1-2-3", "j1-1-1234567-x", ""])
def test_a_name_that_says_no_owner_is_left_alone(name):
    assert not owners.is_leftover(name)


@needs_namespace
def test_nobody_judges_names_of_another_container():
    assert not owners.is_leftover(named_by_another(CONTAINER))


SLEEPER = """
import os, subprocess, sys, time
from autograder.sandbox import cgroups, owners
group = cgroups.open_group(owners.new_name("j"), 1 << 28, 16)
child = subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL)
for folder in group.folders:
    (folder / "cgroup.procs").write_text(str(child.pid))
print(group.name, child.pid, flush=True)
time.sleep(1000)
"""


def sleeper(command):
    """A process that has a group with a process in it; the group's name, the process in it."""
    process = subprocess.Popen([*command, SLEEPER], stdout=subprocess.PIPE, text=True)
    name, child = process.stdout.readline().split()
    return process, name, int(child)


@needs_groups
def test_what_a_killed_grader_left_ends_and_is_removed():
    process, name, child = sleeper([sys.executable, "-c"])
    try:
        ended = os.pidfd_open(child)
        boxes.remove_leftovers()
        assert [group.name for group in cgroups.leftovers(name)] == [name]  # it lives
    finally:
        process.kill()
        process.communicate()
    boxes.remove_leftovers()
    assert cgroups.leftovers(name) == []
    with pytest.raises(ProcessLookupError):  # killed, and somebody has reaped it
        wait_for(lambda: signal.pidfd_send_signal(ended, 0))
    os.close(ended)


@needs_groups
@needs_namespace
def test_another_containers_boxes_live_on_and_nobody_signals_itself():
    process, name, _ = sleeper(CONTAINER)
    try:
        boxes.remove_leftovers()
        assert [group.name for group in cgroups.leftovers(name)] == [name]
        swept = "from autograder.sandbox import boxes, cgroups; boxes.remove_leftovers()"
        swept += f"; [group] = cgroups.leftovers({name!r}); print(group.pids(), group.close(0.1))"
        ran = subprocess.run([*CONTAINER, swept], capture_output=True, text=True, timeout=60, check=False)
        # in a third namespace the number of a process of the second is read as 0
        assert (ran.returncode, ran.stdout) == (0, "set() False\n"), ran.stderr
        with boxes.Box(owners.new_name("j"), CAPS) as ours:
            subprocess.run([*CONTAINER, "from autograder.sandbox import boxes; boxes.remove_leftovers()"], check=True)
            assert not ours.broken()
            assert cgroups.leftovers(ours.name)
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()
        wait_for(lambda: all(group.remove() for group in cgroups.leftovers(name)))


@needs_groups
def test_a_group_that_was_not_empty_in_time_is_removed_later():
    group = cgroups.open_group(owners.new_name("j"), 1 << 28, 16)
    process = subprocess.Popen(["sleep", "1000"])
    for folder in group.folders:
        (folder / "cgroup.procs").write_text(str(process.pid))
    os.kill(process.pid, signal.SIGSTOP)  # killed, it stays in its group until it is waited for, or longer
    assert group.close(-1.0) is False
    assert cgroups.leftovers(group.name)
    process.wait(10)
    cgroups.open_group(owners.new_name("j"), 1 << 28, 16).close()
    assert cgroups.leftovers(group.name) == []
