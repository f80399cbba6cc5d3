"""Without a driver there is no card: these tests then skip at once, and TensorFlow need not be started to say so."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


def driver() -> bool:
    """Whether NVIDIA's driver leaves a trace on this machine; /dev/dxg is WSL's."""
    devices = [*Path("/dev").glob("nvidia[0-9]*"), Path("/dev/dxg"), Path("/proc/driver/nvidia")]
    return shutil.which("nvidia-smi") is not None or any(path.exists() for path in devices)


@pytest.fixture(scope="session", autouse=True)
def _a_driver() -> None:
    if not driver():
        pytest.skip("no NVIDIA driver on this machine: not shown here what only a card shows")
