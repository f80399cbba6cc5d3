"""How long a class takes: measured from 10 to 1,000 submissions on this machine, and from that, simulated on larger ones.

uv run python tools/scale.py --most 300            # then rows of 10, 30, 100, 300
uv run python tools/scale.py --costs costs.json    # simulate only, from what a run has written

The simulation is of events: workers take jobs in order, one recorder writes verdicts one after the other, then pages are
rendered. Jobs last as long as those that were measured. It knows nothing of networks or disks.
"""

from __future__ import annotations

import heapq
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

import bench
import demo
from autograder.gradebook import record
from autograder.model.course import find

SIZES = (10, 30, 100, 300, 1000)
CLASS, CHAPTERS = 300, 14
COURSE = find()
CARD_SECONDS = 8.0  # assumed, not measured: what CUDA's start adds to a job that holds a card
RUNS = 20


@dataclass(frozen=True)
class Row:
    """One measured run of the whole command."""

    students: int
    wall: float  # seconds
    cpu: float  # seconds, of all processes
    peak: float  # bytes of all processes together


@dataclass(frozen=True)
class Costs:
    """What the simulation rests on, in seconds."""

    rows: list[Row]
    jobs: list[float]  # how long each job took its worker, while as many ran as there are cores
    start: float  # of a command: imports, warm servers, the reference
    write: float  # the recorder's, for each submission
    page: float  # of feedback, for each submission and core


def measure(sizes: list[int], console: Console) -> Costs:
    """Grade classes of these sizes, each cold and whole."""
    rows, jobs, writes, pages = [], [], [], []
    for size in sizes:
        place = Path(tempfile.mkdtemp(prefix="scale-"))
        try:
            bench.write_class(COURSE, place / "class", size)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            started = time.perf_counter()
            with bench.memory() as peak:
                command = [
                    sys.executable,
                    "-m",
                    "autograder",
                    "--course",
                    str(COURSE.root),
                    "grade",
                    demo.chapter_of(COURSE),
                ]
                command += ["--submissions", str(place / "class"), "--out", str(place / "out")]
                subprocess.run(command, check=True, capture_output=True, timeout=7200)
            wall = time.perf_counter() - started
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            rows.append(Row(size, wall, cpu, max(peak)))
            console.print(
                f"{size} submissions: {wall:.1f} s, CPU {cpu:.1f} s, {max(peak) / 1e6:.0f} MB", highlight=False
            )
            found = record.records(place / "out", COURSE.chapter(demo.chapter_of(COURSE)))
            jobs += [each.verdict.seconds for each in found]
            writes.append(_written(place, found[:50]))
            pages.append(_rendered(place / "out", size))
        finally:
            shutil.rmtree(place)
    slope, start = line([row.students for row in rows], [row.wall for row in rows])
    console.print(f"wall = {start:.1f} s + {slope:.3f} s a submission", highlight=False)
    return Costs(rows, jobs, start, statistics.median(writes), statistics.median(pages))


def _written(place: Path, found: list[record.Record]) -> float:
    """Seconds that the recorder takes for one verdict, in a gradebook of its own."""
    chapter = COURSE.chapter(demo.chapter_of(COURSE))
    with record.Recorder(place / "out", chapter) as theirs:
        verdicts = [verdict for each in found if (verdict := theirs.verdict(each.student))]
    with record.Recorder(place / "another", chapter) as recorder:
        recorder.write(verdicts[0])
        started = time.perf_counter()
        for verdict in verdicts:
            recorder.write(verdict)
        return (time.perf_counter() - started) / len(verdicts)


def _rendered(out: Path, size: int) -> float:
    """Core seconds for one student's page: all of them anew, over the cores."""
    from autograder.report import outputs

    shutil.rmtree(out / "feedback")
    started = time.perf_counter()
    outputs.write(out, COURSE.chapter(demo.chapter_of(COURSE)), faults={}, workers=0)
    return (time.perf_counter() - started) * (os.cpu_count() or 1) / size


def line(x: list[int], y: list[float]) -> tuple[float, float]:
    """Slope and intercept of the least squares line, each point weighed by what it is: a relative error counts alike."""
    weights = [1 / max(value, 1e-9) ** 2 for value in y]
    total = sum(weights)
    mean_x = sum(w * value for w, value in zip(weights, x, strict=True)) / total
    mean_y = sum(w * value for w, value in zip(weights, y, strict=True)) / total
    slope = sum(w * (a - mean_x) * (b - mean_y) for w, a, b in zip(weights, x, y, strict=True))
    slope /= sum(w * (a - mean_x) ** 2 for w, a in zip(weights, x, strict=True)) or 1.0
    return slope, mean_y - slope * mean_x


def simulate(costs: Costs, students: int, workers: int, cores: int, extra: float = 0.0, seed: int = 0) -> float:
    """Seconds of one command: `workers` jobs at once, feedback on `cores`; `extra` seconds are added to each job."""
    rng = random.Random(seed)
    free = [costs.start] * workers  # when each worker is free next
    done = []
    for _ in range(students):
        at = heapq.heappop(free) + rng.choice(costs.jobs) + extra
        heapq.heappush(free, at)
        done.append(at)
    written = 0.0
    for at in sorted(done):
        written = max(written, at) + costs.write
    return written + students * costs.page / cores


def main(
    most: Annotated[int, typer.Option(help="the largest class that is measured")] = 1000,
    costs: Annotated[Path | None, typer.Option(help="of an earlier run: measure nothing")] = None,
    json_: Annotated[Path | None, typer.Option("--json", help="where to write what was measured")] = None,
) -> None:
    """Measure, and simulate."""
    console = Console(width=120)
    if costs is None:
        known = measure([size for size in SIZES if size <= most], console)
        if json_ is not None:
            json_.write_text(json.dumps(asdict(known)))
    else:
        said = json.loads(costs.read_text())
        known = Costs(**{**said, "rows": [Row(**row) for row in said["rows"]]})
    made = Table(title="measured, and what the simulation says of the same")
    for column in ("submissions", "wall s", "s each", "CPU s each", "peak MB", "simulated s"):
        made.add_column(column, justify="right")
    cores = os.cpu_count() or 1
    for row in known.rows:
        guess = statistics.median(simulate(known, row.students, cores, cores, seed=seed) for seed in range(RUNS))
        cells = (row.wall, row.wall / row.students, row.cpu / row.students, row.peak / 1e6, guess)
        made.add_row(str(row.students), *(f"{value:,.2f}" if value < 10 else f"{value:,.0f}" for value in cells))
    console.print(made)
    console.print(
        f"start {known.start:.1f} s; a job {statistics.mean(known.jobs):.2f} s; recorded in {known.write * 1000:.0f} ms; "
        f"a page {known.page * 1000:.0f} ms of a core",
        highlight=False,
    )
    made = Table(title=f"simulated: {CLASS} students x {CHAPTERS} chapters, one command a chapter")
    for column in ("machine", "hours", "a chapter, minutes"):
        made.add_column(column, justify="left" if column == "machine" else "right")
    machines = [
        ("2 cores", 2, 2, 0.0),
        ("16 cores", 16, 16, 0.0),
        ("10 nodes of 16 cores, --engine", 160, 16, 0.0),
        (f"4 GPUs, every job holds one, {CARD_SECONDS:.0f} s more each (assumed)", 4, 16, CARD_SECONDS),
    ]
    for name, workers, pages, extra in machines:
        each = [simulate(known, CLASS, workers, pages, extra, seed) for seed in range(CHAPTERS)]
        made.add_row(name, f"{sum(each) / 3600:.2f}", f"{statistics.mean(each) / 60:.1f}")
    console.print(made)


if __name__ == "__main__":
    typer.run(main)
