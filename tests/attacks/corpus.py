"""What an attack is written with. Each file in `<expected verdict>/` says in its docstring's one line what it tries.

An attack module sets `EXERCISE`, whose verdict the folder's name says, and `submission(release, solved)`, which returns
the notebook's bytes or a function that writes whatever it likes where the notebook should be. `release` and `solved` are
the chapter's notebooks as JSON. Where it also does an honest part, `EARNS` says what that is worth, exercise by exercise;
`STUDENT` is the folder of a student whose name is itself an attack. Where one idea is tried at several places, `EACH`
holds a submission for each of them, by name, in place of `submission`. `WATCHED` is the verdict where no control group
counts what a box uses, if it is another one there. `tools/attacks.py` grades them all as one class.
"""

import copy
import json
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Notebook = dict[str, Any]
Writer = Callable[[Path], object]
Submission = Callable[[Notebook, Notebook], bytes | Writer]
NOTHING = "def {name}(*args, **kwargs):\n    return None\n"
QUESTIONS = """
import os as _os
import socket as _socket
import stat as _stat


def channels():  # the socket on which the kernel is asked: a stream between processes, without a name
    found = []
    for fd in range(3, 200):
        try:
            if _stat.S_ISSOCK(_os.fstat(fd).st_mode):
                channel = _socket.socket(fileno=_os.dup(fd))
                if channel.family == _socket.AF_UNIX and channel.type == _socket.SOCK_STREAM:
                    if not channel.getsockname() and not channel.getpeername():
                        channel.settimeout(5)
                        found.append(channel)
        except OSError:
            pass
    return found


"""


def answering(exercise: str, source: str, honest: Sequence[str] = ()) -> Submission:
    """Answer `exercise` by `source`, those in `honest` rightly, and every other function wrongly.

    So a check that is blinded gives points that nothing has earned.
    """

    def submission(release: Notebook, solved: Notebook) -> bytes:
        notebook = answered(release, exercise, source)
        for name in honest:
            by_id(notebook, name)["source"] = text(by_id(solved, name))
        return dumps(notebook)

    return submission


def from_test(exercise: str, test: int, does: str, honest: Sequence[str] = (), before: str = "") -> Submission:
    """Answer `exercise` rightly before its test number `test`, from 0; then, called again, do what the source `does` does.

    A test calls the function once. `before` is run first; `honest` as in `answering`.
    """

    def submission(release: Notebook, solved: Notebook) -> bytes:
        right = text(by_id(solved, exercise))
        does_it = textwrap.indent(textwrap.dedent(does).strip(chr(10)), " " * 8)
        source = f"""
{textwrap.dedent(before)}

{right}

_right, _calls = {exercise}, []


def {exercise}(*args, **kwargs):
    _calls.append(1)
    if len(_calls) > {test}:
{does_it}
    return _right(*args, **kwargs)
"""
        return answering(exercise, source, honest)(release, solved)

    return submission


TESTS = ("first", "second", "third")  # of an exercise


def at_each_test(exercise: str, does: str, honest: Sequence[str] = (), before: str = "") -> dict[str, Submission]:
    """`from_test`, for each of the three tests of an exercise."""
    return {f"from_the_{name}_test_on": from_test(exercise, i, does, honest, before) for i, name in enumerate(TESTS)}


def sending_graphs(spoil: str) -> Submission:
    """Answer `round_robin` rightly, but send what the source of a function `spoil(graph)` makes of every graph."""

    def submission(release: Notebook, solved: Notebook) -> bytes:
        source = f"""
import tensorflow as tf
{textwrap.dedent(spoil)}

_honest = tf.Graph.as_graph_def


def _spoiled(self, *args, **kwargs):
    graph = _honest(self, *args, **kwargs)
    return spoil(graph) or graph


tf.Graph.as_graph_def = _spoiled


{text(by_id(solved, "round_robin"))}
"""
        return answering("round_robin", source)(release, solved)

    return submission


def answered(release: Notebook, exercise: str, source: str) -> Notebook:
    """The release with `source` for `exercise` and, in every other cell that defines a function, a wrong one."""
    notebook = copy.deepcopy(release)
    for cell in notebook["cells"]:
        meta = cell["metadata"].get("nbgrader", {})
        if meta.get("solution") and cell["cell_type"] == "code":
            name = meta["grade_id"]
            if name == exercise:
                cell["source"] = textwrap.dedent(source).strip("\n")
            elif f"def {name}(" in text(cell):
                cell["source"] = NOTHING.format(name=name)
    return notebook


def by_id(notebook: Notebook, grade_id: str) -> Notebook:
    """The cell with this grade id."""
    return next(c for c in notebook["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") == grade_id)


def text(cell: Notebook) -> str:
    """A cell's source."""
    return cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])


def dumps(notebook: Notebook) -> bytes:
    """A notebook as bytes."""
    return json.dumps(notebook, indent=1).encode("utf-8", "surrogatepass")
