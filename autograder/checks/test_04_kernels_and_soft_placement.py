"""Trusted checks of chapter 04: kernels are looked up, ops land and errors are raised here, by TensorFlow itself."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from autograder.checks import kernel_truth as truth
from autograder.probe.asking import equivalent, exercise, probe, right, wrong

truth.warm()

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


@probe
def recorded(student):
    guesses = student.guesses
    if not isinstance(guesses, dict):
        return None
    return [[list(key) if isinstance(key, tuple) else [key], value] for key, value in guesses.items()]


@exercise("guesses")
def test_every_question_has_a_recorded_guess(student):
    answer = student.ask(recorded)
    assert type(answer) is list, "`guesses` is no dictionary; expected the ten questions with an answer each."
    guesses = {tuple(map(str, key)): value for key, value in answer}
    missing = [" ".join(question) for question in ASKED if question not in guesses]
    assert not missing, f"`guesses` has no entry for {missing[0]}; expected one for each of the ten questions."
    empty = [" ".join(question) for question in ASKED if guesses[question] is None]
    assert len(empty) < len(ASKED), "Nothing is guessed yet: expected True or False in place of each None."
    assert not empty, f"{empty[0]} is left open; a prediction is a commitment: expected True or False there too."
    for question in ASKED:
        kind = type(guesses[question]).__name__
        assert kind == "bool", f"{' '.join(question)} is guessed as a value of type {kind}; expected True or False."


equivalent("guesses", because="a guess is recorded, not marked: any that is complete earns the point")
wrong(
    "guesses",
    name="one_left_open",
    change=('("Add", "string", "CPU"): True', '("Add", "string", "CPU"): None'),
    says="is left open",
)
wrong(
    "guesses",
    name="in_words",
    change=('("Add", "string", "CPU"): True', '("Add", "string", "CPU"): "yes"'),
    says="value of type str",
)
right("guesses", name="an_optimist", change=("False", "True"))


# has_kernel


@probe
def answered(student, questions):
    return [student.has_kernel(*question) for question in questions]


def check_has_kernel(student: Any, rng: np.random.Generator, pool: str) -> None:
    """Ask about fresh ops of a pool, and say of the first wrong answer what was overlooked."""
    asked = truth.questions(rng, pool, 12)
    answers = student.ask(answered, questions=[list(question) for question, _ in asked])
    for (question, exists), got in zip(asked, answers, strict=True):
        op, dtype, device = question
        said = f"{op}, {dtype}, {device}: you say {got}"
        kind = type(got).__name__
        assert kind == "bool", f"{op}, {dtype}, {device}: you return a value of type {kind}; expected True or False."
        if got == exists:
            continue
        if exists and truth.unnamed(op, device):
            raise AssertionError(f"{said}; its kernel names no dtype: expected it to take any.")
        if exists and pool == "default":
            raise AssertionError(f"{said}; is there a kernel on {device} or, to stand in, on DEFAULT?")
        assert not exists, f"{said}; there is a kernel in the list."
        other = truth.found(op, dtype, "CPU" if device == "GPU" else "GPU")
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


FITS = "all(dtype in allowed for allowed in kernel.dtypes.values())"
wrong("has_kernel", name="without_default", change=('(device, "DEFAULT")', "(device,)"), says="to stand in, on DEFAULT")
wrong("has_kernel", name="any_dtype_will_do", change=(FITS, "True"), says="you say True; it")
wrong(
    "has_kernel",
    name="any_device_will_do",
    change=('kernel.device in (device, "DEFAULT")', "True"),
    says="is on another device",
)
wrong("has_kernel", name="any_for_all", change=("and all(", "and any("), says="its kernel names no dtype")
right(
    "has_kernel",
    name="by_sets",
    source="""
    def has_kernel(op, dtype, device):
        fitting = [k for k in kernels.of(op) if not k.dtypes or dtype in set().union(*k.dtypes.values())]
        return bool({device, "DEFAULT"} & {k.device for k in fitting})
    """,
)
right(
    "has_kernel",
    name="from_the_registry",
    source="""
    def has_kernel(op, dtype, device):
        from tensorflow.python.framework import kernels as registry

        number = tf.as_dtype(dtype).as_datatype_enum
        for k in registry.get_registered_kernels_for_op(op).kernel:
            fits = all(number in c.allowed_values.list.type for c in k.constraint)
            if not k.label and k.device_type in [device, "DEFAULT"] and fits:
                return True
        return False
    """,
)


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
    truth.machine()
    for kind in rng.permutation(kinds):
        for op, device in cases:
            values = some_values(rng, kind)
            inferred = tf.constant(values).dtype.name
            kept = truth.found(op, inferred, device)
            wanted = inferred if kept else "float32"
            answer = student.ask(made, values=values, op=op, device=device)
            assert type(answer) is list, "`fit` returned no tensor; expected one."
            dtype, got = answer
            said = f"Values that TensorFlow reads as {inferred}, for {op} on a {device}, become {dtype}"
            if dtype != wanted:
                assert not kept, f"{said}; there is a kernel for what was inferred: expected it kept."
                raise AssertionError(f"{said}; there is no kernel for that dtype: expected float32.")
            same = np.shape(got) == np.shape(values) and np.allclose(np.asarray(got, float), values)
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


wrong(
    "fit",
    name="always_float32",
    change=("if has_kernel(op, tensor.dtype.name, device):", "if False:"),
    says="expected it kept",
)
wrong("fit", name="never_cast", change=("tf.cast(tensor, tf.float32)", "tensor"), says="expected float32")
wrong(
    "fit",
    name="asks_the_cpu",
    change=("tensor.dtype.name, device", 'tensor.dtype.name, "CPU"'),
    says="expected float32",
)
wrong(
    "fit", name="returns_the_dtype", change=("        return tensor", "        return tensor.dtype"), says="no tensor"
)
right(
    "fit",
    name="by_asking_for_a_dtype",
    source="""
    def fit(values, op, device):
        dtype = tf.convert_to_tensor(values).dtype
        return tf.convert_to_tensor(values, dtype if has_kernel(op, dtype.name, device) else tf.float32)
    """,
)


# landing: the student's rule against ops that run


@probe
def landed(student, cases):
    return [student.landing(wish, set(types), list(here), soft) for wish, types, here, soft in cases]


Case = tuple[str, str | None, bool]  # op, wish, soft


def check_landing(student: Any, rng: np.random.Generator, cases: Sequence[Case]) -> None:
    """Run every case here, ask where the student thinks that it lands, and explain the first difference."""
    here = truth.machine()
    cases = [cases[i] for i in rng.permutation(len(cases))]
    x = tf.ones([3])
    ran = [truth.lands(op, x, wish, soft)[0] for op, wish, soft in cases]
    asked = [[wish, list(truth.types(op)), here, soft] for op, wish, soft in cases]
    answers = student.ask(landed, cases=asked)
    for (op, wish, soft), got, device in zip(cases, answers, ran, strict=True):
        assert got is None or type(got) is str, (
            f"`landing` returned a value of type {type(got).__name__}; expected a device's name, or None."
        )
        if got == device:
            continue
        kinds = " and ".join(truth.types(op))
        how = "soft" if soft else "hard"
        case = f"{op} (kernels: {kinds}), pinned to {wish}, placement {how}: you say {got!r}"
        if device is None:
            able = any(name.split(":")[0] in truth.types(op) for name in here)
            assert able, f"{case}; no device here has a kernel: expected None, soft or not."
            raise AssertionError(f"{case}; a wish that cannot be met is an error when placement is hard.")
        assert got is not None or wish is not None, f"{case}; nothing was wished, so nothing is disobeyed: it runs."
        assert got is not None, f"{case}; TensorFlow runs it."
        assert got in here, f"{case}; there is no such device here."
        assert got.split(":")[0] in truth.types(op), f"{case}, where it has no kernel."
        assert device != wish, f"{case}; that wish can be met: expected it to be."
        raise AssertionError(f"{case}; it could run there, and another device comes first in the list.")


def several(rng: np.random.Generator, ops: list[str], count: int = 3) -> list[str]:
    return [str(op) for op in rng.permutation(ops)[:count]]


def cpu(rng: np.random.Generator) -> str:
    return f"CPU:{rng.integers(1, sum(name.startswith('CPU') for name in truth.machine()))}"


@exercise("landing")
def test_a_wish_that_can_be_met_is(student, rng):
    cases = [(op, cpu(rng), soft) for op in several(rng, truth.CPU_ONLY) for soft in (True, False)]
    cases += [(op, "XLA_CPU:0", soft) for op in several(rng, truth.ANYWHERE) for soft in (True, False)]
    check_landing(student, rng, cases)


@exercise("landing")
def test_without_a_wish_the_best_that_can_is_taken(student, rng):
    mixed = several(rng, truth.ANYWHERE, 2) + several(rng, truth.CPU_ONLY, 2) + several(rng, truth.XLA_ONLY, 2)
    check_landing(student, rng, [(op, None, soft) for op in mixed for soft in (True, False)])


@exercise("landing", weight=2)
def test_a_soft_wish_that_cannot_be_met_is_dropped(student, rng):
    cases = [(op, "XLA_CPU:0", True) for op in several(rng, truth.CPU_ONLY)]
    cases += [(op, cpu(rng), True) for op in several(rng, truth.XLA_ONLY)]
    absent = [f"GPU:{rng.integers(9)}", f"CPU:{rng.integers(5, 9)}", f"XLA_CPU:{rng.integers(2, 9)}"]
    cases += [(op, wish, True) for wish in absent for op in several(rng, truth.ANYWHERE + truth.XLA_ONLY, 2)]
    check_landing(student, rng, cases)


@exercise("landing", weight=2)
def test_a_hard_wish_that_cannot_be_met_raises(student, rng):
    cases = [(op, "XLA_CPU:0", False) for op in several(rng, truth.CPU_ONLY, 2)]
    cases += [(op, cpu(rng), False) for op in several(rng, truth.XLA_ONLY, 2)]
    cases += [(op, f"GPU:{rng.integers(9)}", False) for op in several(rng, truth.ANYWHERE, 2)]
    check_landing(student, rng, cases)


@exercise("landing")
def test_where_nobody_has_a_kernel_nothing_helps(student, rng):
    wishes = [None, cpu(rng), "XLA_CPU:0"]
    check_landing(student, rng, [(op, wish, True) for op in truth.NOWHERE for wish in wishes])


wrong("landing", name="back_to_the_cpu", change=("return able[0]", 'return "CPU:0"'), says="where it has no kernel")
wrong(
    "landing",
    name="always_soft",
    change=("able and (soft or wish is None)", "able"),
    says="is an error when placement is hard",
)
wrong("landing", name="hard_without_a_wish", change=("(soft or wish is None)", "soft"), says="nothing was wished")
wrong("landing", name="wishes_are_obeyed", change=("if wish in able:", "if wish is not None:"), says="you say")
wrong("landing", name="first_of_the_list", change=("return able[0]", "return here[0]"), says="where it has no kernel")
wrong("landing", name="last_of_the_list", change=("able[0]", "able[-1]"), says="another device comes first")
right(
    "landing",
    name="by_next",
    source="""
    def landing(wish, types, here, soft):
        can = [d for d in here if d.rpartition(":")[0] in types]
        order = [d for d in can if d == wish] + (can if soft or not wish else [])
        return next(iter(order), None)
    """,
)


# culprit


@probe
def read(student, messages):
    return [student.culprit(message) for message in messages]


DEVICE, THERE, ANYWHERE = "no such device", "no kernel there", "no kernel anywhere"


def check_culprit(student: Any, rng: np.random.Generator, way: str) -> None:
    """Let TensorFlow complain in one way about all that can be wrong, and compare the student's readings."""
    truth.machine()
    made: list[tuple[str, str]] = []
    for op in several(rng, truth.ANYWHERE + truth.CPU_ONLY, 2):
        made.append((DEVICE, truth.complaint(op, f"GPU:{rng.integers(9)}", way)))
    made.append((THERE, truth.complaint(one(rng, truth.CPU_ONLY), "XLA_CPU:0", way)))
    made.append((THERE, truth.complaint(one(rng, truth.XLA_ONLY), cpu(rng), way)))
    made.append((ANYWHERE, truth.complaint(one(rng, list(truth.NOWHERE)), cpu(rng), way)))
    made = [made[i] for i in rng.permutation(len(made))]
    answers = student.ask(read, messages=[message for _, message in made])
    for (wanted, message), got in zip(made, answers, strict=True):
        assert type(got) is str, (
            f"`culprit` returned a value of type {type(got).__name__}; expected one of three texts."
        )
        known = got in (DEVICE, THERE, ANYWHERE)
        assert known, f"`culprit` returned {got[:40]!r}; expected one of the three texts, letter by letter."
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


wrong(
    "culprit",
    name="eager_is_always_the_device",
    change=("if available and wished", "if False and wished"),
    says="that device is here, and another one has a kernel",
)
wrong(
    "culprit",
    name="every_refusal_is_a_kernel",
    change=('"no supported kernel" in message', '"Cannot assign" in message'),
    says="the device asked for is none of those",
)
wrong(
    "culprit",
    name="a_list_of_kernels_means_none",
    change=('"No OpKernel was registered" in message or', '"Registered kernels" in message or'),
    says="that device is here, and another one has a kernel",
)
wrong(
    "culprit",
    name="in_own_words",
    change=('return "no kernel anywhere"', 'return "nobody can"'),
    says="letter by letter",
)
right(
    "culprit",
    name="by_patterns",
    source="""
    import re

    def culprit(message):
        if re.search("No OpKernel|Could not find device", message):
            return "no kernel anywhere"
        eager = re.search("device specification '([^']*)'.*available devices [[](.*?)[]]", message)
        there = eager[1] in eager[2].split(", ") if eager else "because no supported kernel" in message
        return "no kernel there" if there else "no such device"
    """,
)


# crossings


@probe
def counted(student, chains):
    return [student.crossings([set(types) for types in chain], wish, list(here)) for chain, wish, here in chains]


def run_through(chain: list[str], wish: str) -> list[str]:
    """Send a tensor through a chain of ops, all under one pin: where it was after each."""
    places, x = [], tf.ones([3])
    for op in chain:
        place, x = truth.lands(op, x, wish, True)
        assert place is not None
        places.append(place)
    return places


def telling(rng: np.random.Generator, wish: str) -> tuple[list[str], int]:
    """A chain on which the likely miscounts differ from the count: its ops, and how often its tensor really moved."""
    ops = [*several(rng, truth.ANYWHERE, 2), *several(rng, truth.CPU_ONLY, 2), *several(rng, truth.XLA_ONLY, 1)]
    while True:
        chain = [ops[i] for i in rng.integers(0, len(ops), size=int(rng.integers(6, 10)))]
        places = run_through(chain, wish)
        moved = sum(one != other for one, other in itertools.pairwise(places))
        if moved not in (0, sum(place != wish for place in places), len(set(places)) - 1, len(chain) - 1):
            return chain, moved


def check_crossings(student: Any, rng: np.random.Generator, wish: str) -> None:
    """Compare the student's counts with the moves of tensors that went through."""
    here = truth.machine()
    made = [telling(rng, wish) for _ in range(3)]
    asked = [[[list(truth.types(op)) for op in chain], wish, here] for chain, _ in made]
    answers = student.ask(counted, chains=asked)
    for (chain, moved), got in zip(made, answers, strict=True):
        assert type(got) is int, f"`crossings` returned a value of type {type(got).__name__}; expected a whole number."
        if got == moved:
            continue
        places = run_through(chain, wish)
        text = f"A tensor went {', '.join(places)} and you count {got}"
        assert got != sum(place != wish for place in places), (
            f"{text}: these are ops off their pin, not moves between ops."
        )
        assert got != len(set(places)) - 1, f"{text}: coming back is a move, too."
        raise AssertionError(f"{text}; expected the changes of device from one op to the next.")


@exercise("crossings")
def test_moves_of_a_chain_that_is_pinned_to_xla_are_counted(student, rng):
    check_crossings(student, rng, "XLA_CPU:0")


@exercise("crossings")
def test_moves_of_a_chain_that_is_pinned_to_a_cpu_are_counted(student, rng):
    check_crossings(student, rng, cpu(rng))


@exercise("crossings")
def test_moves_of_a_chain_that_is_pinned_to_a_missing_device_are_counted(student, rng):
    check_crossings(student, rng, f"GPU:{rng.integers(9)}")


MOVES = "sum(one != other for one, other in itertools.pairwise(places))"
wrong(
    "crossings",
    name="ops_off_their_pin",
    change=(MOVES, "sum(place != wish for place in places)"),
    says="ops off their pin",
)
wrong("crossings", name="devices_less_one", change=(MOVES, "len(set(places)) - 1"), says="coming back is a move")
wrong("crossings", name="hard_placement", change=("here, True)", "here, False)"), says="and you count")
wrong("crossings", name="the_way_in_too", change=(MOVES, f"1 + {MOVES}"), says="and you count")
right(
    "crossings",
    name="by_a_loop",
    source="""
    def crossings(chain, wish, here):
        count, at = 0, None
        for types in chain:
            to = landing(wish, types, here, soft=True)
            count += at is not None and to != at
            at = to
        return count
    """,
)
