"""The verbs that hand something to students and to other systems: release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autograder.commands.application import INSTRUCTORS, ChapterName, app, opened
from autograder.commands.terminal import console, plain


@app.command(rich_help_panel=INSTRUCTORS)
def release(
    context: typer.Context,
    chapter: ChapterName,
    out: Annotated[Path, typer.Option(help="a new folder: what students get")],
    solutions: Annotated[bool, typer.Option("--solutions", help="with the answers, after the deadline")] = False,
    due: Annotated[
        str | None, typer.Option(help="with --solutions, where the header says none: 2026-11-30T23:59+01:00")
    ] = None,
) -> None:
    """Write one chapter for students: its notebook, a README, and the library alone; no answer, no check, no grader.

    For example: autograder release 03 --out handout
    """
    from autograder.release import bundle

    course = opened(context)
    name = course.full_name(chapter)
    written = bundle.release(course, name, out, solutions=solutions, due=due)
    said = f"released: {name}, {len(written)} files in {out}; try it: cd {out} && uv run across lab"
    console.print(plain(said), highlight=False, soft_wrap=True)
