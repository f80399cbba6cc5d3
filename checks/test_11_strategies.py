"""Trusted checks of chapter 11: at replica counts and on devices that the notebook does not show, against one device."""

from __future__ import annotations

from typing import Any

import numpy as np

from across.expecting import anything, array, between, list_of, number, one_of, row, text, truth, whole
from autograder.probe.asking import Misconception, each_answer, exercise, recorded
from strategies_truth import (
    Reduced,
    assigned_to,
    batched,
    compared,
    homes_of,
    one_device,
    planned,
    programmed,
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
    kind = list_of(row(list_of(whole), list_of(whole))).named("batches of pairs")
    for (count, size, n), got in each_answer(answers, cases, kind, "Your dataset gave"):
        sizes = [len(x) for x, _ in got]
        says = f"`even` of {count} examples, size {size}, {n} replicas, gives batches of {sizes}"
        flat = [each for x, _ in got for each in x]
        if len(set(flat)) < len(flat):
            raise Misconception("filled_up", f"{says}; some examples come twice.")
        if flat != sorted(flat):
            raise Misconception("shuffled", f"{says}, not in their order.")
        if flat != list(range(len(flat))):
            raise Misconception("first_ones_left_out", f"{says}; example {flat[0]} is the first.")
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

BATCHES = list_of(row(array(), array()))
DID = row(whole, truth, list_of(whole), whole, number, number, whole, BATCHES, BATCHES)
SEEN = row(DID, row(list_of(array()), number).named("weights and a loss"), anything, anything, anything)


def check_program(
    student: Any, rng: np.random.Generator, style: str, n: int, per_replica: int, rest: int, traced: bool
) -> Any:
    """Scope, batches, rate and what came back, as the student's process says; what it `traced`.

    `rest` examples more than whole batches, of both datasets: for each replica one at least, and some to lose.
    """
    base, width, size = float(rng.choice([0.01, 0.02, 0.05])), int(rng.integers(2, 5)), n * per_replica
    data, new = (
        [rng.normal(size=(count, each)).astype(np.float32) for each in (width, 1)]
        for count in (2 * size + rest, size + rest)
    )
    after = [rng.normal(size=shape).astype(np.float32) for shape in ((width, 1), (1,))]
    loss = float(np.float32(rng.uniform(1, 2)))
    asked = {"style": style, "replicas": n, "per_replica": per_replica, "rate": base, "data": data, "new": new}
    answer = student.ask(programmed, **asked, after=after, loss=loss, traced=traced)
    did, (weights, told), *graph = SEEN(answer, "`program` led to")
    times, scoped, copies, own, rate, decay, epochs, trained_on, tested_on = did
    says = f"`program(strategy, build, data, new, {per_replica}, {base:g})` of a {style} model, {n} replicas:"
    assert times == 1, f"{says} it built {times} models."
    if not scoped or any(each != n for each in copies):
        raise Misconception("built_outside", f"{says} the model was not built in the scope.")
    check_batches(says, data, trained_on, n, size)
    assert epochs == 1, f"{says} `fit` was to train {epochs} epochs; expected 1."
    if not np.isclose(rate, n * base, rtol=1e-5):
        text_ = f"{says} the rate is {rate:.4g}"
        if np.isclose(rate, base, rtol=1e-5):
            raise Misconception("rate_not_scaled", f"{text_}, as for one device, with {n} times fewer updates.")
        if np.isclose(rate, base * np.sqrt(n), rtol=1e-5):
            raise Misconception("square_root", f"{text_}: scaled by a square root; the rule here is linear.")
        raise AssertionError(f"{text_}; expected one by the linear rule.")
    if own != n:
        text_ = f"{says} the optimizer's variables have {own} copy; make it, and compile, in the scope, too."
        raise Misconception("compiled_outside", text_)
    assert not decay, f"{says} the optimizer lets the weights decay; expected plain SGD."
    check_tested(says, data, new, tested_on, n, size)
    if np.isclose(told, loss + 1.0):
        raise Misconception("loss_of_fit", f"{says} it returned the loss of `fit`; expected that of `evaluate`.")
    assert np.isclose(told, loss), f"{says} it returned the loss {told:.4f}; `evaluate` said {loss:.4f}."
    ends = [np.shape(each) for each in weights] == [np.shape(each) for each in after]
    if not ends or not all(np.allclose(a, b) for a, b in zip(weights, after, strict=True)):
        raise Misconception("weights_before", f"{says} it returned other weights than the model had after `fit`.")
    return says, n * base, width, *graph


def check_batches(says: str, data: list[np.ndarray], batches: list[Any], n: int, size: int) -> None:
    """What `fit` was given: all replicas share each batch evenly, batches are as large as asked, nearly all examples."""
    sizes, many = [len(x) for x, _ in batches], len(data[0])
    text_ = f"{says} `fit` was given {many} examples in batches of {sizes}"
    if sizes and sizes[0] == size // n:
        raise Misconception("batch_not_scaled", f"{text_}; so many shall each replica have.")
    if set(sizes[:-1]) != {size} and sizes[:1] != [size]:
        raise AssertionError(f"{text_}; each replica shall have {size // n}.")
    if any(each % n for each in sizes):
        raise Misconception("fit_uneven", f"{text_}; {n} replicas do not share all of them evenly.")
    if many - sum(sizes) >= n:
        raise Misconception("fit_drops", f"{text_}; {many - sum(sizes)} are lost, and fewer than {n} need be.")
    same = all(np.array_equal(np.concatenate([batch[i] for batch in batches]), data[i][: sum(sizes)]) for i in range(2))
    assert same, f"{text_}, not those of `data` in their order."


def check_tested(
    says: str, data: list[np.ndarray], new: list[np.ndarray], batches: list[Any], n: int, size: int
) -> None:
    """What `evaluate` was given: `new`, in even batches."""
    assert batches, f"{says} `evaluate` was not called."
    whole_x, sizes = np.concatenate([x for x, _ in batches]), [len(x) for x, _ in batches]
    text_ = f"{says} `evaluate` was given batches of {sizes}"
    if np.array_equal(whole_x, data[0][: len(whole_x)]):
        raise Misconception("tests_on_data", f"{text_} of `data`; expected `new`.")
    if any(each % n for each in sizes):
        raise Misconception("evaluate_uneven", f"{text_}; {n} replicas do not share all of them evenly.")
    few = max(sizes) <= size and len(new[0]) - len(whole_x) < n
    assert few, f"{text_}, of {len(new[0])} pairs; each replica shall have {size // n}, and fewer than {n} be lost."
    assert np.array_equal(whole_x, new[0][: len(whole_x)]), f"{text_}, not those of `new` in their order."


@exercise("program", weak=True)
def test_scope_batches_and_rate_are_for_the_replicas(student, rng):
    for style, n in (("sequential", 2), ("functional", 4)):
        check_program(student, rng, style, n, n * int(rng.integers(1, 3)), 2 * n - 1, traced=False)


@exercise("program")
def test_it_trains_as_one_device_with_that_rate(student, rng):
    n = per_replica = 3
    says, rate, width, graph_def, *names = check_program(student, rng, "class", n, per_replica, n + 1, traced=True)
    x = rng.normal(size=(n * per_replica, width)).astype(np.float32)
    y = rng.normal(size=(n * per_replica, 1)).astype(np.float32) + 3
    wanted = one_device(x, y, rate, steps=2)
    for weights in trained(graph_def, names, x, y, n, steps=2):
        for got, right in zip(weights, wanted, strict=True):
            close = got.shape == right.shape and np.allclose(got, right, rtol=1e-3, atol=1e-4)
            text_ = f"{says} after two steps a weight is {np.ravel(got)[0]:.4f}"
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
        elif not raised:
            told = "no_place_is_free" if name == names[-1] else "accepted"
            raise Misconception(told, f"{name}: `assigned` raised no ValueError.")
