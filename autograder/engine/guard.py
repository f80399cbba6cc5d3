"""A look at the class as a whole before its marks are recorded: what happens to most is seldom the students' doing.

Verdicts come back one after the other, and who ends the grader must not lose an hour. So the first fifth of them (five at
least) is held back and looked at. Then a verdict is recorded as it comes, but for those that make the class odd: they wait
until all are back, or until there are so many that the run is stopped.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from autograder.gradebook.record import Recorder
from autograder.job import check, clocks
from autograder.model.amounts import are, some
from autograder.model.course import Chapter, CourseError
from autograder.model.verdict import Result, Verdict
from autograder.submissions import unanswered
from autograder.submissions.intake import Submission

FEW = 5  # of fewer nothing is said
LIMITED = 1 / 5  # more than this share of a class that stops at one limit is odd
MOST = 1 / 2
ON = "`--anyway` goes on"

Points = Mapping[str, float]  # by exercise


class OddClassError(CourseError):
    """A class is so odd that somebody has to look before it is recorded: what is odd, and how to go on."""


def check_times(read: Sequence[Submission], recorder: Recorder, streamed: Collection[str]) -> None:
    """Raise OddClassError where all were handed in late, or some by `streamed` times, and that is not recorded of each."""
    its = [each for each in read if each.student in streamed and recorder.late(each.student, each.timestamp)]
    if its and not all(recorder.timed(each.student, each.timestamp) for each in its):
        raise OddClassError(
            f"{len(its)} {are(len(its))} late by times that only grow from file to file, {its[0].student} for one: "
            f"a download's, or a copy's. Say when each handed in, by --handed-in, or drop --due. Nobody was recorded; {ON}"
        )
    timed = [each for each in read if each.timestamp and not each.nothing]
    late = [recorder.late(each.student, each.timestamp) for each in timed]
    if len(late) >= FEW and all(late) and not all(recorder.timed(each.student, each.timestamp) for each in timed):
        raise OddClassError(
            f"all {len(late)} submissions that have a time are late: is that the time of a download, or --due another year's? "
            f"Nobody was recorded; {ON}"
        )


def check_blanks(read: Sequence[Submission], chapter: Chapter) -> None:
    """Raise OddClassError where most notebooks are as they were released."""
    notebooks = [each for each in read if not each.nothing and not each.refused]
    every = {each.name for each in chapter.exercises}
    blank = [each.student for each in notebooks if unanswered.blank(each, chapter) >= every]
    if len(notebooks) >= FEW and len(blank) > MOST * len(notebooks):
        raise OddClassError(
            f"{len(blank)} of {len(notebooks)} notebooks are blank, {blank[0]}'s for one: was the release collected, or an "
            f"export that loses what is in the cells? Nobody was recorded; {ON}"
        )


def recorded(recorder: Recorder, student: str, answers: str) -> Points | None:
    """A student's points as they were graded before, where the answers, by digest, are as they were."""
    verdict = recorder.verdict(student)
    if verdict is None or verdict.evidence.parts.get("answers") != answers:
        return None
    return {mark.exercise: mark.points for mark in verdict.marks}


class Guard:
    """Takes the verdicts of a run and has them written; see above. A context manager: leaving it writes what was held back.

    When something else ends the run, what is odd is not written, and so is graded again.
    """

    def __init__(self, students: int, before: Mapping[str, Points], write: Callable[..., object], off: bool) -> None:
        """`students` are to be graded; of some their points `before`; `write` takes what `add` is given."""
        self._students = students
        self._before = before
        self._write = write
        self._off = off or students < FEW
        self._first = max(FEW, math.ceil(LIMITED * students))
        self._seen = self._written = 0
        self._held: list[tuple[bool, tuple[Any, ...]]] = []  # odd, what is written
        self._stopped: Counter[str] = Counter()  # by limit
        self._changed: Counter[str] = Counter()  # by exercise

    def add(self, verdict: Verdict, *more: object) -> None:
        """Take one. Raises OddClassError."""
        if self._off:
            self._write(verdict, *more)
            return
        limits = _limits(verdict)
        then = self._before.get(verdict.student)
        changed = [] if then is None else [m.exercise for m in verdict.marks if then.get(m.exercise) != m.points]
        self._stopped.update(limits)
        self._changed.update(changed)
        self._seen += 1
        self._held.append((bool(limits or changed), (verdict, *more)))
        self._look()
        if self._seen >= self._first:
            self._flush()

    def _look(self) -> None:
        for limit, count in self._stopped.items():
            if count > LIMITED * self._students:
                raise OddClassError(
                    f"{count} of {self._students} stopped at one limit, {limit}, {self._seen - count} of {self._seen} did not: "
                    f"is this machine busy (run again), or is the limit too low for right answers? {self._kept()}"
                )
        for exercise, count in self._changed.items():
            if len(self._before) >= FEW and count > MOST * len(self._before):
                raise OddClassError(
                    f"`{exercise}`: {count} of {len(self._before)} whose answers are as they were get other points than at the "
                    f"last run: see them with --dry-run. {self._kept()}"
                )

    def _kept(self) -> str:
        others = f"{some(self._written, 'other')} {'was' if self._written == 1 else 'were'}"
        return f"{others if self._written else 'Nobody was'} recorded; {ON}"

    def _flush(self, odd: bool = False) -> None:
        """Write what was held back: what is `odd`, too, or the rest."""
        held, self._held = self._held, []
        for number, (is_odd, each) in enumerate(held):
            if is_odd and not odd:
                self._held.append((is_odd, each))
                continue
            self._written += 1
            try:
                self._write(*each)
            except BaseException:
                self._held += held[number + 1 :]
                raise

    def __enter__(self) -> Guard:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None:
            self._flush(odd=True)
        elif not isinstance(error, OddClassError):
            with contextlib.suppress(Exception):  # the first error is the one to tell
                self._flush()


def _limits(verdict: Verdict) -> set[str]:
    """The limits that a submission has reached."""
    found = {each.limit for each in verdict.evidence.halts if each.limit}
    if any(each.kind.startswith(check.SLOW) for each in verdict.evidence.outcomes):
        found.add("question_seconds")
    if not found and any(mark.result is Result.TIMEOUT for mark in verdict.marks):
        found.add(clocks.NOTEBOOK)
    return found
