"""A deadline by processor time: a TensorFlow that hangs uses none, one that is slow on a busy machine does."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
HUNG = 75  # the exit code of a process that was ended so
LOOK = 0.25  # seconds between two looks
WORK = 0.05  # processor seconds that count as a sign of work


def watched(quiet: float, fn: Callable[..., T], *arguments: object) -> T:
    """Return `fn(*arguments)`. This process ends with code HUNG once it has used no processor time for `quiet` seconds.

    Only for a process that serves this one call.
    """

    def watch() -> None:
        used, since = time.process_time(), time.monotonic()
        while time.monotonic() - since < quiet:
            time.sleep(LOOK)
            if time.process_time() - used > WORK:
                used, since = time.process_time(), time.monotonic()
        os._exit(HUNG)

    threading.Thread(target=watch, daemon=True).start()
    return fn(*arguments)
