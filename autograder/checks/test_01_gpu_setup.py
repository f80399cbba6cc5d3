"""Trusted checks of chapter 01: tables, logs and machines are invented afresh for each job; nothing is looked up."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from packaging.requirements import Requirement

from across import smi
from autograder.probe.asking import equivalent, exercise, probe, right, wrong


def kind(value: Any) -> str:
    """How a value is named to a student."""
    return "None" if value is None else f"a value of type {type(value).__name__}"


def shown(value: Any, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def is_number(value: Any) -> bool:
    return type(value) in (int, float)


# prediction

GUESSES = {"CPUs": int, "GPUs": int, "built with CUDA": bool, "CUDA packages": int}


@probe
def recorded(student):
    return student.prediction


@exercise("prediction")
def test_every_guess_is_recorded(student):
    guess = student.ask(recorded)
    assert type(guess) is dict, f"`prediction` is {kind(guess)}; expected a dictionary with four entries."
    missing = [name for name in GUESSES if name not in guess]
    assert not missing, f"`prediction` has no entry for {', '.join(missing)}; expected all four."
    empty = [name for name in GUESSES if guess[name] is None]
    assert len(empty) < len(GUESSES), "Nothing is predicted yet: expected a guess in place of each None."
    assert not empty, f"{', '.join(empty)} is left open; a prediction is a commitment: expected a guess there too."
    for name, wanted in GUESSES.items():
        numeric = wanted is int and type(guess[name]) is int and guess[name] >= 0
        fits = numeric or (wanted is bool and type(guess[name]) is bool)
        what = "a number, 0 or more" if wanted is int else "True or False"
        assert fits, f"{name} is predicted to be {shown(guess[name])}; expected {what}."


equivalent("prediction", because="a guess is recorded, not marked: any that is complete earns the point")
wrong("prediction", name="one_left_open", change=('"GPUs": 0', '"GPUs": None'), says="is left open")
wrong("prediction", name="words_for_numbers", change=('"CPUs": 1', '"CPUs": "one"'), says="expected a number")
wrong(
    "prediction",
    name="version_for_yes",
    change=('"built with CUDA": True', '"built with CUDA": 12'),
    says="expected True or False",
)
right(
    "prediction",
    name="four_surprises",
    source="""
    prediction = dict(CPUs=16, GPUs=8)
    prediction["built with CUDA"] = False
    prediction["CUDA packages"] = 12
    """,
)


# unmet


@probe
def found_unmet(student, requirements, installed):
    return student.unmet(requirements, installed)


PACKAGES = "cublas cudnn cufft curand cusolver cusparse nccl nvjitlink cuda-runtime cuda-nvcc cuda-cupti".split()


def shelf(rng: np.random.Generator, fates: list[str]) -> tuple[list[str], dict[str, str], dict[str, str]]:
    """Requirement lines, what is installed, and the fate of each name: one package for each of the `fates`."""
    lines, installed, fate = [], {}, {}
    for stem, what in zip(rng.permutation(PACKAGES), fates, strict=False):
        name = f"nvidia-{stem}-cu{rng.integers(11, 14)}"
        major, minor = int(rng.integers(8, 13)), int(rng.integers(2, 9))
        lines.append(f"{name}<{major + 1}.0,>={major}.{minor}.{rng.integers(40, 90)}")
        versions = {
            "newer": f"{major}.{minor + 1}.{rng.integers(9)}",
            "two digits": f"{major}.1{rng.integers(10)}.{rng.integers(9)}",  # 9.10 is later than 9.3
            "old": f"{major}.{minor - 1}.99",
            "too new": f"{major + 1}.{rng.integers(5)}.1",
        }
        if what != "missing":
            installed[name] = versions[what]
        fate[name] = what
    extra = {f"nvidia-extra{i}": f"{i}.0" for i in range(2)}  # nobody asked for these
    order = rng.permutation(len(lines))
    return [lines[i] for i in order], {**installed, **extra}, fate


def check_unmet(got: Any, lines: list[str], installed: dict[str, str], fate: dict[str, str]) -> None:
    assert type(got) is list, f"`unmet` returned {kind(got)}; expected a list of names."
    assert all(type(name) is str for name in got), "`unmet` returned a list of other things; expected names."
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
    lines, installed, fate = shelf(rng, ["missing", "newer", "missing", "newer"])
    check_unmet(student.ask(found_unmet, requirements=lines, installed=installed), lines, installed, fate)


@exercise("unmet", weight=2)
def test_versions_are_compared_as_versions(student, rng):
    lines, installed, fate = shelf(rng, ["old", "two digits", "newer", "too new", "two digits", "missing"])
    check_unmet(student.ask(found_unmet, requirements=lines, installed=installed), lines, installed, fate)


@exercise("unmet")
def test_a_complete_environment_has_nothing_unmet(student, rng):
    lines, installed, fate = shelf(rng, ["newer", "two digits", "newer"])
    check_unmet(student.ask(found_unmet, requirements=lines, installed=installed), lines, installed, fate)


wrong(
    "unmet",
    name="being_there_is_enough",
    change=(" or not want.specifier.contains(installed[want.name])", ""),
    says="being there is not enough",
)
wrong(
    "unmet",
    name="versions_as_text",
    source="""
    def unmet(requirements, installed):
        names = []
        for line in requirements:
            name, low = line.split("<")[0], line.split(">=")[1]
            major = line.split("<")[1].split(".")[0]
            if name not in installed or installed[name] < low or installed[name].split(".")[0] == major:
                names.append(name)
        return names
    """,
    says="compare versions as versions",
)
wrong(
    "unmet",
    name="only_the_first",
    change=("            names.append(want.name)", "            return [want.name]"),
    says="you do not list it",
)
wrong(
    "unmet",
    name="the_satisfied_ones",
    change=("not want.specifier", "want.specifier"),
    says="satisfies its line, and you list it.",
)
right(
    "unmet",
    name="by_comprehension",
    source="""
    def unmet(requirements, installed):
        wants = map(Requirement, requirements)
        return [w.name for w in wants if installed.get(w.name, "0") not in w.specifier]
    """,
)


# runs_on


@probe
def answers_runs_on(student, pairs):
    return [student.runs_on(tuple(capability), built) for capability, built in pairs]


Pair = tuple[tuple[int, int], list[str]]


def code_runs(capability: tuple[int, int], name: str) -> bool:
    what, _, digits = name.partition("_")
    code = int(digits[:-1]), int(digits[-1])
    return capability >= code and (what == "compute" or capability[0] == code[0])


def check_runs_on(got: Any, pairs: list[Pair], why: str) -> None:
    for answer, (capability, built) in zip(got, pairs, strict=True):
        assert type(answer) is bool, f"`runs_on` returned {kind(answer)}; expected True or False."
        card = ".".join(map(str, capability))
        truth = any(code_runs(capability, name) for name in built)
        assert answer == truth, f"A card of {card}, a wheel for {', '.join(built)}: you say {answer}; {why}."


@exercise("runs_on")
def test_machine_code_runs_from_its_minor_number_on(student, rng):
    pairs: list[Pair] = []
    for _ in range(4):
        major, minor = int(rng.integers(5, 10)), int(rng.integers(2, 8))
        pairs += [((major, minor + step), [f"sm_{major}{minor}"]) for step in (-1, 0, 1)]
    got = student.ask(answers_runs_on, pairs=pairs)
    check_runs_on(got, pairs, "the minor number must be at least the code's")


@exercise("runs_on")
def test_machine_code_does_not_cross_major_numbers(student, rng):
    majors = rng.permutation(np.arange(5, 10))
    pairs: list[Pair] = [((int(a), 9), [f"sm_{b}0"]) for a, b in zip(majors, np.roll(majors, 1), strict=True)]
    got = student.ask(answers_runs_on, pairs=pairs)
    check_runs_on(got, pairs, "machine code runs on one major number only")


@exercise("runs_on")
def test_intermediate_code_runs_on_every_later_card(student, rng):
    pairs: list[Pair] = []
    for _ in range(4):
        major, minor = int(rng.integers(5, 9)), int(rng.integers(1, 8))
        built = [f"sm_{major}0"] * int(rng.integers(2)) + [f"compute_{major}{minor}"]
        pairs += [((major + int(rng.integers(1, 3)), 0), built), ((major - 1, 9), built)]
    got = student.ask(answers_runs_on, pairs=pairs)
    check_runs_on(got, pairs, "intermediate code is compiled for any later card, and for no earlier one")


@exercise("runs_on")
def test_two_digit_majors_are_read_right(student, rng):
    minor = int(rng.integers(0, 3))
    pairs: list[Pair] = [
        ((12, minor), ["sm_90", f"sm_12{minor}"]),
        ((7, 5), [f"sm_10{minor}", f"sm_12{minor}"]),
        ((10, minor), ["sm_80", "compute_90"]),
        ((9, 0), [f"compute_10{minor}"]),
    ]
    got = student.ask(answers_runs_on, pairs=pairs)
    check_runs_on(got, pairs, "the last digit alone is the minor number: sm_120 is 12.0")


wrong(
    "runs_on",
    name="later_is_enough",
    change=('(kind == "compute" or capability[0] == code[0])', "True"),
    says="one major",
)
wrong("runs_on", name="exact_match", change=("capability >= code", "capability == code"), says="at least the code's")
wrong("runs_on", name="no_intermediate_code", change=('kind == "compute" or ', ""), says="compiled for any later card")
wrong(
    "runs_on",
    name="first_digit_is_the_major",
    change=("int(digits[:-1]), int(digits[-1])", "int(digits[0]), int(digits[1:])"),
    says="sm_120 is 12.0",
)
wrong(
    "runs_on",
    name="intermediate_goes_back",
    change=(
        'capability >= code and (kind == "compute" or capability[0] == code[0])',
        'kind == "compute" or (capability >= code and capability[0] == code[0])',
    ),
    says="compiled for any later card, and for no earlier one",
)
right(
    "runs_on",
    name="by_numbers",
    source="""
    def runs_on(capability, built):
        card = 10 * capability[0] + capability[1]
        def fits(name):
            number = int(name.split("_")[1])
            if name.startswith("compute"):
                return card >= number
            return card >= number and card // 10 == number // 10
        return any(map(fits, built))
    """,
)


# cards

MODELS = {
    "NVIDIA A100-SXM4-80GB": 81920,
    "NVIDIA H100 NVL": 95830,
    "NVIDIA GeForce RTX 3060": 12288,
    "Tesla V100-SXM2-16GB": 16384,
    "Tesla T4": 15360,
    "NVIDIA RTX A6000": 49140,
    "NVIDIA H200": 143771,
    "Quadro GV100": 32508,
}


@probe
def read_cards(student, text):
    return student.cards(text)


def rack(rng: np.random.Generator, n: int, programs: int) -> tuple[str, list[smi.Card]]:
    """What nvidia-smi would print for `n` cards drawn from MODELS, and the cards."""
    names = [str(name) for name in rng.choice(list(MODELS), size=n)]
    found = [
        smi.Card(
            name,
            int(rng.integers(0, MODELS[name])),
            MODELS[name],
            int(rng.integers(101)),
            int(rng.integers(20, 300)),
            300,
            int(rng.integers(25, 90)),
        )
        for name in names
    ]
    busy = [
        smi.Program(
            int(rng.integers(n)), int(rng.integers(300, 90_000)), "/usr/bin/python3", int(rng.integers(9, 9000))
        )
        for _ in range(programs)
    ]
    major = int(rng.integers(525, 591))
    text = smi.table(found, busy, driver=f"{major}.{rng.integers(10, 200)}.0{rng.integers(1, 9)}", cuda="12.4")
    return text, found


def check_cards(got: Any, truth: list[smi.Card]) -> None:
    assert type(got) is list, f"`cards` returned {kind(got)}; expected a list with a tuple for each card."
    more = " Rows of programs are no cards." if len(got) > len(truth) else ""
    assert len(got) == len(truth), f"`cards` finds {len(got)} cards in a table of {len(truth)}.{more}"
    for number, (row, card) in enumerate(zip(got, truth, strict=True)):
        four = type(row) in (tuple, list) and len(row) == 4
        assert four, f"Card {number} is {shown(row)} to you; expected four values: number, name, MiB used, MiB in all."
        for value, what in ((row[0], "number"), (row[2], "MiB used"), (row[3], "MiB in all")):
            assert type(value) is int, f"The {what} of card {number} is {shown(value)}; expected an int."
        assert row[0] == number, f"Card {number} has number {row[0]} in your list; expected the one at its row's start."
        assert row[1] == card.name, (
            f"A card is called {shown(row[1])} by you; expected its whole name, no spaces around."
        )
        swapped = (row[3], row[2]) == (card.used, card.total)
        assert not swapped, "You swapped the memory used and the memory in all; the table says used / all."
        assert row[2] == card.used, f"Of card {number}, {row[2]} MiB are used, you say; that is not what its row says."
        assert row[3] == card.total, f"Card {number} has {row[3]} MiB, you say; that is not what its row says."


@exercise("cards")
def test_one_idle_card_is_read(student, rng):
    text, truth = rack(rng, 1, 0)
    check_cards(student.ask(read_cards, text=text), truth)


@exercise("cards", weight=2)
def test_a_full_box_is_read_programs_or_not(student, rng):
    text, truth = rack(rng, int(rng.integers(3, 9)), int(rng.integers(2, 9)))
    check_cards(student.ask(read_cards, text=text), truth)


@exercise("cards")
def test_a_table_without_cards_gives_an_empty_list(student):
    got = student.ask(read_cards, text="No devices were found\n")
    assert type(got) is list and not got, "nvidia-smi said that it found no devices; expected an empty list."


wrong(
    "cards",
    name="text_for_numbers",
    change=("(int(number), name, int(used), int(total))", "(number, name, used, total)"),
    says="expected an int",
)
wrong(
    "cards", name="used_and_total_swapped", change=("int(used), int(total))", "int(total), int(used))"), says="swapped"
)
wrong(
    "cards",
    name="first_word_of_the_name",
    change=("name, int(used)", "name.split()[0], int(used)"),
    says="its whole name",
)
wrong(
    "cards",
    name="every_row_with_a_number",
    source="""
    def cards(text):
        rows = re.findall(r"^\\|\\s+(\\d+)\\s+(.+?)\\s", text, re.MULTILINE)
        return [(int(number), name, 0, 0) for number, name in rows]
    """,
    says="its whole name",
)
right(
    "cards",
    name="line_by_line",
    source="""
    def cards(text):
        found, lines = [], text.splitlines()
        for i, line in enumerate(lines[:-1]):
            if "MiB /" in lines[i + 1]:
                left = line.split("|")[1].split()
                used, total = lines[i + 1].split("|")[2].split("/")
                name = " ".join(left[1:-1])
                found.append((int(left[0]), name, int(used.strip()[:-3]), int(total.strip()[:-3])))
        return found
    """,
)


# log_lines

FILES = "port.cc cudart_stub.cc cpu_feature_guard.cc gpu_device.cc cuda_platform.cc service.cc cuda_dnn.cc".split()
MESSAGES = [
    "Created device /job:localhost/replica:0/task:0/device:GPU:{n} with {m} MB memory:  -> device: {n}, name: NVIDIA L4",
    "edge matrix [{n}] -> [{m}] of N: ok",
    "Loaded cuDNN version {m}",
    "failed call to cuInit: INTERNAL: CUDA error: UNKNOWN ERROR ({m})",
    "TensorFlow found {n} devices; W{n}: not a warning",
]
OTHERS = [
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
    "To enable the following instructions: AVX2 FMA, in other operations, rebuild TensorFlow.",
    "",
    "Epoch 1/3",
    "Info: nothing [of interest] here: 7] really",
]


@probe
def read_log(student, text):
    return student.log_lines(text)


def log(rng: np.random.Generator, n: int, others: bool) -> tuple[str, list[tuple[str, str, str]]]:
    lines, truth = [], []
    for _ in range(n):
        letter, file = str(rng.choice(list("IWE"))), str(rng.choice(FILES))
        said = str(rng.choice(MESSAGES)).format(n=rng.integers(8), m=rng.integers(100, 9000))
        seconds = f"{rng.integers(10**9, 2 * 10**9)}.{rng.integers(10**5, 10**6)}"
        stamp = f"{rng.integers(1, 13):02}{rng.integers(1, 29):02} 00:00:{seconds}"
        lines.append(f"{letter}{stamp} {rng.integers(1, 99999):>7} {file}:{rng.integers(1, 3000)}] {said}")
        truth.append((letter, file, said))
        if others:
            lines.append(str(rng.choice(OTHERS)))
    head = [OTHERS[0]] if others else []
    return "\n".join([*head, *lines]) + "\n", truth


def check_log(got: Any, truth: list[tuple[str, str, str]]) -> None:
    assert type(got) is list, f"`log_lines` returned {kind(got)}; expected a list of tuples."
    assert len(got) == len(truth), f"`log_lines` finds {len(got)} lines where {len(truth)} have the form of a log line."
    for row, wanted in zip(got, truth, strict=True):
        three = type(row) in (tuple, list) and len(row) == 3
        assert three, f"One line is {shown(row)} to you; expected three values: letter, file, message."
        for value, truly, what in zip(row, wanted, ("severity", "file", "message"), strict=True):
            number = " (without the line's number)" if what == "file" else ""
            number = ' (all that follows the first "] ")' if what == "message" else number
            assert value == truly and type(value) is str, (
                f"A {what} is {shown(value)} to you; expected all of it{number}."
            )


@exercise("log_lines")
def test_each_line_is_taken_apart(student, rng):
    text, truth = log(rng, 6, others=False)
    check_log(student.ask(read_log, text=text), truth)


@exercise("log_lines")
def test_lines_of_another_form_are_left_out(student, rng):
    text, truth = log(rng, 5, others=True)
    check_log(student.ask(read_log, text=text), truth)


@exercise("log_lines")
def test_an_empty_log_gives_an_empty_list(student):
    got = student.ask(read_log, text="")
    assert type(got) is list and not got, "An empty log: expected an empty list."


wrong(
    "log_lines",
    name="with_the_line_number",
    change=(r"(\S+?):\d+\]", r"(\S+?:\d+)\]"),
    says="without the line's number",
)
wrong(
    "log_lines", name="up_to_the_last_bracket", change=(r"(\S+?):\d+\] (.*)$", r"(\S+?):\d+\].*\] (.*)$"), says="finds"
)
wrong(
    "log_lines",
    name="split_at_every_bracket",
    source="""
    def log_lines(text):
        found = []
        for line in text.splitlines():
            if line[:1] in ("I", "W", "E") and line[1:5].isdigit():
                parts = line.split("]")
                found.append((line[0], parts[0].split()[-1].split(":")[0], parts[1].split(":")[0].strip()))
        return found
    """,
    says="A message is",
)
wrong(
    "log_lines",
    name="every_line",
    source="""
    def log_lines(text):
        return [(line[:1], line.partition("] ")[0].split(":")[0], line.partition("] ")[2]) for line in text.splitlines()]
    """,
    says="without the line's number",
)
right(
    "log_lines",
    name="line_by_line",
    source="""
    def log_lines(text):
        found = []
        for line in text.splitlines():
            head, bracket, message = line.partition("] ")
            words = head.split()
            if bracket and len(words) == 4 and words[0][0] in "IWEF" and words[0][1:].isdigit():
                found.append((words[0][0], words[3].rpartition(":")[0], message))
        return found
    """,
)


# diagnose

FIELDS = ("seen", "cuda_build", "cards", "driver", "handed_in", "visible", "missing", "supported")
KEYS = (
    "fine",
    "wheel",
    "no card",
    "no driver",
    "not handed in",
    "hidden",
    "driver",
    "libraries",
    "card",
    "read the log",
)
Facts = dict[str, Any]


@probe
def diagnosed(student, machines):
    made = [student.Machine(**{**machine, "missing": tuple(machine["missing"])}) for machine in machines]
    return [student.diagnose(machine) for machine in made]


def healthy(rng: np.random.Generator) -> Facts:
    """A machine on which every question but the last is answered no.

    Its CUDA_VISIBLE_DEVICES and its driver are what nobody misreads: the spellings that are misread, and the oldest driver
    that will do, are always asked, by one test each, so that a misreading costs everyone the same.
    """
    cards = int(rng.integers(1, 9))
    visible = ["0", ",".join(map(str, range(cards)))][rng.integers(2)]
    return {
        "seen": 0,
        "cuda_build": True,
        "cards": cards,
        "driver": int(rng.integers(526, 600)),
        "handed_in": cards,
        "visible": visible,
        "missing": [],
        "supported": True,
    }


def ill(rng: np.random.Generator, machine: Facts, finding: str) -> Facts:
    """The machine with one more thing wrong (or, for "fine", with a GPU seen)."""
    change: dict[str, Facts] = {
        "fine": {"seen": int(rng.integers(1, 9))},
        "wheel": {"cuda_build": False},
        "no card": {"cards": 0, "driver": None, "handed_in": 0},
        "no driver": {"driver": None, "handed_in": 0},
        "not handed in": {"handed_in": 0},
        "hidden": {"visible": "-1"},
        "driver": {"driver": int(rng.integers(390, 525))},
        "libraries": {"missing": [f"nvidia-{name}-cu12" for name in rng.choice(PACKAGES, 2, replace=False)]},
        "card": {"supported": False},
        "read the log": {},
    }
    return {**machine, **change[finding]}


def truth_of(machine: Facts) -> str:
    visible = machine["visible"]
    answers = {
        "fine": machine["seen"] > 0,
        "wheel": not machine["cuda_build"],
        "no card": machine["cards"] == 0,
        "no driver": machine["driver"] is None,
        "not handed in": machine["handed_in"] == 0,
        "hidden": visible is not None and not visible[:1].isdigit(),
        "driver": machine["driver"] is not None and machine["driver"] < 525,
        "libraries": bool(machine["missing"]),
        "card": not machine["supported"],
    }
    return next((finding for finding, applies in answers.items() if applies), "read the log")


def check_diagnoses(got: Any, machines: list[Facts]) -> None:
    for answer, machine in zip(got, machines, strict=True):
        known = type(answer) is str and answer in KEYS
        assert known, f"`diagnose` returned {shown(answer)}; expected a key of FINDINGS."
        truth = truth_of(machine)
        if answer == truth:
            continue
        facts = ", ".join(f"{name}={shown(machine[name], 40)}" for name in FIELDS)
        early = KEYS.index(answer) < KEYS.index(truth)
        why = "that question is answered no" if early else "an earlier question is answered yes"
        if answer == "hidden" if early else truth == "hidden":
            why += "; of CUDA_VISIBLE_DEVICES, not set, empty and -1 are three things"
        raise AssertionError(f"You say {answer!r}, but {why}. The machine: {facts}.")


@exercise("diagnose")
def test_one_thing_wrong_is_found(student, rng):
    machines = [ill(rng, healthy(rng), finding) for finding in KEYS]
    machines += [{**healthy(rng), "driver": driver} for driver in (524, 525)]  # the last that is too old, the first not
    machines = [machines[i] for i in rng.permutation(len(machines))]
    check_diagnoses(student.ask(diagnosed, machines=machines), machines)


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
    machines = [machines[i] for i in rng.permutation(len(machines))]
    check_diagnoses(student.ask(diagnosed, machines=machines), machines)


@exercise("diagnose")
def test_the_environment_variable_is_read_as_cuda_reads_it(student, rng):
    base = {**healthy(rng), "cards": 2, "handed_in": 2, "driver": 590}
    machines = [{**base, "visible": visible} for visible in (None, "0", "1", "0,1", "0,-1", "", "-1", "-1,0")]
    check_diagnoses(student.ask(diagnosed, machines=machines), machines)


wrong(
    "diagnose",
    name="not_set_is_empty",
    change=(
        'machine.visible is not None and (machine.visible == "" or machine.visible.startswith("-"))',
        'not machine.visible or machine.visible.startswith("-")',
    ),
    says="not set, empty and -1 are three things",
)
wrong("diagnose", name="empty_hides_nothing", change=('machine.visible == "" or ', ""), says="not set, empty and -1")
wrong(
    "diagnose",
    name="any_minus_one_hides",
    change=('machine.visible.startswith("-")', '"-1" in machine.visible'),
    says="not set, empty",
)
wrong(
    "diagnose",
    name="libraries_first",
    source="""
    def diagnose(machine):
        if machine.seen:
            return "fine"
        if machine.missing:
            return "libraries"
        if not machine.cuda_build:
            return "wheel"
        if not machine.cards:
            return "no card"
        if machine.driver is None:
            return "no driver"
        if not machine.handed_in:
            return "not handed in"
        if machine.visible is not None and not machine.visible[:1].isdigit():
            return "hidden"
        if machine.driver < 525:
            return "driver"
        return "read the log" if machine.supported else "card"
    """,
    says="an earlier question is answered yes",
)
wrong(
    "diagnose", name="oldest_is_too_old", change=("machine.driver < 525", "machine.driver < 575"), says="is answered no"
)
wrong(
    "diagnose",
    name="the_oldest_itself_is_too_old",
    change=("machine.driver < 525", "machine.driver <= 525"),
    says="is answered no",
)
right(
    "diagnose",
    name="as_a_table",
    source="""
    def diagnose(m):
        yes = {
            "fine": m.seen > 0,
            "wheel": not m.cuda_build,
            "no card": m.cards == 0,
            "no driver": m.driver is None,
            "not handed in": m.handed_in == 0,
            "hidden": m.visible is not None and re.match("[0-9]", m.visible) is None,
            "driver": (m.driver or 0) < 525,
            "libraries": len(m.missing) > 0,
            "card": not m.supported,
            "read the log": True,
        }
        return [finding for finding in FINDINGS if yes[finding]][0]
    """,
)


# ring_seconds, speed_up, tie


@probe
def ring_times(student, cases):
    return [float(student.ring_seconds(*case)) for case in cases]


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


def check_seconds(got: Any, wanted: float, says: str) -> None:
    assert is_number(got) and math.isfinite(got), f"You return {shown(got)}; expected a number."
    assert math.isclose(got, wanted, rel_tol=1e-6, abs_tol=1e-15), says


@exercise("ring_seconds")
def test_every_message_pays_the_latency(student, rng):
    cases = [(int(n), 0.0, float(rng.uniform(1e-6, 1e-3)), 1e9) for n in rng.permutation(np.arange(2, 40))[:4]]
    for got, case in zip(student.ask(ring_times, cases=cases), cases, strict=True):
        says = (
            f"{case[0]} cards and no bytes: {got:g} s, you say, at a latency of {case[2]:g} s; count a card's messages."
        )
        check_seconds(got, walked(*case), says)


@exercise("ring_seconds")
def test_every_message_is_one_piece(student, rng):
    cases = [(int(n), float(rng.integers(1, 99)) * 1e6, 0.0, 1e9) for n in rng.permutation(np.arange(2, 40))[:4]]
    for got, case in zip(student.ask(ring_times, cases=cases), cases, strict=True):
        says = f"{case[0]} cards, {case[1]:g} bytes, 1e9 bytes/s: {got:g} s, you say; a message is one piece, not all."
        check_seconds(got, walked(*case), says)


@exercise("ring_seconds")
def test_both_costs_add_up_and_one_card_is_free(student, rng):
    cases = [(n, float(rng.uniform(1e6, 1e9)), float(rng.uniform(1e-6, 1e-3)), 1.25e9) for n in (1, 2, 8, 64)]
    for got, case in zip(student.ask(ring_times, cases=cases), cases, strict=True):
        check_seconds(
            got, walked(*case), f"With {case[0]} card(s) you say {got:g} s; the messages' costs sum up otherwise."
        )


wrong(
    "ring_seconds",
    name="whole_size_each_step",
    change=("size / n / bandwidth", "size / bandwidth"),
    says="one piece, not all",
)
wrong("ring_seconds", name="only_half_the_way", change=("2 * (n - 1)", "(n - 1)"), says="count a card's messages")
wrong("ring_seconds", name="n_steps", change=("(n - 1)", "n"), says="count a card's messages")
wrong(
    "ring_seconds",
    name="latency_once",
    change=("2 * (n - 1) * (latency + size / n / bandwidth)", "latency + 2 * (n - 1) * size / n / bandwidth"),
    says="count a card's messages",
)
right(
    "ring_seconds",
    name="step_by_step",
    source="""
    def ring_seconds(n, size, latency, bandwidth):
        return sum(latency + (size / n) / bandwidth for _ in range(2 * n - 2))
    """,
)


@probe
def speeds(student, cases):
    return [float(student.speed_up(*case)) for case in cases]


def by_counting(n: int, compute: float, waiting: float) -> float:
    """Batches a second of n cards over those of one that never waits."""
    return (n / (compute + waiting)) / (1 / compute)


@exercise("speed_up")
def test_cards_that_never_wait_multiply(student, rng):
    cases = [(int(n), float(rng.uniform(0.01, 1)), 0.0) for n in rng.integers(1, 65, 4)]
    for got, case in zip(student.ask(speeds, cases=cases), cases, strict=True):
        check_seconds(
            got, by_counting(*case), f"{case[0]} cards that never wait: {got:g} times, you say; expected each to count."
        )


@exercise("speed_up")
def test_waiting_is_shared_by_all(student, rng):
    cases = [(int(n), *map(float, rng.uniform(0.01, 1, 2))) for n in rng.integers(2, 65, 4)]
    for got, case in zip(student.ask(speeds, cases=cases), cases, strict=True):
        says = (
            f"{case[0]} cards, {case[1]:.3f} s of computing, {case[2]:.3f} s of waiting: {got:.3g} times, you say; "
            "how many batches are done in how long?"
        )
        check_seconds(got, by_counting(*case), says)


wrong(
    "speed_up",
    name="waiting_forgotten",
    change=("n * compute / (compute + waiting)", "n * compute / compute"),
    says="in how long?",
)
wrong(
    "speed_up",
    name="one_batch_for_all",
    change=("n * compute / (compute + waiting)", "compute / (compute / n + waiting)"),
    says="in how long?",
)
wrong("speed_up", name="efficiency_only", change=("n * compute", "compute"), says="expected each to count")
right("speed_up", name="by_share", change=("n * compute / (compute + waiting)", "n / (1 + waiting / compute)"))


@probe
def ties(student, cases):
    made = [(size, student.Link(*box), student.Link(*network)) for size, box, network in cases]
    return [float(student.tie(*case)) for case in made]


def own_rings(student: Any, cases: list[Any]) -> list[float]:
    """What the ring costs by the student's own formula, so that a slip in it is paid for once; if far off, the truth."""
    truth = [walked(*case) for case in cases]
    try:
        own = student.ask(ring_times, cases=cases)
    except AssertionError:
        return truth
    near = all(is_number(got) and right / 3 < got < right * 3 for got, right in zip(own, truth, strict=True))
    return own if near else truth


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
    own = own_rings(
        student, [(n, size, *link) for size, *links in cases for n, link in zip((8, 16), links, strict=True)]
    )
    for got, (w8, w16) in zip(answers, zip(own[::2], own[1::2], strict=True), strict=True):
        assert is_number(got) and math.isfinite(got), f"`tie` returned {shown(got)}; expected seconds."
        assert got > 0, "Your tie is at no positive time; the network waits much longer than twice the box here."
        eight, sixteen = by_counting(8, got, w8), by_counting(16, got, w16)
        says = f"At your tie 8 cards in the box give {eight:.3g} times and 16 on the network {sixteen:.3g}; expected as much."
        assert math.isclose(eight, sixteen, rel_tol=1e-4), says


wrong("tie", name="waits_subtracted", change=("- 2 * ring", "- ring"), says="expected as much")
wrong(
    "tie",
    name="eight_on_both",
    change=("ring_seconds(16, size, *network)", "ring_seconds(8, size, *network)"),
    says="expected as much",
)
wrong(
    "tie",
    name="links_swapped",
    change=(
        "(16, size, *network) - 2 * ring_seconds(8, size, *box)",
        "(16, size, *box) - 2 * ring_seconds(8, size, *network)",
    ),
    says="no positive time",
)
right(
    "tie",
    name="by_bisection",
    source="""
    def tie(size, box, network):
        low, high = 1e-9, 1e4
        for _ in range(200):
            c = (low + high) / 2
            eight = 8 * c / (c + 14 * (box.latency + size / 8 / box.bandwidth))
            sixteen = 16 * c / (c + 30 * (network.latency + size / 16 / network.bandwidth))
            low, high = (low, c) if sixteen > eight else (c, high)
        return c
    """,
)
