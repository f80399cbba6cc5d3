"""Through `autograder feedback --zip`: pages named as the systems' own uploads read them, and whose page is not in it."""

from __future__ import annotations

import io
import json
import re
import zipfile
from pathlib import Path

import classroom
import lms_downloads
import nbformat
import pytest
from classroom import PASSED
from small_course import NAME, command

from autograder.export import returned
from autograder.model.course import Course
from autograder.model.verdict import Result
from autograder.submissions import handed_in
from autograder.submissions.downloads import gathered

HOSTILE = "</code>`](javascript:1) <script>alert(1)</script>"


def canvas_takes(path: Path, handed: dict[str, tuple[str, str]]) -> dict[str, tuple[str, bytes]]:
    """What Canvas would attach: the user's number -> what the file is called there, and the file.

    `handed`: a file's number -> whose it is, and its name (abstract_assignment.rb, infer_comment_context_from_filename).
    """
    taken = {}
    with zipfile.ZipFile(path) as archive:
        for full in archive.namelist():
            name = full.rsplit("/", 1)[-1]
            parts = name.split("_")
            user, file, *_ = [*(part for part in parts if re.fullmatch(r"[0-9]+", part)), "", ""]
            if parts[-1].startswith("link") or name.startswith("._") or handed.get(file, ("", ""))[0] != user:
                continue
            assert user not in taken
            taken[user] = (handed[file][1], archive.read(full))
    return taken


def moodle_takes(path: Path, participants: set[str]) -> dict[str, tuple[str, bytes]]:
    """What Moodle would take: the participant's number -> the file's name, and the file (importziplib.php)."""
    taken = {}
    with zipfile.ZipFile(path) as archive:
        for full in archive.namelist():
            left = ["", "import", *full.split("/")]
            if left[-1].startswith((".", "~")):
                continue
            while left:
                info = left.pop(0).split("_", 4)
                if len(info) < 4 or not info[1].isdecimal() or info[1] not in participants:
                    continue
                assert info[2:4] == ["assignsubmission", "file"]
                name = "/".join([*info[4:], *left]).strip("/")
                assert info[1] not in taken
                taken[info[1]] = (name, archive.read(full))
                break
    return taken


def record(course: Course, out: Path, *students: str, waiting: str = "") -> None:
    """Everybody got 5 of 6; whose answer is `waiting` gets its last point by hand."""
    chapter = course.chapter(NAME)
    for student in students:
        why = (Result.MANUAL if student == waiting else Result.FAILED, 0.0, f"It is {student}.")
        marks = (PASSED, (Result.PASSED, 1.0, HOSTILE), why)
        classroom.record(out, classroom.verdict(student, *marks, tiny=chapter), tiny=chapter)


def collected(course: Course, out: Path, source: Path, roster: Path | None = None) -> tuple[str, ...]:
    with gathered(source, course.chapter(NAME), roster=roster) as found:
        handed_in.write_list(out, found, NAME)
        return found.students


def test_canvas_takes_each_notebook_to_its_student_by_the_numbers_of_what_they_handed_in(small: Course, tmp_path: Path):
    out, source, roster = tmp_path / "out", tmp_path / "submissions.zip", tmp_path / "class.csv"
    names = {
        "9100": ("100", f"{NAME}.ipynb"),
        "9101": ("101", "100_9100_link.ipynb"),  # a student calls their file as if it were Ada's
        "9102": ("102", f"{NAME}.ipynb"),
        "9103": ("103", "report.pdf"),
    }
    with zipfile.ZipFile(source, "w") as archive:
        for file, (user, name) in names.items():
            late = "LATE_" if user == "102" else ""
            lms_downloads.put(archive, f"student{user}_{late}{user}_{file}_{name}", b"{}")
    roster.write_text("id,lms id\n4100,100\n.9100_x,101\ncem,102\ndan,103\n", encoding="utf-8")
    students = collected(small, out, source, roster)
    assert len(students) == 4
    record(small, out, *students, "elsewhere", waiting="cem")
    done = command("feedback", "90", "--out", out, "--zip", "canvas", root=small.root, code=2)
    assert "cem: 1 exercise waits for a mark by hand; give them in the formgrader, or add --waiting" in done.stderr
    assert "elsewhere: no file in handed_in_90_small.csv; give it back by hand" in done.stderr
    assert (
        "not in the zip: dan: handed in no notebook, and Canvas takes back notebooks alone" in done.stderr
    )  # Canvas would call the notebook report.pdf
    path = out / "export" / f"feedback_{NAME}_canvas.zip"
    taken = canvas_takes(path, names)
    assert taken.keys() == {"100", "101"}
    for user, student in (("100", "4100"), ("101", students[0])):
        name, data = taken[user]
        assert name.endswith(".ipynb")
        notebook = nbformat.reads(data.decode(), 4)
        nbformat.validate(notebook)
        assert notebook.cells[0].source.startswith("# Small: 5 of 6 points")
        assert f"It is {student}." in notebook.cells[0].source
        assert f"```\n{HOSTILE}\n```" in notebook.cells[0].source
    before = path.read_bytes()
    command("feedback", "90", "--out", out, "--zip", "canvas", "--waiting", root=small.root, code=2)
    assert canvas_takes(path, names).keys() == {"100", "101", "102"}
    assert before != path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600


def test_moodle_takes_each_page_to_its_participant(small: Course, tmp_path: Path):
    out, source = tmp_path / "out", tmp_path / "moodle.zip"
    with zipfile.ZipFile(source, "w") as archive:
        for folder in ("Ada Lovelace_200", "201_201", "Eve..x_202", "Bob_203", "Bob_204"):
            lms_downloads.put(archive, f"{folder}_assignsubmission_file_/{NAME}.ipynb", b"{}")
        lms_downloads.put(archive, "Dan_205_assignsubmission_file_/report.pdf", b"%PDF")
    students = collected(small, out, source)
    record(small, out, *students)
    command("feedback", "90", "--out", out, "--zip", "moodle", root=small.root)
    taken = moodle_takes(out / "export" / f"feedback_{NAME}_moodle.zip", {str(number) for number in range(200, 206)})
    assert {number: name for number, (name, _) in taken.items()} == {
        str(number): f"{NAME}.html" for number in range(200, 206)
    }
    assert b"It is Ada Lovelace." in taken["200"][1]
    assert b"It is Bob_204." in taken["204"][1].replace(b"<wbr>", b"")
    assert b"<script>" not in taken["200"][1]
    with zipfile.ZipFile(out / "export" / f"feedback_{NAME}_moodle.zip") as archive:
        assert all(part.count("_") == 4 for part in (name.split("/")[0] for name in archive.namelist()))
    other = command("feedback", "90", "--out", out, "--zip", "canvas", root=small.root, code=2)
    assert "these are no files of a Canvas download" in other.stderr


def test_for_any_other_system_there_is_a_folder_a_student(small: Course, tmp_path: Path):
    record(small, tmp_path, "ada", "bob")
    command("feedback", "90", "--out", tmp_path, "--zip", "folders", root=small.root)
    data = (tmp_path / "export" / f"feedback_{NAME}_folders.zip").read_bytes()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.namelist() == [f"{student}/{NAME}/{NAME}.html" for student in ("ada", "bob")]
        assert b"It is bob." in archive.read(f"bob/{NAME}/{NAME}.html")
    unknown = command("feedback", "90", "--out", tmp_path, "--zip", "blackboard", root=small.root, code=2)
    assert "give one of canvas, moodle, folders" in unknown.stderr
    none = command("feedback", "90", "--out", tmp_path, "--zip", "moodle", root=small.root, code=2)
    assert "nothing says which file was whose" in none.stderr


def test_what_two_students_handed_in_from_one_account_goes_back_to_neither(small: Course, tmp_path: Path):
    record(small, tmp_path, "ada", "eve")
    lines = "file,student,taken,when,when_from,note\n"
    lines += "".join(f"x_100_{file}_{NAME}.ipynb,{who},yes,,,\n" for file, who in ((9100, "ada"), (9101, "eve")))
    (tmp_path / f"handed_in_{NAME}.csv").write_text(lines)
    done = command("feedback", "90", "--out", tmp_path, "--zip", "canvas", root=small.root, code=2)
    assert "ada: eve handed in from the same account" in done.stderr
    with zipfile.ZipFile(tmp_path / "export" / f"feedback_{NAME}_canvas.zip") as archive:
        assert archive.namelist() == []


@pytest.mark.parametrize("student", ["12345", "_1_2_", "a/b", "..", "=1+1", "ünï 7"])
def test_an_id_is_never_a_number_in_a_name_and_parts_none(student: str):
    made = returned._words(student)
    assert not made.isdecimal()
    assert not set(made) & set("/\\_=")
    assert not made.startswith(".")
    json.dumps(made)


def test_folders_that_are_one_where_case_and_accents_are_written_otherwise_go_back_to_neither(small: Course):
    """Unpacked on macOS or Windows, one student's page would lie in another's folder."""
    made = returned.Returned()
    students = {"ada", "ADA", "Jose\u0301", "Jos\u00e9", "bob", "a\\x", "a-x"}
    names = returned._folders(small.chapter(NAME), students, made)
    assert names.keys() == {"bob"}
    assert len(made.troubles) == len(students) - 1
    assert "ada: another's folder would be called alike; give it back by hand" in made.troubles
