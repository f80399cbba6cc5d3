"""How a notebook of the course uses real cards: it leaves room for what it starts, and computes as the other devices do."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from across._process import forking

__all__ = ["AS_ON_A_CPU", "share"]

AS_ON_A_CPU = {"NVIDIA_TF32_OVERRIDE": "0"}  # else float32 products of a card keep 10 bits of each factor (TF32)
DRIVERS = (Path("/dev/nvidiactl"), Path("/dev/dxg"))  # the latter is WSL's


def share() -> None:
    """Have TensorFlow take of the cards here what it needs, as it needs it, and this process and its children compute float32.

    Without a driver, or once TensorFlow has started, its memory stays as it is; a program that is started from here takes what
    it would. A simulated GPU is told nothing. A fork server looks for no card: its children would have what it found, in its
    environment, and CUDA does not survive a fork. Each child calls this once its own environment is set.
    """
    for name, value in AS_ON_A_CPU.items():
        os.environ.setdefault(name, value)
    if forking.serves() or not any(path.exists() for path in DRIVERS):
        return
    import tensorflow as tf

    from across import devices
    from across._gpu import loading

    if loading.loaded() or devices.started():
        return
    with contextlib.suppress(RuntimeError, tf.errors.OpError):  # a broken driver: whoever asks for a card is told
        for card in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(card, True)
