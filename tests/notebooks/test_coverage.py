"""The chapters keep what the course promises: every row of a chapter is taught and checked by an exercise."""

import pytest
from rich.console import Console
from rich.markdown import Markdown

from autograder.authoring import coverage
from autograder.model import course


@pytest.mark.parametrize("chapter", course.chapter_names())
def test_every_row_of_a_chapter_is_taught_and_exercised(chapter):
    rows = coverage.read()
    missing = [row for row in coverage.promised(chapter) if not (rows[row].taught and rows[row].exercised)]
    assert coverage.promised(chapter), "a chapter that the course does not plan"
    assert missing == []


def test_no_cell_marks_a_row_that_the_course_does_not_have():
    assert set(coverage.read()) <= set(coverage.ROWS)


def test_every_row_is_planned_somewhere():
    assert {row for chapter in coverage.PROMISED for row in coverage.promised(chapter)} == set(coverage.ROWS)


def test_the_page_is_fresh():
    page = coverage.page()
    Console(width=140).print(Markdown(page))
    written = (course.root() / "docs" / "coverage.md").read_text(encoding="utf-8")
    assert written == page, "docs/coverage.md is stale: run `python -m autograder.coverage`"
