"""Grading a class: every submission of a folder, each a job of an executor, recorded as it comes back.

`grade_class` refuses to start where the checks fail on the reference (the author's fault), grades only what changed since
the last time, and equal answers once; it tries again what this machine failed at, and never lets one submission touch
another.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from autograder.engine.jobs import Jobs
from autograder.engine.request import Request
from autograder.gradebook import receipts
from autograder.job import check, clocks, forkserver
from autograder.job.grade import Job
from autograder.model.amounts import are, some
from autograder.model.course import Chapter, Course, CourseError, near
from autograder.model.rubric import Rubric
from autograder.model.verdict import LOOK, Mark, Result, Verdict
from autograder.sandbox import boxes
from autograder.store import files, log
from autograder.submissions import exchange, instead, intake
from autograder.submissions.handed_in import HandedIn
from autograder.submissions.intake import Found, Submission

BOOK = ("gradebook.db", "nbgrader_config.py")  # what is in OUT where somebody may have been graded already
_PASSED: set[tuple[str, tuple[int, ...]]] = set()  # digests of references' jobs, and the servers on which they passed


@dataclass
class ClassResult:
    """What a run over a class did."""

    graded: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    faults: dict[str, str] = field(default_factory=dict)  # student -> why this machine could not grade the submission

    def with_more(self, later: ClassResult) -> ClassResult:
        """This run and a later one, of which the latter's word on a student counts."""
        done = {*later.graded, *later.unchanged, *later.faults}
        return ClassResult(
            [each for each in self.graded if each not in done] + later.graded,
            [each for each in self.unchanged if each not in done] + later.unchanged,
            {student: why for student, why in self.faults.items() if student not in done} | later.faults,
        )


Progress = Callable[[int, int, str], None]  # (done, of how many, student)


def grade_class(
    request: Request,
    *,
    progress: Progress | None = None,
    meanwhile: Callable[[], object] = lambda: None,
    begun: Callable[[], object] = lambda: None,
) -> ClassResult:
    """Grade a class into the gradebook in its `out`.

    `meanwhile` is called while the reference is graded, `begun` when it has passed and something may be written.

    What every attempt took, and what went wrong, is in OUT/grading.log.

    Raises CourseError for the author's fault, where most notebooks are another chapter's and for an odd class, SandboxError
    when untrusted code cannot be run here, OSError when `submissions` or `out` cannot be used, files.BusyError when another
    grader writes there, clocks.BusyError when this machine has too much to do for the reference.
    """
    course, submissions, out = request.course, request.handed_in.folder, request.out
    executor, watching, anyway = request.executor, request.watching, request.watching or request.anyway
    found = intake.collect(submissions, course.chapter(request.chapter))
    if strangers := set(request.students) - {each.student for each in found}:
        name = min(strangers)
        raise CourseError(f"{submissions}: no student {name!r}; {near(name, [each.student for each in found])}")
    everyone = found
    found = [each for each in found if not request.students or each.student in request.students]
    if not request.trust and executor is None and (problem := boxes.problem()):
        raise boxes.SandboxError(problem)
    chapter = forkserver.limited(course.chapter(request.chapter), request.limits, request.gpus)
    result = ClassResult()
    read = _read(found, chapter, request.handed_in, result.faults)  # while servers that were launched import
    if not watching:
        _of_this_chapter(submissions, chapter, read)
    secrets_ = exchange.secrets(everyone, chapter)  # of all of them, to see which is another's
    rubric = forkserver.make_rubric(
        course, request.chapter, sandboxed=not request.trust, limits=request.limits, gpus=request.gpus
    )
    own = tuple(sorted(request.reference.items()))
    if rubric.chapter.follow_through is not None:  # failed answers are asked again on top of the reference's
        rubric = replace(rubric, reference=own)
    chapter = rubric.chapter
    with ExitStack() as stack:
        run = stack.enter_context(Jobs(course, request.workers, executor))
        drawn = files.read(out / files.SEED) or secrets.token_bytes(32)  # nothing is written yet
        passed = _passing(request, rubric, run)
        if not (request.db_url or any((out / name).exists() for name in BOOK)):
            # for nothing if the reference fails; what an extension or another secret makes another job is begun anew
            run.begin(each[0] for each in _alike([_job(each, rubric, drawn, own) for each in read]).values())
        from autograder.engine import guard
        from autograder.gradebook import evidence
        from autograder.gradebook.record import Recorder, UnrecordedError  # and all of nbgrader: 0.6 s

        meanwhile()
        passed()  # before anything is written
        key = secret(out, drawn)
        stack.enter_context(log.kept(out))
        recorder = stack.enter_context(Recorder(out, chapter, request.db_url, request.extensions))
        stack.callback(run.end)  # before the log and the gradebook are closed, whatever ends this
        key = recorder.secret(key)
        recorder.basis = evidence.basis(out, course, rubric)
        begun()
        jobs: list[Job] = []

        def keep(into: list[str], write: Callable[..., object], what: object, submission: Submission) -> None:
            try:
                write(what, submission.timestamp, submission)
                receipts.keep(out, chapter.name, submission.student, secrets_[submission.student])
                into.append(submission.student)
            except UnrecordedError as error:  # this one's alone
                result.faults[submission.student] = str(error)

        if not anyway:
            guard.check_times(read, recorder, request.handed_in.streamed)
        for submission in read:
            job = _job(submission, rubric.with_time(recorder.times.get(submission.student, 1.0)), key, own)
            if not request.again and recorder.known(submission.student) == job.digest:
                keep(result.unchanged, recorder.renew, submission.student, submission)
            else:
                jobs.append(job)
        if jobs and not anyway:
            guard.check_blanks(read, chapter)
        done = len(result.unchanged) + len(result.faults)
        alike = _alike(jobs)
        write = partial(keep, result.graded, recorder.write)
        points = {job.submission.student: guard.recorded(recorder, job.submission.student, job.answers) for job in jobs}
        before = {student: each for student, each in points.items() if each is not None}
        with guard.Guard(len(jobs), before, write, anyway) as kept:
            for first, verdict in run.verdicts([each[0] for each in alike.values()]):
                for submission in (job.submission for job in alike[first.digest]):
                    student, done = submission.student, done + 1
                    if isinstance(verdict, Verdict):
                        kept.add(_given_to(submission, verdict, first), submission)
                    else:
                        result.faults[student] = str(verdict)
                    if progress is not None:
                        progress(done, len(found), student)
    return result


def _passing(request: Request, rubric: Rubric, run: Jobs) -> Callable[[], object]:
    """Begin to grade the reference; what is returned waits until it has every point, and raises CourseError where it has not.

    While watching it is graded once, for as long as nothing of it and of its servers changes, if these are here.
    """
    course, here = request.course, request.executor is None
    reference = _reference(rubric, request.reference)
    if here and request.watching and (reference.digest, forkserver.running(course, rubric)) in _PASSED:
        return lambda: None  # `--watch` grades batch after batch
    run.begin([reference])

    def passed() -> None:
        try:
            try_reference(course, rubric, request.reference, run=run)
        except (CourseError, clocks.BusyError):
            if not run.ahead:
                raise
            run.forget()  # perhaps what ran beside it took the time that it needs
            try_reference(course, rubric, request.reference, run=run)
        if here and (servers := forkserver.running(course, rubric)):
            _PASSED.add((reference.digest, servers))

    return passed


def _read(found: list[Found], chapter: Chapter, class_: HandedIn, faults: dict[str, str]) -> list[Submission]:
    """Read what was handed in; of whom it cannot be read, the disk's fault, a line in `faults`."""
    made = []
    for each in found:
        try:
            submission = intake.read(each, chapter)
            if submission.nothing and (file := class_.instead.get(each.student)):
                submission = replace(submission, refused=instead.not_it(file, chapter), notes=())
            if doubt := class_.doubts.get(each.student):
                submission = replace(submission, notes=(f"{LOOK}{doubt}", *submission.notes))
            made.append(submission)
        except OSError as error:  # not the submission's: see `intake.read`
            faults[each.student] = f"its file could not be read: {error}"
    return made


def _of_this_chapter(folder: Path, chapter: Chapter, read: list[Submission]) -> None:
    """Raise CourseError where most notebooks are another chapter's: it is the command that is wrong."""
    notebooks = [each.other_chapter for each in read if not each.nothing]
    name, count = instead.mostly(notebooks)
    if name:
        of = f"{count} of {some(len(notebooks), 'notebook')} {are(count)}"
        raise CourseError(
            f"{folder}: {of} {instead.called(name)}, not {chapter.name}'s: nobody was graded; run `autograder grade "
            f"{instead.short(name)}`, or give the submissions of {chapter.name}"
        )


def _alike(jobs: list[Job]) -> dict[str, list[Job]]:
    """The jobs by their digest. Equal digest, equal seed, equal verdict: a class's blank notebooks are executed once."""
    found: dict[str, list[Job]] = {}
    for job in jobs:
        found.setdefault(job.digest, []).append(job)
    return found


def _given_to(submission: Submission, verdict: Verdict, graded: Job) -> Verdict:
    """The verdict on equal answers, as this submission's own: what intake noticed of its file is its own."""
    if submission is graded.submission:
        return verdict
    notes = verdict.notes[len(graded.submission.notes) :]
    own = {"student": submission.student, "language": submission.language, "notes": (*submission.notes, *notes)}
    return replace(verdict, **own)


def _job(submission: Submission, rubric: Rubric, key: bytes, reference: tuple[tuple[str, str], ...]) -> Job:
    job = Job(submission, rubric, 0, reference=reference)
    # of the answers alone: a grader that is mended asks the same questions again
    drawn = hmac.digest(key, f"{job.chapter}\0{job.answers}".encode(), "sha256")
    return replace(job, seed=int.from_bytes(drawn[:8], "big"))


def secret(out: Path, made: bytes = b"") -> bytes:
    """The class's secret, from which inputs are drawn: the same at every run, unknown to students; `made` if there is none."""
    path = out / files.SEED
    with files.only_writer(out):
        if not path.exists():
            files.replace(path, made or secrets.token_bytes(32), 0o600)
        return path.read_bytes()


def try_reference(
    course: Course, rubric: Rubric, reference: Mapping[str, str], seed: int = 1, run: Jobs | None = None
) -> Verdict:
    """Grade the chapter's own solution, the `reference`, here or as one of the jobs of a `run`.

    Raises CourseError, the author's fault, when it does not get every point, but clocks.BusyError where it ran out of time on
    a busy machine; nbgrader's own test cells may fail where an answer
    has no solution in the source.
    """
    chapter, job = rubric.chapter, _reference(rubric, reference, seed)
    with nullcontext(run) if run else Jobs(course, 1) as its:
        submission, verdict = job.submission, its.verdict(job)
    stubs = chapter.answers if chapter.assignment else {}  # a notebook may be imported without its solutions
    unsolved = {answer for answer, source in submission.answers.items() if stubs.get(answer) == source}
    for mark in verdict.marks:
        if rubric.weak(mark.exercise) and unsolved:
            continue
        if mark.result not in (Result.PASSED, Result.MANUAL):
            if _was_busy(verdict, mark):
                raise clocks.BusyError.at(
                    f'exercise "{mark.exercise}": the reference ran out of time: nobody was graded'
                )
            failed = [each for each in verdict.evidence.outcomes if each.exercise == mark.exercise and not each.passed]
            tests = [f"{each.kind if each.broke else each.says} [{each.test}]" for each in failed]
            seen = "; ".join(tests or (mark.message, *verdict.notes))
            raise CourseError(
                f'{chapter.checks}, exercise "{mark.exercise}": the reference is {mark.result} ({seen}; seed {verdict.seed}); '
                "mend the check or the solution: nobody was graded"
            )
    return verdict


def _was_busy(verdict: Verdict, mark: Mark) -> bool:
    """Whether the reference reached a limit of time at `mark`, on a machine that had too much to do."""
    given_up = [each for each in verdict.evidence.outcomes if each.kind.startswith(check.SLOW)]
    late = mark.result is Result.TIMEOUT or mark.exercise in {each.exercise for each in given_up}
    return late and (clocks.overloaded() or any(note.startswith(clocks.WAITED) for note in verdict.notes))


def _reference(rubric: Rubric, answers: Mapping[str, str], seed: int = 1) -> Job:
    """The job of the chapter's own solution."""
    return Job(Submission("(reference)", rubric.chapter.name, dict(answers)), rubric, seed)


def close() -> None:
    """End the warm servers."""
    _PASSED.clear()
    forkserver.close()
