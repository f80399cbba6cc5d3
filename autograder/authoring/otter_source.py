"""From a master notebook of otter's `assign`, format 1, to one of nbgrader's, which `importing` takes like any other.

A raw cell begins and ends each part; see otter's page "Notebook Format". What becomes of it here:

    # BEGIN QUESTION, its name and points     grade ids begin with the name; points are shared among its tests as otter does
    # BEGIN SOLUTION                          answers: lines `# SOLUTION` and regions become `### BEGIN SOLUTION` regions
    # BEGIN TESTS                             a cell of autograder tests for each; `hidden: true` makes all of it hidden
    manual: true                              a manually graded answer
    # BEGIN PROMPT, # IGNORE, configs         left out; the lines of a prompt in a cell stay as comments

A test without an assert expects the output that its cell has; a `def test_x(square)` is called with what it names.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import nbformat
from nbformat import NotebookNode

from autograder.model.course import CourseError

__all__ = ["STUB", "convert", "is_otters"]

STUB = "..."
MARK = re.compile(r"#\s*(?:(BEGIN|END) (QUESTION|PROMPT|SOLUTION|TESTS)|ASSIGNMENT CONFIG)\s*$")
CONFIG = re.compile(r'\A("""|\'\'\')\s*# BEGIN TEST CONFIG\n(.*?)\1;?\s*# END TEST CONFIG\n?', re.DOTALL)
LINE = re.compile(r"\s*#\s*(SOLUTION(?: NO PROMPT)?|SEED|IGNORE)\s*$")
INSIDE = re.compile(r"""^\s*(?:["']{3};?)?\s*#\s*(BEGIN|END) (SOLUTION|PROMPT|IGNORE)""")


def is_otters(cells: Sequence[Mapping[str, Any]]) -> bool:
    """Whether these are the cells of a master notebook of `otter assign`."""
    return any(_mark(cell) for cell in cells)


def convert(notebook: NotebookNode) -> None:
    """Make it nbgrader's. Raises CourseError, with the cell and the mend, for what is no master notebook."""
    made: list[NotebookNode] = []
    part, question = "", dict[str, Any]()
    answers: list[NotebookNode] = []
    tests: list[NotebookNode] = []
    for number, cell in enumerate(notebook.cells, 1):
        mark = _mark(cell)
        if mark == "BEGIN QUESTION":
            part, question, answers, tests = "", _config(cell.source), [], []
            if "name" not in question:
                raise CourseError(f"cell {number}: a question without a name; add `name: ...`")
        elif mark == "END QUESTION":
            made += [*_answers(question, answers), *_tests(question, tests)]
            part, question = "", {}
        elif mark.startswith(("BEGIN", "END")):
            if not question:
                raise CourseError(f"cell {number}: `# {mark}` outside of a question; begin one before it")
            part = mark.partition(" ")[2] if mark.startswith("BEGIN") else ""
        elif (
            mark
            or part == "PROMPT"
            or re.match(r"\s*##? *ignore *(##)?\s*$", cell.source.partition("\n")[0], re.IGNORECASE)
        ):
            continue
        elif part == "SOLUTION":
            answers.append(cell)
        elif part == "TESTS":
            tests += [cell] if cell.cell_type == "code" else []
        else:
            made.append(cell)
    if question:
        raise CourseError(f'question "{question["name"]}" has no end; add a raw cell `# END QUESTION`')
    notebook.cells = made


def _mark(cell: Mapping[str, Any]) -> str:
    """BEGIN QUESTION and the like, as a raw cell says in its first line; "ASSIGNMENT CONFIG"; "" for any other cell."""
    if cell["cell_type"] != "raw":
        return ""
    found = MARK.match(cell["source"].strip().partition("\n")[0].strip())
    return found[0].lstrip("# ").strip() if found else ""


def _config(text: str) -> dict[str, Any]:
    """The keys of a config's own level: numbers, truth values, texts, lists of them."""
    made: dict[str, Any] = {}
    key = ""
    for line in text.splitlines():
        if found := re.match(r"(\w+):\s*(.*?)\s*(?:\s#.*)?$", line):
            key = found[1]
            made[key] = _value(found[2]) if found[2] else []
        elif (item := re.match(r"\s*-\s+(.*?)\s*$", line)) and isinstance(made.get(key), list):
            made[key].append(_value(item[1]))
    return made


def _value(text: str) -> Any:
    said = {"true": True, "false": False, "null": None}.get(text.lower(), text)
    try:
        return ast.literal_eval(text) if said == text else said
    except (ValueError, SyntaxError):
        return text


def _answers(question: Mapping[str, Any], cells: Sequence[NotebookNode]) -> Iterator[NotebookNode]:
    manual = bool(question.get("manual"))
    if manual and not cells:
        cells = [nbformat.v4.new_markdown_cell("")]
    for number, cell in enumerate(cells):
        graded = manual and number == 0
        if cell.cell_type == "markdown" and not graded:
            continue
        if cell.cell_type == "code":
            cell.source = _solution(cell.source)
        points = question.get("points", 1)
        more = {"points": float(sum(points) if isinstance(points, list) else points)} if graded else {}
        yield _with(cell, question, f"_{number + 1}" if number else "", solution=True, grade=graded, **more)


def _solution(source: str) -> str:
    """The source of an answer as nbgrader marks it."""
    lines: list[str] = []
    inside = ""
    for line in source.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        if found := INSIDE.match(line):
            begin, kind = found[1] == "BEGIN", found[2]
            inside = kind if begin else ""
            if kind == "SOLUTION":
                lines.append(f"{indent}### {'BEGIN' if begin else 'END'} SOLUTION")
        elif inside == "PROMPT":
            lines.append(f"{indent}# {line.strip()}")
        elif inside == "IGNORE" or re.match(r"\s*## *solution *##\s*$", line, re.IGNORECASE):
            continue
        elif (end := LINE.search(line)) and not inside:
            if end[1].startswith("SOLUTION"):
                bound = re.match(r"\s*([A-Za-z_][\w., \[\]'\"]*?)\s*=(?!=)", line)
                lines += [f"{indent}# {bound[1]} = ..."] if bound else []
                lines += [f"{indent}### BEGIN SOLUTION", line[: end.start()].rstrip(), f"{indent}### END SOLUTION"]
            elif end[1] == "SEED":  # students have it, too: what is drawn is the same for all
                lines.append(line[: end.start()].rstrip())
        else:
            lines.append(line)
    merged = re.sub(r"\n[ ]*### END SOLUTION\n[ ]*### BEGIN SOLUTION(?=\n)", "", "\n".join(lines))
    return merged


def _tests(question: Mapping[str, Any], cells: Sequence[NotebookNode]) -> Iterator[NotebookNode]:
    configs = [_config(found[2]) if (found := CONFIG.match(cell.source)) else {} for cell in cells]
    made = []
    for number, (cell, config, points) in enumerate(zip(cells, configs, _points(question, configs), strict=True), 1):
        source = _test(CONFIG.sub("", cell.source), cell)
        if config.get("hidden"):
            source = f"### BEGIN HIDDEN TESTS\n{source}\n### END HIDDEN TESTS"
        cell.source = source
        made.append(_with(cell, question, f"_test_{number}", grade=True, locked=True, points=points))
    if made and question.get("all_or_nothing"):
        made[0].source = "\n\n".join(cell.source for cell in made)
        made[0].metadata.nbgrader.points = sum(cell.metadata.nbgrader.points for cell in made)
        del made[1:]
    yield from made


def _points(question: Mapping[str, Any], configs: Sequence[Mapping[str, Any]]) -> list[float]:
    """What each test is worth: what it says; else a share of what is left of the question's points, 1 if it says nothing."""
    said = question.get("points")
    if isinstance(said, list):
        return [float(each) for each in (*said, *[0] * len(configs))][: len(configs)]
    own = [config.get("points") for config in configs]
    if said is None and any(each is not None for each in own):
        said = sum(each for each in own if each is not None)
    left = max(0.0, float(1 if said is None else said) - sum(each or 0 for each in own))
    open_ = own.count(None)
    return [left / open_ if each is None else float(each) for each in own]


def _test(source: str, cell: NotebookNode) -> str:
    """A test as statements that fail where otter's does."""
    kept = "\n".join(line for line in source.strip("\n").splitlines() if not re.search(r"#\s*IGNORE\s*$", line))
    try:
        body = ast.parse(kept).body
    except (SyntaxError, ValueError):
        return kept  # the importer says what is wrong with it
    last = body[-1] if body else None
    if isinstance(last, ast.FunctionDef) and last.name.startswith("test"):
        given = ["globals()" if each.arg == "env" else each.arg for each in last.args.args]
        return f"{kept}\n\n{last.name}({', '.join(given)})"
    output = next((each.data["text/plain"] for each in cell.outputs if "text/plain" in each.get("data", {})), None)
    if not isinstance(last, ast.Expr) or output is None:
        return kept
    before, value = "\n".join(kept.split("\n")[: last.lineno - 1]), ast.unparse(last.value)
    if output in ("True", "np.True_"):
        line = f"assert {value}"
    else:
        try:
            line = f"assert ({value}) == {ast.literal_eval(output)!r}"
        except (ValueError, SyntaxError):
            line = f"assert repr({value}).split() == {output.split()!r}"
    return f"{before}\n{line}".lstrip("\n")


def _with(cell: NotebookNode, question: Mapping[str, Any], suffix: str, **meta: Any) -> NotebookNode:
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", str(question["name"]))
    usual = {"schema_version": 3, "grade": False, "solution": False, "locked": False, "task": False}
    cell.metadata["nbgrader"] = nbformat.from_dict(usual | {"grade_id": f"{name}{suffix}"} | meta)
    return cell
