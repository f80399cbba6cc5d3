"""The verbs that keep a class's records, or do not: backup, forget."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autograder.commands.application import INSTRUCTORS, Out, app, opened
from autograder.commands.terminal import console, errors, plain, progress


@app.command(rich_help_panel=INSTRUCTORS)
def backup(
    out: Out,
    to: Annotated[Path, typer.Argument(help="the archive to write: FILE.tar.gz", metavar="FILE")],
) -> None:
    """Write all of a class into one archive: gradebook, answers, feedback, settings, the class's secret.

    For example: autograder backup --out class ~/2026-12-01.tar.gz; unpacked elsewhere, it is used as it was.
    """
    from autograder.gradebook import backup as copies

    made = copies.write(out, to)
    console.print(
        f"written: {made.path}, {made.files} files, {made.bytes / 1e6:.1f} MB", highlight=False, soft_wrap=True
    )
    if made.elsewhere:
        said = f"not in it: the gradebook at {made.elsewhere}; copy it with pg_dump"
        errors.print(f"[bold red]elsewhere:[/] {plain(said)}", highlight=False, soft_wrap=True)


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
