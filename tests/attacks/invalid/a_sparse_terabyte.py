"""Hands in a sparse file of a terabyte."""

import os

EXERCISE = "where"


def submission(release, solved):
    def write(path):
        path.touch()
        os.truncate(path, 1 << 40)

    return write
