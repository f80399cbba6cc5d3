"""What of a traceback is the reader's own, and source lines for code that is in no file: a notebook's cells."""

from __future__ import annotations

import linecache
import os
import re
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

Frame = tuple[str, int, str]  # file, line, function

_FOREIGN = tuple(
    {
        str(Path(__file__).parent.parent) + os.sep,
        *(sysconfig.get_path(key) + os.sep for key in ("stdlib", "purelib", "platlib")),
    }
)

IN_FUNCTION = "in user code:"  # how TensorFlow begins the message of an error raised while it traces a tf.function
_IN_GRAPH = "Graph execution error:"  # and of one raised while the graph runs
_AGAIN = re.compile(r"\n\nOriginal stack trace for .*\Z", re.DOTALL)  # a second traceback, after what happened
_WHERE = re.compile(r"\ADetected at node .*?\nNode: '[^'\n]*'\n", re.DOTALL)  # the first one, before it
_WHO = re.compile(r"\AFrom /job:\S+:\n")  # the task that tells it
_SEVERAL = re.compile(r"\d+ root error\(s\) found\.\s+\(0\) [A-Z_]+:\s*")  # each device's; the first one follows
_AROUND = re.compile(r"\{\{function_node \S+?\}\}\s*| \[Op:\w+\](?: name:.*)?$")  # what it writes around what is wrong


def happened(error: BaseException) -> str:
    """The text of an exception; of TensorFlow's the last paragraph, which says what happened, without names of its own."""
    text = str(error)
    if text.startswith((IN_FUNCTION, _IN_GRAPH)):
        last = (
            _AGAIN.sub("", text).strip().rpartition("\n\n")[2].strip().removeprefix(f"{type(error).__name__}:").strip()
        )
        last = _WHO.sub("", _WHERE.sub("", last))
        text = _SEVERAL.sub("", last).partition("\n\t [[")[0]
    return _AROUND.sub("", text)


def is_own(file: str) -> bool:
    """Whether code is the notebook's (or the student's own module's), not the library's or an installed one's."""
    return not file.startswith(_FOREIGN) and not file.startswith("<frozen") and "__autograph_generated" not in file


def own_line(frames: Sequence[Frame]) -> str:
    """`in round_robin, line 3: return devices[i]`: the innermost of `frames` that is own; "" if none is."""
    for file, number, function in reversed(frames):
        if is_own(file):
            return f"in {function}, line {number}: {linecache.getline(file, number).strip() or '?'}"
    return ""


def cell_sources() -> dict[str, list[str]]:
    """The lines of code that is in no file, a notebook's cells, by the file name that its tracebacks give."""
    entries = {file: entry for file, entry in list(linecache.cache.items()) if len(entry) == 4}
    return {file: entry[2] for file, entry in entries.items() if not os.path.exists(file)}


def learn_sources(sources: Mapping[str, Sequence[str]]) -> None:
    """Let tracebacks, `inspect` and TensorFlow's AutoGraph find lines here that `cell_sources` told elsewhere."""
    for file, lines in sources.items():
        linecache.cache[file] = (sum(map(len, lines)), None, list(lines), file)
