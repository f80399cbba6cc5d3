"""Python code that takes more for granted where it sees a GPU than a simulated one has: cuDNN, and a driver to ask."""

from __future__ import annotations

import sys
from typing import Any


def without_cudnn() -> None:
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


def devices_by_name() -> None:
    """Have who rewrites a graph from Python (inlines its functions, freezes it) know the devices by name and type alone.

    Without this it raises `Unknown TF GPU device`. Follows tensorflow/python/grappler/cluster.py and, in
    tensorflow/core/grappler/clusters, single_machine.cc (SingleMachine::Provision) and virtual_cluster.cc.
    """
    import tensorflow as tf
    from tensorflow.core.protobuf import device_properties_pb2  # pyright: ignore[reportAttributeAccessIssue]
    from tensorflow.python.grappler import cluster  # pyright: ignore[reportAttributeAccessIssue]

    real: Any = cluster.Cluster
    if getattr(real, "across", False):
        return

    class Cluster(real):
        across = True

        def __init__(self, *args: Any, devices: Any = None, **kwargs: Any) -> None:
            super().__init__(*args, devices=_named() if devices is None else devices, **kwargs)

    def _named() -> list[Any]:
        made, prefix = device_properties_pb2, "/job:localhost/replica:0/task:0"
        return [
            made.NamedDevice(name=prefix + each.name, properties=made.DeviceProperties(type=each.device_type))
            for each in tf.config.list_logical_devices()
        ]

    cluster.Cluster = Cluster
