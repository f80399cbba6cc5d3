"""Control groups of an ordinary user's: those that systemd delegated, and no others. The groups here are folders."""

import os

import pytest

from autograder.sandbox import cgroups

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can become an ordinary user for this test")
SCOPE = "user.slice/run-1.scope"
GIVEN = ("cgroup.procs", "cgroup.subtree_control")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A v2 machine on which an ordinary user's process is in a scope; returns that scope's folder."""
    scope = tmp_path / "cgroups" / SCOPE
    scope.mkdir(parents=True)
    for folder in (tmp_path / "cgroups", scope):
        (folder / "cgroup.controllers").write_text("cpu memory pids\n")
        for file in GIVEN:
            (folder / file).write_text("")
    (scope / "cgroup.procs").write_text("11\n12\n")
    (tmp_path / "self").write_text(f"0::/{SCOPE}\n")
    monkeypatch.setattr(cgroups, "ROOT", tmp_path / "cgroups")
    monkeypatch.setattr(cgroups, "SELF", tmp_path / "self")
    return scope


def delegate(scope, user=65534):
    for path in (scope, *(scope / file for file in GIVEN)):
        os.chown(path, user, user)


def opened():
    group = cgroups.open_group("j1-x", 1 << 28, 16)
    return [str(folder) for folder in group.folders] if group else None


def test_where_systemd_delegated_a_group_a_box_gets_one_below_it(as_nobody, machine):
    delegate(machine)
    assert as_nobody(opened) == [str(machine / "across" / "j1-x")]
    assert (machine / "across" / "cgroup.subtree_control").read_text() == "+cpu"  # the last that was written
    assert (machine / cgroups.LEAF / "cgroup.procs").read_text() == "12"  # all have left the group itself


def test_a_grader_that_was_moved_aside_finds_its_group_again(as_nobody, machine, tmp_path):
    delegate(machine)
    (tmp_path / "self").write_text(f"0::/{SCOPE}/{cgroups.LEAF}\n")
    assert as_nobody(opened) == [str(machine / "across" / "j1-x")]


def test_a_group_that_is_somebody_elses_is_not_touched(as_nobody, machine):
    assert as_nobody(opened) is None
    assert sorted(path.name for path in machine.iterdir()) == ["cgroup.controllers", *GIVEN]


def test_a_group_without_the_memory_controller_is_none(as_nobody, machine):
    delegate(machine)
    (machine / "cgroup.controllers").write_text("cpu pids\n")
    assert as_nobody(opened) is None


def test_two_jobs_count_as_two_processes_beside_those_outside(as_nobody, machine):
    delegate(machine)
    weight = machine / "across" / "cpu.weight"
    as_nobody(opened)
    weight.write_text("100")
    weight.chmod(0o666)
    as_nobody(lambda: cgroups.open_group("j2-x", 1 << 28, 16) and None)
    assert weight.read_text() == "200"
