"""`tools/make_site.py`: the whole course as HTML, by Sphinx and myst-nb, with nothing but what is installed.

    DIR/index.html                 the chapters, in order
    DIR/chapters/NAME.html         a chapter as students get it, with what its cells print and draw: no answer
    DIR/about/NAME.html            what one can do after it
    DIR/search.html                search, in the browser alone

Before it is put in its place the site is searched for every reference, listed answer and check. It comes whole or not at all.
"""

from __future__ import annotations

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

from autograder.authoring import build as builder
from autograder.model.address import Address
from autograder.model.course import Course, CourseError
from autograder.release import leaks
from course_site import about, outputs, pages, staged

MARK = ".site"  # in a folder that this command has made, and may replace
BUILDS = 600.0  # seconds that Sphinx may take
DOCS = ("student.md", "crosswalk.md")  # of docs/, where they are there
TEMPLATES = Path(__file__).parent / "templates"

OnProgress = Callable[[int, int, str], None]  # done, of how many, which


@dataclass(frozen=True)
class Built:
    """A site in its place."""

    pages: int
    chapters: int
    executed: tuple[str, ...]  # chapters that were run for it
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
    _fresh(course, names)
    shown: dict[str, outputs.Executed] = {}
    ran, bare = [], []
    for i, name in enumerate(names):
        on_progress(i, len(names), name)
        found = outputs.kept(course, name)
        if found is None and execute:
            found = outputs.made(course, name)
            ran.append(name)
        elif found is None:
            bare.append(name)
        shown[name] = found or outputs.unexecuted(course, name)
    on_progress(len(names), len(names), "pages")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as aside:
        source, new = Path(aside) / "source", Path(aside) / "site"
        _stage(course, source, shown, published)
        _sphinx(source, new, Path(aside) / "doctrees")
        (new / MARK).write_text("written by `tools/make_site.py`, which may replace this folder\n", encoding="utf-8")
        kept = [secret for name in names for secret in leaks.secrets(course, name)]
        read = Path(aside) / "read"  # what is read on each page
        for page in new.rglob("*.html"):
            _put(
                read / page.relative_to(new), BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser").get_text()
            )
        if found := [*leaks.leaks(new, kept), *leaks.leaks(read, kept)]:
            raise CourseError("no site was written:\n" + "\n".join(found))
        new.chmod(0o755)
        if out.exists():
            shutil.rmtree(out)
        os.rename(new, out)
    return Built(len(list(out.rglob("*.html"))), len(names), tuple(ran), tuple(bare))


def _fresh(course: Course, names: Sequence[str]) -> None:
    for name in names:
        if course.notebook(name).read_text(encoding="utf-8") != builder.dumps(builder.release(course, name)):
            raise CourseError(
                f"notebooks/{name}.ipynb: is older than solutions/{course.source(name).name}; run `autograder build`"
            )


def _stage(course: Course, source: Path, shown: dict[str, outputs.Executed], published: Address | None) -> None:
    """Write what Sphinx reads."""
    static = source / "_static"
    shutil.copytree(TEMPLATES, static, ignore=shutil.ignore_patterns("conf.py.in"))
    (source / "conf.py").write_text(
        f"project = {course.title!r}\n" + (TEMPLATES / "conf.py.in").read_text(encoding="utf-8"), encoding="utf-8"
    )
    abouts = [about.read(course, name) for name in shown]
    others = {name: name for name in DOCS if (course.root / "docs" / name).is_file()}
    for each in abouts:
        name = each.name
        opens = [f"{{download}}`its notebook <../released/{name}.ipynb>`", pages.opened(published, name)]
        notebook = staged.chapter(each, shown[name], static / staged.PICTURES, [link for link in opens if link])
        _put(source / "chapters" / f"{name}.ipynb", nbformat.writes(notebook))
        _put(source / "released" / f"{name}.ipynb", course.notebook(name).read_text(encoding="utf-8"))
        _put(source / "about" / f"{name}.md", pages.after(each, staged.picture(notebook), published))
    for name in others:
        _put(source / name, pages.relinked((course.root / "docs" / name).read_text(encoding="utf-8"), others))
    _put(source / "about" / "index.md", pages.overview(abouts))
    trees = [name.removesuffix(".md") for name in others]
    _put(source / "index.md", pages.front(course, abouts, trees, published))


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def _sphinx(source: Path, new: Path, doctrees: Path) -> None:
    """Run Sphinx, to which a warning is an error. Raises CourseError with what it says."""
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-q", "-W", "--keep-going", "-j", "auto"]
    command += ["-d", str(doctrees), str(source), str(new)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=BUILDS, check=False)
    except subprocess.TimeoutExpired:
        raise CourseError(f"site: Sphinx did not end within {BUILDS:.0f} s") from None
    if done.returncode:
        said = (done.stderr + done.stdout).replace(f"{source}{os.sep}", "").strip()
        raise CourseError(f"site: Sphinx says:\n{said}")
    shutil.rmtree(new / "_sources", ignore_errors=True)  # empty
    (new / ".buildinfo").unlink(missing_ok=True)
