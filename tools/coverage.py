"""Which row of a course is taught and exercised where, read from the marks (`covers=`) on the chapters' cells.

What rows there are stands in course.toml; what a chapter is to cover, in its header (`rows`).

uv run python tools/coverage.py        # writes docs/coverage.md
"""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from dataclasses import dataclass, field

from autograder.model.course import Course, CourseError, find

ROW = re.compile(r"([A-Z]+)([1-9][0-9]{0,3})")


@dataclass
class Row:
    """Where one row of the course is taught, and which exercises check it."""

    taught: set[str] = field(default_factory=set)  # chapters
    exercised: set[tuple[str, str]] = field(default_factory=set)  # (chapter, exercise)


def rows(where: str, text: str) -> tuple[str, ...]:
    """The rows that "S1-S3 S8" names, each once. Raises CourseError, which begins with `where`."""
    found: dict[str, None] = {}
    for part in text.split():
        ends = [ROW.fullmatch(end) for end in part.split("-")]
        first, last = ends[0], ends[-1]
        if len(ends) > 2 or first is None or last is None or first[1] != last[1] or int(first[2]) > int(last[2]):
            raise CourseError(f"{where}: {part!r} is no row, and no range of rows; write it like S1-S8 S12")
        found |= dict.fromkeys(f"{first[1]}{number}" for number in range(int(first[2]), int(last[2]) + 1))
    return tuple(found)


def of_course(course: Course) -> tuple[str, ...]:
    """All that a course is to teach, by its course.toml."""
    return rows(f"{course.file}: rows", tomllib.loads(course.file.read_text(encoding="utf-8")).get("rows", ""))


def promised(course: Course) -> dict[str, tuple[str, ...]]:
    """The rows that each chapter is to cover, by its header."""
    releases = {name: course.chapter(name).release["metadata"]["across"] for name in course.chapters}
    return {name: rows(f"solutions/{name}.py: rows", ours.get("rows", "")) for name, ours in releases.items()}


def read(course: Course) -> dict[str, Row]:
    """Every row that some chapter marks. Raises CourseError when a notebook is missing."""
    found: dict[str, Row] = defaultdict(Row)
    for chapter in course.chapters:
        for cell in course.chapter(chapter).release["cells"]:
            meta = cell["metadata"]
            for row in meta.get("across", {}).get("covers", []):
                if meta.get("nbgrader", {}).get("solution"):
                    found[row].exercised.add((chapter, meta["nbgrader"]["grade_id"]))
                else:  # a cell that runs it and shows it; a visible check does so with the student's own work
                    found[row].taught.add(chapter)
    return found


def page(course: Course) -> str:
    """The coverage of the whole course as a Markdown page."""
    found, wanted = read(course), of_course(course)
    taught = sum(bool(found[row].taught and found[row].exercised) for row in wanted if row in found)
    lines = [
        "# Coverage",
        "",
        "Written by `tools/coverage.py` from the marks on the chapters' cells.",
        f"Taught and exercised: {taught} of {len(wanted)} rows.",
        "",
        "| row | taught in | exercised in |",
        "|---|---|---|",
    ]
    for row in wanted:
        where = found.get(row, Row())
        exercises = ", ".join(f"{chapter[:2]} `{name}`" for chapter, name in sorted(where.exercised))
        lines.append(f"| {row} | {', '.join(sorted(where.taught))} | {exercises} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    here = find()
    path = here.root / "docs" / "coverage.md"
    path.write_text(page(here), encoding="utf-8")
    print(f"wrote {path}")
