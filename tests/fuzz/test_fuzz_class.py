"""A class of mutated notebooks with a few honest ones, graded by the command that an instructor types.

With ``-m classes`` a small class; with ``-m slow`` a thousand mutants and five honest students. Which mutants:
$ACROSS_FUZZ_CLASS="COUNT" or "FIRST:LAST" (by default 1000) and $ACROSS_FUZZ_SEED, by default others at each run.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import chaos
import courses
import pytest
from bs4 import BeautifulSoup
from fuzzing import SEED
from mutants import Mutant, mutants

import attacks
import demo
from autograder.model.course import Course
from autograder.model.verdict import Fault, Result
from autograder.report import rendering
from autograder.sandbox import boxes
from fixture import CHAPTER

SMALL, LARGE = "25", os.environ.get("ACROSS_FUZZ_CLASS", "1000")
HONEST = ("aa-honest", "mutant-0010-honest", "zz-honest", "mutant-0500-honest", "Ä honest one")
SECONDS = 3.0  # a submission may take, on the average of the class, before the command is ended

pytestmark = [
    pytest.mark.classes,
    pytest.mark.skipif(boxes.problem() != "", reason=f"no sandbox here: {boxes.problem()}"),
]


@dataclass(frozen=True)
class Graded:
    """The class as it was graded."""

    out: Path
    code: int
    log: str
    mutants: dict[str, Mutant]
    honest: tuple[str, ...]
    rows: dict[str, dict[str, dict[str, str]]]  # student -> exercise -> row of marks.csv
    left: list[str]  # processes, control groups and folders


@pytest.fixture(scope="module", params=[SMALL, pytest.param(LARGE, marks=pytest.mark.slow)], ids=["small", "large"])
def graded(request: pytest.FixtureRequest, fixture_course: Course, tmp_path_factory: pytest.TempPathFactory) -> Graded:
    first, _, last = request.param.rpartition(":")
    solved = attacks.solved_notebook(fixture_course)
    made = {mutant.name: mutant for mutant in list(mutants(solved, int(last), SEED))[int(first or 0) :]}
    honest = HONEST[:2] if request.param == SMALL else HONEST
    place = tmp_path_factory.mktemp("class")
    for name in [*made, *honest]:
        folder = place / "submissions" / name / CHAPTER
        folder.mkdir(parents=True)
        notebook = json.dumps(demo.signed(solved, name)).encode()
        made.get(name, Mutant(name, "", notebook)).hand_in(folder / f"{CHAPTER}.ipynb")
    run = chaos.Run(fixture_course.root, place / "submissions", place / "out", place / "mark-", CHAPTER)
    try:
        code = run.end(120 + SECONDS * len(made))
        left = chaos.leftovers(run.mark, [run.process.pid])
    finally:
        run.close()
    rows: dict[str, dict[str, dict[str, str]]] = {}
    for (student, exercise), row in courses.marks(place / "out").items() if code == 0 else ():
        rows.setdefault(student, {})[exercise] = row
    return Graded(place / "out", code, run.said, made, honest, rows, left)


def test_the_command_succeeds(graded):
    assert graded.code == 0, graded.log[-4000:]


def test_nothing_raised(graded):
    assert "Traceback" not in graded.log
    assert "Error" not in graded.log, graded.log[-4000:]


def test_the_honest_students_have_full_marks(fixture_course, graded):
    for student in graded.honest:
        for exercise in fixture_course.chapter(CHAPTER).exercises:
            row = graded.rows[student][exercise.name]
            assert row["verdict"] == ("manual" if exercise.manual else "passed"), (student, row)
            assert float(row["points"]) == (0.0 if exercise.manual else exercise.max_points), (student, row)


def test_every_mutant_gets_a_named_verdict_for_every_exercise(fixture_course, graded):
    assert graded.rows.keys() == graded.mutants.keys() | set(graded.honest)
    exercises = [exercise.name for exercise in fixture_course.chapter(CHAPTER).exercises]
    for mutant in graded.mutants.values():
        rows = graded.rows[mutant.name]
        assert list(rows) == exercises, mutant
        for row in rows.values():
            assert Result(row["verdict"]), mutant
            assert row["fault"] not in (Fault.INFRASTRUCTURE.value, Fault.AUTHOR.value), (mutant.how, row)
            assert row["message"], (mutant.how, row)


def test_the_mutants_are_of_many_kinds(graded):
    results = {row["verdict"] for name in graded.mutants for row in graded.rows[name].values()}
    assert {"passed", "invalid"} <= results
    assert len(results) > 3


def test_every_student_has_a_page_that_runs_nothing_of_theirs(graded):
    pages = list((graded.out / "feedback").glob("*/*/*.html"))
    assert len(pages) == len(graded.rows)
    report = graded.out / "report.html"
    for path in [*pages, report]:
        page = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
        ours = [(rendering.TEMPLATES / "table.js").read_text(encoding="utf-8")] if path == report else []
        assert [tag.text for tag in page.find_all("script")] == ours, path  # the class's page sorts and filters
        assert not page.find_all(["iframe", "object", "embed", "form", "link", "base"]), path
        assert not [tag for tag in page.find_all(True) for name in tag.attrs if name.startswith("on")], path


def test_nothing_is_left_behind(graded):
    assert graded.left == []
