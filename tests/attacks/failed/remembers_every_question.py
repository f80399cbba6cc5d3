"""Keeps every input it ever got, and answers by what fitted an earlier question."""

from corpus import answering

EXERCISE = "soonest"
submission = answering(
    EXERCISE,
    """
import itertools

KEPT = []


def soonest(tasks, devices, copy):
    KEPT.append([task.name for task in tasks])
    number = len(KEPT)
    turns = itertools.cycle(devices[number % len(devices) :] + devices[: number % len(devices)])
    return {task.name: next(turns) for task in tasks}
""",
)
