"""Trusted checks of chapter 11: at replica counts and on devices that the notebook does not show, against one device."""

from __future__ import annotations

from typing import Any

import numpy as np

from across.expecting import anything, between, list_of, one_of, row, text, truth, whole
from autograder.probe.asking import Misconception, each_answer, exercise, recorded
from strategies_truth import (
    Programmed,
    Reduced,
    assigned_to,
    batched,
    compared,
    homes_of,
    one_device,
    planned,
    seats,
    trained,
)

# homes

Homes = tuple[str, list[str], list[int], str]  # kind of strategy, devices, sizes of layers, where the first one is
HOMES = row(list_of(list_of(text)), truth)


def check_homes(student: Any, cases: list[Homes]) -> None:
    """Each weight has its copies where the strategy keeps variables, but for two that were there before."""
    answers = student.ask(homes_of, cases=cases)
    for (kind, devices, sizes, before), (got, scoped) in each_answer(
        answers, cases, HOMES, "`homes` returned, and built in scope"
    ):
        says = f"`homes` of a {kind}Strategy, {', '.join(devices)},"
        home = {"Mirrored": devices, "CentralStorage": devices[-1:], "OneDevice": devices}[kind]
        wanted = sorted(each.removeprefix("/") for each in home)
        count = 2 * (len(sizes) - 1) + 4
        if len(got) == count - 2:
            raise Misconception("trainable_only", f"{says} has {len(got)} weights; those that are not trainable count.")
        assert len(got) == count, f"{says} has {len(got)} weights; the model has {count}."
        places = [sorted(place.split("device:")[-1].removeprefix("/").upper() for place in each) for each in got]
        for there in places[2:]:
            if there == wanted:
                continue
            text_ = f"{says} has a weight on {', '.join(there) or 'no device'}"
            if kind == "CentralStorage" and there == sorted(place.removeprefix("/") for place in devices[:-1]):
                raise Misconception("where_it_computes", f"{text_}: there replicas compute; it is kept elsewhere.")
            if there == ["CPU:0"] and wanted != there:
                raise Misconception("outside", f"{text_} only: was the model built in the scope?")
            if kind == "Mirrored" and len(there) == 1 and there[0] in wanted:
                raise Misconception("first_copy", f"{text_} alone; expected all of its copies.")
            raise AssertionError(f"{text_}; expected {len(wanted)} in all.")
        if not scoped:
            raise Misconception("by_the_strategy", f"{says} is right; but no model was built, once, in the scope.")
        for there in places[:2]:
            if there != [before.removeprefix("/")]:
                text_ = f"{says} has a weight on {', '.join(there) or 'no device'}; its layer was made before,"
                raise Misconception("not_looked_at", f"{text_} on {before}. Look at the weight.")


def drawn_sizes(rng: np.random.Generator) -> list[int]:
    return [int(size) for size in rng.integers(2, 6, size=int(rng.integers(2, 4)))]  # of the input, then of each layer


def a_device(rng: np.random.Generator) -> str:
    return f"/CPU:{int(rng.integers(4))}"


@exercise("homes")
def test_a_mirrored_weight_has_a_copy_on_each_device(student, rng):
    cases = []
    for count in (3, 2):
        devices = [f"/CPU:{i}" for i in 1 + rng.permutation(3)[:count]]
        cases.append(("Mirrored", devices, drawn_sizes(rng), a_device(rng)))
    check_homes(student, cases)


@exercise("homes")
def test_other_strategies_keep_one(student, rng):
    order = [f"/CPU:{i}" for i in 1 + rng.permutation(3)]
    single = [f"/CPU:{1 + int(rng.integers(3))}"]
    cases = [
        ("CentralStorage", order, drawn_sizes(rng), a_device(rng)),
        ("OneDevice", single, drawn_sizes(rng), "/CPU:0"),
    ]
    check_homes(student, cases)


# differs

Result = tuple[list[np.ndarray], float]
Program = tuple[Result, Result, float]  # what it trains with the strategy, on one device; atol
FOUND = list_of(one_of(["weights", "loss"]))


def check_differs(
    student: Any, rng: np.random.Generator, cases: list[tuple[str, str, Program, list[str]]], where: bool
) -> None:
    """Have programs with known differences compared. Each case has the name of whoever fails there first.

    `where`: each must have run alone, on the device that was given; only the process itself says so.
    """
    replicas, device = int(rng.choice([2, 3])), f"/CPU:{1 + int(rng.integers(3))}"
    answers = student.ask(compared, programs=[program for _, _, program, _ in cases], replicas=replicas, device=device)
    kind = row(FOUND, list_of(text), whole)
    for (name, what, (_, _, atol), wanted), (got, alone, _) in each_answer(answers, cases, kind, "`differs` returned"):
        says = f"{what}, atol {atol:g}: `differs` found {' and '.join(sorted(set(got))) or 'nothing'}"
        if where and not alone:
            raise Misconception("never_alone", f"{says}; the program was never run on one device.")
        places = {place.split("device:")[-1].removeprefix("/") for place in alone}
        if where and places != {device.removeprefix("/")}:
            text_ = f"`differs(..., {device!r}, {atol:g})` ran the program alone on {', '.join(sorted(places))}"
            raise Misconception("another_device", f"{text_}; expected the device that was given.")
        if sorted(set(got)) != sorted(wanted):
            raise Misconception(name, f"{says}; expected {' and '.join(wanted) or 'nothing'}.")


def results(rng: np.random.Generator, scale: float = 1.0) -> tuple[list[np.ndarray], float]:
    """Weights of three arrays, and a loss."""
    arrays = [scale * rng.normal(size=shape) for shape in ((3, 2), (2,), (4,))]
    return arrays, float(scale * rng.uniform(1, 2))


def shifted(result: Result, which: list[int], by: float, loss: float = 0.0) -> Result:
    """The same with one number of each array in `which` another, and another loss."""
    arrays = [each.copy() for each in result[0]]
    for i in which:
        arrays[i].flat[-1] += by
    return arrays, result[1] + loss


@exercise("differs", weak=True)
def test_weights_and_loss_are_each_compared(student, rng):
    cases = []
    for name, what, by, loss, wanted in (
        ("exact", "Equal up to rounding", 1e-7, 1e-7, []),
        ("loss_only", "Weights 0.5 larger", 0.5, 0.0, ["weights"]),
        ("weights_only", "A loss 0.5 larger", 0.0, 0.5, ["loss"]),
        ("signed", "Weights 0.5 smaller", -0.5, 0.0, ["weights"]),
        ("signed", "A loss 0.5 smaller", 0.0, -0.5, ["loss"]),
        ("first_only_of_both", "Weights and the loss 0.5 larger", 0.5, 0.5, ["weights", "loss"]),
    ):
        alone = results(rng)
        cases.append((name, what, (shifted(alone, [0, 1, 2], by, loss), alone, 1e-4), wanted))
    check_differs(student, rng, cases, where=True)


@exercise("differs")
def test_any_array_any_size_and_nan(student, rng):
    alone, large = results(rng), results(rng, scale=1e4)
    large[0][2].flat[-1] = 2e4  # the one that will be larger: a small one would tell who compares by the ratio nothing
    cases = [
        ("any_array", f"A weight of array {i} of 3 is 0.5 larger", (shifted(alone, [i], 0.5), alone, 1e-3), ["weights"])
        for i in range(3)
    ]
    broken = shifted(alone, [1], float("nan"))
    opposite = [each.copy() for each in alone[0]]
    opposite[0].flat[0] += 0.5
    opposite[0].flat[1] -= 0.5
    many = [rng.normal(size=(20, 50)), rng.normal(size=3)], float(rng.uniform(1, 2))
    one = [each.copy() for each in many[0]]
    one[0].flat[int(rng.integers(1000))] += 2e-3  # neither their mean nor its square's root is more than 1e-3
    cases += [
        (
            "means_compared",
            "A weight 0.5 larger, another 0.5 smaller",
            ((opposite, alone[1]), alone, 1e-3),
            ["weights"],
        ),
        ("nan_is_no_difference", "A loss that is NaN", ((alone[0], float("nan")), alone, 1e-3), ["loss"]),
        ("nan_is_no_difference", "A weight that is NaN", (shifted(alone, [1], float("nan")), alone, 1e-3), ["weights"]),
        ("nan_of_one_device", "One device's loss is NaN", (alone, (alone[0], float("nan")), 1e-3), ["loss"]),
        ("nan_equals_nan", "The same weight is NaN on both", (broken, broken, 1e-3), ["weights"]),
        ("relative", "Weights of about 10000, one 0.01 larger", (shifted(large, [2], 0.01), large, 1e-3), ["weights"]),
        ("relative_loss", "A loss of about 10000, 0.01 larger", (shifted(large, [], 0.0, 0.01), large, 1e-3), ["loss"]),
        (
            "own_tolerance",
            "Everything 0.3 larger",
            (([each + 0.3 for each in alone[0]], alone[1] + 0.3), alone, 0.5),
            [],
        ),
        ("mean_difference", "One of 1000 weights 0.002 larger", ((one, many[1]), many, 1e-3), ["weights"]),
    ]
    check_differs(student, rng, cases, where=False)


# even


def check_even(student: Any, cases: list[tuple[int, int, int]]) -> None:
    """Batches that replicas share evenly, as large as they can be, of nearly all examples."""
    answers = student.ask(batched, cases=cases)
    kind = row(truth, text, list_of(row(list_of(whole), list_of(whole)))).named("a dataset with batches of pairs")
    for (count, size, n), (dataset, type_, got) in each_answer(answers, cases, kind, "`even` led to"):
        sizes = [len(x) for x, _ in got]
        says = f"`even` of {count} examples, size {size}, {n} replicas,"
        assert dataset, f"{says} returned a {type_[:50]}; expected a tf.data.Dataset."
        says = f"{says} gives batches of {sizes}"
        flat = [each for x, _ in got for each in x]
        if len(set(flat)) < len(flat):
            raise Misconception("filled_up", f"{says}; some examples come twice.")
        if flat != sorted(flat):
            raise Misconception("shuffled", f"{says}, not in their order.")
        if flat and flat == list(range(flat[0], flat[0] + len(flat))) and flat[0] > 0:
            raise Misconception(
                "first_ones_left_out", f"{says}; it loses the first {flat[0]}; lose only the last ones."
            )
        assert flat == list(range(len(flat))), f"{says}; it loses some from between; lose only the last ones."
        assert [each for _, y in got for each in y] == [3 * each for each in flat], f"{says}; pairs were torn apart."
        uneven = [each for each in sizes if each % n]
        if uneven:
            text_ = f"{says}; {n} replicas cannot share {uneven[0]} evenly."
            if uneven == sizes[-1:] and all(each == size // n * n for each in sizes[:-1]):
                raise Misconception("last_uneven", f"{text_} That is the last one.")
            if set(sizes[:-1]) <= {size}:
                raise Misconception("size_uneven", f"{text_} They are as large as was asked.")
            raise Misconception("fixed_count", text_)
        if max(sizes, default=0) > size:
            raise Misconception("rounded_up", f"{says}; {size} at most.")
        if count - len(flat) >= n:
            text_ = f"{says}: {count - len(flat)} examples are lost; expected fewer than {n}."
            raise Misconception("rest_dropped", text_) if len(set(sizes)) == 1 else AssertionError(text_)
        small = [each for each in sizes[:-1] if each != size // n * n]
        if small:
            raise Misconception("too_small", f"{says}; batches of {size // n * n} can be shared evenly, too.")


@exercise("even")
def test_every_batch_can_be_shared(student, rng):
    cases = []
    for n in (2, 3, 4):
        size = n * int(rng.integers(2, 5)) + int(rng.integers(1, n))  # not a multiple of n
        cases.append((2 * size + n + int(rng.integers(1, n)), size, n))
    check_even(student, [cases[i] for i in rng.permutation(3)])


@exercise("even")
def test_batches_are_large_and_few_examples_are_lost(student, rng):
    cases = []
    for n in (4, 3, 2):
        size = n * int(rng.integers(3, 5))
        cases.append((2 * size + 2 * n + int(rng.integers(1, n)), size, n))  # two full ones, two a replica, and a rest
    cases.append((int(rng.integers(11, 15)), 5, 1))
    check_even(student, cases)


# program


def check_trained(seen: Programmed) -> None:
    """Scope, rate and batches gave the weights that one device has after them; where not, the first reason that is seen."""
    says, n = seen.says, seen.n
    assert seen.models == 1, f"{says} it built {seen.models} models."
    if not seen.scoped or any(each != n for each in seen.copies):
        raise Misconception("built_outside", f"{says} the model was not built in the scope.")
    if seen.counters != n:
        text_ = f"{says} the optimizer's variables have {seen.counters} copy; make it, and compile, in the scope, too."
        raise Misconception("compiled_outside", text_)
    assert not seen.decay, f"{says} the optimizer lets the weights decay; expected plain SGD."
    wanted = one_device(dealt(seen.data, n, seen.size), n * seen.base)
    if alike(seen.weights, wanted):
        return
    if alike(seen.after, wanted):
        raise Misconception("weights_before", f"{says} it returned other weights than the model had after `fit`.")
    check_batches(seen)
    assert seen.epochs <= 1, f"{says} `fit` was to train {seen.epochs} epochs; expected 1."
    check_rate(seen)
    text_ = f"{says} after an epoch a weight is {np.ravel(seen.after[0])[0]:.4f}"
    raise AssertionError(f"{text_}; plain SGD on the mean squared error gives {np.ravel(wanted[0])[0]:.4f}.")


def dealt(data: list[np.ndarray], n: int, size: int) -> list[list[np.ndarray]]:
    """All pairs that `n` replicas can share, in batches of `size`."""
    many = len(data[0]) // n * n
    return [[each[at : min(at + size, many)] for each in data] for at in range(0, many, size)]


def alike(weights: list[np.ndarray], wanted: list[np.ndarray]) -> bool:
    same = [np.shape(each) for each in weights] == [np.shape(each) for each in wanted]
    return same and all(np.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in zip(weights, wanted, strict=True))


def check_batches(seen: Programmed) -> None:
    """What `fit` was given: all replicas share each batch evenly, batches are as large as asked, nearly all examples."""
    n, size, sizes, many = seen.n, seen.size, seen.trained_on, len(seen.data[0])
    assert sizes, f"{seen.says} `fit` was given no batches."
    text_ = f"{seen.says} `fit` was given {many} examples in batches of {sizes}"
    if sizes[0] == size // n:
        raise Misconception("batch_not_scaled", f"{text_}; so many shall each replica have.")
    if set(sizes[:-1]) != {size} and sizes[:1] != [size]:
        raise AssertionError(f"{text_}; each replica shall have {size // n}.")
    if any(each % n for each in sizes):
        raise Misconception("fit_uneven", f"{text_}; {n} replicas do not share all of them evenly.")
    if many - sum(sizes) >= n:
        raise Misconception("fit_drops", f"{text_}; {many - sum(sizes)} are lost, and fewer than {n} need be.")
    same = np.array_equal(seen.of_data, seen.data[0][: sum(sizes), 0])
    assert same, f"{text_}, not those of `data` in their order."


def check_rate(seen: Programmed) -> None:
    if np.isclose(seen.rate, seen.n * seen.base, rtol=1e-5):
        return
    text_ = f"{seen.says} the rate is {seen.rate:.4g}"
    if np.isclose(seen.rate, seen.base, rtol=1e-5):
        raise Misconception("rate_not_scaled", f"{text_}, as for one device, with {seen.n} times fewer updates.")
    if np.isclose(seen.rate, seen.base * np.sqrt(seen.n), rtol=1e-5):
        raise Misconception("square_root", f"{text_}: scaled by a square root; the rule here is linear.")
    raise AssertionError(f"{text_}; expected one by the linear rule.")


def check_tested(seen: Programmed) -> None:
    """The loss is the model's own, after training, of all pairs of `new` that replicas can share."""
    says, n, sizes = seen.says, seen.n, seen.tested_on
    as_built = [np.ones((seen.width, 1)), np.zeros(1)]
    assert not alike(seen.after, as_built), f"{says} the model's weights are as they were built: it was not trained."
    (x, y), *_ = dealt(seen.new, n, len(seen.new[0]))
    kernel, bias = seen.after
    right = float(np.mean((x @ kernel + bias - y) ** 2))
    if np.isclose(seen.loss, right, rtol=1e-3, atol=1e-4):
        return
    if any(np.isclose(seen.loss, loss, rtol=1e-5) for loss in seen.losses):
        raise Misconception("loss_of_fit", f"{says} it returned the loss of `fit`; expected that of `evaluate`.")
    assert sizes, f"{says} `evaluate` was not called."
    text_ = f"{says} `evaluate` was given batches of {sizes}"
    if np.array_equal(seen.of_new, seen.data[0][: sum(sizes), 0]):
        raise Misconception("tests_on_data", f"{text_} of `data`; expected `new`.")
    if any(each % n for each in sizes):
        raise Misconception("evaluate_uneven", f"{text_}; {n} replicas do not share all of them evenly.")
    assert sum(sizes) == len(x), f"{text_}, of {len(seen.new[0])} pairs; fewer than {n} need be lost."
    raise AssertionError(
        f"{says} it returned the loss {seen.loss:.4f}; the mean squared error of {len(x)} new pairs is {right:.4f}."
    )


@exercise("program", weak=True)
def test_it_is_tested_on_new_pairs(student, rng):
    check_tested(Programmed(student, rng, "functional", 3, 3, 5, traced=False))


@exercise("program")
def test_it_trains_as_one_device_with_that_rate(student, rng):
    check_trained(Programmed(student, rng, "sequential", 2, 2 * int(rng.integers(1, 3)), 3, traced=False))
    n = per_replica = 3
    seen = Programmed(student, rng, "class", n, per_replica, n + 1, traced=True)
    check_trained(seen)
    x = rng.normal(size=(n * per_replica, seen.width)).astype(np.float32)
    y = rng.normal(size=(n * per_replica, 1)).astype(np.float32) + 3
    wanted = one_device([(x, y)] * 2, n * seen.base)
    graph_def, *names = seen.graph
    for weights in trained(graph_def, names, x, y, n, steps=2):
        for got, right in zip(weights, wanted, strict=True):
            close = got.shape == right.shape and np.allclose(got, right, rtol=1e-3, atol=1e-4)
            text_ = f"{seen.says} after two steps a weight is {np.ravel(got)[0]:.4f}"
            assert close, f"{text_}; plain SGD on the mean squared error gives {np.ravel(right)[0]:.4f}."


# packed


def drawn_shapes(rng: np.random.Generator) -> list[list[int]]:
    """A scalar, a vector, a matrix and a tensor of three axes, in any order; no two have as many numbers."""
    shapes = [[], [int(rng.integers(2, 4))], [2, int(rng.integers(2, 4))], [2, 2, int(rng.integers(2, 4))]]
    return [shapes[i] for i in rng.permutation(4)]


@exercise("packed")
def test_every_replica_gets_the_sums(student, rng):
    for n in (3, int(rng.choice([2, 4]))):
        found = Reduced(student, rng, drawn_shapes(rng), n)
        for replica, sums in enumerate(found.sums):
            for i, (got, wanted) in enumerate(zip(sums, found.wanted, strict=True)):
                says = f"{found.says}: gradient {i} of shape {wanted.shape}"
                assert got.shape == wanted.shape, f"{says} came back as {got.shape} on replica {replica}."
                if np.allclose(got, wanted, atol=1e-4):
                    continue
                if np.allclose(got, wanted / n, atol=1e-4):
                    raise Misconception("mean", f"{says} is the mean over the replicas; expected their sum.")
                if np.allclose(got, found.own[replica][i], atol=1e-4):
                    raise Misconception("own", f"{says} is what replica {replica} had; nothing was added.")
                raise AssertionError(f"{says} is not the sum over the replicas.")


@exercise("packed")
def test_one_op_adds_them_all(student, rng):
    found = Reduced(student, rng, drawn_shapes(rng), int(rng.choice([2, 3])))
    if found.adds >= len(found.wanted):
        raise Misconception("one_each", f"{found.says}: {found.adds} ops add; expected one, of all of them packed.")
    text_ = f"{found.says}: {found.adds} ops add what replicas have, and {found.others} join it otherwise"
    assert (found.adds, found.others) == (1, 0), f"{text_}; expected one AddN."
    if found.bytes > found.bytes_needed:
        text_ = f"{found.says}: {found.bytes} bytes are added; the gradients of a replica have {found.bytes_needed}"
        raise Misconception("padded", f"{text_}.")


# guesses

PLACES = ("strong, 2", "strong, 4", "weak, 2", "weak, 4")
test_every_guess_is_recorded = recorded("guesses", dict.fromkeys(PLACES, between(0, 100).named("a speed-up")))


# assigned

Plan = tuple[list[int], list[list[list[int]]], int]


def check_assigned(student: Any, cases: list[Plan]) -> None:
    """The devices of each replica, as TensorFlow's own plan has them."""
    answers = student.ask(assigned_to, cases=cases)
    for (mesh, places, cores), got in each_answer(answers, cases, anything, "`assigned` returned"):
        says = f"`assigned({mesh}, places, {cores})`, {len(places)} tasks,"
        assert type(got) is not str, f"{says} raised {str(got)[:150]}"
        rows = list_of(list_of(text))(got, f"{says} returned")
        wanted = planned(mesh, places, cores)
        if rows == wanted:
            continue
        assert len(rows) == len(wanted), f"{says} has {len(rows)} replicas; {len(wanted)} fit."
        assert all(len(each) == cores for each in rows), f"{says} has replicas of {len(rows[0])} devices."
        flat = [f"/task:{task}/device:TPU:{i}" for task, own in enumerate(places) for i in range(len(own))]
        if [each for one in rows for each in one] == flat:
            raise Misconception("in_the_order_given", f"{says} has the devices in the order of the list, not by place.")
        first = next(i for i, (a, b) in enumerate(zip(rows, wanted, strict=True)) if a != b)
        if sorted(map(sorted, rows)) == sorted(map(sorted, wanted)):
            text_ = f"{says} gives replica {first} {', '.join(rows[first])}"
            raise Misconception("another_order", f"{text_}: other neighbours than TensorFlow's plan.")
        raise AssertionError(f"{says} gives replica {first} {', '.join(rows[first])}; its plan has others.")


@exercise("assigned")
def test_replicas_go_round_the_mesh(student, rng):
    cases = []
    for mesh, tasks, cores in (([2, 2, 1, 2], 2, 2), ([4, 2, 1, 2], int(rng.choice([1, 4])), 2), ([2, 4, 1, 2], 2, 1)):
        cases.append((mesh, seats(rng, mesh, tasks), cores))
    check_assigned(student, cases)


@exercise("assigned")
def test_a_place_that_is_taken_twice_is_told(student, rng):
    mesh = [2, 2, 1, 2]
    good, twice, short = (seats(rng, mesh, 2) for _ in range(3))
    task, other = (int(i) for i in rng.permutation(2))
    twice[task][int(rng.integers(4))] = list(twice[other][int(rng.integers(4))])
    same = [[[0, 0, 0, 0]] * 4 for _ in range(2)]
    less = [own[:2] for own in short]
    more = [
        [*own, list(own[int(rng.integers(4))])] for own in seats(rng, mesh, 2)
    ]  # of each task, one twice; and no place is free
    cases = [(mesh, good, 2), (mesh, twice, 2), (mesh, same, 1), (mesh, less, 2), (mesh, more, 2)]
    answers = student.ask(assigned_to, cases=cases)
    names = ("each place has one device", "a place has two devices", "one place has all devices", "places without one")
    names += ("a place has two devices, no place is free",)
    for name, (case, got) in zip(names, each_answer(answers, cases, anything, "`assigned` returned"), strict=True):
        raised = type(got) is str and got.startswith("ValueError")
        if name == names[0]:
            assert not raised, f"{name}: `assigned({case[0]}, places, {case[2]})` raised a {got[:150]}"
        elif type(got) is str:
            assert raised, f"{name}: {got[:80].rstrip(': ')}; expected ValueError."
        else:
            told = "no_place_is_free" if name == names[-1] else "accepted"
            raise Misconception(told, f"{name}: `assigned` raised no ValueError.")
