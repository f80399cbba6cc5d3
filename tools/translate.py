"""Write the gettext catalogues (.po) of a language anew from the sources, and say how far they are and what is broken.

    uv run python tools/translate.py                # take up what changed; 04 begins with a chapter
    uv run python tools/translate.py --check        # change nothing, name what is missing; exit code 1: one is broken

    solutions/zh/NAME.po        a chapter's prose, cell by cell, and (context `code`) the fixed words in its pictures
    lib/across/_language/zh/across.po, autograder/report/zh/autograder.po, tools/course_site/zh/site.po
                                what the library, the grader's pages and the site say

What nobody has translated, or what changed since, is shown in English: that is counted, and no fault. What is broken is.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

import across
import messages
from across import diagnosis
from across._language import catalogue
from autograder.authoring import build
from autograder.authoring.in_language import CODE, is_translated, prose_file
from autograder.gradebook import record
from autograder.job import judge
from autograder.model import pictures
from autograder.model.course import Course, find, students, text
from autograder.report import feedback, rendering, term_lines
from course_site import words as site

Key = tuple[str | None, str]  # context, English
LIBRARY = Path(across.__file__).parent
HARNESS = Path(build.__file__).parents[1]
PLACE = re.compile(r"\{\d[^{}]*\}")
PLURAL = re.compile(
    r"(?<=[a-z])\{[1-9]\}(?!\w)"
)  # the place of an ending, "{0} replica{1}", which another language has not
PAGES = (  # what they say is in a context of its own
    "_jupyter/pages/start.html",
    "_jupyter/pages/lanes.html",
    "_jupyter/pages/how.html",
    "_jupyter/share/labextensions/across/lab.js",
    "_jupyter/share/labextensions/across/exercises.js",
    "_jupyter/share/labextensions/across-cells/cells.js",
)
FINDINGS = [text for question, _, finding in diagnosis.RUNGS for text in (question, finding.says, finding.mend)]
LABELS = [  # of the feedback page
    *(each for table in (feedback.HOW, feedback.TO_DO, feedback.NOT_YOURS) for each in table.values()),
    *term_lines.COUNTS.values(),
    *(record.WAITS, record.BY_HAND, record.NOTHING, judge.NOTHING_SEEN, judge.NOT_ATTEMPTED),
]


@dataclass
class Words:
    """One catalogue: its file, and what the sources hold for it."""

    path: Path
    name: str  # as it is called: the file, from the course's folder
    found: dict[Key, list[str]] = field(default_factory=dict)  # the files that say it
    values: dict[Key, tuple[str, ...]] = field(default_factory=dict)  # what stands in a message's places

    def add(self, file: str, found: Mapping[str, tuple[str, ...]], context: str | None = None) -> None:
        """Take up messages of `file`."""
        for english, values in found.items():
            files = self.found.setdefault((context, english), [])
            if file not in files:
                files.append(file)
            self.values.setdefault((context, english), values)


@dataclass(frozen=True)
class State:
    """How far a catalogue is."""

    translated: int
    missing: tuple[str, ...]  # English
    stale: tuple[str, ...]  # the English that was translated, changed since, or gone
    broken: tuple[str, ...]  # translations that cannot be used, with file and line, and why


def of_course(course: Course, language: str, also: Iterable[str] = ()) -> list[Words]:
    """The catalogues of a course in a language, and ours where the course is this checkout's; `also`: chapters to begin.

    Raises CourseError for a source that cannot be built.
    """
    begun = [name for name in course.chapters if name in also or is_translated(course, language, name)]
    found = [_prose(course, language, name) for name in begun]
    if course.root != HARNESS.parent:
        return found
    return [*found, _library(language, course), _harness(language), _site(language, course)]


def _prose(course: Course, language: str, name: str) -> Words:
    path = prose_file(course, language, name)
    words = Words(path, path.relative_to(course.root).as_posix())
    file = course.source(name).relative_to(course.root).as_posix()
    for cell in build.release(course, name).cells:
        if cell.cell_type == "code":
            words.add(file, messages.of_pictures(text(cell)) if not students(cell) else {}, CODE)
        elif not students(cell) and text(cell).strip():
            words.add(file, {pictures.named(text(cell)): ()})
    return words


def _library(language: str, course: Course) -> Words:
    words = Words(LIBRARY / "_language" / language / "across.po", f"lib/across/_language/{language}/across.po")
    for path in sorted(LIBRARY.rglob("*.py")):
        words.add(f"lib/across/{path.relative_to(LIBRARY).as_posix()}", messages.of_source(path.read_text("utf-8")))
    words.add("lib/across/diagnosis.py", dict.fromkeys(FINDINGS, ()))
    for file in PAGES:
        words.add(f"lib/across/{file}", messages.of_page((LIBRARY / file).read_text("utf-8")), catalogue.PAGE)
    words.add("course.toml", {course.title: ()}, catalogue.PAGE)
    return words


def _harness(language: str) -> Words:
    words = Words(HARNESS / "report" / language / "autograder.po", f"autograder/report/{language}/autograder.po")
    words.add("autograder/report/feedback.py", dict.fromkeys(filter(None, LABELS), ()))
    page = (rendering.TEMPLATES / "feedback.html").read_text("utf-8")
    words.add("autograder/report/templates/feedback.html", messages.of_page(page))
    return words


def _site(language: str, course: Course) -> Words:
    words = Words(site.OURS / language / "site.po", f"tools/course_site/{language}/site.po")
    words.add("course.toml", {course.title: ()})
    for path in sorted(site.OURS.glob("*.py")):
        words.add(f"tools/course_site/{path.name}", messages.of_source(path.read_text("utf-8")))
    return words


def state(words: Words) -> State:
    """How far a catalogue is. Raises ValueError for a file that is none."""
    given = {(each.context, str(each.id)): each for each in catalogue.read(words.path) if each.id}
    ready = {key: each for key, each in given.items() if each.string and not each.fuzzy}
    used = {key: each for key, each in ready.items() if key in words.found}
    slips = {key: _slip(words, key, str(each.string)) for key, each in used.items()}
    return State(
        translated=len(used),
        missing=tuple(key[1] for key in words.found if key not in ready and not (key in given and given[key].fuzzy)),
        stale=tuple(key[1] for key, each in given.items() if each.fuzzy or key not in words.found),
        broken=tuple(f"{words.name}:{used[key].lineno}: {key[1]!r}: {why}" for key, why in slips.items() if why),
    )


def _slip(words: Words, key: Key, string: str) -> str:
    """Why a translation cannot be used; "" if it can."""
    context, english = key
    if context is None and words.path.parent.parent.name == "solutions":
        return _markdown_slip(english, string)
    ours, theirs = (sorted(PLACE.findall(PLURAL.sub("", each))) for each in (english, string))
    odd = next((each for each in (*ours, *theirs) if ours.count(each) != theirs.count(each)), "")
    return odd and f"the place {odd} is not in both as often"


def _markdown_slip(english: str, string: str) -> str:
    """Code of a cell is no text: every piece of it must be there, and nothing else that looks like it."""
    for what, split in (("block of code", "```"), ("code", "`")):
        ours, theirs = (sorted(_bare(each) for each in both.split(split)[1::2]) for both in (english, string))
        if what == "block of code":
            english, string = ("".join(each.split(split)[0::2]) for each in (english, string))
        if ours != theirs:
            odd = next((each for each in (*ours, *theirs) if ours.count(each) != theirs.count(each)), "")
            return f"{what} {odd!r} is not in both as often"
    if sorted(pictures.ADDRESS.findall(english)) != sorted(pictures.ADDRESS.findall(string)):
        return "its pictures are not those of the English cell"
    for mark in ("<details>", "<summary>", "\n|", "\n# ", "$"):
        if english.count(mark) != string.count(mark):
            return f"{mark.strip()!r} is not in both as often"
    levels = [[line.split(" ")[0] for line in each.splitlines() if line.startswith("#")] for each in (english, string)]
    return "" if levels[0] == levels[1] else "its headings are not those of the English cell"


def _bare(code: str) -> str:
    """Code without its comments, which are translated."""
    return "\n".join(re.split("(?:^|  )# ", line, maxsplit=1)[0].rstrip() for line in code.split("\n"))


def update(words: Words, language: str) -> None:
    """Write a catalogue anew: what its sources say now, with the translations that it had, those of changed texts fuzzy.

    Raises ValueError for a file that is none: its translations would be lost.
    """
    from datetime import UTC, datetime

    from babel.messages.catalog import Catalog
    from babel.messages.pofile import write_po

    started = datetime(2026, 1, 1, tzinfo=UTC)  # of no moment: the same sources give the same bytes
    facts = {"project": "Across", "version": "course", "msgid_bugs_address": "", "header_comment": HEAD, "fuzzy": False}
    made = Catalog(locale=language, creation_date=started, revision_date=started, **facts)
    made.last_translator, made.language_team = "Across", language
    template = Catalog()
    for (context, english), files in words.found.items():
        places = [f"{{{number}}}: {value}" for number, value in enumerate(words.values[context, english])]
        template.add(english, locations=[(file, 1) for file in files], auto_comments=places, context=context)
    for message in catalogue.read(words.path):
        if message.id:
            made[message.id] = message
    made.update(template, update_creation_date=False, update_header_comment=False)
    words.path.parent.mkdir(parents=True, exist_ok=True)
    with words.path.open("wb") as file:
        write_po(file, made, width=110, include_lineno=False, ignore_obsolete=True)


HEAD = """\
# Simplified Chinese. `tools/translate.py` writes this file anew from the sources and keeps the translations.
# A number in braces stands for a value. What is to stay as it is, is repeated."""


MEND = "write code, markup and places as the English text has them, or empty the msgstr: English is shown then"


def translate(course: Course, also: Iterable[str] = (), language: str = "zh", check: bool = False) -> int:
    """Write the catalogues of a course, or with `check` only look; `also`: chapters to begin. The exit code."""
    broken = list[str]()
    for words in of_course(course, language, also):
        try:
            if not check:
                update(words, language)
            found = state(words)
        except ValueError as error:
            broken.append(str(error))
            continue
        counts = f"{len(found.missing)} missing, {len(found.stale)} stale"
        print(f"{words.name}: {found.translated} translated, {counts}")
        for kind, texts in (("missing", found.missing), ("stale", found.stale)):
            for english in texts if check else ():
                print(f"  {kind}: {textwrap.shorten(english, 100, placeholder=' ...')}")
        broken += found.broken
    begun = [*also, *(name for name in course.chapters if is_translated(course, language, name))]
    if left := [name for name in course.chapters if name not in begun]:
        print(f"not begun: {', '.join(left)}")
    for line in broken:
        print(f"broken: {line}", file=sys.stderr)
    if broken:
        print(MEND, file=sys.stderr)
    return bool(broken)


def main(
    chapters: Annotated[list[str] | None, typer.Argument(help="to begin with; what is begun is kept up anyway")] = None,
    check: Annotated[bool, typer.Option("--check", help="change nothing; fail if a translation is broken")] = False,
) -> None:
    """Bring the catalogues up to date."""
    course = find()
    sys.exit(translate(course, [course.full_name(name) for name in chapters or ()], check=check))


if __name__ == "__main__":
    typer.run(main)
