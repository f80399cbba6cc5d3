"""Which device ran each op: `trace` for a Python function or a tf.function, `trace_graph` for a graph and a session.

What is shown was read back from what TensorFlow executed (eager outputs, and the partition graphs of functions
and sessions), not from what the program asked for. Grappler's rewriting is off while tracing, so that the ops are the ones
that the program has; placing comes before that rewriting, and its answer is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from across._draw import lanes
from across._draw.partitions import (
    INPUT,
    VARIABLE,
    Op,
    Output,
    fed_name,
    first_outputs,
    mark_plumbing,
    placed_ops,
    renamed,
    short_device,
)
from across._draw.placed import Edge, Placed, device_order
from across._draw.recording import Recorder
from across._language.catalogue import given, marked, said
from across.pictures import Picture, Stepper, Tabled

if TYPE_CHECKING:
    import tensorflow as tf

__all__ = ["Edge", "Op", "Trace", "short_device", "trace", "trace_graph"]


@dataclass(frozen=True, repr=False)
class Trace(Placed, Tabled):
    """What ran where, in one run. Iterating gives the ops that ran; `given` is what they started from.

    A Trace holds plain values only: it can come back from another process (`fresh.run`).
    """

    columns = ("op", marked("type"), marked("device"), "dtype", marked("shape"))

    def draw(self, *, title: str = "", devices: Sequence[str] | None = None) -> Picture:
        """Draw the ops as boxes in one lane a device; what is copied between devices is dashed.

        `devices` names the lanes ("/CPU:1" or "CPU:1"), in order; without it there is one for every device, or, with
        more than 8 of them, for every device that was used.
        """
        return lanes.draw(self, title=title, devices=devices)

    def walk(self, *, title: str, devices: Sequence[str] | None = None) -> Stepper:
        """Step from op to op: the pin that it has in the graph, the variable that it touches, where it ran, what was copied.

        The first step shows all that ran. `devices` as in `draw`.
        """
        steps = {said("all that ran; move on, op by op"): self.draw(title=title, devices=devices)}
        come = [op.name for op in self.given]
        for number, op in enumerate(self.ops, start=1):
            come.append(op.name)
            words = said("{0} of {1}, {2}: {3}", number, len(self), op.type, self._decided(op))
            steps[words] = lanes.draw(
                self, title=title, devices=devices, come=come, alt=said("{0}. {1}.", given(title), words)
            )
        return Stepper(steps, title)

    def _decided(self, op: Op) -> str:
        """Of one op, what bore on its place, and what was copied to it."""
        read = [edge for edge in self.edges() if edge.target == op.name]
        touched = [self[edge.source] for edge in read if self[edge.source].kind == VARIABLE]
        bore = [said("pinned to {0}", op.pin)] if op.pin else [said("no pin")] if op.pin == "" and not touched else []
        bore += [said("touches {0} on {1}", other.name, other.device) for other in touched]
        copied = [edge.source for edge in read if edge.copied]
        bore.append(said("ran on {0}", op.device))
        return said(", ").join(bore) + (said("; copied there: {0}", ", ".join(copied)) if copied else "")

    def moved(self, devices: Mapping[str, str]) -> Trace:
        """The same ops on other devices: what would be copied if each that `devices` names, or its type, were there.

        Nothing is run. What TensorFlow put in to carry tensors is left out: it belongs to the placement that happened.
        """
        sources: dict[str, list[str]] = {}
        for edge in self.edges():
            sources.setdefault(edge.target, []).append(edge.source)
        return Trace(
            tuple(
                replace(
                    op,
                    device=short_device(devices.get(op.name, devices.get(op.type, op.device))),
                    inputs=tuple(sources.get(op.name, ())),
                )
                for op in (*self.given, *self.ops)
            ),
            self.available,
        )

    def rows(self) -> list[list[str]]:
        """One row an op: name, type, device, dtype, shape."""
        return [[op.name, op.type, op.device, op.dtype, _shape_text(op)] for op in self.ops]


def trace(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Trace:
    """Call `fn(*args, **kwargs)` once and tell where each op ran.

    `fn` may run op by op, be a tf.function, or mix the two; a function is not retraced. An eager op without an output
    is listed where its variable is. Ops that other threads run op by op are not seen. What `fn` raises is raised.
    """
    import tensorflow as tf

    tf.config.list_logical_devices()  # starts TensorFlow, if it has not run yet
    with Recorder(fn, args, kwargs) as recorder:
        fn(*args, **kwargs)
    return Trace(
        tuple(mark_plumbing(recorder.ops)), _sorted(device.name for device in tf.config.list_logical_devices())
    )


def trace_graph(
    graph: tf.Graph,
    fetches: Any,
    feed: Mapping[Any, Any] | None = None,
    *,
    session: tf.compat.v1.Session | None = None,
    cpus: int | None = None,
) -> Trace:
    """Run `fetches` of a TensorFlow 1 graph once and tell where each op ran.

    Without `session`, a new one gets `cpus` CPUs (default: as many logical CPUs as TensorFlow has here), soft placement, and
    initialised variables. A session that is passed in keeps its own configuration, Grappler's rewriting included. Raises what
    the session raises. Follows RunOptions(output_partition_graphs=True).
    """
    import tensorflow as tf

    v1 = tf.compat.v1
    if session is None:
        with v1.Session(graph=graph, config=_config(cpus)) as own:
            own.run([variable.initializer for variable in graph.get_collection(v1.GraphKeys.GLOBAL_VARIABLES)])
            return trace_graph(graph, fetches, feed, session=own)
    metadata = v1.RunMetadata()
    session.run(fetches, feed, options=v1.RunOptions(output_partition_graphs=True), run_metadata=metadata)
    outputs = first_outputs(graph)
    ops = placed_ops(metadata.partition_graphs, outputs)
    fed = {op.name: fed_name(op.name) for op in ops if op.type == "_Arg"}
    ops = [_fed(op, outputs) if op.type == "_Arg" else op for op in renamed(ops, fed)]
    return Trace(tuple(ops), _sorted(device.name for device in session.list_devices()))


def _fed(op: Op, outputs: Mapping[str, Output]) -> Op:
    dtype, shape = outputs.get(op.name, ("", None))
    return replace(op, type="Input", dtype=dtype, shape=shape, kind=INPUT)


def _config(cpus: int | None) -> tf.compat.v1.ConfigProto:
    import tensorflow as tf
    from tensorflow.python.eager import context

    config = tf.compat.v1.ConfigProto(allow_soft_placement=True)
    current: Any = context.context()
    config.gpu_options.CopyFrom(current.config.gpu_options)  # or the session does not see the pieces of a card
    config.device_count["CPU"] = cpus or len(tf.config.list_logical_devices("CPU"))
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = tf.compat.v1.OptimizerOptions.L0
    return config


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({short_device(name) for name in names}, key=device_order))


def _shape_text(op: Op) -> str:
    if op.shape is None or not op.dtype:
        return ""
    return "scalar" if op.shape == () else " x ".join("?" if size is None else str(size) for size in op.shape)
