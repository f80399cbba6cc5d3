"""Hands in a socket, behind which somebody listens."""

import os
import socket

EXERCISE = "where"
LISTENING = []


def submission(release, solved):
    def write(path):
        here = os.open(path.parent, os.O_RDONLY)  # the whole path is too long for a socket's name
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(f"/proc/self/fd/{here}/{path.name}")
        listening.listen()
        LISTENING.append(listening)
        os.close(here)

    return write
