"""`autograder import`: a course of nbgrader's, or of otter's, becomes one of ours, a chapter for each of its notebooks.

    COURSE/course.toml                   id, title, chapters, what kernels preload
    COURSE/solutions/NAME.ipynb          the author's notebook, its metadata of nbgrader's version 3
    COURSE/checks/test_NAME.py           has its test cells run: `nbgrader_tests()`
    COURSE/files/NAME/                   what lay beside it: students get it, and kernels have it
    COURSE/notebooks/NAME.ipynb          what students open

`ps1/problem1.ipynb` is the chapter `ps1_problem1`, `ps1/ps1.ipynb` is `ps1`. A notebook that cannot be imported is told, and
keeps no other from it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nbformat
from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode
from traitlets.config.loader import Config, PyFileConfigLoader

from across._process import global_names
from autograder.authoring import build, nbgrader_source, otter_source, released
from autograder.model.course import KERNELS_OWN, Course, CourseError
from autograder.model.test_cells import SETTINGS, is_tests

IGNORED = {"__pycache__", ".ipynb_checkpoints"}
PRELOADED = "numpy pandas scipy matplotlib sklearn sympy tensorflow".split()  # that cost a kernel's start time
FILES = 64 << 20  # bytes of what lies beside a notebook
AUTOTEST = re.compile(r"^\s*#.*\bAUTOTEST\b", re.MULTILINE)
CHECKS = '''"""{title}: the test cells of nbgrader's notebook {notebook}, each run in the student's kernel.

They are weak: the student's code has run before them in the same process, can read them, and could claim their outcome.
To move one to a trusted check, name it in but=[...] and write a test marked with @exercise("its grade id"): see
docs/importing.md.
"""

from autograder.probe.nbgrader_cells import nbgrader_tests

TestCells = nbgrader_tests()
'''


@dataclass
class Imported:
    """What became of a course."""

    course: Course
    chapters: dict[str, str] = field(
        default_factory=dict
    )  # chapter -> the notebook that it was, from the course's folder
    refused: list[str] = field(default_factory=list)  # a line for each slip
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Notebook:
    path: Path
    assignment: str
    chapter: str
    shown: str  # source/ps1/problem1.ipynb


def import_course(folder: Path, out: Path, *, source: str = "") -> Imported:
    """Write the nbgrader course in `folder` into the new folder `out`. `source` is its folder of assignments.

    Raises CourseError where there is nothing to import, or something in `out` already; OSError.
    """
    folder, out = Path(folder).absolute(), Path(out).absolute()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise CourseError(f"--out {out}: there is something already; give a new folder, or delete that one")
    config = _config(folder)
    place = folder / (source or config.get("CourseDirectory", {}).get("source_directory", "source"))
    notebooks = _notebooks(folder, place)
    settings = _settings(config)
    around = _around(folder, config)
    made = Imported(Course(out, "", "", ()))
    imports: set[str] = set()
    by_hand = 0
    for each in notebooks:
        try:
            found = _read(each, settings, around)
        except CourseError as error:
            made.refused += str(error).splitlines()
            continue
        if not any(_points(cell) for cell in found.cells):
            made.notes.append(f"{each.shown}: nothing in it is graded; left out")
            continue
        _write(out, each, found, made)
        by_hand += sum(_points(cell) and not is_tests(cell, cell.metadata.get("nbgrader", {})) for cell in found.cells)
        modules = (global_names.modules(cell.source) for cell in found.cells if cell.cell_type == "code")
        beside = {path.stem for path in each.path.parent.glob("*.py")}
        imports |= {name for name in frozenset[str]().union(*modules) if name.partition(".")[0] not in beside}
    if not made.chapters:
        raise CourseError("\n".join([*made.refused, *made.notes, f"{place}: no notebook of it can be imported"]))
    course_id = re.sub(r"[^A-Za-z0-9_.-]+", "-", str(config.get("CourseDirectory", {}).get("course_id") or folder.name))
    preload = sorted(name for name in imports if name.partition(".")[0] in PRELOADED and _installed(name))
    made.notes += [
        f"it imports {name}, which is not installed here: install it, or cells that need it fail"
        for name in sorted({name.partition(".")[0] for name in imports})
        if not _installed(name)
    ]
    if by_hand:
        made.notes.append(
            f"of {by_hand} manually graded answers and tasks one that was left as released gets 0 points and waits for nobody; "
            "stock nbgrader lets it wait"
        )
    lines = {
        "id": course_id.strip("-._") or "imported",
        "title": folder.name,
        "chapters": list(made.chapters),
        "preload": preload,
    }
    text = "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in lines.items())
    (out / "course.toml").write_text(text, encoding="utf-8")
    made.course = Course.read(out)
    build.build(made.course)
    return made


def _config(folder: Path) -> Config:
    """The course's own nbgrader_config.py, which nbgrader itself runs at each command; only ours or root's."""
    path = folder / "nbgrader_config.py"
    if not path.is_file():
        return Config()
    if hasattr(os, "getuid") and path.stat().st_uid not in (os.getuid(), 0):
        raise CourseError(f"{path} belongs to another user and would be run; copy the course, if you trust it")
    try:
        return PyFileConfigLoader(path.name, path=str(folder)).load_config()
    except Exception as error:
        raise CourseError(f"{path}: {type(error).__name__}: {error}; mend it") from error


def _settings(config: Config) -> dict[str, Any]:
    """What of a course's settings a chapter's source keeps: stubs, and the marks of regions. Raises CourseError."""
    from nbgrader import preprocessors

    try:
        clear = preprocessors.ClearSolutions(config=config)
        made: dict[str, Any] = {"code_stub": clear.code_stub["python"], "text_stub": clear.text_stub}
        for kind, (section, *options) in nbgrader_source.NAMED.items():
            step = getattr(preprocessors, section)(config=config)
            made[kind] = [getattr(step, option) for option in options]
    except Exception as error:  # a stub that is none, or is of another language alone
        raise CourseError(f"nbgrader_config.py: {type(error).__name__}: {error}; mend it") from None
    return made


def _around(folder: Path, config: Config) -> tuple[list[NotebookNode], list[NotebookNode]]:
    """The cells of the course's header and footer. Raises CourseError."""
    found: dict[str, list[NotebookNode]] = {"header": [], "footer": []}
    for key in found:
        if file := config.get("IncludeHeaderFooter", {}).get(key):
            try:
                found[key] = nbformat.reads((folder / str(file)).read_text(encoding="utf-8"), as_version=4).cells
            except Exception as error:
                raise CourseError(
                    f"{folder / str(file)}: the {key} of nbgrader_config.py cannot be read: {error}"
                ) from None
    return found["header"], found["footer"]


def _notebooks(folder: Path, place: Path) -> list[_Notebook]:
    """The notebooks of each assignment, each with the name of its chapter. Raises CourseError."""
    if not place.is_dir():
        raise CourseError(
            f"{place}: no such folder; give the folder of an nbgrader course, with source/<assignment>/<notebook>.ipynb"
        )
    made: dict[str, _Notebook] = {}
    for assignment in sorted(path for path in place.iterdir() if path.is_dir() and path.name[0] != "."):
        for path in sorted(assignment.glob("*.ipynb")):
            base = assignment.name if path.stem == assignment.name else f"{assignment.name}_{path.stem}"
            name = chapter = _chapter_name(base)
            for number in range(2, 1000):
                if chapter not in made:
                    break
                chapter = f"{name}_{number}"
            made[chapter] = _Notebook(path, assignment.name, chapter, path.relative_to(folder).as_posix())
    if not made:
        raise CourseError(
            f"{place}: there is no <assignment>/<notebook>.ipynb in it; give the folder of an nbgrader course"
        )
    return list(made.values())


def _chapter_name(base: str) -> str:
    name = re.sub(r"[^A-Za-z0-9]+", "_", base).strip("_") or "notebook"
    return name if name[0].isalpha() or re.fullmatch(r"[0-9][0-9]_[a-z0-9_]+", name) else f"n{name}"


def _read(each: _Notebook, settings: Mapping[str, Any], around: tuple[list[Any], list[Any]]) -> NotebookNode:
    """A notebook as it becomes a chapter's source. Raises CourseError."""
    from nbgrader.nbgraderformat import MetadataValidator

    try:
        raw = json.loads(each.path.read_text(encoding="utf-8"))
        if not (language := _language(raw.get("metadata", {}))).startswith(("python", "ipython")):
            raise CourseError(f"{each.shown}: its kernel is {language}; only Python's are graded here")
        notebook: Any = nbformat.reads(json.dumps(raw), as_version=4)
        notebook.metadata["kernelspec"] = nbformat.from_dict(released.KERNEL)
        nbformat.validate(notebook)
    except CourseError:
        raise
    except Exception as error:  # json, nbformat and its schema raise what they like
        said = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise CourseError(
            f"{each.shown}: is no notebook that can be read: {said}; open and save it in JupyterLab"
        ) from None
    if otter_source.is_otters(notebook.cells):
        try:
            otter_source.convert(notebook)
        except CourseError as error:
            raise CourseError(f"{each.shown}, {error}") from None
        settings = {**settings, "code_stub": otter_source.STUB}
    notebook.cells = [*around[0], *notebook.cells, *around[1]]
    try:
        MetadataValidator().upgrade_notebook_metadata(notebook)
    except Exception as error:
        raise CourseError(
            f"{each.shown}: its metadata of nbgrader's is no use: {type(error).__name__}: {error}"
        ) from None
    for number, cell in enumerate(notebook.cells, 1):
        if slip := _slip(cell):
            raise CourseError(f"{each.shown}, {nbgrader_source.called(cell, number)}: {slip}")
    kept = {"assignment": each.assignment, "notebook": each.path.stem, **settings}
    notebook.metadata[SETTINGS] = nbformat.from_dict(kept)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for number, cell in enumerate(notebook.cells, 1):
        cell["id"] = f"cell-{number}"
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbgrader_source.clear(notebook, each.shown)
    return notebook


def _language(metadata: Mapping[str, Any]) -> str:
    """The language that a notebook says it is in; `python` where it says nothing."""
    spec, info = metadata.get("kernelspec", {}), metadata.get("language_info", {})
    return str(spec.get("language") or info.get("name") or spec.get("name") or "python").lower()


def _slip(cell: NotebookNode) -> str:
    """What nbgrader lets pass in a cell, and cannot be graded here; what it refuses, `nbgrader_source.clear` says."""
    meta = cell.metadata.get("nbgrader", {})
    if cell.cell_type == "raw" and (meta.get("grade") or meta.get("solution")):
        return "a raw cell can be neither answer nor test; change its type"
    if meta.get("task") and "points" not in meta:
        return "a task without points; say how many it is worth"
    if not is_tests(cell, meta):
        return ""
    if AUTOTEST.search(cell.source):
        return (
            "AUTOTEST is no test yet; run `nbgrader generate_assignment --source_with_tests`, and import with --source "
            "source_with_tests"
        )
    try:
        compile(TransformerManager().transform_cell(cell.source), "<tests>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        return f"it is no Python that can be run by itself: {error}; mend it"
    return ""


def _points(cell: NotebookNode) -> bool:
    meta = cell.metadata.get("nbgrader", {})
    return is_tests(cell, meta) or bool(meta.get("grade") or meta.get("task"))


def _installed(module: str) -> bool:
    try:
        return find_spec(module.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False


def _write(out: Path, each: _Notebook, notebook: NotebookNode, made: Imported) -> None:
    """Write a chapter's source, its check file and what lay beside it."""
    for name in ("solutions", "checks", "notebooks"):
        (out / name).mkdir(parents=True, exist_ok=True)
    (out / "solutions" / f"{each.chapter}.ipynb").write_text(released.dumps(notebook), encoding="utf-8")
    check = CHECKS.format(title=each.chapter, notebook=f"{each.assignment}/{each.path.stem}.ipynb".replace('"', "'"))
    (out / "checks" / f"test_{each.chapter}.py").write_text(check, encoding="utf-8")
    left = FILES
    for path in _beside(each.path.parent):
        if path.relative_to(each.path.parent).parts[0] in KERNELS_OWN:
            made.notes.append(
                f"{each.shown}: {path.name} is left out: a kernel has a folder or file of that name; rename it"
            )
            continue
        left -= path.stat().st_size
        if left < 0:
            made.notes.append(
                f"{each.shown}: over {FILES >> 20} MiB lie beside it; {path.name} and the rest is left out"
            )
            break
        target = out / "files" / each.chapter / path.relative_to(each.path.parent)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    made.chapters[each.chapter] = each.shown


def _beside(folder: Path) -> Iterator[Path]:
    """The plain files beside an assignment's notebooks, folders included; hidden ones and links are left."""
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if any(part[0] == "." or part in IGNORED for part in parts) or path.suffix in (".ipynb", ".pyc"):
            continue
        if path.is_file() and not path.is_symlink():
            yield path
