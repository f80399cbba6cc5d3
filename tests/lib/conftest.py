import functools
from collections.abc import Callable
from typing import Any

import pytest

from across import fresh


@pytest.fixture
def in_four() -> Callable[..., Any]:
    """Run a function in a fresh TensorFlow process with four logical CPUs, so that no test depends on another's."""
    return functools.partial(fresh.run, cpus=4, timeout=120)
