"""Answers by bytes that are no frame."""

from corpus import QUESTIONS, answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    QUESTIONS
    + """
import os


def where(tensor):
    for channel in channels():
        channel.sendall(os.urandom(100_000))
""",
)
