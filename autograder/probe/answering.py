"""The student's side of a question: run a probe on the student's work and send back a plain value.

It runs inside the sandbox, in the student's kernel, where it may be tampered with at will; it holds no secret.
"""

from __future__ import annotations

import contextlib
import linecache
import socket
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from across import plain
from across._process.tracebacks import happened
from autograder.probe import wire

QUESTION = 256 << 20  # bytes
KEPT: dict[str, Any] = {}  # what probes keep from one question to the next: `kept` in their scope


class _MissingError(Exception):
    pass


class _Work:
    """The student's names as attributes."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self._namespace = namespace

    def __getattr__(self, name: str) -> Any:
        try:
            return self._namespace[name]
        except KeyError:
            raise _MissingError(name) from None


def reply(source: str, name: str, inputs: Mapping[str, Any], graphs: int, namespace: Mapping[str, Any]) -> bytes:
    """Run the probe `name` of `source` and return its answer, with so many `graphs` at most, as a frame.

    Whatever is raised becomes an answer too.
    """
    try:
        scope: dict[str, Any] = {"__name__": "__main__", "np": np, "kept": KEPT}
        if "tensorflow" in sys.modules:  # of a course that preloads it, or of a student who has imported it
            scope["tf"] = sys.modules["tensorflow"]
        # AutoGraph finds it there: what a probe traces is converted as in the notebook.
        linecache.cache["<probe>"] = (len(source), None, source.splitlines(keepends=True), "<probe>")
        exec(compile(source, "<probe>", "exec"), scope)
        value = scope[name](_Work(namespace), **inputs)
    except BaseException as error:
        return wire.encode(error_told(error))
    try:
        return wire.encode({"value": value}, graphs, plain.plainer)
    except BaseException as error:
        return wire.encode({"error": "NotPlain", "says": _text(error)})


def error_told(error: BaseException) -> dict[str, Any]:
    """What an answer tells of an exception: its type, its text, and the line of the cell that it came from."""
    says = _text(error)
    if isinstance(error, _MissingError):
        return {"error": "Missing", "says": says}
    lines = []
    frame = error.__traceback__
    while frame is not None:
        if _is_a_cell(frame.tb_frame.f_code.co_filename):
            lines.append(frame.tb_lineno)
        frame = frame.tb_next
    with contextlib.suppress(Exception):  # of code that AutoGraph wrote anew: where it stood, innermost first
        stack = error.ag_error_metadata.translated_stack  # type: ignore[attr-defined]
        lines += reversed([each.lineno for each in stack if _is_a_cell(each.filename)])
    return {"error": str(type(error).__name__), "says": says, "line": lines[-1] if lines else None}


def _is_a_cell(file: str) -> bool:
    return "ipykernel" in file or file.startswith("<cell")


def _text(error: BaseException) -> str:
    try:
        return happened(error)[:2000]
    except BaseException:
        return "(an error whose text cannot be read)"


def serve_alone(channel: socket.socket, namespace: Mapping[str, Any]) -> None:
    """Answer on `channel` until its other end is closed."""
    with contextlib.suppress(wire.WireError):
        while True:
            until = time.monotonic() + 3600
            source, name, inputs, graphs = wire.receive(channel, until, QUESTION)
            wire.send(channel, reply(source, name, inputs, graphs, namespace), until)


def serve(channel: socket.socket, loop: Any, namespace: Mapping[str, Any]) -> None:
    """Answer on `channel` from the kernel's own event loop: main thread, between cells, without zmq or IPython."""

    def ready(_fd: int, _events: int) -> None:
        until = time.monotonic() + 3600
        try:
            source, name, inputs, graphs = wire.receive(channel, until, QUESTION)
        except wire.DiedError:
            loop.remove_handler(channel.fileno())
            return
        frame = reply(source, name, inputs, graphs, namespace)
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        wire.send(channel, frame, until)

    loop.add_handler(channel.fileno(), ready, loop.READ)
