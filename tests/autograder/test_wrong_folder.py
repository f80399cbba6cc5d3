"""Through the command: another chapter's notebooks, empty folders and folders of zips are said to be what they are."""

import courses
import pytest
from boxed import needs_a_box
from small_course import NAME, OTHER, RIGHT, command, with_another

from autograder.model.course import Course


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> Course:
    return with_another(tmp_path_factory.mktemp("two"))


def hand_in(course, folder, student, of=NAME, answers=RIGHT):
    courses.hand_in(folder, student, NAME, courses.answered(course, of, answers))


def marks(out):
    return [(row["student"], row["verdict"], row["message"]) for row in courses.table(out / "marks.csv")]


@needs_a_box
def test_who_hands_in_another_chapters_notebook_is_told_so_and_the_rest_is_graded(two, tmp_path):
    for student in ("ada", "bob"):
        hand_in(two, tmp_path / "class", student)
    hand_in(two, tmp_path / "class", "cem", of=OTHER)
    command("grade", NAME, "--submissions", tmp_path / "class", "--out", tmp_path / "out", root=two.root)
    found = marks(tmp_path / "out")
    says = f"{NAME}.ipynb: this is chapter 07's notebook (07_other); hand in chapter 90's"
    assert [row for row in found if row[0] == "cem"] == [("cem", "invalid", says)] * 3
    assert [row[1] for row in found if row[0] == "ada"] == ["passed", "passed", "manual"]


def test_where_most_notebooks_are_another_chapters_the_command_stops_and_says_which(two, tmp_path):
    hand_in(two, tmp_path / "class", "ada")
    for student in ("bob", "cem", "dan"):
        hand_in(two, tmp_path / "class", student, of=OTHER)
    asked = ("grade", NAME, "--submissions", tmp_path / "class", "--out", tmp_path / "out", "--trust-submissions")
    done = command(*asked, root=two.root, code=2)
    assert "3 of 4 notebooks are chapter 07's (07_other), not 90_small's: nobody was graded" in done.stderr
    assert "run `autograder grade 07`" in done.stderr
    assert not (tmp_path / "out" / "gradebook.db").exists()


def refused(course, source, *more):
    out = source.parent / "out"
    done = command(
        "grade", NAME, "--submissions", source, "--out", out, "--trust-submissions", *more, root=course.root, code=2
    )
    assert not (out / "marks.csv").exists()
    return done.stderr


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ([".DS_Store"], "there is nothing in it; give the folder, or the zip, that holds"),
        (["submissions.zip", "submissions-1.zip"], "give one of the 2 by itself: --submissions {}/submissions-1.zip"),
        (["readme.txt"], f"there is no <student>/{NAME}/{NAME}.ipynb in it"),
    ],
)
def test_a_folder_without_a_submission_is_refused_with_the_mend(two, tmp_path, files, says):
    (tmp_path / "class").mkdir()
    for name in files:
        (tmp_path / "class" / name).write_bytes(b"")
    assert says.format(tmp_path / "class") in refused(two, tmp_path / "class")


def test_notebooks_directly_in_their_students_folders_are_refused_with_the_pattern_that_takes_them(two, tmp_path):
    hand_in(two, tmp_path / "there", "ada")
    (tmp_path / "class" / "ada").mkdir(parents=True)
    (tmp_path / "there" / "ada" / NAME / f"{NAME}.ipynb").rename(tmp_path / "class" / "ada" / "mine.ipynb")
    said = refused(two, tmp_path / "class")
    assert "as ada/mine.ipynb does" in said
    pattern = said.partition("--name-pattern '")[2].partition("'")[0]
    asked = ("grade", NAME, "--submissions", tmp_path / "class", "--out", tmp_path / "out", "--trust-submissions")
    command(*asked, "--name-pattern", pattern, root=two.root)
    assert {(student, mark) for student, mark, _ in marks(tmp_path / "out") if mark == "passed"} == {("ada", "passed")}


def test_a_notebook_of_the_chapters_name_that_lies_too_high_is_taken_and_another_is_not_absent(two, tmp_path):
    hand_in(two, tmp_path / "class", "ada")
    hand_in(two, tmp_path / "class", "bob")
    (tmp_path / "class" / "bob" / NAME / f"{NAME}.ipynb").rename(tmp_path / "class" / "bob" / f"{NAME}.ipynb")
    (tmp_path / "class" / "bob" / NAME).rmdir()
    (tmp_path / "class" / "cem").mkdir()
    hand_in(two, tmp_path / "class", "dan")
    (tmp_path / "class" / "dan" / NAME / f"{NAME}.ipynb").rename(tmp_path / "class" / "dan" / "mine.ipynb")
    (tmp_path / "class" / "dan" / NAME).rmdir()
    asked = ("grade", NAME, "--submissions", tmp_path / "class", "--out", tmp_path / "out", "--trust-submissions")
    done = command(*asked, root=two.root, code=2)
    assert f"dan/mine.ipynb (dan): it lies beside where {NAME}/ belongs; move it" in " ".join(done.stderr.split())
    assert "(cem)" not in done.stderr
    assert "(bob)" not in done.stderr
    found = {student: (mark, message) for student, mark, message in marks(tmp_path / "out")[::3]}
    assert (found["ada"][0], found["bob"][0], found["cem"][0]) == ("passed", "passed", "absent")
    assert found["dan"] == ("invalid", f"handed in mine.ipynb; call it {NAME}.ipynb")


@needs_a_box
def test_who_hands_in_a_pdf_among_nbgraders_folders_is_told_so(two, tmp_path):
    hand_in(two, tmp_path / "class", "ada")
    (tmp_path / "class" / "bob" / NAME).mkdir(parents=True)
    (tmp_path / "class" / "bob" / NAME / "report.pdf").write_bytes(b"%PDF")
    command("grade", NAME, "--submissions", tmp_path / "class", "--out", tmp_path / "out", root=two.root)
    says = f"handed in report.pdf; hand in the notebook {NAME}.ipynb"
    assert [row for row in marks(tmp_path / "out") if row[0] == "bob"] == [("bob", "invalid", says)] * 3
