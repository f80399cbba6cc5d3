"""The student's side: a warm server that has imported TensorFlow and ipykernel; its child is a kernel in a box.

Served by `across.warm`. It imports nothing of `autograder` but what a kernel needs (answering, wire, sandbox): whatever
is in its memory is in the student's memory too.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import os
import signal
import socket
import sys
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # a card comes in only under a lease

builtins.get_ipython = lambda: None  # type: ignore[attr-defined]
sys.ps1 = ">>> "  # TensorFlow chooses its log stream when it is imported: as in a notebook
import numpy  # noqa: E402
import tensorflow as tf  # noqa: E402

del builtins.get_ipython  # type: ignore[attr-defined]
sys.modules["debugpy"] = None  # type: ignore[assignment]  # no debugger in a grading kernel: 0.1 s a kernel
import ipykernel.debugger  # noqa: E402

del sys.modules["debugpy"]
import ipykernel.ipkernel  # noqa: E402
import ipykernel.kernelapp  # noqa: E402
import ipykernel.zmqshell  # noqa: E402

from autograder import answering, sandbox  # noqa: E402

LATER = (  # what a kernel or a chapter would import after the fork
    "IPython.core.completerlib IPython.core.oinspect IPython.core.debugger IPython.extensions.storemagic "
    "encodings.ascii encodings.latin_1 encodings.idna matplotlib.pyplot matplotlib_inline.backend_inline "
    "matplotlib.backends.backend_agg tornado.ioloop "
    "across across.devices across.fresh across.placement across.pictures across.attempt"
).split()
for _name in LATER:
    with contextlib.suppress(ImportError):
        importlib.import_module(_name)
tf.keras.layers, tf.keras.Sequential, tf.distribute.MirroredStrategy  # noqa: B018  # lazy: resolved before the fork
for _module in list(sys.modules.values()):
    hasattr(_module, "__file__")  # IPythonKernel resolves every lazy module: 33 ms a kernel


def child(message: dict[str, Any], fds: list[int], connection: socket.socket) -> None:
    """Become a kernel in the box of `message`; `fds`: its log, and the socket on which it is asked."""
    log, asked = fds
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
    connection.close()
    asked = os.dup2(asked, 3)
    sandbox.hold([asked])
    sandbox.enter(message)
    channel = socket.socket(fileno=asked)
    home = message["inside"]
    os.chdir(home)
    path = f"{sys.prefix}/bin:/usr/bin:/bin"
    os.environ.clear()
    os.environ.update(PATH=path, HOME=home, USER="student", LOGNAME="student", TMPDIR="/tmp", LANG="C.UTF-8")
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1", PYTHONDONTWRITEBYTECODE="1")
    os.environ.update(IPYTHONDIR=f"{home}/.ipython", MPLCONFIGDIR=f"{home}/.matplotlib", ACROSS_GRADING="1")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _start(channel, home)


def _start(channel: socket.socket, home: str) -> None:
    import random
    import tempfile

    from tornado.ioloop import IOLoop

    tempfile.tempdir = None
    random.seed()
    numpy.random.seed()
    sys.path.insert(0, "")
    sys.argv = ["kernel"]
    application = ipykernel.kernelapp.IPKernelApp.instance()
    quiet = ["--HistoryManager.enabled=False", "--log-level=ERROR"]
    application.initialize(["-f", f"{home}/connection.json", *quiet])
    answering.serve(channel, IOLoop.current(), application.shell.user_ns)  # type: ignore[union-attr]
    # kernel.io_loop is None until start()
    with contextlib.suppress(OSError):
        channel.send(b"R")  # bound and listening: the client may connect
    application.start()
