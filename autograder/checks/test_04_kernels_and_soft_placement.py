"""Trusted checks of chapter 04: kernels are looked up, and ops land, raise and are copied here, by TensorFlow itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from across.expecting import anything, device, list_of, maybe, row, shown, text, truth
from autograder.checks import kernel_truth
from autograder.checks.placing import imported
from autograder.probe.asking import Misconception, each_answer, exercise, probe, recorded

kernel_truth.warm()

# guesses

ASKED = [
    ("Sqrt", "XLA_CPU:0"),
    ("FresnelCos", "XLA_CPU:0"),
    ("FresnelCos", "CPU:1"),
    ("FresnelCos", "CPU:7"),
    ("SegmentSumV2", "CPU:1"),
]

test_every_landing_has_a_recorded_guess = recorded("guesses", dict.fromkeys(ASKED, device))


# has_kernel


WHY = {  # in the order in which they are told: the first is what was missed, whatever else is wrong for that reason
    "missing": "no kernel of this op takes that dtype, on a CPU or a GPU",
    "elsewhere": "only another type of device has a kernel for it",
    "there": "a kernel there names that dtype",
    "within": "that dtype's name is a part of another one's; compare whole names",
    "inferred": "TensorFlow does not infer the dtype that NumPy would",
    "default": "`DEFAULT` stands in on that device",
    "any": "its kernel there names no attribute, and so takes any dtype",
}
NAMES = {"within": "by_substring", "default": "without_default", "any": "any_for_all", "inferred": "numpys_dtype"}
PYTHONS = {"int32": [3, 4], "float32": [3.0, 0.5]}


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
    check_has_kernel(student, rng, ["there", "elsewhere", "missing", "within", "inferred"])


@exercise("has_kernel")
def test_default_stands_in_and_no_attribute_means_any_dtype(student, rng):
    check_has_kernel(student, rng, ["default", "any", "elsewhere", "missing", "within", "inferred"])


# landing: the student's rule against ops that run


@probe
def landed(student, cases):
    return [student.landing(wish, set(types), list(here), soft) for wish, types, here, soft in cases]


def check_landing(student: Any, rng: np.random.Generator, soft: bool) -> None:
    """Run an op of every kind under every kind of pin here, and explain the student's first difference."""
    here = kernel_truth.machine()
    cpu = f"CPU:{rng.integers(1, sum(name.startswith('CPU') for name in here))}"
    absent = [f"GPU:{rng.integers(9)}", f"CPU:{rng.integers(5, 9)}", f"XLA_CPU:{rng.integers(2, 9)}"]  # each type
    pools = (kernel_truth.ANYWHERE, kernel_truth.CPU_ONLY, kernel_truth.XLA_ONLY, list(kernel_truth.NOWHERE))
    ops = [str(rng.choice(pool)) for pool in pools]
    cases = [(op, wish) for op in ops for wish in (None, cpu, "XLA_CPU:0", *absent)]
    cases = [cases[i] for i in rng.permutation(len(cases))]
    asked = [[wish, list(kernel_truth.types(op)), here, soft] for op, wish in cases]
    place = maybe(device).named("a device's name, or None")
    answers = each_answer(student.ask(landed, cases=asked), asked, place, "`landing` returned")
    told = sorted(
        zip(cases, answers, strict=True), key=lambda pair: pair[0][1] is None
    )  # who misses wishes is told that
    for (op, wish), ((_, types, _, _), got) in told:
        ran = kernel_truth.lands(op, tf.ones([3]), wish, soft)
        if got == ran:
            continue
        pinned = ", the pin itself" if got is not None and got == wish else ""
        says = f"`landing({wish!r}, {set(types)}, {here}, {soft})` returned {shown(got)}{pinned}"
        says = f"{says}; {why(wish, types, got, ran, here)}"
        if pinned:
            raise Misconception("wishes_are_obeyed", says)
        raise AssertionError(says)


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


# strictly


@probe
def obeyed(student, cases):
    found = []
    try:
        for value, wish, fails, soft in cases:
            x = tf.constant(value)

            def run(x=x, wish=wish, fails=fails):
                with tf.device(wish):
                    return tf.raw_ops.FresnelCos(x=x) if fails else tf.sqrt(x)

            tf.config.set_soft_device_placement(soft)
            found.append([student.strictly(run), tf.config.get_soft_device_placement()])
    finally:
        tf.config.set_soft_device_placement(True)
    return found


def check_strictly(student: Any, rng: np.random.Generator, restored: bool) -> None:
    """Let fresh ops run that obey and that cannot, under both settings: the message and, if asked, the setting after."""
    pins = ("/CPU:0", "/device:XLA_CPU:0")
    cases = [(pin, fails, soft) for pin in pins for fails in (False, True) for soft in (True, False)]
    cases += [(f"/GPU:{rng.integers(8, 99)}", False, soft) for soft in (True, False)]
    cases = [cases[i] for i in rng.permutation(len(cases))]
    asked = [[rng.uniform(0, 1, size=3).astype(np.float32), *case] for case in cases]
    answers = student.ask(obeyed, cases=asked)
    kind = row(text.named('the message, or ""'), truth)
    for (pin, fails, soft), (got, after) in each_answer(
        answers, cases, kind, "`strictly` and the setting after it gave"
    ):
        op = "tf.raw_ops.FresnelCos" if fails else "tf.sqrt"
        says = (
            f"With {op} in `run`, pinned to {pin}, and soft placement {'on' if soft else 'off'} before, `strictly(run)`"
        )
        if "GPU" in pin or (fails and "XLA" in pin):
            obeys = "Could not satisfy device specification" in got and pin.split(":")[-2].split("/")[-1] in got
            assert obeys, f"{says} returned {shown(got)}; hard placement raises here: expected the error's message."
        else:
            assert got == "", f'{says} returned {shown(got)}; the op can run there: expected "".'
        if restored:
            assert after == soft, f"{says} left soft placement {'on' if after else 'off'}; expected it as before."


@exercise("strictly")
def test_the_message_comes_back(student, rng):
    check_strictly(student, rng, restored=False)


@probe
def interrupted(student):
    import contextlib

    def run():
        raise ValueError("raised by run()")

    found = []
    try:
        for soft in (True, False):
            tf.config.set_soft_device_placement(soft)
            with contextlib.suppress(ValueError):  # let through, or told: both are fine
                student.strictly(run)
            found.append([soft, tf.config.get_soft_device_placement()])
    finally:
        tf.config.set_soft_device_placement(True)
    return found


@exercise("strictly")
def test_the_setting_is_what_it_was(student, rng):
    check_strictly(student, rng, restored=True)
    for soft, after in list_of(row(truth, truth))(student.ask(interrupted), "The settings before and after were"):
        says = (
            f"With a `run` that raises ValueError, and soft placement {'on' if soft else 'off'} before, `strictly(run)`"
        )
        if after != soft:
            says = f"{says} left soft placement {'on' if after else 'off'}; expected it as before."
            raise Misconception("not_after_a_python_error", says)


# strays: a Keras model made here and there, traced in both places


@probe
def strayed(student, sizes, op, home, pin):
    layers = tf.keras.layers
    bend = (lambda x: getattr(tf.raw_ops, op)(x=x)) if op else "relu"
    x = tf.ones([2, 3])
    with tf.device(home):
        model = tf.keras.Sequential([layers.Dense(sizes[0], activation=bend), layers.Dense(sizes[1])])
        model(x)
    return student.strays(model, x, pin)


def check_strays(student: Any, rng: np.random.Generator, asked: Sequence[tuple[str, str, str]], ordered: bool) -> None:
    """Have models traced, (pin, op of the activation, home of the variables) each: which ops strayed, in which order."""
    kernel_truth.machine()
    for pin, op, home in asked:
        sizes = [*map(int, rng.integers(3, 9, size=2))]
        wanted = kernel_truth.strays(op, home, pin)
        answer = student.ask(strayed, sizes=sizes, op=op, home=home, pin=pin)
        listed = list_of(text)(answer, "`strays` returned")
        got = [op for op in listed if op != "Const"]  # the input, where the student's function captures it
        model = (
            f"A model of two Dense layers, the first with the activation {op or 'relu'}, has its variables on {home}"
        )
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
def test_the_ops_that_left_xla_are_listed(student, rng):
    op = str(rng.choice(kernel_truth.CPU_ONLY))
    check_strays(student, rng, [("XLA_CPU:0", op, "/CPU:1"), ("XLA_CPU:0", "", "/CPU:0")], ordered=False)


@exercise("strays")
def test_any_pin_is_asked_about_and_the_order_is_the_traces(student, rng):
    op = str(rng.choice(kernel_truth.CPU_ONLY))
    check_strays(student, rng, [("XLA_CPU:0", op, "/CPU:1"), ("CPU:1", op, "/CPU:0")], ordered=True)


# route: the student's graph, run and traced here


@probe(graphs=1)
def routed(student):
    from across import tracing

    made = tracing.program(student.route, tf.TensorSpec([3], tf.float32, name="x"))
    return [made.graph_def, made.outputs[0] if len(made.outputs) == 1 else ""]


def chain(x: Any) -> Any:
    """What the student's route is to compute."""
    bent = tf.raw_ops.FresnelCos(x=tf.square(tf.raw_ops.FresnelSin(x=tf.sqrt(x))))
    return tf.square(bent)


def check_route(student: Any, rng: np.random.Generator, most: int, square: bool) -> None:
    """Run and trace the student's graph: the numbers of `chain`, with at most so many copies, ended on XLA's device."""
    kernel_truth.machine()
    graph_def, name = row(anything, text)(student.ask(routed), "`route` gave")
    imported(graph_def)
    assert name, "`route` returned no single tensor; expected one."
    x = rng.integers(1, 9, size=3).astype(np.float32)
    value, seen = kernel_truth.traced(graph_def, name, x)
    here, there = (np.round(each, 4).tolist() for each in (value.astype(np.float64), np.asarray(chain(x), np.float64)))
    says = f"`route(tf.constant({x.tolist()}))`"
    same = value.shape == (3,) and np.allclose(value, chain(x), rtol=1e-4)
    assert same, f"{says} gave {shown(here)}; `chain` gives {shown(there)}."
    last = [op for op in seen.ops if op.type not in ("Const", "NoOp")][-1]
    assert last.device == "XLA_CPU:0", f"{says} ended with {last.type} on {last.device}; expected XLA_CPU:0."
    count = len(seen.copies())
    moved = " and ".join(f"{'x' if op.startswith('args') else op} to {to}" for op, to in seen.copies()[:3])
    assert count <= most, f"{says} copied {count} times ({moved}{', ...' if count > 3 else ''}); the budget is 1."
    squares = [op.device for op in seen.ops if op.type == "Square"]
    if square:
        expected = "expected the last tf.square to run there"
        assert squares[-1:] == ["XLA_CPU:0"], f"{says} ended with {last.type} on XLA_CPU:0; {expected}."


@exercise("route")
def test_one_copy_and_the_numbers_of_the_chain(student, rng):
    check_route(student, rng, most=1, square=False)


@exercise("route")
def test_fewer_copies_and_the_last_square_on_xla(student, rng):
    check_route(student, rng, most=4, square=True)
