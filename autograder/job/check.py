"""Asking a student's kernel: runs the chapter's checks in a trusted process and collects what each of them found."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from typing import Any

from across._process import warm
from autograder.job.kernel_process import KernelProcess
from autograder.model.course import MIB, Limits
from autograder.model.verdict import Outcome
from autograder.sandbox import boxes

CHECKER = boxes.Caps(memory=2 << 30, pids=512, file=MIB, tmp=MIB, cpu_seconds=600)
PATIENCE = 3  # questions' time that a test may take: what it runs in its own process, it runs on student's data
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)  # the latter: as a box tells it
LOST = frozenset({"deadline", "died", "size", "protocol"})  # after these the kernel is not asked again


class CheckerError(RuntimeError):
    """The trusted process did not start: nobody's answer is to blame."""


@dataclass(frozen=True)
class Answers:
    """The outcomes of one life of a kernel; `lost` names the exercise at which it was lost, if it was."""

    outcomes: tuple[Outcome, ...]
    lost: str = ""
    why: str = ""  # one of LOST
    note: str = ""  # at which test, and what came


def ask(server: str, name: str, kernel: KernelProcess, only: list[str], seed: int, until: float) -> Answers:
    """Have the checker at `server` ask `kernel` about the exercises `only`, until `until` (time.monotonic) at most.

    `name` is the checker's box. Raises CheckerError, SandboxError.
    """
    outcomes: list[Outcome] = []
    limits: Limits = kernel.limits
    with boxes.Box(name, CHECKER, kernel.box.walls) as box:
        message: dict[str, Any] = {"box": box.request(), "only": only, "seed": seed, "cap": limits.reply_bytes}
        message["deadline"] = min(limits.question_seconds, max(1.0, until - time.monotonic()))
        with warm.request(server, message, [kernel.questions.fileno()]) as child:
            try:
                patience = PATIENCE * limits.question_seconds
                while (told := child.receive(max(0.01, min(patience, until - time.monotonic())))) is not None:
                    outcomes.append(_outcome(told))
            except TimeoutError:
                return Answers(tuple(outcomes), _next(only, outcomes), "deadline", "a check did not end in time")
            code, killed = child.returncode, child.lost or (child.returncode in KILLED and not box.out_of_memory())
    if outcomes and outcomes[-1].kind in LOST:
        last = outcomes[-1]
        return Answers(tuple(outcomes[:-1]), last.exercise, last.kind, f"{last.test}: {last.says}")
    if code and killed:
        raise CheckerError("the checker was killed from outside")
    if code:
        if not outcomes and kernel.alive():
            raise CheckerError(f"the checker ended with code {code} before it had asked anything")
        return Answers(tuple(outcomes), _next(only, outcomes), "protocol", "what came killed the checker")
    return Answers(tuple(outcomes))


def _outcome(told: dict[str, Any]) -> Outcome:
    return Outcome(**told)


def _next(only: list[str], outcomes: list[Outcome]) -> str:
    """The exercise that was being asked about when no more outcomes came."""
    if not outcomes:
        return only[0]
    last = outcomes[-1].exercise
    later = only[only.index(last) + 1 :]
    return later[0] if later else last
