"""`tools/make_site.py`: the whole course as HTML, by Sphinx and myst-nb, with nothing but what is installed.

    DIR/index.html                 the chapters, in order
    DIR/chapters/NAME.html         a chapter as students get it, with what its cells print and draw: no answer
    DIR/about/NAME.html            what one can do after it
    DIR/search.html                search, in the browser alone
    DIR/zh/...                     the same in Chinese, of what there is in it; each page leads to its twin

Before it is put in its place the site is searched for every reference, listed answer and check. It comes whole or not at all.
"""

from __future__ import annotations

import html
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import nbformat
from bs4 import BeautifulSoup

from across._language.catalogue import ENGLISH, LANGUAGES
from autograder.authoring import build as builder
from autograder.authoring import in_language
from autograder.model.address import Address
from autograder.model.course import Course, CourseError
from autograder.release import leaks
from course_site import about, outputs, pages, staged, words

MARK = ".site"  # in a folder that this command has made, and may replace
BUILDS = 600.0  # seconds that Sphinx may take
DOCS = ("student.md", "crosswalk.md")  # of docs/, and of docs/zh/, where they are there
SAYS = """const says = {};
fetch = async (url) => ({{ text: () => `<p role="main">${{says[url.replace(/^\\.\\//, "")]}}</p>` }});
"""  # in place of what a page among files may not fetch
TEMPLATES = Path(__file__).parent / "templates"
TOOLS = Path(__file__).parents[1]  # what Sphinx's settings import is found from there

OnProgress = Callable[[int, int, str], None]  # done, of how many, which


@dataclass(frozen=True)
class Built:
    """A site in its place."""

    pages: int
    chapters: int
    executed: tuple[str, ...]  # chapters that were run for it; in another language "zh/NAME"
    bare: tuple[str, ...]  # chapters that are shown without outputs


def build(
    course: Course,
    out: Path,
    *,
    names: Sequence[str] = (),
    execute: bool = True,
    published: Address | None = None,
    on_progress: OnProgress = lambda done, total, name: None,
) -> Built:
    """Write the site of the course, or of the chapters `names` alone, into the folder `out`.

    With `execute` chapters whose outputs are not kept are run first, in minutes; without, they are shown bare. `published`:
    where the released folders are pushed to, if pages shall link there.

    Raises CourseError for a notebook that is stale, an answer or check on a page, what Sphinx warns of,
    and a folder `out` that is not of a site's; OSError.
    """
    out = Path(out).absolute()
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / MARK).is_file())):
        raise CourseError(f"--out {out}: there is something else already; give a new folder, or delete that one")
    if missing := [module for module in ("sphinx", "myst_nb", "furo") if not find_spec(module)]:
        said = f"{', '.join(missing)} not found"
        raise CourseError(f"site: {said}; install it: uv sync --extra site")
    names = list(names or course.chapters)
    wanted = [(ENGLISH, name) for name in names]
    wanted += [(each, name) for each in LANGUAGES for name in names if in_language.is_translated(course, each, name)]
    _fresh(course, wanted)
    shown: dict[str, dict[str, outputs.Executed]] = {}  # by language and name
    ran, bare = [], []
    for i, (language, name) in enumerate(wanted):
        called = f"{words.of(language).folder}{name}"
        on_progress(i, len(wanted), called)
        found = outputs.kept(course, name, language)
        if found is None and execute:
            found = outputs.made(course, name, language)
            ran.append(called)
        elif found is None:
            bare.append(called)
        shown.setdefault(language, {})[name] = found or outputs.unexecuted(course, name, language)
    on_progress(len(wanted), len(wanted), "pages")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as aside:
        new = Path(aside) / "site"
        there = {each: _stage(course, Path(aside) / each, names, shown[each], published, each) for each in shown}
        for language in shown:
            _configure(course, Path(aside) / language, language, there)
            _sphinx(Path(aside) / language, new / words.of(language).folder, Path(aside) / f"{language}.doctrees")
        (new / MARK).write_text("written by `tools/make_site.py`, which may replace this folder\n", encoding="utf-8")
        kept = [secret for name in names for secret in leaks.secrets(course, name)]
        read = Path(aside) / "read"  # what is read on each page
        for language, names_there in there.items():
            folder, says = new / words.of(language).folder, {}
            for name in names_there:
                page = BeautifulSoup((folder / f"{name}.html").read_text(encoding="utf-8"), "html.parser")
                _put(read / words.of(language).folder / f"{name}.html", page.get_text())
                main = page.find(role="main") or page
                says[f"{name}.html"] = html.escape(" ".join(main.get_text().split()), quote=False)
            _put(folder / "_static" / "pages.js", SAYS.format(json.dumps(says, ensure_ascii=False)))
        if found := [*leaks.leaks(new, kept), *leaks.leaks(read, kept)]:
            raise CourseError("no site was written:\n" + "\n".join(found))
        new.chmod(0o755)
        if out.exists():
            shutil.rmtree(out)
        os.rename(new, out)
    return Built(len(list(out.rglob("*.html"))), len(names), tuple(ran), tuple(bare))


def _fresh(course: Course, wanted: Sequence[tuple[str, str]]) -> None:
    for language, name in wanted:
        path, source = _notebook(course, language, name), f"solutions/{course.source(name).name}"
        if language != ENGLISH:
            source = f"that, or than solutions/{language}/{name}.po"
        if not path.is_file() or path.read_text(encoding="utf-8") != builder.dumps(
            outputs.released(course, name, language)
        ):
            raise CourseError(
                f"{path.relative_to(course.root).as_posix()}: is older than {source}; run `autograder build`"
            )


def _notebook(course: Course, language: str, name: str) -> Path:
    """What students of a language open."""
    return course.root / "notebooks" / words.of(language).folder / f"{name}.ipynb"


def _stage(
    course: Course,
    source: Path,
    names: Sequence[str],
    shown: dict[str, outputs.Executed],
    published: Address | None,
    language: str,
) -> set[str]:
    """Write what Sphinx reads of a language, and return its pages. Of `names`, those that are `shown` are in the language."""
    spoken, static = words.of(language), source / "_static"
    static.mkdir(parents=True)
    shutil.copy(TEMPLATES / "site.css", static)
    abouts = [about.read(course, name, language if name in shown else ENGLISH) for name in names]
    docs = course.root / "docs" / spoken.folder
    others = {name: name for name in DOCS if (docs / name).is_file()}
    made = {
        "index": pages.front(
            spoken.said(course.title), abouts, [name.removesuffix(".md") for name in others], published, spoken
        )
    }
    for each in abouts:
        if each.language != language:
            continue
        name = each.name
        elsewhere = published if language == ENGLISH else None  # links there open the English notebook
        opens = [
            f"{{download}}`{spoken.said('its notebook')} <../released/{name}.ipynb>`",
            pages.opened(elsewhere, name),
        ]
        notebook = staged.chapter(each, shown[name], static / staged.PICTURES, [link for link in opens if link], spoken)
        _put(source / "chapters" / f"{name}.ipynb", nbformat.writes(notebook))
        _put(source / "released" / f"{name}.ipynb", _notebook(course, language, name).read_text(encoding="utf-8"))
        made[f"about/{name}"] = pages.after(each, staged.picture(notebook), elsewhere, spoken)
    for name in others:
        made[name.removesuffix(".md")] = pages.relinked((docs / name).read_text(encoding="utf-8"), others)
    for page, text in made.items():
        _put(source / f"{page}.md", text)
    return {*made, *(f"chapters/{name}" for name in shown), "search"}


def _configure(course: Course, source: Path, language: str, there: dict[str, set[str]]) -> None:
    """Write Sphinx's settings for a language. `there`: the pages of each."""
    spoken = words.of(language)
    up = "" if language == ENGLISH else "../"
    others = [
        {"tag": other.tag, "name": other.name, "folder": up + other.folder, "pages": sorted(there[language] & pages)}
        for other, pages in ((words.of(each), pages) for each, pages in there.items() if each != language)
    ]
    settings = {
        "project": spoken.said(course.title),
        "language": words.SPHINX.get(language, language),
        "nb_code_prompt_show": spoken.said("Show its source"),
        "nb_code_prompt_hide": spoken.said("Hide its source"),
        "html_context": {
            "language": spoken.tag,
            "languages_label": spoken.said("This page in another language"),
            "labels": {each: spoken.said(each) for each in words.LABELS},
            "others": others,
        },
        "locale_dirs": ["_locale"],
    }
    written = "".join(f"{name} = {value!r}\n" for name, value in settings.items())
    _put(source / "conf.py", written + (TEMPLATES / "conf.py.in").read_text(encoding="utf-8"))
    catalogue = source / "_locale" / settings["language"] / "LC_MESSAGES" / "sphinx.mo"
    catalogue.parent.mkdir(parents=True)
    catalogue.write_bytes(spoken.theme())
    shutil.copytree(
        TEMPLATES, source / "_templates", ignore=lambda _, names: [each for each in names if each[-5:] != ".html"]
    )


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def _sphinx(source: Path, new: Path, doctrees: Path) -> None:
    """Run Sphinx, to which a warning is an error. Raises CourseError with what it says."""
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-q", "-W", "--keep-going", "-j", "auto"]
    command += ["-d", str(doctrees), str(source), str(new)]
    try:
        done = subprocess.run(command, cwd=TOOLS, capture_output=True, text=True, timeout=BUILDS, check=False)
    except subprocess.TimeoutExpired:
        raise CourseError(f"site: Sphinx did not end within {BUILDS:.0f} s") from None
    if done.returncode:
        said = (done.stderr + done.stdout).replace(f"{source}{os.sep}", "").strip()
        raise CourseError(f"site: Sphinx says:\n{said}")
    shutil.rmtree(new / "_sources", ignore_errors=True)  # empty
    (new / ".buildinfo").unlink(missing_ok=True)
