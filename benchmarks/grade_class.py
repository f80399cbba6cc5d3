"""Grade the same class by stock nbgrader and by `autograder grade`, in turns, on this machine.

    uv run python benchmarks/grade_class.py                         # 24 students, 2 repeats: 6 minutes on 2 cores
    uv run python benchmarks/grade_class.py --students 8 --repeats 1

The class is `autograder demo`'s. Stock nbgrader executes the chapter's visible checks in the student's own kernel;
`autograder grade` executes the answers in a sandbox and asks them the trusted checks. What is timed is the whole command
as an instructor types it, from a cold start, with its gradebook, feedback and report. Students whom stock nbgrader
cannot grade or would wait for (no file, a corrupt one, an endless or memory-eating one, ...) are left out on both sides
unless `--all` is given.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from autograder import build, demo

BIN = Path(sys.executable).parent
NOT_FOR_STOCK = frozenset("absent corrupt double endless hog crash".split())
DEADLINE = 3600.0  # seconds for one command
CONFIG = 'c = get_config()\nc.CourseDirectory.course_id = "across"\n'


@dataclass
class Contender:
    """A way of grading the class, and what it took each time."""

    name: str
    command: list[str]
    folder: Path  # in which the command is run; made anew each time
    walls: list[float] = field(default_factory=list)  # seconds
    cpus: list[float] = field(default_factory=list)  # seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--students", type=int, default=24, help="how many of the class, at most")
    parser.add_argument("--repeats", type=int, default=2, help="how often each way is timed")
    parser.add_argument("--all", action="store_true", help="those whom stock nbgrader cannot grade, too")
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 120)
    with tempfile.TemporaryDirectory(prefix="bench-") as place:
        work = Path(place)
        names = choose(work / "class", options.students, everyone=options.all)
        stock = prepare_stock(work / "stock", work / "class")
        ways = [Contender("nbgrader autograde", [str(BIN / "nbgrader"), "autograde", demo.CHAPTER], stock)]
        for workers in (1, 2):
            out = work / f"ours{workers}"
            command = [str(BIN / "autograder"), "grade", demo.CHAPTER, "--submissions", str(work / "class")]
            command += ["--out", str(out), "--workers", str(workers)]
            ways.append(Contender(f"autograder grade, {workers} worker{'s'[: workers - 1]}", command, out))
        for repeat in range(options.repeats):
            for way in ways if repeat % 2 == 0 else ways[::-1]:
                fresh(way, work)
                time_once(way, allowed=(0, 1) if way is ways[0] else (0,))
                console.print(f"repeat {repeat + 1}: {way.name}: {way.walls[-1]:.1f} s", highlight=False)
    console.print(table(ways, len(names)))
    if options.json:
        figures = {way.name: {"wall_s": way.walls, "cpu_s": way.cpus} for way in ways}
        options.json.write_text(json.dumps({"students": names, "machine": machine(), "ways": figures}, indent=1))


def choose(folder: Path, count: int, everyone: bool) -> list[str]:
    """Write the class, keep `count` of its students evenly spread over it; return their names."""
    demo.make(folder)
    names = [s.name for s in demo.students() if everyone or s.name not in NOT_FOR_STOCK]
    count = min(count, len(names))
    kept = {names[i * len(names) // count] for i in range(count)}
    for path in folder.iterdir():
        if path.name not in kept:
            shutil.rmtree(path)
    return sorted(kept)


def prepare_stock(course: Path, submissions: Path) -> Path:
    """Make a stock nbgrader course of the chapter with the class's submissions collected."""
    source = course / "source" / demo.CHAPTER
    source.mkdir(parents=True)
    (course / "nbgrader_config.py").write_text(CONFIG)
    (source / f"{demo.CHAPTER}.ipynb").write_text(build.dumps(build.solved(demo.CHAPTER)))
    run([str(BIN / "nbgrader"), "generate_assignment", demo.CHAPTER, "--force"], course, (0,))
    shutil.copytree(submissions, course / "submitted")
    return course


def fresh(way: Contender, work: Path) -> None:
    """Put the folder that a command works in back to how it was before the first time."""
    kept = work / f"kept-{way.folder.name}"
    if not kept.exists():
        way.folder.mkdir(exist_ok=True)
        shutil.copytree(way.folder, kept)
    shutil.rmtree(way.folder)
    shutil.copytree(kept, way.folder)


def time_once(way: Contender, allowed: tuple[int, ...]) -> None:
    """Run the command once and note its wall and CPU seconds, those of all its children included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    run(way.command, way.folder, allowed)
    way.walls.append(time.perf_counter() - started)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    way.cpus.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def run(command: list[str], folder: Path, allowed: tuple[int, ...]) -> None:
    """Run a command in `folder`; end with what it said when its exit code is not allowed."""
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}  # nbgrader runs alembic by name
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=DEADLINE)
    if done.returncode not in allowed:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")


def table(ways: list[Contender], students: int) -> Table:
    """Medians, with the smallest and the largest."""
    made = Table(title=f"{students} submissions of {demo.CHAPTER}; {machine()}; {len(ways[0].walls)} repeats")
    for column in ("", "wall s", "(min-max)", "CPU s", "s a submission", "submissions an hour", "times stock"):
        made.add_column(column, justify="left" if column == "" else "right")
    stock = statistics.median(ways[0].walls)
    for way in ways:
        wall = statistics.median(way.walls)
        made.add_row(
            way.name,
            f"{wall:.1f}",
            f"({min(way.walls):.1f}-{max(way.walls):.1f})",
            f"{statistics.median(way.cpus):.1f}",
            f"{wall / students:.2f}",
            f"{3600 * students / wall:,.0f}",
            f"{stock / wall:.1f}",
        )
    return made


def machine() -> str:
    """What it was measured on."""
    return f"{os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"


if __name__ == "__main__":
    main()
