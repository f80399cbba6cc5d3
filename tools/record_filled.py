"""Record how TensorFlow's allocator fills a GPU under a limit, growing or not, until it refuses a tensor: chapter 02.

uv run python tools/record_filled.py       # on a simulated GPU, half a minute: a refusal is waited for
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from pathlib import Path

import tensorflow as tf

from across import devices, fresh, memory

SIZE, LIMITS = 6, (32, 64, 96, 128)  # MiB
PLACE = Path(memory.__file__).with_name("filled_recorded.json")


def filled(limit: int, growth: str, most: int = 99) -> list[tuple[float, float]]:
    """In a process that has not started TensorFlow: MiB taken and used after each tensor, `most` at most, until a refusal."""
    os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = str(growth == "yes").lower()
    (gpu,) = tf.config.list_physical_devices("GPU")
    tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=limit)])
    kept, found = [], []
    with contextlib.suppress(tf.errors.ResourceExhaustedError), tf.device("/GPU:0"):
        for _ in range(most):
            kept.append(tf.zeros([SIZE, memory.MIB // 4]))
            reading = memory.now()
            found.append((round(reading.taken, 2), round(reading.used, 2)))
    return found


if __name__ == "__main__":
    devices.gpus_or_cpus(1)
    places = list(itertools.product(LIMITS, ("no", "yes")))
    seen = fresh.side_by_side(filled, places)
    rows = [f'  "{limit} {growth}": {json.dumps(each)}' for (limit, growth), each in zip(places, seen, strict=True)]
    known = f'"tensorflow": "{tf.__version__}", "size": {SIZE}, "limits": {json.dumps(LIMITS)}'
    PLACE.write_text(f"{{{known}, " + '"filled": {\n' + ",\n".join(rows) + "\n}}\n", encoding="utf-8")
