"""What tests of processes share."""

import functools
import os
import select
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from across import fresh
from across._process import warm

forked = pytest.mark.skipif(not warm.available(), reason="without warm forking a process costs an import of TensorFlow")


def often(names: Sequence[str], count: int = 2) -> list[Any]:
    """Parameters of a test that takes seconds with each: the first few always, the others as `whole`."""
    return [pytest.param(name, marks=pytest.mark.whole if at >= count else []) for at, name in enumerate(names)]


def in_a_fresh_process(**how: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A test that runs in a fresh TensorFlow process, `how` as `fresh.run` takes it: it depends on no other's devices."""

    def of(test: Callable[..., None]) -> Callable[..., None]:
        return functools.wraps(test)(lambda **fixtures: fresh.run(test, timeout=120, **how, **fixtures))

    return of


def with_a_card(served: str) -> dict[str, str]:
    """The environment in which `import with_a_card` finds itself, and wraps the module `served`."""
    return {"PYTHONPATH": str(Path(__file__).parent), "SERVED": served}


def across(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """What a student's command does, as it is typed."""
    command = [sys.executable, "-c", "from across.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **env})


def ended(pid: int, seconds: float = 30.0) -> bool:
    """Whether a process ends within the deadline."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([fd], [], [], seconds)[0])
    finally:
        os.close(fd)
