"""What `autograder grade` does and says: from a class in a folder to marks, pages and a table; a rehearsal; watching."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from autograder.commands.terminal import AUTHOR, INFRASTRUCTURE, OK, Interrupted, console, progress, say, warn

MOST = 40  # lines of one kind

if TYPE_CHECKING:
    from autograder.engine.request import Request
    from autograder.gradebook.record import Record
    from autograder.model.course import Chapter
    from autograder.submissions.handed_in import HandedIn


def tell(found: HandedIn, chapter_name: str, out: Path | None = None) -> int:
    """Say where the class comes from, and what was not taken of it; the exit code. The list of files is kept in `out`."""
    from autograder.submissions import handed_in

    if not found.lines:
        return OK
    for says in found.trouble():
        warn("handed in", says, "yellow")
    if out:
        where = handed_in.write_list(out, found, chapter_name)
        who = f"{len(found.students)} students from {found.layout}; " if found.students else ""
        say(f"{who}what became of each file: {where}")
    if not found.lost:
        return OK
    said = f"{found.lost} files are somebody's, but nobody of the class gets a mark for them; the others were taken"
    warn("handed in", said)
    return AUTHOR


def watch(request: Request, arrivals: Iterator[HandedIn]) -> int:
    """Grade each batch that arrives; Ctrl-C between two batches is how it ends. Returns the worst exit code."""
    from autograder.engine import class_run

    code, batches = OK, 0
    while True:
        try:
            console.print("watching; Ctrl-C ends it", highlight=False)
            found = next(arrivals, None)
        except Interrupted:
            found = None
        if found is None:
            class_run.close()
            console.print(f"watched: {batches} batch{'' if batches == 1 else 'es'} graded", highlight=False)
            return code
        if asked := sorted({*found.students} & {*(request.students or found.students)}):
            told = tell(found, request.chapter, request.out)
            code = max(code, told, grade_to_the_end(replace(request, handed_in=found, students=asked)))
            batches += 1


def launch(request: Request) -> None:
    """Start the warm servers: they import, TensorFlow for one, while we import nbgrader. Not where others grade."""
    from autograder.job import forkserver
    from autograder.sandbox import boxes

    if request.executor is None and (request.trust or not boxes.problem()):
        forkserver.launch(request.course, request.chapter)


def _ready(request: Request) -> Request:
    """Start the servers; the request with the reference as it is now, which is read meanwhile."""
    launch(request)
    from autograder.authoring import build

    return replace(request, reference=build.solution_source(request.course, request.chapter))


def rehearse(request: Request, as_json: bool = False) -> int:
    """Grade and keep nothing; say which marks would change against what is in OUT. Returns the exit code."""
    request = _ready(request)
    from autograder.engine import class_run, dry_run
    from autograder.report import changes

    with progress(f"grading {request.chapter}, to keep nothing") as advance:
        result, was, then = dry_run.rehearse(request, advance)
    found = changes.compare(was, then)
    class_run.close()
    if as_json:
        typer.echo(json.dumps({**found.to_json(), "faults": result.faults}, indent=1))
    else:
        if not found.same and not found.changed:
            console.print("there is nothing in OUT to compare with: every mark is new", highlight=False)
        elif found.changed or found.kept:
            console.print(changes.table(found))
        console.print(f"{changes.totals(found)}; nothing was written", highlight=False, soft_wrap=True)
    left(result.faults)
    return INFRASTRUCTURE if result.faults else OK


def grade_to_the_end(request: Request) -> int:
    """Grade, write marks, feedback and report, print the class; all the while OUT is held. Returns the exit code."""
    from autograder.store import files

    with files.only_writer(request.out):
        return _graded(request)


def _graded(request: Request) -> int:
    out, chapter = request.out, request.course.chapter(request.chapter)  # an author's fault ends the command here
    request, class_ = _ready(request), request.handed_in
    from autograder.engine import class_run
    from autograder.report import words

    before: list[Record] = []

    def meanwhile() -> None:
        from autograder.gradebook import database, record

        before.extend(record.records(out, chapter) if database.exists(out) else [])

    pages = ThreadPoolExecutor(1, thread_name_prefix="pages")
    with progress(f"grading {chapter.name}") as advance, pages:
        # what all pages share, made once, while submissions are graded: 0.7 s
        prepare = cache(lambda: pages.submit(_prepare, chapter))

        def advanced(done: int, of: int, student: str) -> None:
            prepare()
            advance(done, of, student)

        begun = partial(words.keep, request.course, chapter.name, out)
        result = class_run.grade_class(request, progress=advanced, meanwhile=meanwhile, begun=begun)
    from autograder.gradebook import record, roll
    from autograder.report import attention, changes, class_page, outputs
    from autograder.submissions import intake

    if not request.watching:
        class_run.close()
    after = record.records(out, chapter)
    if class_.roster:
        there = {each.student for each in intake.collect(class_.folder, chapter)}
        roll.keep_absent(out, chapter, set(class_.roster) - there - set(class_.perhaps))
    known = {*class_.roster, *(each.student for each in after)}
    for each in request.extensions:
        if each.chapter in ("", chapter.name) and each.student not in known:
            warn("extension", f"{each.where}: nobody of that id is in the class yet; it is kept", "yellow")
    if class_.enrolled:
        roll.enter(out, chapter, class_.enrolled)
    roll.keep_attempts(out, chapter, class_.attempts, {*result.graded, *result.unchanged})
    faults = result.faults
    if request.students:  # of the others nothing has changed
        done = {*result.graded, *result.unchanged}
        faults = {name: why for name, why in roll.left(out, chapter).items() if name not in done} | faults
    with progress("feedback") as advance:
        unmade = outputs.write(
            out, chapter, faults=faults, workers=request.workers, progress=advance, command=request.command
        )
    console.print(class_page.class_table(out, chapter, console.width))
    said = f"{len(result.graded)} graded, {len(result.unchanged)} unchanged"
    console.print(f"{said}, {len(result.faults)} left by a fault of this machine", highlight=False)
    if absent := roll.absent(out, chapter):
        say(f"{len(absent)} of the roster handed in nothing: {', '.join(absent)}")
    if summary := changes.summary(changes.compare(before, after)):
        say(summary)
    reports(out, chapter)
    for (exercise, test), met in attention.broken(after).items():
        says = f"{exercise}, {test}: {met[0][1].kind} (on {len(met)} answers, {met[0][0]}'s for one)"
        warn("a check broke", says)
    left(result.faults)
    without_notebook(unmade)
    return INFRASTRUCTURE if result.faults or unmade else OK


def _prepare(chapter: Chapter) -> None:
    from autograder.report import feedback, outputs  # noqa: F401

    feedback.prepare(chapter)


def reports(out: Path, chapter: Chapter) -> None:
    """Say where the pages of the chapter and, if there are several, of the course lie."""
    from autograder.gradebook import released
    from autograder.report import class_page

    say(f"report: {out / class_page.page_name(chapter)}")
    if len(released.chapters(out, chapter)) > 1:
        say(f"all chapters: {out / 'report.html'}")


def left(faults: dict[str, str]) -> None:
    """Say who was not graded, and why."""
    for student, why in islice(faults.items(), MOST):
        warn("not graded", f"{student}: {why}")
    if len(faults) > MOST:
        warn("not graded", f"{len(faults) - MOST:,} more")


def without_notebook(unmade: dict[str, str]) -> None:
    """Say whose page shows no notebook, and why."""
    for student, why in unmade.items():
        warn("no notebook on the page", f"{student}: {why}; the marks stand, the notebook is in autograded/")
