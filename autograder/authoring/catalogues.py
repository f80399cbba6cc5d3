"""The gettext catalogues of a course, and what stands in its sources for each: what is missing, what is stale.

    solutions/zh/NAME.po            a chapter's prose, cell by cell, and (context `code`) what its own code says
    <checks>/zh/NAME.po             what its trusted checks say: students read it in feedback, and never have the file
    lib/across/_language/zh/across.po, autograder/report/zh/autograder.po      what the library and the grader say

A chapter is translated once it has the first two; then nothing of it, nor of what it imports, may be missing or stale. Of
the others it is counted what is to be done.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import across
from across._language import catalogue
from across._language.sentences import Template
from autograder.authoring import build, messages
from autograder.model.course import Course, students, text
from autograder.report import rendering

CODE = "code"  # the context of what a chapter's code says
Key = tuple[str | None, str]  # context, English
LIBRARY = Path(across.__file__).parent
HARNESS = Path(build.__file__).parents[1]
GENERAL = (  # of the library, whatever a chapter imports
    "attempt",
    "expecting",
    "plain",
    "pictures",
    "_jupyter/machine",
    "_jupyter/start",
    "_jupyter/validating",
    "_jupyter/validation",
    "_language/pictured",
    "_language/catalogue",
)
PAGES = (
    "_jupyter/pages/start.html",
    "_jupyter/share/labextensions/across/lab.js",
)  # what they say is in a context of its own
SAID = (  # of the grader's files, those whose texts students read
    "gradebook/record.py",
    "job/carried.py",
    "job/judge.py",
    "probe/asking.py",
    "probe/graphs.py",
    "report/feedback.py",
    "report/rendering.py",
    "submissions/added_cells.py",
    "submissions/instead.py",
    "submissions/intake.py",
    "submissions/student_files.py",
)
NOT_READ = (  # of the library: what starts processes, and commands, whose words stay English
    "_process", "cli.py", "doctor.py",
    "_jupyter/lab.py", "_jupyter/gpus_ahead.py", "_jupyter/chapters.py", "_jupyter/headless.py",
)  # fmt: skip


@dataclass
class Words:
    """One catalogue: its file, and what the sources hold for it."""

    path: Path
    name: str  # as it is called: the file, from the course's folder
    found: dict[Key, list[str]] = field(default_factory=dict)  # the files that say it
    values: dict[Key, tuple[str, ...]] = field(default_factory=dict)  # what stands in a template's places
    needed: set[Key] = field(default_factory=set)  # what must be translated by now

    def add(self, file: str, found: messages.Message, context: str | None = None, needed: bool = True) -> None:
        """Take up a message of `file`."""
        key = (context, found.text)
        files = self.found.setdefault(key, [])
        if file not in files:
            files.append(file)
        self.values.setdefault(key, found.values)
        if needed:
            self.needed.add(key)


@dataclass(frozen=True)
class State:
    """What is to be done about a catalogue."""

    name: str
    translated: int
    missing: tuple[str, ...]  # that must be there by now
    stale: tuple[str, ...]  # changed since they were translated, or gone
    broken: tuple[str, ...]  # translations that cannot be used, and why
    later: int  # messages that nobody needs yet, and that are not translated


def languages(course: Course) -> list[str]:
    """The languages that a course has catalogues of."""
    return [each for each in catalogue.LANGUAGES if any((course.root / "solutions" / each).glob("*.po"))]


def prose_file(course: Course, language: str, name: str) -> Path:
    """The catalogue of what a student reads in a chapter's notebook."""
    return course.root / "solutions" / language / f"{name}.po"


def checks_file(course: Course, language: str, name: str) -> Path:
    """The catalogue of what a chapter's trusted checks say."""
    return course.root / course.checks / language / f"{name}.po"


def is_translated(course: Course, language: str, name: str) -> bool:
    """Whether somebody has begun to translate a chapter: then all of it must be."""
    return prose_file(course, language, name).is_file()


def of_course(course: Course, language: str, also: Iterable[str] = ()) -> list[Words]:
    """Every catalogue of a course in a language, and ours where the course is this checkout's; `also`: chapters to begin.

    Raises CourseError for a source that cannot be built.
    """
    found, imported = [], set[str]()
    for name in course.chapters:
        begun = name in also or is_translated(course, language, name)
        prose, uses = _prose(course, language, name, begun)
        found += [prose, _checks(course, language, name, begun)]
        imported |= uses if begun else set()
    if course.root == HARNESS.parent:
        found += [_library(language, imported), _harness(language)]
    return found


def _prose(course: Course, language: str, name: str, needed: bool) -> tuple[Words, set[str]]:
    words = _words(course, prose_file(course, language, name))
    file, uses = course.source(name).relative_to(course.root).as_posix(), set[str]()
    for cell in build.release(course, name).cells:
        if cell.cell_type == "markdown":
            if not students(cell) and text(cell).strip():
                words.add(file, messages.Message(text(cell), 0), needed=needed)
            continue
        uses |= _imports(text(cell))
        for each in messages.of_source(text(cell)) if not students(cell) else ():
            words.add(file, each, CODE, needed)
    return words, uses


def _checks(course: Course, language: str, name: str, needed: bool) -> Words:
    words = _words(course, checks_file(course, language, name))
    for path in course.check_sources(name):
        if path.suffix == ".py" and path.is_file():
            file = path.relative_to(course.root).as_posix()
            for each in messages.of_source(path.read_text(encoding="utf-8"), tests=path == course.check_file(name)):
                words.add(file, each, needed=needed)
    return words


def _library(language: str, imported: set[str]) -> Words:
    words = Words(LIBRARY / "_language" / language / "across.po", f"lib/across/_language/{language}/across.po")
    wanted = _needs({f"{name}.py" for name in (*GENERAL, *imported)})
    for path in sorted(LIBRARY.rglob("*.py")):
        file = path.relative_to(LIBRARY).as_posix()
        if not file.startswith(NOT_READ):
            for each in messages.of_source(path.read_text(encoding="utf-8")):
                words.add(f"lib/across/{file}", each, needed=file in wanted)
    for file in PAGES:
        for each in messages.of_page((LIBRARY / file).read_text(encoding="utf-8")):
            words.add(f"lib/across/{file}", each, catalogue.PAGE)
    return words


def _harness(language: str) -> Words:
    words = Words(HARNESS / "report" / language / "autograder.po", f"autograder/report/{language}/autograder.po")
    for file in SAID:
        for each in messages.of_source((HARNESS / file).read_text(encoding="utf-8")):
            words.add(f"autograder/{file}", each)
    for line in rendering.said_by("feedback.html"):
        words.add("autograder/report/templates/feedback.html", messages.Message(line, 0))
    return words


def _needs(files: set[str]) -> set[str]:
    """These files of the library, and those that they import from its drawing."""
    found, fresh = set[str](), set(files)
    while fresh:
        file = fresh.pop()
        if file in found or not (LIBRARY / file).is_file():
            continue
        found.add(file)
        fresh |= {f"{name}.py" for name in _imports((LIBRARY / file).read_text(encoding="utf-8")) if "_draw" in name}
    return found


def _imports(source: str) -> set[str]:
    """The library's modules that a source imports: `timeline`, `_draw/lanes`."""
    found = set[str]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "across":
            module = node.module.split(".")[1:]
            found |= {"/".join([*module, alias.name]) for alias in node.names} | {"/".join(module)}
    return found


def _words(course: Course, path: Path) -> Words:
    return Words(path, path.relative_to(course.root).as_posix())


def state(words: Words) -> State:
    """What is to be done about a catalogue. Raises ValueError for a file that is none."""
    given = read(words.path)
    ready = {key: string for key, (string, fuzzy) in given.items() if string and not fuzzy}
    stale = [key[1] for key, (_, fuzzy) in given.items() if fuzzy or key not in words.found]
    fuzzy = {key for key, (_, fuzzy) in given.items() if fuzzy}
    used = {key: string for key, string in ready.items() if key in words.found}
    broken = [f"{key[1]!r}: {why}" for key, string in used.items() if (why := _slip(words, key, string))]
    return State(
        words.name,
        translated=sum(key in ready for key in words.found),
        missing=tuple(key[1] for key in words.found if key in words.needed and key not in ready and key not in fuzzy),
        stale=tuple(stale),
        broken=tuple(broken),
        later=sum(key not in ready and key not in words.needed for key in words.found),
    )


def _slip(words: Words, key: Key, string: str) -> str:
    """Why a translation cannot be used; "" if it can."""
    context, english = key
    if context is None and words.path.parent.parent.name == "solutions":
        return _markdown_slip(english, string)
    try:
        ours, theirs = Template.read(english), Template.read(string)
    except ValueError as error:
        return str(error)
    if strange := set(theirs.numbers) - set(ours.numbers):
        return f"its place {{{min(strange)}}} is none of the English one's"
    return "" if len(set(theirs.numbers)) == len(theirs.numbers) else "a place stands in it twice"


def _markdown_slip(english: str, string: str) -> str:
    """Code of a cell is no text: every piece of it must be there, and nothing else that looks like it."""
    for what, split in (("block of code", "```"), ("code", "`")):
        ours, theirs = (sorted(_bare(each) for each in both.split(split)[1::2]) for both in (english, string))
        if what == "block of code":
            english, string = ("".join(each.split(split)[0::2]) for each in (english, string))
        if ours != theirs:
            odd = next((each for each in (*ours, *theirs) if ours.count(each) != theirs.count(each)), "")
            return f"{what} {odd!r} is not in both as often"
    for mark in ("<details>", "<summary>", "\n|", "\n# ", "$"):
        if english.count(mark) != string.count(mark):
            return f"{mark.strip()!r} is not in both as often"
    levels = [[line.split(" ")[0] for line in each.splitlines() if line.startswith("#")] for each in (english, string)]
    return "" if levels[0] == levels[1] else "its headings are not those of the English cell"


def _bare(code: str) -> str:
    """Code without its comments, which are translated."""
    return "\n".join(line.partition("  # ")[0].rstrip() for line in code.split("\n"))


def read(path: Path) -> dict[Key, tuple[str, bool]]:
    """The messages of a .po file: context and English to the translation and whether it is fuzzy; {} where there is no file.

    Raises ValueError.
    """
    return {(each.context, str(each.id)): (str(each.string or ""), each.fuzzy) for each in catalogue.messages(path)}


def update(words: Words, language: str, say: Callable[[str], object] = lambda line: None) -> None:
    """Write a catalogue anew: what its sources say now, with the translations that it had, those of changed texts fuzzy."""
    from datetime import UTC, datetime

    from babel.messages.catalog import Catalog
    from babel.messages.pofile import read_po, write_po

    started = datetime(2026, 1, 1, tzinfo=UTC)  # of no moment: the same sources give the same bytes
    facts = {"project": "Across", "version": "course", "msgid_bugs_address": "", "header_comment": HEAD, "fuzzy": False}
    made = Catalog(locale=language, creation_date=started, revision_date=started, **facts)
    made.last_translator, made.language_team = "Across", language
    template = Catalog()
    for (context, english), files in words.found.items():
        places = [f"{{{number}}}: {value}" for number, value in enumerate(words.values[context, english]) if value]
        template.add(english, locations=[(file, 1) for file in files], auto_comments=places, context=context)
    if words.path.is_file():
        with words.path.open("rb") as file:
            for message in read_po(file):
                if message.id:
                    made[message.id] = message
    made.update(template, update_creation_date=False, update_header_comment=False)
    for message in made:
        if message.fuzzy and message.id and (message.context, str(message.id)) not in words.needed:
            message.string = ""  # a guess at what nobody has to translate yet would count as stale
            message.flags.discard("fuzzy")
    words.path.parent.mkdir(parents=True, exist_ok=True)
    with words.path.open("wb") as file:
        write_po(file, made, width=110, include_lineno=False, ignore_obsolete=True)
    say(words.name)


HEAD = """\
# Simplified Chinese. `autograder translate` writes this file anew from the sources and keeps the translations.
# A number in braces stands for a value; a translation may leave one out. What is to stay as it is, is repeated."""


def prose(course: Course, language: str, name: str) -> Mapping[str, str]:
    """A chapter's prose: English cell to translated cell."""
    return catalogue.pairs(prose_file(course, language, name))


def code(course: Course, language: str, name: str) -> Mapping[str, str]:
    """What a chapter's own code says: English template to translated template."""
    return catalogue.pairs(prose_file(course, language, name), CODE)
