"""TensorFlow's answers on an invented machine: which GPUs it lists, their details, and what its wheel was built for.

    with machine({"NVIDIA L4": (8, 9)}, built=["sm_80"]):
        tf.config.list_physical_devices("GPU")          # one GPU that is not there

Only what `tf.config`, `tf.sysconfig.get_build_info` and `tf.test` say is replaced, inside the block; nothing can run on an
invented GPU.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

LINUX_WHEEL = ("sm_60", "sm_70", "sm_80", "sm_89", "compute_90")  # TensorFlow 2.21, as its own build info says
GPUS = {  # model: compute capability (NVIDIA, "CUDA GPU Compute Capability"; the K520 is the book's)
    "GRID K520": (3, 0),
    "Tesla T4": (7, 5),
    "GeForce RTX 3090": (8, 6),
    "NVIDIA L4": (8, 9),
    "NVIDIA H200": (9, 0),
    "GeForce RTX 5090": (12, 0),
}


@contextlib.contextmanager
def machine(
    gpus: Mapping[str, tuple[int, int]] | Sequence[tuple[str, tuple[int, int]]] = (),
    built: Sequence[str] = LINUX_WHEEL,
) -> Iterator[None]:
    """Let TensorFlow list these `gpus`, model to compute capability, in this order, beside the CPU that is there.

    `built` names the code in the wheel; without any, TensorFlow was built without CUDA.
    """
    import tensorflow as tf
    from tensorflow.core.framework.device_attributes_pb2 import DeviceAttributes
    from tensorflow.python.client import device_lib
    from tensorflow.python.eager import context
    from tensorflow.python.platform import build_info
    from tensorflow.python.platform import test as platform_test

    models = list(gpus.items() if isinstance(gpus, Mapping) else gpus)
    physical = [context.PhysicalDevice(f"/physical_device:GPU:{i}", "GPU") for i in range(len(models))]
    logical = [context.LogicalDevice(f"/device:GPU:{i}", "GPU") for i in range(len(models))]
    details = {
        device: {"device_name": model, "compute_capability": tuple(capability)}
        for device, (model, capability) in zip(physical, models, strict=True)
    }
    runtime = [DeviceAttributes(name="/device:CPU:0", device_type="CPU")]  # of gpu_device_name, is_gpu_available
    for device, (model, (major, minor)) in zip(logical, models, strict=True):
        says = f"device: 0, name: {model}, pci bus id: 0000:00:00.0, compute capability: {major}.{minor}"
        runtime.append(DeviceAttributes(name=device.name, device_type="GPU", physical_device_desc=says))
    cpu, logical_cpu = tf.config.list_physical_devices("CPU"), [context.LogicalDevice("/device:CPU:0", "CPU")]

    def listed(devices: list[Any]) -> Any:
        return lambda _self, device_type=None: [each for each in devices if device_type in (None, each.device_type)]

    replaced = {
        "list_physical_devices": listed([*cpu, *physical]),
        "get_visible_devices": listed([*cpu, *physical]),
        "list_logical_devices": listed([*logical_cpu, *logical]),
        "get_device_details": lambda _self, device: dict(details.get(device, {})),
    }
    build: dict[str, Any] = (
        {"is_cuda_build": True, "cuda_version": "12.5.1", "cudnn_version": "9"} if built else {"is_cuda_build": False}
    )
    if built:
        build["cuda_compute_capabilities"] = list(built)
    with (
        mock.patch.multiple(context.Context, **replaced),
        mock.patch.object(build_info, "build_info", build),
        mock.patch.object(device_lib, "list_local_devices", return_value=runtime),
        mock.patch.object(platform_test._test_util, "IsGoogleCudaEnabled", return_value=bool(built)),
    ):
        yield
