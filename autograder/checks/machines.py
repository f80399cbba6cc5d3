"""What checks on GPU setup are made of: invented shelves of packages, tables of nvidia-smi, logs, and ill machines.

Each comes with what is true of it; nothing is looked up, and every draw is the job's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from across import smi

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
