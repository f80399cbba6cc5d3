"""Has the server of fresh processes fork one that answers in the kernel's place, floods that server and kills it."""

from corpus import QUESTIONS, answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    QUESTIONS
    + """
import os
import signal
import socket
import sys
import time

from across import fresh


def stand_in(channels):
    import importlib

    wire = sys.modules.get("autograder.probe.wire") or importlib.import_module("autograder.probe.wire")
    if os.fork() == 0:
        os.setsid()  # out of the group that ends with the fresh process
        while True:
            for channel in channels():
                source, name, inputs, graphs = wire.receive(channel, time.monotonic() + 1000, 1 << 28)
                wire.send(channel, wire.encode({"value": list(inputs.get("firsts", ()))}), time.monotonic() + 10)
    return os.getppid()


server = fresh.run(stand_in, channels)
path = os.environ["ACROSS_FORK_SERVER"].split(":")[0]
held = []
try:
    for number in range(300):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(1)
        connection.connect(path)
        held.append(connection)
        socket.send_fds(connection, [b'{"folder": "/proc/1"}' if number % 2 else b"x"], [connection.fileno()] * 16)
except OSError:
    pass
os.kill(server, signal.SIGKILL)


def where(tensor):
    return None
""",
)
