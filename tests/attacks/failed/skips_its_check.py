"""Calls pytest.skip and unittest's SkipTest when asked, and returns pytest's own outcomes."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import unittest

turn = [0]


def where(tensor):
    turn[0] += 1
    if turn[0] % 2:
        raise unittest.SkipTest("not today")
    import pytest

    pytest.skip("not today", allow_module_level=True)
""",
)
