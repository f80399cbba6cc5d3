"""Trusted checks of chapter 01: devices in fresh processes, and machines that are invented afresh for each job."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from across.expecting import anything, between, called, device, list_of, number, one_of, row, shown, text, truth, whole
from autograder.checks.machines import (
    KEYS,
    WELL,
    Capability,
    Code,
    Facts,
    machine_code,
    name_of,
    one_thing_wrong,
    several_things_wrong,
    truth_of,
    with_intermediate_code,
    word_for,
)
from autograder.probe.asking import Misconception, each_answer, exercise, probe, recorded

count = between(0, 1e6, whole).named("a number, 0 or more")
test_every_guess_is_recorded = recorded(
    "prediction",
    {"CPUs": count, "GPUs": count, "built with CUDA": truth, "16 over a network": between(0, 1e6, number)},
)


# split_cpu


@probe
def split(student, n):
    from across import fresh

    work = student.split_cpu

    def run():
        names = work(n)
        return names, [each.name for each in tf.config.list_logical_devices("CPU")]

    return fresh.run(run)


@exercise("split_cpu")
def test_the_cpu_is_split_and_its_pieces_are_named(student, rng):
    n = int(rng.integers(4, 8))
    got, listed = row(anything, list_of(device))(student.ask(split, n=n), "The fresh process answered")
    before = f"{called('split_cpu', [n])} returned"
    names = list_of(device).named("a list of names of logical CPUs")(got, before)
    assert len(listed) == n, (
        f"After {called('split_cpu', [n])} TensorFlow lists {len(listed)} logical CPUs; expected {n}. "
        "Splitting is `tf.config.set_logical_device_configuration`, before anything starts TensorFlow."
    )
    assert sorted(names) == sorted(listed), f"{before} {shown(got)}; expected the {n} names of the logical CPUs."


# forward_on


@probe
def ran(student, devices, units):
    from across import fresh, placement

    work = student.forward_on

    def build():
        dense = [tf.keras.layers.Dense(each) for each in units]
        return tf.keras.Sequential([tf.keras.Input((3,)), *dense])

    def run():
        answers = []
        for each in devices:
            forward = work(each, build)
            batch = tf.ones((2, 3))
            first = np.asarray(forward(batch))
            seen = placement.trace(forward, batch)
            same = bool(np.array_equal(first, np.asarray(forward(batch))))
            products = [op.device for op in seen.of_type("MatMul")]
            answers.append((list(first.shape), same, products, [name for name, _ in seen.copies()]))
        return answers

    return fresh.run(run, cpus=4)


@exercise("forward_on")
def test_all_runs_there_and_only_the_batch_is_copied(student, rng):
    devices = [f"/CPU:{i}" for i in rng.permutation([1, 2, 3])[:2]]
    units = [int(rng.integers(2, 6)), int(rng.integers(2, 6))]
    answers = student.ask(ran, devices=devices, units=units)
    kind = row(list_of(whole), truth, list_of(device), list_of(text))
    for there, (shape, same, products, copies) in each_answer(answers, devices, kind, "The fresh process answered"):
        call = f"`forward = forward_on({there!r}, build)` and `forward(tf.ones((2, 3)))`"
        assert shape == [2, units[-1]], f"{call}: the output has shape {shape}; expected {[2, units[-1]]}."
        assert same, f"{call}: a second call gives other numbers; expected one model, built once."
        elsewhere = [each for each in products if each != there.strip("/")]
        assert products, f"{call}: no product was seen in the call; expected the model to be called there."
        stray = [each for each in elsewhere if each != "CPU:0"]
        assert not stray, f"{call}: a product ran on /{(stray or ['?'])[0]}, for which nobody asked."
        if elsewhere:
            says = f"{call}: a product ran on /{elsewhere[0]}. The call needs a `tf.device` block, too."
            raise Misconception("call_outside", says)
        if len(copies) > 1:
            says = f"{call}: {len(copies)} copies, of {', '.join(copies)}; the budget is 1. Where do the weights live?"
            raise Misconception("built_outside", says)


# seen_with


@probe
def looked(student, values):
    import os

    before = os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    try:
        answers = [student.seen_with(value) for value in values]
        return answers, os.getpid(), "CUDA_VISIBLE_DEVICES" not in os.environ
    finally:
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        if before is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = before


@exercise("seen_with")
def test_another_process_has_the_variable(student, rng):
    values = ["-1", ",".join(map(str, rng.permutation(4)))]
    answers, own, unchanged = row(list_of(), whole, truth)(student.ask(looked, values=values), "Your notebook answered")
    triple = row(whole, text, between(0, 99, whole)).named("three values: process number, variable, number of GPUs")
    for value, (process, variable, gpus) in each_answer(
        answers, values, triple, lambda value: f"{called('seen_with', [value])} returned"
    ):
        call = called("seen_with", [value])
        assert process != own, f"{call}: the process number {process} is your notebook's own; expected a fresh process."
        assert variable == value, f"{call}: the variable was {variable!r} there; expected {value!r}."
        assert value != "-1" or gpus == 0, f"{call}: {gpus} GPUs, you say; -1 hides all of them."
    assert unchanged, "After `seen_with` your own process has another CUDA_VISIBLE_DEVICES; expected it unchanged."


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
        return "machine code does not run below its second number" if below else "machine code runs on one first number"
    if wanted == "machine":
        return (
            "a `compute` name brings machine code, too"
            if word == "compiled"
            else "it runs above its second number, too"
        )
    if wanted == "compiled":
        late = (
            "the last digit alone is the second number" if gpu[0] > 9 else "the driver compiles the intermediate code"
        )
        return f"{late}; see the `compute` name"
    higher = all(version > gpu for _, version in codes)
    return "code is compiled for a higher capability only" if higher else "only a `compute` name brings such code"


def check_words(student: Any, machines: list[tuple[list[Code], list[Capability]]]) -> None:
    asked = [[[list(gpu) for gpu in gpus], [name_of(code) for code in codes]] for codes, gpus in machines]
    answers = student.ask(words, machines=asked)
    for (codes, gpus), got in each_answer(
        answers, machines, WORDS, "On an invented machine `code_for_gpus()` returned"
    ):
        built = [name_of(code) for code in codes]
        assert len(got) == len(gpus), f"TensorFlow lists {len(gpus)} GPUs, and you return {len(got)} words."
        for gpu, word in zip(gpus, got, strict=True):
            wanted = word_for(gpu, codes)
            call = f"`with invented.machine([('a GPU', {gpu})], {built}): print(code_for_gpus())`"
            says = f"{call} gives [{word!r}]; expected [{wanted!r}]"
            assert word == wanted, f"{says}: {why(gpu, codes, word, wanted)}."


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
        if hides:
            why += "; not set, empty and -1 are three things"
        if got == "not handed in" and early:
            why += ": one GPU that it may open is enough"
        missed.append((hides, f"{call_text(machine)} gives {got!r}, but {why}."))
    if missed:  # who misses what has nothing to do with the variable is told of that
        raise AssertionError(min(missed, key=lambda each: each[0])[1])


@exercise("diagnose")
def test_one_thing_wrong_is_found(student, rng):
    machines = one_thing_wrong()
    check_diagnoses(student, [machines[i] for i in rng.permutation(len(machines))])


@exercise("diagnose")
def test_of_several_things_the_first_question_wins(student, rng):
    machines = several_things_wrong(rng)
    check_diagnoses(student, [machines[i] for i in rng.permutation(len(machines))])
