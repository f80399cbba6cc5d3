"""Replaces the function that answers questions, and the protocol's encoder."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import sys

answering, wire = sys.modules["autograder.probe.answering"], sys.modules["autograder.probe.wire"]
encode = wire.encode
wire.encode = lambda *args: encode({"value": True, "passed": True, "points": 1e9})
answering.reply = lambda *args: encode({"value": True, "outcome": "passed"})


def where(tensor):
    return None
""",
)
