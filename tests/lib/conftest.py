import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from across import fresh
from across._gpu import building


@pytest.fixture
def in_four() -> Callable[..., Any]:
    """Run a function in a fresh TensorFlow process with four logical CPUs, so that no test depends on another's."""
    return functools.partial(fresh.run, cpus=4, timeout=120)


@pytest.fixture(scope="session")
def built() -> Path:
    """The library of the simulated GPU, built once."""
    return building.build()
