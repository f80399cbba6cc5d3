"""An answer in a fork of a peer: a process that nothing of the student's prepared, and that the peer sees from outside.

What the peer is, its forks are: of TensorFlow they have run nothing, and no student's code, until one is handed an answer,
pickled. What a fork says from then on is the student's word. Evidence is what it could not have been told: the number of its
threads, which the peer counts, and the sizes of pools that a fork drew for itself, which it has nowhere but in TensorFlow.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from autograder.probe import asking
from autograder.probe.asking import kept, probe

SECONDS = 5.0  # for threads to have their names: only who has other threads waits so long
DRAWN, DEFAULT = "drawn", "default"  # the sizes with which TensorFlow has started in a fork; "" where it has not


def become(channel, start):
    """Be a fork that holds nothing but `channel`: start TensorFlow, if asked to, say with which sizes, and answer."""
    import contextlib
    import os
    import random
    import time

    from autograder.probe import answering, wire

    null = os.open(os.devnull, os.O_RDWR)
    for each in (0, 1, 2):
        os.dup2(null, each)
    for each in map(int, os.listdir("/proc/self/fd")):
        if each > 2 and each != channel.fileno():
            with contextlib.suppress(OSError):
                os.close(each)
    sizes = random.SystemRandom().sample(range(3, 12), 2) if start == "drawn" else [0, 0]
    if start == "drawn":
        tf.config.threading.set_inter_op_parallelism_threads(sizes[0])
        tf.config.threading.set_intra_op_parallelism_threads(sizes[1])
    if start:
        tf.constant(1.0)
    wire.send(channel, wire.encode(sizes), time.monotonic() + 60)
    del sizes  # they are in TensorFlow now, and nowhere else
    answering.serve_alone(channel, {})


@probe(uses=[become])
def forked(peer, start):
    """Fork: the number of the fork, and the sizes that it drew."""
    import os
    import socket
    import time

    from autograder.probe import wire

    ours, theirs = socket.socketpair()
    pid = os.fork()
    if not pid:
        try:
            become(theirs, start)
        finally:
            os._exit(0)
    theirs.close()
    forks = kept.setdefault("forks", [])
    forks.append((pid, ours))
    return len(forks) - 1, wire.receive(ours, time.monotonic() + 60, 1 << 10)


@probe
def relayed(peer, number, frame, seconds, cap):
    """What a fork answers to a question; None where it has ended."""
    import time

    from autograder.probe import wire

    _, channel = kept["forks"][number]
    try:
        wire.send(channel, frame, time.monotonic() + seconds)
        return wire.receive(channel, time.monotonic() + seconds, cap)
    except wire.WireError:
        return None


@probe
def threads(peer, number, wanted, seconds):
    """How many threads a fork has for ops, and how many more that are not TensorFlow's by name: those for pieces of ops.

    As the system tells it, asked again for so many seconds until it is what is `wanted`: a thread gets its name as it begins.
    """
    import os
    import time
    from collections import Counter

    pid, _ = kept["forks"][number]
    until = time.monotonic() + seconds
    while True:
        names = Counter()
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/comm") as file:
                    names[file.read().strip()] += 1
        except OSError:  # one that has ended
            names = Counter()
        others = sum(count for name, count in names.items() if not name.startswith("tf_"))
        found = [names["tf_Compute"], max(0, others - 1)]  # without the first, which runs Python
        if found == list(wanted) or time.monotonic() > until:
            return found
        time.sleep(0.02)


@probe
def packed(student, name):
    from across import fresh

    return fresh.pickled_call(name, getattr(student, name))


@probe
def answers_of(student, answer, cases):
    import pickle

    work = pickle.loads(answer)
    return [work(*case) for case in cases]


@probe
def begun(student):
    tf.constant(1.0)


class Fork:
    """A fork of `peer`, in which TensorFlow has started with the sizes `DRAWN` or `DEFAULT`, or has not started."""

    def __init__(self, peer: Any, start: str = "") -> None:
        self._peer = peer
        self._number, self.sizes = peer.ask(forked, start=start)
        self._asked = asking.Student(self._channel)

    def call(self, answer: bytes, cases: Sequence[Sequence[Any]]) -> Any:
        """The list of what `answer`, that was `pickled`, returns for each of the cases. Raises Refused."""
        return self._asked.ask(answers_of, answer=answer, cases=[list(case) for case in cases])

    def begin(self) -> None:
        """Have TensorFlow start there. Raises Refused."""
        self._asked.ask(begun)

    def threads(self, wanted: Sequence[int], seconds: float = SECONDS) -> list[int]:
        """How many threads it has for ops and for pieces of ops, as the peer counts them; waits for what is `wanted`."""
        return self._peer.ask(threads, number=self._number, wanted=wanted, seconds=seconds)

    def _channel(self, frame: bytes, until: float, cap: int, graphs: int) -> Any:
        # The peer waits for longer than we do: it is our deadline that counts, with all that is done about one.
        seconds = 2 * max(1.0, until - time.monotonic())
        answer = self._peer.ask(relayed, number=self._number, frame=frame, seconds=seconds, cap=cap)
        assert answer is not None, "The process in which your code ran has ended without an answer."
        return answer


def pickled(student: Any, name: str) -> bytes:
    """The answer `name` with all that it uses of the notebook, for a `Fork`. Raises Refused."""
    answer = student.ask(packed, name=name)
    assert isinstance(answer, bytes), f"`{name}` cannot be taken to another process."
    return answer
