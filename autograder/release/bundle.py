"""`autograder release`: a chapter in a folder that can be given to students, and nothing that they must not have.

    DIR/README.md                        how it is opened, worked on and handed in
    DIR/pyproject.toml                   what `uv run across lab` installs: the library alone, in the versions of the lock
    DIR/constraints.txt                  these versions for pip; DIR/environment.yml for conda
    DIR/notebooks/NAME.ipynb             the chapter as it is released, byte by byte what grading rests on
    DIR/notebooks/zh/NAME.ipynb          the same in Chinese, where the course has it, and what its code says
    DIR/notebooks/...                    what lies beside it in the course's files/NAME/
    DIR/notebooks/solutions/NAME.ipynb   with `--solutions`, after the deadline
    DIR/lib/                             the distribution `across`, as source
    DIR/colab/NAME.ipynb, DIR/binder/    where it is said to which repository the folder is pushed: see `elsewhere`

Before anything is written the notebook is built anew and compared, and what would be handed out is searched for every
reference, listed answer and check (`leaks`). A new folder comes whole or not at all; to one that has chapters of the course
already another one is added, or the same one again (`together`).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbformat

import across
from across._language.catalogue import BESIDE
from autograder.authoring import build, in_language
from autograder.model import headers
from autograder.model.address import COLAB_FOLDER, Address
from autograder.model.course import Course, CourseError
from autograder.release import elsewhere, leaks, pins, readme, together
from autograder.release.pins import LIBRARY

JUNK = ("__pycache__", "*.pyc", "*.egg-info", ".*")


def release(
    course: Course,
    name: str,
    out: Path,
    *,
    solutions: bool = False,
    due: str | None = None,
    now: datetime | None = None,
    published: Address | None = None,
) -> list[Path]:
    """Write the bundle of chapter `name` into the folder `out`, new or with chapters of the course; return the files of it.

    `due` is when the chapter was due (ISO 8601 with an offset) where its header does not say it; `solutions` adds its answers,
    after that time; `published` is where the folder is pushed to, for links to Colab and Binder.

    Raises CourseError for a notebook that is stale, an answer or a check that would be handed out, a folder with something else
    in it, and solutions before the deadline; OSError.
    """
    out = Path(out).absolute()
    there = together.read(course, out)
    if out.is_relative_to(course.root) and any(
        out.is_relative_to(course.root / part) for part in ("solutions", course.checks, "notebooks")
    ):
        raise CourseError(f"--out {out}: that is a folder of the course's own; give one elsewhere")
    chapter = course.chapter(name)
    if solutions:
        _over(name, due or chapter.due, now or datetime.now(UTC))
    notebook = build.release(course, name)
    released = build.dumps(notebook)
    if course.notebook(name).read_text(encoding="utf-8") != released:
        raise CourseError(
            f"notebooks/{name}.ipynb: is older than solutions/{course.source(name).name}; run `autograder build`"
        )
    names = [each for each in course.chapters if each == name or each in there.chapters]
    solved = there.solved | ({name} if solutions else set())
    published = published or there.published
    library = library_source()
    versions = pins.read(library.parent)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as aside:
        new = Path(aside) / "new"
        answers = new / "notebooks" / "solutions" / f"{name}.ipynb"
        _put(new / "README.md", readme.text(course, [*map(course.chapter, names)], solved, published))
        _put(new / "pyproject.toml", _project(course, names, library, versions, published))
        _put(new / "constraints.txt", "\n".join(versions) + "\n")
        _put(new / "environment.yml", _conda(course, library))
        _put(new / "notebooks" / f"{name}.ipynb", released)
        for path, content in in_language.files(course, [name]).items():
            said = together.words(out / "notebooks" / path, content.decode()) if path.name == BESIDE else content
            _put(new / "notebooks" / path, said)
        for path, content in {**dict(chapter.files), **in_language.beside(course, [name])}.items():
            _put(new / "notebooks" / path, content)
        if solutions:
            _put(answers, build.dumps(build.solved(course, name)))
        if published is not None:
            given = {
                each: nbformat.read(out / "notebooks" / f"{each}.ipynb", as_version=4)  # as it was released before
                for each in there.chapters
                if not (out / COLAB_FOLDER / f"{each}.ipynb").is_file()
            }
            for each, one in (given | {name: notebook}).items():
                if not course.chapter(each).assignment:
                    variant = elsewhere.colab(one, course.chapter(each), library, published)
                    _put(new / COLAB_FOLDER / f"{each}.ipynb", build.dumps(variant))
            for file, content in elsewhere.binder(f"{sys.version_info.major}.{sys.version_info.minor}").items():
                _put(new / "binder" / file, content)
            (new / "binder" / "start").chmod(0o755)
        shutil.copytree(library, new / "lib", ignore=shutil.ignore_patterns(*JUNK, "handout.toml"))
        found = [
            line
            for each in names
            if each == name or each not in solved
            for line in leaks.leaks(new, leaks.secrets(course, each), but=frozenset([answers]))
        ]
        if found:
            says = "\n".join(f"{name}: {line}; take it out, students would have it" for line in found)
            raise CourseError(f"nothing was released:\n{says}")
        files = sorted(out / path.relative_to(new) for path in new.rglob("*") if path.is_file())
        if not there.new:
            together.join(new, out)
            return files
        new.chmod(0o755)
        if out.exists():
            out.rmdir()
        os.rename(new, out)
    return files


def _over(name: str, due: str, now: datetime) -> None:
    """Refuse the answers of a chapter that may still be handed in."""
    if not due:
        raise CourseError(
            f"--solutions: nothing says when {name} was due; add --due, with an offset: 2026-11-30T23:59+01:00"
        )
    when = datetime.fromisoformat(headers.date(f"--due {due!r}", due))
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    if now < when:
        raise CourseError(f"--solutions: {name} is due {when.isoformat()}; release its answers after that")


def _put(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def library_source() -> Path:
    """The folder of the library's source, with its pyproject.toml. Raises CourseError where only its wheel is installed."""
    folder = Path(across.__file__).resolve().parent.parent
    if not all((folder / name).is_file() for name in ("pyproject.toml", "handout.toml")):
        raise CourseError(
            f"{folder}: the source of the library `{LIBRARY}` is not there; run `autograder release` in a checkout"
        )
    return folder


def _conda(course: Course, library: Path) -> str:
    """The bundle's environment.yml: a Python of conda's, and the rest by pip, as TensorFlow's own wheels are."""
    python = tomllib.loads((library / "handout.toml").read_text(encoding="utf-8"))["project"]["requires-python"]
    return f"""# conda env create -f environment.yml && conda activate {course.id} && across lab
name: {course.id}
channels:
  - conda-forge
dependencies:
  - python{python}
  - pip
  - pip:
      - -c constraints.txt
      - ./lib[lab]
"""


def _project(
    course: Course, names: Sequence[str], library: Path, versions: Sequence[str], published: Address | None
) -> str:
    """The bundle's pyproject.toml: lib/handout.toml's, for these chapters and with the lock's versions.

    Each chapter needs the library, which has all that any of them needs.
    """
    said: dict[str, Any] = tomllib.loads((library / "handout.toml").read_text(encoding="utf-8"))
    project, uv = said["project"], said["tool"]["uv"]
    extras = "".join(f"{extra} = {json.dumps(needs)}\n" for extra, needs in project["optional-dependencies"].items())
    source = uv["sources"][LIBRARY]
    what = f"{course.id}-{names[0]}" if len(names) == 1 else f"{course.id}-chapters"
    these = "this chapter: the library beside it, in the versions that it is"
    if len(names) > 1:
        these = "these chapters: the library beside them, in the versions that they are"
    pushed = f"published = {json.dumps(f'{published.url}@{published.ref}')}\n" if published else ""
    return f"""# What students install for {these} graded with.
[project]
name = {json.dumps(what.replace("_", "-"))}
version = {json.dumps(project["version"])}
requires-python = {json.dumps(project["requires-python"])}
dependencies = {json.dumps(project["dependencies"])}

[project.optional-dependencies]
{extras}
[tool.uv]
package = {json.dumps(uv["package"])}
constraint-dependencies = {json.dumps(versions, indent=4)}

[tool.uv.sources]
{LIBRARY} = {{ path = {json.dumps(source["path"])}, editable = {json.dumps(source["editable"])} }}

[tool.across.released]
course = {json.dumps(course.id)}
title = {json.dumps(course.title, ensure_ascii=False)}
{pushed}"""
