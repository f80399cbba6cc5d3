"""Without a driver there is no card: these tests then skip at once, and TensorFlow need not be started to say so."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from across import fresh


def driver() -> bool:
    """Whether NVIDIA's driver leaves a trace on this machine; /dev/dxg is WSL's."""
    devices = [*Path("/dev").glob("nvidia[0-9]*"), Path("/dev/dxg"), Path("/proc/driver/nvidia")]
    return shutil.which("nvidia-smi") is not None or any(path.exists() for path in devices)


@pytest.fixture(scope="session", autouse=True)
def _a_driver() -> None:
    if not driver():
        pytest.skip("no NVIDIA driver on this machine: not shown here what only a card shows")


def _listed() -> int:
    import tensorflow as tf

    return len(tf.config.list_physical_devices("GPU"))


@pytest.fixture(scope="session")
def count() -> int:
    """How many GPUs TensorFlow sees: a driver alone does not make one."""
    return fresh.run(_listed, timeout=300)


@pytest.fixture(scope="session")
def card(count: int) -> None:
    """Skip where there is none."""
    if not count:
        pytest.skip("TensorFlow sees no GPU on this machine: not shown here what only a card shows")


@pytest.fixture(scope="session")
def two_cards(count: int) -> None:
    """Skip where two processes would have to share one."""
    if count < 2:
        pytest.skip("fewer than two cards on this machine: not shown here what two cards show")
