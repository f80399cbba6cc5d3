"""The invented table looks like the real one, and says that it is invented."""

from __future__ import annotations

from pathlib import Path

import pytest

from across import smi


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine on which no nvidia-smi is found."""
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine whose nvidia-smi prints a card as CSV."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'NVIDIA L4, 23034'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))


def test_every_line_is_as_wide_as_the_real_table():
    assert {len(line) for line in smi.sample().splitlines()} == {91}


def test_a_long_name_is_cut_as_nvidia_smi_cuts_it():
    table = smi.table([smi.Card("NVIDIA GeForce RTX 4090 Laptop GPU", 1, 16376)], driver="550.1", cuda="12.4")
    assert "|   0  NVIDIA GeForce RTX 4090 ...    On  |" in table


@pytest.mark.usefixtures("no_driver")
def test_without_a_driver_the_sample_says_that_it_is_invented():
    shown = smi.read()
    assert (shown.live, "INVENTED" in repr(shown)) == (False, True)


@pytest.mark.usefixtures("driver")
def test_with_a_driver_its_own_table_is_shown():
    assert smi.read().live


@pytest.mark.usefixtures("no_driver")
def test_without_a_driver_a_query_finds_no_card():
    assert smi.query("name") == []


@pytest.mark.usefixtures("driver")
def test_a_query_gives_a_row_a_card():
    assert smi.query("name", "memory.total") == [["NVIDIA L4", "23034"]]
