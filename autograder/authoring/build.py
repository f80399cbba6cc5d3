"""From `solutions/NAME.py`, the one source of a chapter, to `notebooks/NAME.ipynb`, what students open.

jupytext reads the source, nbgrader's own preprocessors clear the solutions, lock the checks and write the checksums.
Between them stands what is ours: short cell headers become nbgrader's metadata, and an author's slip gets a line that
names file, cell and mend. The same source always gives the same bytes.

    # %% answer="round_robin" covers=["S20"]          the student's cell; its reference between ### BEGIN/END SOLUTION
    # %% check="round_robin" points=3                 visible check, folded if long; answers=[...] if it looks at others too
    # %% [markdown] answer="explain" points=3         prose, graded by hand
    # %% tags=["show"]                                shows something; nothing later uses a name that it binds
    # %% tags=["folded"]                              its source is folded, as a long check's is
    # ![what is seen](pictures/07_clusters.png)       in prose: a picture, solutions/pictures/07_clusters.png

What a chapter wants of the grader besides the usual it says before its first cell; every key may be left out:

    # ---
    # jupyter:
    #   across:
    #     limits: {cell_seconds: 60}          what it sets differently of `Limits`
    #     checker: {cpu_seconds: 1200}        and of `CheckerCaps`
    #     allowed_ops: [Bincount]             operations that its graphs may hold besides `probe.graphs.ALLOWED`
    #     devices: 4                          how many it can use, for `across doctor` to compare
    #     gpus: 1                             for each submission: 0, 1, 2 or 4; simulated where cards are too few
    #     rows: S1-S8 S12                     rows of the course that it covers as a whole
    #     due: 2026-11-30T23:59+01:00         for nbgrader's late policy
    # ---

What lies in the folder files/NAME/ of a chapter lies beside its notebook, too.

Of a solution's region students see `raise NotImplementedError("your turn")` or, if it has lines that start with `#: `,
those lines without that mark.
"""

from __future__ import annotations

import ast
import copy
import re
import textwrap
from collections import Counter
from dataclasses import dataclass
from typing import Any

import jupytext
import nbformat
from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode

from across._language.catalogue import ENGLISH
from across._process import global_names
from autograder.authoring import nbgrader_source, released
from autograder.authoring.released import dumps, release_digest
from autograder.job.assemble import SHOW, executed
from autograder.model import pictures, stubs
from autograder.model.course import Course, CourseError

__all__ = ["build", "dumps", "reference", "release", "release_digest", "solution_source", "solved"]

STUB = 'raise NotImplementedError("your turn")'
BEGIN, END, SEEN = "### BEGIN SOLUTION", "### END SOLUTION", "#:"
HEADER = re.compile(r"# ?%%(?!%)")
NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
WHY = re.compile(r"^# +# house: (\w+): (.+)$", re.MULTILINE)  # a figure of the house that a chapter is outside of: why
KEYS = {"answer", "check", "points", "answers", "covers", "tags"}
GOES_ON = "raises-exception"  # a check that fails stops no Run All: JupyterLab, VS Code and nbclient know this tag
# nbgrader's own marks, found anywhere in a line as its ClearHiddenTests and ClearMarkScheme do -> where that belongs here
NOT_CLEARED = {
    "HIDDEN TESTS": "a hidden test is a trusted check: move it to {checks}, which no student gets",
    "MARK SCHEME": "a marking scheme stays with the author: move it out of the source",
}


@dataclass(frozen=True)
class Cell:
    """One cell of a chapter's source, as its author wrote it."""

    kind: str  # "answer", "prose" (an answer in prose), "check", "show" or "plain"
    name: str  # of the answer, or of the exercise that is checked; else ""
    node: NotebookNode  # with the header's keys still in its metadata
    where: str  # '03_device_placement, cell "round_robin" (line 93)'

    @property
    def keys(self) -> dict[str, Any]:
        """What the header says."""
        return self.node.metadata

    @property
    def graded(self) -> bool:
        """Whether points hang on it."""
        return self.kind in ("check", "prose")

    @property
    def prose(self) -> str:
        """Its text, if it is prose and no answer; else empty."""
        return self.node.source if self.kind == "plain" and self.node.cell_type == "markdown" else ""

    @property
    def grade_id(self) -> str:
        """nbgrader's name for it."""
        return f"check_{self.name}" if self.kind == "check" else self.name

    @property
    def answers(self) -> list[str]:
        """The answer cells that a graded cell looks at."""
        return self.keys.get("answers", [self.name])


def build(course: Course, check: bool = False) -> list[str]:
    """Build every chapter; return what was written to notebooks/ or, with `check`, is stale there.

    Raises CourseError with a line for each slip of an author and, with `check`, for each notebook without a source.
    """
    wanted, slips = dict[str, bytes](), []
    for name in course.chapters:
        try:
            wanted[f"{name}.ipynb"] = dumps(release(course, name)).encode()
        except CourseError as error:
            slips.append(str(error))
    changed = released.write(course.root / "notebooks", wanted | _beside(course, slips), check)
    if check:
        built = sorted(path.stem for path in (course.root / "notebooks").glob("*.ipynb"))
        strays = [name for name in built if name not in course.chapters]
        slips += [f"notebooks/{name}.ipynb: has no source in solutions/; delete it" for name in strays]
    if slips:
        raise CourseError("\n".join(slips))
    return changed


def _beside(course: Course, slips: list[str]) -> dict[str, bytes]:
    """The files that lie beside our chapters' notebooks; an imported chapter's lie in its release only, as each has its own."""
    found: dict[str, tuple[str, bytes]] = {}
    for name in course.chapters:
        for path, content in course.beside(name) if course.source(name).suffix == ".py" else ():
            first, there = found.setdefault(path, (name, content))
            if there != content:
                slips.append(
                    f"files/{name}/{path}: files/{first}/{path} is another, and both lie in notebooks/; rename one"
                )
    return {path: content for path, (_, content) in found.items()}


def release(course: Course, name: str) -> NotebookNode:
    """Return a chapter as students get it. Raises CourseError with a line for each slip in its source."""
    if course.source(name).suffix == ".ipynb":
        return nbgrader_source.release(course, name)
    from nbgrader.preprocessors import CheckCellMetadata, ClearOutput, ComputeChecksums, LockCells  # 0.5 s

    text, source = _notebook(course, name)
    cells = _read(name, text, source)
    slips = _slips(course, name, cells)
    if slips:
        raise CourseError("\n".join(slips))
    notebook = nbformat.v4.new_notebook(cells=[_expanded(cell) for cell in cells])
    for cell, node in zip(cells, notebook.cells, strict=True):
        _clear(cell, node)
        if cell.prose:
            node.source = pictures.embedded(node.source, course.root)
    for preprocessor in (LockCells, ClearOutput, CheckCellMetadata, ComputeChecksums):
        notebook, _ = preprocessor().preprocess(notebook, {})
    released.finish(course, name, notebook, source.metadata.get("across", {}))
    slips = _stub_slips(cells, notebook)
    if slips:
        raise CourseError("\n".join(slips))
    return notebook


def solved(course: Course, name: str) -> NotebookNode:
    """Return the release of a chapter with the reference in every answer cell; all metadata is the release's."""
    notebook = release(course, name)
    sources = solution_source(course, name)
    for cell in notebook.cells:
        meta = cell.metadata.get("nbgrader", {})
        if meta.get("solution"):
            cell.source = sources[meta["grade_id"]]
    return notebook


def solution_source(course: Course, name: str) -> dict[str, str]:
    """Return the reference of every answer cell, prose included: grade id to source, without solution marks."""
    if course.source(name).suffix == ".ipynb":
        return nbgrader_source.solutions(course, name)
    cells = _read(name, *_notebook(course, name))
    return {cell.name: reference(cell.node.source) for cell in cells if cell.kind in ("answer", "prose")}


def reference(source: str) -> str:
    """An answer cell as its author solves it: without the marks and without the lines that only students see."""
    lines, inside = [], False
    for line in source.splitlines():
        if line.strip() in (BEGIN, END):
            inside = line.strip() == BEGIN
        elif not (inside and line.lstrip().startswith(SEEN)):
            lines.append(line)
    return "\n".join(lines)


def _read(name: str, text: str, notebook: NotebookNode) -> list[Cell]:
    lines = [number for number, line in enumerate(text.splitlines(), 1) if HEADER.match(line)]
    if len(lines) != len(notebook.cells):  # text before the first header, or a header within a string
        lines = [0] * len(notebook.cells)
    return [_cell(name, line, node) for line, node in zip(lines, notebook.cells, strict=True)]


def _notebook(course: Course, name: str) -> tuple[str, NotebookNode]:
    """A chapter's source: its text, and what jupytext makes of it."""
    path = course.source(name)
    try:
        text = path.read_text(encoding="utf-8")
        return text, jupytext.reads(text, fmt="py:percent")
    except OSError as error:
        raise CourseError(f"solutions/{name}.py: {error.strerror}") from None
    except (ValueError, SyntaxError) as error:
        raise CourseError(f"solutions/{name}.py: jupytext cannot read it: {error}") from None


def _cell(chapter: str, line: int, node: NotebookNode) -> Cell:
    node.metadata.pop("lines_to_next_cell", None)
    keys = node.metadata
    if "check" in keys:
        kind = "check"
    elif "answer" in keys:
        kind = "answer" if node.cell_type == "code" else "prose"
    else:
        kind = "show" if SHOW in keys.get("tags", []) and node.cell_type == "code" else "plain"
    name = str(keys.get("answer", keys.get("check", "")))
    title = f"check_{name}" if kind == "check" else name
    what = f'cell "{title}"' if title else f"{node.cell_type} cell"
    return Cell(kind, name, node, f"{chapter}, {what}" + f" (line {line})" * bool(line))


def _slips(course: Course, chapter: str, cells: list[Cell]) -> list[str]:
    """What is wrong in a source, a line each."""
    slips = [
        f"{cell.where}: {slip}"
        for cell in cells
        for slip in (*_header_slips(cell), *_region_slips(cell), *pictures.slips(cell.prose, course.root))
    ]
    checks = f"{course.checks}/{course.check_file(chapter).name}"
    slips += [
        f"{cell.where}: `{edge} {region}`: students would see it, for nothing is cleared but solutions; "
        f"{mend.format(checks=checks)}"
        for cell in cells
        for region, mend in NOT_CLEARED.items()
        for edge in ("BEGIN", "END")
        if f"{edge} {region}" in cell.node.source
    ]
    answers = [cell.name for cell in cells if cell.kind in ("answer", "prose")]
    exercises = [cell.name for cell in cells if cell.graded]
    for names, what in ((answers, "answer"), (exercises, "exercise")):
        twice = [name for name, count in Counter(names).items() if count > 1]
        slips += [f'{chapter}: two cells are {what} "{name}"; give one of them another name' for name in twice]
    before: set[str] = set()
    looked_at: set[str] = set()
    for cell in cells:
        if cell.kind in ("answer", "prose"):
            before.add(cell.name)
        if cell.graded and isinstance(cell.answers, list):
            looked_at.update(cell.answers)
            slips += [
                f'{cell.where}: there is no answer "{name}" above it; the answers are: {", ".join(answers) or "none"}'
                for name in cell.answers
                if name not in before
            ]
    slips += [
        f'{cell.where}: no check looks at it; add `# %% check="{cell.name}" points=...` below it'
        for cell in cells
        if cell.kind == "answer" and cell.name not in looked_at
    ]
    return slips + _show_slips(cells)


def _header_slips(cell: Cell) -> list[str]:
    keys, slips = cell.keys, []
    for key in keys.keys() - KEYS:
        slips.append(f"unknown header key {key!r}; a header knows {', '.join(sorted(KEYS))}")
    if "answer" in keys and "check" in keys:
        slips.append("both answer and check; make two cells of it")
    if cell.name and not NAME.fullmatch(cell.name):
        slips.append(f"the name {cell.name!r} is not one like round_robin: lower case letters, digits, underscores")
    if cell.name.startswith("check_") and cell.kind != "check":
        slips.append("an answer's name must not start with check_; nbgrader's id of its check does")
    if cell.kind == "check" and cell.node.cell_type != "code":
        slips.append("a check is a code cell; prose graded by hand is an answer with points")
    points = keys.get("points")
    if cell.graded and not (isinstance(points, (int, float)) and not isinstance(points, bool) and points > 0):
        slips.append(f"points={points!r}; say how many, as in points=3")
    if not cell.graded and points is not None:
        slips.append("points belong to a check, or to prose graded by hand")
    if "answers" in keys and cell.kind != "check":
        slips.append("answers=[...] belongs to a check")
    slips += [
        f"{key}={keys[key]!r} is not a list of names; write it as in {key}={example}"
        for key, example in (("answers", '["pick"]'), ("covers", '["S15"]'), ("tags", '["show"]'))
        if key in keys and not (isinstance(keys[key], list) and all(isinstance(item, str) for item in keys[key]))
    ]
    if cell.name and SHOW in keys.get("tags", []):
        slips.append("tagged show, but answers and checks are not mere shows; drop the tag")
    return slips


def _region_slips(cell: Cell) -> list[str]:
    marks = [line.strip() for line in cell.node.source.splitlines() if line.strip() in (BEGIN, END)]
    if cell.kind not in ("answer", "prose"):
        return ['a solution in a cell that is no answer; give its header answer="..."'] if marks else []
    if marks != [BEGIN, END] * (len(marks) // 2) or not marks:
        return [f"put the reference between one {BEGIN} and one {END}"]
    if len(marks) > 2 and _seen(cell.node.source):
        return [f"several solutions and lines with `{SEEN}`; keep to one solution in this cell"]
    return []


def _show_slips(cells: list[Cell]) -> list[str]:
    """Cells tagged `show` that the grader would have to run all the same, because executed cells use their names."""
    code = [cell for cell in cells if cell.node.cell_type == "code"]
    kinds = [cell.kind if cell.kind in ("check", "show") else "plain" for cell in code]
    sources = [reference(cell.node.source) for cell in code]
    needed = executed(kinds, sources)
    slips = []
    for i, cell in enumerate(code):
        if cell.kind != "show" or not needed[i]:
            continue
        for j, other in enumerate(code):
            names = global_names.binds(sources[i]) & global_names.uses(sources[j])
            if i != j and needed[j] and names:
                slips.append(
                    f"{cell.where}: tagged show, but {other.where.split(', ', 1)[1]} uses {', '.join(sorted(names))}; "
                    "drop the tag or use other names here"
                )
                break
    return slips


def _stub_slips(cells: list[Cell], notebook: NotebookNode) -> list[str]:
    """Answer cells that no interpreter could run, as students get them or as solved; magics are Python."""
    slips = []
    for cell, node in zip(cells, notebook.cells, strict=True):
        for source, what in ((reference(cell.node.source), "the reference"), (node.source, "the stub")):
            try:
                if cell.kind == "answer":
                    ast.parse(TransformerManager().transform_cell(source))
            except SyntaxError as error:
                slips.append(f"{cell.where}: {what} is no Python: {error.msg}, line {error.lineno} of that cell")
    return slips


def _seen(source: str) -> str:
    """What students see in place of a region: its lines marked `#: `, without mark and indent; "" if there is none."""
    marked = [line.strip() for line in source.splitlines() if line.lstrip().startswith(SEEN)]
    return "\n".join(line[len(SEEN) :].removeprefix(" ") for line in marked)


def _expanded(cell: Cell) -> NotebookNode:
    """The cell with nbgrader's metadata and ours in place of the header's keys."""
    node = copy.deepcopy(cell.node)
    meta: dict[str, Any] = {}
    tags = list(cell.keys.get("tags", []))
    if cell.kind == "check":
        tags.append(GOES_ON)
    if "folded" in tags or cell.kind == "check":
        meta["jupyter"] = {"source_hidden": True}
    if tags:
        meta["tags"] = tags
    covers = cell.keys.get("covers")
    ours: dict[str, Any] = {"covers": covers} if covers else {}
    if cell.name:
        meta["nbgrader"] = {
            "grade_id": cell.grade_id,
            "grade": cell.graded,
            "solution": cell.kind in ("answer", "prose"),
            "locked": cell.kind == "check",
            "task": False,
            "schema_version": 3,
        }
        if cell.graded:
            meta["nbgrader"]["points"] = cell.keys["points"]
            ours |= {"exercise": cell.name, "answers": cell.answers}
    if ours:
        meta["across"] = ours
    node.metadata = nbformat.from_dict(meta)
    return node


def _clear(cell: Cell, node: NotebookNode) -> None:
    """Put the stub in the place of the reference, by nbgrader's ClearSolutions told which stub this cell has."""
    from nbgrader.preprocessors import ClearSolutions

    seen = textwrap.dedent(_seen(cell.node.source)) if cell.kind in ("answer", "prose") else ""
    clear = ClearSolutions(
        code_stub={"python": seen or STUB},
        text_stub=seen or stubs.PROSE[ENGLISH],
        begin_solution_delimeter=BEGIN,
        end_solution_delimeter=END,
    )
    clear.preprocess_cell(node, {"language": "python"}, 0)  # pyright: ignore[reportArgumentType]
    node.source = "\n".join(line.rstrip() for line in node.source.split("\n"))
