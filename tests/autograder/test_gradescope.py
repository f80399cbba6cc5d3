"""A zip for Gradescope: its own `run_autograder` is executed as Gradescope documents, and says to each what is theirs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import courses
import lms_downloads
import pytest
from nbgrader.api import Gradebook
from small_course import CHECKS, NAME, RIGHT, SOURCE, command

from autograder.gradebook import late_penalty
from autograder.gradebook.record import Recorder
from autograder.model.course import checkout
from autograder.model.verdict import Fault, Mark, Result, Verdict
from autograder.submissions import intake

# gradescope/autograder_samples at af5dee4, docs/specs.md, "Output format" and "Test case status": what may stand where
VISIBILITY = {"hidden", "after_due_date", "after_published", "visible"}
FORMAT = {"text", "html", "simple_format", "md", "ansi"}
RESULTS: dict[str, Any] = {
    "score": float, "execution_time": float, "output": str, "output_format": FORMAT, "test_output_format": FORMAT,
    "test_name_format": FORMAT, "visibility": VISIBILITY, "stdout_visibility": VISIBILITY, "extra_data": dict, "tests": list,
    "leaderboard": list,
}  # fmt: skip
TEST: dict[str, Any] = {
    "score": float, "max_score": float, "status": {"passed", "failed"}, "name": str, "name_format": FORMAT, "number": str,
    "output": str, "output_format": FORMAT, "tags": list, "visibility": VISIBILITY, "extra_data": dict,
}  # fmt: skip

ADDRESSES = {"ada": "Ada@u.example", "bob": "bob@u.example", "cem": "cem@u.example", "dan": ""}
PAGE = (checkout() / "docs" / "instructor.md").read_text(encoding="utf-8")
PATTERN = re.search(r"`--name-pattern '(.*)'`", PAGE)[1]  # pyright: ignore[reportOptionalSubscript]
SECRET = "Only Ada is told so: see me."
EVIL = {**RIGHT, "double": "import os\nos.system('touch $PWD/executed')\ndef double(x):\n    return 2 * x"}
NOTEBOOKS = {"ada": RIGHT, "bob": EVIL, "cem": RIGHT, "dan": {**RIGHT, "why": "Dan's."}}


def documented(said: dict[str, Any], schema: dict[str, Any] = RESULTS) -> bool:
    """Whether each key is one that Gradescope documents, with a value that may stand there."""
    for key, value in said.items():
        kind = schema[key]
        if isinstance(kind, set):
            assert value in kind, (key, value)
        else:
            assert isinstance(value, (int, float) if kind is float else kind), (key, value)
            assert not isinstance(value, bool)
    return all(documented(test, TEST) for test in said.get("tests", ()))


def verdict(course, student: str) -> Verdict:
    chapter = course.chapter(NAME)
    double = 0.0 if student == "bob" else 2.0
    fault = Fault.NONE if double else Fault.STUDENT
    marks = (
        Mark("double", double, 2.0, Result.PASSED if double else Result.FAILED, fault, f"<b>To {student}.</b>\x1b"),
        Mark("shift", 3.0, 3.0, Result.PASSED, Fault.NONE, "Passed."),
        Mark("why", 0.0, 1.0, Result.MANUAL, Fault.NONE, "Graded by hand."),
    )
    return Verdict(student, NAME, "d" * 64, marks, 7, 0.4, chapter.release)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Ada and Cem handed in the same file, Cem a day late; Bob's would execute something; of Dan no address is known."""
    root = tmp_path_factory.mktemp("gradescope")
    course, out, folder = courses.write(root / "course", NAME, SOURCE, CHECKS), root / "out", root / "submissions"
    chapter = course.chapter(NAME)
    for student, answers in NOTEBOOKS.items():
        courses.hand_in(folder, student, NAME, courses.answered(course, NAME, answers))
    late_penalty.settle(out, chapter, "2026-01-05T12:00+00:00", "10%", None)
    with Recorder(out, chapter) as recorder:
        for each in intake.collect(folder, chapter):
            when = "2026-01-06 11:00:00 UTC" if each.student == "cem" else "2026-01-05 11:00:00 UTC"
            recorder.write(verdict(course, each.student), when, intake.read(each, chapter))
    with Gradebook(f"sqlite:///{out / 'gradebook.db'}", chapter.course) as book:
        for student in NOTEBOOKS:
            grade: Any = book.find_grade("why", NAME, NAME, student)
            grade.manual_score, grade.needs_manual_grade = 1.0, False
        book.find_comment("why", NAME, NAME, "ada").manual_comment = SECRET
        book.db.commit()
    roster = root / "class.csv"
    lines = [f"{student},{student.title()} X,{email}" for student, email in ADDRESSES.items()]
    roster.write_text("\n".join(["id,name,email", *lines]), encoding="utf-8")
    said = ("--out", out, "--gradescope", root / "autograder.zip", "--submissions", folder, "--roster", roster)
    return (
        course,
        folder,
        root / "autograder.zip",
        command("export", NAME, *said, root=course.root, columns=400, code=None),
    )


@pytest.fixture
def gradescope(exported, tmp_path: Path):
    """Run the zip's own program on what somebody hands in, in a folder as Gradescope makes it; what it says."""
    with zipfile.ZipFile(exported[2]) as archive:
        names = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
        assert {"setup.sh", "run_autograder"} <= names.keys()
        assert all(names[name] & 0o111 for name in ("setup.sh", "run_autograder"))
        archive.extractall(tmp_path / "source")
    program = tmp_path / "run_autograder"
    program.write_bytes((tmp_path / "source" / "run_autograder").read_bytes())
    program.chmod(0o755)

    def run(data: bytes, *emails: str, users: bool = True) -> dict[str, Any]:
        (tmp_path / "submission").mkdir(exist_ok=True)
        (tmp_path / "submission" / "anything.ipynb").write_bytes(data)
        (tmp_path / "results").mkdir(exist_ok=True)
        people = [{"email": email, "id": number, "name": "Student User"} for number, email in enumerate(emails)]
        told = {"id": 123456, "created_at": "2026-01-05T12:00:00.000000-07:00", "assignment": {"id": 25828}}
        told |= {"submission_method": "upload", "previous_submissions": []} | ({"users": people} if users else {})
        (tmp_path / "submission_metadata.json").write_text(json.dumps(told))
        done = subprocess.run([program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        said = json.loads((tmp_path / "results" / "results.json").read_text(encoding="utf-8"))
        assert documented(said)
        return said

    return run


def handed_in(exported, student: str) -> bytes:
    return (exported[1] / student / NAME / f"{NAME}.ipynb").read_bytes()


def ungraded(said: dict[str, Any]) -> bool:
    """Whether it says that there is no mark, and has no number that could be taken for one."""
    return "score" not in said and [sorted(test) for test in said["tests"]] == [
        ["name", "output", "status", "visibility"]
    ]


def test_each_gets_the_mark_that_stands_here_test_by_test(exported, gradescope):
    said = gradescope(handed_in(exported, "ada"), "ada@U.example")
    assert said["score"] == 6.0
    assert [(test["name"], test["score"], test["max_score"]) for test in said["tests"]] == [
        ("double", 2.0, 2.0), ("shift", 3.0, 3.0), ("why", 1.0, 1.0),
    ]  # fmt: skip
    assert SECRET in said["tests"][2]["output"]
    assert "\\x1b" in said["tests"][0]["output"]
    assert said["visibility"] == "after_published"


def test_of_two_with_the_same_file_each_reads_their_own(exported, gradescope):
    data = handed_in(exported, "cem")
    assert data == handed_in(exported, "ada")
    said = gradescope(data, "cem@u.example")
    assert said["score"] == 5.4  # a day late, 10 % of the 5 that the checks gave and the 1 by hand
    assert "0.6 points are taken off" in said["output"]
    assert SECRET not in json.dumps(said)
    assert "To ada" not in json.dumps(said)


def test_what_was_handed_in_is_never_executed(exported, gradescope, tmp_path):
    before = {path.name for path in tmp_path.iterdir()}
    said = gradescope(handed_in(exported, "bob"), "bob@u.example")
    assert said["score"] == 4.0
    assert {path.name for path in tmp_path.iterdir()} - before == {"submission", "submission_metadata.json", "results"}


def test_a_file_that_was_not_graded_gets_no_score_and_neither_does_anothers(exported, gradescope):
    for data, *emails in (
        (b"{}", "ada@u.example"),
        (handed_in(exported, "bob"), "ada@u.example"),  # a copy of Bob's
        (handed_in(exported, "ada"), "eve@u.example"),  # in no class
        (handed_in(exported, "ada"), "ada@u.example", "cem@u.example"),  # a group of whom each has another mark
    ):
        assert ungraded(gradescope(data, *emails)), emails


def test_where_nobody_is_told_the_file_alone_decides_if_it_is_one_students(exported, gradescope):
    assert gradescope(handed_in(exported, "bob"), users=False)["score"] == 4.0
    assert ungraded(gradescope(handed_in(exported, "ada"), users=False))


def test_no_link_of_a_submission_is_followed(exported, gradescope, tmp_path):
    outside = tmp_path / "outside.ipynb"
    outside.write_bytes(handed_in(exported, "bob"))
    (tmp_path / "submission").mkdir()
    (tmp_path / "submission" / "link.ipynb").symlink_to(outside)
    os.mkfifo(tmp_path / "submission" / "pipe")
    assert ungraded(gradescope(b"{}", "bob@u.example"))


def test_who_is_not_in_the_zip_is_told_and_so_is_another_notebook_than_was_graded(exported, tmp_path):
    course, folder, path, done = exported
    assert (done.returncode, f"{path}: of 3 students" in done.stdout) == (2, True), done.stderr
    assert done.stderr.count("not in the zip:") == 1
    assert "dan: no e-mail address of theirs is known; give a --roster with the column email" in done.stderr
    again = tmp_path / "again"
    courses.hand_in(again, "ada", NAME, handed_in(exported, "bob"))
    said = ("--out", path.parent / "out", "--gradescope", tmp_path / "a.zip", "--submissions", again)
    other = command(
        "export", NAME, *said, "--roster", path.parent / "class.csv", root=course.root, columns=400, code=None
    )
    assert other.returncode == 2
    assert "ada: in" in other.stderr
    assert "is another notebook than was graded last; grade it" in other.stderr
    assert "bob: no notebook of theirs is in" in other.stderr
    without = command("export", NAME, *said[:4], root=course.root, columns=400, code=None)
    assert (without.returncode, "--gradescope needs --submissions" in without.stderr) == (2, True)
    assert folder.is_dir()


def test_a_download_of_gradescopes_own_is_read_by_a_pattern_and_what_waits_has_no_score(exported, tmp_path):
    course, data = exported[0], handed_in(exported, "dan")
    out, chapter, roster = tmp_path / "out", course.chapter(NAME), tmp_path / "class.csv"
    with zipfile.ZipFile(tmp_path / "submissions.zip", "w") as archive:
        lms_downloads.put(archive, "assignment_1_export/submission_metadata.yml", b"submission_456: {}")
        lms_downloads.put(archive, "assignment_1_export/submission_456/mine.ipynb", data)
    with Recorder(out, chapter) as recorder:
        answers = replace(intake.of_bytes(data, chapter, []), student="submission_456")
        recorder.write(verdict(course, "submission_456"), None, answers)
    roster.write_text("id,name,email\nsubmission_456,Dan X,dan@u.example\n", encoding="utf-8")
    said = ("--out", out, "--gradescope", tmp_path / "a.zip", "--submissions", tmp_path / "submissions.zip")
    said += ("--roster", roster, "--name-pattern", PATTERN)
    done = command("export", NAME, *said, root=course.root, columns=400, code=None)
    assert (done.returncode, "submission_456: 1 exercise waits for a mark by hand" in done.stderr) == (2, True)
    done = command("export", NAME, *said, "--waiting", root=course.root, columns=400, code=None)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        (name,) = (name for name in archive.namelist() if name.startswith("marks/"))
        result = json.loads(archive.read(name))
    assert documented(result)
    assert (result["score"], sorted(result["tests"][2])) == (5.0, ["name", "output"])


def test_the_zip_is_for_the_teacher_alone_and_names_nobody(exported):
    path = exported[2]
    assert path.stat().st_mode & 0o777 == 0o600
    with zipfile.ZipFile(path) as archive:
        assert not [name for name in archive.namelist() for student in ADDRESSES if student in name]
