"""Answers by frames whose headers lie about lengths, shapes, types and order."""

from corpus import QUESTIONS, answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    QUESTIONS
    + """
import json
import struct

turn = [0]
HEADERS = (
    {"a": ["float64", [1 << 40]]},
    {"a": ["float64", [-1, -1]]},
    {"a": ["object", [1]]},
    {"d": [["value", {"a": ["float64", [1 << 62, 1 << 62, 0]]}]]},
    {"d": [["value", True], ["value", True]]},
    {"__class__": "str", "d": {"value": True}},
)


def where(tensor):
    header = json.dumps(HEADERS[turn[0] % len(HEADERS)]).encode()
    turn[0] += 1
    for channel in channels():
        channel.send(struct.pack("!4sII", b"ASK1", len(header), 8) + header + bytes(8))
""",
)
