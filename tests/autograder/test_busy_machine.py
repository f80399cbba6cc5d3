"""On a machine that has far too much to do a right answer gets full marks or no mark: nobody loses a point by it.

Twenty processes that compute for ever, a box with a fork bomb in it, and two workers. ACROSS_BUSY="03 12" chooses chapters.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator

import boxed
import pytest
from boxed import needs_a_box

from autograder.authoring import build
from autograder.engine import jobs as run_jobs
from autograder.engine.jobs import Jobs
from autograder.job import forkserver
from autograder.job.grade import Job
from autograder.model.course import find
from autograder.model.verdict import Result, Verdict
from autograder.probe import listed
from autograder.sandbox import boxes, entering, owners
from autograder.submissions.intake import Submission

pytestmark = [pytest.mark.slow, needs_a_box]

SPINNING = 20
FULL = (Result.PASSED, Result.MANUAL)


def chosen() -> list[str]:
    course = find()
    return [course.full_name(each) for each in os.environ.get("ACROSS_BUSY", "").split()] or list(course.chapters)


@contextlib.contextmanager
def busy() -> Iterator[None]:
    """A machine with twenty processes that compute, and a box in which all that there may be fork."""
    with contextlib.ExitStack() as stack:
        for _ in range(SPINNING):
            process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(process.wait)
            stack.callback(process.kill)
        box = stack.enter_context(boxes.Box(owners.new_name("j"), boxed.CAPS))
        child = os.fork()
        if not child:
            try:
                entering.enter(json.loads(json.dumps(box.request())))
                while True:
                    with contextlib.suppress(OSError):
                        os.fork()
            finally:
                os._exit(0)
        stack.callback(os.waitpid, child, 0)
        stack.callback(box.close)
        until = time.monotonic() + 60
        while not box.forks_refused() and time.monotonic() < until:
            time.sleep(0.05)
        yield


def honest(course, chapter: str) -> list[Submission]:
    """The reference and two that are right in another way: the first and the last listed right answer of each cell.

    A cell that several exercises look at keeps the reference's answer: another may be right only beside others of theirs.
    """
    own = build.solution_source(course, chapter)
    looked_at = Counter(cell for each in course.chapter(chapter).exercises for cell in each.answer_ids)
    first, last = dict(own), dict(own)
    for each in listed.variants(course.listed_file(chapter)):
        if each.correct and looked_at[each.answer] < 2:
            last[each.answer] = each.written_over(own[each.answer])
            first = first if first[each.answer] != own[each.answer] else {**first, each.answer: last[each.answer]}
    return [Submission(name, chapter, answers) for name, answers in (("own", own), ("first", first), ("last", last))]


@pytest.mark.parametrize("chapter", chosen())
def test_who_is_right_gets_full_marks_or_no_mark(chapter, monkeypatch):
    monkeypatch.setattr(run_jobs, "TRIES", 1)
    course = find()
    rubric = forkserver.make_rubric(course, chapter)
    own = tuple(build.solution_source(course, chapter).items())
    jobs = [Job(each, rubric, 1, reference=own) for each in honest(course, chapter)]
    with Jobs(course, workers=2) as run:
        calm = dict(_told(each) for each in run.verdicts(jobs))
        began = time.monotonic()
        with busy():
            found = dict(_told(each) for each in run.verdicts(jobs))
    forkserver.close()
    print(f"\n{chapter}: {time.monotonic() - began:.0f} s beside {SPINNING} and a bomb: {found}")
    assert set(calm.values()) == {"full marks"}
    assert set(found.values()) <= {"full marks"} | {each for each in found.values() if each.startswith("no mark")}


def _told(each: tuple[Job, Verdict | Exception]) -> tuple[str, str]:
    """Who it was, and what they got: full marks, no mark and why, or which exercises were lost."""
    job, verdict = each
    if not isinstance(verdict, Verdict):
        return job.submission.student, f"no mark: {verdict}"
    lost = [f"{mark.exercise}: {mark.result} ({mark.message})" for mark in verdict.marks if mark.result not in FULL]
    return job.submission.student, "; ".join(lost) or "full marks"
