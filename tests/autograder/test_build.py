"""Building: the promises that students, graders and the gradebook rely on, and what an author is told."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbformat import NotebookNode
from nbgrader.utils import compute_checksum, determine_grade
from PIL import Image

import translate
from autograder.authoring import build, in_language
from autograder.model.course import Course, CourseError, find, text
from autograder.report import words

NAME = "90_tiny"
SOURCE = """\
# %% [markdown]
# # Tiny
# A question.

# %%
import math

# %% answer="pick" covers=["S20"]
def pick(devices):
    ### BEGIN SOLUTION
    return devices[0]
    ### END SOLUTION

# %% check="pick" points=2
assert pick(["a"]) == "a", "expected the first"

# %% answer="repair"
def repair(n):
    ### BEGIN SOLUTION
    #: if n > 0:
    #:     return n
    return math.fabs(n)
    ### END SOLUTION

# %% check="repair" points=1 answers=["pick", "repair"]
assert repair(pick([-1])) == 1, "expected 1"

# %% tags=["show"]
drawing = 1
drawing

# %% [markdown] answer="explain" points=3
# ### BEGIN SOLUTION
# Because of the default device.
# ### END SOLUTION

# %%
print("same")

# %%
print("same")
"""

Write = Callable[[str], Course]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write the source of chapter 90_tiny of a course of its own."""
    (tmp_path / "solutions").mkdir()
    (tmp_path / "course.toml").write_text('id = "tiny"\ntitle = "Tiny"\n')

    def write(source: str) -> Course:
        (tmp_path / "solutions" / f"{NAME}.py").write_text(source, encoding="utf-8")
        return Course.read(tmp_path)

    return write


@pytest.fixture
def course(write: Write) -> Course:
    return write(SOURCE)


def cell(notebook: NotebookNode, grade_id: str) -> NotebookNode:
    return next(c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id)


def test_students_get_stubs_and_never_the_reference(course: Course):
    notebook = build.release(course, NAME)
    assert cell(notebook, "pick").source == 'def pick(devices):\n    raise NotImplementedError("your turn")'
    assert cell(notebook, "repair").source == "def repair(n):\n    if n > 0:\n        return n"
    written = build.dumps(notebook)
    for secret in ("devices[0]", "math.fabs", "default device", "SOLUTION"):
        assert secret not in written


def test_the_reference_is_the_region_without_marks_and_without_what_only_students_see(course: Course):
    sources = build.solution_source(course, NAME)
    assert sources == {
        "pick": "def pick(devices):\n    return devices[0]",
        "repair": "def repair(n):\n    return math.fabs(n)",
        "explain": "Because of the default device.",
    }


def test_the_solved_notebook_differs_from_the_release_in_the_answers_only(course: Course):
    released, solved = build.release(course, NAME), build.solved(course, NAME)
    changed = [(a, b) for a, b in zip(released.cells, solved.cells, strict=True) if a != b]
    assert [b.metadata.nbgrader.grade_id for _, b in changed] == ["pick", "repair", "explain"]
    assert all({**a, "source": ""} == {**b, "source": ""} for a, b in changed)
    assert released.metadata == solved.metadata


def test_the_course_reads_exercises_points_and_answers_from_what_was_built(course: Course):
    assert build.build(course) == [f"{NAME}.ipynb"]
    chapter = course.chapter(NAME)
    assert [(e.name, e.grade_id, e.answer_ids, e.max_points, e.manual) for e in chapter.exercises] == [
        ("pick", "check_pick", ("pick",), 2.0, False),
        ("repair", "check_repair", ("pick", "repair"), 1.0, False),
        ("explain", "explain", ("explain",), 3.0, True),
    ]
    assert chapter.title == "Tiny"
    assert set(chapter.answers) == {"pick", "repair", "explain"}


def test_nbgrader_finds_checksums_locks_and_an_unanswered_explanation(course: Course):
    released, solved = build.release(course, NAME), build.solved(course, NAME)
    for grade_id in ("pick", "check_pick", "explain"):
        node = cell(released, grade_id)
        assert node.metadata.nbgrader.checksum == compute_checksum(node)
    assert cell(released, "check_pick").metadata.editable is False
    assert cell(released, "pick").metadata.deletable is False
    assert "editable" not in cell(released, "pick").metadata
    assert determine_grade(cell(released, "explain")) == (0, 3.0)
    assert determine_grade(cell(solved, "explain")) == (None, 3.0)


def test_a_cell_keeps_its_id_when_another_is_put_before_it(write: Write):
    course = write(SOURCE)
    before = {c.id for c in build.release(course, NAME).cells}
    course = write(SOURCE.replace("# %%\nimport math", "# %%\nimport cmath\n\n# %%\nimport math"))
    after = [c.id for c in build.release(course, NAME).cells]
    assert before < set(after)
    assert len(after) == len(set(after)) == len(before) + 1


def test_check_says_which_notebook_is_stale_and_writes_nothing(write: Write):
    course = write(SOURCE)
    build.build(course)
    assert build.build(course, check=True) == []
    old = course.notebook(NAME).read_bytes()
    course = write(SOURCE.replace("A question.", "Another question."))
    assert build.build(course, check=True) == [f"{NAME}.ipynb"]
    assert course.notebook(NAME).read_bytes() == old


def test_what_lies_beside_a_chapter_lies_in_notebooks_too(course: Course):
    beside = course.files(NAME) / "data" / "digits.csv"
    beside.parent.mkdir(parents=True)
    beside.write_bytes(b"1,2\r\n")
    copy = course.root / "notebooks" / "data" / "digits.csv"
    assert build.build(course, check=True) == [f"{NAME}.ipynb", "data/digits.csv"]
    assert not copy.exists()
    assert build.build(course) == [f"{NAME}.ipynb", "data/digits.csv"]
    assert copy.read_bytes() == b"1,2\r\n"
    assert build.build(course, check=True) == []
    copy.write_text("a student's")
    assert build.build(course, check=True) == ["data/digits.csv"]
    assert copy.read_text() == "a student's"


def test_two_chapters_cannot_have_another_file_of_one_name_beside_them(course: Course):
    course.source("91_other").write_text(SOURCE)
    course = Course.read(course.root)
    for name in (NAME, "91_other"):
        course.files(name).mkdir(parents=True)
        (course.files(name) / "same.csv").write_text("1")
        (course.files(name) / "other.csv").write_text(name)
    with pytest.raises(CourseError) as caught:
        build.build(course)
    assert str(caught.value) == (
        f"files/91_other/other.csv: files/{NAME}/other.csv is another, and both lie in notebooks/; rename one"
    )


def test_check_says_which_notebook_has_no_source(course: Course):
    build.build(course)
    stray = course.notebook("91_gone")
    stray.write_bytes(course.notebook(NAME).read_bytes())
    with pytest.raises(CourseError, match=r"91_gone\.ipynb: has no source in solutions/; delete it"):
        build.build(course, check=True)


DOT = b"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
NAMED = '![A dot & "no more".](pictures/dot.png)'


@pytest.fixture
def pictured(write: Write) -> Course:
    """The course with a picture in the chapter's first cell."""
    course = write(SOURCE.replace("# A question.\n", f"# A question.\n#\n# {NAMED}\n#\n# More.\n"))
    (course.root / "solutions" / "pictures").mkdir()
    (course.root / "solutions" / "pictures" / "dot.png").write_bytes(base64.b64decode(DOT))
    return course


def test_a_picture_that_prose_names_is_in_the_notebook_with_its_words_and_is_not_graded(pictured: Course):
    assert build.build(pictured) == [f"{NAME}.ipynb"]
    assert build.build(pictured) == []
    first = nbformat.read(pictured.notebook(NAME), as_version=4).cells[0]
    image = BeautifulSoup(first.source, "html.parser").select_one("img")
    assert image is not None
    assert (image["src"], image["alt"]) == (f"data:image/png;base64,{DOT.decode()}", 'A dot & "no more".')
    assert build.solved(pictured, NAME).cells[0].source == first.source
    graded = text(pictured.chapter(NAME).release["cells"][0])
    assert graded == "# Tiny\nA question.\n\nMore."


def test_a_picture_is_as_wide_as_its_resolution_says(pictured: Course):
    file = pictured.root / "solutions" / "pictures" / "dot.png"
    Image.new("1", (1600, 10)).save(file, dpi=(160, 160))
    assert 'width="960"' in build.release(pictured, NAME).cells[0].source


def test_a_translation_has_the_picture_with_words_of_its_own_and_pages_of_marks_have_none(pictured: Course):
    path = in_language.prose_file(pictured, "zh", NAME)
    path.parent.mkdir()

    def translated(named: str) -> translate.State:
        texts = (f"# Tiny\nA question.\n\n{NAMED}\n\nMore.", f"# 小\nA question.\n\n{named}\n\nMore.")
        english, chinese = (json.dumps(each, ensure_ascii=False) for each in texts)
        path.write_text(f"msgid {english}\nmsgstr {chinese}\n", encoding="utf-8")
        [found] = translate.of_course(pictured, "zh")
        return translate.state(found)

    assert translated(NAMED.replace("dot.png", "line.png")).broken[0].endswith("not those of the English cell")
    assert translated(NAMED.replace("dot &", "点")).broken == ()
    shown = build.release(pictured, NAME).cells[0].source.replace("dot &amp;", "点").replace("# Tiny", "# 小")
    assert in_language.chapter(pictured, "zh", NAME).cells[0].source == shown
    words.keep(pictured, NAME, pictured.root / "out")
    said = words.of(pictured.root / "out", NAME, "zh").cell("# Tiny\nA question.\n\nMore.")
    assert said == "# 小\nA question.\n\nMore."


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("dot.png", "line.png", "markdown cell (line 1): there is no PNG solutions/pictures/line.png; put it there"),
        (
            NAMED,
            "![](pictures/dot.png)",
            "the picture pictures/dot.png has no words; write what is seen on it: ![...](",
        ),
    ],
)
def test_a_slip_with_a_picture_names_the_file_and_the_mend(pictured: Course, old: str, new: str, says: str):
    source = pictured.source(NAME)
    source.write_text(source.read_text().replace(old, new))
    with pytest.raises(CourseError) as caught:
        build.build(pictured)
    assert says in str(caught.value)


HIDDEN = "### BEGIN HIDDEN TESTS\nassert pick([1]) == 1\n### END HIDDEN TESTS\n"
SCHEME = "#\n# === BEGIN MARK SCHEME ===\n# 2 points for\n# === END MARK SCHEME ===\n"
SLIPS = {
    "unknown key": ("points=2", "point=2", ['cell "check_pick" (line 14)', "unknown header key 'point'"]),
    "no points": (" points=2", "", ["points=None", "as in points=3"]),
    "points of the wrong kind": ("points=2", 'points="2"', ["points='2'"]),
    "points on an answer": ('answer="repair"', 'answer="repair" points=1', ["points belong to a check"]),
    "no check": (
        '# %% check="repair" points=1 answers=["pick", "repair"]',
        "# %%",
        ['cell "repair"', "no check looks at it"],
    ),
    "no such answer": ('answers=["pick", "repair"]', 'answers=["pik"]', ['no answer "pik"', "pick, repair, explain"]),
    "a name twice": ('answer="repair"', 'answer="pick"', ['two cells are answer "pick"', "another name"]),
    "a bad name": ('answer="pick"', 'answer="Pick"', ["'Pick'", "lower case"]),
    "no end": ("    return devices[0]\n    ### END SOLUTION", "    return devices[0]", ["### END SOLUTION"]),
    "a solution elsewhere": ("import math", "### BEGIN SOLUTION\nimport math\n### END SOLUTION", ["is no answer"]),
    "covers no list": ('covers=["S20"]', 'covers="S20"', ["is not a list", 'covers=["S15"]']),
    "a show that is used": ("math.fabs(n)", "math.fabs(drawing)", ["tagged show", 'cell "repair"', "drawing"]),
    "a stub that is no Python": (
        "#: if n > 0:\n    #:     return n",
        "#: if n > 0:",
        ["the stub is no Python", "line 2"],
    ),
    "a reference that is no Python": ("return math.fabs(n)", "return math.(n)", ["the reference is no Python"]),
    "a hidden test": (
        "import math\n",
        f"import math\n{HIDDEN}",
        ["code cell (line 5): `BEGIN HIDDEN TESTS`", "students would see it", f"checks/test_{NAME}.py"],
    ),
    "a hidden test in a check": (
        '"expected the first"\n',
        f'"expected the first"\n{HIDDEN.replace("### ", "    #")}',
        ['cell "check_pick" (line 14): `BEGIN HIDDEN TESTS`'],
    ),
    "a marking scheme": (
        "# A question.\n",
        f"# A question.\n{SCHEME}",
        ["`BEGIN MARK SCHEME`", "students would see it"],
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_an_authors_slip_names_the_cell_and_the_mend(write: Write, slip: str):
    old, new, says = SLIPS[slip]
    assert old in SOURCE
    course = write(SOURCE.replace(old, new, 1))
    with pytest.raises(CourseError) as caught:
        build.build(course)
    assert NAME in str(caught.value)
    for part in says:
        assert part in str(caught.value)


def test_all_slips_are_told_at_once(write: Write):
    course = write(SOURCE.replace("points=2", "point=2").replace('covers=["S20"]', 'cover=["S20"]'))
    with pytest.raises(CourseError) as caught:
        build.build(course)
    assert "'point'" in str(caught.value)
    assert "'cover'" in str(caught.value)


def test_a_slip_in_one_chapter_keeps_no_other_from_being_built(course: Course):
    course.source("89_broken").write_text(SOURCE.replace("points=2", ""))
    course = Course.read(course.root)
    with pytest.raises(CourseError, match="89_broken"):
        build.build(course)
    assert course.notebook(NAME).exists()


@pytest.mark.parametrize("name", find().chapters)
def test_the_notebooks_of_this_course_are_fresh_and_hold_no_solution(name: str):
    course = find()
    released = course.notebook(name).read_text(encoding="utf-8")
    assert released == build.dumps(build.release(course, name)), "run `autograder build`"
    assert "BEGIN SOLUTION" not in released
    stubs = course.chapter(name).answers
    assert [answer for answer, source in build.solution_source(course, name).items() if stubs[answer] == source] == []
