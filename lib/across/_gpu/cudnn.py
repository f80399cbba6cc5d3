"""Keras without cuDNN: there is none on a simulated GPU, and Keras takes its LSTM and GRU for granted where it sees a GPU."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["without"]


def without() -> None:
    """Have Keras find no cuDNN when it runs an LSTM or a GRU: then it computes them itself, as on a CPU.

    Follows keras/src/backend/tensorflow/rnn.py, which does so where TensorFlow has no such op; Keras 2 leaves the choice to
    grappler (tensorflow/core/grappler/optimizers/implementation_selector.cc). Whoever asks for the op gets it, and when it
    runs, a sentence.
    """
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"implementation_selector": False})

    raw_ops: Any = tf.raw_ops
    real = raw_ops.CudnnRNNV3
    if getattr(real, "across", False):
        return

    def op(*args: Any, **kwargs: Any) -> Any:
        if sys._getframe(1).f_globals.get("__name__", "").startswith("keras."):
            raise tf.errors.NotFoundError(None, None, "CudnnRNNV3 needs cuDNN, and this is a simulated GPU")
        return real(*args, **kwargs)

    op.across = True  # pyright: ignore[reportFunctionMemberAccess]
    raw_ops.CudnnRNNV3 = op
