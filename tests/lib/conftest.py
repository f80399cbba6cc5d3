from pathlib import Path

import pytest

from across._gpu import building


@pytest.fixture(scope="session")
def built() -> Path:
    """The library of the simulated GPU, built once."""
    return building.build()
