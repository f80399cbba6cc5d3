"""Writes into the box's first processes, which it did not start: by /proc, by ptrace, by their descriptors."""

from syscalls import trying

EXERCISE = "where"
submission = trying(
    """
import struct

mine = ctypes.create_string_buffer(64)
local = ctypes.create_string_buffer(struct.pack("=QQ", ctypes.addressof(mine), 8))
for process in {1, 2} - {os.getpid()}:
    try:
        first = next(line for line in open(f"/proc/{process}/maps") if "r-xp" in line)
        address = int(first.split("-")[0], 16)
        with open(f"/proc/{process}/mem", "r+b", buffering=0) as memory:
            memory.seek(address)
            GOT.append(memory.write(memory.read(4)))
    except (OSError, StopIteration):
        address = 0x400000
    there = ctypes.create_string_buffer(struct.pack("=QQ", address, 8))
    got("its memory", call((310, 270), process, local, 1, there, 1, 0))  # process_vm_readv
    got("its life", call((101, 117), 0x4206, process, 0, 0))  # PTRACE_SEIZE
    try:
        got("its descriptor", call((438, 438), os.pidfd_open(process), 1, 0))  # pidfd_getfd
    except OSError:
        pass
"""
)
