"""Write the course as HTML pages without answers: chapters with their pictures, what one can do after each, search.

uv run --extra site python tools/make_site.py --out _site && python -m http.server --directory _site
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from autograder.commands.application import published_at
from autograder.commands.terminal import progress
from autograder.model.course import find
from course_site import built


def main(
    chapters: Annotated[list[str] | None, typer.Argument(help="all of them by default")] = None,
    out: Annotated[Path, typer.Option(help="a new folder, or that of an earlier site")] = Path("_site"),
    execute: Annotated[
        bool, typer.Option(help="run chapters whose outputs are not kept: minutes; else they are shown bare")
    ] = True,
    published: Annotated[
        str,
        typer.Option(help="where released folders are pushed to: https://HOST/OWNER/NAME; else what course.toml says"),
    ] = "",
) -> None:
    """Write the site."""
    course, console = find(), Console(highlight=False, soft_wrap=True)
    names = [course.full_name(name) for name in chapters or ()]
    address = published_at(course, published)
    with progress("site") as advance:
        made = built.build(course, out, names=names, execute=execute, published=address, on_progress=advance)
    for name in made.bare:
        console.print(f"bare: {name}, whose outputs are not kept; without --no-execute it is run")
    console.print(f"{made.pages} pages of {made.chapters} chapters; {len(made.executed)} were run")
    console.print(f"open {(out / 'index.html').resolve().as_uri()}")


if __name__ == "__main__":
    typer.run(main)
