"""Answers with numbers at the edge of all numbers, for which two sides of a comparison may come out alike."""

from corpus import answering

EXERCISE = "soonest"
submission = answering(
    EXERCISE,
    """
class Everything(dict):
    def __contains__(self, key):
        return True


ODD = [5e-324, float("inf"), -0.0, float("nan"), 10**400]


def soonest(tasks, devices, copy):
    return Everything({task.name: ODD[i % len(ODD)] for i, task in enumerate(tasks)})
""",
)
