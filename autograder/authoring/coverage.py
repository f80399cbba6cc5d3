"""Which row of the course (S1 to S76) is taught and exercised where, read from the marks (`covers=`) on the chapters' cells.

python -m autograder.coverage        # writes docs/coverage.md
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from autograder.model import course

ROWS = [f"S{number}" for number in range(1, 77)]
PROMISED = {  # what each chapter is to cover; the capstone takes up all of them
    "01_gpu_setup": "1-8",
    "02_gpu_memory": "9-12 32",
    "03_device_placement": "2 13-20",
    "04_kernels_and_soft_placement": "21-23",
    "05_parallel_execution": "24-26",
    "06_control_dependencies": "27-28",
    "07_clusters": "29-38 70-72 76",
    "08_sharded_variables": "39-43 73",
    "09_replication": "74-75 45",
    "10_towers": "44-53",
    "11_strategies": "54-63 69",
    "12_custom_training": "64-66",
    "13_many_workers": "58-59 67-68",
}


@dataclass
class Row:
    """Where one row of the course is taught, and which exercises check it."""

    taught: set[str] = field(default_factory=set)  # chapters
    exercised: set[tuple[str, str]] = field(default_factory=set)  # (chapter, exercise)


def promised(chapter: str) -> list[str]:
    """The rows that a chapter is to cover."""
    rows = []
    for part in PROMISED.get(chapter, "").split():
        first, _, last = part.partition("-")
        rows += [f"S{number}" for number in range(int(first), int(last or first) + 1)]
    return rows


def read() -> dict[str, Row]:
    """Every row that some chapter marks. Raises CourseError when a notebook is missing."""
    rows: dict[str, Row] = defaultdict(Row)
    for chapter in course.chapter_names():
        for cell in course.chapter(chapter).release["cells"]:
            meta = cell["metadata"]
            for row in meta.get("across", {}).get("covers", []):
                if meta.get("nbgrader", {}).get("solution"):
                    rows[row].exercised.add((chapter, meta["nbgrader"]["grade_id"]))
                else:  # a cell that runs it and shows it; a visible check does so with the student's own work
                    rows[row].taught.add(chapter)
    return rows


def page() -> str:
    """The coverage of the whole course as a Markdown page."""
    found, planned = read(), {row: chapter for chapter in PROMISED for row in promised(chapter)}
    taught = sum(bool(found[row].taught and found[row].exercised) for row in ROWS if row in found)
    lines = [
        "# Coverage",
        "",
        "Written by `python -m autograder.coverage` from the marks on the chapters' cells.",
        f"Taught and exercised: {taught} of {len(ROWS)} rows.",
        "",
        "| row | taught in | exercised in |",
        "|---|---|---|",
    ]
    for row in ROWS:
        where = found.get(row, Row())
        exercises = ", ".join(f"{chapter[:2]} `{name}`" for chapter, name in sorted(where.exercised))
        chapters = ", ".join(sorted(where.taught)) or f"*planned: {planned[row]}*"
        lines.append(f"| {row} | {chapters} | {exercises} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    path = course.root() / "docs" / "coverage.md"
    path.write_text(page(), encoding="utf-8")
    print(f"wrote {path}")
