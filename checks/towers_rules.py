"""What checks on towers' batches and averages are made of: questions, and the rules of wrong answers.

The truth of an average is computed here by NumPy (`mean_of`); a wrong one is told by its rule.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from across import digits
from across.expecting import anything, array, list_of, row, shown, whole
from autograder.probe.asking import Misconception, each_answer, probe


@probe
def pulled(student, content, n, size, passes):
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/digits.tfrecords"
        with open(path, "wb") as file:
            file.write(content)
        found = []
        for k in range(n):
            data = student.batches(path, n, k, size)
            rounds = []
            for _ in range(passes):
                pairs = [(np.asarray(x), np.asarray(y)) for x, y in data]
                flat = [(np.rint(x.reshape([len(y), -1]) * 255), y) for x, y in pairs]
                rounds.append([[200 * x[:, 0] + x[:, -1], y] for x, y in flat])
            found.append(rounds)
        return found


def filed(labels: Sequence[int]) -> bytes:
    """A file of records, of which each has an image of 8 x 8 that tells its label: its first pixel how often 200 is in it."""
    images = np.ones((len(labels), 8, 8, 1), np.float32) * (np.asarray(labels) % 200)[:, None, None, None] / 255
    images[:, 0, 0, 0] = np.asarray(labels) // 200 / 255
    with tempfile.TemporaryDirectory() as folder:
        return Path(digits.write_records(digits.Digits(images, np.asarray(labels)), folder)).read_bytes()


PASS = list_of(row(list_of(whole), list_of(whole)))


class Pulled:
    """What each tower pulls of a fresh file in several passes: lists of labels."""

    def __init__(
        self, student: Any, rng: np.random.Generator, n: int, passes: int, batches: int = 3, least: int = 3
    ) -> None:
        """From a file of which each tower has so many `batches` of `least` records or one more, the last of them smaller."""
        self.n, self.size = n, int(rng.integers(least, least + 2))
        fewest = (batches - 1) * self.size + 1
        self.count = self.n * fewest + int(
            rng.integers(1, self.n)
        )  # shares of two sizes, and a last batch that is smaller
        self.labels = [int(each) for each in rng.permutation(1000)[: self.count]]
        asked = student.ask(pulled, content=filed(self.labels), n=self.n, size=self.size, passes=passes)
        kind = list_of(list_of(PASS, passes), n).named("batches of images and labels")
        found = kind(asked, "Your datasets gave")
        self.says = f"Of {self.count} records, `batches(path, {self.n}, k, {self.size})`"
        for images, labels in (pair for tower in found for each in tower for pair in each):
            assert images == labels, f"{self.says} gives images whose labels are others'; expected pairs as they stand."
        self.towers = [[[labels for _, labels in each] for each in tower] for tower in found]
        self.shares = [[label for labels in tower[0] for label in labels] for tower in self.towers]


@probe
def averaged(student, cases):
    def made(one):
        if one is None:
            return None
        if isinstance(one, dict):
            return tf.IndexedSlices(*(tf.constant(one[key]) for key in ("values", "indices", "shape")))
        return tf.constant(one)

    found = []
    for towers, sizes in cases:

        def run():
            return student.average_gradients([[made(g) for g in one] for one in towers], [int(n) for n in sizes])  # noqa: B023

        got = tf.function(run, autograph=False).get_concrete_function()()
        if not isinstance(got, (list, tuple)):
            found.append(type(got).__name__)
            continue
        found.append([None if one is None else np.asarray(tf.convert_to_tensor(one)) for one in got])
    return found


def dense(one: Any, shape: Sequence[int]) -> np.ndarray:
    """A gradient of any kind as an array; None as zeros."""
    if isinstance(one, dict):
        found = np.zeros(shape, np.float32)
        np.add.at(found, one["indices"], one["values"])
        return found
    return np.zeros(shape, np.float32) if one is None else one


def overwritten(one: dict[str, Any], shape: Sequence[int]) -> np.ndarray:
    """Rows of a table as an array, by a wrong rule: of a row that is there twice, the last one counts."""
    found = np.zeros(shape, np.float32)
    for index, row_ in zip(one["indices"], one["values"], strict=True):
        found[index] = row_
    return found


def shape_of(gradients: Sequence[Any]) -> tuple[int, ...] | None:
    """The shape of a weight whose gradients these are; None if there is none."""
    there = [one for one in gradients if one is not None]
    if not there:
        return None
    return tuple(int(size) for size in (there[0]["shape"] if isinstance(there[0], dict) else there[0].shape))


def mean_of(gradients: Sequence[Any], weights: Sequence[float], shape: Sequence[int]) -> np.ndarray:
    """The sum of the gradients times `weights`."""
    return np.sum([dense(one, shape) * np.float32(w) for one, w in zip(gradients, weights, strict=True)], axis=0)


WRONG: dict[str, tuple[Callable[[list[float]], list[float]], str]] = {
    "sum_for_mean": (lambda n: [1.0] * len(n), "that is their sum; divide it"),
    "mean_of_means": (
        lambda n: [1 / len(n)] * len(n),
        "each tower counts as much as another; expected as many times as it has examples",
    ),
    "first_only": (lambda n: [1.0] + [0.0] * (len(n) - 1), "that is the first tower's"),
    "by_examples_not_divided": (lambda n: list(n), "that is the sum over all examples; divide by how many there are"),
    "divided_by_towers": (lambda n: [each / len(n) for each in n], "you divide by the towers; divide by all examples"),
    "divided_twice": (
        lambda n: [each / sum(n) / len(n) for each in n],
        "that is the mean, divided by the towers again",
    ),
}


def check_averages(student: Any, cases: list[tuple[list[list[Any]], list[int], str]]) -> None:
    """Ask for averages and tell a wrong one by the rule that gives it. A case: towers, sizes, what it is about."""
    asked = student.ask(averaged, cases=[[towers, sizes] for towers, sizes, _ in cases])
    for (towers, sizes, about), got in each_answer(asked, cases, anything, "`average_gradients` returned"):
        says = f"For {len(sizes)} towers with {sizes} examples{about}, `average_gradients`"
        many = len(towers[0])
        assert isinstance(got, list), f"{says} returned {shown(got)}; expected a list of averages."
        assert len(got) == many, f"{says} returned {len(got)} averages; expected one for each of {many} weights."
        for number_, (gradients, one) in enumerate(zip(zip(*towers, strict=True), got, strict=True)):
            where, shape = f"{says}, weight number {number_}", shape_of(gradients)
            if shape is None or one is None:
                assert one is None, f"{where}: all gradients are None, and the average is {shown(one)}; expected None."
                assert shape is None, f"{where}: the average is None; expected the average of those that there are."
                continue
            found = array(shape)(one, f"{where}: the average is")

            def is_by(weights: Sequence[float], found: Any = found, these: Any = gradients, shape: Any = shape) -> bool:
                return bool(np.allclose(found, mean_of(these, weights, shape), rtol=1e-4, atol=1e-5))

            if is_by([n / sum(sizes) for n in sizes]):
                continue
            have = [n if each is not None else 0 for n, each in zip(sizes, gradients, strict=True)]
            if 0 in have and is_by([n / sum(have) for n in have]):
                raise Misconception(
                    "nones_left_out", f"{where}: one gradient is None; it counts as zeros, and its examples count."
                )
            again = [overwritten(one, shape) if isinstance(one, dict) else one for one in gradients]
            if np.allclose(found, mean_of(again, [n / sum(sizes) for n in sizes], shape), rtol=1e-4, atol=1e-5):
                raise Misconception(
                    "last_row_only",
                    f"{where}: of a row that is used twice only the last one counts; expected their sum.",
                )
            for name, (rule, text) in WRONG.items():
                if is_by(rule([float(n) for n in sizes])):
                    raise Misconception(name, f"{where}: {text}.")
            raise AssertionError(f"{where}: {shown(np.round(found, 3).tolist())} is not the average over examples.")


def drawn(rng: np.random.Generator, towers: int, shapes: Sequence[Sequence[int]]) -> list[list[Any]]:
    """Dense gradients."""
    return [[rng.normal(size=shape, scale=4).astype("float32") for shape in shapes] for _ in range(towers)]


def uneven(rng: np.random.Generator, towers: int) -> list[int]:
    """Sizes of which the last is smaller."""
    full = int(rng.integers(6, 13))
    return [full] * (towers - 1) + [int(rng.integers(1, full // 2))]
