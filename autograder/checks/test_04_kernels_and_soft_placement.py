"""Trusted checks of chapter 04: kernels are looked up, ops land and errors are raised here, by TensorFlow itself."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from across.expecting import array, maybe, one_of, row, shown, text, truth, whole
from autograder.checks import kernel_truth
from autograder.probe.asking import Misconception, each_answer, exercise, probe, recorded

kernel_truth.warm()

# guesses

ASKED = [
    ("MatMul", "float32", "GPU"),
    ("MatMul", "int32", "CPU"),
    ("MatMul", "int32", "GPU"),
    ("AddV2", "int32", "GPU"),
    ("Sqrt", "int32", "CPU"),
    ("Add", "string", "CPU"),
    ("Add", "string", "GPU"),
    ("FresnelCos", "float32", "XLA_CPU"),
    ("SegmentSumV2", "float32", "CPU"),
    ("NcclAllReduce", "float32", "CPU"),
]


test_every_question_has_a_recorded_guess = recorded("guesses", dict.fromkeys(ASKED, truth))


# has_kernel


def check_has_kernel(student: Any, rng: np.random.Generator, pool: str) -> None:
    """Ask about fresh ops of a pool, and say of the first wrong answer what was overlooked."""
    asked = kernel_truth.questions(rng, pool, 12)
    answers = student.call("has_kernel", [question for question, _ in asked], truth)
    for ((op, dtype, device), got), (_, exists) in zip(answers, asked, strict=True):
        if got == exists:
            continue
        said = f"{op}, {dtype}, {device}: you say {got}"
        if exists and kernel_truth.unnamed(op, device):
            raise AssertionError(f"{said}; its kernel names no dtype: expected it to take any.")
        if exists and pool == "default":
            raise Misconception(
                "without_default", f"{said}; is there a kernel on {device} or, to stand in, on DEFAULT?"
            )
        assert not exists, f"{said}; there is a kernel in the list."
        other = kernel_truth.found(op, dtype, "CPU" if device == "GPU" else "GPU")
        assert not other, f"{said}; its kernel for that dtype is on another device."
        raise AssertionError(f"{said}; it has no kernel for that dtype on any device.")


@exercise("has_kernel", weight=2)
def test_device_and_dtype_both_count(student, rng):
    check_has_kernel(student, rng, "plain")


@exercise("has_kernel")
def test_a_default_kernel_stands_in(student, rng):
    check_has_kernel(student, rng, "default")


@exercise("has_kernel")
def test_a_kernel_that_names_no_dtype_takes_any(student, rng):
    check_has_kernel(student, rng, "any")


# fit


@probe
def made(student, values, op, device):
    tensor = student.fit(values, op, device)
    return [tensor.dtype.name, np.asarray(tensor)] if tf.is_tensor(tensor) else None


FLOATS = ["MatMul", "Sqrt", "Tanh", "Exp", "Softplus"]  # no int32 kernel on a GPU
NUMBERS = ["AddV2", "Mul", "Sub", "Maximum"]  # int32, too


def some_values(rng: np.random.Generator, kind: str) -> Any:
    """Fresh numbers: integers, floats, a mixture, or NumPy's own dtypes."""
    whole = rng.integers(1, 99, size=(2, int(rng.integers(2, 5))))
    if kind == "int":
        return whole.tolist()
    if kind == "float":
        return (whole + 0.5).tolist()
    if kind == "mixed":
        return [[int(whole[0, 0]), float(whole[0, 1]) + 0.25], [1, 2]]
    return whole if kind == "int64" else whole + 0.25


def check_fit(student: Any, rng: np.random.Generator, kinds: list[str], cases: list[tuple[str, str]]) -> None:
    """Compare dtype and numbers with what TensorFlow infers and its lookup of kernels says."""
    kernel_truth.machine()
    for kind in rng.permutation(kinds):
        for op, device in cases:
            values = some_values(rng, kind)
            inferred = tf.constant(values).dtype.name
            kept = kernel_truth.found(op, inferred, device)
            wanted = inferred if kept else "float32"
            answer = student.ask(made, values=values, op=op, device=device)
            assert answer is not None, "`fit` returned no tensor; expected one."
            dtype, got = row(text, array())(answer, "Of the tensor from `fit` came")
            said = f"Values that TensorFlow reads as {inferred}, for {op} on a {device}, become {dtype}"
            if dtype != wanted:
                assert not kept, f"{said}; there is a kernel for what was inferred: expected it kept."
                raise AssertionError(f"{said}; there is no kernel for that dtype: expected float32.")
            same = got.shape == np.shape(values) and np.allclose(got, values)
            assert same, f"{said}, and the numbers changed; expected them as they were."


def one(rng: np.random.Generator, ops: list[str]) -> str:
    return str(rng.choice(ops))


@exercise("fit")
def test_what_has_a_kernel_is_left_as_inferred(student, rng):
    cases = [(one(rng, NUMBERS), "CPU"), (one(rng, NUMBERS), "GPU"), ("MatMul", "CPU")]
    check_fit(student, rng, ["int", "float", "float64"], cases)


@exercise("fit")
def test_what_has_no_kernel_becomes_float32(student, rng):
    cases = [("MatMul", "GPU"), (one(rng, FLOATS), "GPU"), ("Sqrt", "CPU")]
    check_fit(student, rng, ["int", "int64", "mixed"], cases)


# landing: the student's rule against ops that run


@probe
def landed(student, cases):
    return [student.landing(wish, set(types), list(here), soft) for wish, types, here, soft in cases]


Case = tuple[str, str | None, bool]  # op, wish, soft


def check_landing(student: Any, rng: np.random.Generator, cases: Sequence[Case]) -> None:
    """Run every case here, ask where the student thinks that it lands, and explain the first difference."""
    here = kernel_truth.machine()
    cases = [cases[i] for i in rng.permutation(len(cases))]
    x = tf.ones([3])
    ran = [kernel_truth.lands(op, x, wish, soft)[0] for op, wish, soft in cases]
    answers = student.ask(landed, cases=[[wish, list(kernel_truth.types(op)), here, soft] for op, wish, soft in cases])
    place = maybe(text).named("a device's name, or None")
    for ((op, wish, soft), got), device in zip(
        each_answer(answers, cases, place, "`landing` returned"), ran, strict=True
    ):
        if got == device:
            continue
        kinds = " and ".join(kernel_truth.types(op))
        how = "soft" if soft else "hard"
        case = f"{op} (kernels: {kinds}), pinned to {wish}, placement {how}: you say {shown(got)}"
        says = f"{case}; {why_not(op, wish, soft, got, device, here)}"
        if got is not None and got == wish:
            raise Misconception("wishes_are_obeyed", says)
        raise AssertionError(says)


def why_not(op: str, wish: str | None, soft: bool, got: str | None, device: str | None, here: list[str]) -> str:
    """The rule that was missed by who says that an op lands on `got`, when it lands on `device`."""
    types = kernel_truth.types(op)
    if device is None:
        able = any(name.split(":")[0] in types for name in here)
        hard = "a wish that cannot be met is an error when placement is hard."
        return hard if able else "no device here has a kernel: expected None, soft or not."
    if got is None:
        return "nothing was wished, so nothing is disobeyed: it runs." if wish is None else "TensorFlow runs it."
    if got not in here:
        return "there is no such device here."
    if got.split(":")[0] not in types:
        return "it has no kernel there."
    if device == wish:
        return "that wish can be met: expected it to be."
    return "it could run there, and another device comes first in the list."


def several(rng: np.random.Generator, ops: list[str], count: int = 3) -> list[str]:
    return [str(op) for op in rng.permutation(ops)[:count]]


def cpu(rng: np.random.Generator) -> str:
    return f"CPU:{rng.integers(1, sum(name.startswith('CPU') for name in kernel_truth.machine()))}"


@exercise("landing")
def test_a_wish_that_can_be_met_is(student, rng):
    cases = [(op, cpu(rng), soft) for op in several(rng, kernel_truth.CPU_ONLY) for soft in (True, False)]
    cases += [(op, "XLA_CPU:0", soft) for op in several(rng, kernel_truth.ANYWHERE) for soft in (True, False)]
    check_landing(student, rng, cases)


@exercise("landing")
def test_without_a_wish_the_best_that_can_is_taken(student, rng):
    mixed = (
        several(rng, kernel_truth.ANYWHERE, 2)
        + several(rng, kernel_truth.CPU_ONLY, 2)
        + several(rng, kernel_truth.XLA_ONLY, 2)
    )
    check_landing(student, rng, [(op, None, soft) for op in mixed for soft in (True, False)])


@exercise("landing", weight=2)
def test_a_soft_wish_that_cannot_be_met_is_dropped(student, rng):
    cases = [(op, "XLA_CPU:0", True) for op in several(rng, kernel_truth.CPU_ONLY)]
    cases += [(op, cpu(rng), True) for op in several(rng, kernel_truth.XLA_ONLY)]
    absent = [f"GPU:{rng.integers(9)}", f"CPU:{rng.integers(5, 9)}", f"XLA_CPU:{rng.integers(2, 9)}"]
    cases += [
        (op, wish, True) for wish in absent for op in several(rng, kernel_truth.ANYWHERE + kernel_truth.XLA_ONLY, 2)
    ]
    check_landing(student, rng, cases)


@exercise("landing", weight=2)
def test_a_hard_wish_that_cannot_be_met_raises(student, rng):
    cases = [(op, "XLA_CPU:0", False) for op in several(rng, kernel_truth.CPU_ONLY, 2)]
    cases += [(op, cpu(rng), False) for op in several(rng, kernel_truth.XLA_ONLY, 2)]
    cases += [(op, f"GPU:{rng.integers(9)}", False) for op in several(rng, kernel_truth.ANYWHERE, 2)]
    check_landing(student, rng, cases)


@exercise("landing")
def test_where_nobody_has_a_kernel_nothing_helps(student, rng):
    wishes = [None, cpu(rng), "XLA_CPU:0"]
    check_landing(student, rng, [(op, wish, True) for op in kernel_truth.NOWHERE for wish in wishes])


# culprit

DEVICE, THERE, ANYWHERE = "no such device", "no kernel there", "no kernel anywhere"


def check_culprit(student: Any, rng: np.random.Generator, way: str) -> None:
    """Let TensorFlow complain in one way about all that can be wrong, and compare the student's readings."""
    kernel_truth.machine()
    made: list[tuple[str, str]] = []
    for op in several(rng, kernel_truth.ANYWHERE + kernel_truth.CPU_ONLY, 2):
        made.append((DEVICE, kernel_truth.complaint(op, f"GPU:{rng.integers(9)}", way)))
    made.append((THERE, kernel_truth.complaint(one(rng, kernel_truth.CPU_ONLY), "XLA_CPU:0", way)))
    made.append((THERE, kernel_truth.complaint(one(rng, kernel_truth.XLA_ONLY), cpu(rng), way)))
    made.append((ANYWHERE, kernel_truth.complaint(one(rng, list(kernel_truth.NOWHERE)), cpu(rng), way)))
    made = [made[i] for i in rng.permutation(len(made))]
    reading = one_of((DEVICE, THERE, ANYWHERE)).named("one of the three texts, letter by letter")
    answers = student.call("culprit", [[message] for _, message in made], reading, "`culprit` returned")
    for (_, got), (wanted, message) in zip(answers, made, strict=True):
        if got == wanted:
            continue
        lines = [
            line for line in message.splitlines() if any(word in line for word in ("satisfy", "Cannot", "OpKernel"))
        ]
        line = (lines or message.splitlines())[0].replace("/job:localhost/replica:0/task:0", "")
        said = f'You read {got!r} in "{line[:110]}..."'
        assert wanted != DEVICE, f"{said}: the device asked for is none of those that are here."
        assert wanted != THERE, f"{said}: that device is here, and another one has a kernel."
        raise AssertionError(f"{said}: no device here has a kernel.")


@exercise("culprit")
def test_eager_messages_are_told_apart(student, rng):
    check_culprit(student, rng, "eager")


@exercise("culprit")
def test_messages_of_a_function_are_told_apart(student, rng):
    check_culprit(student, rng, "function")


@exercise("culprit")
def test_messages_of_a_session_are_told_apart(student, rng):
    check_culprit(student, rng, "session")


# crossings


@probe
def counted(student, chains):
    return [student.crossings([set(types) for types in chain], wish, list(here)) for chain, wish, here in chains]


def run_through(chain: list[str], wish: str) -> list[str]:
    """Send a tensor through a chain of ops, all under one pin: where it was after each."""
    places, x = [], tf.ones([3])
    for op in chain:
        place, x = kernel_truth.lands(op, x, wish, True)
        assert place is not None
        places.append(place)
    return places


def telling(rng: np.random.Generator, wish: str) -> tuple[list[str], int]:
    """A chain on which the likely miscounts differ from the count: its ops, and how often its tensor really moved."""
    ops = [
        *several(rng, kernel_truth.ANYWHERE, 2),
        *several(rng, kernel_truth.CPU_ONLY, 2),
        *several(rng, kernel_truth.XLA_ONLY, 1),
    ]
    while True:
        chain = [ops[i] for i in rng.integers(0, len(ops), size=int(rng.integers(6, 10)))]
        places = run_through(chain, wish)
        moved = sum(one != other for one, other in itertools.pairwise(places))
        if moved not in (0, sum(place != wish for place in places), len(set(places)) - 1, len(chain) - 1):
            return chain, moved


def check_crossings(student: Any, rng: np.random.Generator, wish: str) -> None:
    """Compare the student's counts with the moves of tensors that went through."""
    here = kernel_truth.machine()
    made = [telling(rng, wish) for _ in range(3)]
    asked = [[[list(kernel_truth.types(op)) for op in chain], wish, here] for chain, _ in made]
    answers = each_answer(student.ask(counted, chains=asked), made, whole, "`crossings` returned")
    for (chain, moved), got in answers:
        if got == moved:
            continue
        places = run_through(chain, wish)
        said = f"A tensor went {', '.join(places)} and you count {got}"
        if got == sum(place != wish for place in places):
            raise Misconception("ops_off_their_pin", f"{said}: these are ops off their pin, not moves between ops.")
        if got == len(set(places)) - 1:
            raise Misconception("devices_less_one", f"{said}: coming back is a move, too.")
        raise AssertionError(f"{said}; expected the changes of device from one op to the next.")


@exercise("crossings")
def test_moves_of_a_chain_that_is_pinned_to_xla_are_counted(student, rng):
    check_crossings(student, rng, "XLA_CPU:0")


@exercise("crossings")
def test_moves_of_a_chain_that_is_pinned_to_a_cpu_are_counted(student, rng):
    check_crossings(student, rng, cpu(rng))


@exercise("crossings")
def test_moves_of_a_chain_that_is_pinned_to_a_missing_device_are_counted(student, rng):
    check_crossings(student, rng, f"GPU:{rng.integers(9)}")
