"""A verdict once more, years later: the answers that were kept, graded by a course that is as it was then.

What was recorded names the digests of all that decided it. Where the course at hand has the same, the job is the same, and so
must the verdict be; where it has not, the commit that has is named, and how to have it beside this one.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from autograder.engine.jobs import Jobs
from autograder.gradebook import evidence, record
from autograder.gradebook.evidence import Basis, Kept
from autograder.job import forkserver
from autograder.job.grade import Job
from autograder.model.course import Course, CourseError
from autograder.model.verdict import Mark, Verdict

ANSWERS, ENVIRONMENT, TIME = "answers", "environment", "time"  # parts of a digest that are no file of the course's
SHORT = 12  # characters of a commit where it is shown


@dataclass(frozen=True)
class Replayed:
    """A verdict as it was recorded, and as it is found again."""

    kept: Kept
    now: Verdict
    elsewhere: str = ""  # versions and machine of then, where they are others now
    differs: tuple[str, ...] = ()  # the parts of the digest that are others: `Rubric.parts`

    @property
    def differences(self) -> list[tuple[Mark, Mark]]:
        """The marks that are others now, as they were and are."""
        pairs = zip(self.kept.verdict.marks, self.now.marks, strict=True)
        return [pair for pair in pairs if pair[0] != pair[1]]


def replay(
    course: Course,
    chapter: str,
    student: str,
    out: Path,
    reference: Mapping[str, str],
    moment: datetime | None = None,
    command: str = "autograder",
    now: bool = False,
) -> Replayed:
    """Grade what a student had handed in at a moment, or last, as it was graded then; nothing is recorded.

    `now`: by the course as it is now, on the same inputs as long as its checks draw the same. `reference` has the chapter's own
    answers. Raises CourseError where nothing was kept, or the course is another one by now, with the `command` that helps;
    forkserver.InfrastructureError, SandboxError.
    """
    with record.book(out, course.chapter(chapter)) as opened:
        kept = evidence.at(opened, chapter, student, moment)
    if kept is None:
        raise CourseError(f"{chapter}: no verdict of {student!r} is kept" + (" of that time" if moment else ""))
    basis = evidence.read_basis(out, kept.basis)
    if kept.answers is None or basis is None:
        raise CourseError(f"{chapter}, {student}: what the verdict of {kept.moment} rests on is not in {out}/evidence")
    gpus = "simulated" if basis.simulated else basis.gpus
    rubric = forkserver.make_rubric(course, chapter, sandboxed=basis.sandboxed, limits=basis.limits, gpus=gpus)
    own = tuple(sorted(reference.items()))
    if rubric.chapter.follow_through is not None:
        rubric = replace(rubric, reference=own)
    job = Job(kept.answers, rubric.with_time(_factor(kept.verdict)), kept.verdict.seed, reference=own)
    others = _others(kept.verdict, job)
    differs = [name for name in others if name != ENVIRONMENT]
    if differs and not now:
        raise CourseError(_another(student, kept, basis, differs, out, command))
    with Jobs(course, 1) as run:
        elsewhere = kept.verdict.evidence.parts[ENVIRONMENT] if ENVIRONMENT in others else ""
        return Replayed(kept, run.verdict(job), elsewhere, tuple(differs))


def _others(verdict: Verdict, job: Job) -> list[str]:
    then, now = verdict.evidence.parts, job.parts
    return sorted(name for name in then.keys() | now.keys() if then.get(name) != now.get(name))


def _factor(verdict: Verdict) -> float:
    said = verdict.evidence.parts.get(TIME, "")
    return float(said.partition(" ")[0]) if said else 1.0


def _another(student: str, kept: Kept, basis: Basis, differs: list[str], out: Path, command: str) -> str:
    what = f"{basis.chapter}, {student}: graded {kept.moment} by another {', '.join(differs)} than this course has"
    if not basis.commit:
        return f"{what}; which commit had them is not known: its files are those that {out}/evidence/{kept.basis} names"
    changed = ", with changes that were not committed" if basis.changed else ""
    place, commit = Path("..") / f"replay-{basis.commit[:SHORT]}", basis.commit
    again = f"{command} replay {shlex.quote(student)} {basis.chapter} --out {shlex.quote(str(out.absolute()))}"
    return (
        f"{what}; it was commit {commit[:SHORT]}{changed}. Have it beside this one: git worktree add {place} {commit}; "
        f"there: uv sync; {again} --at {kept.moment}"
    )
