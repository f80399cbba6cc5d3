"""Sets up io_uring, whose operations no filter of system calls sees."""

from syscalls import trying

EXERCISE = "where"
submission = trying(
    """
got("a ring", call((425, 425), 8, ctypes.create_string_buffer(120)))
"""
)
