"""Ops and where they ran: what can be said of them without TensorFlow, and what a picture of them is drawn from."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from across._draw.partitions import INPUT, OP, PLUMBING, VARIABLE, Op, short_device


@dataclass(frozen=True)
class Edge:
    """A tensor on its way from one op to another; or, as a `control` edge, that the second op waits for the first."""

    source: str
    target: str
    copied: bool  # it had to be copied to another device
    control: bool = False  # no tensor: the target waits, and that is all


@dataclass(frozen=True, repr=False)
class Placed:
    """What ran where, in one run. Iterating gives the ops that ran; `given` is what they started from."""

    everything: tuple[Op, ...]  # TensorFlow's own plumbing too
    available: tuple[str, ...] = field(default=())  # every device that there was

    @property
    def ops(self) -> tuple[Op, ...]:
        """The ops that ran, each after those it reads."""
        return tuple(op for op in self.everything if op.kind == OP)

    @property
    def given(self) -> tuple[Op, ...]:
        """The inputs and variables that the function was given, and where they were."""
        return tuple(op for op in self.everything if op.kind in (INPUT, VARIABLE))

    def __iter__(self) -> Iterator[Op]:
        return iter(self.ops)

    def __len__(self) -> int:
        return len(self.ops)

    def __getitem__(self, name: str) -> Op:
        """The op called `name`. Raises KeyError, naming the ones there are."""
        for op in self.everything:
            if op.name == name:
                return op
        raise KeyError(f"no op {name!r}; there are: {', '.join(op.name for op in self.ops)}")

    def devices(self) -> list[str]:
        """The devices that ran something, in order: ["CPU:0", "CPU:2"]."""
        return sorted({op.device for op in self.ops}, key=device_order)

    def of_type(self, *types: str) -> list[Op]:
        """The ops of these types: `of_type("MatMul")`."""
        return [op for op in self.ops if op.type in types]

    def from_inputs(self) -> list[Op]:
        """The ops that compute with an input, by way of others, too; not what prints it, nor what reads a weight alone."""
        led_to: set[str] = set()
        for op in self.everything:
            if op.kind == INPUT or not led_to.isdisjoint(op.inputs):
                led_to.add(op.name)
        return [op for op in self.ops if op.name in led_to and op.dtype not in ("", "string")]

    def on(self, device: str) -> list[Op]:
        """The ops that ran on a device, "CPU:1" or "/CPU:1"."""
        return [op for op in self.ops if op.device == short_device(device)]

    def edges(self) -> list[Edge]:
        """The tensors between what is shown; a way through plumbing counts as one edge."""
        known = {op.name: op for op in self.everything}
        edges: dict[tuple[str, str], bool] = {}
        for op in self.everything:
            if op.kind == PLUMBING:
                continue
            ways = [(source, op.device) for source in op.inputs]
            ways = [(source, known[source].device != device) for source, device in ways if source in known]
            visited = set()
            while ways:
                source, copied = ways.pop(0)
                if (source, copied) in visited:
                    continue
                visited.add((source, copied))
                if known[source].kind != PLUMBING:
                    key = (source, op.name)
                    edges[key] = edges.get(key, False) or copied
                    continue
                device = known[source].device
                ways += [(s, copied or known[s].device != device) for s in known[source].inputs if s in known]
        return [Edge(source, target, copied) for (source, target), copied in edges.items()]

    def copies(self) -> list[tuple[str, str]]:
        """What was copied to which device, each once: [("MatMul", "CPU:2")]."""
        device = {op.name: op.device for op in self.everything}
        return list(dict.fromkeys((edge.source, device[edge.target]) for edge in self.edges() if edge.copied))

    def sent(self) -> dict[tuple[str, str], int]:
        """The bytes that were copied from device to device: {("CPU:0", "CPU:1"): 4096}. A tensor counts once a device.

        An op with several outputs counts as one, its first. Raises ValueError for a tensor without a known size.
        """
        found: dict[tuple[str, str], int] = {}
        for name, target in self.copies():
            op = self[name]
            link = (op.device, target)
            found[link] = found.get(link, 0) + bytes_of(op)
        return dict(sorted(found.items()))


def bytes_of(op: Op) -> int:
    """The bytes of an op's first output. Raises ValueError where they are not known."""
    import tensorflow as tf

    size = tf.as_dtype(op.dtype).size if op.dtype else 0
    if not size or op.shape is None or None in op.shape:
        raise ValueError(
            f"{op.name} is {op.dtype or 'nothing'} of shape {op.shape}: how many bytes it has is not known"
        )
    return size * math.prod(side or 0 for side in op.shape)


def device_order(device: str) -> tuple[str, str, int]:
    """Where a device comes in a sorted list of devices: CPU:2 before CPU:10, other tasks after this one."""
    task, _, local = device.rpartition(" ")
    kind, _, number = local.partition(":")
    return task, kind, int(number) if number.isdigit() else -1
