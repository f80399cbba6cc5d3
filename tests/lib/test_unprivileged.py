"""`across doctor` builds a box, and where none can be built it says who may change what."""

import json
import os
from pathlib import Path

import pytest

from across import doctor
from across._process import unprivileged


@pytest.fixture
def refusing(tmp_path, monkeypatch):
    """A machine whose bubblewrap is refused; sets what stands for a value of /proc/sys."""
    program = tmp_path / "bin" / "bwrap"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(unprivileged, "SYSCTL", tmp_path / "sys")
    monkeypatch.setattr(os, "getuid", lambda: 1000)

    def set_to(name: str, value: object) -> None:
        (tmp_path / "sys" / name).parent.mkdir(parents=True)
        (tmp_path / "sys" / name).write_text(f"{value}\n")

    return set_to


@pytest.mark.parametrize(("name", "forbids"), [(name, value) for name, (value, _) in unprivileged.SETTINGS.items()])
def test_a_setting_that_forbids_boxes_is_named_with_the_administrators_line(refusing, name, forbids):
    refusing(name, forbids)
    said = unprivileged.problem()
    assert "setting up uid map: Permission denied" in said
    assert f"{name.replace('/', '.')} is {forbids}" in said
    assert "sudo " in said
    assert "\n" not in said
    assert said in " ".join(doctor.advice([], said))


def test_a_setting_that_allows_boxes_is_not_blamed(refusing):
    refusing("kernel/unprivileged_userns_clone", 1)
    assert "unprivileged_userns_clone" not in unprivileged.problem()


def test_the_line_for_ubuntu_lets_this_bubblewrap_alone(refusing, tmp_path):
    refusing("kernel/apparmor_restrict_unprivileged_userns", 1)
    assert f"profile bwrap {tmp_path / 'bin' / 'bwrap'} flags=(unconfined) {{ userns, }}" in unprivileged.problem()


def test_a_bubblewrap_that_is_missing_is_one_line_with_the_mend(monkeypatch):
    monkeypatch.setattr(unprivileged.shutil, "which", lambda _: None)
    assert "apt-get install bubblewrap" in unprivileged.problem()


@pytest.mark.skipif(not Path("/usr/bin/bwrap").exists(), reason="no bubblewrap here")
def test_what_the_doctor_says_of_a_box_is_what_building_one_said():
    facts = json.loads(json.dumps(doctor.facts()))
    assert facts["sandbox"] == unprivileged.problem()
