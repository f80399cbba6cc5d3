"""What a regrade changed, mark by mark."""

from dataclasses import replace

import classroom
import pytest
from classroom import BY_HAND, FAILED, HALF, PASSED
from nbgrader.api import Gradebook
from rich.console import Console

from autograder.gradebook import record
from autograder.gradebook.record import Recorder
from autograder.model.verdict import Evidence
from autograder.report import changes

TINY = classroom.chapter()
OLD = Evidence(parts={"answers": "a", "checks": "b"})
NEW = Evidence(parts={"answers": "a", "checks": "c"})


@pytest.fixture
def graded(tmp_path):
    """Record verdicts and return what there is then."""

    def write(*verdicts):
        with Recorder(tmp_path, TINY) as recorder:
            for verdict in verdicts:
                recorder.write(verdict)
        return record.records(tmp_path, TINY)

    return write


def by_hand(out, student, cell, points):
    with Gradebook(f"sqlite:///{out / 'gradebook.db'}", TINY.course) as book:
        book.find_grade(cell, classroom.NAME, classroom.NAME, student).manual_score = points
        book.db.commit()


def verdict(student, *marks, digest, evidence):
    return replace(classroom.verdict(student, *marks), digest=digest * 64, evidence=evidence)


def test_each_mark_that_changed_is_told_with_what_changed_it(graded):
    before = graded(
        verdict("ada", PASSED, HALF, digest="1", evidence=OLD), verdict("bo", FAILED, HALF, digest="2", evidence=OLD)
    )
    found = changes.compare(
        before,
        graded(
            verdict("ada", FAILED, HALF, digest="3", evidence=NEW),
            verdict("bo", PASSED, HALF, digest="4", evidence=NEW),
            verdict("cy", digest="5", evidence=NEW),
        ),
    )
    assert [(each.student, each.exercise, each.before, each.after, each.because) for each in found.changed] == [
        ("ada", "pick", 3.0, 0.0, "checks"),
        ("bo", "pick", 0.0, 3.0, "checks"),
    ]
    assert (found.up, found.down, found.same, found.new) == (1, 1, 4, ("cy",))
    assert changes.summary(found) == "2 marks changed, 1 up, 1 down: ada pick 3 → 0; bo pick 0 → 3"


def test_another_message_alone_is_no_change(graded):
    before = graded(verdict("ada", FAILED, HALF, digest="1", evidence=OLD))
    found = changes.compare(before, graded(verdict("ada", (*FAILED[:2], "7!"), HALF, digest="3", evidence=NEW)))
    assert found.changed == ()
    assert changes.summary(found) == "no mark changed, 3 are as before"


def test_marks_by_hand_are_shown_as_kept(graded, tmp_path):
    graded(verdict("ada", FAILED, HALF, BY_HAND, digest="1", evidence=OLD))
    by_hand(tmp_path, "ada", "check_pick", 2.0)
    by_hand(tmp_path, "ada", "why", 1.0)
    before = record.records(tmp_path, TINY)
    found = changes.compare(before, graded(verdict("ada", PASSED, HALF, BY_HAND, digest="3", evidence=NEW)))
    assert found.changed == ()
    assert found.by_hand == 2
    assert [(each.exercise, each.before, each.after) for each in found.kept] == [("pick", 0.0, 3.0)]
    console = Console(width=200)
    with console.capture() as shown:
        console.print(changes.table(found))
    assert "a mark by hand is kept" in shown.get()
