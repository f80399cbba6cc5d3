"""The other side of `across.fresh`: what the fresh process does.

Imported by a fork server, it imports TensorFlow and runs no op; run as a script (a cold start), it leaves TensorFlow to
the function that it is given.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import socket
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cloudpickle

from across import devices
from across._process.tracebacks import Frame, learn_sources

if __name__ != "__main__":
    import tensorflow as tf

    tf.keras  # noqa: B018 - TensorFlow loads Keras when it is first named: do it once, before the fork


def child(message: dict[str, Any], fds: Sequence[int], connection: socket.socket) -> int:
    """Serve one call: `message["folder"]` holds it, `fds` are its stdout and stderr (see across._process.forking)."""
    for number, fd in enumerate(fds, start=1):
        os.dup2(fd, number)
        os.close(fd)
    sys.stdout = sys.__stdout__ = open(1, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    folder = Path(message["folder"])
    task = _task(folder)
    os.environ.clear()
    os.environ.update(task["env"])
    return serve(folder, task)


def serve(folder: Path, task: dict[str, Any]) -> int:
    """Do the call that lies in `folder` and leave its answer there; return the exit code: 1 if it raised."""
    tempfile.tempdir = None  # found anew, in the environment
    sys.path[:] = task["path"]
    os.chdir(task["cwd"])
    learn_sources(task["sources"])
    try:
        if task["cpus"] is not None:
            devices.simulate(task["cpus"])
        if task["gpus"] is not None:
            devices.gpus(task["gpus"])
        elif devices.GPUS in os.environ:
            devices.from_environment()
        fn, args, kwargs = pickle.loads((folder / "call").read_bytes())
        answer = (True, _pickled(fn(*args, **kwargs)))
    except KeyboardInterrupt:
        raise
    except Exception as error:
        answer = (False, _failure(error))
    (folder / "new").write_bytes(pickle.dumps(answer))
    (folder / "new").rename(folder / "answer")  # whole or not at all
    sys.stdout.flush()
    sys.stderr.flush()
    return 0 if answer[0] else 1


def _task(folder: Path) -> dict[str, Any]:
    return pickle.loads((folder / "task").read_bytes())


def _pickled(value: Any) -> bytes:
    try:
        return cloudpickle.dumps(value)
    except Exception as error:
        raise TypeError(
            f"a {type(value).__name__} cannot leave the fresh process ({error}): return numbers, text or arrays"
        ) from error


def _failure(error: Exception) -> tuple[bytes | None, str, str, list[Frame]]:
    """The exception, pickled if it can be, and described; its traceback as text and as frames."""
    described = f"{type(error).__name__}: {error}"
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    walked = traceback.walk_tb(error.__traceback__)
    frames = [(frame.f_code.co_filename, number, frame.f_code.co_name) for frame, number in walked]
    try:
        return cloudpickle.dumps(error), described, text, frames
    except Exception:
        return None, described, text, frames


if __name__ == "__main__":
    faulthandler.enable()
    sys.exit(serve(Path(sys.argv[1]), _task(Path(sys.argv[1]))))
