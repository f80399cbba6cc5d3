"""A module, a fork server's for one, as on a machine with a driver and one card: what looks for devices is noted.

Its name is SERVED in the environment. Never imported by a test: the process has that card from then on.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path

from tensorflow.python import pywrap_tfe

from across._process import sharing

LOOKED: list[dict[str, str]] = []  # the environment at each look


def _looked() -> list[bytes]:
    LOOKED.append(dict(os.environ))
    return [b"/physical_device:CPU:0", b"/physical_device:GPU:0"]


sharing.DRIVERS = (Path("/"),)
pywrap_tfe.TF_ListPhysicalDevices = _looked
served = importlib.import_module(os.environ["SERVED"])
child = getattr(served, "child", None)
prepare = getattr(served, "prepare", lambda: None)
before = getattr(served, "before", lambda _message: lambda: None)


def said() -> tuple[list[str | None], bool]:
    """What is set of CUDA_VISIBLE_DEVICES and NVIDIA_TF32_OVERRIDE at each look before this, and whether the card grows."""
    import tensorflow as tf

    looked = [each.get(name) for each in LOOKED for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_TF32_OVERRIDE")]
    return looked, bool(tf.config.experimental.get_memory_growth(tf.config.list_physical_devices("GPU")[0]))
