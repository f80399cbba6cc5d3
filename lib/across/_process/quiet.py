"""TensorFlow's import without its start-up log.

TensorFlow 2.21 writes lines about oneDNN and CUDA to the process's stderr while its libraries load, before any log level
is read, so TF_CPP_MIN_LOG_LEVEL alone does not stop them. `install` makes the import of TensorFlow (whoever does it)
run with stderr turned into a file; an import that fails gives it all back.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"


def install() -> None:
    """Silence the import of TensorFlow, if it is still to come. Set TF_CPP_MIN_LOG_LEVEL=0 beforehand to see the log."""
    if "tensorflow" in sys.modules or os.environ.get(LOG_LEVEL) == "0":
        return
    os.environ.setdefault(LOG_LEVEL, "3")  # 2 would let "failed call to cuInit" through where there is no GPU
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


@contextlib.contextmanager
def stderr_aside() -> Iterator[None]:
    """Send what is written to file descriptor 2 to a file; after an exception print it where it would have gone."""
    try:
        kept = os.dup(2)
    except OSError:  # stderr is closed: nothing to keep quiet
        yield
        return
    with tempfile.TemporaryFile() as aside:
        os.dup2(aside.fileno(), 2)
        failed = True
        try:
            yield
            failed = False
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            if failed:
                aside.seek(0)
                os.write(2, aside.read())


class _Finder(MetaPathFinder):
    """Finds TensorFlow's own loader, to be run with stderr aside; afterwards it and `sys.meta_path` are as without us."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "tensorflow":
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        loader: Any = spec.loader

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module  # what is left is its class's own
            with contextlib.suppress(ValueError):
                sys.meta_path.remove(self)
            with stderr_aside():
                loader.exec_module(module)

        loader.exec_module = exec_module
        return spec
