"""Hands in a file over the limit."""

EXERCISE = "where"


def submission(release, solved):
    return b" " * (6 << 20)
