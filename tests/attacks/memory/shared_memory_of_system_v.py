"""Fills segments of System V shared memory, which outlive the process that made them, until there is no memory."""

from corpus import answering

EXERCISE = "where"
WATCHED = "crashed"  # where no control group counts them, such segments are refused
submission = answering(
    EXERCISE,
    """
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
SIZE, CREATE = 256 << 20, 0o1600
for _ in range(80):
    segment = libc.shmget(0, ctypes.c_size_t(SIZE), CREATE)
    ctypes.memset(libc.shmat(segment, None, 0), 1, SIZE)
""",
)
