"""What every command says and how: two consoles, a progress bar, exit codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

console = Console()
errors = Console(stderr=True)

OK, INFRASTRUCTURE, AUTHOR = 0, 1, 2  # exit codes; 2 is wrong usage, too


Advance = Callable[..., None]


class Interrupted(BaseException):
    """Ctrl-C or SIGTERM. Not KeyboardInterrupt, of which typer makes its own "Aborted" before what runs has ended."""


def plain(says: str) -> str:
    """Text as it is: nothing in it is markup."""
    from rich.markup import escape

    return escape(says.strip())


@contextmanager
def progress(what: str) -> Iterator[Advance]:
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
            bar.update(task, completed=done, total=total, whom=plain(whom)[:30])

        yield advance
