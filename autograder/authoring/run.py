"""Executing the solved notebooks from top to bottom by nbclient: what CI calls on every kind of machine.

A chapter passes if no cell raises and no output holds a warning, a traceback or a line on stderr: what a student would
have to wonder about; and if each picture is told in words. Kernels are cold and unboxed here: the source is the author's.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from autograder.authoring import build
from autograder.model.course import Course
from autograder.model.limits import Limits

ALARMING = re.compile(r"^.*(?:\b\w*Warning: |Traceback \(most recent call last\)|^\s*WARNING\b).*$", re.MULTILINE)
ANSI = re.compile(r"\x1b\[[0-9;]*m")
DUMP = re.compile(
    r"\[\[|\barray\(|\bdtype=|<tf\.|<Figure|<[\w.]+ object at|(?:-?\d+\.\d{3,}[\s,]+){3}"
)  # values as printed
SHORTEST = 15  # characters of words on a picture


@dataclass(frozen=True)
class Ran:
    """One chapter, executed."""

    chapter: str
    cells: int  # code cells executed
    seconds: float
    problems: tuple[str, ...]  # each with the cell that it is in


def run(course: Course, name: str, progress: Callable[[int, int, str], None]) -> Ran:
    """Execute the solved notebook of a chapter. `progress`: how many code cells are done, of how many. Raises CourseError."""
    notebook, chapter = build.solved(course, name), course.chapter(name)
    total = sum(cell.cell_type == "code" for cell in notebook.cells)
    return execute(name, notebook, chapter.limits, lambda done: progress(done, total, ""), chapter.files)


def execute(
    name: str,
    notebook: NotebookNode,
    limits: Limits,
    on_progress: Callable[[int], None] = lambda done: None,  # how many code cells are done
    files: Sequence[tuple[str, bytes]] = (),
) -> Ran:
    """Execute a notebook in place, in a kernel and a working folder of its own, with `files`, under the seconds of `limits`."""
    started = time.monotonic()
    until = started + limits.notebook_seconds
    problems: list[str] = []
    index = done = 0
    with tempfile.TemporaryDirectory() as folder:
        for path, content in files:
            (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / path).write_bytes(content)
        client = NotebookClient(
            notebook,
            kernel_name=notebook.metadata.kernelspec.name,
            resources={"metadata": {"path": folder}},
            timeout_func=lambda _cell: max(0.05, min(limits.cell_seconds, until - time.monotonic())),
            extra_arguments=["--log-level=ERROR"],
        )
        client.reset_execution_trackers()
        try:
            with client.setup_kernel():
                for index, cell in enumerate(notebook.cells):
                    client.execute_cell(cell, index)
                    done += cell.cell_type == "code"
                    on_progress(done)
        except CellExecutionError:
            pass  # its outputs say so
        except (CellTimeoutError, DeadKernelError) as error:
            what = "the kernel died"
            if isinstance(error, CellTimeoutError):
                what = "no end within its time limit; see `limits` in the chapter's header"
            problems.append(f"{_called(index, notebook.cells[index])}: {what}")
            notebook.cells[index].outputs = []  # the interrupt is ours
    seconds = time.monotonic() - started
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    problems += found(notebook)
    return Ran(name, sum(cell.execution_count is not None for cell in code), seconds, tuple(problems))


def found(notebook: NotebookNode) -> Iterator[str]:
    """The problems that an executed notebook's outputs show, each with its cell."""
    for index, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                yield f"{_called(index, cell)}: {output.ename}: {_short(output.evalue)}"
            elif output.get("name") == "stderr":
                yield f"{_called(index, cell)}: writes to stderr: {_short(output.text)}"
            elif alarm := ALARMING.search(ANSI.sub("", _text(output))):
                yield f"{_called(index, cell)}: shows a warning or a traceback: {_short(alarm[0])}"
            for slip in _picture_slips(output):
                yield f"{_called(index, cell)}: {slip}"


class _Pictures(HTMLParser):
    """The pictures in HTML, each with its words: None where there are none."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what an image or a drawing says of itself."""
        said = dict(attrs)
        if tag == "img":
            self.words.append(said.get("alt"))
        elif tag == "svg" and said.get("aria-hidden") != "true":
            self.words.append(said.get("aria-label"))


def _picture_slips(output: Mapping[str, Any]) -> Iterator[str]:
    """What is missing in an executed cell's output so that its pictures are told in words."""
    data = output.get("data", {})
    html = data.get("text/html", "")
    seen = _Pictures()
    seen.feed(html if isinstance(html, str) else "".join(html))
    words = seen.words
    kinds = [kind for kind in data if kind.startswith("image/")]
    if kinds and not words:
        metadata = output.get("metadata", {})
        words = [metadata.get(kind, {}).get("alt") for kind in kinds]
        if any(words):  # JupyterLab shows such a picture without its words
            yield "a picture has words in its metadata only; show it as HTML too, as across.pictures does"
    for each in words:
        said = (each or "").strip()
        if len(said) < SHORTEST:
            yield f"a picture says {said!r} of itself; give it alt text made of its data"
        elif dump := DUMP.search(said):
            yield f"the alt text of a picture holds values as printed ({dump[0]!r}); say in words what it shows"


def _text(output: NotebookNode) -> str:
    if output.output_type == "stream":
        return output.text
    return "\n".join(str(value) for kind, value in output.data.items() if kind.startswith("text/"))


def _called(index: int, cell: NotebookNode) -> str:
    grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
    return f'cell "{grade_id}"' if grade_id else f"cell {index + 1} ({_short(cell.source, 40)})"


def _short(text: str, length: int = 200) -> str:
    lines = ANSI.sub("", text).strip().splitlines() or [""]
    return lines[0] if len(lines[0]) <= length else lines[0][: length - 1] + "…"
