"""Starts processes in namespaces of their own by clone and clone3, joins others', mounts by the newest calls."""

from syscalls import trying

EXERCISE = "where"
submission = trying(
    """
import struct

USER, MOUNTS, CHILD = 0x10000000, 0x00020000, 17


def started(what, answer):
    if answer == 0:
        os._exit(0)
    if got(what, answer) > 0:
        os.waitpid(answer, 0)


started("clone", call((56, 220), USER | MOUNTS | CHILD, 0, 0, 0, 0))
wish = ctypes.create_string_buffer(struct.pack("=QQQQQQQQ", USER | MOUNTS, 0, 0, 0, CHILD, 0, 0, 0), 64)
started("clone3", call((435, 435), wish, 64))
for process in (1, 2):
    for kind in ("user", "mnt", "net", "pid"):
        try:
            got("setns", call((308, 268), os.open(f"/proc/{process}/ns/{kind}", os.O_RDONLY), 0))
        except OSError:
            pass
got("fsopen", call((430, 430), b"tmpfs", 0))
got("open_tree", call((428, 428), -100, b"/box", 1))
got("fspick", call((433, 433), -100, b"/box", 0))
got("mount", call((165, 40), b"none", b"/tmp", b"tmpfs", 0, 0))
got("pivot_root", call((155, 41), b"/box", b"/box"))
got("chroot", call((161, 51), b"/box"))
"""
)
