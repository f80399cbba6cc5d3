"""Asking a student's kernel: has the chapter's checks run in a trusted process and collects what each of them found."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from across._process import warm
from autograder.job import messages
from autograder.job.kernel_process import KernelProcess
from autograder.job.peers import KILLED
from autograder.model.rubric import Rubric
from autograder.model.verdict import Lost, Outcome
from autograder.sandbox import boxes

PATIENCE = 3  # questions' time that a test may take: what it runs in its own process, it runs on student's data
SLOW = "SlowCheck"  # the kind of an outcome whose test was given up


class CheckerError(RuntimeError):
    """The trusted process did not start, or was killed from outside: nobody's answer is to blame."""


@dataclass(frozen=True)
class Answers:
    """The outcomes of one life of a kernel, and at which test it or its checker was lost, if it was."""

    outcomes: tuple[Outcome, ...]  # of every test that ended
    lost: Lost | None = None
    exercise: str = ""  # whose test ran then
    note: str = ""  # which one, and what came
    outside: bool = False  # the checker was killed, by nothing that we know of
    slow: str = ""  # the exercise of a test that did not end of itself: its author's fault


def ask(
    server: str,
    name: str,
    kernel: KernelProcess,
    rubric: Rubric,
    only: Collection[str],
    seed: int,
    until: float,
    hidden: Sequence[str],
    on_message: Callable[[messages.FromChecker], object],
    keep: Mapping[str, Sequence[str]],
) -> Answers:
    """Have the checker at `server` ask the `kernel`, and processes beside it, about the exercises `only`.

    `name` is the checker's box, which does not show the folders `hidden`. It ends at
    `until` (time.monotonic), at the latest. `on_message` is called with all that it says. `keep` has the names, by the
    grade id of a test cell, that this one must leave as they were. Raises CheckerError, SandboxError.
    """
    limits = rubric.chapter.limits
    numbers = [number for number, test in enumerate(rubric.tests) if test.exercise in only]
    checker = rubric.chapter.checker
    caps = (checker.memory_bytes, checker.pids, checker.file_bytes, checker.tmp_bytes, checker.cpu_seconds)
    with boxes.Box(name, boxes.Caps(*caps), rubric.sandboxed, hidden=hidden) as box:
        deadline = min(limits.question_seconds, max(1.0, until - time.monotonic()))
        request = messages.RunTests(
            box=box.request(),
            tests=numbers,
            seed=seed,
            cap=limits.reply_bytes,
            deadline=deadline,
            allowed_ops=list(rubric.chapter.allowed_ops),
            gpus=rubric.chapter.gpus,
            keep={cell: list(names) for cell, names in keep.items()},
        )
        patience = PATIENCE * limits.question_seconds
        ours, theirs = socket.socketpair()
        with ours, warm.request(server, messages.sent(request), [kernel.questions.fileno(), theirs.fileno()]) as child:
            theirs.close()
            heard = _Heard(rubric, numbers)
            try:
                while (message := child.receive(max(0.01, min(patience, until - time.monotonic())))) is not None:
                    heard.add(said := messages.received(message, messages.FromChecker))
                    on_message(said)
                    if isinstance(said, messages.Wants):
                        _hand_over(said.kind, kernel, ours)
            except TimeoutError:
                if heard.computes and time.monotonic() < until:
                    return heard.slow(patience)
                return heard.ended(Lost.DEADLINE, "a check did not end in time")
            except (messages.MessageError, ValueError):
                return heard.ended(Lost.PROTOCOL, "what came confused the checker")
            code = child.returncode or 0
            killed = child.lost or (code in KILLED and not box.out_of_memory())
    if heard.lost is not None:
        return heard.ended(heard.lost, heard.note)
    if code == 0 and not heard.left:
        return Answers(tuple(heard.outcomes))
    if heard.running is None and not heard.outcomes and kernel.alive():
        raise CheckerError(f"the checker ended with code {code} before it had begun to ask")
    note = "the checker was killed from outside" if killed else f"what came ended the checker (code {code})"
    return heard.ended(Lost.PROTOCOL, note, outside=killed)


def _hand_over(kind: str, kernel: KernelProcess, to: socket.socket) -> None:
    """Send the checker a new process's socket. Raises CheckerError where it cannot be had: this machine's fault, or ours."""
    try:
        with kernel.beside.start(kind) as made:
            socket.send_fds(to, [b"R"], [made.fileno()])
    except (ValueError, warm.ServerError) as error:
        raise CheckerError(f"no {kind}: {error}") from None


class _Heard:
    """What a checker has said so far. It reads what students send: nothing that it says is taken for more than it is."""

    def __init__(self, rubric: Rubric, numbers: list[int]) -> None:
        self._tests = rubric.tests
        self.left = list(numbers)  # tests that have not ended
        self.running: int | None = None  # the test that has begun and not ended
        self.outcomes: list[Outcome] = []
        self.lost: Lost | None = None
        self.note = ""
        self.graph = False  # a graph of the student's is in the test that runs
        self.computes = False  # the check itself, on nothing but plain values: it does not wait for the student

    def add(self, message: messages.FromChecker) -> None:
        """Take one message. Raises messages.MessageError for a test that was not to be run."""
        if isinstance(message, messages.Wants):
            self.computes = False
            return
        if isinstance(message, messages.Asks | messages.Answered):
            # what is made of a student's graph may take as long as that student likes
            self.graph |= isinstance(message, messages.Answered) and message.graph
            self.computes = isinstance(message, messages.Answered) and not self.graph
            return
        if not 0 <= message.test < len(self._tests):
            raise messages.MessageError(f"there is no test {message.test}")
        if isinstance(message, messages.TestBegins):
            self.running, self.graph, self.computes = message.test, False, True
            return
        test = self._tests[message.test]
        if message.kind in set(Lost):
            self.lost, self.running, self.note = Lost(message.kind), message.test, message.says
            return
        found = (message.passed, test.weight, message.kind, message.says, message.misconception)
        share = min(max(message.share, 0.0), 1.0) if test.in_box else 0.0
        self.outcomes.append(Outcome(test.exercise, test.name, *found, share=share, weak=test.weak))
        self.running, self.computes = None, False
        if message.test in self.left:  # a second word about it comes when what it used was taken down
            self.left.remove(message.test)

    def slow(self, seconds: float) -> Answers:
        """The answers there are, when the test that runs is given up because it computes for so long."""
        assert self.running is not None
        test = self._tests[self.running]
        kind, says = f"{SLOW}: no end within {seconds:g} s", f"Not yet: `{test.exercise}` could not be looked at."
        self.outcomes.append(Outcome(test.exercise, test.name, False, test.weight, kind, says))
        return Answers(tuple(self.outcomes), slow=test.exercise)

    def ended(self, why: Lost, note: str, outside: bool = False) -> Answers:
        """The answers there are, when no more come."""
        number = self.left[0] if self.running is None and self.left else self.running
        test = self._tests[number] if number is not None else None
        if test is None:  # all have ended: nothing was lost
            return Answers(tuple(self.outcomes))
        return Answers(tuple(self.outcomes), why, test.exercise, f"{test.name}: {note}", outside)
