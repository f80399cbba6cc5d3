"""One submission executed and asked: a kernel after the other, until every exercise was looked at or time is up.

A kernel that a cell kills, hangs or floods is given up, and the next one goes without that cell; one that is lost when asked
about an exercise is given up, and the next one is asked about the others. This is the worker's side: it holds kernels, boxes
and clocks, and reads nothing that a student's process has sent but what a driver or a checker made of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from across._process import warm
from autograder.job import assemble, check, comparing, judge, messages, stages, stops
from autograder.job.kernel_process import KernelProcess, StartError
from autograder.model import recorded_notebook
from autograder.model.behaviour import NOT_COMPARED, Compared, Seen
from autograder.model.rubric import Rubric
from autograder.model.verdict import Evidence, Halt, Lost, Mark, Outcome, Stop
from autograder.sandbox import boxes, processor
from autograder.submissions import added_cells
from autograder.submissions.intake import Submission

DRIVER = boxes.Caps(1 << 30, 512, messages.EXECUTED, 1 << 20, 600)
LOOK = 0.1  # seconds between two looks at what the processors did for a kernel
GRACE = 15.0  # seconds that a driver may take over what its cell, or its start, is allowed


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
    behaviour: tuple[Seen, ...] = ()  # see `Compared`


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
        compared: Compared = NOT_COMPARED,
        until: float | None = None,  # time.monotonic: what earlier sessions have left of its time
    ) -> None:
        """`name` begins the names of its boxes; `cards`, of a lease, come into them: see `KernelProcess`."""
        self.submission = submission
        self.rubric = rubric
        self.seed = seed
        self.place = place
        self.name = name
        self.cards = cards
        self.compared = compared
        self.behaviour: tuple[Seen, ...] = ()  # on the inputs of the whole class
        self.chapter = rubric.chapter
        self.limits = rubric.chapter.limits
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
        self.until = time.monotonic() + self.limits.notebook_seconds if until is None else until
        self.notebook: NotebookNode | None = None
        self.slow: set[str] = set()  # exercises whose check was given up
        self.doubted: set[str] = set()  # what was given another life for: each thing once
        # exercise and test -> how it failed, in whichever life: who learns by the next question that a guess was wrong, and
        # ends the kernel, is asked the same again in another life
        self.failed: dict[tuple[str, str], Outcome] = {}
        self.loads: list[processor.Load] = []  # as this life's kernel stood, and when its last cell or question began

    def run(self) -> Graded:
        """Execute and ask, reviving the kernel without the cell that killed it."""
        most = 1 + self.limits.revivals + 2  # two for doubts
        for life in range(most + len(self.stages.ends)):
            if self._live(f"{self.name}{life}"):
                break
        marks = judge.judge(self.rubric, self.submission, self.blank, self.seen)
        assert self.notebook is not None
        stops.explain(self.notebook, self.seen.stops)
        most = max(self.lives, 1 + self.limits.revivals)
        evidence = Evidence(
            tuple(self.seen.outcomes), tuple(self.halts), self.lives, most, self.seconds, kept_by=self.kept_by
        )
        return Graded(marks, self.notebook, tuple(self.notes), evidence, self.behaviour)

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
            if not (exercise.manual or exercise.name in done or gone) and self.compared.asks(exercise.name):
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
            self.loads = [kernel.load()]
            with self._timed("cells"):
                executed = self._execute(notebook, kernel, f"{name}d")
            if executed is None:
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

    def _execute(self, notebook: NotebookNode, kernel: KernelProcess, name: str) -> messages.Executed | None:
        """Have a driver execute `notebook` in `kernel`; None if the driver was killed, perhaps by nothing that it heard.

        Raises StartError where neither cell nor answer is to blame.
        """
        with contextlib.ExitStack() as stack:
            box = stack.enter_context(boxes.Box(name, DRIVER, self.rubric.sandboxed, hidden=self.place.private))
            files = [os.memfd_create("notebook"), os.memfd_create("executed"), kernel.open_pid()]
            for fd in files:
                stack.callback(os.close, fd)
            assembled, answer, alive = files
            Path(f"/proc/self/fd/{assembled}").write_bytes(json.dumps(notebook).encode())
            request = messages.Execute(
                box=box.request(),
                connection=kernel.connection,
                cell_seconds=self.limits.cell_seconds,
                output_bytes=self.limits.output_bytes,
                until=self.until,
            )
            descriptors = [assembled, answer, kernel.sockets, alive]
            driver = stack.enter_context(warm.request(self.place.driver, messages.sent(request), descriptors))
            cell = -1
            try:
                while (message := driver.receive(self._patience())) is not None:
                    cell = messages.received(message, messages.CellBegins).cell
                    self._begins(kernel)
            except TimeoutError:  # its loop never turned: what came kept it from looking at the clock
                return self._blamed(notebook, cell, Stop.TIMEOUT, "no end within the time limit")
            except ValueError as error:
                return self._blamed(notebook, cell, Stop.OUTPUT, f"what came confused the driver: {error}")
            if driver.returncode:
                if driver.lost:
                    raise StartError("the warm server of the drivers ended")
                if driver.returncode in check.KILLED and not box.out_of_memory() and self._once("driver"):
                    self.notes.append("the driver was killed from outside")
                    return None
                return self._blamed(notebook, cell, Stop.OUTPUT, "what came ended the process that listened to it")
            if os.stat(answer).st_size > messages.EXECUTED:
                return self._blamed(notebook, cell, Stop.OUTPUT, "more output than there is room for")
            try:
                executed = messages.read(Path(f"/proc/self/fd/{answer}").read_bytes(), messages.Executed)
            except messages.MessageError as error:
                return self._blamed(notebook, cell, Stop.OUTPUT, f"what came confused the driver: {error}")
        if executed.fault:
            raise StartError(executed.fault)
        if kernel.out_of_memory() and executed.stopped in (None, Stop.CRASHED):
            return _but(executed, Stop.MEMORY, "a process was killed for its memory")
        if executed.stopped is Stop.CRASHED and kernel.forks_refused():
            return _but(executed, Stop.PROCESSES, f"{executed.note}; a process or thread was refused before")
        return executed

    def _patience(self) -> float:
        """Seconds to wait for a driver's next word."""
        return max(0.0, min(self.limits.cell_seconds, self.until - time.monotonic())) + GRACE

    def _blamed(self, notebook: NotebookNode, cell: int, stop: Stop, note: str) -> messages.Executed:
        """A notebook of which nothing but its last cell is known. Raises StartError where none had begun."""
        if cell not in range(len(notebook.cells)):
            raise StartError(f"before the first cell began: {note}")
        return messages.Executed(stopped=stop, cell=cell, note=note)

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
        if stop is Stop.TIMEOUT and time.monotonic() > self.until - 1.0:
            limit = "notebook_seconds"
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

    def _begins(self, kernel: KernelProcess) -> None:
        """Note what the kernel has had of the processors when its next cell or question begins, or shortly before.

        To look costs a millisecond, and a submission has forty of them.
        """
        if time.monotonic() - self.loads[-1].at > LOOK:
            self.loads[1:] = [kernel.load()]

    def _starved(self, kernel: KernelProcess) -> bool:
        """Whether what took too long waited for a processor half of that time, and so gets twice the time.

        Once: the machine was busy, and nobody is to lose points by it.
        """
        now = kernel.load()
        before = self.loads[0 if now.at > self.until - 1.0 else -1]  # all of this life was too long, or its last step
        waited = processor.waited(before, now)
        if waited < (now.at - before.at) / 2 or not self._once("starved"):
            return False
        self.notes.append(f"the machine was busy: its kernel waited {waited:.0f} s for a processor")
        more = {name: 2 * getattr(self.limits, name) + 1 for name in ("cell_seconds", "question_seconds")}
        self.until += self.limits.notebook_seconds + 1
        self.limits = replace(self.limits, **more)
        self.rubric = replace(self.rubric, chapter=replace(self.chapter, limits=self.limits))
        return True

    def _once(self, why: str) -> bool:
        """Whether it is the first time, in this submission, that `why` counts in its favour."""
        first = why not in self.doubted
        self.doubted.add(why)
        return first

    def _stopped(self, kernel: KernelProcess, notebook: NotebookNode, executed: messages.Executed) -> bool:
        assert executed.stopped is not None
        if executed.stopped is Stop.CRASHED and self._doubt(kernel):
            return self._over()
        if executed.stopped is Stop.TIMEOUT and self._starved(kernel):
            return self._over()
        before = [stops.answer(cell) for cell in notebook.cells[: executed.cell + 1]]
        theirs = {*self.submission.answers, *added_cells.names(self.submission.added)}
        guilty = [a for a in before if a and a not in self.seen.stops and a in theirs]
        self.notes.append(f'cell "{guilty[-1] if guilty else executed.cell}": {executed.stopped}, {executed.note}')
        if not guilty and executed.stopped is Stop.TIMEOUT and (self.lives > 1 or not self.whole) and self._over():
            return True  # what was left of its time, when its earlier lives had ended, was too little for our own cells
        if not guilty:
            raise StartError(f"a cell of the release ended the kernel: {executed.note}")
        self._halt(executed.stopped, executed.note, cell=guilty[-1])
        self.seen.stops[guilty[-1]] = executed.stopped
        return self._over()

    def _ask(self, kernel: KernelProcess, name: str, asked: list[str], notebook: NotebookNode) -> bool:
        # where there are stages, none of its checkers hears of all that failed
        before = [exercise for (exercise, _), o in self.failed.items() if not (o.broke or exercise in self.seen.lost)]
        compare = None if self.stages.ends else comparing.planned(self.compared, self.rubric, before)
        answers = check.ask(
            self.place.checker,
            name,
            kernel.asked(notebook.cells),
            self.rubric,
            [*asked, *(set(stages.helpers(asked, self.rubric.tests, notebook)) - self.seen.lost.keys())],
            self.seed,
            self.until,
            self.place.private,
            lambda: self._begins(kernel),
            self.stages.keep,
            compare=compare,
        )
        if answers.exercise and answers.exercise not in asked:  # what was only run for what it binds
            answers = replace(answers, exercise=stages.resting(answers.exercise, asked, self.rubric.tests, notebook))
        answers = replace(answers, outcomes=tuple(each for each in answers.outcomes if each.exercise in asked))
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
        if answers.slow:  # its other tests would be as slow, or wait behind it
            self.slow.add(answers.slow)
            return self._over()
        if answers.lost is None:
            if self.stages.ends and self.left():
                return self._over()
            names = comparing.asked_again(self.compared, self.seen.outcomes)
            # no checker has asked about all, or it was killed meanwhile: one more does
            if names and (compare is None or (answers.outside and self._once("checker"))):
                until = min(self.until, time.monotonic() + check.PATIENCE * self.limits.question_seconds)
                peers = kernel.asked(notebook.cells)
                asked_too = (peers, self.rubric, names, self.compared.seed or 0, until)
                answers = check.ask(self.place.checker, f"{name}l", *asked_too, self.place.private, traced=True)
            self.behaviour = tuple(each for each in answers.seen if each.exercise in names)
            return True
        if answers.outside and self._once("checker"):  # at the second time it is something that the submission does
            return self._over()
        if answers.lost in (Lost.DIED, Lost.PROTOCOL) and self._doubt(kernel):
            return self._over()
        if answers.lost is Lost.DEADLINE and self._starved(kernel):
            return self._over()
        stop = Stop.MEMORY if kernel.out_of_memory() else stops.LOST[answers.lost]
        self._halt(stop, answers.note, exercise=answers.exercise)
        self.seen.lost[answers.exercise] = stop
        self.notes.append(f"asked about {answers.exercise}: {answers.lost}, {answers.note}")
        return self._over()

    def _over(self) -> bool:
        """Whether the submission's time is up."""
        self.seen.out_of_time = time.monotonic() > self.until - 1.0
        return self.seen.out_of_time


def _but(executed: messages.Executed, stop: Stop, note: str) -> messages.Executed:
    return messages.Executed(stopped=stop, cell=executed.cell, note=note, outputs=executed.outputs)
