"""Trusted checks of chapter 12: steps of strategies are held against one device, runs in parts against one in a piece."""

from __future__ import annotations

from typing import Any

import numpy as np

from across.expecting import anything, array, list_of, number, row, whole
from autograder.probe.asking import Misconception, each_answer, exercise, recorded
from loops_truth import (
    Alone,
    Duel,
    apart,
    check_moves,
    continued,
    cut,
    dealt,
    descend,
    of_each,
    replicated,
)
from steps_truth import Duelled, Looped, Worked, check_loop, counted, duel_work, own_work, stepped

RATE, MOMENTUM = 0.125, 0.5


# shares


def check_shares(student: Any, cases: list[tuple[int, int, int]]) -> None:
    """Ask for the parts of datasets: replicas, examples, size of a batch."""
    asked = [[n, size, np.arange(count) % 10] for n, count, size in cases]
    kind = list_of(list_of(whole)).named("a list of lists of whole numbers")
    for (n, count, size), got in each_answer(student.ask(dealt, cases=asked), cases, kind, "`shares` returned"):
        batches = [min(size, count - first) for first in range(0, count, size)]
        wanted = [cut(each, n) for each in batches]
        if got == wanted:
            continue
        says = f"{count} examples in batches of {size}, {n} replicas: `shares` returned {got}"
        if got == [[each] for each in batches]:
            raise Misconception(
                "not_distributed", f"{says}, the batches as a whole; what does each replica get of them?"
            )
        if got == [[part for part in each if part] for each in wanted]:
            raise Misconception("without_empty", f"{says}; a replica without examples counts, too: 0.")
        if got == wanted[:1]:
            raise Misconception("first_only", f"{says}; that is the first of {len(batches)} batches.")
        if got == [[size // n] * n for _ in batches] or got == [[-(-size // n)] * n for _ in batches]:
            raise Misconception("by_division", f"{says}: every batch as if it were full; count what is in the parts.")
        if got == [cut(each, n, -(-size // n)) for each in batches]:
            raise Misconception(
                "full_share", f"{says}: each share as large as in a full batch, while there are examples."
            )
        even = [[each // n + (k < each % n) for k in range(n)] for each in batches]
        if got == even:
            raise Misconception(
                "evened_out", f"{says}: as even as can be; TensorFlow deals otherwise. Count the parts."
            )
        if got == [list(each) for each in zip(*wanted, strict=True)]:
            raise Misconception("by_replica", f"{says}: a list for each replica; expected one for each batch.")
        if [len(each) for each in got] != [n] * len(batches):
            raise AssertionError(f"{says}; expected {len(batches)} lists, each of {n} numbers.")
        totals = [sum(each) for each in got]
        raise AssertionError(f"{says}; together {totals}, where the batches have {batches}. Count the parts.")


@exercise("shares")
def test_the_parts_of_two_and_four_replicas(student, rng):
    size = int(rng.choice([8, 12]))
    n = int(rng.choice([3, 4]))
    check_shares(student, [(2, 2 * size + 1, size), (4, size + 6, size), (4, 18, 12), (n, 5 * n - 2, 3 * n)])


@exercise("shares")
def test_parts_that_are_uneven_or_empty(student, rng):
    size = int(rng.choice([7, 10]))
    check_shares(student, [(3, size + 1, size), (4, 9, 9)])


# what each replica computes

MORE = (
    2.2  # times what one device computes for the same examples: who does the others' part computes three times as much
)


def check_work(student: Any, what: str, rng: np.random.Generator, sizes: list[int]) -> None:
    """Have `step`, or `in_replica`, run here on replicas with those examples, and see what each of them computes."""
    alone = Alone(rng, sum(sizes))
    found = Worked(student, what, alone, sizes, RATE, MOMENTUM)
    says = f"`{what}` in a `tf.function`, twice, {len(sizes)} replicas with {sizes} examples:"
    everything = slice(0, sum(sizes))
    for weights in found.weights:
        check_moves(says, weights, alone, [(everything, sizes)] * 2, RATE, MOMENTUM)
    right = [(everything, of_each("right", [sum(sizes)]))] * 2
    for got, wanted in zip(found.losses, alone.trained(right, RATE, MOMENTUM)[0], strict=True):
        total = sum(float(each) if np.shape(each) == () else np.nan for each in got)
        close = np.isclose(total, wanted, rtol=1e-3, atol=1e-4)
        assert close, f"{says} it returned {np.ravel(got[0])[:3]}; the mean loss is {wanted:.4f}."
    own = [own_work(alone, size, RATE, MOMENTUM) for size in sizes]
    check_own_work(says, found.work, own, sizes)


def check_own_work(says: str, work: list[int], own: list[int], sizes: list[int]) -> None:
    """Each replica computes about what one device does for as many examples, and nobody else; `work` ends with the others'."""
    *work, elsewhere = work
    idle = sum(each < need / 2 for each, need in zip(work, own, strict=True))
    if idle or elsewhere > min(own) / 2:
        used = len(sizes) - idle
        raise Misconception(
            "one_device", f"{len(sizes)} replicas: the model ran on {used} of their devices; expected all."
        )
    for k, (each, need) in enumerate(zip(work, own, strict=True)):
        if each > MORE * need:
            text_ = f"{says} replica {k} computes {each / need:.1f} times as much as its {sizes[k]} examples take"
            raise Misconception("all_in_each", f"{text_}; each works on its own part.")


# in_replica


def check_replicas(student: Any, rng: np.random.Generator, sizes: list[int]) -> None:
    """Train two steps in replicas with those examples, and look at losses and weights."""
    alone = Alone(rng, sum(sizes))
    answer = student.ask(
        replicated,
        weights=alone.weights,
        images=alone.images,
        labels=alone.labels,
        sizes=sizes,
        rate=RATE,
        momentum=MOMENTUM,
        count=2,
    )
    kind = row(list_of(list_of(array(), len(sizes)), 2), row(*(array(each.shape) for each in alone.weights)))
    says = f"After 2 steps of {len(sizes)} replica{'s' * (len(sizes) > 1)} with {sizes} examples,"
    losses, weights = kind.named("losses and weights")(answer, f"{says} losses and weights are")
    everything = slice(0, sum(sizes))
    check_moves(says, weights, alone, [(everything, sizes)] * 2, RATE, MOMENTUM, by_hand=True)
    right = [(everything, of_each("right", [sum(sizes)]))] * 2
    for found, wanted in zip(losses, alone.trained(right, RATE, MOMENTUM)[0], strict=True):
        for each in found:
            assert each.shape == (), f"`in_replica` returned a loss of shape {each.shape}; expected one number."
        total = float(sum(found))
        if not np.isclose(total, wanted, rtol=1e-3, atol=1e-4):
            text_ = f"Replicas with {sizes} examples returned losses that add up to {total:.4f}"
            raise Misconception("another_loss", f"{text_}; the mean over all examples is {wanted:.4f}.")


@exercise("in_replica")
def test_one_replica_and_two_uneven_ones(student, rng):
    check_replicas(student, rng, [int(rng.integers(3, 6))])
    first = int(rng.integers(3, 6))
    check_replicas(student, rng, [first, first - int(rng.integers(1, 3))])
    check_work(student, "in_replica", rng, [int(each) for each in rng.integers(75, 90, size=3)])


@exercise("in_replica")
def test_four_replicas_one_of_them_empty(student, rng):
    first = int(rng.integers(2, 4))
    check_replicas(student, rng, [first + 1, first, 1])
    check_replicas(student, rng, [first, first, first - 1, 0])
    check_work(student, "in_replica", rng, [int(each) for each in rng.integers(60, 70, size=4)])


# guesses

NAMES = ("its own", "1", "8 x replicas", "its own, one digit")
test_every_guess_is_recorded = recorded("guesses", dict.fromkeys(NAMES, number))


# step


def check_step(student: Any, rng: np.random.Generator, n: int, size: int, rest: int) -> None:
    """Train a full batch and an uneven one with n replicas: the losses and the weights."""
    count = size + rest
    alone = Alone(rng, count)
    answer = student.ask(
        stepped,
        n=n,
        weights=alone.weights,
        images=alone.images,
        labels=alone.labels,
        size=size,
        rate=RATE,
        momentum=MOMENTUM,
    )
    spans = [slice(first, min(first + size, count)) for first in range(0, count, size)]
    kind = row(list_of(array(), len(spans)), row(*(array(each.shape) for each in alone.weights)))
    losses, weights = kind(answer, "`step` returned")
    says = f"After batches of {size} and {rest} examples on {n} replicas,"
    nominal = [(span, np.full(span.stop - span.start, 1 / size)) for span in spans]
    shares = [(span, cut(span.stop - span.start, n)) for span in spans]
    if apart(weights, alone.trained(nominal, RATE, MOMENTUM)[1]) < 1e-4:
        raise Misconception("always_full", f"{says} the weights are as if all had {size}; count what is in the batch.")
    check_moves(says, weights, alone, shares, RATE, MOMENTUM)
    right = [(span, of_each("right", sizes)) for span, sizes in shares]
    for number_, (got, wanted) in enumerate(zip(losses, alone.trained(right, RATE, MOMENTUM)[0], strict=True)):
        text_ = f"Batch {number_} on {n} replicas: `step` returned"
        assert got.shape == (), f"{text_} a loss of shape {got.shape}; expected one number."
        if np.isclose(float(got), wanted, rtol=1e-3, atol=1e-4):
            continue
        if np.isclose(float(got) * n, wanted, rtol=1e-3):
            raise Misconception(
                "mean_of_parts", f"{text_} {float(got):.4f}, the mean loss {wanted:.4f} over {n}: parts add up."
            )
        raise Misconception("one_part", f"{text_} {float(got):.4f}; the mean loss of the batch is {wanted:.4f}.")


@exercise("step")
def test_two_replicas_train_as_one_device(student, rng):
    size = 2 * int(rng.integers(2, 4))
    check_step(student, rng, 2, size, size - 1)
    check_work(student, "step", rng, [int(each) for each in rng.integers(75, 90, size=3)])


@exercise("step")
def test_three_and_four_replicas_each_on_its_device(student, rng):
    check_step(student, rng, 4, 2 * int(rng.integers(2, 4)), 1)
    check_work(student, "step", rng, [int(each) for each in rng.integers(60, 70, size=4)])


# up_to


def check_up_to(student: Any, rng: np.random.Generator, n: int, ends: bool) -> None:
    """Call `up_to` several times on one iterator, of a strategy and here: within the data and, if `ends`, beyond its end."""
    size, many = int(rng.integers(2, 4)), int(rng.integers(8, 11))  # no fewer than 3 + 1 + 4
    numbers, fresh = (rng.integers(1, 40, size=size * many - 1).astype("float32") for _ in range(2))
    first = int(rng.integers(2, 4))
    asked = [first, 0, first + 1, many, 3] if ends else [first, 1, first + 1]
    answer = student.ask(counted, n=n, numbers=numbers, size=size, asked=asked)
    found = [each for _, each in each_answer(answer, asked, row(number, number, whole), "`up_to` returned")]
    here = Looped(student, fresh, size, float(rng.choice([0.25, 0.5, 0.75])), asked)
    for calls in (found[-1][2], here.bodies):
        if calls > 1:
            text_ = f"`up_to({first}, ...)`: Python called `step_of` {calls} times"
            raise Misconception("unrolled", f"{text_}. Expected it traced once, in a loop of the graph.")
    losses = [float(numbers[at : at + size].sum()) for at in range(0, len(numbers), size)]
    check_loop(losses, asked, [(steps, total) for steps, total, _ in found])
    check_loop(here.losses, asked, here.found)


@exercise("up_to")
def test_as_many_steps_as_are_asked_for(student, rng):
    check_up_to(student, rng, 2, ends=False)


@exercise("up_to")
def test_fewer_steps_where_the_data_ends(student, rng):
    check_up_to(student, rng, 3, ends=True)


# train_to


def check_train_to(lives: Any, rng: np.random.Generator, stops: list[int]) -> None:
    """Train to each of `stops`, each in a life of its own to which only the folder comes: the weights are those of one run.

    A life has the numbers of the batches that are its own; the others are drawn anew for each.
    """
    shapes = ((2, 2), (2, 1), (1,))  # a frozen kernel, a kernel, a bias
    begins = [[rng.normal(size=shape).astype("float32") for shape in shapes] for _ in stops]
    count = 3 * max(stops) + 4
    inputs, targets = (rng.normal(size=(count, 4, width)).astype("float32") for width in (2, 1))
    name, files = f"run_{rng.integers(1 << 40)}", {}
    done = 0

    def trained(first: list[np.ndarray], start: int, end: int) -> list[np.ndarray]:
        """All weights after the batches from `start` to `end`, with no momentum before."""
        data = list(zip(inputs[start:end] @ first[0], targets[start:end], strict=True))
        return [first[0], *descend(first[1:], data, RATE, MOMENTUM)]

    kind = row(list_of(array()), list_of(whole), anything)
    for k, stop in enumerate(stops):
        own = (np.arange(count) >= done) & (np.arange(count) < stop)
        given = [
            np.where(own[:, None, None], each, rng.normal(size=each.shape)).astype("float32")
            for each in (inputs, targets)
        ]
        asked = {
            "begin": begins[k],
            "inputs": given[0],
            "targets": given[1],
            "stop": stop,
            "name": name,
            "files": files,
        }
        answer = lives().ask(continued, rate=RATE, momentum=MOMENTUM, **asked)
        weights, batches, files = kind(answer, "`train_to` led to")
        wanted = list(range(done, stop))
        calls = " then ".join(f"`train_to({each}, ...)`" for each in stops[: k + 1])
        says = f"{calls}: the last call trained with the batches {batches}"
        if batches != wanted:
            if done and batches == list(range(stop)):
                raise Misconception("starts_anew", f"{says}; {done} steps were done before.")
            if done and batches == list(range(stop - done)):
                raise Misconception("first_batches_again", f"{says}; those were used before. How many steps were done?")
            if done and batches == list(range(done, done + stop)):
                raise Misconception("so_many_more", f"{says}; `stop` counts all steps, also those before.")
            raise AssertionError(f"{says}; expected {wanted}.")
        off = apart(weights, trained(begins[0], 0, stop))
        if off > 1e-4:
            text_ = f"{calls}: a weight differs by {off:.1g} from a run to {stop} in one piece"
            fresh = trained(trained(begins[0], 0, done), done, stop)
            if done and apart(weights, fresh) < 1e-4:
                raise Misconception(
                    "no_momentum", f"{text_}. The weights were restored; what else does the next step need?"
                )
            if done and apart(weights, trained(begins[k], done, stop)) < 1e-4:
                raise Misconception("no_weights", f"{text_}; it began with the weights of the new model.")
            if done and apart(weights[:1], begins[k][:1]) < 1e-7:
                raise Misconception("frozen_lost", f"{text_}: a weight that is not trainable is the new model's.")
            raise AssertionError(f"{text_}.")
        done = stop


@exercise("train_to")
def test_a_run_in_one_piece_and_in_two(lives, rng):
    first = int(rng.integers(2, 5))
    check_train_to(lives, rng, [first, first + int(rng.integers(2, 4))])


@exercise("train_to")
def test_a_run_that_stops_several_times(lives, rng):
    first = int(rng.integers(2, 4))
    check_train_to(lives, rng, [first, first + 3, first + 3, first + 5])


# duel

DUEL = {
    "critic_first": "as if the critic had changed before the generator's gradient was computed",
    "generator_first": "as if the generator had changed before the critic's gradient was computed",
    "against_itself": "as if the generator wanted its images to be called made; it wants them called real",
    "minus_the_critics": "as if the generator's loss was minus the critic's; expected the `cost` of made images as real",
    "no_real": "as if the critic saw no real images",
    "no_made": "as if the critic saw no made images",
    "halved": "as if the critic's loss was the mean of both costs; expected their sum",
    "labels_swapped": "as if the critic took real images for made ones",
}


def check_duel(student: Any, rng: np.random.Generator, sizes: list[int], plain: bool) -> None:
    """A step of both players, run here on replicas with those examples: all weights and, unless `plain`, their losses."""
    found, rates = Duel(rng, sum(sizes)), (0.25, 0.4)  # not one twice the other: halved losses are not swapped rates
    done = Duelled(student, found, sizes, rates)
    says = f"A step of {len(sizes)} replica{'s' * (len(sizes) > 1)} with {sizes} examples:"
    for weights in done.weights:
        check_players(says, weights, found, rates, sizes)
    if min(sizes) > 50:
        check_own_work(says, done.work, [duel_work(found, size) for size in sizes], sizes)
    wanted, _ = found.after(rates, of_each("right", [sum(sizes)]))
    for who, each, one in zip(("generator", "critic"), done.losses, wanted, strict=True):
        total = float(sum(each))
        if not plain and not np.isclose(total, one, rtol=1e-3, atol=1e-4):
            text_ = f"{says} the losses of the {who} add up to {total:.4f}; the mean over all examples is {one:.4f}."
            raise Misconception("losses_swapped", text_)


def check_players(
    says: str, weights: list[np.ndarray], found: Duel, rates: tuple[float, float], sizes: list[int]
) -> None:
    """Hold a replica's weights after a step against one device's, and tell wrong ones by their rule."""
    given = of_each("right", [sum(sizes)])
    _, right = found.after(rates, given)
    for k, who in enumerate(("generator", "critic")):
        part = slice(4 * k, 4 * k + 4)
        if apart(weights[part], right[part]) < 1e-4:
            continue
        if apart(weights[part], found.weights[part]) < 1e-7:
            raise Misconception("one_stands_still", f"{says} the {who}'s weights have not changed.")
        for rule, words in DUEL.items():
            wrong = found.after(rates, given, rule)[1]
            if apart(wrong[part], right[part]) > 1e-3 and apart(weights[part], wrong[part]) < 1e-4:
                raise Misconception(rule, f"{says} the {who} moved {words}.")
        own = found.after(rates, of_each("own_mean", [each for each in sizes if each]))[1]
        if apart(weights[part], own[part]) < 1e-4:
            raise Misconception("own_means", f"{says} the {who} moved as if each replica divided by its own examples.")
        swapped = found.after(rates[::-1], given)[1]
        if apart(weights[part], swapped[part]) < 1e-4:
            raise Misconception("other_optimizer", f"{says} the {who} moved at the other optimizer's rate.")
        off = apart(weights[part], right[part])
        raise Misconception("other_move", f"{says} a weight of the {who} is {off:.1g} away from one device's.")


@exercise("duel")
def test_two_players_on_one_replica_and_on_two(student, rng):
    check_duel(student, rng, [int(rng.integers(3, 6))], plain=False)
    first = int(rng.integers(3, 6))
    check_duel(student, rng, [first, first - 1], plain=False)
    check_duel(student, rng, [int(each) for each in rng.integers(75, 90, size=3)], plain=False)


@exercise("duel")
def test_two_players_on_four_replicas(student, rng):
    first = int(rng.integers(2, 5))
    check_duel(student, rng, [first, first, first - 1, 0], plain=True)
    check_duel(student, rng, [int(each) for each in rng.integers(60, 70, size=4)], plain=True)
