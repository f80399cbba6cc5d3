"""What was found of the checks, to read: a line for the terminal, and docs/checks.md, one section a chapter."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from autograder.authoring.mutants import Mutant
from autograder.authoring.verify import KILLED, SEEDS, Verified
from autograder.authoring.worth import FEW, HALF
from autograder.model.course import Course
from autograder.store import files

TITLE = f"""# Checks

Written by `autograder verify`, for the sources whose digests stand here; do not edit it. What each number is of, and what
it must be, is in `autograder/authoring/verify.py`: the reference passes on {SEEDS} seeds, the blank scores nothing, every
listed wrong answer fails and every other right one passes on {FEW} seeds; what a wrong one is told is looked at with the first
of these, and with another in the sandbox. No check judges one answer differently on different seeds, and {KILLED:.0%} of the
mutants, at least, do not get full points. On {SEEDS} seeds (fewer where a check starts servers) a wrong rule earns {HALF:.0%}
of its exercise's points at most, and an answer without a thought (`trivial`: a constant, what it was given) nothing. `visible`
counts the answers that the visible checks looked at, too: they refuse none that is right; listed wrong ones that they tick, and
grading refuses, are named below. What is innocent beside a right answer (a print, a helper, an assert:
`autograder/authoring/innocent.py`) changes no mark and no tick. A chapter that was verified before one of these rules
was made is held to it when it changes next.
"""
SECTION = re.compile(r"^## (\w+)\n\n<!-- digest: (\w+) -->\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
COLUMNS = ("exercises", "checks", "wrong", "right", "trivial", "visible", "mutants", "killed", "equivalent", "flakes")


def path(course: Course) -> Path:
    """docs/checks.md of the course."""
    return course.root / "docs" / "checks.md"


def digests(course: Course) -> dict[str, str]:
    """The digests of the chapters that docs/checks.md has a section of."""
    try:
        return {name: digest for name, digest, _ in SECTION.findall(path(course).read_text(encoding="utf-8"))}
    except FileNotFoundError:
        return {}


def line(found: Verified) -> str:
    """The numbers of one chapter, for the terminal."""
    return ", ".join(f"{column} {cell}" for column, cell in zip(COLUMNS, _row(found), strict=True))


def write(course: Course, found: Verified) -> Path:
    """Put a chapter's section into docs/checks.md, in the place of the one it had."""
    page = path(course)
    page.parent.mkdir(exist_ok=True)
    there = page.read_text(encoding="utf-8") if page.exists() else ""
    sections = {name: f"<!-- digest: {digest} -->\n{rest}" for name, digest, rest in SECTION.findall(there)}
    sections[found.chapter] = section(found)
    parts = [f"## {name}\n\n{sections[name].rstrip()}\n" for name in course.chapters if name in sections]
    files.replace(page, "\n".join([TITLE, *parts]).encode())
    return page


def section(found: Verified) -> str:
    """Return what docs/checks.md says of one chapter."""
    head = f"| {' | '.join(COLUMNS)} |\n|{'---:|' * len(COLUMNS)}\n| {' | '.join(_row(found))} |"
    parts = [f"<!-- digest: {found.digest} -->", "", head, ""]
    parts += _folded("Mutants that survive", [(each, each.operator) for each in found.survivors])
    if found.ticked:
        parts += [
            f"Ticked in the notebook and refused in grading: {', '.join(f'`{name}`' for name in found.ticked)}",
            "",
        ]
    parts += _folded("Equivalent: no fault, and so not counted", found.equivalents)
    return "\n".join(parts)


def _row(found: Verified) -> list[str]:
    counts = (found.exercises, found.tests, found.wrong, found.right, found.trivial, found.visible, found.mutants)
    killed = f"{found.share:.1%}" if found.mutants else "-"
    return [*map(str, counts), killed, str(len(found.equivalents)), str(len(found.flakes))]


def _folded(title: str, listed: Sequence[tuple[Mutant, str]]) -> list[str]:
    if not listed:
        return []
    shown = [f"`{mutant.answer}`: {why}\n\n```diff\n{mutant.diff}\n```\n" for mutant, why in listed]
    return [f"<details><summary>{title}: {len(listed)}</summary>\n", *shown, "</details>\n"]
