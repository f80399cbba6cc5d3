"""What checks of device functions are made of: a graph is built there under the student's function, and it is run here."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from autograder.probe.asking import kept, probe
from placing import device_of, imported, names, ran, session

OTHERS = ("product", "sum", "negation", "copy", "constant")  # kinds of steps that are no variables


@probe(graphs=1)
def built(student, maker, arguments, steps, again=False):
    """Build `steps` ([kind, name, pin]; kinds: new and old variables, and OTHERS) under a device function.

    `again`: it is made of the very arguments of the last one, as that left them.
    """
    import contextlib

    from across import tracing

    make = {
        "product": lambda value, name: tf.multiply(value, value, name=name),
        "sum": lambda value, name: tf.add(value, value, name=name),
        "negation": lambda value, name: tf.negative(value, name=name),
        "copy": lambda value, name: tf.identity(value, name=name),
        "constant": lambda value, name: tf.constant(1.0, name=name),
    }
    graph = tf.Graph()
    kept["arguments"] = kept["arguments"] if again else arguments
    function = getattr(student, maker)(*kept["arguments"])
    with graph.as_default(), tf.compat.v1.device(function):
        value = tf.compat.v1.placeholder(tf.float32, [], name="one")
        for kind, name, pin in steps:
            with tf.device(pin) if pin else contextlib.nullcontext():
                if kind in make:
                    value = make[kind](value, name)
                else:
                    tf.compat.v1.Variable(1.0, name=name, use_resource=kind == "new")
    return tracing.quiet(graph)


Step = list[Any]  # kind, name, pin


def went(graph_def: Any, steps: list[Step]) -> dict[str, str]:
    """Run a graph that was `built` and return where each of its steps ran."""
    graph = imported(graph_def)
    try:
        first = [graph.get_operation_by_name(f"{name}/Assign") for kind, name, _ in steps if kind not in OTHERS]
        last = [graph.get_operation_by_name(name) for kind, name, _ in steps if kind in OTHERS]
        one: Any = graph.get_tensor_by_name("one:0")
    except (KeyError, ValueError):
        raise AssertionError("The graph that was built under your device function is not the one asked for.") from None
    with session(graph) as running:
        places = {**ran(running, first)[0], **ran(running, last, {one: 1.0})[0]}
    whole = all(name in places for _, name, _ in steps)
    assert whole, "The graph that was built under your device function is not the one asked for."
    return places


def shuffled(rng: np.random.Generator, kinds: list[str], pin: bool = False) -> list[Step]:
    """Steps of those kinds in any order, freshly named; `pin` gives OTHERS and two variables a device block of their own."""
    order = [kinds[i] for i in rng.permutation(len(kinds))]
    variables = [i for i, kind in enumerate(order) if kind not in OTHERS]
    alone = set(variables[1:3]) if pin else set()
    return [
        [kind, name, f"/cpu:{rng.integers(4)}" if pin and (kind in OTHERS or i in alone) else None]
        for i, (kind, name) in enumerate(zip(order, names(rng, len(kinds)), strict=True))
    ]


def mixed_steps(rng: np.random.Generator, pin: bool) -> list[Step]:
    """Variables of both kinds and OTHERS, in an order in which a count of one kind, or of every op, tells.

    With `pin` all OTHERS are in blocks of their own but one product.
    """
    while True:
        steps = shuffled(rng, ["new"] * 3 + ["old"] * 3 + ["product", *OTHERS], pin=pin)
        kinds = [kind for kind, _, _ in steps if kind not in OTHERS]
        away = not pin or any(device_of(pinned) != "CPU:0" for kind, _, pinned in steps if pinned and kind in OTHERS)
        if len(set(kinds[:3])) == 2 and away:
            first = [["new", "first_of_all", None], ["old", "second_of_all", None], ["product", "third_of_all", None]]
            return [*first, *steps]
