"""A course is a value: read from its course.toml and its chapters' headers, found from a folder, or refused in one line."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import courses
import pytest
from boxed import needs_a_box

import demo
import fixture
from autograder.authoring import build
from autograder.job import forkserver, grade
from autograder.job.grade import Job
from autograder.model import course as course_module
from autograder.model import digests
from autograder.model.course import Chapter, Course, CourseError, Limits, find
from autograder.model.limits import CheckerCaps, read_limits
from autograder.model.rubric import Rubric
from autograder.submissions.intake import Submission

NAME = "01_first"
HEAD = "# ---\n# jupyter:\n#   across:\n{keys}# ---\n\n"
SOURCE = """\
# %% [markdown]
# # First

# %% answer="one" covers=["R2"]
def one():
    ### BEGIN SOLUTION
    return 1
    ### END SOLUTION

# %% check="one" points=1
assert one() == 1, "expected 1"
"""
KEYS = {
    "limits": "{cell_seconds: 7, pids: 99}",
    "checker": "{cpu_seconds: 30}",
    "gpus": "2",
    "devices": "4",
    "rows": "R1-R2",
    "due": '"2026-11-30T23:59+01:00"',
}


def headed(**keys: str) -> str:
    return HEAD.format(keys="".join(f"#     {key}: {value}\n" for key, value in keys.items())) + SOURCE


def test_a_course_can_be_told_to_another_process(tmp_path: Path):
    course = courses.write(tmp_path, NAME, SOURCE, preload=["json"])
    assert course == Course(tmp_path, "tiny", "Tiny", (NAME,), preload=("json",))
    assert Course.loads(course.dumps()) == pickle.loads(pickle.dumps(course)) == course
    assert {course: 1}[Course.read(tmp_path)] == 1


def test_a_chapters_header_says_how_it_is_graded(tmp_path: Path):
    chapter = courses.write(tmp_path, NAME, headed(**KEYS)).chapter(NAME)
    assert chapter.limits == replace(Limits(), cell_seconds=7.0, pids=99)
    assert chapter.checker == replace(CheckerCaps(), cpu_seconds=30)
    assert chapter.gpus == 2
    assert chapter.due == "2026-11-30T22:59:00Z"
    assert (chapter.course, chapter.checks) == ("tiny", f"checks/test_{NAME}.py")


def test_without_a_header_a_chapter_is_graded_by_the_defaults(tmp_path: Path):
    chapter = courses.write(tmp_path, NAME, SOURCE).chapter(NAME)
    assert (chapter.limits, chapter.checker, chapter.gpus) == (Limits(), CheckerCaps(), 0)
    assert (chapter.allowed_ops, chapter.due) == ((), "")


def test_a_date_that_yaml_reads_itself_is_the_same_date(tmp_path: Path):
    chapter = courses.write(tmp_path, NAME, headed(due="2026-11-30T23:59:00+01:00")).chapter(NAME)
    assert chapter.due == "2026-11-30T22:59:00Z"


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"limit": "{cells: 1}"}, "unknown key 'limit'; did you mean limits"),
        ({"limits": "{cell_second: 1}"}, "limits: no limit 'cell_second'; did you mean cell_seconds"),
        ({"limits": "{pids: many}"}, "limits: pids: 'many'; write a whole number of at least 1"),
        ({"limits": "{cell_seconds: .nan}"}, "limits: cell_seconds: nan; write a number"),
        ({"checker": "{cells: 3}"}, "checker: no limit 'cells'"),
        ({"gpus": "3"}, "gpus: 3; write 0, 1, 2 or 4"),
        ({"gpus": "true"}, "gpus: True; write"),
        ({"devices": "0"}, "devices: 0; write how many devices it can use"),
        ({"due": "tomorrow"}, "due: 'tomorrow' is no date"),
        ({"due": '"2026-11-30T23:59"'}, r"due: .* does not say where; add the offset"),
    ],
)
def test_a_slip_in_a_header_names_the_file_the_key_and_the_mend(tmp_path: Path, keys: dict[str, str], says: str):
    with pytest.raises(CourseError, match=f"solutions/{NAME}.py, header: {says}"):
        courses.write(tmp_path, NAME, headed(**keys))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "id is missing; write a short name"),
        ('id = "a b"', "id: 'a b'; write a short name"),
        ('id = "a"\npreload = "numpy"', "preload: 'numpy'; write modules"),
        ('id = "a"\npreload = ["import os"]', "preload: .*; write modules"),
        ('id = "a"\nchapters = ["first"]', "chapters: .*; write names in order"),
        ('id = "a"\nchecs = "x"', "unknown key 'checs'; did you mean checks"),
        ('id = "a"\nstep = -0.5', "step: -0.5; write the points between two marks, as in step = 0.5"),
        ('id = "a"\nstep = 1e-320', "step: .*; write the points between two marks"),
        ('id = "a"\nstep = nan', "step: nan; write the points between two marks"),
        ("id = ", "cannot be read"),
    ],
)
def test_a_slip_in_course_toml_names_the_file_the_key_and_the_mend(tmp_path: Path, line: str, says: str):
    (tmp_path / "course.toml").write_text(f'title = "Tiny"\n{line}\n')
    with pytest.raises(CourseError, match=f"{tmp_path}/course.toml: {says}"):
        Course.read(tmp_path)


def test_chapters_that_are_listed_are_the_course_in_that_order(tmp_path: Path):
    courses.write(tmp_path, NAME, SOURCE)
    courses.write(tmp_path, "02_second", SOURCE)
    assert Course.read(tmp_path).chapters == (NAME, "02_second")
    (tmp_path / "course.toml").write_text(f'id = "a"\ntitle = "A"\nchapters = ["02_second", "{NAME}"]\n')
    assert Course.read(tmp_path).chapters == ("02_second", NAME)


def test_a_course_is_found_from_a_folder_within_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    course = courses.write(tmp_path / "a", NAME, SOURCE)
    monkeypatch.chdir(course.root / "solutions")
    assert find() == course
    monkeypatch.chdir(tmp_path)
    assert find().root == course_module.checkout()
    assert find(course.root) == course
    with pytest.raises(CourseError, match=r"course.toml: there is none; write one"):
        find(tmp_path)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to somebody else")
def test_a_course_of_somebody_else_is_not_taken_for_being_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    course = courses.write(tmp_path, NAME, SOURCE)
    os.chown(course.file, 4321, 4321)
    monkeypatch.chdir(course.root)
    with pytest.raises(CourseError, match="belongs to another user; if you trust it: --course"):
        find()
    assert find(tmp_path) == course


def test_what_is_not_installed_cannot_be_preloaded(tmp_path: Path):
    course = courses.write(tmp_path, NAME, SOURCE, preload=["no_such_module"])
    with pytest.raises(CourseError, match=r"course.toml: preload: 'no_such_module' is not installed here"):
        forkserver.launch(course, NAME)


def test_the_versions_of_what_is_preloaded_are_in_the_environment(tmp_path: Path):
    course = courses.write(tmp_path, NAME, SOURCE)
    plain, more = (forkserver.environment(replace(course, preload=names)) for names in ((), ("yaml", "json")))
    assert "tensorflow" not in plain
    assert "numpy " in plain
    assert "yaml 6" in more  # a module that is not called like its package
    assert "json of Python itself" in more


def test_a_limit_that_is_tried_is_read_as_a_header_is():
    assert read_limits(["cell_seconds=2", "pids=64"]) == {"cell_seconds": 2.0, "pids": 64}
    for text, says in (("pids=1.5", "whole number"), ("cells=x", "is no number"), ("cels=3", "did you mean cells")):
        with pytest.raises(CourseError, match=says):
            read_limits([text])


def parts(chapter: Chapter) -> dict[str, str]:
    return Rubric(chapter, (), "checks", "grader", "environment").parts


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"limits": replace(Limits(), cells=3)}, {"limits"}),
        ({"checker": replace(CheckerCaps(), pids=3)}, {"limits"}),
        ({"allowed_ops": ("Bincount",)}, {"graphs"}),
        ({"gpus": 1}, {"devices"}),
        ({"step": 0.5}, {"points"}),
        ({"course": "another"}, {"course"}),
        ({"due": "2026-11-30T22:59:00Z"}, set()),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_of_a_chapter_decides_a_mark_is_told_by_name(tmp_path: Path, change: dict, part: set[str]):
    chapter = courses.write(tmp_path, NAME, SOURCE).chapter(NAME)
    before, after = parts(chapter), parts(replace(chapter, **change))
    assert {name for name in before if before[name] != after[name]} == part


def test_a_new_header_makes_no_new_release_and_a_new_word_does(tmp_path: Path):
    plain = courses.write(tmp_path, NAME, SOURCE).chapter(NAME).release
    headed_ = courses.write(tmp_path, NAME, headed(**KEYS)).chapter(NAME).release
    other = courses.write(tmp_path, NAME, SOURCE.replace("expected 1", "one, please")).chapter(NAME).release
    assert headed_["metadata"] != plain["metadata"]
    assert headed_["metadata"]["across"]["release"] == plain["metadata"]["across"]["release"]
    assert digests.of_release(headed_) == digests.of_release(plain) != digests.of_release(other)


def test_what_a_chapter_needs_is_in_its_notebook_and_makes_no_new_release(tmp_path: Path):
    courses.write(tmp_path, NAME, SOURCE)
    before = courses.write(tmp_path, "02_second", SOURCE).chapter("02_second")
    with (tmp_path / "course.toml").open("a") as file:
        file.write(f'[needs]\n02_second = ["{NAME}"]\n')
    course = Course.read(tmp_path)
    assert build.build(course) == ["02_second.ipynb"]
    after = course.chapter("02_second")
    assert after.release["metadata"]["across"]["needs"] == [NAME]
    assert after.release["metadata"]["across"]["release"] == before.release["metadata"]["across"]["release"]
    assert parts(after) == parts(before)
    assert Course.loads(course.dumps()) == course


@pytest.mark.parametrize(
    ("needs", "says"),
    [
        ('02_secnd = ["01_first"]', "there is no chapter '02_secnd'; did you mean 02_second"),
        ('02_second = ["01_frst"]', "there is no chapter '01_frst'; did you mean 01_first"),
        ('01_first = ["02_second"]', "01_first comes before 02_second, which it needs; change their order"),
        ('01_first = ["01_first"]', "01_first comes before 01_first"),
    ],
)
def test_a_chapter_needs_chapters_that_stand_before_it(tmp_path: Path, needs: str, says: str):
    courses.write(tmp_path, NAME, SOURCE)
    courses.write(tmp_path, "02_second", SOURCE)
    with (tmp_path / "course.toml").open("a") as file:
        file.write(f"[needs]\n{needs}\n")
    with pytest.raises(CourseError, match=f"{tmp_path}/course.toml: needs: {says}"):
        Course.read(tmp_path)


GRAPHS = """\
from autograder.probe.asking import exercise, probe

@probe(graphs=1)
def built(student):
    with tf.Graph().as_default() as graph:
        student.one()
    return graph.as_graph_def()

@exercise("one")
def test_its_graph_counts(student):
    assert any(node.op == "Bincount" for node in student.ask(built).node), "Nothing is counted."
"""
COUNTS = "import tensorflow as tf\ndef one():\n    return tf.raw_ops.Bincount(arr=[1, 2], size=4, weights=[1.0, 1.0])"


@pytest.fixture(scope="module")
def counting(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """A course whose one answer builds a graph with an operation that is allowed nowhere else."""
    source = headed(allowed_ops="[Bincount]").replace("return 1", "return 1  # see COUNTS")
    return courses.write(tmp_path_factory.mktemp("counting"), NAME, source, GRAPHS, ["tensorflow"])


@needs_a_box
@pytest.mark.whole
def test_an_operation_that_a_chapter_allows_is_let_into_its_graphs_and_into_no_others(counting: Course):
    rubric = forkserver.make_rubric(counting, NAME)
    assert rubric.chapter.allowed_ops == ("Bincount",)
    strict = replace(rubric, chapter=replace(rubric.chapter, allowed_ops=()))
    submission = Submission("ann", NAME, {"one": COUNTS})
    (allowed,), (refused,) = (grade.grade_job(Job(submission, each, 1), counting).marks for each in (rubric, strict))
    assert allowed.points == 1.0, allowed.message
    assert refused.points == 0.0
    assert "may not hold here: Bincount" in refused.message


SEES = """\
from autograder.probe.asking import exercise

@exercise("one")
def test_it_sees_its_neighbours_alone(student):
    assert student.call_once("one") == [True, False], "It sees the course, or nothing at all."
"""


@needs_a_box
def test_a_course_in_a_folder_that_boxes_show_is_hidden_from_students(tmp_path: Path, shown: Callable[[Path], None]):
    (tmp_path / "neighbour").touch()
    shown(tmp_path)
    course = courses.write(tmp_path / "course", NAME, SOURCE, SEES)
    looks = [str(tmp_path / "neighbour"), str(course.check_file(NAME))]
    answer = f"import os\ndef one():\n    return [os.path.exists(p) for p in {looks}]"
    rubric = forkserver.make_rubric(course, NAME)
    (mark,) = grade.grade_job(Job(Submission("ann", NAME, {"one": answer}), rubric, 1), course).marks
    assert mark.points == 1.0, mark.message


def test_a_copy_of_a_course_is_another_place_and_grades_alike(tmp_path: Path):
    course = courses.write(tmp_path / "one", NAME, SOURCE, GRAPHS)
    copy = Course.read(Path(shutil.copytree(course.root, tmp_path / "two")))
    assert parts(copy.chapter(NAME)) == parts(course.chapter(NAME))
    assert digests.of_checks(copy.check_sources(NAME)) == digests.of_checks(course.check_sources(NAME))


def test_any_course_has_a_class_to_try_grading_on():
    with fixture.built() as course:
        students = demo.students(course)
        ours = [student for student in students if student.name in ("mallory", "typo", "endless", "ada")]
        assert demo.chapter_of(course) == fixture.CHAPTER
        assert len(students) == 30
        assert len(ours) == 4
        for student in ours:
            assert student.expected.keys() == {exercise.name for exercise in course.chapter(fixture.CHAPTER).exercises}
        fewer = demo.students(replace(course, preload=("numpy",)))
    assert {student.name for student in students} - {student.name for student in fewer} == {"trudy"}
