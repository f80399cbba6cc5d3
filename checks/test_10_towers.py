"""Trusted checks of chapter 10: towers are traced and run here, steps are compared with one device, schedules are played."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from across import ring, tower_runs
from across.expecting import array, called, list_of, number, row, whole
from autograder.probe.asking import Misconception, exercise, recorded
from placing import device_of
from towers_rules import Pulled, check_averages, drawn, uneven
from towers_truth import Alone, Ringed, Source, Together, Traced, stepped

# batches


@exercise("batches")
def test_the_towers_share_the_records(student, rng):
    found = Pulled(student, rng, int(rng.choice([2, 4])), passes=1)
    lengths = [len(share) for share in found.shares]
    says = f"{found.says} gives the towers {lengths} records"
    for k, share in enumerate(found.shares):
        assert len(set(share)) == len(share), f"{found.says}: tower {k} sees a record twice in one pass."
    for (i, one), (j, other) in itertools.combinations(enumerate(found.shares), 2):
        both = len(set(one) & set(other))
        if both and both == len(one) == len(other):
            raise Misconception("same_for_all", f"{says}: towers {i} and {j} see the same ones; expected other ones.")
        if both:
            text = f"{says}: towers {i} and {j} have {both} in common. What is shuffled before it is cut, is cut otherwise."
            raise Misconception("shuffled_first", text)
    if sum(lengths) < found.count:
        rest = found.count % found.n
        if {*found.labels}.difference(*found.shares) == {*found.labels[-rest:]}:
            text = f"{says}: the file's last records, {rest} of them, are in no share; expected them shared out, too."
            raise Misconception("blocks_of_neighbours", text)
        raise Misconception("rest_dropped", f"{says}, {sum(lengths)} in all; expected each record once.")
    assert sorted(itertools.chain(*found.shares)) == sorted(found.labels), f"{says}; expected those of the file."
    if max(lengths) - min(lengths) > 1:
        raise Misconception("batched_first", f"{says}; expected shares that differ by one record at most.")


@exercise("batches")
def test_batches_are_mixed_anew_in_each_pass(student, rng):
    found = Pulled(student, rng, 2, passes=4, batches=31, least=11)
    hardly = []  # of each tower, whether nothing of it tells that its buffer holds four fifths of its records
    for k, tower in enumerate(found.towers):
        for each in tower:
            sizes = [len(labels) for labels in each]
            says = f"{found.says} gives tower {k} batches of {sizes}"
            if not each:
                text = f"{found.says} gives tower {k} no batch"
                assert tower[0], f"{text}."
                raise Misconception("once_only", f"{text} in a later pass; expected a dataset that can be read again.")
            whole_ones = set(sizes[:-1]) <= {found.size} and 0 < sizes[-1] <= found.size
            assert whole_ones, f"{says}; expected {found.size} in each but the last."
        mixed = [{frozenset(labels) for labels in each} for each in tower]
        if all(each == mixed[0] for each in mixed):
            order = [list(itertools.chain(*each)) for each in tower]
            if order[0] == sorted(order[0], key=found.labels.index) and all(each == order[0] for each in order):
                raise Misconception(
                    "not_mixed", f"{found.says} gives tower {k} the file's order; expected a mixed one."
                )
            text = (
                f"{found.says}: in each pass of tower {k} the same examples stand together; expected them mixed anew."
            )
            raise Misconception("mixed_once", text)
        # true of fewer than one right tower in a million: no record comes four fifths of a pass before its place in the file;
        # or, whatever the order is that is hardly left, few records are ever in the first third
        order = [list(itertools.chain(*each)) for each in tower]
        filed = {label: place for place, label in enumerate(sorted(order[0], key=found.labels.index))}
        early = max(filed.get(label, 0) - place for labels in order for place, label in enumerate(labels))
        first = {label for labels in order for label in labels[: len(filed) // 3]}
        hardly.append(early <= 4 * len(filed) // 5 or len(first) <= len(filed) // 2)
    if all(hardly):
        text = (
            f"{found.says}: in {len(found.towers[0])} passes, no record comes long before its turn; expected any order."
        )
        raise Misconception("hardly_mixed", f"{text} How many records does the buffer hold?")


# average_gradients


@exercise("average_gradients")
def test_the_mean_over_towers_of_one_size(student, rng):
    size = int(rng.integers(9, 14))  # more than there are towers: a size that is divided by them is no sum
    check_averages(
        student,
        [
            (drawn(rng, n, [(3,), (2, 3)]), [size] * n, "")
            for n in (2, int(rng.choice([3, 5])), int(rng.integers(6, 9)))
        ],
    )


@exercise("average_gradients")
def test_the_mean_over_examples_and_other_kinds_of_gradients(student, rng):
    n = int(rng.choice([3, 5]))
    plain = drawn(rng, n, [(3,), (2, 2)])
    sparse = drawn(rng, n, [(2,), (6, 2)])
    for tower in sparse[1:]:
        rows = rng.integers(0, 6, size=4)
        rows[1] = rows[0]  # a row that is used twice
        tower[1] = {"values": rng.normal(size=(4, 2)).astype("float32"), "indices": rows, "shape": np.array([6, 2])}
    unused = drawn(rng, n, [(3,), (3,), (2,)])
    for tower in unused:
        tower[1] = None
    unused[int(rng.integers(n))][2] = None
    check_averages(
        student,
        [
            (plain, uneven(rng, n), ""),
            (sparse, uneven(rng, n), " and rows of a table"),
            (unused, uneven(rng, n), " and a None"),
        ],
    )


# tower


def check_tower(student: Any, rng: np.random.Generator, home: str, device: str, placed: bool) -> None:
    """Run the student's tower on fresh weights: the loss and gradients of a batch and, if `placed`, where they ran."""
    alone = Alone(rng, int(rng.integers(4, 8)), last=1.0 if placed else 60.0)
    found = Traced(student, alone, home, device)
    losses = alone.losses().numpy()
    if found.loss.shape != ():
        raise Misconception(
            "one_for_each", f"{found.says} returned a loss of shape {found.loss.shape}; expected one number."
        )
    trainable, every = len(alone.model.trainable_variables), len(alone.model.weights)
    if found.listed != trainable:
        text = (
            f"{found.says} returned {found.listed} gradients; {trainable} of the model's {every} weights are trainable."
        )
        raise Misconception("frozen_too", text) if found.listed == every else AssertionError(text)
    assert found.computed == trainable, f"{found.says}: a gradient is None; does the tape see all ops of the model?"
    if not np.isclose(found.loss, losses.mean(), rtol=1e-4):
        text = f"{found.says} returned the loss {found.loss:.4f}"
        if np.isclose(found.loss, losses.sum(), rtol=1e-4):
            raise Misconception("sum", f"{text}, the sum over the examples; expected their mean.")
        raise AssertionError(f"{text}; the mean cross-entropy of the logits is {losses.mean():.4f}.")
    for got, wanted in zip(found.gradients, alone.gradients(), strict=True):
        close = got.shape == wanted.shape and np.allclose(got, wanted, rtol=1e-3, atol=1e-5)
        if not close and got.shape == wanted.shape and np.allclose(got, wanted * len(losses), rtol=1e-3, atol=1e-5):
            raise Misconception(
                "gradient_of_the_sum", f"{found.says}: the gradients are those of the sum of the losses."
            )
        assert close, f"{found.says}: a gradient is not that of the mean loss."
    if not placed:
        return
    assert found.heavy, f"{found.says} ran no model."
    if found.astray:
        text = f"{found.says}: the {{}} ran on {', '.join(found.astray)}; expected {found.device}."
        if found.forward_astray and "CPU:0" not in found.astray:  # where nothing is pinned to
            text = f"{found.says}: the forward pass is pinned to {', '.join(found.astray)}; expected the device given."
            raise Misconception("always_there", text)
        if found.forward_astray:
            raise Misconception("unpinned", text.format("forward pass"))
        if found.loss_astray:
            raise Misconception("mean_elsewhere", text.format("mean of the losses"))
        raise Misconception("backward_elsewhere", text.format("backward pass"))


@exercise("tower")
def test_loss_and_gradients_of_a_batch(student, rng):
    home, device = (f"/CPU:{i}" for i in 1 + rng.permutation(3)[:2])
    check_tower(student, rng, home, device, placed=False)


@exercise("tower")
def test_forward_and_backward_run_on_the_device(student, rng):
    home, *devices = (f"/CPU:{i}" for i in 1 + rng.permutation(3))
    for device in devices:  # two: whoever always takes the same one is told by one of them
        check_tower(student, rng, home, device, placed=True)


# step


def check_step(student: Any, rng: np.random.Generator, sizes: list[int]) -> None:
    """Have a fresh model trained by towers; its weights and losses are those of one device with the whole batch."""
    alone = Alone(rng, sum(sizes))
    devices = [f"/CPU:{i}" for i in rng.permutation(4)[: len(sizes)]]
    rate, momentum, count = 0.05, 0.9, 2
    answer = student.ask(
        stepped,
        channels=alone.channels,
        hidden=alone.hidden,
        weights=alone.weights,
        images=alone.images,
        labels=alone.labels,
        sizes=sizes,
        devices=devices,
        rate=rate,
        momentum=momentum,
        count=count,
    )
    kind = row(list_of(array(), count), row(*(array(each.shape) for each in alone.weights)))
    losses, weights = kind.named("losses and weights")(answer, "`step` returned, and the weights were then,")
    says = f"After {count} steps of {len(sizes)} towers with {sizes} examples"
    wanted_losses, wanted = alone.steps(rate, momentum, count)

    def apart(others: Sequence[np.ndarray]) -> float:
        return max(float(np.abs(a - b).max()) for a, b in zip(weights, others, strict=True))

    if apart(wanted) > 1e-5:
        if apart(alone.weights) < 1e-7:
            raise Misconception("not_applied", f"{says}, no weight has changed; expected an update by `optimizer`.")
        if apart(alone.steps(rate, momentum, count, float(len(sizes)))[1]) < 1e-5:
            raise Misconception("summed", f"{says}, the weights are those of gradients {len(sizes)} times as large.")
        if apart(alone.steps(rate, momentum, count, sizes=sizes)[1]) < 1e-5:
            text = f"{says}, each tower counts as much as another; expected as many times as it has examples."
            raise Misconception("equal_sizes", text)
        raise AssertionError(f"{says}, a weight differs by {apart(wanted):.1g} from one device with all {sum(sizes)}.")
    for loss, right in zip(losses, wanted_losses, strict=True):
        assert loss.shape == (), f"`step` returned a loss of shape {loss.shape}; expected one number."
        if not np.isclose(float(loss), right, rtol=1e-4, atol=1e-5):
            raise AssertionError(
                f"`step` returned the loss {loss:.5f}; the mean over all {sum(sizes)} examples is {right:.5f}."
            )


@exercise("step")
def test_uneven_towers_train_as_one_device(student, rng):
    check_step(student, rng, uneven(rng, 3))


@exercise("step")
def test_each_tower_computes_on_its_own_device(student, rng):
    check_step(student, rng, [int(rng.integers(3, 6))] * 2)
    devices = [f"/CPU:{i}" for i in 1 + rng.permutation(3)]
    default = devices[int(rng.integers(2))]  # not the last: whoever averages there is told so
    found = Together(student, rng, devices, default)
    says = f"Three towers for {', '.join(devices)}"
    if not found.shared:
        pinned = ", ".join(sorted(found.given)) or "no device"
        raise Misconception("one_device_for_all", f"{says}: products of matrices are pinned to {pinned}.")
    if found.averaged_on == {device_of(default)}:
        words = f"{says}, in a block of {default}: the averages were made there; expected CPU:0"
        raise Misconception("averaged_by_default", f"{words}. What nobody pins goes to the block's device, or a GPU.")
    if found.averaged_on:
        there = ", ".join(sorted(found.averaged_on))
        words = f"{says}, in a block of {default}: averages were made on {there}; expected CPU:0."
        raise Misconception("averaged_by_the_last", words)
    assert found.kept, f"{says}: a tower sent more to CPU:0 than its gradients; expected it to compute them."
    assert found.right, f"{says}: the weights are not those of one device with all examples."


# rates


def cases_of_rates(rng: np.random.Generator) -> list[list[list[float]]]:
    """Durations whose first is long, some with a longer one later; towers of which the last has a smaller batch."""
    found = []
    for n in (2, int(rng.choice([3, 5])), 8):
        later = [int(each) / 8 for each in rng.integers(8, 32, size=int(rng.integers(2, 6)))]
        later.append(later[0] + 1)
        first = float(rng.integers(9, 20))
        if n != 2:
            later.insert(int(rng.integers(len(later))), first + int(rng.integers(2, 9)))
        found.append([[first, *later], [*uneven(rng, n)]])
    return found


def check_rates(student: Any, rng: np.random.Generator, which: int) -> None:
    """Ask for both rates and look at one of them."""
    asked = student.call("rates", cases_of_rates(rng), row(number, number))
    for (durations, sizes), got in asked:
        step = float(np.mean(durations[1:]))
        wanted = (sum(sizes) / step, step)[which]
        says = f"{called('rates', (durations, sizes))} returned {got[which]:.4g} {('examples/s', 's/batch')[which]}"
        if np.isclose(got[which], wanted, rtol=1e-6):
            continue
        first = float(np.mean(durations))
        if np.isclose(got[which], (sum(sizes) / first, first)[which], rtol=1e-6):
            raise Misconception("first_step_too", f"{says}; the first step, which also traces, does not count.")
        least = float(np.mean(sorted(durations)[:-1]))
        if np.isclose(got[which], (sum(sizes) / least, least)[which], rtol=1e-6):
            raise Misconception("longest_dropped", f"{says}; leave out the first step, not the longest one.")
        if which:
            if np.isclose(got[1], step / len(sizes), rtol=1e-6):
                raise Misconception(
                    "divided_by_towers_here", f"{says}; the towers' batches were computed at the same time."
                )
            raise AssertionError(f"{says}; from one update to the next it takes {wanted:.4g} s.")
        if np.isclose(got[0], sizes[0] * len(sizes) / step, rtol=1e-6):
            raise Misconception("all_as_the_first", f"{says}; the last tower has fewer examples than the first.")
        if np.isclose(got[0], float(np.mean([sum(sizes) / each for each in durations[1:]])), rtol=1e-6):
            raise Misconception(
                "mean_of_rates", f"{says}: the mean of each step's rate; expected all examples over all seconds."
            )
        raise AssertionError(f"{says}; expected the examples of all towers over the seconds of a step.")


@exercise("rates")
def test_examples_a_second(student, rng):
    check_rates(student, rng, 0)


@exercise("rates")
def test_seconds_from_update_to_update(student, rng):
    check_rates(student, rng, 1)


# guesses

NAMES = ("one naps", "all four nap", "added, SGD", "added, Adam")
test_every_guess_is_recorded = recorded("guesses", dict.fromkeys(NAMES, number))


# schedule

STEPS = list_of(list_of(row(whole, whole, whole))).named("a list of steps, each a list of (sender, receiver, piece)")


def check_schedule(student: Any, rng: np.random.Generator, finished: bool) -> None:
    """Play the student's schedule: after half of it each piece is whole somewhere and, if `finished`, then everywhere."""
    cases = [[n] for n in (2, 3, int(rng.choice([5, 7])), int(rng.choice([6, 8])))]
    for (n,), steps in student.call("schedule", cases, STEPS):
        says = f"`schedule({n})`"
        if finished and len(steps) != 2 * (n - 1):
            text = f"{says} has {len(steps)} steps; {n} devices need {2 * (n - 1)}."
            raise Misconception("half_of_it", text) if len(steps) == n - 1 else AssertionError(text)
        assert len(steps) >= n - 1, f"{says} has {len(steps)} steps; the pieces need {n - 1} to be whole."
        for number_, messages in enumerate(steps[: len(steps) if finished else n - 1]):
            for each in messages:
                here = all(0 <= one < n for one in each)
                assert here, f"{says}, step {number_} has {each}: devices and pieces are 0 to {n - 1}."
                if each[1] != (each[0] + 1) % n:
                    text = f"{says}, step {number_} has {each}: expected a message to the right-hand neighbour."
                    raise Misconception("to_another", text)
            senders = sorted(sender for sender, _, _ in messages)
            assert senders == [*range(n)], f"{says}, step {number_}: {senders} send; expected each device once."
        held = ring.play(steps[: len(steps) if finished else n - 1], n)
        half, end = held[n - 1], held[-1]
        for piece in range(n):
            if not any(set(pieces[piece]) == {1} for pieces in half):
                text = f"{says}: after {n - 1} steps, piece {piece} is whole nowhere"
                most = max(max(pieces[piece]) for pieces in half)
                raise AssertionError(f"{text}; a share is in it {most} times." if most > 1 else f"{text}.")
            lacks = [device for device, pieces in enumerate(end) if set(pieces[piece]) != {1}]
            assert not (finished and lacks), f"{says}: at the end, device {lacks[0]} has no whole piece {piece}."


@exercise("schedule")
def test_after_half_of_the_steps_each_piece_is_whole_somewhere(student, rng):
    check_schedule(student, rng, finished=False)


@exercise("schedule")
def test_at_the_end_each_piece_is_whole_everywhere(student, rng):
    check_schedule(student, rng, finished=True)


# ring_step


def ringed(student: Any, rng: np.random.Generator, n: int, large: bool) -> tuple[str, Ringed]:
    devices = [f"/CPU:{i}" for i in 1 + rng.permutation(3)[:n]]
    return f"`ring_step` on {', '.join(devices)}", Ringed(student, rng, devices, large)


@exercise("ring_step")
def test_every_device_trains_as_one_with_all_examples(student, rng):
    for n in (2, 3):
        says, found = ringed(student, rng, n, large=False)
        if not found.right:
            missed = found.missed()
            text = f"{says}, with batches of {found.counts}: the weights are not those of one device with all examples"
            raise Misconception(*missed) if missed else AssertionError(f"{text}.")
        assert np.isclose(found.loss, found.wanted, rtol=1e-4), (
            f"{says} returned the loss {found.loss:.5f}; the mean over all {sum(found.counts)} is {found.wanted:.5f}."
        )


@exercise("ring_step")
def test_gradients_go_round_by_the_ring_alone(student, rng):
    says, found = ringed(student, rng, 3, large=True)
    assert found.updates == 3 * [True], f"{says}: not each device's own weights change; expected an update on each."
    for (source, target), size in found.sent.items():
        if source not in found.places:
            continue
        if target == "CPU:0" and size > found.scalars:
            text = f"{says}: {source} sent {size} bytes to CPU:0; expected gradients to go round by the ring"
            raise Misconception("by_the_cpu", f"{text}. What nobody pins goes to the block's device.")
        after = found.places[(found.places.index(source) + 1) % 3]
        if target != after and size > found.scalars:
            text = f"{says}: {source} sent {size} bytes to {target}; expected them to go to {after} only."
            raise Misconception("to_everyone", text)
        most = found.least + found.scalars
        if size > most:
            raise AssertionError(f"{says}: {source} sent {size} bytes to {target}; {found.least} are enough.")
    for source, target in zip(found.places, [*found.places[1:], found.places[0]], strict=True):
        size = found.sent.get((source, target), 0)
        if size < found.least:
            raise AssertionError(f"{says}: {source} sent {size} bytes to {target}; the ring needs {found.least}.")


# source_step


def check_promise(student: Any, rng: np.random.Generator, which: int, name: str) -> None:
    """Have the student's program run here, and see whether its `which`-th promise is kept; `name` is the usual mistake."""
    decay = float(rng.choice([0.125, 0.25])) if name == "no_decay" else 0.0
    found = Source(student, rng, int(rng.integers(2, 5)), decay).found
    right, seen = list(tower_runs.promises(found))[which]
    says = f"`source_step` of {len(found.given)} towers with decay {decay}: {seen}."
    if not right:
        usual = {"last_loss": "last one", "no_decay": "a loss without"}.get(name, "")
        raise Misconception(name, says) if usual in says else AssertionError(says)


REPAIRS = ("bottleneck", "last_loss", "no_decay", "counts_steps")


@exercise("source_step", 4.0)
def test_all_four_repairs_are_there(student, rng):
    for which, name in enumerate(REPAIRS):
        check_promise(student, rng, which, name)


@exercise("source_step")
def test_there_is_one_output_layer(student, rng):
    check_promise(student, rng, 0, "bottleneck")


@exercise("source_step")
def test_the_loss_is_the_mean_of_the_towers(student, rng):
    check_promise(student, rng, 1, "last_loss")


@exercise("source_step")
def test_the_weights_decay(student, rng):
    check_promise(student, rng, 2, "no_decay")


@exercise("source_step")
def test_all_batches_are_counted(student, rng):
    check_promise(student, rng, 3, "counts_steps")
