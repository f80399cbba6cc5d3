"""TensorFlow's rule for names of devices with gaps, in a session on a cluster.

It is that of its placer over the devices of a session (tensorflow/core/common_runtime/placer.cc, with the order of
device_set.cc, a master's own devices first); a test holds it against sessions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from across import placement
from cluster_truth import Master


def resolved(name: str, devices: Sequence[Any], master: Master) -> Any:
    """The device that an op pinned to `name` runs on; `devices` in the order of their names. None: TensorFlow raises."""
    wanted = tf.DeviceSpec.from_string(name)
    parts = ("job", "task", "device_type", "device_index")
    fits = [one for one in devices if all(getattr(wanted, part) in (None, getattr(one, part)) for part in parts)]
    own = [one for one in fits if (one.job, one.task) == master]
    return next(iter(own + fits), None)


def why(name: str, devices: Sequence[Any], master: Master, found: Any, right: Any) -> str:
    """Which part of the rule was missed by who says `found`."""
    if right is None:
        return "no device fits, and TensorFlow raises: expected None."
    if found is None:
        return "there are devices that fit what the name says."
    wanted = tf.DeviceSpec.from_string(name)
    for part in ("job", "task", "device_type", "device_index"):
        if getattr(wanted, part) not in (None, getattr(found, part)):
            return f"the name says {part} {getattr(wanted, part)}: it does not fit."
    if (right.job, right.task) == master:
        if (found.job, found.task) == master:
            return "it is not the first of that task's devices that fit."
        return "a device of the master's own task fits, too, and comes first."
    if wanted.job is None and found.job != right.job:
        return "the name says no job, and nothing of the master's task fits: expected the first of all that fit."
    if found.job == right.job and found.task < right.task:
        return (
            "names are in the order of text: of two that fit, the task with the smaller number is not always the first."
        )
    return "it fits, and it is not the first one that does."


def specs(jobs: Mapping[str, int], cpus: int) -> list[Any]:
    """The devices of a cluster, in the order of their full names as text."""
    names = [
        f"/job:{job}/replica:0/task:{index}/device:CPU:{cpu}"
        for job, count in jobs.items()
        for index in range(count)
        for cpu in range(cpus)
    ]
    return [tf.DeviceSpec.from_string(name) for name in sorted(names)]


def short(device: Any) -> str:
    """ "ps:1 CPU:0"."""
    return placement.short_device(device.to_string())
