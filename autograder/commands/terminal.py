"""What every command says and how: two consoles, a progress bar, exit codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from autograder.model import harmless

console = Console()
errors = Console(stderr=True)

OK, INFRASTRUCTURE, AUTHOR = 0, 1, 2  # exit codes; 2 is wrong usage, too


class Interrupted(BaseException):
    """Ctrl-C or SIGTERM. Not KeyboardInterrupt, of which typer makes its own "Aborted" before what runs has ended."""


def say(line: str) -> None:
    """Print a line in one piece: nothing in it is markup, and no character of a student's moves the terminal's cursor."""
    console.print(escape(harmless.visible(line.rstrip())), highlight=False, soft_wrap=True)


def warn(what: str, says: str, colour: str = "red") -> None:
    """Print a line to stderr after what it is about: `not graded`."""
    errors.print(f"[bold {colour}]{what}:[/] {escape(harmless.visible(says.strip()))}", highlight=False, soft_wrap=True)


@contextmanager
def progress(what: str) -> Iterator[Callable[..., None]]:
    """A progress bar with the time that is left; yields what is called with (done, of how many, whom)."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, TextColumn("{task.fields[whom]}"), console=errors) as bar:
        task = bar.add_task(what, total=None, whom="starting")

        def advance(done: int, total: int, whom: str) -> None:
            bar.update(task, completed=done, total=total, whom=escape(whom.strip())[:30])

        yield advance
