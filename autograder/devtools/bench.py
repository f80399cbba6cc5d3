"""The same class graded in several ways, in turns, in one run on this machine: what `autograder bench` prints.

What is timed is each whole command as an instructor types it, from a cold start: for ours with sandbox, trusted checks,
gradebook, feedback and report. The class is `autograder demo`'s, again and again and each signed, without the students whom
other graders cannot grade (no file, a corrupt one) or would wait for (an endless or memory-eating one, one that forges its
kernel's replies). Plain papermill and otter run the visible checks only; they are there as a scale.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

from autograder.authoring import build
from autograder.devtools import demo
from autograder.job import assemble
from autograder.model.course import Chapter, Course, text
from autograder.submissions import intake

BIN = Path(sys.executable).parent
NOT_FOR_OTHERS = frozenset("absent corrupt double endless hog crash oscar".split())
DEADLINE = 3600.0  # seconds for one command
SAMPLE = 1.0  # seconds between two looks at the memory
CONFIG = 'c = get_config()\nc.CourseDirectory.course_id = "across"\n'
OTTER_TEST = """\
from otter.test_files import test_case

OK_FORMAT = False
name = {name!r}
points = {points}


@test_case(points={points}, hidden=False)
def test_{name}(env):
    exec({source!r}, env)
"""


@dataclass
class Way:
    """A way of grading the class, and what it took each time."""

    name: str
    commands: list[list[str]]  # one after the other
    folder: Path  # in which they are run; made anew each time
    students: int  # how many are graded
    allowed: tuple[int, ...] = (0,)  # exit codes
    walls: list[float] = field(default_factory=list)  # seconds
    cpus: list[float] = field(default_factory=list)  # seconds, of all processes
    peaks: list[float] = field(default_factory=list)  # bytes (PSS) of all processes together, looked at every second


@dataclass(frozen=True)
class Bench:
    """What was measured."""

    ways: list[Way]
    floor: float  # CPU seconds of a submission's own code
    students: int
    machine: str
    chapter: str

    def table(self) -> Table:
        """Medians, with the smallest and the largest; `times` counts submissions an hour against the first way."""
        title = f"{self.students} submissions of {self.chapter}; {self.machine}; {len(self.ways[0].walls)} repeats"
        made = Table(title=title)
        for column in ("", "wall s", "(min-max)", "wall s each", "CPU s each", "peak MB", "an hour", "times"):
            made.add_column(column, justify="left" if column == "" else "right")
        base = statistics.median(self.ways[0].walls) / self.ways[0].students
        for way in self.ways:
            wall = statistics.median(way.walls)
            made.add_row(
                way.name if way.students == self.students else f"{way.name} ({way.students} of them)",
                f"{wall:.1f}",
                f"({min(way.walls):.1f}-{max(way.walls):.1f})",
                f"{wall / way.students:.2f}",
                f"{statistics.median(way.cpus) / way.students:.2f}",
                f"{max(way.peaks) / 1e6:,.0f}",
                f"{3600 * way.students / wall:,.0f}",
                f"{base * way.students / wall:.1f}",
            )
        cores = os.cpu_count() or 1
        each = self.floor / cores
        times = f"{base / each:.0f}"
        made.add_row(
            f"floor: the students' own code, {cores} cores", "", "", f"{each:.2f}", f"{self.floor:.2f}", "", "", times
        )
        return made

    def figures(self) -> dict[str, object]:
        """The same for machines."""
        ways = {
            way.name: {"students": way.students, "wall_s": way.walls, "cpu_s": way.cpus, "peak_bytes": way.peaks}
            for way in self.ways
        }
        return {"students": self.students, "machine": self.machine, "floor_cpu_s": self.floor, "ways": ways}


def bench(
    course: Course,
    students: int = 24,
    repeats: int = 2,
    only: tuple[str, ...] = (),
    few: int = 4,
    stock: int = 24,
    on_progress: Callable[[str], None] = lambda _line: None,
) -> Bench:
    """Grade a class of `students` in every way whose name holds one of `only`.

    Stock nbgrader grades at most `stock` of them, papermill and otter `few`: for them each submission costs the same.

    `on_progress` hears a line after each timing. Raises RuntimeError with what a command said if its exit code is not allowed.
    """
    with tempfile.TemporaryDirectory(prefix="bench-") as place:
        work = Path(place)
        names = write_class(course, work / "class", students)
        ways = [
            way for way in _ways(course, work, names, few, stock) if not only or any(part in way.name for part in only)
        ]
        for repeat in range(repeats):  # in turns, forwards and backwards: what else the machine does hits all alike
            for way in ways if repeat % 2 == 0 else ways[::-1]:
                _fresh(way, work)
                _time_once(way)
                on_progress(f"repeat {repeat + 1}: {way.name}: {way.walls[-1]:.1f} s, CPU {way.cpus[-1]:.1f} s")
        floor = statistics.mean(_floor(course, work / "class", names[:few]))
    return Bench(ways, floor, len(names), machine(), demo.chapter_of(course))


def write_class(course: Course, folder: Path, count: int) -> list[str]:
    """Write a class of `count`: the demo's students, evenly and again and again, signed; the names."""
    kinds = [student for student in demo.students(course) if student.name not in NOT_FOR_OTHERS]
    chapter = course.chapter(demo.chapter_of(course))
    names: list[str] = []
    for number in range(count):
        student = kinds[(number * len(kinds) // min(count, len(kinds))) % len(kinds)]
        made = demo.notebook_bytes(student, chapter)
        assert made is not None, f"{student.name} hands nothing in"
        names.append(f"{student.name}-{number:04}")
        file = folder / names[-1] / chapter.name / f"{chapter.name}.ipynb"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(demo.signed(json.loads(made), names[-1]), indent=1), encoding="utf-8")
    return names


def _ways(course: Course, work: Path, names: list[str], few: int, most: int) -> Iterator[Way]:
    chapter = course.chapter(demo.chapter_of(course))
    stock, some = work / "stock", names[:: -(-len(names) // most)]
    source = stock / "source" / chapter.name
    source.mkdir(parents=True)
    (stock / "nbgrader_config.py").write_text(CONFIG)
    (source / f"{chapter.name}.ipynb").write_text(build.dumps(build.solved(course, chapter.name)))
    _run([str(BIN / "nbgrader"), "generate_assignment", chapter.name, "--force"], stock, (0,))
    for name in some:
        shutil.copytree(work / "class" / name, stock / "submitted" / name)
    autograde = [str(BIN / "nbgrader"), "autograde", chapter.name]
    yield Way("nbgrader autograde", [autograde], stock, len(some), (0, 1))

    plain = work / "papermill"
    plain.mkdir()
    files = {name: str(work / "class" / name / chapter.name / f"{chapter.name}.ipynb") for name in names[:few]}
    papermill = [sys.executable, "-m", "papermill", "--no-progress-bar"]
    commands = [[*papermill, file, f"{name}.ipynb"] for name, file in files.items()]
    yield Way("plain papermill, no marks", commands, plain, len(files), (0, 1))  # 1: stopped at the first failed cell

    if (BIN / "otter").exists():
        folder = work / "otter"
        _otter(chapter, folder)
        commands = [
            [str(BIN / "otter"), "run", file, "-a", "ag.zip", "-o", ".", "--no-logo"] for file in files.values()
        ]
        yield Way("otter run", commands, folder, len(files))

    for workers in (1, 2):
        out = work / f"ours{workers}"
        out.mkdir()
        command = [str(BIN / "autograder"), "--course", str(course.root), "grade", chapter.name]
        command += ["--submissions", str(work / "class"), "--out", str(out), "--workers", str(workers)]
        yield Way(f"autograder grade, {workers} worker{'s'[: workers - 1]}", [command], out, len(names))


def _otter(chapter: Chapter, folder: Path) -> None:
    """Make the chapter an assignment of otter's: each visible check is one of its tests."""
    (folder / "tests").mkdir(parents=True)
    for cell in chapter.release["cells"]:
        meta = cell["metadata"].get("nbgrader", {})
        if meta.get("grade") and not meta.get("solution"):
            test = OTTER_TEST.format(name=meta["grade_id"], points=meta["points"], source=text(cell))
            (folder / "tests" / f"{meta['grade_id']}.py").write_text(test)
    command = [str(BIN / "otter"), "generate", "-t", "tests", "-o", "ag.zip", "--no-environment", "--no-requirements"]
    _run(command, folder, (0,))


def _fresh(way: Way, work: Path) -> None:
    """Put the folder that a way works in back to how it was before the first time."""
    kept = work / f"kept-{way.folder.name}"
    if not kept.exists():
        shutil.copytree(way.folder, kept)
    shutil.rmtree(way.folder)
    shutil.copytree(kept, way.folder)


def _time_once(way: Way) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    with _memory() as peak:
        for command in way.commands:
            _run(command, way.folder, way.allowed)
    way.walls.append(time.perf_counter() - started)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    way.cpus.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    way.peaks.append(max(peak))


@contextmanager
def _memory() -> Iterator[list[float]]:
    """Look at the memory of all that we have started, every `SAMPLE` seconds; yields the list of what was seen."""
    import psutil

    seen, over = [0.0], threading.Event()

    def look() -> None:
        while not over.wait(SAMPLE):
            total = 0.0
            for child in psutil.Process().children(recursive=True):
                try:
                    rollup = Path(f"/proc/{child.pid}/smaps_rollup").read_text()
                    total += 1024 * int(rollup.split("\nPss:")[1].split()[0])
                except (OSError, IndexError):
                    continue  # it has just ended
            seen.append(total)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def _run(command: list[str], folder: Path, allowed: tuple[int, ...]) -> None:
    """Run a command in `folder`. Raises RuntimeError with what it said when its exit code is not allowed."""
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}  # nbgrader runs alembic by name
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=DEADLINE)
    if done.returncode not in allowed:
        said = f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}\n{said}")


def _floor(course: Course, submissions: Path, names: list[str]) -> Iterator[float]:
    """CPU seconds of each submission's own code: the cells that grading executes, and the probes that call its answers.

    In a process that is warm already, without a kernel, a sandbox or a record.
    """
    from across import fresh

    chapter = course.chapter(demo.chapter_of(course))
    for name in names:
        submission = intake.read(intake.Found(name, submissions / name), chapter)
        cells = assemble.assemble(submission, chapter).cells
        executed = [cell.source for cell in cells if cell.cell_type == "code" and not _skipped(cell)]
        yield fresh.run(own_cpu, executed, course.check_file(chapter.name))


def _skipped(cell: Any) -> bool:
    return assemble.SKIP in cell.metadata.get("tags", [])


def own_cpu(sources: list[str], check_file: Path) -> float:
    """CPU seconds of the cells `sources`, and of what the checks in `check_file` call of them; call it by `fresh.run`.

    Of the processes that they start those count that have ended by then: its own children, and the fork server's.
    """
    import numpy as np
    import pytest
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    from autograder.probe import answering, asking

    spent, shell, reply = 0.0, InteractiveShell.instance(), answering.reply

    def timed(*arguments: Any) -> bytes:
        nonlocal spent
        started = _used_here()
        try:
            return reply(*arguments)
        finally:
            spent += _used_here() - started

    class Fixtures:
        @pytest.fixture
        def student(self) -> asking.Student:
            return asking.in_process(shell.user_ns)

        @pytest.fixture
        def rng(self) -> np.random.Generator:
            return np.random.default_rng(1)

    answering.reply = timed
    with capture_output():
        started = _used_here()
        for source in sources:
            shell.run_cell(source)
        spent += _used_here() - started
        pytest.main([str(check_file), "-q", "-p", "no:cacheprovider", "-c", os.devnull], plugins=[Fixtures()])
    return spent


def _used_here() -> float:
    """CPU seconds of this process, of its children that have ended, and of its siblings: the fork server's other children."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime + used(os.getppid())


def used(pid: int) -> float:
    """CPU seconds of process `pid` and of its children that have ended (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def machine() -> str:
    """What it was measured on."""
    return f"{os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"


def write(made: Bench, path: Path) -> None:
    """Write the figures as JSON."""
    path.write_text(json.dumps(made.figures(), indent=1) + "\n")
