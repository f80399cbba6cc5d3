"""The course in one readable place: its chapters, their exercises and points, and every limit."""

from __future__ import annotations

import ast
import difflib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

MIB = 1 << 20
COURSE_ID = "across"
SIMULATE = "simulate"  # what a chapter says that needs no card: it makes devices of CPUs


class CourseError(Exception):
    """The author's fault, in one line: which file, what is wrong, how to mend it."""


@dataclass(frozen=True)
class Limits:
    """What one submission may use. Times in seconds, sizes in bytes. Beyond its loopback there is no network at all."""

    notebook_bytes: int = 5 * MIB
    cells: int = 2000
    cell_bytes: int = 64 << 10
    cell_seconds: float = 120.0
    notebook_seconds: float = 300.0
    question_seconds: float = 30.0  # one student.ask
    reply_bytes: int = 16 * MIB  # one answer to it
    memory_bytes: int = 4 << 30
    pids: int = 2048  # a TensorFlow server needs hundreds of threads: 256 abort it
    output_bytes: int = MIB
    file_bytes: int = 256 * MIB
    tmp_bytes: int = 512 * MIB
    revivals: int = 3  # fresh kernels after one died or hung


LIMITS = Limits()  # the course's defaults
CHAPTER_LIMITS: dict[str, dict[str, Any]] = {  # what a chapter sets differently
    "03_device_placement": {"cell_seconds": 60.0, "notebook_seconds": 180.0, "question_seconds": 15.0},
}
DUE: dict[str, str] = {}  # chapter -> ISO 8601 UTC; the late policy is nbgrader's plugin


@dataclass(frozen=True)
class Exercise:
    """One graded cell of a chapter."""

    name: str  # "round_robin"
    grade_id: str  # of the graded cell: "check_round_robin"; a manual exercise is its own graded cell
    answer_ids: tuple[str, ...]  # grade ids of the student's cells that it looks at
    max_points: float
    manual: bool = False


@dataclass(frozen=True)
class Chapter:
    """A chapter as released: what students open, and what is worth points in it."""

    name: str
    title: str
    release: dict[str, Any] = field(repr=False)  # notebooks/NAME.ipynb: nbformat 4 JSON
    exercises: tuple[Exercise, ...]
    limits: Limits
    gpus: int = 0  # cards that grading leases for a submission; 0: none, whatever is in the machine
    gpu_memory: int = 0  # bytes of each that are enough; 0: whole cards

    @property
    def answers(self) -> dict[str, str]:
        """The student's cells as released: grade id -> stub."""
        return {
            meta["grade_id"]: text(cell)
            for cell in self.release["cells"]
            if (meta := cell["metadata"].get("nbgrader", {})).get("solution")
        }

    @property
    def max_points(self) -> float:
        """What the whole chapter is worth."""
        return sum(exercise.max_points for exercise in self.exercises)


def text(cell: dict[str, Any]) -> str:
    """The source of a notebook cell, which nbformat allows as a string or as a list of lines."""
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


def root() -> Path:
    """The course's folder: $ACROSS_COURSE, or the checkout that this package is in."""
    return Path(os.environ.get("ACROSS_COURSE") or Path(__file__).resolve().parent.parent.parent)


def check_file(name: str) -> Path:
    """The trusted checks of a chapter."""
    return root() / "autograder" / "checks" / f"test_{name}.py"


def check_sources(name: str) -> list[Path]:
    """The files that a chapter's checks are made of: its own, then the answers that it lists and what it imports, by name.

    A file that is missing or is no Python is listed, too, and imports nothing: whoever needs it says so.
    """
    folder = check_file(name).parent
    found, fresh = {}, [check_file(name)]
    while fresh:
        path = fresh.pop()
        if path in found:
            continue
        found[path] = None
        fresh += [folder / f"{module}.py" for module in _imported(path) if (folder / f"{module}.py").is_file()]
    own, *others = found
    listed = folder / f"listed_{name}.toml"
    return [own, *([listed] if listed.is_file() else []), *sorted(others)]


def _imported(path: Path) -> set[str]:
    """The last part of every name that a file imports: `placing` of `from autograder.checks.placing import x`."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, ValueError, SyntaxError):
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {node.module or "", *(alias.name for alias in node.names)}
    return {name.rpartition(".")[2] for name in names}


def chapter_names() -> list[str]:
    """Every chapter that has a source, in order."""
    return sorted(path.stem for path in (root() / "solutions").glob("[0-9][0-9]_*.py"))


def full_name(name: str) -> str:
    """The one chapter that `name` means: `03_device_placement`, `device_placement` or `03`. Raises CourseError."""
    name = Path(name).stem
    found = [full for full in chapter_names() if name in (full, full[:2], full[3:])]
    if len(found) != 1:
        raise CourseError(f"no chapter {name!r}; there are: {', '.join(chapter_names()) or 'none'}")
    return found[0]


@cache
def chapter(name: str) -> Chapter:
    """Read a chapter from its built notebook. Raises CourseError when it is missing or does not say what it must."""
    path = root() / "notebooks" / f"{name}.ipynb"
    try:
        release = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CourseError(f"{path}: {error}; run `autograder build`") from None
    said = release["metadata"].get("across", {})
    gpus, memory = needs(str(path), {key: said[key] for key in ("gpus", "gpu_memory_mib") if key in said})
    return Chapter(
        name=name,
        title=title(release) or name,
        release=release,
        exercises=exercises(name, release),
        gpus=gpus,
        gpu_memory=memory,
        limits=replace(LIMITS, **CHAPTER_LIMITS.get(name, {})),
    )


def read_limits(named: Iterable[str]) -> dict[str, Any]:
    """Limits by name, from texts like "cell_seconds=240". Raises CourseError for what is none."""
    kinds = {each.name: type(getattr(LIMITS, each.name)) for each in fields(Limits)}
    found: dict[str, Any] = {}
    for each in named:
        name, _, value = each.partition("=")
        if name not in kinds:
            raise CourseError(f"no limit {name!r}; {near(name, kinds)}")
        try:
            found[name] = kinds[name](float(value))
        except (ValueError, OverflowError):
            raise CourseError(f"--limit {each}: {value!r} is no number") from None
    return found


def near(name: str, among: Iterable[str]) -> str:
    """What to say after "there is no ...": the names that are nearest, else the first there are."""
    there = sorted(among)
    close = difflib.get_close_matches(name, there, 3, 0.6)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"there are: {', '.join(there[:12])}{', ...' if len(there) > 12 else ''}" if there else "there is none yet"


def needs(where: str, said: object) -> tuple[int, int]:
    """The cards that a chapter says it needs for each submission, and how many bytes of each (0: whole).

    `said` is the header's `across`: {"gpus": 0, 1, 2 or "simulate", "gpu_memory_mib": optional}. Raises CourseError.
    """
    if not isinstance(said, dict) or said.keys() - {"gpus", "gpu_memory_mib"}:
        raise CourseError(f"{where}: across: {said!r}; it knows gpus and gpu_memory_mib, as in across: {{gpus: 1}}")
    gpus, memory = said.get("gpus", SIMULATE), said.get("gpu_memory_mib")
    if gpus != SIMULATE and (type(gpus) is not int or gpus not in (0, 1, 2)):
        raise CourseError(f"{where}: gpus: {gpus!r}; write 0, 1, 2 or {SIMULATE}")
    count = 0 if gpus == SIMULATE else gpus
    if memory is not None and (type(memory) is not int or memory <= 0 or not count):
        raise CourseError(f"{where}: gpu_memory_mib: {memory!r}; write a number of MiB, beside gpus: 1 or 2")
    return count, (memory or 0) * MIB


def title(release: dict[str, Any]) -> str:
    """The first heading of a notebook."""
    for cell in release["cells"]:
        if cell["cell_type"] == "markdown" and text(cell).startswith("# "):
            return text(cell).splitlines()[0][2:].strip()
    return ""


def exercises(name: str, release: dict[str, Any]) -> tuple[Exercise, ...]:
    """The graded cells of a built notebook, in order (`autograder build` wrote their metadata)."""
    found = []
    for cell in release["cells"]:
        meta = cell["metadata"].get("nbgrader", {})
        if not meta.get("grade"):
            continue
        across = cell["metadata"].get("across", {})
        if "exercise" not in across:
            raise CourseError(f'{name}, cell "{meta.get("grade_id")}": no exercise named; run `autograder build`')
        manual = bool(meta.get("solution"))
        answers = (meta["grade_id"],) if manual else tuple(across["answers"])
        found.append(Exercise(across["exercise"], meta["grade_id"], answers, float(meta["points"]), manual))
    return tuple(found)
