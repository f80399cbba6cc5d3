from pathlib import Path

import nbformat
import pytest

from across._gpu import building
from across._process import diary, recorded


@pytest.fixture(scope="session")
def built() -> Path:
    """The library of the simulated GPU, built once."""
    return building.build()


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own folder, who has not asked for a diary."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "user"))
    monkeypatch.setenv("ACROSS_COURSE", str(tmp_path))
    monkeypatch.delenv(diary.ASKED_FOR, raising=False)
    monkeypatch.delenv(recorded.FOR_CHECKS_ALONE, raising=False)
    return tmp_path / "user"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A chapter of two exercises with checks and one that a person reads, as released, which promises 20 minutes."""
    from test_validation import STUB, cell

    (tmp_path / "notebooks").mkdir()
    place = tmp_path / "notebooks" / "01_first.ipynb"
    cells = [
        nbformat.v4.new_markdown_cell("# First\n\nThis takes 20 minutes."),
        nbformat.v4.new_code_cell("from across.attempt import attempt, expect"),
        cell(f"def pick():\n    {STUB}", "answer", "pick"),
        cell("with attempt('pick'):\n    expect(pick() == 1, f'`pick()` returned {pick()}')", "check", "pick"),
        cell(f"def place():\n    {STUB}", "answer", "place"),
        cell("with attempt('place'):\n    expect(place() == 2, 'no')", "check", "place"),
        cell("*Your answer goes here.*", "prose", "explain"),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), place)
    return place
