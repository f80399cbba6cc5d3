"""One submission executed and asked: a kernel after the other, until every exercise was looked at or time is up.

A kernel that a cell kills, hangs or floods is given up, and the next one goes without that cell; one that is lost when asked
about an exercise is given up, and the next one is asked about the others. This is the worker's side: it holds kernels, boxes
and clocks, and reads nothing that a student's process has sent but what a driver or a checker made of it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import nbformat
from nbformat import NotebookNode

from autograder.job import assemble, check, clocks, drive, judge, messages, stages, stops
from autograder.job.kernel_process import KernelProcess, StartError
from autograder.model import recorded_notebook
from autograder.model.limits import Limits
from autograder.model.rubric import Rubric
from autograder.model.verdict import Evidence, Halt, Lost, Mark, Outcome, Stop
from autograder.submissions import added_cells
from autograder.submissions.intake import Submission


@dataclass(frozen=True)
class Place:
    """Where a session finds what it needs on this machine."""

    student: str  # sockets of the warm servers that it asks for processes
    checker: str
    driver: str
    private: tuple[str, ...] = ()  # folders of the course that no box shows


@dataclass(frozen=True)
class Graded:
    """What became of a submission."""

    marks: tuple[Mark, ...]
    notebook: dict[str, Any]  # as executed: nbformat 4 JSON
    notes: tuple[str, ...]
    evidence: Evidence


class Session:
    """Grades one submission by `run`. Raises what is this machine's fault: StartError, CheckerError, SandboxError ..."""

    def __init__(
        self,
        submission: Submission,
        rubric: Rubric,
        seed: int,
        place: Place,
        name: str,
        cards: Mapping[str, Any],
        only: tuple[str, ...] = (),  # exercises that are asked about; empty: all
        until: float | None = None,  # time.monotonic: what earlier sessions have left of its time
        reference: clocks.Reference | None = None,  # is asked where a limit of time is reached
    ) -> None:
        """`name` begins the names of its boxes; `cards`, of a lease, come into them: see `KernelProcess`."""
        self.submission = submission
        self.rubric = rubric
        self.seed = seed
        self.place = place
        self.name = name
        self.cards = cards
        self.only = only
        self.chapter = rubric.chapter
        self.clocks = clocks.Clocks(rubric.chapter.limits, until)
        self.reference = reference
        self.blank = assemble.blank(submission, self.chapter)
        # what is left as released may pass nbgrader's own test cells; what was not handed in is not asked
        self.settled = {name for name in self.blank if submission.nothing or not rubric.weak(name)}
        self.stages = stages.Stages.of(submission, rubric)
        self.executed = False  # the whole notebook was, to its end
        self.seen = judge.Seen()
        self.notes: list[str] = []
        self.kept_by = ""  # of the last life: all are alike
        self.halts: list[Halt] = []
        self.lives = 0
        self.seconds = {"start": 0.0, "cells": 0.0, "questions": 0.0}
        self.whole = until is None  # it has all of a submission's time
        self.notebook: NotebookNode | None = None
        self.slow: set[str] = set()  # exercises whose check was given up
        self.doubted: set[str] = set()  # what was given another life for: each thing once
        # exercise and test -> how it failed, in whichever life: who learns by the next question that a guess was wrong, and
        # ends the kernel, is asked the same again in another life
        self.failed: dict[tuple[str, str], Outcome] = {}

    def run(self) -> Graded:
        """Execute and ask, reviving the kernel without the cell that killed it."""
        most = 1 + self.limits.revivals + 4  # for doubts
        for life in range(most + len(self.stages.ends)):
            if self._live(f"{self.name}{life}") and not self._more_time():
                break
        marks = judge.judge(self.rubric, self.submission, self.blank, self.seen)
        assert self.notebook is not None
        stops.explain(self.notebook, self.seen.stops)
        most = max(self.lives, 1 + self.limits.revivals)
        evidence = Evidence(
            tuple(self.seen.outcomes), tuple(self.halts), self.lives, most, self.seconds, kept_by=self.kept_by
        )
        return Graded(marks, self.notebook, tuple(self.notes), evidence)

    def left(self) -> list[str]:
        """The exercises that can still be asked about, in order."""
        ended = {(outcome.exercise, outcome.test) for outcome in self.seen.outcomes}
        whole = {each.name for each in self.chapter.exercises} - {
            test.exercise for test in self.rubric.tests if (test.exercise, test.name) not in ended
        }
        done = self.settled | self.seen.lost.keys() | whole | self.slow
        out = []
        for exercise in self.chapter.exercises:
            gone = any(a in self.seen.stops or a in self.submission.invalid for a in exercise.answer_ids)
            if not (exercise.manual or exercise.name in done or gone) and (not self.only or exercise.name in self.only):
                out.append(exercise.name)
        return out

    def _live(self, name: str) -> bool:
        """One life of a kernel: execute, ask. Whether there is nothing left to do."""
        notebook = assemble.assemble(self.submission, self.chapter)
        for cell in notebook.cells:
            if stops.answer(cell) in self.seen.stops:
                cell.metadata["tags"] = [*cell.metadata.get("tags", []), assemble.SKIP]
        if self.notebook is None:
            self.notebook = notebook
        left = self.left()
        if not left:
            return True
        end, asked = self.stages.next(left, self.executed)
        for cell in () if end is None else notebook.cells[end:]:
            if cell.cell_type == "code":
                cell.metadata["tags"] = [*cell.metadata.get("tags", []), assemble.SKIP]
        self.lives += 1
        with self._timed("start"):
            kernel = KernelProcess(
                self.place.student,
                name,
                self.limits,
                self.rubric.sandboxed,
                self.cards,
                self.place.private,
                self.chapter.files,
            )
        self.kept_by = kernel.box.kept_by
        try:
            with self._timed("start"):
                kernel.ready()
            self.clocks.lives(kernel)
            with self._timed("cells"):
                boxed = (self.place.driver, f"{name}d", self.rubric.sandboxed, self.place.private)
                executed = drive.execute(notebook, kernel, self.clocks, *boxed, lambda: self._once("driver"))
            if executed is None:
                self.notes.append("the driver was killed from outside")
                return self._over()
            if end is None:
                self._take(notebook, executed)
            if executed.stopped is not None:
                return self._stopped(kernel, notebook, executed)
            self.executed = True
            if not asked:
                return self._over()
            with self._timed("questions"):
                return self._ask(kernel, f"{name}c", asked, notebook)
        finally:
            kernel.close()

    def _take(self, notebook: NotebookNode, executed: messages.Executed) -> None:
        """Keep the outputs, and the errors of answers."""
        ran = [assemble.is_executed(cell) for cell in notebook.cells[: executed.cell + 1]]
        heard: list[dict[str, Any]] = [{"outputs": outputs} for outputs in executed.outputs]
        for cell, count in zip(heard, ran, strict=False):
            cell["execution_count"] = 1 if count else None
        made = nbformat.from_dict(recorded_notebook.rebuilt(notebook, {"cells": heard}))
        assert isinstance(made, NotebookNode)
        self.notebook = made
        for cell in made.cells:
            answer = stops.answer(cell)
            for output in cell.get("outputs", []):
                if answer and output.get("output_type") == "error":
                    self.seen.errors[answer] = f"{output.get('ename')}: {output.get('evalue')}"[:400]

    @contextlib.contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds[step] += time.monotonic() - started

    def _halt(self, stop: Stop, note: str, cell: str = "", exercise: str = "") -> None:
        """Keep how this life ended, with the limit that it reached."""
        limit = (stops.ASKED_LIMITS if exercise else stops.CELL_LIMITS).get(stop, "")
        if stop is Stop.TIMEOUT and self.clocks.late():
            limit = clocks.NOTEBOOK
        value = float(getattr(self.limits, limit)) if limit else 0.0
        self.halts.append(Halt(stop, cell, exercise, self.lives, limit, value, note))

    def _doubt(self, kernel: KernelProcess) -> bool:
        """Whether the kernel's death may be nobody's in it: then it is given another life, once, and no cell is blamed.

        A SIGKILL from outside looks like `os.kill(os.getpid(), 9)`; but the student's comes again. Raises StartError
        when it was this machine for certain.
        """
        if why := kernel.outside():
            raise StartError(why)
        return kernel.killed() and self._once("killed")

    def _late(self, kernel: KernelProcess | None, limit: str, exercises: Sequence[str]) -> bool:
        """Whether what reached a limit of time gets another life. Raises clocks.BusyError where nobody's answer was at fault.

        The kernel ends first: nothing that it started takes the processors from the reference.
        """
        if self.clocks.late():
            limit = clocks.NOTEBOOK
            self.doubted.add(limit)
        waited = 0.0
        if kernel is not None:
            waited = self.clocks.starved(kernel)
            kernel.close()
        what = f"{' and '.join(exercises) or 'the notebook'}: {limit}"
        with self.clocks.stopped():
            if self.reference is not None and self.reference.slow(limit, tuple(exercises)):
                raise clocks.BusyError.at(f"{what}: the reference is as slow")
        if waited and self._once("starved"):
            return self._again(f"{clocks.WAITED}: its kernel waited {waited:.0f} s for a processor")
        if self.reference is None:
            return False
        its_own = limit != clocks.NOTEBOOK and self._is_reference(
            exercises
        )  # other cells may have taken the notebook's time
        if its_own and self._once(f"the same: {exercises}"):
            return self._again(f"{clocks.WAITED}? {what} was reached by the reference's own text, which is asked again")
        every = [each.name for each in self.chapter.exercises if not each.manual]
        if self._is_reference(every) and not self.submission.added:
            raise clocks.BusyError.at(f"{what}: it is the reference")
        return False

    def _is_reference(self, exercises: Sequence[str]) -> bool:
        """Whether the answers of these exercises are the chapter's own, word for word."""
        assert self.reference is not None
        cells = [cell for each in exercises for cell in self.rubric.exercise(each).answer_ids]
        given, own = self.submission.answers, self.reference.answers
        return bool(cells) and all(given.get(cell, "").strip() == own.get(cell, "").strip() for cell in cells)

    def _again(self, note: str) -> bool:
        """Give another life, with twice the time."""
        self.notes.append(note)
        self.clocks.more()
        self.rubric = replace(self.rubric, chapter=replace(self.chapter, limits=self.limits))
        return True

    def _more_time(self) -> bool:
        """Whether a submission whose time was up before all was asked gets more of it: see `_late`."""
        asked = clocks.NOTEBOOK in self.doubted or not (self.seen.out_of_time and self.whole and self.left())
        return not asked and self._late(None, clocks.NOTEBOOK, ())

    @property
    def limits(self) -> Limits:
        """Those of this life."""
        return self.clocks.limits

    def _once(self, why: str) -> bool:
        """Whether it is the first time, in this submission, that `why` counts in its favour."""
        first = why not in self.doubted
        self.doubted.add(why)
        return first

    def _stopped(self, kernel: KernelProcess, notebook: NotebookNode, executed: messages.Executed) -> bool:
        assert executed.stopped is not None
        if executed.stopped is Stop.CRASHED and self._doubt(kernel):
            return self._over()
        before = [stops.answer(cell) for cell in notebook.cells[: executed.cell + 1]]
        theirs = {*self.submission.answers, *added_cells.names(self.submission.added)}
        guilty = [a for a in before if a and a not in self.seen.stops and a in theirs]
        of = [each.name for each in self.chapter.exercises if guilty and guilty[-1] in each.answer_ids]
        if executed.stopped is Stop.TIMEOUT and self._late(kernel, "cell_seconds", of):
            return self._over()
        self.notes.append(f'cell "{guilty[-1] if guilty else executed.cell}": {executed.stopped}, {executed.note}')
        if not guilty and executed.stopped is Stop.TIMEOUT and (self.lives > 1 or not self.whole) and self._over():
            return True  # what was left of its time, when its earlier lives had ended, was too little for our own cells
        if not guilty:
            raise StartError(f"a cell of the release ended the kernel: {executed.note}")
        self._halt(executed.stopped, executed.note, cell=guilty[-1])
        self.seen.stops[guilty[-1]] = executed.stopped
        return self._over()

    def _hears(self, kernel: KernelProcess, message: messages.FromChecker) -> None:
        self.clocks.turns("question_seconds")
        if isinstance(message, messages.Asks):
            self.clocks.begins(kernel)

    def _ask(self, kernel: KernelProcess, name: str, asked: list[str], notebook: NotebookNode) -> bool:
        self.clocks.turns()
        answers = check.ask(
            self.place.checker,
            name,
            kernel.asked(notebook.cells),
            self.rubric,
            [*asked, *(set(stages.helpers(asked, self.rubric.tests, notebook)) - self.seen.lost.keys())],
            self.seed,
            self.clocks.until,
            self.place.private,
            lambda message: self._hears(kernel, message),
            self.stages.keep,
        )
        if answers.exercise and answers.exercise not in asked:  # what was only run for what it binds
            answers = replace(answers, exercise=stages.resting(answers.exercise, asked, self.rubric.tests, notebook))
        more = answers.slow and self._late(kernel, "question_seconds", [answers.slow])
        counted = [o for o in answers.outcomes if o.exercise in asked and not (more and o.kind.startswith(check.SLOW))]
        answers = replace(answers, outcomes=tuple(counted), exercise=answers.slow if more else answers.exercise)
        for outcome in answers.outcomes:
            if not outcome.passed:
                self.failed.setdefault((outcome.exercise, outcome.test), outcome)
        found = [self.failed.get((each.exercise, each.test), each) for each in answers.outcomes]
        again = {each.exercise for each in found}  # from their first test on, if not for the first time
        kept = [outcome for outcome in self.seen.outcomes if outcome.exercise not in again]
        self.seen.outcomes = kept + [each for each in found if each.exercise != answers.exercise]
        self.notes += [f"{o.exercise}, {o.test}: the check broke: {o.kind}" for o in answers.outcomes if o.broke]
        if refused := kernel.forks_refused():
            self.notes.append(f"a process or thread was refused {refused} times: it had {self.limits.pids}")
        if answers.slow:
            if not more:  # its other tests would be as slow, or wait behind it
                self.slow.add(answers.slow)
            return self._over()
        if answers.lost is None:
            return self._over() if self.stages.ends and self.left() else True
        if answers.outside and self._once("checker"):  # at the second time it is something that the submission does
            return self._over()
        if answers.lost in (Lost.DIED, Lost.PROTOCOL) and self._doubt(kernel):
            return self._over()
        stop = Stop.MEMORY if kernel.out_of_memory() else stops.LOST[answers.lost]
        if stop is Stop.TIMEOUT and self._late(kernel, "question_seconds", [answers.exercise]):
            return self._over()
        self._halt(stop, answers.note, exercise=answers.exercise)
        self.seen.lost[answers.exercise] = stop
        self.notes.append(f"asked about {answers.exercise}: {answers.lost}, {answers.note}")
        return self._over()

    def _over(self) -> bool:
        """Whether the submission's time is up."""
        self.seen.out_of_time = self.clocks.late()
        return self.seen.out_of_time
