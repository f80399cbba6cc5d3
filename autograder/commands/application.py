"""The command itself: what is said before its verbs, and what they share. The verbs are in `instructors` and `authors`."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from autograder.commands.terminal import console, warn

if TYPE_CHECKING:
    from autograder.model.address import Address
    from autograder.model.course import Course

HELP = """Grade notebooks that nobody trusts, and write them.

For example: autograder grade 03 --submissions collected/ --out class/
"""
INSTRUCTORS, AUTHORS = "For instructors", "For authors"  # the panels of --help
app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

ChapterName = Annotated[str, typer.Argument(help="03_device_placement, device_placement or 03", metavar="CHAPTER")]
Out = Annotated[Path, typer.Option(help="the folder of the class's gradebook, feedback and reports")]
a_file = partial(typer.Option, exists=True, dir_okay=False)  # that is read


def end(code: int, says: str) -> NoReturn:
    """End the command with one line that says why."""
    warn("autograder", says)
    sys.exit(code)


def _version(asked: bool) -> None:
    if asked:
        from across.doctor import version

        said = (f"{name} {version(name)}" for name in ("across", "tensorflow", "nbgrader"))
        console.print(f"autograder with {', '.join(said)}", highlight=False)
        raise typer.Exit


@app.callback(help=HELP)
def options(
    context: typer.Context,
    course: Annotated[
        Path | None,
        typer.Option(help="the folder of course.toml; by default that of the working folder, or one above it"),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="what is installed")
    ] = False,
) -> None:
    """Keep what is said before the command."""
    context.obj = course


def opened(context: typer.Context) -> Course:
    """The course that the command is about. Raises CourseError."""
    from autograder.model import course

    return course.find(context.obj)


def published_at(course: Course, said: str) -> Address | None:
    """Where released folders are pushed to, as the command says or else the course. Raises CourseError."""
    from autograder.model.address import Address

    if said:
        return Address.read("--published", said)
    return Address.read(f"{course.file}: published:", course.published) if course.published else None


def spelled(context: typer.Context) -> str:
    """How the commands begin that are said to be run: as this one did, with its course."""
    return f"autograder --course {shlex.quote(str(opened(context).root))}" if context.obj else "autograder"
