"""The corpus of attacks, graded as one class together with honest students: none scores, none hurts, none stays."""

import contextlib
import copy
import csv
import ctypes
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import corpus
import pytest
from rich.console import Console
from rich.table import Table

from autograder import build, course, forkserver, grade, intake, sandbox
from autograder.cgroups import ROOT
from autograder.verdict import Result

CHAPTER = corpus.CHAPTER
ATTACKS = corpus.attacks()
HONEST = ("aa_honest", "forky_honest", "zz_honest")  # before the attackers, beside the fork bomb, after them
CANARY = f"canary-{secrets.token_hex(8)}"  # in the environment of the command that grades
DEADLINE = 1800.0  # seconds for the whole class
PR_SET_CHILD_SUBREAPER = 36

pytestmark = pytest.mark.skipif(sandbox.problem() != "", reason=f"no sandbox here: {sandbox.problem()}")


@dataclass(frozen=True)
class Graded:
    """The class as it was graded."""

    out: Path
    rows: dict[str, dict[str, dict[str, str]]]  # student -> exercise -> row of marks.csv
    seconds: float
    orphans: list[str]  # processes that outlived the command
    groups: list[str]
    folders: list[str]


@pytest.fixture(scope="module")
def graded(tmp_path_factory) -> Graded:
    place = tmp_path_factory.mktemp("class")
    _hand_in(place / "submissions")
    with tempfile.TemporaryDirectory(prefix="attacks-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as work:
        before, started = set(_children()), time.monotonic()
        with _children_of_the_dead_are_ours():
            pid, servers = _grade(place, Path(work))
            seconds = time.monotonic() - started
            orphans = _orphans(before)
        assert len(servers) == 3, "the fork servers' folders were not seen, so that nothing can be said about them"
        folders = [*os.listdir(work), *(folder for folder in servers if os.path.exists(folder))]
        groups = sorted(path.name for path in ROOT.glob(f"**/across/j{pid}-*"))
    with open(place / "out" / "marks.csv", encoding="utf-8", newline="") as file:
        rows: dict[str, dict[str, dict[str, str]]] = {}
        for row in csv.DictReader(file):
            rows.setdefault(row["student"], {})[row["exercise"]] = row
    return Graded(place / "out", rows, seconds, orphans, groups, folders)


def _hand_in(folder: Path) -> None:
    release = course.chapter(CHAPTER).release
    solved = copy.deepcopy(release)
    for grade_id, source in build.solution_source(CHAPTER).items():
        corpus.by_id(solved, grade_id)["source"] = source
    written = {name: corpus.dumps(solved) for name in HONEST}
    written |= {attack.name: attack.submission(release, solved) for attack in ATTACKS}
    for name, content in written.items():
        path = folder / name / CHAPTER / f"{CHAPTER}.ipynb"
        path.parent.mkdir(parents=True)
        if callable(content):
            content(path)
        else:
            path.write_bytes(content)


def _grade(place: Path, workroom: Path) -> tuple[int, set[str]]:
    """Run the command as an instructor does; whatever happens it is ended by the deadline.

    Returns its process id, which its control groups are named after, and the folders of its fork servers.
    """
    servers: set[str] = set()
    command = [str(Path(sys.executable).parent / "autograder"), "grade", CHAPTER]
    command += ["--submissions", str(place / "submissions"), "--out", str(place / "out"), "--workers", "2"]
    workroom.chmod(0o711)
    with open(place / "log", "w+b") as log:
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            env={**os.environ, "ACROSS_WORKROOM": str(workroom), "SECRET": CANARY},
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
        assert code == 0, log.read().decode(errors="replace")[-4000:]
    return process.pid, servers


@contextlib.contextmanager
def _children_of_the_dead_are_ours() -> Iterator[None]:
    """Whatever outlives its parent becomes our child, so that nothing can get away unseen."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _orphans(before: set[int], deadline: float = 10.0) -> list[str]:
    """Our living children that we did not have `before`, once those just ending have ended; they are killed."""
    until = time.monotonic() + deadline
    while True:
        alive = {pid: name for pid, name in _children().items() if pid not in before and not _reaped(pid)}
        if not alive or time.monotonic() > until:
            break
        time.sleep(0.05)
    left = alive
    while left:  # the children of those that are killed become ours in turn
        for pid in left:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        left = _children().keys() - before
    return sorted(alive.values())


def _reaped(pid: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    return True


def _children(parent: int = 0) -> dict[int, str]:
    """The living children of a process (ours by default): process id to name."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, rest = stat.read_text(errors="replace").split("(", 1)[1].rsplit(")", 1)
            if int(rest.split()[1]) == (parent or os.getpid()):
                found[int(stat.parent.name)] = name
    return found


def _served_by(parent: int) -> set[str]:
    """The folders of a process's fork servers: python -m across.warm FOLDER/warm MODULE."""
    folders = set()
    for pid in _children(parent):
        with contextlib.suppress(OSError):
            line = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"across.warm" in line:
                folders.add(os.path.dirname(line[line.index(b"across.warm") + 1].decode()))
    return folders


def test_the_table_of_attacks(graded, capsys):
    table = Table(title=f"{len(ATTACKS)} attacks and {len(HONEST)} honest students in {graded.seconds:.0f} s")
    for column in ("attack", "what it tries", "expected", "got", "points"):
        table.add_column(column, overflow="fold")
    for attack in ATTACKS:
        got = graded.rows[attack.name][attack.exercise]["verdict"]
        mark = "green" if got == attack.expected else "red"
        points = sum(float(row["points"] or 0) for row in graded.rows[attack.name].values())
        table.add_row(attack.name, attack.tries, attack.expected, f"[{mark}]{got}[/]", f"{points:g}")
    for student in HONEST:
        points = sum(float(row["points"] or 0) for row in graded.rows[student].values())
        table.add_row(student, "nothing: an honest student", "full marks", "", f"{points:g}")
    with capsys.disabled():
        Console(width=140).print("\n", table)
    assert graded.rows.keys() == {attack.name for attack in ATTACKS} | set(HONEST)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: f"{attack.expected}-{attack.name}")
def test_an_attack_gets_its_verdict(graded, attack):
    row = graded.rows[attack.name][attack.exercise]
    assert row["verdict"] == attack.expected, row["message"]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_an_attack_gets_no_points(graded, attack):
    rows = graded.rows[attack.name]
    assert {name: float(row["points"] or 0) for name, row in rows.items()} == dict.fromkeys(rows, 0.0)
    assert {exercise.name for exercise in course.chapter(CHAPTER).exercises} == rows.keys()


@pytest.mark.parametrize("student", HONEST)
def test_an_honest_student_among_attackers_has_full_marks(graded, student):
    rows = graded.rows[student]
    for exercise in course.chapter(CHAPTER).exercises:
        row = rows[exercise.name]
        assert row["verdict"] == ("manual" if exercise.manual else "passed"), row["message"]
        assert exercise.manual or float(row["points"]) == exercise.max_points


def test_a_limit_that_was_reached_is_named_as_the_fault(graded):
    for attack in ATTACKS:
        if attack.expected in ("timeout", "memory", "output"):
            row = graded.rows[attack.name][attack.exercise]
            assert (row["fault"], bool(row["message"])) == ("LIMIT", True), attack.name


def test_no_process_outlives_the_class(graded):
    assert graded.orphans == []


def test_a_daemon_that_leaves_its_session_is_seen():
    before = set(_children())
    with _children_of_the_dead_are_ours():
        subprocess.run(["sh", "-c", "setsid sh -c 'trap : TERM; sleep 100' & exit 0"], check=True)
        assert _orphans(before, deadline=0.3) == ["sh"]


def test_no_control_group_is_left(graded):
    assert graded.groups == []


def test_no_box_folder_or_socket_is_left(graded):
    assert graded.folders == []


def test_nothing_was_written_outside_a_box(graded):
    assert [str(path) for path in Path("/tmp").glob("across_*")] == []
    assert not Path("/tmp/i_was_here").exists()


def test_the_hosts_accounts_are_in_no_output(graded):
    ours = [line for line in Path("/etc/passwd").read_text().splitlines() if line.startswith("root:")]
    for path in graded.out.glob("**/*.ipynb"):
        assert not any(line in path.read_text(encoding="utf-8") for line in ours), path


def test_no_output_holds_a_secret_of_the_graders_environment(graded):
    holds = [path for path in graded.out.glob("**/*") if path.is_file() and CANARY.encode() in path.read_bytes()]
    assert holds == []


def test_no_feedback_runs_a_students_script(graded):
    pages = list(graded.out.glob("feedback/**/*.html"))
    assert len(pages) >= len(ATTACKS)
    for page in [*pages, graded.out / "report.html"]:
        html = page.read_text(encoding="utf-8")
        assert not re.search(r"<script[^>]*>\s*alert|<img[^>]*onerror", html), page


def test_what_an_attack_tries_is_said_in_one_line():
    for attack in ATTACKS:
        assert attack.tries.endswith(".")
        assert "\n" not in attack.tries
        assert len(attack.tries) < 120


@pytest.mark.parametrize("name", ["imports_the_checks", "network_connection"])
def test_it_is_the_sandbox_that_stops_an_attack(tmp_path, name):
    attack = next(attack for attack in ATTACKS if attack.name == name)
    path = tmp_path / "student" / CHAPTER / f"{CHAPTER}.ipynb"
    path.parent.mkdir(parents=True)
    content = attack.submission(course.chapter(CHAPTER).release, {})
    assert isinstance(content, bytes)
    path.write_bytes(content)
    submission = intake.read(intake.Found("student", tmp_path / "student"), course.chapter(CHAPTER))
    try:
        verdict = grade.grade_job(grade.Job(submission, seed=1, digest="", walls=False))
    finally:
        forkserver.close()
    (mark,) = [mark for mark in verdict.marks if mark.exercise == attack.exercise]
    assert mark.result == Result.PASSED, "the attack fails by itself, so that its failing in the sandbox says nothing"
