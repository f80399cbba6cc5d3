"""The verbs by which a mark is defended: explain, replay, contest."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autograder.commands import grading
from autograder.commands.application import INSTRUCTORS, ChapterName, Out, app, end, opened, spelled
from autograder.commands.terminal import AUTHOR, INFRASTRUCTURE, OK, console, say
from autograder.model.course import Chapter, Course, near

if TYPE_CHECKING:  # these import what takes seconds
    from autograder.engine.again import Again
    from autograder.gradebook.evidence import Kept

At = Annotated[
    str, typer.Option("--at", help="as it stood then: 2026-11-20, which is its end, or 2026-11-20T18:00+01:00")
]
Trust = Annotated[bool, typer.Option("--trust-submissions", help="in no sandbox, where it was graded so")]


@app.command(rich_help_panel=INSTRUCTORS)
def explain(
    context: typer.Context,
    student: str,
    chapter: ChapterName,
    exercise: Annotated[str, typer.Argument(help="all of them by default")] = "",
    *,
    out: Out,
    at: At = "",
    json_: Annotated[bool, typer.Option("--json", help="all of it, for machines")] = False,
) -> None:
    """Say why a student has the marks that they have: whose fault, evidence, limits reached, what to do."""
    from autograder.gradebook import past
    from autograder.report import explain as explainer

    course = opened(context)
    full = course.chapter(course.full_name(chapter))
    how: dict[str, Any] = {"command": spelled(context), "at": past.moment(out, at) if at else None}
    if json_:
        typer.echo(json.dumps(explainer.as_json(out, full, student, exercise, **how), indent=1))
    else:
        said, again = explainer.explain(out, full, student, exercise, **how)
        console.print(said, highlight=False)
        if again:  # in one piece, to be copied
            say(again)


@app.command(rich_help_panel=INSTRUCTORS)
def replay(
    context: typer.Context,
    student: str,
    chapter: ChapterName,
    *,
    out: Out,
    at: At = "",
    trust: Trust = False,
) -> None:
    """Grade once more what was kept of a student, as it was graded then; nothing is written.

    Exit code 0: the same verdict; 1: another one, or this machine failed; 2: nothing is kept, or the course is another one now.
    """
    from autograder.gradebook import evidence, past, record
    from autograder.gradebook.record import some

    course = opened(context)
    full = course.chapter(course.full_name(chapter))
    with record.book(out, full) as book:
        kept = evidence.at(book, full.name, student, past.moment(out, at) if at else None)
    again = _again(course, kept, out, as_then=True, trust=trust)
    others = [(was, now) for was, now in again.pairs if was != now]
    then, same = kept.verdict, "another verdict than" if others else "the same verdict as"
    say(
        f"{student}, {full.name}: {same} on {kept.moment}, {some(then.points, 'point')} then and {again.now.points:g} now"
    )
    if again.elsewhere:
        say(f"versions and machine are others now; then: {again.elsewhere}")
    for was, now in others:
        is_ = f"{now.result}, {now.points:g}: {now.message}" if now else "no more in the chapter"
        say(f"{was.exercise}: {was.result}, {was.points:g}: {was.message} Now {is_}")
    sys.exit(INFRASTRUCTURE if others else OK)


@app.command(rich_help_panel=INSTRUCTORS)
def contest(
    context: typer.Context,
    code: Annotated[str, typer.Argument(help="below the exercises on the student's page, like k7q2-9xhb")],
    exercise: Annotated[str, typer.Argument(help="the contested one; what is not right by default")] = "",
    *,
    out: Out,
    reply: Annotated[str | None, typer.Option(help="keep this answer to the student, and write the page anew")] = None,
    trust: Trust = False,
) -> None:
    """Grade what a student contests by the checks of now, show both verdicts and who has the same mistake; or answer."""
    from autograder.gradebook import contests, record

    course = opened(context)
    kept, stands = contests.find(out, course.id, code)
    full = course.chapter(kept.verdict.chapter)
    then = [mark.exercise for mark in kept.verdict.marks]
    if exercise and exercise not in then:
        end(AUTHOR, f"{full.name}: no exercise {exercise!r}; {near(exercise, then)}")
    if reply is not None:
        return _reply(full, kept, exercise, out, reply)
    again, class_ = _again(course, kept, out, as_then=False, trust=trust), record.rows(out, full)
    since = "" if stands else "; another verdict stands since"
    say(f"{kept.verdict.student}, {full.name}, as recorded on {kept.moment}{since}")
    if again.differs:
        say(f"graded now by another {', '.join(again.differs)} than then")
    for was, now in again.pairs:
        if was.exercise == exercise or (not exercise and was.points < was.max_points):
            is_ = f"{now.result}, {now.points:g}: {now.message}" if now else "no more in the chapter"
            also = ", ".join(contests.others(class_, kept.verdict.student, was))
            say(f"{was.exercise}: {was.result}, {was.points:g} of {was.max_points:g}: {was.message}")
            say(f"  now: {'the same' if was == now else is_}")
            say(f"  the same mistake: {also or 'nobody else'}")


def _reply(chapter: Chapter, kept: Kept, exercise: str, out: Path, says: str) -> None:
    exercises = {each.name: each for each in chapter.exercises}
    if exercise not in exercises:
        end(AUTHOR, f"--reply needs an exercise of the chapter: {', '.join(exercises)}")
    if not says.strip():
        end(AUTHOR, "--reply: say something")
    from autograder.gradebook import contests
    from autograder.report import outputs

    with grading.held(out):
        shown = contests.reply(out, chapter, kept.verdict.student, exercises[exercise], says)
        page = outputs.write_page(out, chapter, kept.verdict.student)
    alone = "in the mark's history alone: the exercise has no cell for a comment of nbgrader's"
    say(f"kept, and {f'shown by {page}' if shown else alone}")


def _again(course: Course, kept: Kept, out: Path, *, as_then: bool, trust: bool) -> Again:
    from autograder.authoring import build
    from autograder.engine import again, class_run

    reference = build.solution_source(course, kept.verdict.chapter)
    try:
        return again.grade(course, kept, out, reference, as_then=as_then, trust=trust)
    finally:
        class_run.close()
