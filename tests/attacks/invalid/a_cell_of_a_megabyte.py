"""Hides its answer in a cell of a megabyte."""

from corpus import answered, dumps

EXERCISE = "where"


def submission(release, solved):
    return dumps(answered(release, EXERCISE, "#" * 1_000_000))
