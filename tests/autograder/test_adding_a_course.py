"""docs/adding-a-course.md, followed step by step; `autograder new`; a course in none of whose processes TensorFlow is."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import courses
import pytest
import yaml
from boxed import needs_a_box
from followed import PATIENCE, follow_page, page
from small_course import CHECKS, CODE, NAME, command

from autograder.authoring import new, verify
from autograder.model import headers
from autograder.model.course import Course

pytestmark = needs_a_box

PAGE = page("adding-a-course.md")


@pytest.mark.classes
def test_whoever_follows_the_page_has_a_course_that_grades(tmp_path: Path):
    follow_page(PAGE, tmp_path)
    assert Course.read(tmp_path / "means").full_name("01") == "01_row_means"
    page = tmp_path / "means" / "graded" / "feedback" / "ada" / "01_row_means" / "01_row_means.html"
    assert page.stat().st_size > 0


@pytest.mark.whole
def test_the_smallest_course_builds_its_checks_do_what_they_must_and_it_grades(tmp_path: Path):
    root = tmp_path / "my courses" / "linear algebra 2"  # blanks are quoted where they must be
    said = command("new", root, columns=200).stdout
    assert f"then: cd {shlex.quote(str(root))}" in said
    course = Course.read(root)
    assert (course.id, course.title) == ("linear-algebra-2", "Linear algebra 2")
    assert command("build", "--check", root=root).returncode == 0
    verified = verify.verify(course, new.CHAPTER, exercises=["row_means"], seeds=1, quick=True)
    assert list(verify.complaints(verified)) == []
    assert (verified.wrong, verified.right) == (2, 1)
    assert len((root / "README.md").read_text().splitlines()) <= 10
    workflow = yaml.safe_load((root / ".github" / "workflows" / "course.yml").read_text())
    runs = [step.get("run", "") for step in workflow["jobs"]["course"]["steps"]]
    assert {"autograder build --check", "autograder run", "autograder verify"} < set(runs)
    command("grade", "01", "--submissions", root / "submitted", "--out", root / "graded", root=root)
    row = courses.marks(root / "graded")["ada", "row_means"]
    assert (row["points"], row["misconception"]) == ("0", "columns")


@pytest.mark.parametrize(
    ("there", "says"), [("full/notes.txt", "there is something already"), ("full", "full is a file")]
)
def test_a_course_is_made_where_nothing_is(tmp_path: Path, there: str, says: str):
    (tmp_path / there).parent.mkdir(exist_ok=True)
    (tmp_path / there).write_text("mine")
    said = command("new", tmp_path / "full", code=2).stderr
    assert says in " ".join(said.split())
    assert "give the name of a new folder" in " ".join(said.split())
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [Path(there).name]


def test_a_new_repository_is_an_empty_folder(tmp_path: Path):
    (tmp_path / ".git").mkdir()
    new.new(tmp_path)
    assert Course.read(tmp_path).chapters == (new.CHAPTER,)


@pytest.mark.parametrize("kind", [headers.CourseFile, headers.Header])
def test_the_page_explains_every_key_and_no_other(kind):
    explained = [set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) for table in PAGE.split("| key |")[1:]]
    assert set(kind.__struct_fields__) in explained


LOADED = """
@probe
def loaded(student):
    import sys
    return [sorted(name for name in sys.modules if "tensorflow" in name or "keras" in name), "tf" in globals()]

@exercise("double")
def test_what_is_loaded(student):
    import sys
    modules, tf_is_there = student.ask(loaded)
    assert modules == [], f"The kernel has imported {modules}."
    assert tf_is_there is False, "A probe found tf."
    assert not [name for name in sys.modules if "tensorflow" in name], "The checker has imported TensorFlow."
"""
GRADE = """
import sys
from pathlib import Path

from autograder.authoring import build
from autograder.engine import class_run
from autograder.job import forkserver
from autograder.model.course import Course

course = Course.read(Path(sys.argv[1]))
rubric = forkserver.make_rubric(course, sys.argv[2])
verdict = class_run.try_reference(course, rubric, build.solution_source(course, sys.argv[2]))
servers = forkserver.servers(course, rubric)
pids = ["self", *(server.process.pid for server in (servers.student, servers.checker, servers.driver))]
for pid in pids:
    maps = Path(f"/proc/{pid}/maps").read_text()
    print("numpy" in maps, "tensorflow" in maps)
print("points", verdict.points)
class_run.close()
"""


def graded(root: Path, checks: str, *preload: str) -> list[list[bool]]:
    """Whether NumPy and TensorFlow are in the memory of the grader, and of its servers: student's, checker's, driver's."""
    course = courses.write(root, NAME, CODE, checks, preload)
    call = [sys.executable, "-c", GRADE, str(course.root), NAME]
    ran = subprocess.run(call, capture_output=True, text=True, timeout=PATIENCE)
    assert ran.returncode == 0, ran.stderr
    *maps, points = ran.stdout.splitlines()
    assert points == "points 5.0"
    return [[each == "True" for each in line.split()] for line in maps]


@pytest.mark.whole
def test_a_course_without_tensorflow_has_it_in_no_process(tmp_path: Path):
    maps = graded(tmp_path, CHECKS + LOADED)
    assert [tensorflow for _, tensorflow in maps] == [False] * 4
    assert [numpy for numpy, _ in maps[1:3]] == [True] * 2  # the look at a server's memory does see libraries


@pytest.mark.whole
def test_a_course_that_preloads_tensorflow_has_it_before_a_kernel_is_forked(tmp_path: Path):
    loaded = LOADED.replace("modules == []", "'tensorflow' in modules").replace("tf_is_there is False", "tf_is_there")
    maps = graded(tmp_path, CHECKS + loaded.replace("assert not [name", "assert [name"), "tensorflow")
    assert [tensorflow for _, tensorflow in maps] == [False, True, True, False]
