"""A fork server beside a kernel: a copy of the process that became the kernel, made before any op was run.

`across.fresh` asks it for processes, so that nobody imports TensorFlow a second time: not a learner's first `fresh.run`,
and not a submission in the grader's box, where that would cost more than all the rest. In a box it is as boxed as the
kernel, whose user, limits and files it has; it holds nothing that the kernel does not hold.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from types import ModuleType
from typing import NoReturn

from across._process import forking, warm

ADDRESS = "ACROSS_FORK_SERVER"  # environment: its socket and, for other Pythons must not use it, our sys.prefix


def leave(module: ModuleType) -> None:
    """Fork a server of `module`; it ends with this process. Where no process or file is to be had there is none.

    Call it before the first op, in a process with one thread.
    """
    try:
        folder = forking.new_folder()  # the server removes it
        server = forking.Server(f"{folder}/warm", module)
    except OSError:  # nothing can be written here
        return
    owner = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        if pid == 0:
            _be(server, owner)
        os.environ[ADDRESS] = address(f"{folder}/warm")
    server.listener.close()


def _be(server: forking.Server, owner: int) -> NoReturn:
    with contextlib.suppress(BaseException):
        os.setsid()  # a signal to the kernel's process group is not for us
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        listener = server.listener.fileno()
        os.closerange(3, listener)  # the kernel's sockets among them
        os.closerange(listener + 1, 65536)
        server.loop(owner, stdin=False)
    os._exit(1)


def address(path: str) -> str:
    """The value of ADDRESS that leads to the server at `path`."""
    return f"{path}{os.pathsep}{sys.prefix}"


def socket_path() -> str | None:
    """The socket of the server that ADDRESS leads to, if there is one and it answers."""
    path, _, prefix = os.environ.get(ADDRESS, "").partition(os.pathsep)
    return path if path and prefix == sys.prefix and warm.answers(path) else None
