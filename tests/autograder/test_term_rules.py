"""A term's rules over two chapters, a class of whom every total was worked out by hand, and each total explained."""

from __future__ import annotations

import csv
import zipfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import classroom
import courses
import lms_downloads
import pytest
from boxed import needs_a_box
from bs4 import BeautifulSoup
from small_course import CHECKS, NAME, RIGHT, SOURCE, command

from autograder.authoring import build
from autograder.export import gradescope, totals
from autograder.gradebook import late_penalty, record, roll
from autograder.gradebook.record import Recorder
from autograder.model.course import Chapter, Course, CourseError
from autograder.model.verdict import Evidence, Fault, Mark, Result, Verdict
from autograder.report import feedback_notebook, outputs, term_lines
from autograder.submissions.extensions import DAY, Extension
from autograder.submissions.intake import Submission
from autograder.term import kept, rules
from autograder.term.attempts import Attempt
from autograder.term.counting import Counted, Line, Worth

FIRST, SECOND = "01_first", "02_second"  # 5 points each: `double` 2, `shift` 3
DUE = {FIRST: datetime(2026, 1, 5, 12, tzinfo=UTC), SECOND: datetime(2026, 1, 12, 12, tzinfo=UTC)}
ALL, SHIFT, DOUBLE, NONE = (2.0, 3.0), (0.0, 3.0), (2.0, 0.0), (0.0, 0.0)
EARLY = timedelta(hours=-1)
TERM = """\
attempt = "best"
[bank]
days = 3
per_chapter = 2
[sections.B]
students = ["eve", "fay"]
due = { 02 = 2026-01-14T12:00:00Z }
[weights]
01 = 40
second = 60
"""
HANDED_IN = {  # chapter -> student -> attempts: points, and how long after it is due; None: nobody says
    FIRST: {
        "ada": [(ALL, EARLY)],
        "bob": [(ALL, timedelta(hours=25))],  # two days of the bank
        "cem": [(ALL, timedelta(days=3))],  # two, and a day that costs 10 %
        "dan": [(ALL, EARLY), (DOUBLE, EARLY / 2)],  # the first attempt is the best
        "fay": [(ALL, EARLY)],
        "gil": [(ALL, None)],
        "hal": [(NONE, timedelta(days=1))],  # nothing to keep: no day goes
    },
    SECOND: {
        "ada": [(ALL, EARLY)],
        "bob": [(ALL, timedelta(days=1, minutes=10))],  # one day, and the grace of 15 minutes
        "cem": [(SHIFT, timedelta(days=2))],  # one day is left; the other one costs 10 % of 3
        "dan": [(DOUBLE, EARLY), (ALL, timedelta(days=2))],  # the second one is, by two days
        "eve": [(ALL, timedelta(hours=47))],  # section B: due two days later
        "fay": [(ALL, timedelta(hours=71))],  # and has a day more
        "gil": [(ALL, timedelta(hours=25))],  # has until the day after: an hour late, one day of the bank
    },
}
TOTALS = {  # by hand: 40 x points / 5 + 60 x points / 5
    "ada": 40 + 60,
    "bob": 40 + 60,
    "cem": 36 + 32.4,
    "dan": 40 + 60,
    "eve": 0 + 60,
    "fay": 40 + 60,
    "gil": 40 + 60,
    "hal": 0 + 0,
}
LEFT = {"ada": 3, "bob": 0, "cem": 0, "dan": 1, "eve": 3, "fay": 3, "gil": 2, "hal": 3}


def verdict(course: Course, chapter: str, student: str, points: tuple[float, float], checks: str = "c") -> Verdict:
    marks = [
        Mark(name, got, most, Result.PASSED if got else Result.FAILED, Fault.NONE if got else Fault.STUDENT, "-")
        for name, got, most in zip(("double", "shift"), points, (2.0, 3.0), strict=True)
    ]
    evidence = Evidence(parts={"checks": checks})
    return Verdict(student, chapter, "d" * 64, tuple(marks), 7, 0.4, course.chapter(chapter).release, evidence=evidence)


@pytest.fixture(scope="module")
def graded(tmp_path_factory) -> tuple[Course, Path]:
    """The class: Eve is absent from the first chapter, and the machine failed at Hal's second one."""
    root = tmp_path_factory.mktemp("term")
    source = SOURCE[: SOURCE.index("# %% [markdown] answer")]
    course, out = courses.write(root / "course", FIRST, source, CHECKS), root / "out"
    (course.root / "solutions" / f"{SECOND}.py").write_text(source.replace("# Small", "# Second"))
    (course.root / "checks" / f"test_{SECOND}.py").write_text(CHECKS)
    course = Course.read(course.root)
    build.build(course)
    late_penalty.settle(out, course.chapter(FIRST), DUE[FIRST].isoformat(), "10%", "15m")
    late_penalty.settle(out, course.chapter(SECOND), DUE[SECOND].isoformat(), None, None)
    more = {SECOND: [Extension("fay", SECOND, DAY), Extension("gil", SECOND, until="2026-01-13T12:00:00Z")]}
    for chapter, class_ in HANDED_IN.items():
        with Recorder(out, course.chapter(chapter), extensions=more.get(chapter, ())) as recorder:
            for student, attempts in class_.items():
                for points, after in attempts:
                    when = None if after is None else f"{DUE[chapter] + after:%Y-%m-%d %H:%M:%S} UTC"
                    answers = Submission(student, chapter, {"double": str(points)})
                    recorder.write(verdict(course, chapter, student, points), when, answers)
    roll.keep_absent(out, course.chapter(FIRST), ["eve"])
    roll.keep_left(out, course.chapter(SECOND), {"hal": "no <space> left"})
    return course, out


def told(graded: tuple[Course, Path], path: Path, text: str = TERM):
    course, out = graded
    path.write_text(text, encoding="utf-8")
    return kept.lines(out, course.id, rules.read(path, course.full_name)), late_penalty.zone(out)


def test_every_total_and_what_is_left_of_the_bank_is_what_was_worked_out_by_hand(graded, tmp_path):
    lines, zone = told(graded, tmp_path / "term.toml")
    assert {line.student: round(line.total, 6) for line in lines} == TOTALS
    assert {line.student: line.left for line in lines} == LEFT
    assert {line.of for line in lines} == {100}
    assert [line.student for line in lines if not line.whole] == ["hal"]
    assert zone == "+00:00"


def test_without_a_bank_the_last_attempt_and_no_weights_totals_are_the_gradebooks_own(graded, tmp_path):
    course, out = graded
    lines, _ = told(graded, tmp_path / "term.toml", "")
    found: dict[str, float] = {}
    for chapter in (FIRST, SECOND):
        for each in record.records(out, course.chapter(chapter)):
            found[each.student] = found.get(each.student, 0.0) + each.points
    assert {line.student: line.total for line in lines} == pytest.approx(found)
    assert found["dan"] == 2 + 4  # the last attempt, and 20 % of the second chapter


def test_the_command_writes_a_table_a_page_and_for_each_student_a_page_of_their_own_and_no_mark_changes(
    graded, tmp_path
):
    course, out = graded
    before = [record.records(out, course.chapter(chapter)) for chapter in (FIRST, SECOND)]
    path = tmp_path / "term.toml"
    path.write_text(TERM.replace('"fay"]', '"fay", "gill"]'), encoding="utf-8")
    done = command("term", path, "--out", out, root=course.root, columns=400, code=None)
    assert (done.returncode, "8 students, 2 chapters" in done.stdout) == (2, True), done.stderr
    assert "sections.B.students: 'gill' is in no class; did you mean gil?" in done.stderr
    assert (out / "term.toml").read_bytes() == path.read_bytes()
    rows = {row["student"]: row for row in courses.table(out / "term.csv")}
    assert {student: float(row["total"]) for student, row in rows.items()} == TOTALS
    assert (rows["cem"]["days_spent"], rows["cem"][FIRST], rows["cem"][SECOND]) == ("3", "36", "32.4")
    assert (rows["eve"]["section"], rows["hal"]["note"]) == ("B", "not complete")
    page = BeautifulSoup((out / "term.html").read_text(encoding="utf-8"), "html.parser")
    assert page.find("svg")["aria-label"].startswith("Students by points. ")  # pyright: ignore
    assert {link["href"] for link in page.find_all("a")} == {f"feedback/{student}/term.html" for student in TOTALS}
    for student in TOTALS:
        own = (out / "feedback" / student / "term.html").read_text(encoding="utf-8")
        assert not [other for other in TOTALS if other != student and f">{other}<" in own]
    assert [record.records(out, course.chapter(chapter)) for chapter in (FIRST, SECOND)] == before


def ruled(graded, path: Path, text: str = TERM) -> Path:
    """OUT, which keeps these rules."""
    path.write_text(text, encoding="utf-8")
    kept.keep(graded[1], path)
    return graded[1]


def exported(graded, folder: Path, *arguments: object, second: str = "5", code: int = 2):
    """What `export` writes into a gradebook of Canvas's with a column for each chapter and for the term, and what it says."""
    course, out = graded
    head = ["Student", "ID", "SIS Login ID", "Section", "First (1)", "Second (2)", "Term total (3)"]
    above = ["    Points Possible", "", "", "", "5", second, "100"]
    with (folder / "gradebook.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([head, above, *([name, "", name, "A", "", "", ""] for name in TOTALS)])
    said = ("--canvas", folder / "gradebook.csv", "--to", folder / "filled.csv")
    done = command("export", *arguments, "--out", out, *said, root=course.root, columns=400, code=code)
    return {row["Student"]: row for row in courses.table(folder / "filled.csv")}, done


def test_marks_are_exported_as_the_term_counts_them_and_the_command_says_so(graded, tmp_path):
    out = ruled(graded, tmp_path / "term.toml")
    rows, done = exported(graded, tmp_path, "01", "02")
    assert {name: row["First (1)"] for name, row in rows.items() if name in TOTALS} == {
        "ada": "5", "bob": "5", "cem": "4.5", "dan": "5", "eve": "", "fay": "5", "gil": "5", "hal": "0",
    }  # fmt: skip
    assert (rows["cem"]["Second (2)"], rows["hal"]["Second (2)"]) == ("2.7", "")
    assert "hal, 02_second: not graded: no <space> left; grade again" in done.stderr
    assert f"01_first: as {out / 'term.toml'} counts it; 3 of 7 marks are other than the gradebook's" in done.stdout


def test_a_chapter_of_no_weight_is_exported_as_the_gradebook_has_it(graded, tmp_path):
    out = ruled(graded, tmp_path / "term.toml", TERM.replace("40", "0"))
    rows, done = exported(graded, tmp_path, "01", code=0)
    assert (rows["bob"]["First (1)"], rows["dan"]["First (1)"]) == ("4", "2")
    assert f"01_first: does not count in {out / 'term.toml'}; as the gradebook has it" in done.stdout


def test_the_total_of_the_term_is_exported_as_its_table_has_it(graded, tmp_path):
    ruled(graded, tmp_path / "term.toml")
    rows, done = exported(graded, tmp_path, "--term")
    wanted = {student: "" if student == "hal" else f"{total:g}" for student, total in TOTALS.items()}
    assert {name: row["Term total (3)"] for name, row in rows.items() if name in TOTALS} == wanted
    assert "hal, term: not graded: 02_second: no <space> left" in done.stderr
    rows, _ = exported(graded, tmp_path, "01", "--term", "--column", "term=Second", second="100")
    assert (rows["cem"]["First (1)"], rows["cem"]["Second (2)"]) == ("4.5", "68.4")


def test_moodles_worksheet_of_an_assignment_takes_the_total_too(graded, tmp_path):
    course, out = graded[0], ruled(graded, tmp_path / "term.toml")
    head = ["Identifier", "ID number", "Grade", "Maximum Grade", "Last modified (grade)"]
    rows = [[f"Participant {number}", name, "", "100,00", "-"] for number, name in enumerate(TOTALS, 900)]
    with (tmp_path / "worksheet.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([head, *rows])
    command("export", "--term", "--out", out, "--moodle", tmp_path / "worksheet.csv", root=course.root, code=2)
    marks = {row["ID number"]: row["Grade"] for row in courses.table(out / "export" / "worksheet.csv")}
    assert marks == {student: f"{total:g}".replace(".", ",") for student, total in TOTALS.items()} | {"hal": ""}


def test_no_total_of_a_term_is_exported_without_its_rules(graded, tmp_path):
    course, _ = graded
    (tmp_path / "out").mkdir()
    book = tmp_path / "gradebook.csv"
    book.write_text("Student,ID,Section\n", encoding="utf-8")
    call = ("export", "--out", tmp_path / "out", "--canvas", book)
    assert "name a CHAPTER, or say --term" in command(*call, root=course.root, code=2).stderr
    done = command(*call, "--term", root=course.root, columns=400, code=2)
    assert "term.toml: is not there; run `autograder term TERM.TOML --out" in done.stderr
    replayed = command("export", "--term", "--out", tmp_path, "--gradescope", "a.zip", root=course.root, code=2)
    assert "which the total of a term is not" in " ".join(replayed.stderr.split())


@pytest.mark.parametrize(
    ("student", "chapter", "says"),
    [
        ("dan", FIRST, "In the term 5 of 5 points count for this chapter. Attempt 1 of 2 is worth the most."),
        ("bob", FIRST, "In the term 5 of 5 points count for this chapter. Late days of the bank: 2."),
        (
            "eve",
            SECOND,
            "In the term 5 of 5 points count for this chapter. By the rules of the term it was due on 2026-01-14 12:00 UTC.",
        ),
        ("ada", FIRST, ""),
        ("hal", FIRST, ""),
    ],
)
def test_a_page_of_feedback_says_what_counts_in_the_term_where_that_differs(graded, tmp_path, student, chapter, says):
    course, _ = graded
    out = ruled(graded, tmp_path / "term.toml")
    page = classroom.shown(outputs.write_page(out, course.chapter(chapter), student))
    assert [each.text for each in page.find_all("p") if each.text.startswith("In the term")] == [says][: bool(says)]


def test_what_goes_back_as_a_notebook_or_to_gradescope_has_the_counted_mark_too(graded, tmp_path):
    course, _ = graded
    out, chapter = ruled(graded, tmp_path / "term.toml"), course.chapter(FIRST)
    (total,) = (each for each in totals.counted(out, chapter) if each.student == "dan")
    (dan,) = record.records(out, chapter, ["dan"])
    replayed = gradescope.result(chapter, dan, total)
    says = "In the term 5 of 5 points count for this chapter. Attempt 1 of 2 is worth the most."
    assert (replayed["score"], says in str(replayed["output"])) == (5, True)
    assert says in feedback_notebook.render(out, chapter, dan, total.counted).decode()


def explained(graded, tmp_path: Path, student: str) -> str:
    course, out = graded
    path = tmp_path / "term.toml"
    path.write_text(TERM, encoding="utf-8")
    done = command("term", path, "--out", out, "--student", student, root=course.root, columns=400)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_total_explains_itself_line_by_line(graded, tmp_path):
    said = explained(graded, tmp_path, "cem")
    for each in (
        "68.4 of 100\n  Bank of 3 late days: 3 spent, 0 left.",
        "01_first: 36 of 40\n  Due 2026-01-05 12:00 UTC, handed in 2026-01-08 12:00 UTC: 3 d late. 2 late days of the bank, "
        "1 left. 0.5 is taken off.\n  5 less 0.5 of 5 points, weight 40: 40 × 4.5 / 5 = 36.",
        "02_second: 32.4 of 60\n  Due 2026-01-12 12:00 UTC, handed in 2026-01-14 12:00 UTC: 2 d late. 1 late day of the bank, "
        "0 left. 0.3 is taken off.\n  3 less 0.3 of 5 points, weight 60: 60 × 2.7 / 5 = 32.4.",
        "Together\n  36 + 32.4 = 68.4 of 100.",
    ):
        assert each in said


@pytest.mark.parametrize(
    ("student", "each"),
    [
        ("dan", "Attempt 1 counts, which is worth 5: attempt 2 is worth 2."),
        ("dan", "Attempt 2 counts, which is worth 5: attempt 1 is worth 2."),
        ("eve", "01_first: 0 of 40\n  Nothing was handed in."),
        ("eve", "Due 2026-01-14 12:00 UTC (section B), handed in 2026-01-14 11:00 UTC: on time."),
        ("fay", "Due 2026-01-15 12:00 UTC (section B, extension), handed in 2026-01-15 11:00 UTC: on time."),
        ("gil", "Due 2026-01-05 12:00 UTC; no time says that it was late: nothing is taken off."),
        (
            "gil",
            "Due 2026-01-13 12:00 UTC (extension), handed in 2026-01-13 13:00 UTC: 1 h late. 1 late day of the bank, 2 left.",
        ),
        ("hal", "1 d late. Nothing is taken off."),
        ("hal", "02_second: 0 of 60\n  Not graded yet: the grading machine failed (no <space> left)."),
    ],
)
def test_what_counted_is_said_of_each(graded, tmp_path, student, each):
    assert each in explained(graded, tmp_path, student)


def test_what_was_graded_again_by_mended_checks_is_one_attempt_with_the_verdict_that_stands(graded, tmp_path):
    course, _ = graded
    out, chapter = tmp_path / "out", course.chapter(FIRST)
    with Recorder(out, chapter) as recorder:
        for student, points, checks in (
            ("ada", ALL, "old"),
            ("ada", SHIFT, "new"),
            ("bob", ALL, "old"),
            ("bob", SHIFT, "new"),
            ("cy", ALL, "old"),
            ("cy", SHIFT, "new"),
        ):
            own = str(points) if student == "bob" else "same"  # Bob's are two notebooks
            when = None if (student, points) == ("cy", ALL) else "2026-01-05 11:00:00 UTC"  # was told later of Cy's
            answers = Submission(student, FIRST, {"double": own})
            recorder.write(verdict(course, FIRST, student, points, checks), when, answers)
    ada, bob, cy = told((course, out), tmp_path / "term.toml", 'attempt = "best"\n')[0]
    assert [(each.total, each.chapters[0].others) for each in (ada, cy)] == [(3.0, ())] * 2
    assert bob.total == 5.0
    worth = bob.chapters[0].worth
    assert worth
    assert worth.attempt.other_checks  # which its lines say


def give(out: Path, chapter: Chapter, student: str, points: float, extra: float | None = None) -> None:
    """A mark by hand for `double`, as the formgrader gives it, and extra credit."""
    with record.book(out, chapter) as book:
        grade = book.find_grade("check_double", chapter.name, chapter.name, student)
        grade.manual_score, grade.extra_credit = points, extra
        book.db.commit()


def hand_in_again(course: Course, out: Path, number: int, own: str) -> None:
    """Ada's first chapter, with another answer for `double` that only a person gives points for."""
    made = replace(verdict(course, FIRST, "ada", SHIFT), digest=str(number) * 64)
    with Recorder(out, course.chapter(FIRST)) as recorder:
        answers = Submission("ada", FIRST, {"double": own, "shift": "same"})
        recorder.write(made, f"2026-01-05 {number:02}:00:00 UTC", answers)


def test_a_mark_by_hand_counts_for_the_attempt_whose_text_it_is_of(graded, tmp_path):
    course, _ = graded
    out, chapter = tmp_path / "out", course.chapter(FIRST)

    def hand_in(number: int, own: str, by_hand: float | None):
        hand_in_again(course, out, number, own)
        if by_hand is not None:
            give(out, chapter, "ada", by_hand)

    hand_in(1, "one", 1.5)
    hand_in(2, "two", None)
    ((worth, others),) = [(each.worth, each.others) for each in counted(graded, out)]
    assert [(each.attempt.number, each.points) for each in (worth, *others)] == [(1, 4.5), (2, 3.0)]
    hand_in(3, "two", 2.0)
    ((worth, others),) = [(each.worth, each.others) for each in counted(graded, out)]
    assert [(each.attempt.number, each.points) for each in (worth, *others)] == [(3, 5.0), (1, 4.5), (2, 5.0)]
    hand_in(4, "one", None)  # the text that has a mark already, and has it again
    ((worth, others),) = [(each.worth, each.others) for each in counted(graded, out)]
    assert [each.points for each in (worth, *others)] == [5.0, 4.5, 5.0, 4.5]


def test_a_mark_by_hand_that_is_too_high_is_in_no_total_and_its_chapter_waits_for_an_instructor(graded, tmp_path):
    course, _ = graded
    out, path = tmp_path / "out", tmp_path / "term.toml"
    for chapter in map(course.chapter, (FIRST, SECOND)):
        with Recorder(out, chapter) as recorder:
            for student in ("ada", "bob"):
                recorder.write(verdict(course, chapter.name, student, ALL), None, Submission(student, chapter.name, {}))
    give(out, course.chapter(FIRST), "ada", 3.0)
    give(out, course.chapter(FIRST), "bob", 2.0, extra=1.0)  # as it is meant: 6 of 5 points
    path.write_text(TERM, encoding="utf-8")
    command("term", path, "--out", out, root=course.root, code=2)  # of the class, nobody in section B is there
    ada, bob = courses.table(out / "term.csv")
    assert (ada["total"], ada[FIRST], ada[SECOND]) == ("84", "24", "60")  # 40 x 3 / 5: what is too high counts 0
    why = "01_first waits for an instructor: `double`: 3 of 2 points by hand; mend it in the formgrader, where what is "
    assert ada["note"] == f"not complete; {why}above goes into extra credit"
    assert (bob["total"], bob["note"]) == ("108", "")  # 40 x 6 / 5 + 60
    row, _ = classroom.shown(out / "term.html").tbody.find_all("tr")  # pyright: ignore
    first, second = row.find_all("td", class_="wide")[:2]
    assert (row["data-flags"], first.find(class_="mark").text, second.get("title")) == ("open", "24 ?", None)
    assert first["title"] == ada["note"].removeprefix("not complete; ")
    own = classroom.shown(out / "feedback" / "ada" / "term.html").text
    assert "It waits for an instructor: `double`: 3 of 2 points by hand; what is too high counts 0 until" in own
    assert (own.count("3 of 5 points"), "formgrader" in own) == (1, False)
    rows, done = exported((course, out), tmp_path, "--term", "--waiting")
    assert (rows["ada"]["Term total (3)"], rows["bob"]["Term total (3)"]) == ("", "108")
    assert f"ada, term: {why.replace(' waits for an instructor', '')}" in done.stderr
    page = classroom.shown(outputs.write_page(out, course.chapter(FIRST), "ada")).text
    assert "In the term 3 of 5 points count for this chapter. A mark that was given by hand waits for an" in page
    give(out, course.chapter(FIRST), "ada", 2.0, extra=1.0)
    assert [(line.total, line.whole) for line in told((course, out), path)[0]] == [(108, True)] * 2


@pytest.mark.parametrize(
    ("points", "extra", "counts", "above"),
    [(2.0, 1.0, 6.0, ""), (3.0, None, 3.0, "`double`: 3 of 2 points in attempt 1")],
)
def test_a_mark_by_hand_of_an_earlier_text_keeps_its_extra_credit_and_is_missed_where_it_is_too_high(
    graded, tmp_path, points, extra, counts, above
):
    course, _ = graded
    out = tmp_path / "out"
    hand_in_again(course, out, 1, "one")
    give(out, course.chapter(FIRST), "ada", points, extra)
    hand_in_again(course, out, 2, "two")
    (chapter,) = counted(graded, out)
    assert (chapter.worth.points, chapter.above, chapter.open) == (counts, above, bool(above))
    hand_in_again(course, out, 1, "one")  # by itself, to be mended
    give(out, course.chapter(FIRST), "ada", 2.0, extra=1.0)
    hand_in_again(course, out, 2, "two")
    (chapter,) = counted(graded, out)
    assert (chapter.worth.points, chapter.above, chapter.open) == (6.0, "", False)


def test_a_chapter_of_one_point_counts_a_point():
    why = replace(classroom.TINY.exercises[2], max_points=1.0)
    tiny = Counted(replace(classroom.TINY, exercises=(why,)), 1, Worth(Attempt(1, None, 0.5)))
    assert term_lines.counts(tiny, 1.0, "") == "In the term 0.5 of 1 point counts for this chapter."


def test_what_waits_in_the_newest_attempt_keeps_a_chapter_open_and_in_an_older_one_it_does_not(graded):
    chapter = graded[0].chapter(FIRST)
    first, second = (Worth(Attempt(number, None, 4.0, waiting=1)) for number in (1, 2))
    marked = Worth(Attempt(1, None, 6.0)), Worth(Attempt(2, None, 6.0))
    assert [Counted(chapter, 1, marked[0], (second,)).waiting, Counted(chapter, 1, marked[1], (first,)).waiting] == [
        1,
        0,
    ]
    line = Line("ada", "", (Counted(chapter, 1, marked[0], (second,)),), 0)
    assert not line.whole
    said = [each for _, part in term_lines.parts(line, rules.Rules(Path(), best=True), "UTC") for each in part]
    assert "1 answer of the newest attempt waits for a mark by hand; it may count then." in said


def test_who_had_older_notebooks_in_a_download_that_were_never_graded_is_named_where_the_best_attempt_counts(
    graded, tmp_path
):
    course, out = graded
    roll.keep_attempts(
        out, course.chapter(FIRST), dict.fromkeys(("ada", "bob", "dan"), "2 of 2"), ["ada", "bob", "dan"]
    )
    roll.keep_attempts(out, course.chapter(FIRST), {"ada": "1 of 1"}, ["ada"])
    said = {}
    for way in ("best", "last"):
        (tmp_path / "term.toml").write_text(f'attempt = "{way}"\n', encoding="utf-8")
        said[way] = command("term", tmp_path / "term.toml", "--out", out, root=course.root, columns=400).stderr
    assert "01_first: bob: the last download holds older notebooks of theirs that were never graded" in said["best"]
    assert "no attempts" not in said["last"]


@needs_a_box
def test_grading_names_them_too_and_no_more_when_the_older_one_was_graded(small, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "term.toml").write_text('attempt = "best"\n', encoding="utf-8")
    said = []
    for files in (("", "-1"), ("",), ("", "-1")):
        with zipfile.ZipFile(tmp_path / "submissions.zip", "w") as archive:
            for each in files:
                answers = RIGHT if not each else {**RIGHT, "double": "def double(x):\n    return x"}
                data = courses.answered(small, NAME, answers)
                lms_downloads.put(archive, f"lovelaceada_100_9100_{NAME}{each}.ipynb", data)
        call = ("grade", NAME, "--submissions", tmp_path / "submissions.zip", "--out", out)
        said.append(
            "lovelaceada_100: the last download holds older" in command(*call, root=small.root, columns=400).stderr
        )
    assert said == [True, False, False]
    page = classroom.shown(out / "feedback" / "lovelaceada_100" / NAME / f"{NAME}.html")
    assert "In the term 5 of 6 points count for this chapter. Attempt 1 of 2 is worth the most." in page.text


def counted(graded, out: Path):
    """Ada's chapters, the best attempt of each."""
    best = rules.Rules(out, best=True)
    (line,) = kept.lines(out, graded[0].id, best)
    return line.chapters


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("attempt = 'first'", "attempt: 'first'; write attempt = \"best\""),
        ("atempt = 'best'", "there is no key 'atempt'; did you mean attempt?"),
        ("[bank]\ndays = 1.5", "bank.days: 1.5; write days = 5: a whole number to 366"),
        ("[bank]\nper_chapter = 2", "bank: days is missing; write days = 5"),
        ("[bank]\ndays = 5\nper_chapters = 2", "bank: there is no key 'per_chapters'; did you mean per_chapter?"),
        ("bank = 5", "bank: 5; write [bank] with days = 5"),
        ("[sections.B]\nstudents = 'eve'", "sections.B.students: 'eve'; write students = [\"eve\", \"fay\"]"),
        ("[sections.B]\nstudents = []\ndue = { 03 = 2026-01-01T12:00:00Z }", "sections.B.due.03: no chapter '03'; there"),
        ("[sections.B]\nstudents = []\ndue = { 01 = 2026-01-01T12:00:00 }", "sections.B.due.01: '2026-01-01T12:00:00'"),
        ("[sections.B]\nstudents = []\ndue = { 01 = 2026-01-01 }", "sections.B.due.01: datetime.date(2026, 1, 1); write due"),
        ("[sections.B]\nstudents = ['e']\n[sections.C]\nstudents = ['e']", "sections.C.students: 'e' is in section B, too"),
        ("[weights]\n01 = 'much'", "weights.01: 'much'; write [weights] with a number for each chapter"),
        ("[weights]\n01 = 1\nfirst = 2", "weights.first: 01_first stands there under another name, too; keep one"),
        ("[weights]\n01 = 40", 'weights: 02_second: was graded, and has no weight; write "02_second" = 0 if it does not count'),
        ("weights = [", "is no TOML: "),
    ],
)  # fmt: skip
def test_a_slip_names_the_file_the_key_and_the_mend(graded, tmp_path, text, says):
    with pytest.raises(CourseError) as error:
        told(graded, tmp_path / "term.toml", text)
    assert str(error.value).startswith(f"{tmp_path / 'term.toml'}: {says}")
