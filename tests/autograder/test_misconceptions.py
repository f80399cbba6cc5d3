"""What a wrong answer is called: by the name that its check raises, or by the listed answer whose sentence it gets."""

from __future__ import annotations

import courses
import pytest
from boxed import needs_a_box
from small_course import CHECKS, NAME, RIGHT, SOURCE, command

RAISED = """\
    got = student.ask(shifted, x=x, by=by)
    if got == x - by:
        raise Misconception("minus", "You took `by` away; it is to be added.")
    assert got == x + by, "The sum is off."
"""
NAMING = CHECKS.replace("import exercise", "import Misconception, exercise").replace(
    '    assert student.ask(shifted, x=x, by=by) == x + by, "The sum is off."\n', RAISED
)
LISTED = """
[double.wrong]
not_twice = { says = "The result is not twice", source = "def double(x):\\n    return x * x" }
rounded_to_a_list = { says = "returned a list", source = "def double(x):\\n    return [round(2 * each) for each in x]" }

[shift.wrong]
minus = { says = "You took `by` away", source = "def shift(x, by):\\n    return x - by" }
"""
CLASS = {  # student -> the exercise that is wrong, its source, its name
    "ann": ("double", "def double(array):\n    product = array ** 2\n    return product", "not_twice"),
    "ben": ("double", "def double(x):\n    return x + 1", "not_twice"),
    "eva": ("shift", "def shift(a, b):\n    return -(b - a)", "minus"),
    "fay": ("shift", "def shift(x, by):\n    return by - x", ""),
    "hal": ("shift", "def shift(x, by):\n    raise ValueError('minus')", ""),
    "ida": ("double", "def double(x):\n    import os\n    os._exit(0)", ""),  # crashed: what it was is not known
    "joe": ("shift", "def shift(x, by):\n    return minus  # misconception: minus", ""),
    "kim": ("double", "def double(x):\n    return [round(each + each) for each in x]", "rounded_to_a_list"),
}


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    root = tmp_path_factory.mktemp("names")
    course = courses.write(root / "course", NAME, SOURCE, NAMING)
    course.listed_file(NAME).write_text(LISTED)
    answers = {student: RIGHT | {exercise: source} for student, (exercise, source, _) in CLASS.items()}
    folder, out = courses.handed_in(course, root / "in", NAME, answers), root / "out"
    command("grade", NAME, "--submissions", folder, "--out", out, root=course.root)
    return course, out, courses.marks(out)


@needs_a_box
@pytest.mark.parametrize("student", CLASS)
def test_a_wrong_answer_is_called_by_what_its_check_says_of_it_or_nothing(graded, student):
    exercise, _, name = CLASS[student]
    row = graded[2][student, exercise]
    assert (row["misconception"], row["points"]) == (name, "0")


@needs_a_box
def test_what_is_right_has_no_name(graded):
    right = [row for (student, exercise), row in graded[2].items() if CLASS[student][0] != exercise]
    assert {row["misconception"] for row in right} == {""}
    assert {row["verdict"] for row in right} == {"passed", "manual"}


@needs_a_box
def test_a_student_reads_the_sentence_and_not_the_name(graded):
    _, out, rows = graded
    assert rows["eva", "shift"]["message"] == "You took `by` away; it is to be added."
    assert "minus" not in (out / "feedback" / "eva" / NAME / f"{NAME}.html").read_text()


@needs_a_box
def test_explain_says_the_name(graded):
    course, out, _ = graded
    done = command("explain", "eva", NAME, "shift", "--out", out, root=course.root)
    assert "minus" in done.stdout
