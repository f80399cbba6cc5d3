"""Which row of a course is taught and exercised where, read from the marks (`covers=`) on the chapters' cells.

What rows there are stands in course.toml, and which of them chapters to come will cover; what a chapter is to cover, in its
header (`rows`).

python -m autograder.authoring.coverage        # writes docs/coverage.md
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from autograder.model import headers
from autograder.model.course import Course, find


@dataclass
class Row:
    """Where one row of the course is taught, and which exercises check it."""

    taught: set[str] = field(default_factory=set)  # chapters
    exercised: set[tuple[str, str]] = field(default_factory=set)  # (chapter, exercise)


def promised(course: Course) -> dict[str, tuple[str, ...]]:
    """The rows that each chapter is to cover: by its header or, as long as it is to come, by course.toml."""
    said = {**dict(course.planned), **{name: course.chapter(name).rows for name in course.chapters}}
    return {name: headers.rows(name, said[name]) for name in sorted(said)}


def read(course: Course) -> dict[str, Row]:
    """Every row that some chapter marks. Raises CourseError when a notebook is missing."""
    rows: dict[str, Row] = defaultdict(Row)
    for chapter in course.chapters:
        for cell in course.chapter(chapter).release["cells"]:
            meta = cell["metadata"]
            for row in meta.get("across", {}).get("covers", []):
                if meta.get("nbgrader", {}).get("solution"):
                    rows[row].exercised.add((chapter, meta["nbgrader"]["grade_id"]))
                else:  # a cell that runs it and shows it; a visible check does so with the student's own work
                    rows[row].taught.add(chapter)
    return rows


def page(course: Course) -> str:
    """The coverage of the whole course as a Markdown page."""
    found, planned = read(course), {row: chapter for chapter, rows in promised(course).items() for row in rows}
    rows = headers.rows("rows", course.rows)
    taught = sum(bool(found[row].taught and found[row].exercised) for row in rows if row in found)
    lines = [
        "# Coverage",
        "",
        "Written by `python -m autograder.authoring.coverage` from the marks on the chapters' cells.",
        f"Taught and exercised: {taught} of {len(rows)} rows.",
        "",
        "| row | taught in | exercised in |",
        "|---|---|---|",
    ]
    for row in rows:
        where = found.get(row, Row())
        exercises = ", ".join(f"{chapter[:2]} `{name}`" for chapter, name in sorted(where.exercised))
        chapters = ", ".join(sorted(where.taught)) or f"*planned: {planned[row]}*" if row in planned else ""
        lines.append(f"| {row} | {chapters} | {exercises} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    here = find()
    path = here.root / "docs" / "coverage.md"
    path.write_text(page(here), encoding="utf-8")
    print(f"wrote {path}")
