"""Trusted checks of chapter 01: tables, logs and machines are invented afresh for each job; nothing is looked up."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from packaging.requirements import Requirement

from across import smi
from across.expecting import between, list_of, number, one_of, row, shown, text, truth, whole
from autograder.checks.machines import FIELDS, KEYS, Facts, healthy, ill, log, rack, shelf, truth_of
from autograder.probe.asking import Misconception, each_answer, exercise, probe, recorded

count = between(0, math.inf, whole).named("a number, 0 or more")
test_every_guess_is_recorded = recorded(
    "prediction", {"CPUs": count, "GPUs": count, "built with CUDA": truth, "CUDA packages": count}
)


# unmet

NAMES = list_of(text).named("a list of names")


def check_unmet(student: Any, rng: np.random.Generator, fates: list[str]) -> None:
    lines, installed, fate = shelf(rng, fates)
    got = student.call_once("unmet", lines, installed, returns=NAMES)
    strange = [name for name in got if name not in fate]
    assert not strange, f"`unmet` lists {shown(strange[0])}; expected names of packages that the lines ask for."
    assert len(set(got)) == len(got), "`unmet` lists a name twice; expected each once."
    sentences = {
        "missing": "{0} is not installed, and you do not list it.",
        "old": "{0} is installed but too old, and you do not list it: being there is not enough.",
        "too new": "{0} is installed but newer than the line allows, and you do not list it.",
        "newer": "{0} satisfies its line, and you list it.",
        "two digits": "{0} {1} satisfies its line, and you list it: compare versions as versions, not as text.",
    }
    order = ["old", "two digits", *sentences]  # the telling ones first
    for each in sorted(map(Requirement, lines), key=lambda want: order.index(fate[want.name])):
        have = installed.get(each.name)
        wanted = have is None or not each.specifier.contains(have)
        assert (each.name in got) == wanted, sentences[fate[each.name]].format(each.name, have)


@exercise("unmet")
def test_missing_packages_are_listed(student, rng):
    check_unmet(student, rng, ["missing", "newer", "missing", "newer"])


@exercise("unmet", weight=2)
def test_versions_are_compared_as_versions(student, rng):
    check_unmet(student, rng, ["old", "two digits", "newer", "too new", "two digits", "missing"])


@exercise("unmet")
def test_a_complete_environment_has_nothing_unmet(student, rng):
    check_unmet(student, rng, ["newer", "two digits", "newer"])


# runs_on

Pair = tuple[tuple[int, int], list[str]]


def code_runs(capability: tuple[int, int], name: str) -> bool:
    what, _, digits = name.partition("_")
    code = int(digits[:-1]), int(digits[-1])
    return capability >= code and (what == "compute" or capability[0] == code[0])


def check_runs_on(student: Any, pairs: list[Pair], why: str) -> None:
    for (capability, built), got in student.call("runs_on", pairs, truth):
        card = ".".join(map(str, capability))
        runs = any(code_runs(capability, name) for name in built)
        assert got == runs, f"A card of {card}, a wheel for {', '.join(built)}: you say {got}; {why}."


@exercise("runs_on")
def test_machine_code_runs_from_its_minor_number_on(student, rng):
    pairs: list[Pair] = []
    for _ in range(4):
        major, minor = int(rng.integers(5, 10)), int(rng.integers(2, 8))
        pairs += [((major, minor + step), [f"sm_{major}{minor}"]) for step in (-1, 0, 1)]
    check_runs_on(student, pairs, "the minor number must be at least the code's")


@exercise("runs_on")
def test_machine_code_does_not_cross_major_numbers(student, rng):
    majors = rng.permutation(np.arange(5, 10))
    pairs: list[Pair] = [((int(a), 9), [f"sm_{b}0"]) for a, b in zip(majors, np.roll(majors, 1), strict=True)]
    check_runs_on(student, pairs, "machine code runs on one major number only")


@exercise("runs_on")
def test_intermediate_code_runs_on_every_later_card(student, rng):
    pairs: list[Pair] = []
    for _ in range(4):
        major, minor = int(rng.integers(5, 9)), int(rng.integers(1, 8))
        built = [f"sm_{major}0"] * int(rng.integers(2)) + [f"compute_{major}{minor}"]
        pairs += [((major + int(rng.integers(1, 3)), 0), built), ((major - 1, 9), built)]
    check_runs_on(student, pairs, "intermediate code is compiled for any later card, and for no earlier one")


@exercise("runs_on")
def test_two_digit_majors_are_read_right(student, rng):
    minor = int(rng.integers(0, 3))
    pairs: list[Pair] = [
        ((12, minor), ["sm_90", f"sm_12{minor}"]),
        ((7, 5), [f"sm_10{minor}", f"sm_12{minor}"]),
        ((10, minor), ["sm_80", "compute_90"]),
        ((9, 0), [f"compute_10{minor}"]),
    ]
    check_runs_on(student, pairs, "the last digit alone is the minor number: sm_120 is 12.0")


# cards

CARD = row(whole, text, whole, whole).named("a number, a name, and two numbers of MiB: an int each, but for the name")


def check_cards(student: Any, table: str, cards: list[smi.Card]) -> None:
    got = student.call_once("cards", table, returns=list_of().named("a list with a tuple for each card"))
    more = " Rows of programs are no cards." if len(got) > len(cards) else ""
    assert len(got) == len(cards), f"`cards` finds {len(got)} cards in a table of {len(cards)}.{more}"
    for place, (each, card) in enumerate(zip(got, cards, strict=True)):
        number, name, used, total = CARD(each, f"You read card {place} as")
        assert number == place, f"Card {place} has number {number} in your list; expected the one at its row's start."
        assert name == card.name, f"A card is called {shown(name)} by you; expected its whole name, no spaces around."
        if (total, used) == (card.used, card.total):
            says = "You swapped the memory used and the memory in all; the table says used / all."
            raise Misconception("used_and_total_swapped", says)
        assert used == card.used, f"Of card {place}, {used} MiB are used, you say; that is not what its row says."
        assert total == card.total, f"Card {place} has {total} MiB, you say; that is not what its row says."


@exercise("cards")
def test_one_idle_card_is_read(student, rng):
    check_cards(student, *rack(rng, 1, 0))


@exercise("cards", weight=2)
def test_a_full_box_is_read_programs_or_not(student, rng):
    check_cards(student, *rack(rng, int(rng.integers(3, 9)), int(rng.integers(2, 9))))


@exercise("cards")
def test_a_table_without_cards_gives_an_empty_list(student):
    empty = list_of(count=0).named("an empty list, for there is no card")
    student.call_once("cards", "No devices were found\n", returns=empty)


# log_lines


def check_log(student: Any, written: str, lines: list[tuple[str, str, str]]) -> None:
    got = student.call_once("log_lines", written, returns=list_of().named("a list of tuples"))
    assert len(got) == len(lines), f"`log_lines` finds {len(got)} lines where {len(lines)} have the form of a log line."
    three = row(text, text, text).named("three texts: letter, file, message")
    hints = {"severity": "", "file": " (without the line's number)", "message": ' (all that follows the first "] ")'}
    for each, wanted in zip(got, lines, strict=True):
        for value, truly, (what, hint) in zip(three(each, "You read one line as"), wanted, hints.items(), strict=True):
            assert value == truly, f"A {what} is {shown(value, 80)} to you; expected all of it{hint}."


@exercise("log_lines")
def test_each_line_is_taken_apart(student, rng):
    check_log(student, *log(rng, 6, others=False))


@exercise("log_lines")
def test_lines_of_another_form_are_left_out(student, rng):
    check_log(student, *log(rng, 5, others=True))


@exercise("log_lines")
def test_an_empty_log_gives_an_empty_list(student):
    student.call_once("log_lines", "", returns=list_of(count=0).named("an empty list, for the log is empty"))


# diagnose


@probe
def diagnosed(student, machines):
    made = [student.Machine(**{**machine, "missing": tuple(machine["missing"])}) for machine in machines]
    return [student.diagnose(machine) for machine in made]


def check_diagnoses(student: Any, machines: list[Facts]) -> None:
    answers = student.ask(diagnosed, machines=machines)
    finding = one_of(KEYS).named("a key of FINDINGS")
    for machine, got in each_answer(answers, machines, finding, "`diagnose` returned"):
        wanted = truth_of(machine)
        if got == wanted:
            continue
        facts = ", ".join(f"{name}={shown(machine[name], 40)}" for name in FIELDS)
        early = KEYS.index(got) < KEYS.index(wanted)
        why = "that question is answered no" if early else "an earlier question is answered yes"
        if got == "hidden" if early else wanted == "hidden":
            why += "; of CUDA_VISIBLE_DEVICES, not set, empty and -1 are three things"
        says = f"You say {got!r}, but {why}. The machine: {facts}."
        raise Misconception("libraries_first", says) if got == "libraries" and not early else AssertionError(says)


@exercise("diagnose")
def test_one_thing_wrong_is_found(student, rng):
    machines = [ill(rng, healthy(rng), finding) for finding in KEYS]
    machines += [{**healthy(rng), "driver": driver} for driver in (524, 525)]  # the last that is too old, the first not
    check_diagnoses(student, [machines[i] for i in rng.permutation(len(machines))])


@exercise("diagnose", weight=2)
def test_of_several_things_the_first_question_wins(student, rng):
    machines = []
    for first in range(len(KEYS) - 1):
        for _ in range(3):
            machine = healthy(rng)
            worse = [key for key in KEYS[first:-1] if key == KEYS[first] or rng.random() < 0.5]
            for finding in reversed(worse):
                machine = ill(rng, machine, finding)
            machines.append(machine)
    check_diagnoses(student, [machines[i] for i in rng.permutation(len(machines))])


@exercise("diagnose")
def test_the_environment_variable_is_read_as_cuda_reads_it(student, rng):
    base = {**healthy(rng), "cards": 2, "handed_in": 2, "driver": 590}
    values = (None, "0", "1", "0,1", "0,-1", "", "-1", "-1,0")
    check_diagnoses(student, [{**base, "visible": visible} for visible in values])


# ring_seconds, speed_up, tie: n cards, bytes or seconds of computing, latency or seconds of waiting


def walked(n: int, size: float, latency: float, bandwidth: float) -> float:
    """The ring walked message by message: the seconds of one card, whose neighbours do the same."""
    clock, summed = 0.0, 1  # how many cards' gradients are in the piece that it passes on
    while summed < n:
        clock += latency + size / n / bandwidth
        summed += 1
    spread = 1
    while spread < n:
        clock += latency + size / n / bandwidth
        spread += 1
    return clock


def by_counting(n: int, compute: float, waiting: float) -> float:
    """Batches a second of n cards over those of one that never waits."""
    return (n / (compute + waiting)) / (1 / compute)


def near(got: float, wanted: float) -> bool:
    return math.isclose(got, wanted, rel_tol=1e-6, abs_tol=1e-15)


@exercise("ring_seconds")
def test_every_message_pays_the_latency(student, rng):
    cases = [(int(n), 0.0, float(rng.uniform(1e-6, 1e-3)), 1e9) for n in rng.permutation(np.arange(2, 40))[:4]]
    for case, got in student.call("ring_seconds", cases, number):
        says = f"{case[0]} cards and no bytes: {got:g} s, you say, at a latency of {case[2]:g} s"
        assert near(got, walked(*case)), f"{says}; count a card's messages."


@exercise("ring_seconds")
def test_every_message_is_one_piece(student, rng):
    cases = [(int(n), float(rng.integers(1, 99)) * 1e6, 0.0, 1e9) for n in rng.permutation(np.arange(2, 40))[:4]]
    for case, got in student.call("ring_seconds", cases, number):
        says = f"{case[0]} cards, {case[1]:g} bytes, 1e9 bytes/s: {got:g} s, you say"
        assert near(got, walked(*case)), f"{says}; a message is one piece, not all."


@exercise("ring_seconds")
def test_both_costs_add_up_and_one_card_is_free(student, rng):
    cases = [(n, float(rng.uniform(1e6, 1e9)), float(rng.uniform(1e-6, 1e-3)), 1.25e9) for n in (1, 2, 8, 64)]
    for case, got in student.call("ring_seconds", cases, number):
        says = f"With {case[0]} card(s) you say {got:g} s; the messages' costs sum up otherwise."
        assert near(got, walked(*case)), says


@exercise("speed_up")
def test_cards_that_never_wait_multiply(student, rng):
    cases = [(int(n), float(rng.uniform(0.01, 1)), 0.0) for n in rng.integers(1, 65, 4)]
    for case, got in student.call("speed_up", cases, number):
        says = f"{case[0]} cards that never wait: {got:g} times, you say; expected each to count."
        assert near(got, by_counting(*case)), says


@exercise("speed_up")
def test_waiting_is_shared_by_all(student, rng):
    cases = [(int(n), *map(float, rng.uniform(0.01, 1, 2))) for n in rng.integers(2, 65, 4)]
    for case, got in student.call("speed_up", cases, number):
        says = f"{case[0]} cards, {case[1]:.3f} s of computing, {case[2]:.3f} s of waiting: {got:.3g} times, you say"
        assert near(got, by_counting(*case)), f"{says}; how many batches are done in how long?"


@probe
def ties(student, cases):
    return [student.tie(size, student.Link(*box), student.Link(*network)) for size, box, network in cases]


def own_rings(student: Any, cases: list[Any]) -> list[float]:
    """What the ring costs by the student's own formula, so that a slip in it is paid for once; if far off, the truth."""
    right = [walked(*case) for case in cases]
    try:
        own = [got for _, got in student.call("ring_seconds", cases, number)]
    except AssertionError:
        return right
    return own if all(each / 3 < got < each * 3 for got, each in zip(own, right, strict=True)) else right


@exercise("tie")
def test_at_the_tie_both_train_equally_fast(student, rng):
    cases = [
        (
            float(rng.uniform(5e7, 5e8)),
            (float(rng.uniform(1e-6, 1e-5)), float(rng.uniform(8e9, 4e11))),
            (float(rng.uniform(1e-5, 1e-4)), float(rng.uniform(5e8, 3e9))),
        )
        for _ in range(5)
    ]
    answers = student.ask(ties, cases=cases)
    rings = [(n, size, *link) for size, *links in cases for n, link in zip((8, 16), links, strict=True)]
    own = own_rings(student, rings)
    seconds = between(-1e6, 1e6).named("seconds")
    for case, got in each_answer(answers, range(len(cases)), seconds, "`tie` returned"):
        assert got > 0, "Your tie is at no positive time; the network waits much longer than twice the box here."
        eight, sixteen = (n / (got + own[2 * case + i]) for i, n in enumerate((8, 16)))  # batches a second
        assert math.isclose(eight, sixteen, rel_tol=1e-4), (
            f"At your tie of {got:.3g} s 8 cards in the box do {eight:.3g} batches a second and 16 on the network "
            f"{sixteen:.3g}; expected as much."
        )
