"""The chapters keep what the course promises: every row of a chapter is taught and checked by an exercise."""

import pytest
from rich.console import Console
from rich.markdown import Markdown

import coverage
from autograder.model.course import CourseError, find

COURSE = find()
ROWS = set(coverage.of_course(COURSE))


@pytest.mark.parametrize("chapter", COURSE.chapters)
def test_every_row_of_a_chapter_is_taught_and_exercised(chapter):
    rows, promised = coverage.read(COURSE), coverage.promised(COURSE)[chapter]
    missing = [row for row in promised if not (rows[row].taught and rows[row].exercised)]
    assert promised, "a chapter that promises no row"
    assert missing == []


def test_no_cell_marks_a_row_that_the_course_does_not_have():
    assert set(coverage.read(COURSE)) <= ROWS


def test_every_row_is_promised_by_a_chapter():
    assert {row for rows in coverage.promised(COURSE).values() for row in rows} == ROWS


@pytest.mark.parametrize("said", ["1-8", "S8-S1", "S1-R2"])
def test_what_is_no_row_is_told_with_the_mend(said):
    with pytest.raises(CourseError, match=f"rows: '{said}' is no row, and no range of rows; write it like S1-S8 S12"):
        coverage.rows("rows", said)


def test_the_course_teaches_and_exercises_each_of_its_76_rows():
    rows = coverage.read(COURSE)
    assert {f"S{n}" for n in range(1, 77)} == {row for row in rows if rows[row].taught and rows[row].exercised}


def test_the_page_is_fresh():
    page = coverage.page(COURSE)
    Console(width=140).print(Markdown(page))
    written = (COURSE.root / "docs" / "coverage.md").read_text(encoding="utf-8")
    assert written == page, "docs/coverage.md is stale: run `tools/coverage.py`"
