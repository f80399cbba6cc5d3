"""What a simulated GPU costs beside a logical CPU: an op, a step, and a process's memory, in turns, on this machine.

uv run python tools/gpu_overhead.py --repeats 5
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from across import fresh

MEMORY = "2 GiB"
ROWS = (
    "an eager add, us",
    "a step of ten products of 64 x 64, us",
    "Keras, a batch of 32, ms",
    "the same on two, ms",
    "memory, MB",
)


def measured(kind: str) -> dict[str, float]:
    """What each of ROWS takes in a process with two devices of one kind, "CPU" or "GPU"; memory as PSS."""
    import tensorflow as tf

    from across import devices

    names = devices.gpus(2, MEMORY) if kind == "GPU" else devices.simulate(2)
    tf.get_logger().setLevel("ERROR")
    with tf.device(names[0]):
        x = tf.ones([64, 64])

        @tf.function
        def step(y: Any) -> Any:
            for _ in range(10):
                y = y @ x
            return y

        keras, images, labels = tf.keras, tf.ones([32, 64]), tf.ones([32, 10])
        model = _model(keras)
        found = [
            1e6 * _median(lambda: tf.add(x, x), 2000),
            1e6 * _median(lambda: step(x), 500),
            1e3 * _median(lambda: model.train_on_batch(images, labels), 30),
        ]
    strategy = tf.distribute.MirroredStrategy(names, tf.distribute.ReductionToOneDevice())
    with strategy.scope():
        both = _model(keras)
    data = tf.data.Dataset.from_tensors((tf.ones([32, 64]), tf.ones([32, 10]))).repeat(33)
    both.fit(data.take(3), verbose=0, shuffle=False)
    started = time.perf_counter()
    both.fit(data.take(30), verbose=0, shuffle=False)
    found.append(1e3 * (time.perf_counter() - started) / 30)
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    found.append(next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024)
    return dict(zip(ROWS, found, strict=True))


def _model(keras: Any) -> Any:
    model = keras.Sequential([keras.Input([64]), keras.layers.Dense(64, "relu"), keras.layers.Dense(10)])
    model.compile("sgd", "mse")
    return model


def _median(run: Callable[[], Any], times: int) -> float:
    for _ in range(5):
        run()
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        run()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def main(repeats: Annotated[int, typer.Option(min=1)] = 5) -> None:
    """Measure and print."""
    found: dict[str, list[dict[str, float]]] = {"CPU": [], "GPU": []}
    for turn in range(repeats):
        for kind in ("CPU", "GPU") if turn % 2 else ("GPU", "CPU"):
            found[kind].append(fresh.run(measured, kind, timeout=300))
    table = Table(title=f"medians of {repeats} processes each (min-max)")
    for heading in ("", "two logical CPUs", "two simulated GPUs", "times"):
        table.add_column(heading)
    for row in ROWS:
        values = {kind: [each[row] for each in runs] for kind, runs in found.items()}
        middle = {kind: statistics.median(each) for kind, each in values.items()}
        shown = [f"{middle[kind]:.1f} ({min(each):.1f}-{max(each):.1f})" for kind, each in values.items()]
        table.add_row(row, *shown, f"{middle['GPU'] / middle['CPU']:.2f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    typer.run(main)
