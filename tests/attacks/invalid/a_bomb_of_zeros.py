"""Hands in ten gigabytes of spaces, packed to ten megabytes and packed again."""

import gzip

EXERCISE = "where"


def submission(release, solved):
    member = gzip.compress(gzip.compress(bytes(1 << 20), 9) * 10_000, 9)
    return member
