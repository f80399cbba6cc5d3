"""Grappler's Python on simulated GPUs: it asks a driver about each GPU before it rewrites a graph, and there is none."""

from __future__ import annotations

from typing import Any

__all__ = ["by_name"]


def by_name() -> None:
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
