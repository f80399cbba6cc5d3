"""What checks on GPU setup are made of: invented GPUs and wheels, ill machines, and what is true of them."""

from __future__ import annotations

from typing import Any

import numpy as np

Capability = tuple[int, int]
Code = tuple[str, Capability]  # ("sm", (8, 6))


def name_of(code: Code) -> str:
    kind, (major, minor) = code
    return f"{kind}_{major}{minor}"


def word_for(capability: Capability, codes: list[Code]) -> str:
    fits = [(kind, version) for kind, version in codes if version <= capability]
    if any(version[0] == capability[0] for _, version in fits):
        return "machine"
    return "compiled" if any(kind == "compute" for kind, _ in fits) else "none"


def fitting(capability: Capability, codes: list[Code]) -> Code:
    """The highest code that is machine code for a GPU; there is one."""
    return max(
        (code for code in codes if code[1] <= capability and code[1][0] == capability[0]), key=lambda code: code[1]
    )


def machine_code(rng: np.random.Generator) -> tuple[list[Code], list[Capability]]:
    """A wheel with machine code only, one name of three digits, and GPUs below, at and above each of its capabilities."""
    low = int(rng.integers(5, 8))
    versions = [(low, int(rng.integers(2, 8))), (low + 2, int(rng.integers(2, 8))), (11, int(rng.integers(2, 8)))]
    gpus = [(major, minor + step) for major, minor in versions for step in (1, 0, -1)]
    return [("sm", version) for version in versions], [(low + 1, 9), *gpus, (low + 3, 0), (low - 1, 9), (12, 0)]


def with_intermediate_code(rng: np.random.Generator) -> tuple[list[Code], list[Capability]]:
    """A wheel whose highest name brings intermediate code, and GPUs around it, one of a major number of two digits."""
    major, minor = int(rng.integers(7, 9)), int(rng.integers(1, 8))
    codes: list[Code] = [("sm", (major - 2, minor)), ("compute", (major, minor))]
    gpus = [(major - 3, 9), (major - 2, minor + 1), (major, minor), (major, minor + 1), (major + 1, 0), (12, 0)]
    return codes, [*gpus, (major - 1, 9), (major, minor - 1)]


def with_older_intermediate_code(rng: np.random.Generator) -> tuple[list[Code], list[Capability]]:
    """A wheel whose `compute` name is lower than its machine code, and GPUs that both would serve, or one of them."""
    major, minor = int(rng.integers(8, 10)), int(rng.integers(1, 8))
    codes: list[Code] = [("sm", (major, minor)), ("compute", (major - 1, minor))]
    return codes, [(major, minor), (major, minor + 1), (major, minor - 1), (major + 1, 0)]


Facts = dict[str, Any]
KEYS = ("fine", "wheel", "no GPU", "no driver", "not handed in", "hidden", "driver", "libraries", "read the log")
WELL: Facts = {"seen": 0, "cuda": True, "gpus": 1, "driver": 570, "handed_in": 1, "visible": None, "missing": []}
ILL: dict[str, Facts] = {  # in the order of the questions
    "fine": {"seen": 1},
    "wheel": {"cuda": False},
    "no GPU": {"gpus": 0, "driver": None, "handed_in": 0},
    "no driver": {"driver": None, "handed_in": 0},
    "not handed in": {"handed_in": 0},
    "hidden": {"visible": "-1"},
    "driver": {"driver": 470},
    "libraries": {"missing": ["cuDNN"]},
    "read the log": {},
}


def truth_of(machine: Facts) -> str:
    visible = machine["visible"]
    answers = {
        "fine": machine["seen"] > 0,
        "wheel": not machine["cuda"],
        "no GPU": machine["gpus"] == 0,
        "no driver": machine["driver"] is None,
        "not handed in": machine["handed_in"] == 0,
        "hidden": visible is not None and not visible[:1].isdigit(),
        "driver": machine["driver"] is not None and machine["driver"] < 525,
        "libraries": bool(machine["missing"]),
    }
    return next((finding for finding, applies in answers.items() if applies), "read the log")


def one_thing_wrong() -> list[Facts]:
    """A machine for each finding, those at the edges included."""
    machines = [{**WELL, **change} for change in ILL.values()]
    edges: list[Facts] = [{"driver": 524}, {"driver": 525}, {"gpus": 4}, {"gpus": 4, "handed_in": 4}]
    edges += [{"missing": [library]} for library in ("cuFFT", "cuSPARSE")]
    return [*machines, *({**WELL, **edge} for edge in edges)]


def two_things_wrong() -> list[Facts]:
    """A machine for every two findings: the order of any two questions is asked."""
    pairs = [(first, later) for i, first in enumerate(KEYS[:-1]) for later in KEYS[i + 1 : -1]]
    return [{**WELL, **ILL[later], **ILL[first]} for first, later in pairs]


def several_things_wrong(rng: np.random.Generator) -> list[Facts]:
    """Machines where a finding hides others further down, and where the variable is no finding at all."""
    machines = []
    for first, key in enumerate(KEYS[:-1]):
        machine, later = dict(WELL), list(KEYS[first + 1 : -1])
        for other in reversed(later):
            if other == "libraries" or rng.random() < 0.5:
                machine |= ILL[other]
        machines.append(machine | ILL[key])
    shown = (None, "0", "1", "0,1", "0,-1")
    machines += [{**WELL, "gpus": 2, "handed_in": 2, "visible": visible} for visible in shown]
    machines += [{**WELL, "visible": visible, "driver": 470} for visible in ("", "-1,0")]
    return [*machines, {**WELL, "gpus": 4, "missing": ["cuDNN"]}, {**WELL, "driver": 470, "missing": ["cuDNN"]}]
