"""How even a strategy spreads variables over parameter servers, on models that are drawn; with Graham's bound.

    balance.tasks_of(tf.compat.v1.train.replica_device_setter(ps_tasks=2), [[700, 700], [700]])    # [0, 1]
    balance.against_bound({"turns": lambda ps: None, "greedy": greedy}, ps=3)                      # a picture

Whoever gives each variable to the server that has the least so far, whatever their order, loads none with more than the
mean and 1 - 1/m times the largest variable: R. L. Graham, "Bounds for certain multiprocessing anomalies" (1966), where the
servers are processors and the variables are tasks without an order.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from across._language import pictured
from across._language.catalogue import given, marked, said
from across.pictures import ALERT, FONT, INK, PALETTE, Picture, plot, render

Strategy = Callable[[int], Any]  # the number of servers -> a `ps_strategy`, or None for turns
MARKS = "os^D"
MODELS = 40


def tasks_of(
    setter: Callable[[Any], str], shapes: Sequence[Sequence[int]], dtypes: Sequence[Any] | None = None
) -> list[int]:
    """The number of the ps that a device function gives to each of the variables with these `shapes` and `dtypes`.

    Without `dtypes` all are of float32. Raises ValueError for another number of dtypes than of shapes.
    """
    import tensorflow as tf

    with tf.Graph().as_default(), tf.compat.v1.device(setter):
        made = [
            tf.raw_ops.VarHandleOp(dtype=dtype, shape=shape, shared_name=f"v{i}")
            for i, (shape, dtype) in enumerate(zip(shapes, dtypes or [tf.float32] * len(shapes), strict=True))
        ]
    return [tf.DeviceSpec.from_string(each.device).task for each in made]


def bound(shapes: Sequence[Sequence[int]], ps: int) -> float:
    """The most bytes that the fullest of `ps` servers can get by the greedy rule, for variables of float32."""
    sizes = [4 * int(np.prod(shape)) for shape in shapes]
    return sum(sizes) / ps + (1 - 1 / ps) * max(sizes)


def drawn(rng: np.random.Generator) -> list[list[int]]:
    """The shapes of a model of 5 to 12 dense layers, 50 to 500 wide: kernel, bias, kernel, bias."""
    widths = [int(width) for width in rng.integers(50, 501, size=rng.integers(6, 14))]
    return [shape for n, m in itertools.pairwise(widths) for shape in ([n, m], [m])]


def against_bound(strategies: Mapping[str, Strategy], *, ps: int) -> Picture:
    """Each strategy on the same random models: how full the fullest server is, over the bound; 1 is their mean."""
    import tensorflow as tf

    rng = np.random.default_rng(1)
    lists = [drawn(rng) for _ in range(MODELS)]
    means = [sum(4 * int(np.prod(shape)) for shape in shapes) / ps for shapes in lists]
    limits = [bound(shapes, ps) / mean for shapes, mean in zip(lists, means, strict=True)]
    shown = pictured.said("{0} random models on {1} servers", MODELS, ps)
    x, y = marked("Graham's bound / mean"), marked("bytes of the fullest server / mean")
    figure, axes = plot(6.4, 3.6, title=shown, x=x, y=y)
    sentences = []
    for number, (name, strategy) in enumerate(strategies.items()):
        fullest = []
        for shapes, mean in zip(lists, means, strict=True):
            setter = tf.compat.v1.train.replica_device_setter(ps_tasks=ps, ps_strategy=strategy(ps))
            held = [0] * ps
            for task, shape in zip(tasks_of(setter, shapes), shapes, strict=True):
                held[task] += 4 * int(np.prod(shape))
            fullest.append(max(held) / mean)
        look = {"markersize": 5.5, "alpha": 0.9, "markeredgecolor": "black", "markeredgewidth": 0.4}
        axes.plot(limits, fullest, MARKS[number % 4], color=PALETTE[number], label=name, **look)
        above = sum(got > limit + 1e-9 for got, limit in zip(fullest, limits, strict=True))
        sentences.append(said("{0} is above the bound on {1}", given(name), above))
    ends = [min(limits), max(limits)]
    axes.plot(ends, ends, color=ALERT, lw=1.5, label=marked("the bound"))
    axes.set_ylim(bottom=0.9)
    legend = axes.legend(frameon=False, fontsize=FONT, labelcolor=INK, loc="center left", bbox_to_anchor=(1.0, 0.5))
    legend.set_in_layout(True)
    title = said("{0} random models on {1} servers", MODELS, ps)
    return render(figure, said("{0}; of these {1}.", title, said(" and ").join(sentences)))
