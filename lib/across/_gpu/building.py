"""The library of the simulated GPU: built once on first need by the compiler that is there, and kept.

It is kept in the folder `simulated_gpu` of ACROSS_CACHE, or where caches are kept ($XDG_CACHE_HOME/across, ~/.cache/across), by
TensorFlow's version and build, this machine's processor and a digest of the source, so that no process loads what was built
for another. It is written aside and renamed, and who comes while another builds waits for that one.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from across import _system

SOURCE = Path(__file__).with_name("simulated_gpu.cc")
GPUS = "ACROSS_GPUS"  # environment: how many GPUs to simulate where there is none
VARIABLE = "ACROSS_CACHE"  # environment: the folder of what is kept
WRITTEN_FOR = "2.21"  # the TensorFlow whose internals the source follows
MACHINES = ("x86_64", "aarch64")
COMPILERS = ("c++", "g++", "clang++")
OPTIONS = ("-shared", "-fPIC", "-O1", "-w")
DEADLINE = 900.0  # seconds; on a quiet machine it takes about 20
INSTALL = (
    "install one (Debian, Ubuntu: `apt-get install g++`; Fedora: `dnf install gcc-c++`; `conda install cxx-compiler`)"
)


class NoGpu(RuntimeError):  # noqa: N818 - reads as the sentence it is
    """No GPU can be simulated here. The message says why and what mends it."""


def folder() -> Path:
    """Where what was built is kept."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen) / "simulated_gpu"
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "across" / "simulated_gpu"


def kept() -> Path | None:
    """The library for this TensorFlow and this machine, if it was built before."""
    path = folder() / _name()
    return path if os.path.isfile(path) else None  # also where we may not look


def problem() -> str:
    """Why it cannot be built here, with the mend, as a clause; empty where nothing is known to be in the way."""
    import tensorflow as tf

    if not _system.linux():
        return _system.NEEDS_LINUX
    if platform.machine() not in MACHINES:
        return f"it needs a processor of {' or '.join(MACHINES)}, and this is {platform.machine()}"
    if not tf.__version__.startswith(f"{WRITTEN_FOR}."):
        return (
            f"it is written for TensorFlow {WRITTEN_FOR}, and this is {tf.__version__}: `uv sync` brings the right one"
        )
    if kept() is None and compiler() is None:
        return f"it is built by a C++ compiler, and none of {', '.join(COMPILERS)} is on the PATH: {INSTALL}"
    return ""


def build() -> Path:
    """The library for this TensorFlow and this machine, built now if it was not before (about 20 s). Raises NoGpu."""
    if found := problem():
        raise NoGpu(f"No simulated GPU: {found}.")
    path = folder() / _name()
    if path.is_file():
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _alone(path.parent), tempfile.TemporaryDirectory(prefix="build-", dir=path.parent) as aside:
            made = Path(aside) / path.name
            if path.is_file():  # built by whom we waited for
                return path
            _compile(made, aside)
            made.chmod(0o755)  # who is in a grader's box is another user
            os.replace(made, path)
    except OSError as error:
        raise NoGpu(
            f"No simulated GPU: it cannot be kept in {path.parent} ({error.strerror or error}): "
            f"set {VARIABLE} to a folder that you may write, with 10 MB free."
        ) from error
    return path


def compiler() -> str | None:
    """The C++ compiler that is taken; None where there is none."""
    return next((found for name in COMPILERS if (found := shutil.which(name))), None)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until nobody else builds in this folder; then nobody does in the block."""
    fcntl: Any = importlib.import_module("fcntl")  # of Linux, and so is who comes here
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _name() -> str:
    import tensorflow as tf

    build = "cuda" if tf.test.is_built_with_cuda() else "cpu"
    return f"simulated_gpu-{tf.__version__}-{build}-{platform.machine()}-{_digest()}.so"


@functools.cache
def _digest() -> str:
    return hashlib.sha256(SOURCE.read_bytes() + " ".join(OPTIONS).encode()).hexdigest()[:16]


def _compile(to: Path, aside: str) -> None:
    """Build into the file `to`. Raises NoGpu with the compiler's first error, OSError."""
    import tensorflow as tf

    libraries = tf.sysconfig.get_lib()
    command = [
        *(compiler() or "c++", *OPTIONS, *tf.sysconfig.get_compile_flags(), f'-DACROSS_TENSORFLOW="{tf.__version__}"'),
        *(str(SOURCE), "-o", str(to), f"-L{libraries}"),
        *("-l:libtensorflow_framework.so.2", "-l:libtensorflow_cc.so.2"),
    ]
    environment = {**os.environ, "TMPDIR": aside, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=DEADLINE, env=environment
        )
    except subprocess.TimeoutExpired:
        raise NoGpu(f"No simulated GPU: {command[0]} did not build it within {DEADLINE:g} s; try again.") from None
    if done.returncode != 0:
        lines = done.stderr.splitlines()
        first = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "it said nothing")
        if "No space left" in done.stderr:
            raise OSError(28, os.strerror(28))
        raise NoGpu(
            f"No simulated GPU: {command[0]} could not build it ({first.strip()}); try another compiler: {INSTALL}."
        )
