"""A night before the deadline: many hand in through nbgrader's exchange, each as a user of their own, one in ten is hostile.

    uv run python tools/night.py --students 400 --minutes 15     # as root; a table at the end, 0 if nothing was lost or wrong

`autograder grade --watch --release-feedback` runs beside it as an ordinary user. Everybody hands in at a time of their own,
drawn within the minutes, by nbgrader's own code; at the end everybody fetches their page by it. From file to page is from the
end of `submit` to the page in the exchange. The users exist in a mount namespace of this program's own. Who is right or wrong
is `demo`'s, who is hostile `attacks`': what each must get comes from how it was made. The chapter is that of the attacks, of
`fixture`'s course.
"""

from __future__ import annotations

import csv
import importlib
import json
import os
import random
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from nbgrader.auth import Authenticator
from nbgrader.coursedir import CourseDirectory
from nbgrader.exchange.default import ExchangeFetchFeedback, ExchangeSubmit
from rich.console import Console
from rich.table import Table
from traitlets.config import Config

import attacks
import demo
import fixture
from autograder.model.course import Course

TESTS = Path(__file__).resolve().parent.parent / "tests" / "autograder"
CHAPTER, GRADER, FIRST = attacks.CHAPTER, "grader", 30000
INSIDE = "ACROSS_NIGHT"  # in the environment of this program where it has a mount namespace of its own
AFTER = 3600.0  # seconds after the last one handed in; a deadline
Check = Callable[[Mapping[str, Mapping[str, str]]], str]


@dataclass
class Student:
    """Who hands in what, and what that must get: `check` says what is wrong, or nothing."""

    name: str
    number: int
    notebook: bytes
    check: Check
    hostile: bool
    handed_in: float = 0.0  # time.time
    page: Path | None = None  # in the exchange
    given: float = 0.0  # time.time
    troubles: list[str] = field(default_factory=list)


def class_of(course: Course, count: int, every: int) -> list[Student]:
    """The students; one in `every` hands in an attack."""
    chapter, release = course.chapter(CHAPTER), course.chapter(CHAPTER).release
    honest = demo.honest(course)
    solved = attacks.solved_notebook(course)
    made = [(each, each.submission(release, solved)) for each in attacks.corpus(without_groups=True) if not each.folder]
    hostile = [(each, content) for each, content in made if isinstance(content, bytes)]
    found = []
    for place in range(count):
        name, number = f"s{place:04}", FIRST + 1 + place
        if place % every == every - 1:
            attack, content = hostile[place // every % len(hostile)]
            found.append(Student(name, number, content, _of_attack(attack), True))
        else:
            one = honest[place % len(honest)]
            plain = json.loads(demo.notebook_bytes(one, chapter) or b"")
            found.append(Student(name, number, json.dumps(demo.signed(plain, name)).encode(), _of_demo(one), False))
    return found


def _of_attack(attack: attacks.Attack) -> Check:
    def check(rows: Mapping[str, Mapping[str, str]]) -> str:
        said = rows[attack.exercise]["verdict"]
        if said != attack.expected:
            return f"{attack.name}: expected {attack.expected}, got {said}: {rows[attack.exercise]['message'][:100]}"
        odd = [each for each, row in rows.items() if float(row["points"] or 0) != attack.earns.get(each, 0.0)]
        return f"{attack.name}: points of {', '.join(odd)}" if odd else ""

    return check


def _of_demo(one: demo.Student) -> Check:
    def check(rows: Mapping[str, Mapping[str, str]]) -> str:
        for name, expected in one.expected.items():
            row = rows[name]
            points = expected.points is None or float(row["points"] or 0) == expected.points
            if row["verdict"] not in {each.value for each in expected.results} or not points:
                return f"{one.name}: {name} is {row['verdict']}, {row['points']} points: {row['message'][:100]}"
        return ""

    return check


def _config(root: Path, home: Path, student: Student) -> Config:
    made = Config()
    made.Exchange.root, made.Exchange.cache = str(root), str(home / "cache")
    made.CourseDirectory.course_id, made.CourseDirectory.assignment_id = root_course(root), CHAPTER
    made.CourseDirectory.student_id = student.name
    return made


def root_course(root: Path) -> str:
    """The course's id: the one folder of the exchange."""
    return next(root.iterdir()).name


def _forked(student: Student, home: Path, what: Callable[[], object]) -> int:
    """Start a child that does something as a student, in their home; its number."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            ordinary_users().become(student.number)
            os.chdir(home)
            what()
            code = 0
        except BaseException as error:
            (home / "trouble").write_text(f"{type(error).__name__}: {error}")
        finally:
            os._exit(code)
    return child


def submit(root: Path, home: Path, student: Student) -> Callable[[], object]:
    """What nbgrader's list does at "Submit"."""
    return lambda: _exchange(ExchangeSubmit, root, home, student)


def fetch(root: Path, home: Path, student: Student) -> Callable[[], object]:
    """What nbgrader's list does at "Fetch Feedback"; raises where the page that comes is not this student's."""

    def done() -> None:
        _exchange(ExchangeFetchFeedback, root, home, student)
        [page] = (home / CHAPTER / "feedback").glob(f"*/{CHAPTER}.html")
        assert f">{student.name}<" in page.read_text(encoding="utf-8"), "the page of another"

    return done


def _exchange(step: Any, root: Path, home: Path, student: Student) -> None:
    config = _config(root, home, student)
    coursedir, authenticator = CourseDirectory(config=config), Authenticator(config=config)
    made = step(coursedir=coursedir, authenticator=authenticator, config=config)
    made.log.setLevel("ERROR")
    made.assignment_dir = str(home)
    made.start()


def ordinary_users() -> Any:
    """How the tests make users that a mount namespace alone has."""
    if str(TESTS) not in sys.path:
        sys.path.insert(0, str(TESTS))
    return importlib.import_module("ordinary_user")


def prepared(place: Path, course: Course, students: list[Student]) -> Path:
    """Make the exchange, and each student's home with their notebook; returns the exchange's root."""
    ordinary_user = ordinary_users()
    users = {student.name: (student.number, place / "home" / student.name) for student in students}
    users[GRADER] = (FIRST, place / "home" / GRADER)
    (place / "kept").mkdir()
    ordinary_user.make_users(users, place / "kept")
    needed = (sys.base_prefix, sys.prefix, str(ordinary_user.CHECKOUT), str(course.root))
    ordinary_user.open_the_way_to(dict.fromkeys(map(Path, needed)), place / "kept")
    root = place / "exchange"
    folders = ((root, 0o1777), (root / course.id, 0o755), (root / course.id / "inbound", 0o2733))
    folders += ((root / course.id / "outbound", 0o755), (root / course.id / "outbound" / CHAPTER, 0o755))
    for folder, mode in folders:
        folder.mkdir()
        os.chown(folder, FIRST * (folder != root), FIRST * (folder != root))
        folder.chmod(mode)
    released = root / course.id / "outbound" / CHAPTER / f"{CHAPTER}.ipynb"
    released.write_text(json.dumps(course.chapter(CHAPTER).release), encoding="utf-8")
    for name, (number, home) in users.items():
        (home / CHAPTER).mkdir(parents=True)
        for folder in (home, home / CHAPTER):
            os.chown(folder, number, number)
            folder.chmod(0o700)
        if name != GRADER:
            (home / CHAPTER / f"{CHAPTER}.ipynb").write_bytes(students[number - FIRST - 1].notebook)
    return root


def grader(place: Path, root: Path, course: Course) -> subprocess.Popen[bytes]:
    """`autograder grade --watch --release-feedback`, as an ordinary user."""
    home = place / "home" / GRADER
    command = [sys.executable, "-m", "autograder", "--course", str(course.root), "grade", CHAPTER, "--watch"]
    command += ["--submissions", str(root / course.id), "--out", str(home / "out"), "--release-feedback"]
    env = {"HOME": str(home), "USER": GRADER, "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    with (place / "log").open("wb") as log:
        become = partial(ordinary_users().become, FIRST)
        return subprocess.Popen(
            command, cwd=home, env=env, stdout=log, stderr=log, start_new_session=True, preexec_fn=become
        )


def hand_in(root: Path, place: Path, students: list[Student], seconds: float, seed: int) -> None:
    """Have everybody hand in, each at a time of their own; notes when each had done so, and what went wrong."""
    drawn = random.Random(seed)
    when = sorted((drawn.uniform(0, seconds), student.number, student) for student in students)
    begun, running = time.monotonic(), {}

    def ended(wait: bool) -> None:
        while running:
            pid, status = os.waitpid(-1, 0 if wait else os.WNOHANG)
            if pid == 0:
                return
            if student := running.pop(pid, None):
                student.handed_in = time.time()
                if status:
                    said = place / "home" / student.name / "trouble"
                    student.troubles.append(f"submit: {said.read_text() if said.exists() else status}")

    for at, _, student in when:
        while (left := begun + at - time.monotonic()) > 0:
            ended(wait=False)
            time.sleep(min(left, 0.05))
        home = place / "home" / student.name
        running[_forked(student, home, submit(root, home, student))] = student
    while running:
        ended(wait=True)


def wait_for_pages(root: Path, course: Course, students: list[Student], process: subprocess.Popen[bytes]) -> None:
    """Wait until each has a page in the exchange, the grader has ended, or the deadline is over; notes when each came."""
    from nbgrader.utils import notebook_hash

    inbound, pages = root / course.id / "inbound", root / course.id / "feedback"
    secrets = {each.name.partition("+")[0]: each / "submission_secret.txt" for each in inbound.iterdir()}
    for student in students:
        if student.name in secrets:
            secret = secrets[student.name].read_text()
            student.page = pages / f"{notebook_hash(secret=secret, notebook_id=CHAPTER)}.html"
    until = time.monotonic() + AFTER
    while time.monotonic() < until and process.poll() is None:
        for student in students:
            if student.page and not student.given and student.page.exists():
                student.given = student.page.stat().st_mtime
        if all(student.given for student in students if student.page):
            return
        time.sleep(0.5)


def at_rest(log: Path, process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait until the grader says that it watches, the last of what it said; so many seconds at most."""
    until = time.monotonic() + seconds
    while not log.read_text().rstrip().endswith("watching; Ctrl-C ends it"):
        if time.monotonic() > until or process.poll() is not None:
            return
        time.sleep(0.1)


def fetched(root: Path, place: Path, students: list[Student]) -> None:
    """Have everybody fetch their page; what goes wrong is among a student's troubles."""
    for student in students:
        home = place / "home" / student.name
        (home / "trouble").unlink(missing_ok=True)
        _, status = os.waitpid(_forked(student, home, fetch(root, home, student)), 0)
        if status:
            said = home / "trouble"
            student.troubles.append(f"fetch: {said.read_text() if said.exists() else status}")


def table(students: list[Student], out: Path, log: str, cpu: float, wall: float) -> tuple[Table, int]:
    """What is told, and how many were lost or wrong."""
    marks: dict[str, dict[str, dict[str, str]]] = {}
    with (out / "marks.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            marks.setdefault(row["student"], {})[row["exercise"]] = row
    for student in students:
        if student.name not in marks:
            student.troubles.append("no mark")
        elif wrong := student.check(marks[student.name]):
            student.troubles.append(wrong)
    made = Table("", "", show_header=False)
    told: list[tuple[str, object]] = [("students", len(students)), ("hostile", sum(each.hostile for each in students))]
    for name, some in (("all", students), ("honest", [each for each in students if not each.hostile])):
        took = sorted(each.given - each.handed_in for each in some if each.given)
        cuts = statistics.quantiles(took, n=100, method="inclusive") if len(took) > 1 else [0.0] * 99
        told.append(
            (f"file to page, {name}: p50, p99, most (s)", f"{cuts[49]:.0f}, {cuts[98]:.0f}, {max(took, default=0):.0f}")
        )
    told.append(("from the first file to the last page (s)", f"{wall:.0f}"))
    told.append(("processor seconds of the grader", f"{cpu:.0f}"))
    told.append(("batches", log.count("what became of each file")))
    troubles = [f"{each.name}: {says}" for each in students for says in each.troubles]
    told.append(("lost or wrong", len(troubles)))
    told += [("", says) for says, _ in Counter(troubles).most_common(20)]
    for name, value in told:
        made.add_row(name, str(value))
    return made, len(troubles)


def main(
    students: Annotated[int, typer.Option(help="how many hand in", min=1)] = 400,
    minutes: Annotated[float, typer.Option(help="within which they hand in")] = 15.0,
    hostile: Annotated[int, typer.Option(help="one in so many is hostile", min=1)] = 10,
    seed: Annotated[int, typer.Option(help="of the times at which they hand in")] = 1,
) -> None:
    """Have a class hand in at night and be graded meanwhile; ends with 1 if anything was lost or wrong."""
    if INSIDE not in os.environ:
        os.environ[INSIDE] = "1"
        os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv])
    with tempfile.TemporaryDirectory(prefix="across-night-", dir="/tmp") as folder:
        place = Path(folder)
        place.chmod(0o755)
        course = fixture.build_into(place / "course")
        class_ = class_of(course, students, hostile)
        root = prepared(place, course, class_)
        process, log = grader(place, root, course), place / "log"
        try:
            at_rest(log, process, 120)
            hand_in(root, place, class_, 60 * minutes, seed)
            wait_for_pages(root, course, class_, process)
            at_rest(log, process, AFTER)  # the class's tables are written when nothing arrives
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(300)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        fetched(root, place, class_)
        wall = max(each.given for each in class_) - min(each.handed_in for each in class_)
        said, wrong = table(
            class_, place / "home" / GRADER / "out", log.read_text(), used.ru_utime + used.ru_stime, wall
        )
        Console(width=128).print(said)
        if wrong or process.returncode:
            Console().print(re.sub(r"(?m)^.*grading.*\n", "", log.read_text())[-3000:], highlight=False, markup=False)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    typer.run(main)
