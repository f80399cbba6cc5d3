"""Answers two exercises rightly, and never ends when it is asked about a third."""

from corpus import answering

EXERCISE = "soonest"
EARNS = {"split": 3.0, "where": 2.0}
submission = answering(
    EXERCISE,
    """
def soonest(tasks, devices, copy):
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
""",
    honest=tuple(EARNS),
)
