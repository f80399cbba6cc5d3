"""A step of training on several replicas, traced in the student's kernel, run here on what only this process knows.

In its graph each copy of a weight is a variable of its own, which has a name. So who trains no copy on a replica has no such
variable, and what the copies are in the end was computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from placing import imported, ran, session


class Copies:
    """Such a step, ready to run."""

    def __init__(
        self,
        what: str,
        graph_def: Any,
        inputs: Sequence[str],
        outputs: Sequence[str],
        values: Sequence[Any],
        begin: Mapping[str, Any],
    ) -> None:
        """`values` are fed to `inputs`, variables begin as `begin` says of their names. A sentence calls the step `what`.

        AssertionError where the graph does not hold together.
        """
        self.graph = imported(graph_def)
        assert len(inputs) == len(values), f"{what} takes {len(inputs)} parts; its replicas have {len(values)}."
        try:
            self.feed = {self.graph.get_tensor_by_name(name): v for name, v in zip(inputs, values, strict=True)}
            self.outputs = [self.graph.get_tensor_by_name(name) for name in outputs]
            handles = [op.outputs[0] for op in self.graph.get_operations() if op.type == "VarHandleOp"]
            with self.graph.as_default():
                self._first, self._after = [], dict[str, Any]()
                for handle in handles:
                    name, dtype = handle.op.get_attr("shared_name").decode(), handle.op.get_attr("dtype")
                    with tf.device(handle.op.device):
                        value = tf.constant(begin[name], dtype)
                        self._first.append(tf.raw_ops.AssignVariableOp(resource=handle, value=value))
                        self._after[name] = tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)
        except (ValueError, TypeError, KeyError, IndexError):
            raise AssertionError(f"The graph of {what} does not hold together.") from None

    def run(self, step: Callable[[Any, Any, Any], Any], times: int) -> tuple[list[Any], dict[str, Any]]:
        """What `step(session, outputs, feed)` gave, so many `times`; then the value of each variable, by its name."""
        with session(self.graph) as running:
            ran(running, self._first)
            found = [step(running, self.outputs, self.feed) for _ in range(times)]
            return found, dict(zip(self._after, ran(running, [*self._after.values()])[1], strict=True))
