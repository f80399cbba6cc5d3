"""JupyterLab as a command starts it: its address once it serves; it ends with the block, whatever became of that."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/\S*?lab(?:/tree/\w+)?\?token=[\w.]+")
STARTS, ENDS = 300.0, 120.0  # seconds; deadlines


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def serving(command: str | list[str], folder: Path, env: Mapping[str, str], log: Path) -> Iterator[str]:
    """The address, with its token where that was not given. A text is a line for the shell."""
    with log.open("wb") as out:
        shell = isinstance(command, str)
        server = subprocess.Popen(
            command, shell=shell, cwd=folder, env=env, stdout=out, stderr=out, start_new_session=True
        )
    try:
        yield _address(server, log)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(ENDS)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)


def _address(server: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + STARTS
    while time.monotonic() < until and server.poll() is None:
        if found := ADDRESS.search(log.read_text(errors="replace")):
            with socket.socket() as probe:  # it is said before anybody listens there
                if probe.connect_ex(("127.0.0.1", int(found[1]))) == 0:
                    return found[0]
        time.sleep(0.1)
    raise AssertionError(f"it does not serve:\n{log.read_text(errors='replace')[-3000:]}")
