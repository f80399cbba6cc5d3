"""The corpus of attacks, graded as one class beside honest students by the real command, and what it did then.

`tests/attacks/<expected verdict>/NAME.py` is one attack; its folder and its module constants say what it must get. `run`
grades them all and looks at what was left behind; `wrongs` lists what is not as it must be.
"""

from __future__ import annotations

import contextlib
import copy
import csv
import ctypes
import importlib.util
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from autograder.authoring import build
from autograder.devtools import demo
from autograder.devtools.fixture import CHAPTER
from autograder.model.course import Course, CourseError, checkout
from autograder.sandbox import boxes, owners
from autograder.sandbox.cgroups import ROOT
from autograder.submissions import intake

HONEST = ("aa_honest", "forky_honest", "zz_honest")  # before the attackers, beside the fork bomb, after them
DEADLINE = 1800.0  # seconds for the whole class
PR_SET_CHILD_SUBREAPER = 36
SERVERS = 3  # fork servers of one grading command

Notebook = dict[str, Any]
Submission = Callable[[Notebook, Notebook], "bytes | Callable[[Path], object]"]


@dataclass(frozen=True)
class Attack:
    """One attack of the corpus."""

    name: str
    tries: str  # its one line
    expected: str  # the verdict of `exercise`: the name of its folder, or WATCHED: see `watched`
    exercise: str
    submission: Submission  # (release, solved) -> the notebook's bytes, or what writes something in its place
    earns: dict[str, float] = field(default_factory=dict)  # exercise -> points that its honest part is worth
    folder: str = ""  # of the student, where it is not the attack's name

    @property
    def student(self) -> str:
        """The student's name in the class's records."""
        return intake.student_name(self.folder or self.name)


@dataclass(frozen=True)
class Graded:
    """The class as it was graded, and what was left of it on this machine."""

    out: Path
    rows: dict[str, dict[str, dict[str, str]]]  # student -> exercise -> row of marks.csv
    seconds: float
    canary: str  # was in the environment of the command that graded
    orphans: list[str]  # processes that outlived the command
    groups: list[str]
    folders: list[str]

    def row(self, attack: Attack) -> dict[str, str]:
        """The row of the exercise that the attack is about."""
        return self.rows[attack.student][attack.exercise]

    def points(self, student: str) -> dict[str, float]:
        """A student's points for each exercise."""
        return {name: float(row["points"] or 0) for name, row in self.rows[student].items()}


@cache
def watched() -> bool:
    """Whether boxes here have no control group: what cannot be watched is refused then, and an attack's WATCHED holds."""
    try:
        with boxes.Box(owners.new_name("j"), boxes.Caps(1 << 30, 64, 1 << 20, 1 << 20, 10)) as box:
            return box.watched
    except boxes.SandboxError:  # none of them can be graded here
        return False


def corpus_folder() -> Path:
    """Where the attacks are. Raises CourseError where they are not: they come with a checkout, not with a package."""
    folder = checkout() / "tests" / "attacks"
    if not (folder / "corpus.py").is_file():
        raise CourseError(f"{folder}: no corpus of attacks; run this in a checkout of the repository")
    return folder


def corpus() -> list[Attack]:
    """Every attack, by expected verdict and name. Raises CourseError for one that does not say what it must."""
    folder = corpus_folder()
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))  # attacks import `corpus`, what they are written with
    paths = [path for path in sorted(folder.glob("*/*.py")) if path.parent.name != "__pycache__"]
    return [attack for path in paths for attack in _load(path)]


def _load(path: Path) -> list[Attack]:
    spec = importlib.util.spec_from_file_location(f"attack_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    says: dict[str, Any] = vars(module)
    each: dict[str, Submission] = says.get("EACH") or ({"": says["submission"]} if "submission" in says else {})
    if "EXERCISE" not in says or not each:
        raise CourseError(f"{path}: an attack sets EXERCISE and submission (or EACH); see tests/attacks/corpus.py")
    tries = (module.__doc__ or "").strip()
    return [
        Attack(
            f"{path.stem}_{which}" if which else path.stem,
            f"{tries.removesuffix('.')}: {which.replace('_', ' ')}." if which else tries,
            says.get("WATCHED", path.parent.name) if watched() else path.parent.name,
            says["EXERCISE"],
            submission,
            says.get("EARNS", {}),
            says.get("STUDENT", ""),
        )
        for which, submission in each.items()
    ]


def solved_notebook(course: Course) -> Notebook:
    """The chapter's released notebook with the reference in its answer cells."""
    solved = copy.deepcopy(course.chapter(CHAPTER).release)
    sources = build.solution_source(course, CHAPTER)
    for cell in solved["cells"]:
        if source := sources.get(cell["metadata"].get("nbgrader", {}).get("grade_id")):
            cell["source"] = source
    return solved


def hand_in(course: Course, folder: Path, attacks: Sequence[Attack], honest: Sequence[str] = HONEST) -> None:
    """Write the class to `folder`/<student>/<chapter>/: `honest` students with the reference, then the attackers."""
    release, solved = course.chapter(CHAPTER).release, solved_notebook(course)
    written: dict[str, Any] = {name: json.dumps(demo.signed(solved, name), indent=1).encode() for name in honest}
    written |= {attack.folder or attack.name: attack.submission(release, solved) for attack in attacks}
    for name, content in written.items():
        path = folder / name / CHAPTER / f"{CHAPTER}.ipynb"
        path.parent.mkdir(parents=True)
        if callable(content):
            content(path)
        else:
            path.write_bytes(content)


def run(course: Course, place: Path, attacks: Sequence[Attack], workers: int = 0) -> Graded:
    """Grade the class of `attacks` in the empty folder `place` and look at what is left. Takes minutes.

    `workers` submissions at once (0: one more than cores, for some attacks only wait to be stopped). Raises RuntimeError
    when the command itself fails.
    """
    hand_in(course, place / "submissions", attacks)
    canary = f"canary-{secrets.token_hex(8)}"
    before, started = set(children()), time.monotonic()
    with adopting():
        pid, servers = _grade(course, place, canary, workers or (os.cpu_count() or 1) + 1)
        seconds = time.monotonic() - started
        left = orphans(before)
    if len(servers) != SERVERS:
        raise RuntimeError("the fork servers' folders were not seen, so that nothing can be said about them")
    folders = [folder for folder in servers if os.path.exists(folder)]
    folders += [str(path) for shared in ("/dev/shm", "/tmp") for path in Path(shared).glob(f"across-{pid}-*")]
    groups = sorted(path.name for path in ROOT.glob(f"**/across/j{pid}-*"))
    rows: dict[str, dict[str, dict[str, str]]] = {}
    with open(place / "out" / "marks.csv", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            rows.setdefault(row["student"], {})[row["exercise"]] = row
    return Graded(place / "out", rows, seconds, canary, left, groups, folders)


def _grade(course: Course, place: Path, canary: str, workers: int) -> tuple[int, set[str]]:
    """Run the command as an instructor does; whatever happens it is ended by the deadline.

    Returns its process id, with which the names of its control groups and folders begin, and the folders of its fork servers.
    """
    servers: set[str] = set()
    command = [sys.executable, "-m", "autograder", "--course", str(course.root), "grade", CHAPTER]
    command += ["--submissions", str(place / "submissions"), "--out", str(place / "out"), "--workers", str(workers)]
    command += ["--anyway"]  # half of the class stops at a limit
    with open(place / "log", "w+b") as log:
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            env={**os.environ, "SECRET": canary},
            start_new_session=True,
        )
        try:
            until = time.monotonic() + DEADLINE
            while process.poll() is None and time.monotonic() < until:
                servers |= _served_by(process.pid)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(1.0)
            code = process.returncode
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        log.seek(0)
        said = log.read().decode(errors="replace")[-4000:]
        if code != 0:
            raise RuntimeError(f"the command that grades ended with {code}: {said}")
    return process.pid, servers


@contextlib.contextmanager
def adopting() -> Iterator[None]:
    """Whatever outlives its parent becomes our child, so that nothing can get away unseen."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def orphans(before: set[int], deadline: float = 10.0) -> list[str]:
    """Our living children that we did not have `before`, once those just ending have ended; they are killed."""
    until = time.monotonic() + deadline
    while True:
        alive = {pid: name for pid, name in children().items() if pid not in before and not _reaped(pid)}
        if not alive or time.monotonic() > until:
            break
        time.sleep(0.05)
    left = set(alive)
    while left:  # the children of those that are killed become ours in turn
        for pid in left:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        left = children().keys() - before
    return sorted(alive.values())


def _reaped(pid: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    return True


def children(parent: int = 0) -> dict[int, str]:
    """The living children of a process (ours by default): process id to name."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, rest = stat.read_text(errors="replace").split("(", 1)[1].rsplit(")", 1)
            if int(rest.split()[1]) == (parent or os.getpid()):
                found[int(stat.parent.name)] = name
    return found


def _served_by(parent: int) -> set[str]:
    """The folders of a process's fork servers: python -m across._process.warm FOLDER/warm MODULE."""
    folders = set()
    for pid in children(parent):
        with contextlib.suppress(OSError):
            line = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"across._process.warm" in line:
                folders.add(os.path.dirname(line[line.index(b"across._process.warm") + 1].decode()))
    return folders


def wrongs(course: Course, graded: Graded, attacks: Sequence[Attack]) -> list[str]:
    """What is not as it must be, a sentence each; empty when every attack failed and left nothing."""
    found = [
        f"{attack.name}: expected {attack.expected}, got {graded.row(attack)['verdict']}: {graded.row(attack)['message']}"
        for attack in attacks
        if graded.row(attack)["verdict"] != attack.expected
    ]
    for attack in attacks:
        for name, points in graded.points(attack.student).items():
            if points != attack.earns.get(name, 0.0):
                found.append(f"{attack.name}: {points:g} points for {name}; earned {attack.earns.get(name, 0.0):g}")
    for student in HONEST:
        for exercise in course.chapter(CHAPTER).exercises:
            row = graded.rows[student][exercise.name]
            if row["verdict"] != ("manual" if exercise.manual else "passed"):
                found.append(f"{student}, an honest student: {exercise.name} {row['verdict']}: {row['message']}")
    for what, left in (("process", graded.orphans), ("control group", graded.groups), ("folder", graded.folders)):
        found += [f"a {what} was left: {name}" for name in left]
    for path in graded.out.glob("**/*"):
        if path.is_file() and graded.canary.encode() in path.read_bytes():
            found.append(f"{path.relative_to(graded.out)} holds a secret of the grader's environment")
    return found


def table(course: Course, graded: Graded, attacks: Sequence[Attack]) -> Table:
    """Attack for attack what it tries, what it had to get and what it got."""
    made = Table(title=f"{len(attacks)} attacks and {len(HONEST)} honest students in {graded.seconds:.0f} s")
    for column in ("attack", "what it tries", "expected", "got", "points", "earned"):
        made.add_column(column, overflow="fold")
    for attack in attacks:
        got, points = graded.row(attack)["verdict"], sum(graded.points(attack.student).values())
        earned = sum(attack.earns.values())
        colour = "green" if got == attack.expected and points == earned else "red"
        cells = (escape(attack.tries), attack.expected, f"[{colour}]{got}[/]", f"{points:g}", f"{earned:g}")
        made.add_row(attack.name, *cells)
    full = sum(exercise.max_points for exercise in course.chapter(CHAPTER).exercises if not exercise.manual)
    for student in HONEST:
        points = sum(graded.points(student).values())
        made.add_row(student, "nothing: an honest student", "full marks", "", f"{points:g}", f"{full:g}")
    return made
