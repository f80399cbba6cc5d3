from pathlib import Path

import pytest

from across._gpu import building


@pytest.fixture(scope="session")
def built() -> Path:
    """The library of the simulated GPU, built once."""
    return building.build()


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own folder, where Jupyter keeps what is theirs."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "user"))
    return tmp_path / "user"
