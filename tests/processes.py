"""What tests of processes share."""

import os
import select


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
