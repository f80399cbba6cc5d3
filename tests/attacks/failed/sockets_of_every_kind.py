"""Opens sockets to the hypervisor, raw and packet sockets, the kernel's netlinks, cipher, bus and cluster sockets."""

from syscalls import trying

EXERCISE = "where"
submission = trying(
    """
import socket

STREAM, DATAGRAM, RAW, SEQUENCE = 1, 2, 3, 5
kinds = [("vsock", 40, STREAM, 0), ("packet", 17, RAW, 0x300), ("raw", 2, RAW, 1), ("raw6", 10, RAW, 58)]
kinds += [("sctp", 2, SEQUENCE, 0), ("cipher", 38, SEQUENCE, 0), ("tipc", 30, STREAM, 0), ("rds", 21, SEQUENCE, 0)]
kinds += [("can", 29, RAW, 1), ("bluetooth", 31, RAW, 1), ("key", 15, RAW, 2), ("xdp", 44, RAW, 0), ("smc", 43, STREAM, 0)]
kinds += [(f"netlink {protocol}", 16, RAW, protocol) for protocol in (2, 4, 6, 9, 11, 12, 15, 16, 20)]
for name, *wish in kinds:
    try:
        GOT.append((name, socket.socket(*wish)))
    except OSError:
        pass
"""
)
