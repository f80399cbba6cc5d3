"""How the listed wrong answers of a chapter behave on inputs that all share, and what a class's wrong answers are called by it.

Each is graded as a submission whose other answers are the reference's, in a kernel of its own, when a class has its marks and
somebody failed its exercise. What was seen is kept at once, for a rubric on a machine: the inputs are the rubric's, not a
class's. Whoever knows them can at most choose what a wrong answer is called.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Generator, Iterable, Sequence

import msgspec

from autograder.job.forkserver import InfrastructureError
from autograder.job.grade import Job
from autograder.model import behaviour
from autograder.model.behaviour import NOT_COMPARED, Compared, Known, Seen
from autograder.model.course import Course, CourseError
from autograder.model.rubric import Rubric
from autograder.model.verdict import Verdict
from autograder.probe import listed
from autograder.store import cache
from autograder.submissions.intake import Submission

Run = Callable[[list[Job]], Generator[tuple[Job, Verdict | InfrastructureError], None, None]]
Progress = Callable[[int, int, str], None]  # (done, of how many, which)


class Listed:
    """The listed wrong answers of the chapter of a rubric."""

    def __init__(self, course: Course, rubric: Rubric) -> None:
        """Raises CourseError where a row cannot be read, or changes what the reference does not hold."""
        self._rubric = rubric
        self._file = f"behaviour-{rubric.chapter.name}-{rubric.digest}.json"
        self._seed = int(rubric.digest[:16], 16)
        self._wrong = [each for each in listed.variants(course.listed_file(rubric.chapter.name)) if not each.correct]
        self._jobs = self._made(course) if self._wrong else []
        self.exercises = tuple(sorted({each.exercise for each in self._wrong}))
        self.compared = Compared(self._seed, self.exercises) if self._wrong else NOT_COMPARED

    def waiting(self, verdicts: Iterable[Verdict]) -> list[Verdict]:
        """Those of the verdicts with a wrong answer that may have a name and has none."""
        return [
            each for each in verdicts if any(mark.unnamed and mark.exercise in self.exercises for mark in each.marks)
        ]

    def named(self, verdicts: Sequence[Verdict], run: Run, progress: Progress) -> list[Verdict]:
        """The verdicts with the names of their wrong answers; `run` grades listed ones that were not seen yet.

        Without one where this machine failed at a listed answer of its exercise.
        """
        failed = {mark.exercise for each in verdicts for mark in each.marks if mark.unnamed}
        known = self._known(failed, run, progress)
        return [each.named(behaviour.labels(self._rubric.tests, each.behaviour, known)) for each in verdicts]

    def _known(self, exercises: Collection[str], run: Run, progress: Progress) -> list[Known]:
        """How the listed answers of the `exercises` behave: all of an exercise, or none."""
        seen: dict[str, tuple[Seen, ...]] = {}
        with contextlib.suppress(msgspec.DecodeError):  # of none, or of an earlier version
            seen = msgspec.json.decode(cache.read(self._file), type=dict[str, tuple[Seen, ...]])
        asked = [(row, job) for row, job in zip(self._wrong, self._jobs, strict=True) if row.exercise in exercises]
        new = [job for _, job in asked if job.submission.student not in seen]
        for done, (job, verdict) in enumerate(run(new), 1):
            name = job.submission.student
            if isinstance(verdict, Verdict):
                seen[name] = verdict.behaviour
                cache.keep(self._file, msgspec.json.encode(seen).decode())
            progress(done, len(new), name)
        missing = {row.exercise for row, job in asked if job.submission.student not in seen}
        return [
            Known(row.exercise, row.name, seen[job.submission.student])
            for row, job in asked
            if row.exercise not in missing
        ]

    def _made(self, course: Course) -> list[Job]:
        from autograder.authoring import build

        chapter = self._rubric.chapter.name
        reference = build.solution_source(course, chapter)
        asked = tuple(sorted(reference.items()))  # at a limit of time: what only a busy machine did is no behaviour
        made = []
        for each in self._wrong:
            try:
                answers = {**reference, each.answer: each.written_over(reference[each.answer])}
            except (KeyError, ValueError) as error:
                raise CourseError(f"{course.listed_file(chapter).name}: {error}; mend the row") from None
            submission = Submission(f"({each.answer}: {each.name})", chapter, answers)
            # first as any student is asked, by another seed: an answer may keep something from question to question
            compared = Compared(self._seed, only=(each.exercise,))
            made.append(Job(submission, self._rubric, self._seed + 1, compared, reference=asked))
        return made
