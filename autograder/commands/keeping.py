"""The verb that removes a student: forget."""

from __future__ import annotations

from typing import Annotated

import typer

from autograder.commands.application import INSTRUCTORS, Out, app, opened
from autograder.commands.terminal import console, errors, plain, progress


@app.command(rich_help_panel=INSTRUCTORS)
def forget(
    context: typer.Context,
    student: str,
    out: Out,
    yes: Annotated[bool, typer.Option("--yes", help="remove it; without this, only say what would go")] = False,
) -> None:
    """Remove all that is kept of one student: marks, answers, feedback, lines of lists and of the log. For good.

    For example: autograder forget ada --out class --yes
    """
    from autograder.gradebook import forgetting, released
    from autograder.report import outputs

    course = opened(context)
    kept = forgetting.kept(out, student, course.id)
    of = f"{', '.join(kept.chapters) or 'no chapter'}; {', '.join(str(path) for path in (*kept.folders, *kept.tables))}"
    if not yes:
        console.print(plain(f"{student}: would remove {of}; say --yes"), highlight=False, soft_wrap=True)
        return
    forgetting.forget(out, student, course.id)
    for chapter in released.every(out, course.id):
        with progress("pages") as advance:
            outputs.write(out, chapter, progress=advance)
    console.print(plain(f"{student}: removed {of}"), highlight=False, soft_wrap=True)
    for path in forgetting.mentions(out, student):
        errors.print(f"[bold red]has the name still:[/] {plain(str(path))}", highlight=False, soft_wrap=True)
