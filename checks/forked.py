"""An answer in a fork of a peer: a process that nothing of the student's prepared, and that the peer sees from outside.

What the peer is, its forks are: of TensorFlow they have run nothing, and no student's code, until one is handed an answer,
pickled. What a fork says from then on is the student's word. Evidence is what it could not have been told: the number of its
threads, which the peer counts, and the sizes of pools that a fork drew for itself, which it has nowhere but in TensorFlow.

Nothing in it was copied before, either: where an answer is to do by itself what TensorFlow does, its fork refuses that
(`UNAIDED`), and the system refuses it threads, processes and sockets, by which others would do it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from autograder.probe import asking
from autograder.probe.asking import kept, probe

SECONDS = 5.0  # for threads to have their names: only who has other threads waits so long
UNAIDED = [  # the library's functions for TensorFlow's order and its optimizer, and what TensorFlow itself does them by
    "across.timeline:run_order",
    "across.graphs:from_edges",
    "across.graphs:simplified",
    "tensorflow.python.client._pywrap_tf_session:TF_SessionRun_wrapper",
    "tensorflow.python.client.pywrap_tf_session:TF_SessionRun_wrapper",
    "tensorflow.python.grappler._pywrap_tf_optimizer:TF_OptimizeGraphSerialized",
]
DRAWN, DEFAULT = "drawn", "default"  # the sizes with which TensorFlow has started in a fork; "" where it has not


def refuse(functions, says):
    """Have these functions (module:name) raise RuntimeError(says), and the system refuse what would run them elsewhere."""
    import contextlib
    import ctypes
    import errno
    import importlib
    import os
    import platform
    import struct

    from across._process import pristine
    from autograder.sandbox import seccomp

    scope: dict = {}
    exec(f"def refused(*args, **kwargs): raise RuntimeError({says!r})", scope)
    for each in functions:
        name, _, function = each.partition(":")
        module = importlib.import_module(name)
        if hasattr(getattr(module, function), "__code__"):
            getattr(module, function).__code__ = scope["refused"].__code__
        else:
            setattr(module, function, scope["refused"])
    # prints are taken out, as elsewhere
    vars(importlib.import_module("tensorflow"))["print"] = lambda *args, **kwargs: None
    with contextlib.suppress(OSError):  # the server beside the peer, which would start a process
        os.unlink(os.environ.pop(pristine.ADDRESS, "").partition(os.pathsep)[0])
    # socket, clone, execve, execveat, clone3, fork, vfork: no thread, no process, nobody to ask over the box's network
    calls = {"x86_64": (41, 56, 59, 322, 435, 57, 58), "aarch64": (198, 220, 221, 281, 435)}[platform.machine()]
    denied = (seccomp.RETURN, 0, 0, seccomp.ERRNO | errno.EPERM)
    steps = [step for call in calls for step in ((seccomp.EQUAL, 0, 1, call), denied)]
    steps = [(seccomp.LOAD, 0, 0, seccomp.NUMBER), *steps, (seccomp.RETURN, 0, 0, seccomp.ALLOW)]
    ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    seccomp.install(b"".join(struct.pack("=HBBI", *step) for step in steps))


def become(channel, start, unaided, says):
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
    if unaided:
        refuse(unaided, says)
    wire.send(channel, wire.encode(sizes), time.monotonic() + 60)
    del sizes  # they are in TensorFlow now, and nowhere else
    answering.serve_alone(channel, {})


@probe(uses=[refuse, become])
def forked(peer, start, unaided, says):
    """Fork: the number of the fork, and the sizes that it drew."""
    import os
    import socket
    import time

    from autograder.probe import wire

    ours, theirs = socket.socketpair()
    pid = os.fork()
    if not pid:
        try:
            become(theirs, start, unaided, says)
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

    def __init__(self, peer: Any, start: str = "", unaided: str = "") -> None:
        """`unaided`: what who runs TensorFlow there is told, for an answer that does without; else it may be run."""
        self._peer, self._unaided = peer, unaided
        refused = UNAIDED if unaided else []
        self._number, self.sizes = peer.ask(forked, start=start, unaided=refused, says=unaided)
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
        why = f": {self._unaided}, and there it may start no thread and no process" if self._unaided else ""
        assert answer is not None, f"The process in which your code ran has ended without an answer{why}."
        return answer


def pickled(student: Any, name: str) -> bytes:
    """The answer `name` with all that it uses of the notebook, for a `Fork`. Raises Refused."""
    answer = student.ask(packed, name=name)
    assert isinstance(answer, bytes), f"`{name}` cannot be taken to another process."
    return answer
