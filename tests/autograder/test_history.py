"""The history of marks: who changed what, when; written with the mark, noticed where a person gave it, never changed."""

import json
import re
from dataclasses import replace

import classroom
import pytest
from classroom import FAILED, NAME, PASSED, TINY, by_hand
from processes import often
from rich.console import Console
from small_course import NAME as SMALL
from small_course import RIGHT, command
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from autograder.export import totals
from autograder.gradebook import given, history, late_penalty, record, tables
from autograder.gradebook.database import GradebookError
from autograder.gradebook.record import Recorder
from autograder.model import amounts
from autograder.model.verdict import Evidence
from autograder.report import attention, changes, outputs
from autograder.submissions.intake import Submission


def graded(out, *verdicts, at="2026-03-01 10:00:00 UTC"):
    classroom.record(out, *verdicts, at=at)


def told(out, student=""):
    with record.book(out, TINY) as book:
        return history.entries(book, NAME, student)


def steps(out, exercise, student="ada"):
    return [(each.points_was, each.points_now, each.now) for each in told(out, student) if each.exercise == exercise]


def test_a_marks_whole_way_is_told_by_the_command(small, hand_in, tmp_path):
    out = tmp_path / "out"
    folder = hand_in("ada", {**RIGHT, "shift": "def shift(x, by):\n    return x"})

    def run(*arguments):
        done = command(*arguments, "--out", out, root=small.root)
        return done.stdout

    run("grade", SMALL, "--submissions", folder)
    hand_in("ada", RIGHT)
    run("grade", SMALL, "--submissions", folder)
    chapter = small.chapter(SMALL)
    with record.book(out, chapter) as book:
        book.find_grade("why", SMALL, SMALL, "ada").manual_score = 1.0
        book.db.commit()
    run("report", SMALL)
    said = json.loads(run("explain", "ada", SMALL, "--json"))["history"]
    way = [(each["exercise"], each["points_was"], each["points_now"], each["by_hand"]) for each in said]
    assert way == [
        ("double", None, 2.0, False),
        ("shift", None, 0.0, False),
        ("why", None, 0.0, False),
        ("shift", 0.0, 3.0, False),
        ("why", 0.0, 1.0, True),
    ]
    assert [each["moment"] for each in said] == sorted(each["moment"] for each in said)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", each["moment"]) for each in said)
    assert said[3]["digest"] != said[0]["digest"]
    shown = " ".join(run("explain", "ada", SMALL).split())
    assert re.search(r"UTC: 0 failed → 3 passed, autograder, run by \w+", shown)
    assert re.search(r"UTC: 0 manual → 1 manual, by hand, noticed by autograder as \w+ ran it", shown)
    page = (out / f"report_{SMALL}.html").read_text(encoding="utf-8")
    assert "Marks that changed" in page
    assert "by hand, noticed" in page


def test_what_did_not_change_leaves_no_line(tmp_path):
    graded(tmp_path, classroom.verdict("ada"))
    before = told(tmp_path)
    assert len(before) == 3
    graded(tmp_path, classroom.verdict("ada", seconds=3.0))
    outputs.write(tmp_path, TINY, workers=1)
    assert told(tmp_path) == before


def test_a_mark_by_hand_is_noticed_once_stays_through_a_regrade_and_is_told_when_it_is_taken_back(tmp_path):
    graded(tmp_path, classroom.verdict("ada"))
    by_hand(tmp_path, 1.5)
    graded(tmp_path, classroom.verdict("ada", FAILED))  # `grade` comes by before anybody reports
    outputs.write(tmp_path, TINY, workers=1)
    assert steps(tmp_path, "why") == [(None, 0.0, "manual"), (0.0, 1.5, "manual")]
    assert steps(tmp_path, "pick") == [(None, 3.0, "passed"), (3.0, 0.0, "failed")]
    by_hand(tmp_path, None)
    outputs.write(tmp_path, TINY, workers=1)
    outputs.write(tmp_path, TINY, workers=1)
    assert steps(tmp_path, "why")[2:] == [(1.5, 0.0, "manual")]
    assert [each.by_hand for each in told(tmp_path) if each.exercise == "why"] == [False, True, False]
    assert told(tmp_path)[-1].who.startswith("by hand")


def test_a_mark_by_hand_goes_with_the_text_that_it_is_of_and_its_comment_is_kept_in_the_history(tmp_path):
    def hand_in(why: str, digest: str, pick=PASSED):
        [stands] = handed_in(tmp_path, why, digest, pick)
        return {row.exercise: row for row in stands.rows}

    hand_in("One.", "a")
    by_hand(tmp_path, 1.5, comment="Which one?")
    by_hand(tmp_path, 2.0, cell="check_pick")
    same = hand_in("One.", "b", FAILED)
    assert (same["why"].points, same["why"].comment, same["pick"].points) == (1.5, "Which one?", 2.0)
    other = hand_in("Two.", "c", FAILED)
    assert (other["why"].points, other["why"].waiting, other["why"].comment) == (0.0, True, "")
    assert other["pick"].points == 2.0  # its text is as it was
    assert steps(tmp_path, "why")[1:] == [(0.0, 1.5, "manual"), (1.5, 0.0, "manual")]
    back = hand_in("One.", "d")
    assert (back["why"].points, back["why"].waiting) == (1.5, False)  # what was given for it once
    first, taken, _ = [each for each in told(tmp_path) if each.exercise == "why"][1:]
    assert first.digest == "a" * 64  # for which it was given, though it was noticed when another was graded
    assert taken.who.endswith(": another answer was handed in; the comment on the one before was: Which one?")


@pytest.mark.parametrize("same", often(["One.  \nTwo.\t\n\n  \n", "One.\r\nTwo.", "One.\nTwo.\n"], 1))
def test_white_space_that_nobody_sees_makes_no_other_text(tmp_path, same):
    handed_in(tmp_path, "One.\nTwo.", "a")
    by_hand(tmp_path, 1.5)
    [stays] = handed_in(tmp_path, same, "b")
    handed_in(tmp_path, "One.\n\nTwo.", "c")
    assert steps(tmp_path, "why")[-1] == (1.5, 0.0, "manual")  # a blank line between them is another
    [back] = handed_in(tmp_path, same, "d")
    for each in (stays, back):
        assert [(row.points, row.waiting) for row in each.rows if row.exercise == "why"] == [(1.5, False)]
    task = replace(TINY.exercises[-1], name="task", answer_ids=())
    added = [Submission("ada", NAME, added=(("id", "markdown", text),)) for text in (same, "One.\nTwo.", "One.")]
    read = [given.text(task, each) for each in added]
    assert read[0] == read[1] != read[2]


def test_points_that_the_late_policy_takes_off_are_told(tmp_path):
    late_penalty.settle(tmp_path, TINY, "2026-03-02T00:00+00:00", "10%", None)
    graded(tmp_path, classroom.verdict("ada"))
    graded(tmp_path, classroom.verdict("ada"), at="2026-03-02 10:00:00 UTC")
    assert [(each.points_was, each.points_now) for each in told(tmp_path) if each.exercise == history.LATE] == [
        (None, -0.5)
    ]
    graded(tmp_path, classroom.verdict("ada"))
    assert [each.points_now for each in told(tmp_path) if each.exercise == history.LATE] == [-0.5, 0.0]


def test_a_line_is_written_with_its_mark_or_not_at_all(tmp_path, monkeypatch):
    graded(tmp_path, classroom.verdict("ada", FAILED))
    before = told(tmp_path)

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(history, "keep", full)
    with pytest.raises(OSError, match="no space"):
        graded(tmp_path, classroom.verdict("ada", PASSED))
    assert told(tmp_path) == before
    [kept] = record.records(tmp_path, TINY)
    assert kept.rows[0].points == 0


@pytest.mark.parametrize("table", ["across_history", "across_evidence"])
@pytest.mark.parametrize("verb", ["UPDATE {} SET student = 'bo'", "DELETE FROM {}"])
def test_the_database_refuses_to_change_a_line_of_history_and_evidence(tmp_path, verb, table):
    graded(tmp_path, classroom.verdict("ada", FAILED))
    before = told(tmp_path)
    refused = pytest.raises((GradebookError, DBAPIError), match="only added to")
    with record.book(tmp_path, TINY) as book, refused, book.transaction() as connection:
        connection.execute(text(verb.format(table)))
    assert told(tmp_path) == before


def test_an_earlier_record_that_cannot_be_read_keeps_nobody_from_a_new_one(tmp_path):
    graded(tmp_path, classroom.verdict("ada"))
    with record.book(tmp_path, TINY) as book, book.transaction() as connection:
        connection.execute(text("DROP TABLE across_history"))
        connection.execute(tables.VERDICTS.update().values(verdict="{}", notebook=b"broken"))
    graded(tmp_path, classroom.verdict("ada", FAILED))
    assert steps(tmp_path, "pick") == [(None, 0.0, "failed")]


OLD = Evidence(parts={"answers": "a", "checks": "b"})
NEW = Evidence(parts={"answers": "a", "checks": "c"})


def regraded(out, before, after):
    """What changes from one verdict to another, of what is recorded by then."""
    graded(out, replace(before, digest="1" * 64, evidence=OLD), at=None)
    yield
    was = record.records(out, TINY)
    graded(out, replace(after, digest="3" * 64, evidence=NEW), at=None)
    yield changes.compare(was, record.records(out, TINY))


def test_another_message_alone_is_no_change(tmp_path):
    _, found = regraded(tmp_path, classroom.verdict("ada", FAILED), classroom.verdict("ada", (*FAILED[:2], "7!")))
    assert found.changed == ()
    assert changes.summary(found) == "no mark changed, 3 are as before"


def test_marks_by_hand_are_shown_as_kept(tmp_path):
    steps_ = regraded(tmp_path, classroom.verdict("ada", FAILED), classroom.verdict("ada", PASSED))
    next(steps_)
    by_hand(tmp_path, 2.0, cell="check_pick")
    by_hand(tmp_path, 1.0)
    found = next(steps_)
    assert (found.changed, found.by_hand) == ((), 2)
    assert [(each.exercise, each.before, each.after) for each in found.kept] == [("pick", 0.0, 3.0)]
    console = Console(width=200)
    with console.capture() as shown:
        console.print(changes.table(found))
    assert "a mark by hand is kept" in shown.get()


def handed_in(out, why, digest, pick=PASSED):
    with Recorder(out, TINY) as recorder:
        answers = Submission("ada", NAME, {"pick": "p", "spread": "s", "why": why})
        recorder.write(classroom.verdict("ada", pick, digest=digest * 64), "2026-03-01 10:00:00 UTC", answers)
    return record.records(out, TINY)


def test_an_answer_that_waits_again_is_no_zero(tmp_path):
    handed_in(tmp_path, "One.", "a")
    by_hand(tmp_path, 2.0)
    before = record.records(tmp_path, TINY)
    after = handed_in(tmp_path, "Two.", "b")
    found = changes.compare(before, after)
    assert (found.up, found.down) == (0, 0)
    assert "ada why 2 → waits for a mark by hand" in changes.summary(found)
    assert "1 waiting for a mark by hand" in changes.totals(found)
    said = [each.points for each in told(tmp_path) if each.exercise == "why"]
    assert said == ["waits for a mark by hand", "2 manual", "waits for a mark by hand"]


def test_a_comment_without_a_mark_stays_and_says_that_it_is_of_an_earlier_answer(tmp_path):
    handed_in(tmp_path, "One.", "a")
    by_hand(tmp_path, comment="Which one?")
    for why, digest, says in (
        ("One.", "b", "Which one?"),
        ("Two.", "c", f"{given.EARLIER} Which one?"),
        ("Three.", "d", f"{given.EARLIER} Which one?"),
    ):
        [stands] = handed_in(tmp_path, why, digest)
        assert next(row.comment for row in stands.rows if row.exercise == "why") == says
    outputs.write(tmp_path, TINY, workers=1)
    page = classroom.shown(tmp_path / "feedback" / "ada" / NAME / f"{NAME}.html")
    assert "Written about an earlier answer" in page.find(class_="comment").get_text()


def test_a_mark_by_hand_above_the_points_is_told_and_leaves_the_house_in_no_export(tmp_path):
    handed_in(tmp_path, "One.", "a")
    by_hand(tmp_path, 2.0, extra=1.0)
    [allowed] = totals.totals(tmp_path, TINY)
    assert (allowed.not_yet(waiting=False), allowed.above) == ("", "")
    by_hand(tmp_path, 3.0)
    [refused], class_ = totals.totals(tmp_path, TINY), record.records(tmp_path, TINY)
    for waiting in (False, True):
        assert refused.not_yet(waiting).startswith("`why`: 3 of 2 points by hand; mend it in the formgrader")
    [need] = [each for each in attention.needs(TINY, class_, {}, {}) if each.short == "marks too high"]
    assert (need.seen[0].students, need.seen[0].says) == (("ada",), "`why`: 3 of 2 points")


@pytest.mark.parametrize(
    ("given_by_hand", "above"),
    [
        ([(2.0, 1.0)], ""),
        ([(3.0, None)], "3 of 2 points"),
        ([(3.0, None), (2.0, 1.0)], ""),  # mended: no point more or less
        ([(2.0, 1.0), (3.0, None)], "3 of 2 points"),
    ],
)
def test_a_text_that_comes_back_has_its_extra_credit_too_and_what_was_too_high_is_so_again(
    tmp_path, given_by_hand, above
):
    handed_in(tmp_path, "One.", "a")
    for score, extra in given_by_hand:
        by_hand(tmp_path, score, extra=extra)
        outputs.write(tmp_path, TINY, workers=1)  # which notices it
    handed_in(tmp_path, "Two.", "b")
    [stands] = handed_in(tmp_path, "One.", "c")
    [why] = [row for row in stands.rows if row.exercise == "why"]
    assert (why.points, why.above) == (3.0, above)


@pytest.mark.parametrize(
    ("points", "said"),
    [(1, "1 point"), (-0.0, "0 points"), (-0.00001, "0 points"), (0.5, "0.5 points"), (-1, "-1 points")],
)
def test_points_are_said_as_people_say_them(points, said):
    assert amounts.are(points) == ("is" if said == "1 point" else "are")
    assert record.some(points, "point") == said
