"""Importing, before a fork, what a notebook's kernel would import after it: ipykernel, and the modules of its course.

No op is run: after one, forked children hang.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import logging
import os
import pkgutil
import sys
from collections.abc import Callable, Sequence

COURSE = ("tensorflow", "matplotlib", "across")  # what this library's own course imports
# Not matplotlib_inline.backend_inline: imported where there is no shell, it never shows a figure.
LATER = (
    "IPython.core.completerlib IPython.core.oinspect IPython.core.debugger IPython.core.logger "
    "IPython.extensions.storemagic encodings.ascii encodings.latin_1 encodings.idna "
    "numpy.random packaging.requirements tornado.ioloop tornado.platform.asyncio "
    "pygments.formatters.html pygments.formatters.terminal256 pygments.lexers.python pygments.styles.default stack_data"
).split()
TENSORFLOW = {"TF_CPP_MIN_LOG_LEVEL": "3"}  # for the environment of a kernel that has it


def preload(names: Sequence[str] = COURSE, debugger: bool = True) -> None:
    """Import ipykernel and the modules `names`: with this library's own in about 4 s.

    Without `debugger` a kernel starts 0.1 s sooner, and cannot be debugged.
    """
    # read when matplotlib is imported; ipykernel would set it after the fork, which is too late
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    if not debugger:
        sys.modules["debugpy"] = None  # type: ignore[assignment]
    importlib.import_module("ipykernel.debugger")
    if not debugger:
        del sys.modules["debugpy"]
    for name in ("ipykernel.ipkernel", "ipykernel.kernelapp", "ipykernel.zmqshell", *LATER):
        importlib.import_module(name)
    modules(names)
    for module in list(sys.modules.values()):
        hasattr(module, "__file__")  # IPythonKernel resolves every lazy module: 33 ms a kernel
    _first_traceback()


def modules(names: Sequence[str]) -> None:
    """Import the modules `names`, each with what it would import itself when it is first used."""
    for name in names:
        RECIPES.get(name, importlib.import_module)(name)


def _tensorflow(_name: str) -> None:
    """As a script imports it: what `pristine` leaves beside a kernel is no notebook."""
    importlib.import_module("across")  # first: it keeps TensorFlow's start-up log out of sight
    import tensorflow as tf

    for lazy in ("layers", "Sequential"):
        getattr(tf.keras, lazy)
    tf.distribute.MirroredStrategy  # noqa: B018 - lazy: resolved before the fork


def log_as_in_a_notebook() -> None:
    """Have TensorFlow, if it was imported, log as when a notebook imports it. Call it in a kernel that is initialised."""
    if "tensorflow" not in sys.modules:
        return
    from tensorflow.python.autograph.utils import ag_logging
    from tensorflow.python.ops import logging_ops
    from tensorflow.python.platform import tf_logging

    logging_ops.enable_interactive_logging()
    ag_logging.echo_log_to_stdout = True
    logger = logging.getLogger("tensorflow")
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
    tf_logging._logger = None
    tf_logging.get_logger()  # which looks for `sys.ps1` and takes `sys.stdout` as they are now


def _matplotlib(_name: str) -> None:
    for name in ("matplotlib.pyplot", "matplotlib.backends.backend_agg"):
        importlib.import_module(name)


def _across(name: str) -> None:
    """What a cell may import of this library, all but its command, and what `pristine` leaves beside a kernel."""
    for module in pkgutil.iter_modules(importlib.import_module(name).__path__):
        if not module.name.startswith("_") and module.name != "cli":
            importlib.import_module(f"{name}.{module.name}")
    importlib.import_module(f"{name}._process.fresh_child")
    importlib.import_module(f"{name}._gpu.loading").open_if_built()


def _gpu(_name: str) -> None:
    """The library of simulated GPUs, built if it was not; where it cannot be had, whoever wants it is told."""
    building = importlib.import_module("across._gpu.building")
    with contextlib.suppress(building.NoGpu):
        building.build()
        importlib.import_module("across._gpu.loading").open_if_built()


RECIPES: dict[str, Callable[[str], object]] = {
    "tensorflow": _tensorflow,
    "matplotlib": _matplotlib,
    "across": _across,
    "across._gpu": _gpu,
}


def _first_traceback() -> None:
    """Do what only a kernel's first traceback has to wait for, 0.15 s: find every module's file, read Python's grammar."""
    inspect.getmodule(compile("", "<none>", "exec"))
    sys.modules["pygments.lexers.python"].PythonLexer()
