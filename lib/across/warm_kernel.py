"""Jupyter kernels out of a warm process: TensorFlow and ipykernel are imported once, each kernel is a fork.

Served by `across.warm`, asked by `across.provisioner`. These are the student's own kernels on their own machine; the
grader has kernels in a sandbox. What differs from a cold kernel: `import tensorflow` finds it imported already.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import operator
import os
import socket
import sys
from typing import Any

# read when matplotlib is imported; ipykernel would set it after the fork, which is too late
os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
import across  # noqa: F401 - first: it keeps TensorFlow's start-up log out of sight

builtins.get_ipython = lambda: None  # type: ignore[attr-defined]
sys.ps1 = ">>> "  # TensorFlow chooses its log stream when it is imported: as in a notebook
import numpy  # noqa: E402
import tensorflow as tf  # noqa: E402

del builtins.get_ipython  # type: ignore[attr-defined]
import ipykernel.ipkernel  # noqa: E402
import ipykernel.kernelapp  # noqa: E402
import ipykernel.zmqshell  # noqa: E402

# What a kernel or a chapter would import after the fork. Not matplotlib_inline.backend_inline: imported where there is
# no shell, it never shows a figure.
LATER = (
    "IPython.core.completerlib IPython.core.oinspect IPython.core.debugger IPython.extensions.storemagic "
    "matplotlib.pyplot matplotlib.backends.backend_agg tornado.ioloop "
    "across.devices across.fresh across.placement across.pictures across.attempt"
).split()
for _name in LATER:
    with contextlib.suppress(ImportError):
        importlib.import_module(_name)
for _lazy in ("keras.layers", "keras.Sequential", "distribute.MirroredStrategy"):
    operator.attrgetter(_lazy)(tf)  # resolved before the fork
for _module in list(sys.modules.values()):
    hasattr(_module, "__file__")  # IPythonKernel resolves every lazy module: 33 ms a kernel
del sys.ps1
if not sys.flags.safe_path:
    del sys.path[0]  # the folder in which the server was started: `python -m` put it there


def child(message: dict[str, Any], fds: list[int], connection: socket.socket) -> None:
    """Become the kernel that `message` describes: argv (after `-m ipykernel_launcher`), cwd, env; fds: out and err."""
    import random
    import tempfile

    for stream, fd in enumerate(fds, 1):
        os.dup2(fd, stream)
        os.close(fd)
    connection.close()
    os.chdir(message["cwd"])
    os.environ.clear()
    os.environ.update(message["env"])
    os.environ["JPY_PARENT_PID"] = str(os.getppid())
    tempfile.tempdir = None
    random.seed()
    numpy.random.seed()
    sys.argv = ["ipykernel_launcher.py", *message["argv"]]
    ipykernel.kernelapp.launch_new_instance(parent_handle=os.getppid())  # a kernel ends with its parent
