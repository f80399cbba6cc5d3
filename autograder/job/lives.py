"""One submission executed and asked: a life after the other, until every exercise was looked at or time is up.

A kernel that a cell kills, hangs or floods is given up, and the next one goes without that cell; one that is lost when asked
about an exercise is given up, and the next one is asked about the others. `More` has every reason for one more life.
"""

from __future__ import annotations

import contextlib
import copy
from dataclasses import InitVar, dataclass, replace
from enum import StrEnum
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_output

from autograder.job import assemble, check, clocks, judge, messages, stages
from autograder.job.kernel_process import StartError
from autograder.job.life import STEPS, Life, Place, recorded
from autograder.model.rubric import Rubric
from autograder.model.verdict import Evidence, Halt, Lost, Mark, Stop
from autograder.submissions import added_cells, unanswered
from autograder.submissions.intake import Submission

DOUBTS = 4  # lives beyond those that a chapter's limits give
LOST = {Lost.DEADLINE: Stop.TIMEOUT, Lost.DIED: Stop.CRASHED, Lost.SIZE: Stop.OUTPUT, Lost.PROTOCOL: Stop.CRASHED}
CELL_LIMITS = {
    Stop.TIMEOUT: "cell_seconds",
    Stop.MEMORY: "memory_bytes",
    Stop.OUTPUT: "output_bytes",
    Stop.PROCESSES: "pids",
}
ASKED_LIMITS = {**CELL_LIMITS, Stop.TIMEOUT: "question_seconds", Stop.OUTPUT: "reply_bytes"}


class More(StrEnum):
    """Why there is one more life. The first five are in the submission's favour, each believed once."""

    DRIVER = "the driver was killed from outside"
    CHECKER = "the checker was killed from outside"
    # a SIGKILL from outside looks like `os.kill(os.getpid(), 9)`; but the student's comes again
    KILLED = "the kernel, or a process beside it, was killed, perhaps from outside"
    STARVED = "its kernel waited for a processor when a limit of time was reached"
    REFERENCE = "the reference's own text reached a limit of time"  # once for the same exercises
    STOPPED = "a cell ended the kernel, and is left out"
    LOST = "the kernel was lost when asked about an exercise, and the others were not asked"
    SLOW = "a check was given up, and the others were not asked"
    STAGE = "what is left is asked of another kernel: see `stages`"


@dataclass(frozen=True)
class Graded:
    """What became of a submission."""

    marks: tuple[Mark, ...]
    notebook: dict[str, Any]  # as executed: nbformat 4 JSON
    notes: tuple[str, ...]
    evidence: Evidence


@dataclass
class Lives:
    """Grades one submission by `run`. Raises what is this machine's fault: StartError, CheckerError, SandboxError ..."""

    submission: Submission
    rubric: Rubric
    seed: int
    place: Place
    only: tuple[str, ...] = ()  # exercises that are asked about; empty: all
    until: InitVar[float | None] = None  # time.monotonic: what earlier ones have left of its time
    reference: clocks.Reference | None = None  # is asked where a limit of time is reached

    def __post_init__(self, until: float | None) -> None:
        self.clocks = clocks.Clocks(self.rubric.chapter.limits, until)
        self.blank = unanswered.blank(self.submission, self.rubric.chapter)
        self.stages = stages.Stages.of(self.submission, self.rubric)
        self.executed = False  # the whole notebook was, to its end
        self.seen = judge.Seen()
        self.notes: list[str] = []
        self.halts: list[Halt] = []
        self.lives: list[Life] = []
        self.notebook: NotebookNode | None = None
        self.doubted: set[tuple[str, ...]] = set()  # what was given another life for: each thing once

    def run(self) -> Graded:
        """Execute and ask, reviving the kernel without the cell that killed it."""
        revivals = self.clocks.limits.revivals
        for _ in range(1 + revivals + DOUBTS + len(self.stages.ends)):
            if self._live() is None:
                break
            self.seen.out_of_time = self.clocks.late()
            if self.seen.out_of_time:
                break
        if self.seen.out_of_time and self.clocks.whole and self.left() and (clocks.NOTEBOOK,) not in self.doubted:
            self._late(None, clocks.NOTEBOOK)  # raises where it is this machine that is slow
        marks = judge.judge(self.rubric, self.submission, self.blank, self.seen)
        notebook = self.notebook or assemble.assemble(self.submission, self.rubric.chapter)
        for cell in notebook.cells:  # those that were left out say why
            if stop := self.seen.stops.get(_answer(cell)):
                says = f"This cell {judge.STOPPED[stop]}; it was left out when the notebook was executed again."
                cell.outputs = [new_output("error", ename=stop.value, evalue=says, traceback=[says])]
        seconds = {step: sum((each.seconds[step] for each in self.lives), 0.0) for step in STEPS}
        kept_by = self.lives[-1].kernel.box.kept_by if self.lives else ""  # all are alike
        lives = (len(self.lives), max(len(self.lives), 1 + revivals))
        evidence = Evidence(tuple(self.seen.outcomes), tuple(self.halts), *lives, seconds, kept_by=kept_by)
        return Graded(marks, notebook, tuple(self.notes), evidence)

    def left(self) -> list[str]:
        """The exercises that can still be asked about, in order."""
        ended = {(outcome.exercise, outcome.test) for outcome in self.seen.outcomes}
        open_ = {test.exercise for test in self.rubric.tests if (test.exercise, test.name) not in ended}
        # what is left as released may pass nbgrader's own test cells; what was not handed in is not asked
        blank = {name for name in self.blank if self.submission.nothing or not self.rubric.weak(name)}
        open_ -= blank | self.seen.lost.keys() | self.seen.slow
        gone = self.seen.stops.keys() | self.submission.invalid.keys()
        able = [each for each in self.rubric.chapter.exercises if not (each.manual or gone & {*each.answer_ids})]
        return [each.name for each in able if each.name in open_ and (not self.only or each.name in self.only)]

    def _live(self) -> More | None:
        """One life of a kernel: execute, ask. Why there is one more; None where nothing is left to do."""
        left = self.left()
        if not left:
            return None
        end, asked = self.stages.next(left, self.executed)
        notebook = assemble.assemble(self.submission, self.rubric.chapter)
        for number, cell in enumerate(notebook.cells):
            below = end is not None and number >= end and cell.cell_type == "code"
            if below or _answer(cell) in self.seen.stops:
                cell.metadata["tags"] = [*cell.metadata.get("tags", []), assemble.SKIP]
        life = Life(self.place, len(self.lives), self.rubric, self.seed, self.clocks)
        self.lives.append(life)
        with contextlib.closing(life.kernel):
            executed = life.execute(notebook, lambda: self._once(More.DRIVER))
            if executed is None:
                self.notes.append("the driver was killed from outside")
                return More.DRIVER
            if end is None:
                self._take(notebook, executed)
            if executed.stopped is not None:
                return self._stopped(life, notebook, executed.stopped, executed)
            self.executed = True
            if not asked:
                return More.STAGE
            with life.timed("questions"):
                return self._ask(life, asked, notebook)

    def _take(self, notebook: NotebookNode, executed: messages.Executed) -> None:
        """Keep the outputs, and the errors of answers."""
        self.notebook = recorded(notebook, executed)
        for cell in self.notebook.cells:
            answer = _answer(cell)
            for output in cell.get("outputs", []):
                if answer and output.get("output_type") == "error":
                    self.seen.errors[answer] = f"{output.get('ename')}: {output.get('evalue')}"[:400]

    def _halt(self, stop: Stop, note: str, cell: str = "", exercise: str = "") -> None:
        """Keep how this life ended, with the limit that it reached."""
        limit = (ASKED_LIMITS if exercise else CELL_LIMITS).get(stop, "")
        if stop is Stop.TIMEOUT and self.clocks.late():
            limit = clocks.NOTEBOOK
        value = float(getattr(self.clocks.limits, limit)) if limit else 0.0
        self.halts.append(Halt(stop, cell, exercise, len(self.lives), limit, value, note))

    def _once(self, why: More, *about: str) -> bool:
        """Whether it is the first time, in this submission, that `why` counts in its favour."""
        first = (why, *about) not in self.doubted
        self.doubted.add((why, *about))
        return first

    def _late(self, life: Life | None, limit: str, *exercises: str) -> More | None:
        """Why what reached a limit of time gets another life, if it does, with twice the time.

        The kernel ends first: nothing that it started takes the processors from the reference. Raises clocks.BusyError where
        nobody's answer was at fault.
        """
        if self.clocks.late():
            limit = clocks.NOTEBOOK
            self.doubted.add((limit,))
        waited = 0.0
        if life is not None:
            waited = self.clocks.starved(life.kernel)
            life.kernel.close()
        what = f"{' and '.join(exercises) or 'the notebook'}: {limit}"
        with self.clocks.stopped():
            if self.reference is not None and self.reference.slow(limit, exercises):
                raise clocks.BusyError.at(f"{what}: the reference is as slow")
        if waited and self._once(More.STARVED):
            self.clocks.more()
            self.notes.append(f"{clocks.WAITED}: its kernel waited {waited:.0f} s for a processor")
            return More.STARVED
        if self.reference is None:
            return None
        # other cells may have taken the notebook's time
        its_own = limit != clocks.NOTEBOOK and self._is_reference(*exercises)
        if its_own and self._once(More.REFERENCE, *exercises):
            self.clocks.more()
            self.notes.append(f"{clocks.WAITED}? {what} was reached by the reference's own text, which is asked again")
            return More.REFERENCE
        every = [each.name for each in self.rubric.chapter.exercises if not each.manual]
        if self._is_reference(*every) and not self.submission.added:
            raise clocks.BusyError.at(f"{what}: it is the reference")
        return None

    def _is_reference(self, *exercises: str) -> bool:
        """Whether the answers of these exercises are the chapter's own, word for word."""
        assert self.reference is not None
        cells = [cell for each in exercises for cell in self.rubric.exercise(each).answer_ids]
        given, own = self.submission.answers, self.reference.answers
        return bool(cells) and all(given.get(cell, "").strip() == own.get(cell, "").strip() for cell in cells)

    def _stopped(self, life: Life, notebook: NotebookNode, stop: Stop, executed: messages.Executed) -> More:
        if stop is Stop.CRASHED and life.killed() and self._once(More.KILLED):
            return More.KILLED
        if stop is Stop.CRASHED:
            self._crashed(life, notebook)
        before = [_answer(cell) for cell in notebook.cells[: executed.cell + 1]]
        theirs = {*self.submission.answers, *added_cells.names(self.submission.added)}
        guilty = [a for a in before if a and a not in self.seen.stops and a in theirs]
        of = [each.name for each in self.rubric.chapter.exercises if guilty and guilty[-1] in each.answer_ids]
        if stop is Stop.TIMEOUT and (more := self._late(life, "cell_seconds", *of)):
            return more
        self.notes.append(f'cell "{guilty[-1] if guilty else executed.cell}": {stop}, {executed.note}')
        if guilty:
            self._halt(stop, executed.note, cell=guilty[-1])
            self.seen.stops[guilty[-1]] = stop
        # what was left of its time, when its earlier lives had ended, may have been too little for our own cells
        elif not (stop is Stop.TIMEOUT and (len(self.lives) > 1 or not self.clocks.whole) and self.clocks.late()):
            raise StartError(f"a cell of the release ended the kernel: {executed.note}")
        return More.STOPPED

    def _crashed(self, life: Life, notebook: NotebookNode, exercise: str = "") -> None:
        """Raise StartError where a kernel crashed on simulated GPUs, and the same does not without: no answer is to blame."""
        if not self.rubric.chapter.simulated or not life.kernel.crashed():
            return
        life.kernel.close()
        place = replace(self.place, name=f"{self.place.name}c", cards={})
        rubric = replace(self.rubric, chapter=replace(self.rubric.chapter, gpus=0, simulated=False))
        with self.clocks.stopped():
            control = Life(place, len(self.lives), rubric, self.seed, self.clocks)
            with contextlib.closing(control.kernel):
                executed = control.execute(copy.deepcopy(notebook), lambda: False)
                crashes = executed is None or executed.stopped is not None
                if exercise and not crashes:
                    crashes = control.ask([exercise], notebook, self.stages.keep).lost is not None
        if not crashes:
            at = f"asked about {exercise}" if exercise else "in a cell"
            raise StartError(f"{at}: the kernel crashed on simulated GPUs, and does not without them; see docs/gpu.md")

    def _ask(self, life: Life, asked: list[str], notebook: NotebookNode) -> More | None:
        helpers = set(stages.helpers(asked, self.rubric.tests, notebook)) - self.seen.lost.keys()
        answers = life.ask([*asked, *helpers], notebook, self.stages.keep)
        if answers.exercise and answers.exercise not in asked:  # what was only run for what it binds
            answers = replace(answers, exercise=stages.resting(answers.exercise, asked, self.rubric.tests, notebook))
        well = answers.lost is None and not answers.slow and all(each.passed for each in answers.outcomes)
        if (
            not well and life.kernel.beside.robbed() and self._once(More.KILLED)
        ):  # whatever failed may have missed the peer
            return More.KILLED
        more = self._late(life, "question_seconds", answers.slow) if answers.slow else None
        counted = [o for o in answers.outcomes if o.exercise in asked and not (more and o.kind.startswith(check.SLOW))]
        self.seen.take(counted, but=answers.slow if more else answers.exercise)
        self.notes += [f"{o.exercise}, {o.test}: the check broke: {o.kind}" for o in counted if o.broke]
        if refused := life.kernel.box.forks_refused():
            limit = self.clocks.limits.pids
            self.notes.append(f"a process or thread was refused {refused} times: it had {limit}")
        if answers.slow:
            if not more:  # its other tests would be as slow, or wait behind it
                self.seen.slow.add(answers.slow)
            return more or More.SLOW
        if answers.lost is None:
            return More.STAGE if self.stages.ends and self.left() else None
        if answers.outside and self._once(More.CHECKER):  # at the second time it is something that the submission does
            return More.CHECKER
        if answers.lost in (Lost.DIED, Lost.PROTOCOL) and life.killed() and self._once(More.KILLED):
            return More.KILLED
        if answers.lost is Lost.DIED and (why := life.kernel.beside.unready()):
            raise StartError(why)
        stop = Stop.MEMORY if life.kernel.out_of_memory() else LOST[answers.lost]
        if answers.lost is Lost.DIED and stop is not Stop.MEMORY:
            self._crashed(life, notebook, answers.exercise)
        if stop is Stop.TIMEOUT and (more := self._late(life, "question_seconds", answers.exercise)):
            return more
        self._halt(stop, answers.note, exercise=answers.exercise)
        self.seen.lost[answers.exercise] = stop
        self.notes.append(f"asked about {answers.exercise}: {answers.lost}, {answers.note}")
        return More.LOST


def _answer(cell: Any) -> str:
    """The grade id of a student's code cell, the name of one that they added; else empty."""
    meta = cell.metadata.get("nbgrader", {})
    if cell.cell_type != "code":
        return ""
    return meta["grade_id"] if meta.get("solution") else cell.metadata.get("across", {}).get("added", "")
