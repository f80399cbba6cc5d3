"""The diagnosis finds the first broken link, and reads a machine as it is."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import pytest
from rich.console import Console

from across import diagnosis, doctor
from across._gpu import building
from across.diagnosis import Facts, diagnose

WELL = Facts(
    built_for=("sm_80", "compute_90"),
    cards=2,
    driver="570.86.15",
    open=2,
    libcuda=True,
    capabilities=((8, 6), (9, 0)),
)
ILL = {  # in the order of the questions: each makes one more of them answer yes
    "fine": {"gpus": 2},
    "wheel": {"cuda": ""},
    "no GPU": {"cards": 0, "driver": "", "open": 0, "libcuda": False},
    "no driver": {"driver": "", "open": 0, "libcuda": False},
    "not handed in": {"open": 0, "libcuda": False},
    "hidden": {"visible": "-1"},
    "driver": {"driver": "470.10.01"},
    "libraries": {"unmet": ("nvidia-cudnn-cu12",)},
    "no code": {"capabilities": ((3, 0),)},
    "read the log": {},
}


@pytest.mark.parametrize("key", ILL)
def test_one_thing_wrong_gives_its_finding(key: str):
    assert diagnose(dataclasses.replace(WELL, **ILL[key])).key == key


@pytest.mark.parametrize("first", range(len(ILL)))
def test_of_several_things_the_one_nearest_to_the_program_is_found(first: int):
    facts = WELL
    for changes in reversed(list(ILL.values())[first:]):
        facts = dataclasses.replace(facts, **changes)
    assert diagnose(facts).key == list(ILL)[first]


def test_a_machine_without_any_fact_has_no_gpu():
    assert diagnose(Facts()).key == "no GPU"


@pytest.mark.parametrize(
    ("visible", "hidden"),
    [(None, False), ("", True), ("-1", True), ("-1,0", True), ("0", False), ("0,-1", False), ("GPU-5a3c", False)],
)
def test_the_variable_hides_all_cards_when_its_first_entry_is_none(visible: str | None, hidden: bool):
    assert diagnosis.hides(visible) is hidden


@pytest.mark.parametrize(
    ("driver", "cuda", "old"),
    [("524.99", "12.5.1", True), ("525.60.13", "12.5.1", False), ("570.1", "13.0", True), ("", "12.5", False)],
)
def test_a_driver_is_measured_by_the_major_version_of_cuda(driver: str, cuda: str, old: bool):
    assert diagnosis.too_old(driver, cuda) is old


@pytest.mark.parametrize(
    ("capability", "built_for", "runs"),
    [
        ((8, 6), ["sm_80"], True),
        ((8, 0), ["sm_86"], False),
        ((9, 0), ["sm_80"], False),
        ((12, 0), ["sm_80", "compute_90"], True),
        ((8, 9), ["sm_90", "compute_90"], False),
        ((7, 5), ["sm_120"], False),
        ((9, 0), ["sm_90a"], False),
    ],
)
def test_code_runs_where_nvidia_says_that_it_does(capability: tuple[int, int], built_for: list[str], runs: bool):
    assert diagnosis.has_code_for(capability, built_for) is runs


def test_a_missing_nccl_hides_no_gpu():
    assert diagnose(dataclasses.replace(WELL, unmet=("nvidia-nccl-cu12",))).key == "read the log"


def test_cards_are_counted_by_vendor_and_class(tmp_path: Path):
    for name, vendor, kind in (("a", "0x10de", "0x030200"), ("b", "0x10de", "0x040300"), ("c", "0x8086", "0x030000")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "vendor").write_text(vendor + "\n")
        (tmp_path / name / "class").write_text(kind + "\n")
    assert diagnosis.cards_on_bus(tmp_path) == 1


def test_the_driver_is_read_from_the_kernel(tmp_path: Path):
    proc = tmp_path / "version"
    proc.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Wed Jan  8 2025\nGCC version: 12\n")
    assert diagnosis.driver(proc) == "570.86.15"


def test_the_ladder_tells_its_finding_in_words():
    picture = diagnosis.ladder(dataclasses.replace(WELL, unmet=("nvidia-cublas-cu12",)))
    assert "7 questions answered no; finding 'libraries'" in picture.alt


def test_the_doctor_tells_the_finding_and_its_mend():
    console = Console(record=True, width=400, file=io.StringIO())
    console.print(doctor.rendered(doctor.facts()))
    assert doctor.finding(diagnosis.gather()).mend in console.export_text()


@pytest.mark.parametrize(
    ("facts", "problem", "says"),
    [
        (Facts(), "", "No NVIDIA GPU here, and none is needed."),
        (Facts(), "no compiler", "There is no NVIDIA GPU in this machine."),
        (Facts(visible="-1"), "", "There is no NVIDIA GPU in this machine."),  # it hides simulated ones, too
        (dataclasses.replace(WELL, driver="", libcuda=False, open=0), "", "There is a GPU, but no NVIDIA driver."),
    ],
)
def test_the_doctor_sends_nobody_to_rent_a_gpu_where_simulated_ones_stand_in(
    facts: Facts, problem: str, says: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(building, "problem", lambda: problem)
    assert doctor.finding(facts).says == says


def test_what_is_unmet_here_is_wanted():
    wanted = [each.name for each in diagnosis.wanted()]
    assert set(diagnosis.unmet()) <= set(wanted)
    assert not wanted or "nvidia-cudnn-cu12" in wanted
