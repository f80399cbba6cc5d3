"""The verb of whoever translates a course: translate."""

from __future__ import annotations

from typing import Annotated

import typer

from autograder.commands.application import AUTHORS, app, end, opened
from autograder.commands.terminal import AUTHOR, console, errors, plain

BROKEN = 1  # exit code
MEND = "write code, markup and places as the English text has them, or empty the msgstr: English is shown then"


@app.command(rich_help_panel=AUTHORS)
def translate(
    context: typer.Context,
    chapters: Annotated[list[str] | None, typer.Argument(help="to begin with; what is begun is kept up anyway")] = None,
    language: Annotated[str, typer.Option(help="zh")] = "zh",
    check: Annotated[bool, typer.Option("--check", help="change nothing; fail if a translation is broken")] = False,
) -> None:
    """Write the gettext catalogues (.po) of a language anew from the sources, and say how far they are.

    For example: autograder translate 04. What is missing or stale is shown in English. Exit code 1: a translation is broken.
    """
    from across._language.catalogue import LANGUAGES
    from autograder.authoring import catalogues

    course = opened(context)
    if language not in LANGUAGES:
        end(AUTHOR, f"--language {language}: there are {', '.join(LANGUAGES)}")
    also = [course.full_name(name) for name in chapters or ()]
    broken = list[str]()
    for words in catalogues.of_course(course, language, also):
        try:
            if not check:
                catalogues.update(words, language)
            found = catalogues.state(words)
        except ValueError as error:
            broken.append(str(error))
            continue
        counted = f"{found.translated} translated, {found.missing} missing, {found.stale} stale"
        console.print(plain(f"{words.name}: {counted}"), highlight=False, soft_wrap=True)
        broken += found.broken
    begun = [*also, *(name for name in course.chapters if catalogues.is_translated(course, language, name))]
    if left := [name for name in course.chapters if name not in begun]:
        console.print(plain(f"not begun: {', '.join(left)}"), highlight=False, soft_wrap=True)
    for line in broken:
        errors.print(f"[bold red]broken:[/] {plain(line)}", highlight=False, soft_wrap=True)
    if broken:
        end(BROKEN, MEND)
