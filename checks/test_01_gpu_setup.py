"""Trusted checks of chapter 01: processes whose devices a witness sees, a graph that is run here, and invented machines."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from across import fresh
from across.expecting import anything, between, called, device, list_of, number, one_of, row, shown, truth, whole
from autograder.probe.asking import Misconception, each_answer, exercise, probe, recorded
from devices_truth import MIB, Built, Witness, serving
from machines import (
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
    with_older_intermediate_code,
    word_for,
)

count = between(0, math.inf, whole)
test_every_guess_is_recorded = recorded(
    "prediction",
    {
        "CPUs": count,
        "GPUs of 1,-1,0": count,
        "built with CUDA": truth,
        "16 over a network": between(0, math.inf, number),
    },
)


# split: a fresh process is split by the answer, and a peer sees which devices it has


@probe(uses=[serving])
def divided(student, kind, limits, address, port):
    from across import fresh

    work = student.split

    def run():
        names = work(kind, limits)
        serving(address, port, True)
        return names

    return fresh.run(run)


def check_split(student: Any, peer: Any, kind: str, limits: list[int | None]) -> None:
    """The pieces are there, with their limits; what was returned are the names of all devices of the kind."""
    witness = Witness(peer)
    call = called("split", [kind, limits])
    before = len(tf.config.list_physical_devices(kind))
    got = student.ask(divided, deadline=COLD, kind=kind, limits=limits, **witness.begins())
    sizes = witness.saw(kind)
    assert sizes is not None, f"{call}: TensorFlow does not run in the fresh process afterwards."
    wanted = len(limits) + before - 1
    assert len(sizes) == wanted, (
        f"After {call} TensorFlow lists {len(sizes)} logical {kind}s; expected {wanted}."
        + " Splitting is `tf.config.set_logical_device_configuration`, before anything starts TensorFlow."
        * (len(sizes) == before)
    )
    if kind == "GPU":
        found = [size // MIB for size in sizes[: len(limits)]]
        if found != limits and {*found} == {*limits}:
            says = f"After {call} the first logical GPUs have {found} MiB, which is another order; expected {limits}."
            raise Misconception("in_order_of_size", says)
        assert found == limits, (
            f"After {call} the first logical GPUs have {found} MiB; expected {limits}, in this order."
        )
    names = list_of(device).named(f"a list of names of logical {kind}s")(got, f"{call} returned")
    assert sorted(names) == sorted(f"{kind}:{i}" for i in range(wanted)), (
        f"{call} returned {shown(got)}; expected the names of the {wanted} logical {kind}s."
    )


@exercise("split")
def test_the_pieces_of_a_gpu_have_their_limits(student, peer, rng):
    low, middle, high = (64 + 8 * int(i) for i in sorted(rng.permutation(30)[:3]))
    check_split(student, peer, "GPU", [middle, low, high])  # in no order


@exercise("split")
def test_the_pieces_of_a_cpu_are_named(student, peer, rng):
    check_split(student, peer, "CPU", [None] * int(rng.integers(3, 7)))


# forward_on: the answer is built into a graph there, and that graph runs here


def check_call(student: Any, rng: Any, there: str, units: list[int]) -> tuple[str, list[tuple[str, bool]]]:
    """The call as text and its copies, each with whether it is of a weight, once model and device are right."""
    made = Built(student, rng, there, units)
    call, wanted = f"`forward_on({there!r}, build)`, called with a batch", [2, units[-1]]
    assert made.shape == wanted, (
        f"Of a model with layers of {units} units the output has shape {made.shape}; expected {wanted}."
    )
    assert made.models == 1, f"{call} twice: {made.models} models were built; expected one model, built once."
    assert made.computed, f"{call}: no op computed with the batch; expected the model to be called there."
    elsewhere = [(kind, each) for kind, each in made.computed if each != there.strip("/")]
    stray = [(kind, each) for kind, each in elsewhere if each not in ("CPU:0", "GPU:0")]
    assert not stray, f"{call}: {stray[0][0]} ran on /{stray[0][1]}, for which nobody asked."
    if elsewhere:
        says = f"{call}: {elsewhere[0][0]} ran on /{elsewhere[0][1]}"
        assert len(elsewhere) == len(made.computed), f"{says}, and others where they should: who computes there, too?"
        raise Misconception("call_outside", f"{says}. The call needs a `tf.device` block, too.")
    assert made.right, f"{call}: the output is not that of the model."
    return call, made.copies


@exercise("forward_on")
def test_the_products_run_there(student, rng):
    for there in ("/GPU:1", "/GPU:0"):
        check_call(student, rng, there, [int(each) for each in rng.integers(2, 6, size=3)])


@exercise("forward_on")
def test_only_the_batch_is_copied(student, rng):
    call, copies = check_call(student, rng, "/GPU:1", [int(each) for each in rng.integers(2, 6, size=2)])
    if any(weight for _, weight in copies):
        says = f"{call}: {len(copies)} copies, of {', '.join(name for name, _ in copies)}. Where do the weights live?"
        raise Misconception("built_outside", says)
    names = ", ".join(name for name, _ in copies)
    assert len(copies) < 2, f"{call}: {len(copies)} copies, of {names}; the budget is 1, the batch."


# seen_with: a peer sees the GPUs of the process in which `look` is called


@probe(uses=[serving])
def looked(student, value, token, address, port):
    import os

    def look():
        if port:
            serving(address, port, False)
        return token, os.getpid(), os.environ.get("CUDA_VISIBLE_DEVICES")

    before = os.environ.get("CUDA_VISIBLE_DEVICES")
    answer = student.seen_with(value, look)
    return answer, os.getpid(), os.environ.get("CUDA_VISIBLE_DEVICES") == before


HOW = {True: " A process gets the variable before it starts.", False: " An empty text is a value, too."}
COLD = 90.0  # seconds: a new Python imports TensorFlow, on a machine where others are graded


@exercise("seen_with")
def test_the_fresh_process_has_the_gpus_that_the_variable_shows(student, peer, rng):
    witness = Witness(peer)
    for value in ("-1", "1,0", "1,-1,0", ""):
        student.ask(looked, deadline=COLD, value=value, token="", **witness.begins())
        call, there = called("seen_with", [value, "look"]).replace("'look'", "look"), witness.saw("GPU")
        wanted = fresh.run(lambda: len(tf.config.list_physical_devices("GPU")), env={"CUDA_VISIBLE_DEVICES": value})
        assert there is not None, f"{call}: `look` was not called where TensorFlow can start; expected a call there."
        assert len(there) == wanted, (
            f"{call}: where `look` was called TensorFlow has {len(there)} of 2 GPUs; {value!r} shows {wanted}."
            + (" The whole text counts." if "," in value else HOW[bool(value)])
        )
        assert witness.fresh, f"{call}: `look` was called in a process that was there before; expected a fresh one."


@exercise("seen_with", weak=True)
def test_what_look_found_comes_back_and_nothing_else_changes(student, rng):
    numbers: list[int] = []
    for value in ("1,-1,0", "-1"):
        token, call = f"token {rng.integers(10**9)}", called("seen_with", [value, "look"]).replace("'look'", "look")
        answer, own, unchanged = row(anything, whole, truth)(
            student.ask(looked, deadline=COLD, value=value, token=token, address="", port=0), "Your notebook answered"
        )
        three = row(anything, whole, anything).named("what `look` returned, three values")
        found, process, variable = three(answer, f"{call} returned")
        assert found == token, f"{call} returned {shown(answer)}; expected what `look` returned."
        assert process != own, f"{call}: the process number {process} is your notebook's own; expected a fresh process."
        assert variable == value, f"{call}: the variable was {variable!r} there; expected {value!r}."
        assert unchanged, f"After {call} your own process has another CUDA_VISIBLE_DEVICES; expected it unchanged."
        numbers.append(process)
    assert numbers[0] != numbers[1], (
        f"Two calls came from the process {numbers[0]}; expected a fresh process, another one for each call."
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
    older, cards = with_older_intermediate_code(rng)
    check_words(student, [(codes, gpus), (list(reversed(codes)), gpus), (older, cards), (list(reversed(older)), cards)])


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
