"""How the listed wrong answers of a chapter behave on inputs that all share, so that a student's can be told by it.

Each is graded as a submission whose other answers are the reference's, in a kernel of its own: once for a rubric on a machine,
for the inputs are the rubric's, not a class's. Whoever knows them can at most choose what a wrong answer is called.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable

import msgspec

from autograder.job.forkserver import InfrastructureError
from autograder.job.grade import Job
from autograder.model.behaviour import NOT_COMPARED, Compared, Known
from autograder.model.course import Course, CourseError
from autograder.model.rubric import Rubric
from autograder.model.verdict import Verdict
from autograder.probe import listed
from autograder.probe.listed import Variant
from autograder.store import cache
from autograder.submissions.intake import Submission

Run = Callable[[list[Job]], Generator[tuple[Job, Verdict | InfrastructureError], None, None]]


def compared(course: Course, rubric: Rubric, run: Run) -> Compared:
    """How the answers of a class are compared; `run` grades the listed ones that were not seen yet.

    Raises CourseError where a listed answer changes what the reference does not hold.
    """
    if (found := kept(course, rubric)) is not None:
        return found
    known, whole = _known(_jobs(course, rubric, _seed(rubric), _wrong(course, rubric)), run)
    if whole:
        cache.keep(_file(rubric), msgspec.json.encode(known).decode())
    return Compared(_seed(rubric), known)


def kept(course: Course, rubric: Rubric) -> Compared | None:
    """The same, where the listed answers were seen on this machine already, or there are none."""
    if not _wrong(course, rubric):
        return NOT_COMPARED
    with contextlib.suppress(msgspec.DecodeError):  # of none, or of an earlier version
        return Compared(_seed(rubric), msgspec.json.decode(cache.read(_file(rubric)), type=tuple[Known, ...]))
    return None


def _wrong(course: Course, rubric: Rubric) -> list[Variant]:
    return [each for each in listed.variants(course.listed_file(rubric.chapter.name)) if not each.correct]


def _seed(rubric: Rubric) -> int:
    return int(rubric.digest[:16], 16)


def _file(rubric: Rubric) -> str:
    return f"behaviour-{rubric.chapter.name}-{rubric.digest}.json"


def _jobs(course: Course, rubric: Rubric, seed: int, wrong: Iterable[Variant]) -> list[tuple[Variant, Job]]:
    from autograder.authoring import build

    reference = build.solution_source(course, rubric.chapter.name)
    made = []
    for each in wrong:
        try:
            answers = {**reference, each.answer: each.written_over(reference[each.answer])}
        except (KeyError, ValueError) as error:
            raise CourseError(f"{course.listed_file(each.chapter).name}: {error}; mend the row") from None
        submission = Submission(f"({each.answer}: {each.name})", rubric.chapter.name, answers)
        # first as any student is asked, by another seed: an answer may keep something from question to question
        made.append((each, Job(submission, rubric, seed + 1, Compared(seed, only=(each.exercise,)))))
    return made


def _known(jobs: list[tuple[Variant, Job]], run: Run) -> tuple[tuple[Known, ...], bool]:
    """What was seen of each listed answer, in their order, and whether nothing is missing by a fault of this machine."""
    seen: dict[int, Verdict] = {}
    for job, verdict in run([job for _, job in jobs]):
        if isinstance(verdict, Verdict):
            seen[id(job)] = verdict
    known = [Known(each.exercise, each.name, seen[id(job)].behaviour) for each, job in jobs if id(job) in seen]
    return tuple(known), len(known) == len(jobs)
