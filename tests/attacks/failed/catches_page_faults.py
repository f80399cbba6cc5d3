"""Asks to handle page faults itself, with which races in the kernel are won."""

from syscalls import trying

EXERCISE = "where"
submission = trying(
    """
for flags in (0, 1):  # 1: UFFD_USER_MODE_ONLY, which anybody may
    got("userfaultfd", call((323, 282), flags))
"""
)
