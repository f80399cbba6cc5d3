"""Marks on their way back: filled into what was downloaded, and read as the systems' own importers do."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from pathlib import Path

import classroom
import courses
import lms_downloads
import pytest
from small_course import CHECKS, CODE, NAME, RIGHT, command

from autograder.gradebook import record
from autograder.model.course import Course

FORMULA = "=HYPERLINK(0)"
HALF = {**RIGHT, "shift": "def shift(x, by):\n    return x"}
CLASS = {100: ("lovelaceada", RIGHT), 101: ("brownbob", HALF), 102: ("oeztuerkcem", RIGHT)}
HEAD = [
    "Student",
    "ID",
    "SIS User ID",
    "SIS Login ID",
    "Section",
    "Notes",
    "Small (7001)",
    "Essay (7002)",
    "Final Score",
]
CANVAS = [
    ["", "", "", "", "", "", "Manual Posting", "", ""],
    ["    Points Possible", "", "", "", "", "", "5", "10", "(read only)"],
    ["Lovelace, Ada", "100", "s-100", "ada", "A", "", "", "9", "90"],
    [FORMULA, "101", "s-101", "+cmd|' /C calc'!A0", "A", "", "4.5", "8", "80"],
    ["Öztürk, Cem", "102", "s-102", "cem", "B", "", "EX", "7", "70"],
    ["Absent, Abe", "109", "s-109", "abe", "B", "", "1.5", "", "15"],
    ["Student, Test", "110", "", "9f3", "A", "", "", "", ""],
]
MOODLE_HEAD = [
    "Identifier", "Full name", "Email address", "Status", "Grade", "Maximum Grade", "Grade can be changed",
    "Last modified (submission)", "Last modified (grade)", "Feedback comments",
]  # fmt: skip
NOW = "Monday, 30 November 2026, 11:59 PM"
MOODLE = [
    ["Participant 200", "Ada Lovelace", "ada@u.example", "Submitted", "", "5,00", "Yes", NOW, "-", "=1+1"],
    ["Participant 201", FORMULA, "bob@u.example", "Submitted", "4,00", "5,00", "Yes", NOW, NOW, ""],
    ["Participant 209", "Abe Absent", "abe@u.example", "No submission", "-", "5,00", "Yes", "-", "-", ""],
]


def canvas_imports(path: Path) -> dict[str, dict[str, str]]:
    """What Canvas would take: the user's number -> assignment's number -> grade (lib/gradebook_importer.rb)."""
    rows = [row for row in csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"))) if any(row)]
    head = rows[0]
    assert len(head) > 3
    assert "Student" in head[0]
    assert "ID" in head[1]
    columns = 3
    if re.search(r"SIS\s+Login\s+ID", head[2]):
        columns += 1
    elif re.search(r"SIS\s+User\s+ID", head[2]) and re.search(r"SIS\s+Login\s+ID", head[3]):
        columns += 2
    assert "Section" in head[columns - 1]
    numbers = {at: found[1] for at in range(columns, len(head)) if (found := re.search(r"\((\d+)\)$", head[at]))}
    assert len(numbers) == len(head) - columns, "Canvas would make a new assignment of another column"
    grades = {}
    for row in rows[1:]:
        if "Points Possible" in row[0] or all(
            re.fullmatch(r"\s*(Muted|Manual Posting.*)?\s*", cell, re.I) for cell in row
        ):
            continue
        grades[row[1]] = {number: row[at].strip() for at, number in numbers.items()}
    return grades


def moodle_imports(path: Path) -> dict[int, float]:
    """What Moodle would take: the participant's number -> grade (mod/assign/feedback/offline), in a country of commas."""
    head, *rows = csv.reader(io.StringIO(path.read_text(encoding="utf-8")))
    who, grade, modified = (head.index(name) for name in ("Identifier", "Grade", "Last modified (grade)"))
    found = {}
    for row in rows:
        assert row[modified]
        said = row[grade].replace(",", ".")
        if re.fullmatch(r"[0-9.]+", said):
            found[int(row[who][len("Participant ") :])] = float(said)
    return found


def sheet(path: Path, head: list[str], rows: list[list[str]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([head, *rows])
    return path


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Course:
    return courses.write(tmp_path_factory.mktemp("checked"), NAME, CODE, CHECKS)


def downloaded(path: Path, checked: Course, *numbers: int) -> Path:
    """Canvas's zip of these students."""
    with zipfile.ZipFile(path, "w") as archive:
        for number in numbers:
            name, answers = CLASS[number]
            data = courses.answered(checked, NAME, answers)
            lms_downloads.put(archive, f"{name}_{number}_9{number}_{NAME}.ipynb", data)
    return path


@pytest.fixture(scope="module")
def by_canvas(checked: Course, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """OUT of a class that came from Canvas."""
    folder = tmp_path_factory.mktemp("canvas")
    source, out = downloaded(folder / "submissions.zip", checked, *CLASS), folder / "out"
    command("grade", "90", "--submissions", source, "--out", out, root=checked.root)
    return out


def test_a_gradebook_of_canvas_comes_back_with_its_column_filled_and_nothing_else(
    checked: Course, by_canvas: Path, tmp_path: Path
):
    book = sheet(tmp_path / "gradebook.csv", HEAD, CANVAS)
    before = book.read_bytes()
    # 2: Cem's mark is not in it, and that is said
    done = command("export", "90", "--out", by_canvas, "--canvas", book, root=checked.root, code=2)
    path = by_canvas / "export" / "gradebook.csv"
    grades = canvas_imports(path)
    assert {student: mine["7001"] for student, mine in grades.items()} == {
        "100": "5", "101": "2", "102": "EX", "109": "1.5", "110": "",
    }  # fmt: skip
    assert all(mine.keys() == {"7001"} for mine in grades.values())
    assert "not exported: oeztuerkcem_102, 90_small: is excused there; the cell stays" in done.stderr
    assert "2 marks, 1 of them in place of another; 2 cells as they were" in done.stdout
    assert not re.search(r"(?m)(^|,)\"?[=+@]", path.read_text())
    assert "'=HYPERLINK(0)" in path.read_text()
    assert book.read_bytes() == before


def test_a_column_is_named_where_it_is_called_otherwise_and_other_points_are_refused(
    checked: Course, by_canvas: Path, tmp_path: Path
):
    rows = [[cell if cell != "EX" else "" for cell in row] for row in CANVAS]
    book = sheet(tmp_path / "gradebook.csv", [cell.replace("Small", "Week 1") for cell in HEAD], rows)
    call = ("export", "90", "--out", by_canvas, "--canvas", book, "--to", tmp_path / "filled.csv")
    unknown = command(*call, root=checked.root, code=2)
    assert "no column is called like 90_small" in unknown.stderr
    assert "'Week 1 (7001)', 'Essay (7002)'" in unknown.stderr
    command(*call, "--column", "90=7001", root=checked.root)
    assert canvas_imports(tmp_path / "filled.csv")["101"] == {"7001": "2"}
    other = command(*call, "--column", "90=Essay", root=checked.root, code=2)
    assert "10 points are possible there, 5 here" in other.stderr
    command(*call, "--column", "90=Essay", "--scale", root=checked.root)
    assert canvas_imports(tmp_path / "filled.csv")["101"] == {"7002": "4"}


def test_a_worksheet_of_moodle_comes_back_with_its_grades(checked: Course, tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "s.zip", "w") as archive:
        for number, name, answers in ((200, "Ada Lovelace", RIGHT), (201, "Bob Brown", HALF)):
            path = f"{name}_{number}_assignsubmission_file_/{NAME}.ipynb"
            lms_downloads.put(archive, path, courses.answered(checked, NAME, answers))
        # called like another's address: a display name is the student's own choice
        path = f"abe@u.example_202_assignsubmission_file_/{NAME}.ipynb"
        lms_downloads.put(archive, path, courses.answered(checked, NAME, RIGHT))
    out = tmp_path / "out"
    command("grade", "90", "--submissions", tmp_path / "s.zip", "--out", out, root=checked.root)
    work = sheet(tmp_path / "worksheet.csv", MOODLE_HEAD, MOODLE)
    done = command("export", "90", "--out", out, "--moodle", work, root=checked.root, code=2)
    path = out / "export" / "worksheet.csv"
    assert moodle_imports(path) == {200: 5.0, 201: 2.0}
    assert "abe@u.example: has a mark, but no row" in done.stderr
    assert "Feedback comments" not in path.read_text()  # Moodle would write them back
    assert not re.search(r"(?m)(^|,)\"?[=+@]", path.read_text())
    german = sheet(tmp_path / "bewertung.csv", ["ID", "Bewertung"], [["Teilnehmer/in 200", ""]])
    other = command("export", "90", "--out", out, "--moodle", german, root=checked.root, code=2)
    assert "names no Identifier, Grade" in other.stderr


@pytest.mark.whole
def test_what_waits_for_a_mark_by_hand_is_not_exported_unless_said(small: Course, hand_in, tmp_path: Path):
    out = tmp_path / "out"
    command("grade", "90", "--submissions", hand_in("ada"), "--out", out, root=small.root)
    rows = [["    Points Possible", "", "", "", "", "", "6", "10", ""], *CANVAS[2:3]]
    book = sheet(tmp_path / "gradebook.csv", HEAD, rows)
    call = ("export", "90", "--out", out, "--canvas", book)
    done = command(*call, root=small.root, code=2)
    assert "ada, 90_small: 1 exercise waits for a mark by hand" in done.stderr
    assert canvas_imports(out / "export" / "gradebook.csv") == {"100": {"7001": ""}}
    done = command(*call, "--waiting", root=small.root)  # found by the login
    assert "ada, 90_small: 1 exercise waits for a mark by hand, counted 0; 5 points as it stands" in done.stderr
    assert "gradebook.csv: 1 mark," in done.stdout.replace("\n", "")
    assert canvas_imports(out / "export" / "gradebook.csv") == {"100": {"7001": "5"}}


def test_a_mark_that_is_too_high_is_not_said_to_be_exported_though_another_waits(small: Course, tmp_path: Path):
    out, chapter = tmp_path / "out", small.chapter(NAME)
    classroom.record(out, classroom.verdict("ada", tiny=chapter), tiny=chapter)
    with record.book(out, chapter) as opened:
        opened.find_grade(chapter.exercises[0].grade_id, NAME, NAME, "ada").manual_score = 3.0
        opened.db.commit()
    rows = [["    Points Possible", "", "", "", "", "", "6", "10", ""], *CANVAS[2:3]]
    book = sheet(tmp_path / "gradebook.csv", HEAD, rows)
    done = command("export", "90", "--out", out, "--canvas", book, "--waiting", root=small.root, code=2)
    [said] = [line for line in done.stderr.splitlines() if "ada, 90_small" in line]
    assert said.startswith("not exported: ada, 90_small: `double`: 3 of 2 points by hand; mend it in the formgrader")


def test_zeros_alone_are_not_exported_while_the_others_wait(small: Course, hand_in, tmp_path: Path):
    out = tmp_path / "out"
    hand_in("bob", {})
    command("grade", "90", "--submissions", hand_in("ada"), "--out", out, root=small.root)
    rows = [
        ["    Points Possible", "", "", "", "", "", "6", "10", ""],
        CANVAS[2],
        ["B", "101", "", "bob", *CANVAS[2][4:]],
    ]
    call = ("export", "90", "--out", out, "--canvas", sheet(tmp_path / "gradebook.csv", HEAD, rows))
    done = command(*call, root=small.root, code=2)
    assert not (out / "export").exists()
    assert "1 student has no mark yet, and the other 1 has 0" in " ".join(done.stderr.split())
    command(*call, "--waiting", root=small.root)
    assert canvas_imports(out / "export" / "gradebook.csv") == {"100": {"7001": "5"}, "101": {"7001": "0"}}


def test_what_is_no_gradebook_is_refused_with_the_mend(checked: Course, by_canvas: Path, tmp_path: Path):
    book = sheet(tmp_path / "gradebook.csv", ["name", "mark"], [["Ada", "1"]])
    done = command("export", "90", "--out", by_canvas, "--canvas", book, root=checked.root, code=2)
    assert "Export Entire Gradebook" in done.stderr
    neither = command("export", "90", "--out", by_canvas, root=checked.root, code=2)
    assert "give one of --canvas FILE and --moodle FILE" in neither.stderr
    own = sheet(tmp_path / "own.csv", HEAD, CANVAS)
    said = ("--canvas", own, "--to", own)
    same = command("export", "90", "--out", by_canvas, *said, root=checked.root, code=2)
    assert "that is the download itself" in same.stderr


def test_a_mark_is_exported_without_what_was_late(checked: Course, tmp_path: Path):
    courses.hand_in(tmp_path / "class", "ada", NAME, courses.answered(checked, NAME, RIGHT))
    place = tmp_path / "class" / "ada" / NAME
    (place / "timestamp.txt").write_text("2026-12-01 12:00:00 UTC")
    said = ("--due", "2026-11-30T23:59+00:00", "--late-per-day", "10%")
    out = tmp_path / "out"
    command("grade", "90", "--submissions", tmp_path / "class", "--out", out, *said, root=checked.root)
    assert (out / "totals.csv").read_text().splitlines()[1].startswith("ada,90_small,5,0.5,4.5,5,")
    book = sheet(tmp_path / "gradebook.csv", HEAD, CANVAS[:3])
    command("export", "90", "--out", out, "--canvas", book, root=checked.root)
    assert canvas_imports(out / "export" / "gradebook.csv") == {"100": {"7001": "4.5"}}


def test_semicolons_and_the_byte_order_mark_stay_and_a_student_who_fits_two_rows_is_told(
    checked: Course, by_canvas: Path, tmp_path: Path
):
    book = tmp_path / "gradebook.csv"
    twice = [*CANVAS[:3], ["Lovelace, Ada", "100", "s-99", "ada2", "B", "", "", "", ""], CANVAS[3]]
    with book.open("w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file, delimiter=";").writerows([HEAD, *twice])
    done = command(
        "export", "90", "--out", by_canvas, "--canvas", book, "--to", tmp_path / "new.csv", root=checked.root, code=2
    )
    assert "lovelaceada_100: fits 2 rows" in done.stderr
    data = (tmp_path / "new.csv").read_bytes()
    assert data.startswith("\ufeffStudent;ID;SIS User ID;SIS Login ID;Section;Small (7001)\n".encode())
    rows = list(csv.reader(io.StringIO(data.decode("utf-8-sig")), delimiter=";"))
    assert [(row[1], row[-1]) for row in rows[3:]] == [("100", ""), ("100", ""), ("101", "2")]
