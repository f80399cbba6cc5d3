"""Hands in a named pipe, which would keep a reader waiting for ever."""

import os

EXERCISE = "where"


def submission(release, solved):
    return os.mkfifo
