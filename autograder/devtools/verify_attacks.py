"""`autograder verify --attacks`: the corpus graded, its table, and what stock nbgrader makes of the same attacks."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from autograder.devtools import attacks, fixture, stock
from autograder.sandbox import boxes


def verify(workers: int = 0, with_stock: bool = False, out: Path | None = None) -> bool:
    """Grade the corpus on the fixture course, print its table, and say whether all is as it must be: `verify --attacks`.

    `with_stock`: the corpus is also graded by nbgrader's own autograder, in a box of its own, and the table of
    docs/security.md is written anew. `out` keeps the class (by default it is thrown away).
    Raises SandboxError where no box can be built.
    """
    if problem := boxes.problem():
        raise boxes.SandboxError(problem)
    console, every = Console(), attacks.corpus()
    with tempfile.TemporaryDirectory(prefix="attacks-") as temporary, fixture.built() as course:
        place = out or Path(temporary)
        place.mkdir(parents=True, exist_ok=True)
        graded = attacks.run(course, place, every, workers)
        console.print(attacks.table(course, graded, every))
        bad = attacks.wrongs(course, graded, every)
        if with_stock:
            stock.compare(course, every, graded, console, workers)
    for sentence in bad:
        console.print(f"[bold red]not as it must be:[/] {escape(sentence)}", highlight=False, soft_wrap=True)
    if not bad:
        console.print("None scored above what it earned, touched another student or this machine, or outlived its job.")
    return not bad
