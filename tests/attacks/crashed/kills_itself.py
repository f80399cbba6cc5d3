"""Answers one exercise rightly and then kills the kernel."""

from corpus import at_each_test

EXERCISE = "place"
EARNS = {"where": 2.0}
EACH = at_each_test(
    EXERCISE,
    """
    import os
    import signal

    os.kill(os.getpid(), signal.SIGKILL)
    """,
    honest=tuple(EARNS),
)
