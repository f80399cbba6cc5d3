"""A table of nvidia-smi says of which machine it is: of this one, or of one where it was recorded."""

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


@pytest.mark.usefixtures("no_driver")
def test_without_a_driver_the_table_says_where_it_was_recorded_and_a_query_finds_no_card():
    shown = smi.read()
    assert (shown.live, "RECORDED: two H100, 2024-11-14" in repr(shown)) == (False, True)
    assert smi.query("name") == []


@pytest.mark.usefixtures("driver")
def test_with_a_driver_its_own_table_is_shown_and_a_query_gives_a_row_a_card():
    assert smi.read().live
    assert smi.query("name", "memory.total") == [["NVIDIA L4", "23034"]]
