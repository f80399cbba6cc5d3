"""Trusted checks of chapter 04: kernels are looked up, and ops land, raise and are copied here, by TensorFlow itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import kernel_truth
from across.expecting import anything, device, list_of, maybe, row, shown, text, truth, whole
from autograder.probe.asking import Misconception, each_answer, exercise, probe, recorded
from placing import WORDS, imported

kernel_truth.warm()

# guesses

ASKED = [
    ("float32", "GPU:1"),
    ("float32", "GPU:7"),
    ("float32", "CPU:7"),
    ("int32", "GPU:1"),
    ("int32", "CPU:7"),
]

test_every_landing_has_a_recorded_guess = recorded("guesses", dict.fromkeys(ASKED, device))


# has_kernel


WHY = {  # in the order in which they are told: the first is what was missed, whatever else is wrong for that reason
    "kept": "an array of NumPy's keeps its dtype",
    "missing": "no kernel of this op takes that dtype, on a CPU or a GPU",
    "elsewhere": "only another type of device has a kernel for it",
    "there": "a kernel there names that dtype",
    "within": "that dtype's name is a part of another one's; compare whole names",
    "inferred": "TensorFlow does not infer the dtype that NumPy would",
    "default": "`DEFAULT` stands in on that device",
    "any": "its kernel there names no attribute, and so takes any dtype",
}
NAMES = {
    "kept": "arrays_as_lists",
    "within": "by_substring",
    "default": "without_default",
    "any": "any_for_all",
    "inferred": "numpys_dtype",
}
PYTHONS = {"int32": [3, 4], "float32": [3.0, 0.5]}
VALUES: list[tuple[str, Any, str, str]] = [  # op, a value of Python's, device, and the dtype that TensorFlow infers
    ("Acos", [1, 2.5], "GPU", "float32"),
    ("Abs", True, "CPU", "bool"),
    ("Assign", 2**40, "GPU", "int64"),
]


def check_has_kernel(student: Any, rng: np.random.Generator, kinds: Sequence[str]) -> None:
    """Ask about fresh ops, of every kind of question, and say of the first wrong answer what was overlooked."""
    asked = kernel_truth.questions(rng, kinds)
    cases = []
    for kind, (op, dtype, where), _ in asked:
        value = ["a"] if dtype == "string" else PYTHONS[dtype] if kind == "inferred" else np.ones(2, dtype)
        cases.append([op, value, where])
    answers = list(student.call("has_kernel", cases, truth))
    told = sorted(zip(answers, asked, strict=True), key=lambda pair: list(WHY).index(pair[1][0]))
    for ((op, value, where), got), (kind, (_, dtype, _), exists) in told:
        if got == exists:
            continue
        value = value if isinstance(value, list) else f"np.ones(2, {dtype!r})"
        says = f"`has_kernel({op!r}, {value}, {where!r})` returned {got}. The dtype is {dtype}: {WHY[kind]}."
        raise Misconception(NAMES[kind], says) if kind in NAMES else AssertionError(says)


@exercise("has_kernel")
def test_dtype_and_device_both_count(student, rng):
    check_has_kernel(student, rng, ["kept", "there", "elsewhere", "missing", "within", "inferred"])
    answers = student.call("has_kernel", [list(each[:3]) for each in VALUES], truth)
    for (op, value, where, dtype), (_, got) in zip(VALUES, answers, strict=True):
        says = f"`has_kernel({op!r}, {value!r}, {where!r})` returned {got}. The dtype of this value is {dtype}."
        assert got == kernel_truth.found(op, dtype, where), says


@exercise("has_kernel")
def test_default_stands_in_and_no_attribute_means_any_dtype(student, rng):
    check_has_kernel(student, rng, ["kept", "default", "any", "elsewhere", "missing", "within", "inferred"])
    ((_, got),) = student.call("has_kernel", [["NextIteration", 3, "CPU"]], truth)
    if got != kernel_truth.found("NextIteration", "int32", "CPU"):
        says = f'`has_kernel("NextIteration", 3, "CPU")` returned {got}: {WHY["default"]}, of whatever type.'
        raise Misconception(NAMES["default"], says)


# landing: the student's rule against ops that run here, and on machines that are not here


@probe
def landed(student, cases):
    return [student.landing(wish, set(types), list(here), soft) for wish, types, here, soft in cases]


def check_landing(student: Any, rng: np.random.Generator, soft: bool) -> None:
    """Run an op of every kind under every kind of pin here, and explain the student's first difference."""
    here = kernel_truth.machine()
    absent = [f"GPU:{rng.integers(2, 9)}", f"CPU:{rng.integers(1, 9)}"]
    pools = (kernel_truth.ANYWHERE, kernel_truth.CPU_ONLY, kernel_truth.NOWHERE)
    ops = [pool[rng.integers(len(pool))] for pool in pools]
    cases = [(op, wish) for op in ops for wish in (None, *here, *absent)]
    cases = [cases[i] for i in rng.permutation(len(cases))]
    asked = [[wish, kernel_truth.types(op), here, soft] for op, wish in cases]
    place = maybe(device).named("a device's name, or None")
    answers = each_answer(student.ask(landed, cases=asked), asked, place, "`landing` returned")

    def rank(pair: Any) -> tuple[bool, bool, bool]:  # who misses wishes is told that; who obeys all of them, that
        (_, wish), (_, got) = pair
        return wish is None, got == wish, got not in here

    for (op, wish), ((_, types, _, _), got) in sorted(zip(cases, answers, strict=True), key=rank):
        ran = kernel_truth.lands(op, wish, soft)
        if got == ran:
            continue
        pinned = ", the pin itself" if got in here and got == wish else ""
        says = f"`landing({wish!r}, {set(types)}, {here}, {soft})` returned {shown(got)}{pinned}"
        says = f"{says}; {why(wish, types, got, ran, here)}"
        if pinned:
            raise Misconception("wishes_are_obeyed", says)
        raise AssertionError(says)
    others = kernel_truth.elsewhere(rng, soft)
    for (wish, types, there, _), got in each_answer(
        student.ask(landed, cases=others), others, place, "`landing` returned"
    ):
        if got != (lands := kernel_truth.rule(wish, types, there, soft)):
            says = f"On another machine: `landing({wish!r}, {set(types)}, {there}, {soft})` returned {shown(got)}"
            raise Misconception("this_machine_alone", f"{says}; {why(wish, types, got, lands, there)}")


def why(wish: str | None, types: list[str], got: str | None, ran: str | None, here: list[str]) -> str:
    """The rule that was missed by who says that an op lands on `got`, when it lands on `ran`."""
    if ran is None:
        able = any(name.split(":")[0] in types for name in here)
        hard = "a wish that cannot be met is an error when placement is hard."
        return hard if able else "no device here has a kernel: expected None, soft or not."
    if got is None:
        return "nothing was wished, so nothing is disobeyed: it runs." if wish is None else f"it runs on {ran}."
    if got not in here:
        return "there is no such device here."
    if got.split(":")[0] not in types:
        return "it has no kernel there."
    if ran == wish:
        return "that wish can be met: expected it to be."
    return "it could run there, and another device comes first in the list."


@exercise("landing")
def test_soft_placement_drops_a_wish_that_cannot_be_met(student, rng):
    check_landing(student, rng, soft=True)


@exercise("landing")
def test_hard_placement_raises_where_a_wish_cannot_be_met(student, rng):
    check_landing(student, rng, soft=False)


# strictly: the words of TensorFlow about products of which one may have no kernel; which, only a look into the registry tells


def soft_now(matrix):
    """Whether placement is soft, by an op that has no kernel where it is pinned."""
    try:
        with tf.device("/GPU:0"):
            tf.raw_ops.MatMul(a=matrix, b=matrix)
    except tf.errors.OpError:
        return False
    return True


@probe(uses=[soft_now])
def obeyed(student, cases):
    found = []
    try:
        with tf.device("/CPU:0"):
            matrices = {dtype: tf.ones([2, 2], dtype) for dtype in ("float32", "int32", "uint8")}
        for steps, soft in cases:

            def run(steps=steps, matrices=matrices):
                for dtype, pin, name in steps:
                    with tf.device(pin):
                        tf.raw_ops.MatMul(a=matrices[dtype], b=matrices[dtype], name=name)

            tf.config.set_soft_device_placement(soft)
            found.append([student.strictly(run), soft_now(matrices["int32"])])
    finally:
        tf.config.set_soft_device_placement(True)
    return found


def check_strictly(student: Any, rng: np.random.Generator, restored: bool) -> None:
    """Let products run that obey and that cannot, under both settings: the message and, if asked, the setting after."""
    fine = [("float32", "/GPU:0"), ("float32", "/GPU:1"), ("float32", "/CPU:0"), ("int32", "/CPU:0")]
    wrong = [
        ("int32", "/GPU:0"),
        ("int32", "/GPU:1"),
        ("float32", f"/GPU:{rng.integers(8, 99)}"),
        ("uint8", "/CPU:0"),
        None,
    ]
    cases = []
    for each, soft in [(each, soft) for each in wrong for soft in (True, False)]:
        steps = [fine[i] for i in rng.permutation(len(fine))]
        if each:
            steps.insert(int(rng.integers(len(steps) + 1)), each)
        names = [f"{word}_{rng.integers(10, 99)}" for word in rng.permutation(WORDS)]
        cases.append(([(*step, name) for step, name in zip(steps, names, strict=False)], soft))
    cases = [cases[i] for i in rng.permutation(len(cases))]
    kind = row(text.named('the message, or ""'), truth)
    answers = student.ask(obeyed, cases=[[[list(step) for step in steps], soft] for steps, soft in cases])
    told = each_answer(answers, cases, kind, "`strictly` and the setting after it gave")
    for (steps, soft), (got, after) in told:
        refused = kernel_truth.refused(steps)
        of = ", ".join(f"{dtype} on {pin}" for dtype, pin, _ in steps)
        says = f"`strictly(run)`, of products of {of}, with soft placement {'on' if soft else 'off'} before,"
        if refused:
            if got == "":
                raise Misconception(
                    "stays_soft", f'{says} returned ""; hard placement raises here: expected its message.'
                )
            obeys = all(words in got for words in refused)
            assert obeys, (
                f"{says} returned {shown(got)}; expected the message of the error that TensorFlow raises here."
            )
        else:
            assert got == "", f'{says} returned {shown(got)}; all can run there: expected "".'
        if restored and after != soft:
            name = "always_softens" if after else "leaves_it_hard"
            raise Misconception(name, f"{says} left soft placement {'on' if after else 'off'}; expected it as before.")


def of_a_cast():
    with tf.device("/CPU:0"):
        tf.cast(tf.constant("three"), tf.float32)


@probe(uses=[of_a_cast])
def complained(student):
    calls = []
    said = student.strictly(lambda: (calls.append(None), of_a_cast()))
    return said, len(calls)


@exercise("strictly")
def test_the_message_comes_back(student, rng):
    check_strictly(student, rng, restored=False)
    got, _ = row(text.named('the message, or ""'), anything)(student.ask(complained), "`strictly` returned")
    wanted = ""
    try:
        of_a_cast()
    except tf.errors.OpError as error:
        wanted = error.message
    says = f"`strictly(run)`, of a cast of a text, returned {shown(got)}; expected the whole message, and nothing else."
    assert got.strip() == wanted.strip(), says


@probe(uses=[soft_now])
def interrupted(student):
    found = []
    try:
        with tf.device("/CPU:0"):
            matrix = tf.ones([2, 2], "int32")
        for kind, soft in [(kind, soft) for kind in (ValueError, RuntimeError, KeyError) for soft in (True, False)]:

            def run(kind=kind):
                raise kind("raised by run()")

            tf.config.set_soft_device_placement(soft)
            arrived = False
            try:
                student.strictly(run)
            except kind:
                arrived = True
            found.append([kind.__name__, soft, soft_now(matrix), arrived])
    finally:
        tf.config.set_soft_device_placement(True)
    return found


@exercise("strictly", weak=True)
def test_the_setting_is_what_it_was(student, rng):
    check_strictly(student, rng, restored=True)
    _, count = row(anything, whole)(student.ask(complained), "`strictly` and the count of its calls were")
    assert count == 1, f"`strictly(run)` called `run` {count} times; expected one call."
    kind = list_of(row(text, truth, truth, truth))
    what = "An error, the settings before and after, and whether it arrived, were"
    for error, soft, after, arrived in kind(student.ask(interrupted), what):
        says = f"With a `run` that raises {error}, and soft placement {'on' if soft else 'off'} before, `strictly(run)`"
        if after != soft:
            says = f"{says} left soft placement {'on' if after else 'off'}; expected it as before."
            raise Misconception("not_after_a_python_error", says) if error == "ValueError" else AssertionError(says)
        if not arrived:
            raise Misconception(
                "keeps_pythons_errors", f"{says} kept that error, none of TensorFlow's; expected it to go on."
            )


# strays: a Keras model made here and there, traced in both places


@probe
def strayed(student, how, units, home, pin):
    layers = tf.keras.layers
    with tf.device("/CPU:0"):
        x = tf.ones([1, 4, 4, 1])
    with tf.device(home):
        first = [layers.Resizing(2, 2, how), layers.Flatten()]
        model = tf.keras.Sequential([*first, *(layers.Dense(each) for each in units)])
        model(x)
    return student.strays(model, x, pin)


def check_strays(student: Any, rng: np.random.Generator, asked: Sequence[tuple[str, str, str]], ordered: bool) -> None:
    """Have models traced, (pin, how they resize, home of the variables) each: which ops strayed, in which order."""
    kernel_truth.machine()
    for pin, how, home in asked:
        units = [*map(int, rng.integers(2, 9, size=rng.integers(1, 4)))]
        wanted = kernel_truth.strays(how, len(units), home, pin)
        answer = student.ask(strayed, how=how, units=units, home=home, pin=pin)
        listed = list_of(text)(answer, "`strays` returned")
        got = [op for op in listed if op != "Const"]  # the input, where the student's function captures it
        model = f"A model of Resizing(2, 2, {how!r}), Flatten and {len(units)} Dense layers has its variables on {home}"
        says = f'{model}; `strays(model, x, "{pin}")` returned {shown(listed, 200)}'
        if got == wanted or (not ordered and sorted(got) == sorted(wanted)):
            continue
        if len(set(wanted)) < len(wanted) and sorted(got) == sorted(set(wanted)):
            raise Misconception("each_type_once", f"{says}; expected an entry for each op, also of one type.")
        if sorted(got) == sorted(wanted):
            raise Misconception("in_another_order", f"{says}; these are the ops, but not in the trace's order.")
        missing = [op for op in wanted if op not in got]
        assert not missing, f"{says}; {missing[0]} ran elsewhere, too."
        raise AssertionError(f"{says}; expected {shown(wanted, 200)}.")


@exercise("strays")
def test_the_ops_that_left_the_gpu_are_listed(student, rng):
    cases = [("GPU:1", "bicubic", "/GPU:0"), ("GPU:1", "bilinear", "/CPU:0"), ("GPU:1", "area", "/GPU:1")]
    check_strays(student, rng, cases, ordered=False)


@exercise("strays")
def test_any_pin_is_asked_about_and_the_order_is_the_traces(student, rng):
    cases = [("GPU:0", "bicubic", "/CPU:0"), ("GPU:0", "area", "/GPU:1"), ("CPU:0", "bicubic", "/GPU:0")]
    check_strays(student, rng, cases, ordered=True)


# route: the student's graph, run and traced here


@probe(graphs=1)
def routed(student, there, size):
    from across import tracing

    def program(fed):
        with tf.device("/CPU:0"):  # from where a function in it takes `x`, too
            x = tf.identity(fed, name="x")
        return student.route(x, there)

    made = tracing.program(program, tf.TensorSpec([size, size], tf.float32, name="fed"))
    return [made.graph_def, made.outputs[0] if len(made.outputs) == 1 else ""]


def check_route(student: Any, rng: np.random.Generator, there: str, most: int, square: bool) -> None:
    """Run and trace the student's graph: the numbers of `chain`, with at most so many copies, ended on that device."""
    kernel_truth.machine()
    size = 3 if there == "/GPU:1" else 2
    graph_def, name = row(anything, text)(student.ask(routed, there=there, size=size), "`route` gave")
    imported(graph_def)
    assert name, "`route` returned no single tensor; expected one."
    half = rng.integers(1, 5, size=(size, size))
    x = (half @ half.T + np.eye(size)).astype("float32")  # symmetric and positive: its roots are real
    value, seen = kernel_truth.traced(graph_def, name, x)
    wanted = np.asarray(kernel_truth.chain(x), np.float64)
    here, expected = (np.round(each, 4).tolist() for each in (value, wanted))
    says = f"`route(tf.constant({x.tolist()}), {there!r})`"
    same = value.shape == x.shape and np.allclose(value, wanted, rtol=1e-3, atol=1e-3)
    assert same, f"{says} gave {shown(here)}; `chain` gives {shown(expected)}."
    there = there.strip("/")
    last = [op for op in seen.ops if op.type not in ("Const", "NoOp", "Placeholder")][-1]
    assert last.device == there, f"{says} ended with {last.type} on {last.device}; expected {there}."
    count = len(seen.copies())
    moved = " and ".join(f"{op} to {to}" for op, to in seen.copies()[:3])
    assert count <= most, f"{says} copied {count} times ({moved}{', ...' if count > 3 else ''}); the budget is 1."
    squares = [op.device for op in seen.ops if op.type == "Square"]
    if square:
        says = f"{says} ended with {last.type} on {there}; expected the last tf.square to run there"
        assert squares[-1:] == [there], says


@exercise("route")
def test_one_copy_and_the_numbers_of_the_chain(student, rng):
    for there in ("/GPU:1", "/GPU:0"):
        check_route(student, rng, there, most=1, square=False)


@exercise("route")
def test_fewer_copies_and_the_last_square_on_the_device(student, rng):
    for there in ("/GPU:0", "/GPU:1"):
        check_route(student, rng, there, most=4, square=True)
