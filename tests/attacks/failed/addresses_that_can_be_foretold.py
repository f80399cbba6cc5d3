"""Turns off the random layout of memory and the ban on executing data, for itself and what it starts."""

from syscalls import trying

EXERCISE = "where"
submission = trying(
    """
for wish in (0x0040000, 0x0400000, 0x0100000):  # ADDR_NO_RANDOMIZE, READ_IMPLIES_EXEC, MMAP_PAGE_ZERO
    got(hex(wish), call((135, 92), wish))
"""
)
