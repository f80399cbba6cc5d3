"""One job: grading one submission, from its answers to its verdict.

`grade_job` is what an executor runs: a pure function of a picklable value. It has a driver process forked for the job,
which is disposable and memory-capped because it talks to the student's kernel; the driver runs `drive`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from across._process import warm
from autograder.gpu import leases
from autograder.job import forkserver
from autograder.job.judge import Seen, judge
from autograder.model import course
from autograder.model.verdict import Evidence, Fault, Mark, Result, Stop, Verdict
from autograder.sandbox import boxes, owners
from autograder.submissions.intake import Submission

CARD = 3600.0  # seconds that a job waits for its cards: those of a class stand in line for them
GRACE = 60.0  # seconds over a notebook's limit before its driver is given up


class InfrastructureError(RuntimeError):
    """This machine's fault: the job may be tried again and is not scored."""


@dataclass(frozen=True)
class Job:
    """What there is to grade: a value that can travel to another machine."""

    submission: Submission
    seed: int
    digest: str
    walls: bool = True  # False: in no sandbox, for submissions that are trusted
    parts: dict[str, str] = field(default_factory=dict)  # for the verdict's evidence: see `parts`
    gpus: int | None = field(default_factory=course.asked_gpus)  # cards for it; None: as many as its chapter says

    @property
    def chapter(self) -> str:
        """The chapter's name."""
        return self.submission.chapter


def digest(submission: Submission, environment: str) -> str:
    """SHA-256 of what decides a verdict: answers, release, checks, `environment` (versions and seed policy)."""
    chapter = course.chapter(submission.chapter)
    parts = [submission.answers, submission.invalid, submission.refused, chapter.release, asdict(chapter.limits)]
    if (gpus := course.asked_gpus()) is not None:
        environment += f", gpus {gpus}"
    text = json.dumps([*parts, environment], sort_keys=True)
    checks = b"".join(path.read_bytes() for path in course.check_sources(submission.chapter))
    return hashlib.sha256(text.encode() + checks).hexdigest()


def parts(submission: Submission, environment: str) -> dict[str, str]:
    """What decides a verdict, each thing by its own SHA-256, to say what differs between two; `environment` as it is."""
    chapter = course.chapter(submission.chapter)
    said = {
        "answers": [submission.answers, submission.invalid, submission.refused],
        "release": chapter.release,
        "limits": asdict(chapter.limits),
    }
    hashed = {name: json.dumps(value, sort_keys=True).encode() for name, value in said.items()}
    hashed["checks"] = b"".join(path.read_bytes() for path in course.check_sources(submission.chapter))
    return {name: hashlib.sha256(value).hexdigest() for name, value in hashed.items()} | {"environment": environment}


def grade_job(job: Job) -> Verdict:
    """Grade one submission in a disposable driver. Raises InfrastructureError, never anything for what it contains."""
    started = time.monotonic()
    chapter = course.chapter(job.chapter)
    if job.submission.refused:
        marks = judge(chapter, job.submission, set(), Seen())
        return _verdict(job, started, marks, chapter.release, (), Evidence(parts=job.parts))
    name = f"{owners.new_name('j')}."
    stops: dict[str, str] = {}
    code = 0
    try:
        servers = forkserver.servers(job.chapter)
        for _ in range(1 + chapter.limits.revivals):
            code, at, said = _drive(servers, {**asdict(job), "name": name, "servers": _paths(servers), "stops": stops})
            memory = boxes.out_of_memory(f"{name}driver")
            _sweep(name)
            if code == 0:
                return _read(job, started, said)
            if code > 0 or not at or (code == -signal.SIGKILL and not memory):  # killed by nothing that it listened to
                break
            stops[at] = Stop.OUTPUT.value  # what came from this cell killed the process that listened to it
        raise InfrastructureError(f"a driver ended with code {code}: {servers.driver.printed()}")
    except warm.ServerError as error:
        if "CourseError: " in str(error):  # a check file that cannot be read: the author's fault, at every try
            raise
        raise InfrastructureError(str(error)) from error
    except (OSError, boxes.SandboxError, ValueError, KeyError) as error:
        raise InfrastructureError(f"{type(error).__name__}: {error}") from error
    finally:
        _sweep(name)


def _sweep(name: str) -> None:
    boxes.sweep(name)
    for folder in boxes.workroom().glob(f"{name}*"):
        boxes.remove(folder)


def _paths(servers: forkserver.Servers) -> dict[str, str]:
    return {"student": servers.student.path, "checker": servers.checker.path}


def _drive(servers: forkserver.Servers, question: dict[str, Any]) -> tuple[int, str, bytes]:
    """Run one driver. Returns its exit code (negative: the signal), the answer whose cell ran last, what it said."""
    chapter = course.chapter(question["submission"]["chapter"])
    at = ""
    with _cards(question, chapter) as cards, tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as answer:
        until = time.monotonic() + chapter.limits.notebook_seconds + GRACE
        asked.write(json.dumps({**question, "cards": cards}).encode())
        asked.flush()
        with warm.request(servers.driver.path, {}, [asked.fileno(), answer.fileno()]) as child:
            try:
                while (told := child.receive(max(0.01, until - time.monotonic()))) is not None:
                    at = told["at"]
            except TimeoutError:
                raise InfrastructureError("a driver did not end in time") from None
        answer.seek(0)
        return child.returncode or 0, at, answer.read()


@contextlib.contextmanager
def _cards(question: dict[str, Any], chapter: course.Chapter) -> Iterator[dict[str, Any]]:
    """Cards for one driver's kernels, as `Kernel` takes them: leased for the time of the `with`; {} for most jobs."""
    count = chapter.gpus if question["gpus"] is None else question["gpus"]
    if not count:
        yield {}
        return
    try:
        with leases.here().lease(question["name"], count, chapter.gpu_memory, CARD) as lease:
            yield {"environment": lease.environment(), "nodes": lease.nodes}
    except leases.LeaseError as error:
        raise InfrastructureError(str(error)) from error


def _read(job: Job, started: float, text: bytes) -> Verdict:
    said = json.loads(text)
    if "fault" in said:
        raise InfrastructureError(said["fault"])
    marks = tuple(Mark(**{**m, "result": Result(m["result"]), "fault": Fault(m["fault"])}) for m in said["marks"])
    evidence = replace(Evidence.from_json(said["evidence"]), parts=job.parts)
    return _verdict(job, started, marks, said["notebook"], tuple(said["notes"]), evidence)


def _verdict(
    job: Job,
    started: float,
    marks: tuple[Mark, ...],
    notebook: dict[str, Any],
    notes: tuple[str, ...],
    evidence: Evidence,
) -> Verdict:
    s = job.submission
    seconds = time.monotonic() - started
    return Verdict(s.student, s.chapter, job.digest, marks, job.seed, seconds, notebook, (*s.notes, *notes), evidence)
