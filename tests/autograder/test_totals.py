"""Through `autograder report`: marks.csv and totals.csv say what the gradebook and the feedback do."""

from dataclasses import replace

import classroom
import courses
import pytest
from classroom import FAILED, PASSED, TINY
from nbgrader.api import Gradebook
from small_course import NAME, command

from autograder.gradebook import late_penalty
from autograder.report import outputs

DUE = "2026-01-05T12:00+00:00"


@pytest.fixture(scope="module")
def graded(small, tmp_path_factory):
    """Ada on time, Bob two days late, Cem's answer marked by hand; then `autograder report`."""
    out, chapter = tmp_path_factory.mktemp("totals") / "out", small.chapter(NAME)
    late_penalty.settle(out, chapter, DUE, "10%", None)
    ada, bob, cem = (
        classroom.verdict(student, double, PASSED, tiny=chapter)
        for student, double in (("ada", PASSED), ("bob", FAILED), ("cem", PASSED))
    )
    classroom.record(out, ada, tiny=chapter, at="2026-01-05 11:00:00 UTC")
    classroom.record(out, classroom.mistaken(bob, "=added"), tiny=chapter, at="2026-01-06 13:00:00 UTC")
    classroom.record(out, cem, tiny=chapter)
    with Gradebook(f"sqlite:///{out / 'gradebook.db'}", chapter.course) as book:
        grade = book.find_grade("why", NAME, NAME, "cem")
        grade.manual_score, grade.needs_manual_grade = 1.0, False
        book.find_comment("why", NAME, NAME, "cem").manual_comment = "=Good,\nand short."
        book.db.commit()
    command("report", NAME, "--out", out, root=small.root)
    return out


def test_a_total_is_the_points_less_the_penalty_as_gradebook_and_feedback_have_it(graded):
    said = {line["student"]: line for line in courses.table(graded / "totals.csv")}
    assert (said["ada"]["raw"], said["ada"]["penalty"], said["ada"]["total"]) == ("5", "0", "5")
    assert (said["bob"]["raw"], said["bob"]["penalty"], said["bob"]["total"]) == ("3", "0.6", "2.4")
    assert {line["max_points"] for line in said.values()} == {"6"}
    with Gradebook(f"sqlite:///{graded / 'gradebook.db'}", "tiny") as book:
        for student, line in said.items():
            submission = book.find_submission(NAME, student)
            assert float(line["total"]) == pytest.approx(submission.score - submission.late_submission_penalty)
            page = classroom.shown(graded / "feedback" / student / NAME / f"{NAME}.html")
            assert page.find(class_="total").strong.text == line["total"]


def test_a_total_says_when_how_late_and_what_waits_for_a_human(graded):
    ada, bob, cem = courses.table(graded / "totals.csv")
    assert (ada["handed_in"], ada["seconds_late"]) == ("2026-01-05 11:00:00 UTC", "")
    assert (bob["handed_in"], bob["seconds_late"]) == ("2026-01-06 13:00:00 UTC", "90000")
    assert (cem["handed_in"], cem["seconds_late"]) == ("", "")
    assert [line["waiting"] for line in (ada, bob, cem)] == ["1", "1", ""]


def test_marks_csv_has_misconception_and_comment_and_no_formula(graded):
    rows = {(row["student"], row["exercise"]): row for row in courses.table(graded / "marks.csv")}
    assert rows["bob", "double"]["misconception"] == "'=added"
    assert rows["cem", "why"]["comment"] == "'=Good, and short."
    assert list(rows["ada", "double"])[:8] == [
        "student", "chapter", "exercise", "points", "max_points", "verdict", "fault", "message",
    ]  # fmt: skip


def test_who_could_not_be_graded_has_no_total_which_is_not_one_of_nothing(tmp_path):
    tiny = replace(TINY, course="tiny")
    classroom.record(tmp_path, classroom.verdict("ada"), tiny=tiny)
    outputs.write(tmp_path, tiny, faults={"zed": "no space left"}, workers=1)
    _, zed = courses.table(tmp_path / "totals.csv")
    assert (zed["student"], zed["raw"], zed["total"], zed["note"]) == ("zed", "", "", "not graded: no space left")
