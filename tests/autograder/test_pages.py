"""Pages are made by processes that can be ended: one student's page costs nobody else's, whatever it does."""

import multiprocessing
import os
import re
import signal
import subprocess
import sys
import zlib
from contextlib import closing
from functools import partial
from pathlib import Path

import classroom
import pytest
from classroom import NAME, TINY
from sqlalchemy import update

from autograder.gradebook import record, tables
from autograder.gradebook.record import Record, Recorder
from autograder.model.verdict import Fault
from autograder.report import feedback, outputs, pages

NAMES = ("ada", "bo", "cy", "di", "eve")
CLASS = [Record(classroom.verdict(name), ()) for name in NAMES]


def never_ends():
    re.match(r"(a|a)*b", "a" * 60)  # in C, where no handler of Python's is called


def bo_does(what, place, each):
    """Note whose page it is; of bo's do `what` instead."""
    if each.student == "bo":
        what()
    (place / each.student).touch()


def made(work, workers=2):
    return {each.student: why for each, why in pages.made(CLASS, work, workers)}


def no_children():
    return not multiprocessing.active_children()


@pytest.mark.parametrize("workers", [1, 2, 9])
def test_every_page_is_made_once(tmp_path, workers):
    def work(each):
        with open(tmp_path / each.student, "a") as file:
            file.write("made")

    assert made(work, workers) == dict.fromkeys(NAMES, "")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys(NAMES, "made")
    assert no_children()


def fails():
    raise RecursionError("\ud800 too deep")


@pytest.mark.parametrize(
    ("what", "why"),
    [
        (never_ends, "it took more than 0.3 seconds"),
        (signal.pause, "it took more than 2 seconds"),
        (lambda: bytearray(8 << 30), "MemoryError: "),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "the process that makes it was killed 3 times"),
        (fails, "RecursionError: \\ud800 too deep"),
    ],
)
def test_a_page_that_cannot_be_made_is_said_and_costs_nobody_elses(tmp_path, monkeypatch, what, why):
    monkeypatch.setattr(pages, "SECONDS", 0.3 if what is never_ends else pages.SECONDS)
    monkeypatch.setattr(pages, "PATIENCE", 2.0 if what is signal.pause else pages.PATIENCE)
    assert made(partial(bo_does, what, tmp_path)) == dict.fromkeys(NAMES, "") | {"bo": why}
    assert {path.name for path in tmp_path.iterdir()} == {*NAMES} - {"bo"}


def test_a_page_whose_process_was_killed_is_made_by_another(tmp_path):
    def killed_once():
        if not (tmp_path / "killed").exists():
            (tmp_path / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)

    assert made(partial(bo_does, killed_once, tmp_path)) == dict.fromkeys(NAMES, "")
    assert (tmp_path / "bo").exists()


def test_a_full_disk_is_no_pages_fault():
    def full(_):
        raise OSError(28, "No space left on device", "/out/page.html")

    with pytest.raises(OSError, match="No space left on device"):
        made(full)
    assert no_children()


def test_closing_ends_pages_that_never_end(tmp_path):
    with closing(pages.made(CLASS, partial(bo_does, never_ends, tmp_path), 2)) as begun:
        assert next(begun)[0].student != "bo"
    assert no_children()


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.whole
def test_the_command_can_be_stopped_while_a_page_never_ends(tmp_path, stop):
    """As `autograder report` would be: in a group of processes of its own, that gets the signal as a whole."""
    program = """
import os, sys
sys.path[:0] = sys.argv[1:2]
import test_pages
from autograder.commands import cli
from autograder.report import pages
cli.app = lambda: list(pages.made(test_pages.CLASS, test_pages.told_and_endless, 2))
cli.main()
"""
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", program, here]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        workers = [int(process.stdout.readline()) for _ in range(2)]
        os.killpg(process.pid, stop)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + stop, said
    assert "interrupted" in said
    assert "Traceback" not in said
    assert [pid for pid in workers if Path(f"/proc/{pid}").exists()] == []


def told_and_endless(_):
    os.write(1, f"{os.getpid()}\n".encode())  # print writes the end of the line apart, and another may come between
    never_ends()


@pytest.fixture
def out(tmp_path):
    """A class of three, of whom bo's notebook cannot be read any more."""
    with Recorder(tmp_path, TINY) as recorder:
        for student in ("ada", "bo", "cy"):
            recorder.write(classroom.verdict(student))
        with recorder._gradebook.transaction() as connection:
            broken = update(tables.VERDICTS).where(tables.VERDICTS.c.student == "bo")
            connection.execute(broken.values(notebook=zlib.compress(b"[" * 100_000)))
    return tmp_path


def page(out, student):
    return classroom.shown(out / "feedback" / student / NAME / f"{NAME}.html")


def test_who_gets_no_notebook_keeps_the_marks_and_everyone_is_told(out):
    unmade = outputs.write(out, TINY, workers=2)
    assert list(unmade) == ["bo"]
    assert "RecursionError" in unmade["bo"]
    shown = page(out, "bo")
    assert "5 of 9 points" in shown.text
    assert len(shown.find_all("section")) == len(TINY.exercises) + 1
    assert "It cannot be shown here: RecursionError" in shown.find(class_="alarm").text
    listed = classroom.shown(out / "report.html").find(class_="alarm").text
    assert "bo" in listed
    assert "RecursionError" in listed
    for student in ("ada", "cy"):
        assert "def pick(names)" in page(out, student).text
        assert not page(out, student).find(class_="alarm")
    assert [row.points for row in record.rows(out, TINY)] == [3.0, 2.0, 0.0] * 3


def test_a_page_that_would_be_too_big_to_open_is_not_written(out, monkeypatch):
    monkeypatch.setattr(feedback, "PAGE", 100)
    unmade = outputs.write(out, TINY, workers=1)
    assert unmade["ada"] == "PageError: the page would have more than 0 MiB"
    assert page(out, "ada").find(class_="alarm")


def test_who_was_not_graded_reads_that_it_is_no_fault_of_theirs(out):
    outputs.write(out, TINY, faults={"zed": "no space left", "../evil": "x", "ada": "once more"}, workers=1)
    assert "Not graded yet: the grading machine failed (no space left)" in page(out, "zed").text
    assert "5 of 9 points" in page(out, "ada").text
    assert {path.name for path in (out / "feedback").iterdir()} == {"ada", "bo", "cy", "zed"}
    assert not list(out.parent.glob("evil*"))
    with open(out / "marks.csv", encoding="utf-8") as file:
        assert sum(Fault.INFRASTRUCTURE.value in line for line in file) == 3 * len(TINY.exercises)
