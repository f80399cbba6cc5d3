"""Why TensorFlow does not see a GPU: facts are gathered, and the first question they answer badly gives the finding.

    found = diagnose(gather())
    found.key, found.says, found.mend

Facts come from the running system: PCI bus, kernel module, device files, environment, installed packages. Only
`gather` looks; `diagnose` is a pure function of what was found. For GPUs of NVIDIA on Linux.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement

from across import _system, smi
from across._gpu import loading
from across._language.catalogue import given, marked, said

if TYPE_CHECKING:
    from across.pictures import Picture

# Oldest driver for each major version of CUDA: NVIDIA, "CUDA Compatibility", minor version compatibility
OLDEST_DRIVER = {11: 450, 12: 525, 13: 580}
# The packages of the seven libraries that TensorFlow opens before it registers a GPU, cuBLAS and cuBLASLt being one
# package: `TryDlopenCUDALibraries` in TensorFlow's tsl/platform/default/dlopen_checker.cc. NCCL is not among them.
OPENED = ("cuda-runtime", "cublas", "cufft", "cusolver", "cusparse", "cudnn")
NVIDIA = "0x10de"  # vendor number on the PCI bus
DISPLAY = "0x03"  # PCI class of graphics and compute cards


@dataclass(frozen=True)
class Facts:
    """What was found on a machine; the defaults are a machine without a card."""

    gpus: int = 0  # that TensorFlow sees
    cuda: str = "12.5.1"  # that TensorFlow was built with; "" for a build without
    built_for: tuple[str, ...] = ()  # "sm_80", "compute_90": whose machine code is in the wheel
    cards: int = 0  # of NVIDIA, on the PCI bus
    driver: str = ""  # "570.86.15"; "" where the kernel has no driver
    open: int = 0  # cards that this process can open
    libcuda: bool = False  # whether the driver's library loads here
    visible: str | None = None  # CUDA_VISIBLE_DEVICES; None where it is not set
    unmet: tuple[str, ...] = ()  # CUDA packages that are missing here or have another version
    capabilities: tuple[tuple[int, int], ...] = ()  # of the cards, where the driver tells


@dataclass(frozen=True)
class Finding:
    """Where the chain from program to card is broken, and what mends it."""

    key: str
    says: str
    mend: str


def diagnose(facts: Facts) -> Finding:
    """Return the first finding that the facts support, from the program down to the card."""
    return next(finding for _, applies, finding in RUNGS if applies(facts))


def hides(visible: str | None) -> bool:
    """Whether CUDA_VISIBLE_DEVICES hides every GPU. The list counts up to its first invalid entry."""
    return visible is not None and not re.match(r"\s*(\d+|GPU-|MIG-)", visible)


def too_old(driver: str, cuda: str) -> bool:
    """Whether a driver is older than any that can run programs built with this version of CUDA."""
    numbers = re.match(r"\d+", driver), re.match(r"\d+", cuda)
    if not all(numbers):
        return False
    have, major = (int(number.group()) for number in numbers if number)
    return have < OLDEST_DRIVER.get(major, 0)


def opened(packages: Sequence[str]) -> list[str]:
    """Those of the packages without which TensorFlow registers no GPU."""
    return [name for name in packages if any(f"-{library}-" in name for library in OPENED)]


def architecture(name: str) -> tuple[str, tuple[int, int]] | None:
    """The kind and the compute capability in the name of code: "sm_86" is ("sm", (8, 6)), "compute_120" is of 12.0.

    None for code that runs on one architecture only, such as "sm_90a".
    """
    kind, _, digits = name.partition("_")
    if not digits[:-1].isdigit() or not digits[-1].isdigit():
        return None
    return kind, (int(digits[:-1]), int(digits[-1]))


def has_code_for(capability: tuple[int, int], built_for: Sequence[str]) -> bool:
    """Whether a wheel built for these names has any code that a GPU of this compute capability runs.

    Each name brings machine code, for its own major version from its minor version on; "compute_75" brings intermediate
    code (PTX) besides, which the driver compiles for any later GPU (CUDA C++ Programming Guide, "Application
    Compatibility"; what a name brings: TensorFlow's configure.py).
    """
    found = [each for name in built_for if (each := architecture(name)) and each[1] <= capability]
    return any(kind == "compute" or version[0] == capability[0] for kind, version in found)


Rung = tuple[str, Callable[[Facts], bool], Finding]
_CONTAINER = "Hand the GPUs in when the container is started (`docker run --gpus all`); nothing inside can."
RUNGS: list[Rung] = [
    (
        "does TensorFlow list a GPU?",
        lambda facts: facts.gpus > 0,
        Finding("fine", "TensorFlow sees the GPU.", "Nothing to mend."),
    ),
    (
        "is TensorFlow built without CUDA?",
        lambda facts: not facts.cuda,
        Finding(
            "wheel",
            "This TensorFlow is built without CUDA.",
            'On Linux install the standard wheel: `pip install "tensorflow[and-cuda]"`.',
        ),
    ),
    (
        "has the machine no GPU?",
        lambda facts: not (facts.cards or facts.driver or facts.libcuda or facts.open),
        Finding(
            "no GPU",
            "There is no NVIDIA GPU in this machine.",
            "Go on with the CPU, or rent a machine with a GPU.",
        ),
    ),
    (
        "is there no driver?",
        lambda facts: not (facts.driver or facts.libcuda),
        Finding(
            "no driver",
            "There is a GPU, but no NVIDIA driver.",
            "Install the driver on the host (its administrator can); a container uses the host's.",
        ),
    ),
    (
        "is no GPU handed in to this process?",
        lambda facts: not facts.open or not facts.libcuda,
        Finding("not handed in", "The host has a driver, this process no GPU.", _CONTAINER),
    ),
    (
        "does CUDA_VISIBLE_DEVICES hide all GPUs?",
        lambda facts: hides(facts.visible),
        Finding(
            "hidden",
            "CUDA_VISIBLE_DEVICES hides every GPU.",
            "Unset it, or name GPUs (`CUDA_VISIBLE_DEVICES=0,1`), before Python starts.",
        ),
    ),
    (
        "is the driver too old?",
        lambda facts: too_old(facts.driver, facts.cuda),
        Finding(
            "driver",
            "The driver is too old for this build's CUDA.",
            "Update the driver on the host; the packages can stay.",
        ),
    ),
    (
        "is a CUDA library missing?",
        lambda facts: bool(opened(facts.unmet)),
        Finding(
            "libraries",
            "CUDA's libraries are missing here, or have other versions.",
            '`uv sync --extra gpu`, or `pip install "tensorflow[and-cuda]"`, in this very environment.',
        ),
    ),
    (
        "has the wheel no code for the GPU?",
        lambda facts: (
            bool(facts.capabilities and facts.built_for)
            and not any(has_code_for(capability, facts.built_for) for capability in facts.capabilities)
        ),
        Finding(
            "no code",
            "The wheel has no code for this GPU.",
            "Use another GPU, or a TensorFlow built for this one.",
        ),
    ),
    (
        "none of these?",
        lambda facts: True,
        Finding(
            "read the log",
            "All is in place, and TensorFlow sees no GPU.",
            "Start Python with TF_CPP_MIN_LOG_LEVEL=0 and TF_CPP_MAX_VLOG_LEVEL=3, and read what it says.",
        ),
    ),
]


def gather() -> Facts:
    """Look at this machine. Starts no op of TensorFlow."""
    import tensorflow as tf

    build: dict[str, Any] = dict(tf.sysconfig.get_build_info())
    return Facts(
        gpus=0 if loading.loaded() else len(tf.config.list_physical_devices("GPU")),
        cuda=str(build.get("cuda_version", "")) if build.get("is_cuda_build") else "",
        built_for=tuple(build.get("cuda_compute_capabilities", ())),
        cards=cards_on_bus(),
        driver=driver(),
        open=len(list(Path("/dev").glob("nvidia[0-9]*"))) + Path("/dev/dxg").exists(),  # dxg: WSL
        libcuda=_loads("libcuda.so.1"),
        visible=os.environ.get("CUDA_VISIBLE_DEVICES"),
        unmet=tuple(unmet()),
        capabilities=tuple((int(a), int(b)) for a, b in _pairs(smi.query("compute_cap"))),
    )


def cards_on_bus(root: Path = Path("/sys/bus/pci/devices")) -> int:
    """How many graphics or compute cards of NVIDIA the PCI bus has; a container sees the host's bus."""
    cards = 0
    for device in root.glob("*"):
        try:
            vendor, kind = ((device / name).read_text().strip() for name in ("vendor", "class"))
        except OSError:
            continue
        cards += vendor == NVIDIA and kind.startswith(DISPLAY)
    return cards


def driver(proc: Path = Path("/proc/driver/nvidia/version")) -> str:
    """The version of the NVIDIA driver in the running kernel, or ""."""
    try:
        text = proc.read_text()
    except OSError:
        return next((row[0] for row in smi.query("driver_version")), "")
    match = re.search(r"\s(\d{3,}\.\d+(?:\.\d+)?)\s", text)
    return match.group(1) if match else ""


def wanted() -> list[Requirement]:
    """The packages of TensorFlow's extra `and-cuda` that it asks for on this system; none for a build without CUDA."""
    try:
        lines = [Requirement(line) for line in importlib.metadata.requires("tensorflow") or []]
    except importlib.metadata.PackageNotFoundError:  # tensorflow-cpu, or built by hand or by a distribution
        return []
    extra = {"extra": "and-cuda"}
    return [each for each in lines if "and-cuda" in str(each.marker) and each.marker and each.marker.evaluate(extra)]


def unmet() -> list[str]:
    """Names of the packages of TensorFlow's extra that are missing in this environment or have another version."""
    here = {each: _system.version(each.name) for each in wanted()}
    return [each.name for each, found in here.items() if not (found and each.specifier.contains(found))]


def ladder(facts: Facts, *, title: str = marked("From the program down to the card")) -> Picture:
    """Draw the questions in order, and where `facts` leave them."""
    from across.pictures import ALERT, FONT, INK, PALETTE, readable_on, render, sheet

    ended = diagnose(facts)
    figure, axes = sheet(7.5, 0.36 * len(RUNGS) + 0.5)
    axes.text(0.1, 0.25, title, color=INK, fontsize=FONT + 1, fontweight="bold", va="center")
    reached = False
    for row, (question, _, finding) in enumerate(RUNGS):
        y = 0.62 + 0.36 * row
        here = finding == ended
        fill = PALETTE[0] if not (reached or here) else "none"
        fill = (PALETTE[2] if finding.key == "fine" else ALERT) if here else fill
        ink = INK if fill == "none" else readable_on(fill)
        box = {"boxstyle": "round,pad=0.25", "facecolor": fill, "edgecolor": INK, "linewidth": 0.8}
        mark = "" if reached else (marked("yes") if here else marked("no"))
        axes.text(0.15, y, question, color=ink, fontsize=FONT, va="center", bbox=box)
        axes.text(3.4, y, mark, color=INK, fontsize=FONT, va="center", fontweight="bold" if here else "normal")
        if here:
            axes.text(3.8, y, finding.says, color=INK, fontsize=FONT - 1, va="center")
        reached = reached or here
    passed = [question for question, _, _ in RUNGS[: [finding for _, _, finding in RUNGS].index(ended)]]
    outcome = said("{0} questions answered no", len(passed)) if passed else said("the first question answered yes")
    words = said(
        "Ladder of {0} questions, {1}: {2}; finding {3!r}: {4}",
        len(RUNGS),
        given(title),
        outcome,
        ended.key,
        given(ended.says),
    )
    return render(figure, words)


def _loads(library: str) -> bool:
    if not _system.linux():
        return False
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _pairs(rows: list[list[str]]) -> list[tuple[str, str]]:
    """("8", "9") of each row "8.9"."""
    matches = [re.fullmatch(r"(\d+)\.(\d+)", row[0]) for row in rows]
    return [(match.group(1), match.group(2)) for match in matches if match]
