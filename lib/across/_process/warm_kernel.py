"""Jupyter kernels out of a warm process: TensorFlow and ipykernel are imported once, each kernel is a fork.

Served by `warm`, asked by `provisioner`. These are the student's own kernels on their own machine; the
grader has kernels in a sandbox. What differs from a cold kernel: `import tensorflow` finds it imported already.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from typing import Any

import ipykernel.kernelapp

from across import devices
from across._process import preload, pristine, sharing

preload.preload()
from across._process import fresh_child  # noqa: E402 - it imports TensorFlow

if not sys.flags.safe_path:
    del sys.path[0]  # the folder in which the server was started: `python -m` put it there


def child(message: dict[str, Any], fds: list[int], connection: socket.socket) -> None:
    """Become the kernel that `message` describes: argv (after `-m ipykernel_launcher`), cwd, env; fds: out and err."""
    for stream, fd in enumerate(fds, 1):
        os.dup2(fd, stream)
        os.close(fd)
    connection.close()
    os.chdir(message["cwd"])
    os.environ.clear()
    os.environ.update(message["env"])
    os.environ["JPY_PARENT_PID"] = str(os.getppid())
    tempfile.tempdir = None
    pristine.leave(fresh_child)
    sharing.share()  # after the copy, which is to be forked, and before start-up files of the student's
    sys.argv = ["ipykernel_launcher.py", *message["argv"]]
    application = ipykernel.kernelapp.IPKernelApp.instance(parent_handle=os.getppid())  # a kernel ends with its parent
    application.initialize()
    if devices.GPUS in os.environ:
        devices.from_environment()
    preload.log_as_in_a_notebook()
    application.start()
