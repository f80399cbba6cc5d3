"""Answers a question about names with a graph of seven million empty functions."""

from corpus import answering

EXERCISE = "place"
submission = answering(
    EXERCISE,
    """
import sys

wire = sys.modules["autograder.probe.wire"]


def forged(value, *more):
    header, body = b'{"d": [["value", {"g": 14000000}]]}', bytes([10, 0]) * 7_000_000
    return wire.HEAD.pack(wire.MAGIC, len(header), len(body)) + header + body


wire.encode = forged


def place(ops, default, before):
    return None
""",
)
