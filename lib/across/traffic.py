"""What a run of a TensorFlow 1 session sends from task to task, in bytes of tensors.

    sent = traffic.count(session, total, {x: [1, 2, 3]})
    sent["ps:0", "worker:1"]               # bytes

Which tensors are sent is read from the graphs that ran (their `_Send` ops). How large one is, is known from its shape, or
else looked at: a second run fetches it. TensorFlow's own record of what a task received (`RecvTensor` in its step_stats) was
incomplete in up to a third of our runs of some milliseconds, so that is not used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from across._draw.partitions import fed_name, short_device

if TYPE_CHECKING:
    import tensorflow as tf

__all__ = ["Sent", "count", "sent_by"]

Sent = dict[tuple[str, str], int]  # (from, to), "ps:0" and "worker:1" -> bytes
SIGNAL = re.compile(r"/ctrl(?:_S_?|/_)\d+$")  # an empty tensor that stands for a control edge between devices


def count(
    session: tf.compat.v1.Session, fetches: Any, feed: Mapping[Any, Any] | None = None, devices: bool = False
) -> Sent:
    """Run `fetches`: {("ps:0", "worker:1"): bytes}. A tensor counts once for each device that it was sent to.

    With `devices`, what goes from device to device: {("CPU:0", "CPU:1"): bytes}, or "ps:0 CPU:0" where there are jobs.
    What the session fetches counts on its way to the master. Expects a session whose graph nobody rewrites (Grappler off).
    Raises what the session raises; ValueError for a tensor that only TensorFlow knows, or one without a size (a string).
    """
    import tensorflow as tf

    metadata = tf.compat.v1.RunMetadata()
    options = tf.compat.v1.RunOptions(output_partition_graphs=True)
    session.run(fetches, feed, options=options, run_metadata=metadata)
    sends, named = [], short_device if devices else _task
    for node in (node for part in metadata.partition_graphs for node in part.node):  # pyright: ignore
        if node.op == "_Send" and not SIGNAL.search(node.input[0]):
            ends = (named(node.attr[f"{side}_device"].s.decode()) for side in ("send", "recv"))
            sends.append((*ends, _tensor(session.graph, node.input[0])))
    sends = [each for each in sends if each[0] != each[1]]
    unknown = list({tensor.ref(): tensor for _, _, tensor in sends if not tensor.shape.is_fully_defined()}.values())
    seen = session.run(unknown, feed) if unknown else []
    looked_at = {tensor.ref(): int(value.size) for tensor, value in zip(unknown, seen, strict=True)}
    found: Sent = {}
    for source, target, tensor in sends:
        length = looked_at.get(tensor.ref())
        length = tensor.shape.num_elements() if length is None else length
        if not tensor.dtype.size:
            raise ValueError(f"{tensor.name} is of {tensor.dtype.name}, which has no fixed number of bytes")
        found[source, target] = found.get((source, target), 0) + length * tensor.dtype.size
    return dict(sorted(found.items()))


def sent_by(sent: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """The bytes of `sent` by who sent them, to anybody: {"ps:0": 4096}."""
    found: dict[str, int] = {}
    for (source, _), size in sent.items():
        found[source] = found.get(source, 0) + size
    return found


def _task(device: str) -> str:
    return short_device(device).rpartition(" ")[0]


def _tensor(graph: tf.Graph, name: str) -> Any:
    """The client's own tensor for an input in a graph that ran. Raises ValueError."""
    op, _, output = name.partition(":")
    try:
        return graph.get_tensor_by_name(f"{fed_name(op)}:{output or 0}")
    except (KeyError, ValueError):
        raise ValueError(f"{name} is a tensor of TensorFlow's own; is the graph rewritten before it runs?") from None
