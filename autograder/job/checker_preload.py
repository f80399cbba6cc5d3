"""What a checker's server imports before it collects any checks: what they would import themselves when they first run.

TensorFlow's own settings stand here, for the courses that preload it. No op is run: after one, forked children hang.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator, Sequence

from autograder.gpu import simulated

TENSORFLOW = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_ENABLE_ONEDNN_OPTS": "0",  # with it a process's first op goes through all kernels, for 20 ms,
    "TENSORFLOW_USE_CUSTOM_CONTRACTION_KERNEL": "0",  # and with this one its first product compiles its own
}


def preload(names: Sequence[str]) -> None:
    """Import what checks of a course that preloads the modules `names` use without importing it."""
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    for name in ("numpy.random", "numpy.testing"):
        importlib.import_module(name)
    if "tensorflow" in names:
        _tensorflow()


def simulate(count: int) -> None:
    """Have `count` simulated GPUs in this process and in those that it starts. Raises NoGpu."""
    if count:
        from across import devices

        del os.environ["CUDA_VISIBLE_DEVICES"]
        os.environ.update(simulated.environment(count))
        devices.gpus(count)


@contextlib.contextmanager
def _without(module: str) -> Iterator[None]:
    """Have `module`, if it is not imported yet, be found missing in the block."""
    if module in sys.modules:
        yield
        return
    sys.modules[module] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[module]


def _tensorflow() -> None:
    os.environ.update(TENSORFLOW)
    with _without("matplotlib"):  # Keras would import it, for pictures that no check draws: 0.4 s of the server's start
        import tensorflow as tf

    for lazy in ("Session", "RunMetadata"):
        getattr(tf.compat.v1, lazy)
    for name in ("tensorflow.core.framework.graph_pb2", "tensorflow.python.client.session", "across.placement"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
