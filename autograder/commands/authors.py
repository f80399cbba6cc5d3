"""The verbs of whoever writes chapters and checks: new, import, build, run, check, verify."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autograder.commands.application import AUTHORS, ChapterName, a_file, app, end, opened
from autograder.commands.terminal import AUTHOR, INFRASTRUCTURE, OK, progress, say, warn
from autograder.model.amounts import some

if TYPE_CHECKING:
    from autograder.model.course import Course


@app.command(rich_help_panel=AUTHORS)
def new(folder: Annotated[Path, typer.Argument(metavar="COURSE", help="a new folder, or an empty one")]) -> None:
    """Make the smallest course that grades: a chapter, its checks, listed answers, CI, a notebook that was handed in.

    For example: autograder new algebra. Then change what it wrote: see docs/adding-a-course.md.
    """
    from autograder.authoring import new as beginning

    course = beginning.new(folder)
    for path in sorted(path for path in course.root.rglob("*") if path.is_file() and ".git" not in path.parts):
        say(f"new: {path.relative_to(course.root)}")
    for command in (f"cd {shlex.quote(str(folder))}", *beginning.COMMANDS):
        say(f"then: {command}")


@app.command(rich_help_panel=AUTHORS)
def build(
    context: typer.Context,
    check: Annotated[bool, typer.Option("--check", help="change nothing; fail if a notebook is stale")] = False,
) -> None:
    """Write notebooks/ from solutions/, and those of other languages from their catalogues; say which exercises have no
    listed answers.
    """
    from autograder.authoring import build as builder
    from autograder.authoring import in_language
    from autograder.probe import listed

    course = opened(context)
    stale = [f"notebooks/{name}" for name in builder.build(course, check=check)]
    stale += in_language.write(course, check=check)
    for file in stale:
        say(f"{'stale' if check else 'built'}: {file}")
    if check and stale:
        end(AUTHOR, "notebooks/ is older than solutions/; run `autograder build` and commit what it writes")
    for said in filter(None, (listed.unlisted(course, name) for name in course.chapters)):
        say(f"note: {said}")


@app.command("import", rich_help_panel=AUTHORS)
def import_(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="an nbgrader course: source/<assignment>/<notebook>.ipynb")
    ],
    out: Annotated[Path, typer.Option(help="the new course's folder")],
    source: Annotated[
        str, typer.Option(help="its folder of assignments, if it is not called as nbgrader_config.py says")
    ] = "",
) -> None:
    """Make a course of one of nbgrader's, or of master notebooks of otter's: see docs/importing.md.

    For example: autograder import nbgrader_course --out course. Exit code 2: a notebook could not be taken; the others were.
    """
    from autograder.authoring import importing

    made = importing.import_course(folder, out, source=source)
    for chapter, notebook in made.chapters.items():
        say(f"imported: {notebook} as {chapter}")
    for note in made.notes:
        say(f"note: {note}")
    say(f"its test cells are weak checks, run where the student's code runs; course: {out}")
    for refused in made.refused:
        warn("not imported", refused)
    sys.exit(AUTHOR if made.refused else OK)


@app.command(rich_help_panel=AUTHORS)
def run(
    context: typer.Context,
    chapters: Annotated[list[str] | None, typer.Argument(help="all of them by default")] = None,
) -> None:
    """Execute solved notebooks from top to bottom, as CI does; fail on an error, a warning or a trace of one."""
    from autograder.authoring import run as runner

    course = opened(context)
    if not (names := [course.full_name(name) for name in chapters or course.chapters]):
        end(AUTHOR, "solutions/ has no chapter to run")
    problems = 0
    for name in names:
        with progress(f"running {name}") as advance:
            ran = runner.run(course, name, advance)
        for problem in ran.problems:
            warn(name, problem)
        problems += len(ran.problems)
        clean = some(len(ran.problems), "problem") if ran.problems else "ran clean"
        say(f"{name}: {clean}, {some(ran.cells, 'cell')} in {ran.seconds:.1f} s")
    sys.exit(AUTHOR if problems else OK)


@app.command(rich_help_panel=AUTHORS)
def check(
    context: typer.Context,
    chapter: ChapterName,
    exercise: Annotated[str, typer.Argument(help="as the check's cell names it: split")],
    answer: Annotated[Path | None, a_file(help="a file with the cell's source; none: the reference")] = None,
    seeds: Annotated[int, typer.Option(help="on how many inputs", min=1)] = 3,
) -> None:
    """Say what the checks say of one answer, in seconds: for authors, in no sandbox.

    Exit code 0: every test passed on every seed.
    """
    from autograder.authoring import check_answer

    course = opened(context)
    source = None if answer is None else answer.read_text(encoding="utf-8")
    found = check_answer.check(course, course.full_name(chapter), exercise, source, range(1, seeds + 1))
    for line in check_answer.lines(found):
        say(line)
    sys.exit(OK if all(each.passed for each in found) else INFRASTRUCTURE)


@app.command(rich_help_panel=AUTHORS)
def verify(
    context: typer.Context,
    chapters: Annotated[
        list[str] | None, typer.Argument(help="all by default; one may be followed by some of its exercises")
    ] = None,
    seeds: Annotated[int, typer.Option(help="on how many the reference is graded", min=1)] = 20,
    changed: Annotated[bool, typer.Option("--changed", help="only chapters that changed since docs/checks.md")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="no sandbox, no mutants: half a minute; minutes where checks start clusters")
    ] = False,
) -> None:
    """Test the checks themselves: reference, blank, listed answers and mutants of each chapter.

    A wrong rule earns half of its points at most, an answer without a thought none, and what is right passes the visible
    check. Of an imported chapter: how many wrong answers its tests accept, which, and a line that would tell each.

    With 20 seeds or more what was found of a whole chapter is written into docs/checks.md, if all is well. Exit code 2: a
    check does not do what it must.
    """
    from autograder.authoring import checks_page
    from autograder.authoring import verify as verifier

    course = opened(context)
    asked = _with_exercises(course, chapters or course.chapters)
    if changed:
        known = checks_page.digests(course)
        asked = {name: of for name, of in asked.items() if known.get(name) != verifier.digest(course, name)}
    good = True
    for name, of in asked.items():
        with progress(f"verifying {name}") as advance:
            found = verifier.verify(course, name, seeds=seeds, progress=advance, exercises=of, quick=quick)
        for said in (checks_page.line(found), *found.accepted, *found.notes):
            say(f"{name}: {said}")
        for said in verifier.complaints(found):
            warn(name, said)
        if found.good and seeds >= verifier.SEEDS and not (of or quick):  # at once: the next takes minutes
            say(f"written: {checks_page.write(course, found)}")
        good = good and found.good
    if asked and good:
        say("nothing is to be mended")
    sys.exit(OK if good else AUTHOR)


def _with_exercises(course: Course, arguments: Iterable[str]) -> dict[str, list[str]]:
    """Each chapter named, with the exercises named after it: `03 split 04`. What follows a chapter's own is its exercise."""
    from autograder.model.course import CourseError

    asked: dict[str, list[str]] = {}
    for argument in arguments:
        try:
            name = course.full_name(argument)
        except CourseError:
            if not asked:
                raise
            asked[list(asked)[-1]].append(argument)
        else:
            asked[name] = []
    return asked
