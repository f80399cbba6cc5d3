"""Recording: nbgrader's gradebook and our files say what the verdict says, all of it or nothing, whatever it holds."""

import multiprocessing
import os
import signal
import zlib
from dataclasses import replace

import classroom
import courses
import nbformat
import nbformat.v4 as v4
import pytest
from classroom import BLANK, FAILED, HOSTILE, INVALID, NAME, TIMEOUT, TINY
from sqlalchemy import event, update

from autograder.gradebook import record, tables
from autograder.gradebook.record import Recorder, UnrecordedError
from autograder.model.course import CourseError
from autograder.model.verdict import Result


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def scores(out, student="ada"):
    """What nbgrader says of a student: grade id -> (auto_score, manual_score, needs_manual_grade)."""
    with record.book(out, TINY) as book:
        grades = book.find_submission_notebook(NAME, NAME, student).grades
        return {grade.name: (grade.auto_score, grade.manual_score, grade.needs_manual_grade) for grade in grades}


def marks_csv(out):
    return courses.table(record.write_marks(out, record.rows(out, TINY)))


def autograded(out, student="ada"):
    return nbformat.read(out / "autograded" / student / NAME / f"{NAME}.ipynb", 4)


def test_full_partial_and_no_points_are_what_nbgrader_reads(out):
    classroom.record(
        out, classroom.verdict("ada", spread=classroom.HALF), classroom.verdict("bo", pick=FAILED, spread=TIMEOUT)
    )
    assert scores(out)["check_pick"] == (3.0, None, False)
    assert scores(out)["check_spread"] == (2.0, None, False)
    assert scores(out, "bo")["check_pick"] == (0.0, None, False)
    assert scores(out, "bo")["check_spread"] == (0.0, None, False)


def test_what_the_student_printed_or_forged_in_a_grade_cell_counts_for_nothing(out):
    notebook = classroom.answered(TINY)
    forged = v4.new_output("execute_result", data={"text/plain": "3.0"}, execution_count=1)
    notebook.cells[3].outputs = [forged, v4.new_output("stream", name="stderr", text="warned")]
    classroom.record(out, classroom.verdict("ada", pick=FAILED, notebook=notebook))
    assert scores(out)["check_pick"][0] == 0.0


def test_an_explanation_waits_for_its_mark_and_one_that_is_blank_or_only_got_blanks_does_not(out):
    blanks = classroom.answered(TINY, why=f"\n{classroom.WHY}  \n")
    blank = [classroom.verdict("bo", why=BLANK), classroom.verdict("cy", why=BLANK, notebook=blanks)]
    classroom.record(out, classroom.verdict("ada"), *blank)
    assert [scores(out, who)["why"] for who in ("ada", "bo", "cy")] == [(None, None, True), *[(0.0, None, False)] * 2]


def test_a_mark_and_a_comment_given_by_hand_survive_a_regrade(out):
    classroom.record(out, classroom.verdict("ada"))
    classroom.by_hand(out, 1.5, comment="Good, but which device?")
    classroom.record(out, classroom.verdict("ada", pick=FAILED, digest="e" * 64))
    assert scores(out)["why"][1] == 1.5
    row = marks_csv(out)[2]
    assert (row["points"], row["verdict"]) == ("1.5", "manual")
    [kept] = record.records(out, TINY)
    assert kept.rows[2].comment == "Good, but which device?"


def test_a_mark_by_hand_overrules_the_checks(out):
    classroom.record(out, classroom.verdict("ada", pick=FAILED))
    classroom.by_hand(out, 3.0, cell="check_pick")
    row = marks_csv(out)[0]
    assert (row["points"], row["verdict"], row["fault"]) == ("3", "manual", "")
    assert "divide by how many" in row["message"]


def test_a_verdict_comes_back_as_it_was_written(out):
    verdict = classroom.verdict("ada", pick=(Result.FAILED, 0.0, HOSTILE), seed=2**63, notes=("a \ud800 note",))
    classroom.record(out, verdict)
    with Recorder(out, TINY) as recorder:
        assert recorder.verdict("ada") == verdict
        assert recorder.known("ada") == verdict.digest
        assert recorder.known("bo") is None
        assert recorder.verdict("bo") is None


def test_every_student_has_a_row_for_each_graded_cell_in_order(out):
    classroom.record(
        out, classroom.verdict("zoe"), classroom.verdict("ada", INVALID, INVALID, INVALID, notebook=TINY.release)
    )
    rows = marks_csv(out)
    assert [(row["student"], row["exercise"]) for row in rows] == [
        (student, exercise) for student in ("ada", "zoe") for exercise in ("pick", "spread", "why")
    ]
    assert {row["verdict"] for row in rows[:3]} == {"invalid"}
    assert list(rows[0]) == list(record.COLUMNS)


def test_a_submission_that_could_not_be_read_says_why_and_scores_nothing(out):
    classroom.record(out, classroom.verdict("ada", INVALID, INVALID, INVALID, notebook=TINY.release))
    assert "is no JSON" in autograded(out).cells[0].source
    assert {score for score, _, _ in scores(out).values()} == {0.0}


@pytest.mark.parametrize("start", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\x00=1", " =1"])
def test_no_field_of_the_marks_is_a_formula_or_more_than_one_line(out, start):
    said = f"{start}|' /C calc'!A0\r\ntwo\u2028three\x85four"
    classroom.record(out, classroom.verdict("=cmd", pick=(Result.FAILED, 0.0, said)))
    row = marks_csv(out)[0]
    assert len((out / "marks.csv").read_text().splitlines()) == 4
    assert row["message"][0] not in "=+-@\t\r"
    assert row["student"] == "'=cmd"


@pytest.mark.parametrize(
    "source",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[x](javascript:alert(1))",
        "[x]( <JaVaScRiPt:alert(1)>)",
        "[x](&#106;avascript:alert(1))",
        "[x][1]\n\n[1]: javascript:alert(1)",
        "![x](data:text/html;base64,PHNjcmlwdD4=)",
        "$\\href{javascript:alert(1)}{x}$",
        "```\n```\n<script>alert(1)</script>\n`````",
        "$\\mmlToken{mi}[href='https://example.org']{x}$",
        "$$\\mmlToken1[style='background:url(https://example.org)']{x}$$",
        "$\\bbox[background:url(https://example.org)]{x}$",
        "$\\fcolorbox{red;background:url(https://example.org)}{red}{x}$",
        "$\\cancel[padding='1;background:url(https://example.org)']{x}$",
        "&#36;\\\\&#104;ref{https://example.org}{x}&#36;",
        "&#36;&#92;mmlToken{mi}[href='https://example.org']{x}&#36;",
        "$\\gdef\\x{\\href}$",
        "~~~ `rego\nx\n~~~",
    ],
)
def test_an_explanation_cannot_put_html_into_nbgraders_pages(out, source):
    from nbconvert.filters.markdown_mistune import markdown2html_mistune

    classroom.record(out, classroom.verdict("ada", notebook=classroom.answered(TINY, why=source)))
    html = markdown2html_mistune(autograded(out).cells[6].source)
    assert "<script" not in html
    assert "<img" not in html
    assert "<a " not in html
    assert "as it was typed" in html


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("See ![the *lanes*](https://example.org/seen.png).", "See ! [the *lanes*](https://example.org/seen.png)."),
        ("![x][1]\n\n[1]: https://example.org/seen.png", "! [x][1]\n\n[1]: https://example.org/seen.png"),
        ('```rego\n"' + "\\" * 60 + "\n```\n", '```\n"' + "\\" * 60 + "\n```\n"),
        ("- a\n\n  ~~~~ ruby x\n  y\n  ~~~~\n> ```js\n> z", "- a\n\n  ~~~~\n  y\n  ~~~~\n> ```\n> z"),
        ("``` `not a fence` ```", "``` `not a fence` ```"),
        ("```mermaid\ngraph TD;\n```", "```\ngraph TD;\n```"),
    ],
)
def test_an_explanation_loads_no_picture_and_calls_no_lexer(out, source, shown):
    classroom.record(out, classroom.verdict("ada", notebook=classroom.answered(TINY, why=source)))
    assert autograded(out).cells[6].source == shown


def test_plain_prose_reaches_nbgrader_as_it_was_typed(out):
    source = "`a < b`, so *the first* [device](https://tensorflow.org):\n\n- $x < y$\n- of the data: \\(\\alpha\\)\n"
    source += "\n- [ ] to do\n\n|a|b|\n|-|-:|\n|1|2|\n\n```\ncode\n```\n"
    classroom.record(out, classroom.verdict("ada", notebook=classroom.answered(TINY, why=source)))
    assert autograded(out).cells[6].source == source


def unwritable(verdict):
    """A verdict that nothing can write: what has no name yet, for all that was thought of is mended."""
    return replace(verdict, notes=(object(),))


def test_what_cannot_be_recorded_of_one_leaves_the_others_as_they_are(out):
    with Recorder(out, TINY) as recorder:
        recorder.write(classroom.verdict("ada"))
        with pytest.raises(UnrecordedError, match=r"could not be recorded \(TypeError"):
            recorder.write(unwritable(classroom.verdict("bo")))
        recorder.write(classroom.verdict("cy"))
        assert recorder.known("bo") is None
    assert [each.student for each in record.records(out, TINY)] == ["ada", "cy"]
    assert scores(out, "cy") == scores(out, "ada")
    with record.book(out, TINY) as book:
        assert {each.student_id for each in book.assignment_submissions(NAME)} == {"ada", "cy"}


def test_a_record_that_cannot_be_read_is_as_none_at_all(out):
    classroom.record(out, classroom.verdict("ada"), classroom.verdict("bo"))
    with record.book(out, TINY) as book, book.transaction() as connection:
        broken = update(tables.VERDICTS).where(tables.VERDICTS.c.student == "ada")
        connection.execute(broken.values(notebook=zlib.compress(b"[" * 100_000)))
    (out / "autograded" / "ada" / NAME / f"{NAME}.ipynb").unlink()
    with Recorder(out, TINY) as recorder:
        assert recorder.known("ada") is None
        assert recorder.known("bo") == "d" * 64
        with pytest.raises(UnrecordedError):
            recorder.renew("ada", "2026-01-05 12:00:00 UTC")
    assert [each.points for each in record.records(out, TINY)] == [5.0, 5.0]


def test_a_notebook_that_would_fill_the_memory_is_not_unpacked():
    with pytest.raises(ValueError, match="more than 64 MiB"):
        tables.unpacked(zlib.compress(b" " * (65 << 20)))


def test_notebooks_come_one_at_a_time(out):
    classroom.record(out, *(classroom.verdict(student) for student in ("ada", "bo")))
    assert [each.notebook for each in record.records(out, TINY)] == [{}, {}]
    kept = record.whole(out, TINY)
    assert next(kept).notebook == classroom.verdict("ada").notebook
    assert next(kept).student == "bo"


def test_lost_files_are_made_again_from_the_record(out):
    verdict = classroom.verdict("ada")
    classroom.record(out, verdict, at="2026-01-05 12:00:00 UTC")
    paths = sorted((out / "autograded").rglob("*.*")) + sorted((out / "submitted").rglob("*.*"))
    before = {path: path.read_bytes() for path in paths}
    for path in paths:
        path.unlink()
    with Recorder(out, TINY) as recorder:
        assert recorder.known("ada") == verdict.digest
    assert {path: path.read_bytes() for path in paths} == before


def test_a_late_submission_loses_what_nbgraders_policy_says(out):
    due = replace(TINY, due="2026-01-05T12:00:00Z")
    classroom.record(out, classroom.verdict("ada"), tiny=due)
    (out / "nbgrader_config.py").write_text('c = get_config()\nc.LateSubmissionPlugin.penalty_method = "zero"\n')
    classroom.record(out, classroom.verdict("early"), tiny=due, at="2026-01-05 11:59:00 UTC")
    classroom.record(out, classroom.verdict("late"), tiny=due, at="2026-01-05 13:30:00 +0100")
    kept = {each.student: each for each in record.records(out, TINY)}
    assert (kept["early"].seconds_late, kept["early"].points) == (0.0, 5.0)
    assert (kept["late"].seconds_late, kept["late"].penalty, kept["late"].points) == (1800.0, 5.0, 0.0)


def test_a_moved_due_date_reaches_what_is_recorded_already(out):
    when = "2026-01-05 13:00:00 UTC"
    classroom.record(out, classroom.verdict("ada"), tiny=replace(TINY, due="2026-01-05T12:00:00Z"), at=when)
    with Recorder(out, replace(TINY, due="2026-01-05T12:30:00Z")) as recorder:
        assert recorder.renew("ada", when)
        assert not recorder.renew("ada", when)
    assert record.records(out, TINY)[0].seconds_late == 1800.0


@pytest.mark.parametrize(
    "timestamp", ["yesterday", "", "2026-99-99 00:00:00 UTC", "9999-12-31 23:59:59 -0100", "\ud800"]
)
def test_a_timestamp_that_is_none_is_as_none_at_all(out, timestamp):
    classroom.record(out, classroom.verdict("ada"), at=timestamp)
    assert not (out / "submitted" / "ada" / NAME / "timestamp.txt").exists()


def test_a_release_with_other_graded_cells_is_refused_in_one_line(out):
    classroom.record(out, classroom.verdict("ada"))
    with pytest.raises(CourseError, match="grade into a new --out"), Recorder(out, classroom.chapter(extra="more")):
        pass


def test_changed_points_of_a_release_are_taken_over(out):
    classroom.record(out, classroom.verdict("ada"))
    richer = classroom.chapter(points=5)
    classroom.record(out, classroom.verdict("ada", tiny=richer, digest="e" * 64), tiny=richer)
    assert scores(out)["check_pick"][0] == 5.0


def test_the_instructors_settings_are_kept(out):
    classroom.record(out)
    (out / "nbgrader_config.py").write_text("c = get_config()\n# mine\n")
    classroom.record(out)
    assert "# mine" in (out / "nbgrader_config.py").read_text()


@pytest.mark.parametrize("student", ["", ".", "..", "a/b", "a\x00", "\ud800", "a\nb", "<img src=x>"])
def test_a_name_that_could_leave_the_folder_or_be_markup_is_refused(out, student):
    with Recorder(out, TINY) as recorder, pytest.raises(ValueError, match="cannot name"):
        recorder.write(classroom.verdict(student))


def test_a_verdict_of_something_else_is_refused(out):
    verdict = classroom.verdict("ada")
    with Recorder(out, TINY) as recorder, pytest.raises(ValueError, match="not a verdict"):
        recorder.write(replace(verdict, marks=verdict.marks[1:]))


def test_nothing_graded_is_said_with_the_mend(out):
    with pytest.raises(CourseError, match="autograder grade"):
        record.rows(out, TINY)


def grade_two_and_die(out, steps):
    """Record two submissions; be killed after so many statements of theirs."""
    left = iter(range(steps))

    def count(*_):
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    with Recorder(out, TINY) as recorder:
        event.listen(recorder._gradebook.engine, "after_cursor_execute", count)
        for student in ("ada", "bo"):
            recorder.write(classroom.verdict(student, pick=FAILED, digest="e" * 64))


@pytest.mark.parametrize("steps", [0, 4, 9, 12, 17, 24])
def test_a_kill_leaves_all_of_a_submission_or_nothing_and_going_on_gives_the_same_gradebook(out, steps):
    classroom.record(out, classroom.verdict("ada"))
    child = multiprocessing.get_context("fork").Process(target=grade_two_and_die, args=(out, steps))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    expected = {"d" * 64: (3.0, Result.PASSED), "e" * 64: (0.0, Result.FAILED)}
    [ada, *others] = record.records(out, TINY)
    for each in (ada, *others):
        assert (each.rows[0].points, each.rows[0].verdict) == expected[each.verdict.digest]
        assert scores(out, each.student)["check_pick"][0] == expected[each.verdict.digest][0]
    with Recorder(out, TINY) as recorder:
        for student in ("ada", "bo"):
            again = classroom.verdict(student, pick=FAILED, digest="e" * 64)
            if recorder.known(student) != again.digest:
                recorder.write(again)
    assert [row.points for row in record.rows(out, TINY)] == [0.0, 2.0, 0.0] * 2
    assert {autograded(out, student).metadata["across"]["digest"] for student in ("ada", "bo")} == {"e" * 64}


def grader(out, url, together):
    together.wait(60)
    with Recorder(out, TINY, url) as recorder:
        for number in range(5):
            recorder.write(classroom.verdict(f"{out.name}{number}"))


@pytest.mark.parametrize("left", [b"", b"what a killed grader left"])
def test_graders_that_create_one_file_at_once_both_write_into_it(tmp_path, left):
    if left:
        (tmp_path / "class.db.new").write_bytes(left)
        (tmp_path / "class.db.new-journal").write_bytes(left)
    context = multiprocessing.get_context("fork")
    outs, together = [tmp_path / name for name in "abc"], context.Barrier(3)
    url = f"sqlite:///{tmp_path / 'class.db'}"
    graders = [context.Process(target=grader, args=(out, url, together)) for out in outs]
    for each in graders:
        each.start()
    for each in graders:
        each.join(120)
        each.kill()
    assert [each.exitcode for each in graders] == [0, 0, 0]
    assert [each.student for each in record.records(outs[0], TINY)] == [
        f"{name}{n}" for name in "abc" for n in range(5)
    ]
    assert [each.name for each in tmp_path.glob("class.db*")] == ["class.db"]
    assert (outs[1] / "autograded" / "b0" / NAME).is_dir()
