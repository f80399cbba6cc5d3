"""A mark that can be defended in five years: what it rests on is kept, and gives the same verdict once more."""

import re
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import classroom
import courses
import pytest
from classroom import BLANK, FAILED, NAME, TINY
from small_course import CHECKS, RIGHT, command
from small_course import NAME as SMALL

from autograder.gradebook import contests, evidence, history, past, record
from autograder.gradebook.record import Recorder
from autograder.model.course import CourseError
from autograder.model.verdict import Result
from autograder.report import outputs
from autograder.submissions.intake import Submission

HALF_RIGHT = {**RIGHT, "shift": "def shift(x, by):\n    return x"}
LENIENT = CHECKS.replace("def test_it_shifts(student, rng):", "def test_it_shifts(student, rng):\n    return")


@pytest.fixture
def committed(own_small):
    for arguments in (
        ("init", "-q"),
        ("add", "-A"),
        ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "1"),
    ):
        subprocess.run(["git", "-C", own_small.root, *arguments], check=True, timeout=60)
    return own_small


def run(course, *arguments, code=0):
    done = command(*arguments, root=course.root, columns=400, code=code)
    return done.stdout + done.stderr


@pytest.mark.whole
def test_a_verdict_is_had_again_from_what_was_kept_and_where_the_checks_are_others_the_commit_is_named(
    committed, tmp_path
):
    folder, out = tmp_path / "submissions", tmp_path / "out"
    notebook = courses.answered(committed, SMALL, HALF_RIGHT)
    courses.hand_in(folder, "ada", SMALL, notebook)
    run(committed, "grade", SMALL, "--submissions", folder, "--out", out)
    assert "the same verdict as on" in run(committed, "replay", "ada", SMALL, "--out", out)

    checks = committed.check_file(SMALL)
    checks.write_text(LENIENT)
    differs = run(committed, "replay", "ada", SMALL, "--out", out, code=2)
    commit = subprocess.run(
        ["git", "-C", committed.root, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=60
    )
    assert "by another checks than this course has; it was commit" in differs
    beside = committed.root.parent / f"replay-{commit.stdout[:12]}"
    assert f"git -C {committed.root} worktree add {beside} {commit.stdout.strip()}" in differs
    assert f"uv run autograder --course {beside} replay ada {SMALL} --out {out} --at" in differs

    run(committed, "grade", SMALL, "--submissions", folder, "--out", out)
    with record.book(out, committed.chapter(SMALL)) as book:
        kept = evidence.at(book, SMALL, "ada")
        first = evidence.at(book, SMALL, "ada", datetime.fromisoformat(kept.moment) - timedelta(seconds=1))
    assert [mark.result for mark in first.verdict.marks][:2] == [Result.PASSED, Result.FAILED]
    assert [mark.result for mark in kept.verdict.marks][:2] == [Result.PASSED, Result.PASSED]
    then, now = (evidence.read_basis(out, each.basis) for each in (first, kept))
    assert (then.changed, now.changed) == (False, True)
    name = f"{committed.checks}/{checks.name}"
    assert (out / "evidence" / then.files[name]).read_text() == CHECKS
    assert (out / "evidence" / now.files[name]).read_text() == LENIENT

    told = run(committed, "explain", "ada", SMALL, "--out", out, "--at", first.moment)
    assert "shift: failed, 0 of" in told
    assert f"replay ada {SMALL} --out {out} --at" in told
    checks.write_text(CHECKS)
    assert "the same verdict as on" in run(committed, "replay", "ada", SMALL, "--out", out, "--at", first.moment)


@pytest.fixture
def out(tmp_path):
    with Recorder(tmp_path, TINY) as recorder:
        recorder.write(classroom.verdict("ada", FAILED), None, Submission("ada", NAME, {"pick": "\ud83d no name"}))
        recorder.write(classroom.verdict("ada"))
    return tmp_path


def test_what_is_recorded_again_without_its_answers_has_those_of_before(out):
    with record.book(out, TINY) as book:
        kept = evidence.at(book, NAME, "ada")
    assert kept.verdict.marks[0].result is Result.PASSED
    assert kept.answers.answers == {"pick": "\ud83d no name"}


def test_a_mark_by_hand_and_its_extra_credit_stand_from_when_they_were_noticed(out):
    classroom.by_hand(out, 1.0, extra=1.5)
    outputs.write(out, TINY)
    _, stood, told = past.at(out, TINY, "ada", datetime.now(UTC))
    assert [(row.points, row.verdict) for row in stood.rows if row.exercise == "why"] == [(2.5, Result.MANUAL)]
    assert told[-1].by_hand
    assert stood.points == next(each.points for each in record.records(out, TINY))


def test_before_the_first_mark_nothing_stood(out):
    with pytest.raises(CourseError, match="no verdict of 'ada' is kept that stood on 2020-01-01"):
        past.at(out, TINY, "ada", datetime(2020, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("said", "when"),
    [
        ("2026-11-20", "2026-11-20T23:59:59.999999+00:00"),
        ("2026-11-20T18:00+01:00", "2026-11-20T18:00:00+01:00"),
        ("2026-11-20T18:00", "2026-11-20T18:00:00+00:00"),
        (" 20261120 ", "2026-11-20T23:59:59.999999+00:00"),
    ],
)
def test_a_day_is_its_end(out, said, when):
    assert past.moment(out, said).isoformat() == when


@pytest.mark.parametrize("said", ["yesterday", "0001-01-01T00:00+05:00", "9999-12-31T23:59-05:00", ""])
def test_what_is_no_date_is_said(out, said):
    with pytest.raises(CourseError, match="write it like 2026-11-20"):
        past.moment(out, said)


def test_a_reply_without_a_cell_to_comment_on_is_in_the_history_alone(out):
    task = replace(TINY.exercises[0], answer_ids=())
    assert not contests.reply(out, TINY, "ada", task, "No. \udcff")
    with record.book(out, TINY) as book:
        assert history.entries(book, NAME, "ada")[-1].who.endswith("answered: No. \\udcff")


def test_who_waits_or_is_blank_has_no_mistake(out):
    classroom.record(out, classroom.verdict("bo", FAILED, BLANK), classroom.verdict("cy", FAILED, BLANK))
    class_ = record.rows(out, TINY)
    marks = {mark.exercise: mark for mark in classroom.verdict("cy", FAILED, BLANK).marks}
    assert contests.others(class_, "cy", marks["pick"]) == ["bo"]
    assert contests.others(class_, "cy", marks["spread"]) == []
    assert contests.others(class_, "cy", marks["why"]) == []


@pytest.mark.whole
def test_a_contested_mark_is_graded_again_and_answered_by_the_code_of_its_page(own_small, tmp_path):
    folder, out = tmp_path / "submissions", tmp_path / "out"
    for student in ("ada", "bo"):
        courses.hand_in(folder, student, SMALL, courses.answered(own_small, SMALL, HALF_RIGHT))
    run(own_small, "grade", SMALL, "--submissions", folder, "--out", out)
    page = out / "feedback" / "ada" / SMALL / f"{SMALL}.html"
    code = re.search(r"the code of this page: ([a-z2-7]{4}-[a-z2-7]{4})", page.read_text())[1]
    assert code not in (out / "feedback" / "bo" / SMALL / f"{SMALL}.html").read_text()

    said = run(own_small, "contest", code.upper(), "--out", out)
    assert "shift: failed, 0 of" in said
    assert "now: the same" in said
    assert "the same mistake: bo" in said

    checks = own_small.check_file(SMALL)
    checks.write_text(LENIENT)
    said = run(own_small, "contest", code, "shift", "--out", out)
    assert "by another checks than then" in said
    assert "now: passed" in said

    run(
        own_small,
        "contest",
        code,
        "shift",
        "--out",
        out,
        "--reply",
        "You are right: `shift` was checked *too* strictly.",
    )
    assert "was checked <em>too</em> strictly" in page.read_text()
    assert "contested; " in run(own_small, "explain", "ada", SMALL, "shift", "--out", out)
    run(own_small, "grade", SMALL, "--submissions", folder, "--out", out)
    assert "was checked <em>too</em> strictly" in page.read_text()
    assert "another verdict stands since" in run(own_small, "contest", code, "--out", out)

    source, moment = own_small.source(SMALL), datetime.now(UTC).isoformat(timespec="seconds")
    source.write_text(source.read_text().replace('"shift"', '"moved"'))
    checks.write_text(CHECKS.replace('"shift"', '"moved"'))
    run(own_small, "build")
    assert "now: no more in the chapter" in run(own_small, "contest", code, "shift", "--out", out)
    assert "shift: passed" in run(own_small, "explain", "ada", SMALL, "--out", out, "--at", moment)


def test_a_code_that_is_none_is_said(out):
    (out / ".seed").write_bytes(b"x" * 32)
    with pytest.raises(CourseError, match="stands on no page"):
        contests.find(out, TINY.course, "aaaa-bbbb")


def test_a_comment_that_went_with_a_mark_stands_in_the_past_too(tmp_path, monkeypatch):
    def hand_in(why, digest):
        with Recorder(tmp_path, TINY) as recorder:
            recorder.write(classroom.verdict("ada", digest=digest * 64), None, Submission("ada", NAME, {"why": why}))

    def stood(after=timedelta()):
        _, at, _ = past.at(tmp_path, TINY, "ada", datetime.now(UTC) + after)
        return next(row.comment for row in at.rows if row.exercise == "why")

    hand_in("One.", "a")
    assert stood() == ""
    classroom.by_hand(tmp_path, 1.0, comment="Which one?")
    outputs.write(tmp_path, TINY, workers=1)
    assert stood() == "Which one? (as it is now: of a comment no date is kept)"
    when = datetime.now(UTC)

    class Later(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(days=1)

    monkeypatch.setattr(history, "datetime", Later)
    monkeypatch.setattr(evidence, "datetime", Later)
    hand_in("Two.", "b")
    assert stood(timedelta(days=2)) == ""
    _, then, _ = past.at(tmp_path, TINY, "ada", when)
    assert next(row.comment for row in then.rows if row.exercise == "why") == "Which one?"
