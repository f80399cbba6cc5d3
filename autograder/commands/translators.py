"""The verb of whoever translates a course: translate."""

from __future__ import annotations

from typing import Annotated

import typer

from autograder.commands.application import AUTHORS, app, end, opened
from autograder.commands.terminal import AUTHOR, console, errors, plain


@app.command(rich_help_panel=AUTHORS)
def translate(
    context: typer.Context,
    chapters: Annotated[list[str] | None, typer.Argument(help="to begin with; what is begun is kept up anyway")] = None,
    language: Annotated[str, typer.Option(help="zh")] = "zh",
    check: Annotated[
        bool, typer.Option("--check", help="change nothing; fail if something is missing or stale")
    ] = False,
) -> None:
    """Write the gettext catalogues (.po) of a language anew from the sources, and say what is to be translated.

    For example: autograder translate 04. Exit code 2: what must be translated by now is missing, or changed since.
    """
    from across._language.catalogue import LANGUAGES
    from autograder.authoring import catalogues

    course = opened(context)
    if language not in LANGUAGES:
        end(AUTHOR, f"--language {language}: there are {', '.join(LANGUAGES)}")
    also = [course.full_name(name) for name in chapters or ()]
    left = 0
    for words in catalogues.of_course(course, language, also):
        if not check and (words.needed or words.path.is_file()):
            catalogues.update(words, language)
        found = catalogues.state(words)
        left += len(found.missing) + len(found.stale) + len(found.broken)
        counted = f"{found.translated} translated, {len(found.missing)} missing, {len(found.stale)} stale"
        console.print(plain(f"{found.name}: {counted}, {found.later} not begun"), highlight=False, soft_wrap=True)
        for what, lines in (("missing", found.missing), ("stale", found.stale), ("broken", found.broken)):
            for line in lines:
                errors.print(f"[bold red]{what}:[/] {plain(repr(line))}", highlight=False, soft_wrap=True)
    if left:
        end(
            AUTHOR,
            f"{left} messages of what is translated are missing, stale or broken; edit the .po files named above",
        )
