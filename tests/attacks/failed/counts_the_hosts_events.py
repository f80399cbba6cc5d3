"""Opens performance counters, on itself and on a whole processor, through which the host's work is seen."""

from syscalls import trying

EXERCISE = "where"
submission = trying(
    """
import struct

for flags in (0, 1 << 5 | 1 << 6):  # whole; without the kernel and the hypervisor
    counter = ctypes.create_string_buffer(struct.pack("=IIQQQQQ", 1, 112, 0, 0, 0, 0, flags), 128)  # software, cpu clock
    for process, processor in ((0, -1), (-1, 0)):
        got("a counter", call((298, 241), counter, process, processor, -1, 0))
"""
)
