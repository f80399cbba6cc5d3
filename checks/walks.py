"""Chapter 05's five ops: the graph that a student built, run here; what each is computed by, where, and after what."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograder.probe.asking import Misconception
from placing import imported, ran, session
from students_graphs import TRACED, candidates, same

NO_WORK = ("Placeholder", "Identity", "IdentityN", "Const", "NoOp")


class Walk:
    """The student's `walk` on a matrix: what each of A to E is computed by, where, and after what."""

    def __init__(self, answer: Any, x: np.ndarray, devices: list[str]) -> None:
        """`answer`: the graph that `walk(x, devices)` built, with the names of its inputs and outputs, or what it was not."""
        size, self.devices = len(x), devices
        self.call = f"`walk(tf.ones([{size}, {size}]), {self.devices})`"
        kind = {"dict": "a dictionary", "NoneType": "None", "iterator": "an iterator"}.get(str(answer), "one tensor")
        assert type(answer) is not str, f"{self.call} returned {kind}; expected a list of four tensors: A, B, D and E."
        graph_def, inputs, outputs = TRACED(answer, "Your code led to")
        graph = imported(graph_def)
        assert len(outputs) == 4, f"{self.call} returned {len(outputs)} tensors; expected four: A, B, D and E."
        try:
            (fed,) = (graph.get_tensor_by_name(name) for name in inputs)
            outs = [graph.get_tensor_by_name(name) for name in outputs]
            tensors = candidates(graph, [size, size])
        except (ValueError, TypeError, KeyError):
            raise AssertionError("The graph that your code built does not hold together.") from None
        with session(graph) as live:
            feed: dict[Any, Any] = {}
            feed[fed] = x
            self.where, values = ran(live, [*outs, *tensors], feed)
        self.wanted = {"A": x @ x, "B": np.sin(x), "C": np.cos(x), "D": np.exp(np.cos(x)), "E": np.tanh(np.cos(x))}
        self.got, self.x = values[:4], x
        self.ops = {}  # name -> the ops that compute it, none of whose inputs is it already
        for name, value in self.wanted.items():
            ops = {tensor.op for tensor, got in zip(tensors, values[4:], strict=True) if same(got, value)}
            self.ops[name] = [op for op in ops if not any(each.op in ops for each in op.inputs)]
        self.needed: dict[Any, list[Any]] = {}
        todo = [out.op for out in outs]
        while todo:
            op = todo.pop()
            if op not in self.needed:
                self.needed[op] = [*(each.op for each in op.inputs), *op.control_inputs]
                todo += self.needed[op]

    def before(self, op: Any) -> set[Any]:
        """The ops that do work and have to run before this one."""
        found, todo = set(), list(self.needed.get(op, ()))
        while todo:
            each = todo.pop()
            if each not in found:
                found.add(each)
                todo += self.needed[each]
        return {each for each in found if each.type not in NO_WORK}


def check_results(walk: Walk) -> None:
    for name, got in zip("ABDE", walk.got, strict=True):
        right = walk.wanted[name]
        if not same(got, right):
            is_there = next((each for each, value in walk.wanted.items() if same(got, value)), None)
            assert not is_there, f"{walk.call} returned {is_there} where {name} belongs; expected A, B, D, E."
            if name == "A" and same(got, walk.x * walk.x):
                raise Misconception(
                    "squared_by_element", "A is `x * x`, element by element; expected the product `x @ x`."
                )
            raise AssertionError(f"{walk.call}: {name} is not what the textbook's graph computes.")
