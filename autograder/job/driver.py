"""The process that drives one job: a warm server with papermill imported; its child grades one submission and ends.

It is root where the box needs it, but runs nothing of the student's; it listens to the student's kernel, so its memory is
capped and nothing of it is used twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import importlib
import json
import os
import resource
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import nbformat
import zmq.asyncio
from nbformat.v4 import new_output

from across._process import warm
from autograder.job import assemble, check, execute, judge
from autograder.job.kernel import MESSAGE, Kernel, StartError
from autograder.model import course, recorded_notebook
from autograder.model.verdict import Evidence, Halt, Stop
from autograder.sandbox import boxes, cgroups
from autograder.submissions.intake import Submission

MEMORY = 1 << 30
LOST = {"deadline": Stop.TIMEOUT, "died": Stop.CRASHED, "size": Stop.OUTPUT, "protocol": Stop.CRASHED}
CELL_LIMITS = {Stop.TIMEOUT: "cell_seconds", Stop.MEMORY: "memory_bytes", Stop.OUTPUT: "output_bytes"}
ASKED_LIMITS = {Stop.TIMEOUT: "question_seconds", Stop.MEMORY: "memory_bytes", Stop.OUTPUT: "reply_bytes"}
for _name in (
    "jupyter_client.asynchronous",
    "zmq.backend.cython",
    "tornado.platform.asyncio",
    "zmq.eventloop.zmqstream",
):
    with contextlib.suppress(ImportError):
        importlib.import_module(_name)
new_output("stream", text="")  # compiles the schema of outputs: 50 ms of every job otherwise


def _preload(chapter: str) -> None:
    """Read the chapter, and what its cells bind and use: 20 ms of every job otherwise."""
    nothing = Submission("", chapter, {})
    assemble.assemble(nothing, course.chapter(chapter))
    assemble.blank(nothing, course.chapter(chapter))


if os.environ.get("ACROSS_CHAPTER") and os.environ.get("ACROSS_SERVES") == "driver":
    _preload(os.environ["ACROSS_CHAPTER"])


def child(message: dict[str, Any], fds: list[int], connection: socket.socket) -> None:
    """Grade the job (JSON) in fds[0] and write its marks, or this machine's fault, to fds[1]."""
    warm.die_with_parent()  # and the box with us: a driver whose server was killed has nobody to tell
    question, answer = fds
    with open(question, "rb", closefd=False) as file:
        file.seek(0)
        job = json.loads(file.read())
    group = cgroups.open_group(job["name"] + "driver", MEMORY, 512)
    if group is not None:
        for folder in group.folders:
            (folder / "cgroup.procs").write_text(str(os.getpid()))
    else:
        resource.setrlimit(resource.RLIMIT_DATA, (2 * MEMORY, 2 * MEMORY))
    asyncio.set_event_loop(asyncio.new_event_loop())

    def tell(answer: str) -> None:
        connection.send(json.dumps({"at": answer}).encode())

    try:
        said = drive(job, tell)
    except (StartError, check.CheckerError, boxes.SandboxError, warm.ServerError, OSError) as error:
        full = isinstance(error, OSError) and error.errno == errno.ENOSPC
        where = f"; make room in {boxes.workroom().parent}, where boxes are made" if full else ""
        said = {"fault": f"{type(error).__name__}: {error}{where}"}
    with open(answer, "wb", closefd=False) as file:
        file.write(json.dumps(said).encode())


def drive(job: dict[str, Any], told: Callable[[str], None]) -> dict[str, Any]:
    """Execute and ask one submission, reviving its kernel without the cell that killed it; return marks and notebook.

    `told` is called with an answer's grade id before its cell is executed, and with "" when all have been.
    """
    run = _Run(job, told)
    for life in range(1 + run.chapter.limits.revivals + 1):  # one for the doubt
        if run.live(f"{job['name']}{life}"):
            break
    marks = judge.judge(run.chapter, run.submission, run.blank, run.seen)
    _explain_stops(run.notebook, run.seen.stops)
    return {
        "marks": [vars(mark) for mark in marks],
        "notebook": recorded_notebook.rebuilt(assemble.assemble(run.submission, run.chapter), run.notebook),
        "notes": run.notes,
        "evidence": dataclasses.asdict(run.evidence()),
    }


class _Run:
    def __init__(self, job: dict[str, Any], told: Callable[[str], None]) -> None:
        self.told = told
        self.submission = Submission.from_json(job["submission"])
        self.chapter = course.chapter(self.submission.chapter)
        self.job = job
        self.blank = assemble.blank(self.submission, self.chapter)
        self.seen = judge.Seen(stops={answer: Stop(stop) for answer, stop in job["stops"].items()})
        self.notes: list[str] = []
        # the driver before this one died of what came from these cells
        flooded = {"limit": "output_bytes", "value": self.chapter.limits.output_bytes, "note": "a flood of messages"}
        self.halts = [Halt(Stop(job["stops"][a]), a, "", n, **flooded) for n, a in enumerate(job["stops"], 1)]
        self.lives = len(self.halts)
        self.seconds = {"start": 0.0, "cells": 0.0, "questions": 0.0}
        self.until = time.monotonic() + self.chapter.limits.notebook_seconds
        self.context = zmq.asyncio.Context()
        self.context.setsockopt(zmq.MAXMSGSIZE, MESSAGE)
        self.notebook: Any = None
        self.doubted = False

    def left(self) -> list[str]:
        """The exercises that can still be asked about, in order."""
        done = self.blank | self.seen.lost.keys() | {outcome.exercise for outcome in self.seen.outcomes}
        out = []
        for exercise in self.chapter.exercises:
            gone = any(a in self.seen.stops or a in self.submission.invalid for a in exercise.answer_ids)
            if not (exercise.manual or exercise.name in done or gone):
                out.append(exercise.name)
        return out

    def live(self, name: str) -> bool:
        """One life of a kernel: execute, ask. Whether there is nothing left to do."""
        notebook = assemble.assemble(self.submission, self.chapter)
        for cell in notebook.cells:
            if _answer(cell) in self.seen.stops:
                cell.metadata["tags"] = [*cell.metadata.get("tags", []), execute.SKIP]
        if self.notebook is None:
            self.notebook = notebook
        if not self.left():
            return True
        self.lives += 1
        with self._timed("start"):
            server, walls, cards = self.job["servers"]["student"], self.job["walls"], self.job["cards"]
            kernel = Kernel(server, name, self.chapter.limits, walls, cards)
        try:
            with self._timed("start"):
                kernel.ready(self.context)
            tell = lambda n: self.told(_answer(notebook.cells[n]))  # noqa: E731
            with self._timed("cells"):
                transcript = execute.execute(notebook, kernel, self.until, tell)
            self.notebook = notebook
            self._errors(notebook)
            if transcript.stopped is not None:
                return self._stopped(kernel, notebook, transcript)
            with self._timed("questions"):
                return self._ask(kernel, name)
        finally:
            kernel.close()

    def evidence(self) -> Evidence:
        """What the marks rest on."""
        most = max(self.lives, 1 + self.chapter.limits.revivals)
        return Evidence(tuple(self.seen.outcomes), tuple(self.halts), self.lives, most, self.seconds)

    @contextlib.contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds[step] += time.monotonic() - started

    def _halt(self, stop: Stop, note: str, cell: str = "", exercise: str = "") -> None:
        """Keep how this life ended, with the limit that it reached."""
        limit = ASKED_LIMITS.get(stop, "") if exercise else CELL_LIMITS.get(stop, "")
        if stop is Stop.TIMEOUT and time.monotonic() > self.until - 1.0:
            limit = "notebook_seconds"
        value = float(getattr(self.chapter.limits, limit)) if limit else 0.0
        self.halts.append(Halt(stop, cell, exercise, self.lives, limit, value, note))

    def _doubt(self, kernel: Kernel) -> bool:
        """Whether the kernel's death may be nobody's in it: then it is given another life, once, and no cell is blamed.

        A SIGKILL from outside looks like `os.kill(os.getpid(), 9)`; but the student's comes again. Raises StartError
        when it was this machine for certain.
        """
        if why := kernel.outside():
            raise StartError(why)
        if self.doubted or not kernel.killed():
            return False
        self.doubted = True
        return True

    def _stopped(self, kernel: Kernel, notebook: Any, transcript: execute.Transcript) -> bool:
        assert transcript.stopped is not None
        if transcript.stopped is Stop.CRASHED and self._doubt(kernel):
            return self._over()
        before = [_answer(cell) for cell in notebook.cells[: transcript.cell + 1]]
        guilty = [a for a in before if a and a not in self.seen.stops and a in self.submission.answers]
        self.notes.append(
            f'cell "{guilty[-1] if guilty else transcript.cell}": {transcript.stopped}, {transcript.note}'
        )
        if not guilty:
            raise StartError(f"a cell of the release ended the kernel: {transcript.note}")
        self._halt(transcript.stopped, transcript.note, cell=guilty[-1])
        self.seen.stops[guilty[-1]] = transcript.stopped
        return self._over()

    def _ask(self, kernel: Kernel, name: str) -> bool:
        self.told("")
        kernel.mute()
        answers = check.ask(
            self.job["servers"]["checker"], f"{name}c", kernel, self.left(), self.job["seed"], self.until
        )
        self.seen.outcomes += [outcome for outcome in answers.outcomes if outcome.exercise != answers.lost]
        self.notes += [f"{o.exercise}, {o.test}: the check broke: {o.kind}" for o in answers.outcomes if o.broke]
        if answers.lost:
            if answers.why in ("died", "protocol") and self._doubt(kernel):
                return self._over()
            stop = Stop.MEMORY if kernel.out_of_memory() else LOST[answers.why]
            self._halt(stop, answers.note, exercise=answers.lost)
            self.seen.lost[answers.lost] = stop
            self.notes.append(f"asked about {answers.lost}: {answers.why}")
            return self._over()
        return True

    def _over(self) -> bool:
        """Whether the submission's time is up."""
        self.seen.out_of_time = time.monotonic() > self.until - 1.0
        return self.seen.out_of_time

    def _errors(self, notebook: Any) -> None:
        for cell in notebook.cells:
            answer = _answer(cell)
            for output in cell.get("outputs", []):
                if answer and output.output_type == "error":
                    self.seen.errors[answer] = f"{output.ename}: {output.evalue}"[:400]


def _answer(cell: Any) -> str:
    """The grade id of a student's code cell; else empty."""
    meta = cell.metadata.get("nbgrader", {})
    return meta["grade_id"] if cell.cell_type == "code" and meta.get("solution") else ""


def _explain_stops(notebook: nbformat.NotebookNode, stops: dict[str, Stop]) -> None:
    for cell in notebook.cells:
        if stop := stops.get(_answer(cell)):
            says = f"This cell {judge.STOPPED[stop]}; it was left out when the notebook was executed again."
            cell.outputs = [new_output("error", ename=stop.value, evalue=says, traceback=[says])]
