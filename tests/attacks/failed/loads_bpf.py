"""Makes a map and loads a program into the kernel's BPF machine."""

from syscalls import trying

EXERCISE = "where"
submission = trying(
    """
import struct

array = ctypes.create_string_buffer(struct.pack("=IIII", 2, 4, 4, 1), 128)  # BPF_MAP_TYPE_ARRAY of one entry
got("a map", call((321, 280), 0, array, 72))
steps = ctypes.create_string_buffer(bytes.fromhex("b700000000000000 9500000000000000"))  # r0 = 0; exit
licence = ctypes.create_string_buffer(b"GPL")
for kind in (1, 8):  # a socket's filter, a control group's
    head = struct.pack("=IIQQ", kind, 2, ctypes.addressof(steps), ctypes.addressof(licence))
    got("a program", call((321, 280), 5, ctypes.create_string_buffer(head, 128), 72))
"""
)
