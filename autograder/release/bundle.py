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
reference, listed answer and check (`leaks`). To a folder that has chapters of the course already another one is added, or the
same one again: its README lists them all, and its pyproject.toml says whose it is, `[tool.across.released]`.
"""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import nbformat

import across
from across._language.catalogue import BESIDE
from autograder.authoring import build, in_language
from autograder.model import headers
from autograder.model.address import COLAB_FOLDER, Address
from autograder.model.course import Course, CourseError
from autograder.release import elsewhere, leaks, readme
from autograder.store import files

LIBRARY = "across-tensorflow"
EXPORT = ("export", "--frozen", "--offline", "--quiet", "--package", LIBRARY, "--all-extras", "--no-emit-workspace")
BARE = ("--no-hashes", "--no-annotate", "--no-header")
JUNK = ("__pycache__", "*.pyc", "*.egg-info", ".*")


def release(
    course: Course,
    name: str,
    out: Path,
    *,
    solutions: bool = False,
    due: str | None = None,
    published: Address | None = None,
) -> list[Path]:
    """Write the bundle of chapter `name` into the folder `out`, new or with chapters of the course; return the files of it.

    `due` is when the chapter was due (ISO 8601 with an offset) where its header does not say it; `solutions` adds its answers,
    after that time; `published` is where the folder is pushed to, for links to Colab and Binder.

    Raises CourseError for a notebook that is stale, an answer or a check that would be handed out, a folder with something else
    in it, and solutions before the deadline; OSError.
    """
    out = Path(out).absolute()
    there = _there(course, out)
    if out.is_relative_to(course.root) and any(
        out.is_relative_to(course.root / part) for part in ("solutions", course.checks, "notebooks")
    ):
        raise CourseError(f"--out {out}: that is a folder of the course's own; give one elsewhere")
    chapter = course.chapter(name)
    if solutions:
        _over(name, due or chapter.due)
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
    versions = locked(library.parent)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as aside:
        new = Path(aside) / "new"
        answers = new / "notebooks" / "solutions" / f"{name}.ipynb"
        _put(new / "README.md", readme.text(course, [*map(course.chapter, names)], solved, published))
        _put(new / "pyproject.toml", _project(course, library, versions, published))
        _put(new / "constraints.txt", "\n".join(versions) + "\n")
        _put(new / "environment.yml", _conda(course, library))
        _put(new / "notebooks" / f"{name}.ipynb", released)
        for path, content in in_language.files(course, [name]).items():
            said = in_language.words(course, path.parent.name, names) if path.name == BESIDE else content
            _put(new / "notebooks" / path, said)
        for path, content in chapter.files:
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
        written = sorted(out / path.relative_to(new) for path in new.rglob("*") if path.is_file())
        _join(new, out)
    return written


def _over(name: str, due: str) -> None:
    """Refuse the answers of a chapter that may still be handed in."""
    if not due:
        raise CourseError(
            f"--solutions: nothing says when {name} was due; add --due, with an offset: 2026-11-30T23:59+01:00"
        )
    when = datetime.fromisoformat(headers.date(f"--due {due!r}", due))
    if datetime.now(UTC) < when:
        raise CourseError(f"--solutions: {name} is due {when.isoformat()}; release its answers after that")


def _put(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


@dataclass(frozen=True)
class _Folder:
    """What a folder holds already of a course."""

    chapters: tuple[str, ...] = ()  # in the course's order
    solved: frozenset[str] = frozenset()  # those whose answers are there
    published: Address | None = None  # where it is pushed to, as was said when it was written last


def _there(course: Course, out: Path) -> _Folder:
    """What of `course` is in the folder `out`. Raises CourseError for one that holds something else."""
    if not out.exists() or (out.is_dir() and all(each.name == ".git" for each in out.iterdir())):
        return _Folder()
    try:
        said = tomllib.loads((out / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["across"]["released"]
        whose, published = said["course"], said.get("published", "")
    except (OSError, ValueError, KeyError, TypeError):
        raise CourseError(f"--out {out}: there is something already; give a new folder, or delete that one") from None
    if whose != course.id:
        raise CourseError(f"--out {out}: holds chapters of the course {whose!r}; give another folder")
    notebooks = out / "notebooks"
    return _Folder(
        tuple(name for name in course.chapters if (notebooks / f"{name}.ipynb").is_file()),
        frozenset(name for name in course.chapters if (notebooks / "solutions" / f"{name}.ipynb").is_file()),
        Address.read(f"{out / 'pyproject.toml'}: published:", published) if published else None,
    )


def _join(new: Path, out: Path) -> None:
    """Put the files below `new` into the folder `out`, each at once; what is the same is not written. Raises OSError.

    The library is replaced as a whole: a module that is gone must not stay. What else lies there is nobody's here to touch, as
    `.git` of the repository that the folder is pushed from.
    """
    wanted = {path.relative_to(new) for path in new.rglob("*") if path.is_file()}
    for path in sorted(wanted):
        place = out / path
        if place.is_file() and filecmp.cmp(new / path, place, shallow=False):
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        files.replace(
            place, (new / path).read_bytes(), (new / path).stat().st_mode & 0o777
        )  # Binder's start is a program
    for place in sorted((out / "lib").rglob("*.*")):
        gone = place.is_file() and place.relative_to(out) not in wanted
        if gone and "__pycache__" not in place.parts and not any(part.endswith(".egg-info") for part in place.parts):
            place.unlink()


def library_source() -> Path:
    """The folder of the library's source, with its pyproject.toml. Raises CourseError where only its wheel is installed."""
    folder = Path(across.__file__).resolve().parent.parent
    if not all((folder / name).is_file() for name in ("pyproject.toml", "handout.toml")):
        raise CourseError(
            f"{folder}: the source of the library `{LIBRARY}` is not there; run `autograder release` in a checkout"
        )
    return folder


@cache
def locked(checkout: Path) -> tuple[str, ...]:
    """The versions that the lock has of what students install, for every Python and system that it knows: a line for each, as
    `numpy==2.4.6 ; MARKER`.

    As constraints, so a release is installed from whichever index or mirror its reader's uv, pip or conda asks, in these
    versions. Raises CourseError where uv is not there, or the checkout has no lock.
    """
    if not (uv := os.environ.get("UV") or shutil.which("uv")):  # `uv run` says where it is
        raise CourseError("uv says what students install, and is not there; install it: pip install uv")
    done = subprocess.run([uv, *EXPORT, *BARE], cwd=checkout, capture_output=True, text=True)
    if done.returncode:
        says = f"{checkout}: uv.lock says what students install, and cannot be read: {done.stderr.strip()}"
        raise CourseError(f"{says}; run `autograder release` in a checkout")
    return tuple(done.stdout.splitlines())


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


def _project(course: Course, library: Path, versions: Sequence[str], published: Address | None) -> str:
    """The bundle's pyproject.toml: that of lib/handout.toml, with the course's name and the lock's versions.

    Each chapter needs the library, which has all that any of them needs.
    """
    _, _, said = (library / "handout.toml").read_text(encoding="utf-8").partition("[project]\n")
    said = said.partition("[tool.across]")[0].replace(
        '"across-course"', json.dumps(f"{course.id}-chapters".replace("_", "-"))
    )
    said = said.replace("[tool.uv]", f"[tool.uv]\nconstraint-dependencies = {json.dumps(versions, indent=4)}")
    pushed = f"published = {json.dumps(f'{published.url}@{published.ref}')}\n" if published else ""
    return f"""# What students install for these chapters: the library beside them, in the versions that they are graded with.
[project]
{said}[tool.across.released]
course = {json.dumps(course.id)}
title = {json.dumps(course.title, ensure_ascii=False)}
{pushed}"""
