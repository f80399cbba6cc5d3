"""What an attack is written with. Each file in `<expected verdict>/` says in its docstring's one line what it tries.

An attack module sets `EXERCISE`, whose verdict the folder's name says, and `submission(release, solved)`, which returns
the notebook's bytes or a function that writes whatever it likes where the notebook should be. `release` and `solved` are
the chapter's notebooks as JSON. Where it also does an honest part, `EARNS` says what that is worth, exercise by exercise;
`STUDENT` is the folder of a student whose name is itself an attack. `autograder.devtools.attacks` grades them all as one class.
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
                        channel.settimeout(30)
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
