"""Connects to sockets without a file: those of X, D-Bus, containerd, and whatever /proc lists."""

from syscalls import trying

EXERCISE = "where"
submission = trying(
    """
import socket

names = ["/tmp/.X11-unix/X0", "/tmp/.ICE-unix/1", "/run/dbus/system_bus_socket", "/containerd-shim/k8s.sock", "across"]
names += [line.split()[-1][1:] for line in open("/proc/net/unix") if line.split()[-1].startswith("@")]
for name in names:
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
        try:
            with socket.socket(socket.AF_UNIX, kind) as client:
                client.connect("\\0" + name)
                GOT.append(name)
        except OSError:
            pass
"""
)
