"""The chapters keep what the course promises: every row of a chapter is taught and checked by an exercise."""

import pytest

import coverage
from autograder.model.course import CourseError, find

COURSE = find()


def test_every_row_is_promised_by_a_chapter_and_taught_and_exercised():
    rows, promised, every = coverage.read(COURSE), coverage.promised(COURSE), {f"S{n}" for n in range(1, 77)}
    assert all(promised.values()), "a chapter that promises no row"
    assert set(coverage.of_course(COURSE)) == {row for each in promised.values() for row in each} == set(rows) == every
    assert [row for row in every if not (rows[row].taught and rows[row].exercised)] == []


@pytest.mark.parametrize("said", ["1-8", "S8-S1", "S1-R2"])
def test_what_is_no_row_is_told_with_the_mend(said):
    with pytest.raises(CourseError, match=f"rows: '{said}' is no row, and no range of rows; write it like S1-S8 S12"):
        coverage.rows("rows", said)


def test_the_page_is_fresh():
    page = coverage.page(COURSE)
    written = (COURSE.root / "docs" / "coverage.md").read_text(encoding="utf-8")
    assert written == page, "docs/coverage.md is stale: run `tools/coverage.py`"
