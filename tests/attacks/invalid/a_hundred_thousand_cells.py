"""Hands in a hundred thousand cells."""

EXERCISE = "where"


def submission(release, solved):
    empty = '{"cell_type":"raw","source":"","metadata":{}}'
    return ('{"nbformat":4,"cells":[' + ",".join([empty] * 100_000) + "]}").encode()
