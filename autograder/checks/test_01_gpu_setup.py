"""Trusted checks of chapter 01: a split process that a peer looks at, a graph run here, machines invented for each job."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from across.expecting import anything, between, called, device, list_of, number, one_of, row, shown, text, truth, whole
from autograder.checks import devices_truth as devices
from autograder.checks.machines import (
    KEYS,
    WELL,
    Capability,
    Code,
    Facts,
    fitting,
    machine_code,
    name_of,
    one_thing_wrong,
    several_things_wrong,
    truth_of,
    two_things_wrong,
    with_intermediate_code,
    word_for,
)
from autograder.probe.asking import Misconception, each_answer, exercise, probe, recorded

count = between(0, math.inf, whole)
test_every_guess_is_recorded = recorded(
    "prediction",
    {"CPUs": count, "GPUs": count, "built with CUDA": truth, "16 over a network": between(0, math.inf, number)},
)


# split_cpu


@exercise("split_cpu")
def test_the_cpu_is_split_and_its_pieces_are_named(student, peer, rng):
    n = int(rng.integers(4, 8))
    served, watched = peer.ask(devices.watching)
    got = student.ask(devices.split, n=n, served=served, watched=watched)
    listed = list_of(device)(
        [name.partition("task:0")[2] for name in peer.ask(devices.devices_seen)], "The process has"
    )
    before = f"{called('split_cpu', [n])} returned"
    names = list_of(device).named("a list of names of logical CPUs")(got, before)
    assert len(listed) > 1, (
        f"After {called('split_cpu', [n])} TensorFlow lists one logical CPU; expected {n}. "
        "Splitting is `tf.config.set_logical_device_configuration`, before anything starts TensorFlow."
    )
    assert len(listed) == n, (
        f"After {called('split_cpu', [n])} TensorFlow lists {len(listed)} logical CPUs; expected {n}."
    )
    assert sorted(names) == sorted(listed), f"{before} {shown(got)}; expected the {n} names of the logical CPUs."


# forward_on


@exercise("forward_on")
def test_the_products_run_there(student, rng):
    devices.Forward(student, rng, 3)


@exercise("forward_on")
def test_only_the_batch_is_copied(student, rng):
    made = devices.Forward(student, rng, 2)
    call, copies, names = made.call, made.copies, ", ".join(name for name, _ in made.copies)
    if any(weight for _, weight in copies):
        says = f"{call}: {len(copies)} copies, of {names}. Where do the weights live?"
        raise Misconception("built_outside", says)
    assert len(copies) < 2, f"{call}: {len(copies)} copies, of {names}; the budget is 1, the batch."


# seen_with


@probe
def looked(student, value, invented_gpus):
    import os

    from across import invented

    before = os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    try:
        with invented.machine([("GPU of this process alone", (8, 9))] * invented_gpus):
            answer = student.seen_with(value)
        return answer, os.getpid(), "CUDA_VISIBLE_DEVICES" not in os.environ
    finally:
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        if before is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = before


@probe
def listed(student, value):
    from across import fresh

    return fresh.run(lambda: len(tf.config.list_physical_devices("GPU")), env={"CUDA_VISIBLE_DEVICES": value})


COLD = 90.0  # seconds: a new Python imports TensorFlow, on a machine where others are graded


@exercise("seen_with")
def test_another_process_has_the_variable(student, rng):
    values = [",".join(map(str, rng.permutation(4))), "-1"]
    triple = row(whole, text, between(0, math.inf, whole)).named(
        "three values: process number, variable, number of GPUs"
    )
    numbers: list[int] = []
    for value in values:
        call = called("seen_with", [value])
        answer, own, unchanged = row(anything, whole, truth)(
            student.ask(looked, deadline=COLD, value=value, invented_gpus=7), "Your notebook answered"
        )
        process, variable, gpus = triple(answer, f"{call} returned")
        assert process != own, f"{call}: the process number {process} is your notebook's own; expected a fresh process."
        assert variable == value, f"{call}: the variable was {variable!r} there; expected {value!r}."
        assert unchanged, f"After {call} your own process has another CUDA_VISIBLE_DEVICES; expected it unchanged."
        assert gpus != 7, (
            f"`with invented.machine([('a GPU', (8, 9))] * 7): print({call.strip('`')})` gives 7 GPUs, which are "
            "listed in your notebook's process; expected how many the fresh process lists."
        )
        there = between(0, math.inf, whole)(student.ask(listed, value=value), "The fresh process lists")
        assert gpus == there, f"{call} returned {gpus} as the number of GPUs; TensorFlow lists {there} there."
        numbers.append(process)
    assert numbers[0] != numbers[1], (
        f"{called('seen_with', values[:1])} and {called('seen_with', values[1:])} both returned the process number "
        f"{numbers[0]}; expected the number of a fresh process, another one for each call."
    )


# code_for_gpus


@probe
def words(student, machines):
    from across import invented

    answers = []
    for gpus, built in machines:
        with invented.machine([(f"GPU of {a}.{b}", (a, b)) for a, b in gpus], built):
            answers.append(student.code_for_gpus())
    return answers


WORDS = list_of(one_of(["machine", "compiled", "none"])).named('a list of "machine", "compiled" or "none", one a GPU')


def why(gpu: Capability, codes: list[Code], word: str, wanted: str) -> str:
    """The rule that an answer missed for a GPU."""
    if word == "machine":
        below = any(version[0] == gpu[0] for _, version in codes)
        one = f"machine code runs on one first number; this GPU's is {gpu[0]}"
        for code in codes:
            if min(gpu[0], code[1][0]) > 9:  # as texts they begin alike
                one += f", that of {name_of(code)} {code[1][0]}: the last digit alone is the second number"
        return "machine code does not run below its second number" if below else one
    if wanted == "machine":
        code = fitting(gpu, codes)
        if gpu[0] > 9 and word == "none":
            return f"in {name_of(code)} the last digit alone is the second number"
        if code[0] == "compute" and word == "compiled":
            return "a `compute` name brings machine code, too"
        if code[1] == gpu:
            return f"{name_of(code)} is machine code for just this capability"
        return f"machine code of {name_of(code)}: it runs above its second number, too"
    if wanted == "compiled":
        late = (
            "the last digit alone is the second number" if gpu[0] > 9 else "the driver compiles the intermediate code"
        )
        return f"{late}; see the `compute` name"
    higher = all(version > gpu for _, version in codes)
    return "code is compiled for a higher capability only" if higher else "only a `compute` name brings such code"


def on(gpus: list[Capability], codes: list[Code]) -> str:
    machine = f"{[('GPU', gpu) for gpu in gpus]}, {[name_of(code) for code in codes]}"
    return f"`with invented.machine({machine}): print(code_for_gpus())`"


def check_words(student: Any, machines: list[tuple[list[Code], list[Capability]]]) -> None:
    """Each GPU alone, the simplest case first, then some of a machine's GPUs together."""
    asked = [(codes, [gpu]) for codes, gpus in machines for gpu in gpus]
    simple = [case for case in asked if any(version == case[1][0] for _, version in case[0])]
    asked = [*simple, *(case for case in asked if case not in simple), *((codes, gpus[:3]) for codes, gpus in machines)]
    wire = [[[list(gpu) for gpu in gpus], [name_of(code) for code in codes]] for codes, gpus in asked]
    answers = student.ask(words, machines=wire)
    for (codes, gpus), got in each_answer(answers, asked, WORDS, lambda case: f"{on(case[1], case[0])} returned"):
        assert len(got) == len(gpus), (
            f"{on(gpus, codes)} gives {shown(got)}; expected one word for each GPU that TensorFlow lists, {len(gpus)} here."
        )
        wanted = [word_for(gpu, codes) for gpu in gpus]
        says = f"{on(gpus, codes)} gives {got}; expected {wanted}"
        if len(gpus) == 1:
            assert got == wanted, f"{says}: {why(gpus[0], codes, got[0], wanted[0])}."
        assert got == wanted, f"{says}: each GPU has a word of its own, in the order in which TensorFlow lists them."


@exercise("code_for_gpus")
def test_machine_code_runs_on_its_own_major_number(student, rng):
    codes, gpus = machine_code(rng)
    check_words(student, [(codes, gpus), (list(reversed(codes)), gpus[:2]), ([], [(8, 6)])])


@exercise("code_for_gpus")
def test_intermediate_code_is_compiled_for_later_gpus(student, rng):
    codes, gpus = with_intermediate_code(rng)
    check_words(student, [(codes, gpus), (list(reversed(codes)), gpus)])


# diagnose


@probe
def diagnosed(student, machines):
    from across import invented

    answers = []
    for seen, cuda, facts in machines:
        facts = {**facts, "missing": tuple(facts["missing"])}
        with invented.machine([("NVIDIA L4", (8, 9))] * seen, invented.LINUX_WHEEL if cuda else []):
            answers.append(student.diagnose(student.Machine(**facts)))
    return answers


def call_text(machine: Facts) -> str:
    fields = {key: value for key, value in machine.items() if key not in ("seen", "cuda") and value != WELL[key]}
    inside = ", ".join(f"{key}={tuple(value) if key == 'missing' else value!r}" for key, value in fields.items())
    with_ = f"with invented.machine({[('L4', (8, 9))] if machine['seen'] else []}{'' if machine['cuda'] else ', []'}): "
    return f"`{with_}print(diagnose(Machine({inside})))`"


def check_diagnoses(student: Any, machines: list[Facts]) -> None:
    asked = [
        [each["seen"], each["cuda"], {k: v for k, v in each.items() if k not in ("seen", "cuda")}] for each in machines
    ]
    finding = one_of(KEYS).named("a key of FINDINGS")
    missed = []
    for machine, got in each_answer(student.ask(diagnosed, machines=asked), machines, finding, "`diagnose` returned"):
        wanted = truth_of(machine)
        if got == wanted:
            continue
        early = KEYS.index(got) < KEYS.index(wanted)
        why = f"the question of {got!r} is answered no" if early else "an earlier question is answered yes"
        hides = got == "hidden" if early else wanted == "hidden"
        several = "," in (machine["visible"] or "")
        if hides:
            why += "; the first entry decides" if several else "; not set, empty and -1 are three things"
        if got == "not handed in" and early:
            why += ": one GPU that it may open is enough"
        missed.append((hides, several, f"{call_text(machine)} gives {got!r}, but {why}."))
    if missed:  # who misses what has nothing to do with the variable is told of that, and of one entry before several
        raise AssertionError(min(missed, key=lambda each: each[:2])[2])


@exercise("diagnose")
def test_one_thing_wrong_is_found(student, rng):
    machines = one_thing_wrong()
    check_diagnoses(student, [machines[i] for i in rng.permutation(len(machines))])


@exercise("diagnose")
def test_of_several_things_the_first_question_wins(student, rng):
    machines = [*two_things_wrong(), *several_things_wrong(rng)]
    check_diagnoses(student, [machines[i] for i in rng.permutation(len(machines))])
