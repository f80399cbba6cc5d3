"""What programs of towers did: who got which record, who sent what to whom, and whether the program of 2016 keeps its word.

found = tower_runs.run(source_step, given, 0.1, ["/CPU:0", "/CPU:1"])       # a graph and a session of its own
[says for right, says in tower_runs.promises(found) if not right]
tower_runs.draw_shares(passes); tower_runs.draw_sent(sent, devices)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from across._language import pictured
from across._language.catalogue import given, marked, said
from across.pictures import FONT, INK, PALETTE, Picture, bars, plot, readable_on, render

RATE, MOMENTUM, STEPS, UNITS = 0.1, 0.9, 3, 32
Weights = Sequence[np.ndarray]  # kernel, bias, kernel, bias, ... from the first layer to the last
Batches = Sequence[tuple[Any, Any]]  # images in rows, labels


@dataclass(frozen=True)
class Found:
    """What a program gave: its weights before and after one step, its loss before it, the batches after three."""

    given: Batches
    decay: float
    before: Weights
    after: Weights
    loss: float
    batches: float


def run(program: Callable[..., Any], given: Batches, decay: float, devices: Sequence[str]) -> Found:
    """Build `program(given, decay, devices)` in a graph of its own and run three steps. Raises what it raises."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default():
        v1.set_random_seed(1)
        batches = [(tf.constant(images), tf.constant(labels)) for images, labels in given]
        train, loss, seen = program(batches, decay, list(devices))
        weights = v1.trainable_variables()
        with v1.Session(config=v1.ConfigProto(allow_soft_placement=True)) as session:
            session.run(v1.global_variables_initializer())
            before, said = session.run([list(weights), loss])
            session.run(train)
            after = session.run(list(weights))
            for _ in range(STEPS - 1):
                session.run(train)
            return Found(given, decay, before, after, float(said), float(session.run(seen)))


def losses(weights: Any, given: Batches) -> list[Any]:
    """The mean cross-entropy of each batch: layers with a ReLU between them."""
    import tensorflow as tf

    found = []
    for images, labels in given:
        x = tf.constant(images)
        for number in range(0, len(weights), 2):
            x = tf.nn.relu(x) if number else x
            x = x @ weights[number] + weights[number + 1]
        found.append(tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, x)))
    return found


def decays(weights: Any) -> Any:
    """Half the sum of the squares of all weights."""
    import tensorflow as tf

    return tf.add_n([tf.nn.l2_loss(each) for each in weights])


def updated(weights: Weights, given: Batches, decay: float) -> list[np.ndarray]:
    """The weights after a first step of Nesterov's momentum with the mean over the towers."""
    import tensorflow as tf

    held = [tf.constant(each) for each in weights]
    with tf.GradientTape() as tape:
        tape.watch(held)
        total = tf.add_n(losses(held, given)) / float(len(given)) + decay * decays(held)
    pulls: Any = tape.gradient(total, held)
    return [each - RATE * (1 + MOMENTUM) * pull.numpy() for each, pull in zip(weights, pulls, strict=True)]


def close(some: Weights, others: Weights) -> bool:
    """Whether two models have the same weights, up to rounding."""
    return all(np.allclose(a, b, atol=1e-5) for a, b in zip(some, others, strict=True))


def promises(found: Found) -> Iterator[tuple[bool, str]]:
    """Each of the four promises: whether it is kept, and what is seen where it is not. With `decay` the loss has some."""
    shapes = [list(each.shape) for each in found.before]
    two = [[int(found.given[0][0].shape[1]), UNITS], [UNITS], [UNITS, 10], [10]]
    yield shapes == two, f"its weights have the shapes {shapes}; expected two layers, {two}"
    plain = [float(each) for each in losses(found.before, found.given)]
    wanted = sum(plain) / len(plain)
    says = f"it returns the loss {found.loss:.4f}; the towers' mean is {wanted:.4f}"
    if np.isclose(found.loss, plain[-1], atol=1e-5):
        says += f", and the last one's {plain[-1]:.4f}"
    yield bool(found.decay or np.isclose(found.loss, wanted, atol=1e-5)), says
    decayed = close(found.after, updated(found.before, found.given, found.decay))
    says = "after a step, the weights are not those of the towers' mean gradient, decay of every variable included"
    if close(found.after, updated(found.before, found.given, 0.0)):
        says = "after a step, the weights are those of a loss without decay"
    elif decayed and found.decay and any(np.isclose(found.loss, each, atol=1e-5) for each in (wanted, plain[-1])):
        decayed, says = False, f"it returns the loss {found.loss:.4f}, which has no decay in it"
    yield decayed, says
    count = STEPS * len(found.given)
    yield found.batches == count, f"after {STEPS} steps it counts {found.batches:g} batches; all towers had {count}"


def draw_losses(found: Found, *, title: str) -> Picture:
    """The loss of each tower, their mean, and the one that the program returned, in one chart."""
    term = found.decay * float(decays(found.before))
    each = [float(loss) + term for loss in losses(found.before, found.given)]
    rows = {pictured.said("tower {0}", number): loss for number, loss in enumerate(each)}
    return bars(
        {**rows, marked("their mean"): sum(each) / len(each), marked("returned"): found.loss},
        title=title,
        unit=marked("loss, with its decay"),
    )


def draw_shares(passes: Sequence[Sequence[Sequence[int]]], *, title: str) -> Picture:
    """Which records of a file each tower got: a row a tower, a column a record; the number is the batch that it came in."""
    figure, axes = plot(7.2, 1.0 + 0.32 * len(passes), title=title, x=marked("record, by its place in the file"), y="")
    last, words = 1, []
    for tower, batches in enumerate(passes):
        fill = PALETTE[tower % len(PALETTE)]
        for number, records in enumerate(batches):
            for record in records:
                last = max(last, record)
                axes.barh(tower, 0.9, left=record - 0.45, height=0.8, color=fill, edgecolor=INK, linewidth=0.6)
                colour = readable_on(fill)
                axes.text(record, tower, f"{number}", ha="center", va="center", fontsize=FONT - 2, color=colour)
        batch_by_batch = "; ".join(" ".join(map(str, records)) for records in batches)
        words.append(said("tower {0}: {1}", tower, batch_by_batch))
    axes.set_xlim(-0.6, last + 0.6)
    axes.set_xticks(range(0, last + 1, max(1, last // 20)))
    axes.set_ylim(len(passes) - 0.5, -0.5)
    axes.set_yticks(range(len(passes)), [pictured.said("tower {0}", tower) for tower in range(len(passes))])
    told = said(". ").join(words)
    return render(figure, said("{0}. Records by tower and batch: {1}.", given(title), told))


def draw_sent(sent: Mapping[tuple[str, str], int], devices: Sequence[str], *, title: str) -> Picture:
    """Who sent how many bytes to whom, as a table of squares: a row a sender, a column a receiver."""
    ends = [name.strip("/") for name in devices]
    ends += sorted({end for link in sent for end in link} - set(ends))
    figure, axes = plot(1.6 + 0.95 * len(ends), 1.1 + 0.36 * len(ends), title=title, x=marked("to"), y=marked("from"))
    most = max(sent.values(), default=1)
    for (source, target), size in sent.items():
        fill = PALETTE[5] if size > most / 2 else PALETTE[0] if size > 64 else "#dddddd"
        column, row = ends.index(target), ends.index(source)
        axes.barh(row, 0.9, left=column - 0.45, height=0.8, color=fill, edgecolor=INK, linewidth=0.8)
        text = f"{size / 1e3:,.1f} KB" if size >= 1000 else f"{size} B"
        axes.text(column, row, text, ha="center", va="center", fontsize=FONT - 1, color=readable_on(fill))
    axes.set_xlim(-0.5, len(ends) - 0.5)
    axes.set_ylim(len(ends) - 0.5, -0.5)
    axes.set_xticks(range(len(ends)), ends)
    axes.set_yticks(range(len(ends)), ends)
    words = said("; ").join(said("{0} to {1} {2:,}", source, target, size) for (source, target), size in sent.items())
    return render(figure, said("{0}, in bytes: {1}.", given(title), words or said("nothing")))
