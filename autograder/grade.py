"""One job: grading one submission, from its answers to its verdict.

`grade_job` is what an executor runs: a pure function of a picklable value. It has a driver process forked for the job,
which is disposable and memory-capped because it talks to the student's kernel; the driver runs `drive`.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import tempfile
import time
from dataclasses import asdict, dataclass
from typing import IO, Any

from autograder import course, forkserver, sandbox
from autograder.execute import Stop
from autograder.intake import Submission
from autograder.judge import Seen, judge
from autograder.verdict import Fault, Mark, Result, Verdict

GRACE = 60.0  # seconds over a notebook's limit before its driver is given up
SERIAL = itertools.count()


class InfrastructureError(RuntimeError):
    """This machine's fault: the job may be tried again and is not scored."""


@dataclass(frozen=True)
class Job:
    """What there is to grade: a value that can travel to another machine."""

    submission: Submission
    seed: int
    digest: str

    @property
    def chapter(self) -> str:
        """The chapter's name."""
        return self.submission.chapter


def digest(submission: Submission, environment: str) -> str:
    """SHA-256 of what decides a verdict: answers, release, checks, `environment` (versions and seed policy)."""
    chapter = course.chapter(submission.chapter)
    parts = [submission.answers, submission.invalid, submission.refused, chapter.release, asdict(chapter.limits)]
    text = json.dumps([*parts, environment], sort_keys=True)
    return hashlib.sha256(text.encode() + course.check_file(submission.chapter).read_bytes()).hexdigest()


def grade_job(job: Job) -> Verdict:
    """Grade one submission in a disposable driver. Raises InfrastructureError, never anything for what it contains."""
    started = time.monotonic()
    chapter = course.chapter(job.chapter)
    if job.submission.refused:
        return _verdict(job, started, judge(chapter, job.submission, set(), Seen()), chapter.release, ())
    name = f"j{os.getpid()}-{next(SERIAL)}."
    try:
        servers = forkserver.servers(job.chapter)
        with tempfile.TemporaryFile() as question, tempfile.TemporaryFile() as answer:
            question.write(json.dumps({**asdict(job), "name": name, "servers": _paths(servers)}).encode())
            question.flush()
            code = _wait(servers, [question.fileno(), answer.fileno()], chapter.limits.notebook_seconds + GRACE)
            if code != 0:
                return _driver_died(job, chapter, started, code)
            return _read(job, started, answer)
    except (OSError, sandbox.SandboxError, ValueError, KeyError) as error:
        raise InfrastructureError(f"{type(error).__name__}: {error}") from error
    finally:
        sandbox.sweep(name)


def _paths(servers: forkserver.Servers) -> dict[str, str]:
    return {"student": servers.student.path, "checker": servers.checker.path}


def _wait(servers: forkserver.Servers, fds: list[int], seconds: float) -> int:
    """Run a driver on the job in fds[0]; its exit code, negative for a signal."""
    with servers.driver.request({}, fds) as child:
        try:
            return child.wait(seconds)
        except TimeoutError:
            raise InfrastructureError(f"a driver did not end within {seconds:.0f} s") from None


def _read(job: Job, started: float, answer: IO[bytes]) -> Verdict:
    answer.seek(0)
    said = json.loads(answer.read())
    if "fault" in said:
        raise InfrastructureError(said["fault"])
    marks = tuple(Mark(**{**m, "result": Result(m["result"]), "fault": Fault(m["fault"])}) for m in said["marks"])
    return _verdict(job, started, marks, said["notebook"], tuple(said["notes"]))


def _driver_died(job: Job, chapter: course.Chapter, started: float, code: int) -> Verdict:
    """What came from the student's kernel killed the process that listened to it: a limit on output."""
    if code > 0:
        raise InfrastructureError(f"a driver ended with code {code}; its log is the fork server's")
    seen = Seen(stops={answer: Stop.OUTPUT for answer in chapter.answers})
    blank = {e.name for e in chapter.exercises if all(job.submission.answers.get(a) is None for a in e.answer_ids)}
    marks = judge(chapter, job.submission, blank, seen)
    return _verdict(job, started, marks, chapter.release, (f"the driver was killed by signal {-code}",))


def _verdict(
    job: Job, started: float, marks: tuple[Mark, ...], notebook: dict[str, Any], notes: tuple[str, ...]
) -> Verdict:
    s = job.submission
    seconds = time.monotonic() - started
    return Verdict(s.student, s.chapter, job.digest, marks, job.seed, seconds, notebook, (*s.notes, *notes))
