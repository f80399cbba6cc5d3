"""A verdict once more, years later: the answers that were kept, graded by a course that is as it was then, or as it is now.

What was recorded names the digests of all that decided it. Where the course at hand has the same, the job is the same, and so
must the verdict be; where it has not, the commit that has is named, and how to have it beside this one.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

from autograder.engine.jobs import Jobs
from autograder.gradebook import evidence
from autograder.gradebook.evidence import Basis, Kept
from autograder.job import forkserver
from autograder.job.grade import Job
from autograder.model.course import Course, CourseError, Limits
from autograder.model.verdict import Mark, Verdict

ENVIRONMENT, TIME = "environment", "time"  # parts of a digest that are no file of the course's
SHORT = 12  # characters of a commit where it is shown


@dataclass(frozen=True)
class Again:
    """A verdict as it was recorded, and as it is found again."""

    kept: Kept
    now: Verdict
    elsewhere: str = ""  # versions and machine of then, where they are others now
    differs: tuple[str, ...] = ()  # the parts of the digest that are others: `Rubric.parts`

    @property
    def pairs(self) -> list[tuple[Mark, Mark | None]]:
        """The marks as they were, each with what it is now; None where that exercise is no more."""
        now = {mark.exercise: mark for mark in self.now.marks}
        return [(mark, now.get(mark.exercise)) for mark in self.kept.verdict.marks]


def grade(
    course: Course,
    kept: Kept,
    out: Path,
    reference: Mapping[str, str],
    *,
    as_then: bool = True,
    trust: bool = False,
) -> Again:
    """Grade what was kept of a student; nothing is recorded.

    `as_then`: with the limits and devices of then, and by the same course; else by the course, and the limits, of now, on the
    same inputs as long as its checks draw the same. `reference` has the chapter's own answers; `trust`: what was graded in no
    sandbox may be so again. Raises CourseError where what is needed was not kept, or the course is another one by now, with
    what helps; forkserver.InfrastructureError, SandboxError.
    """
    verdict, basis = kept.verdict, evidence.read_basis(out, kept.basis)
    chapter, student = verdict.chapter, verdict.student
    if kept.answers is None or basis is None:
        raise CourseError(f"{chapter}, {student}: what the verdict of {kept.moment} rests on is not in {out}/evidence")
    if not (basis.sandboxed or trust):
        raise CourseError(
            f"{chapter}, {student}: was graded in no sandbox; give --trust-submissions to run it so again"
        )
    known = {each.name for each in fields(Limits)}
    gpus = "simulated" if basis.simulated else basis.gpus
    then = {"limits": {name: value for name, value in basis.limits.items() if name in known}, "gpus": gpus}
    rubric = forkserver.make_rubric(course, chapter, sandboxed=basis.sandboxed, **(then if as_then else {}))
    own = tuple(sorted(reference.items()))
    if rubric.chapter.follow_through is not None:
        rubric = replace(rubric, reference=own)
    factor = verdict.evidence.parts.get(TIME, "1").partition(" ")[0]
    job = Job(kept.answers, rubric.with_time(float(factor)), verdict.seed, reference=own)
    was, now = verdict.evidence.parts, job.parts
    others = sorted(name for name in was.keys() | now.keys() if was.get(name) != now.get(name))
    differs = tuple(name for name in others if name != ENVIRONMENT)
    if differs and as_then:
        raise CourseError(_another(course, kept, basis, differs, out))
    with Jobs(course, 1) as run:
        elsewhere = was[ENVIRONMENT] if ENVIRONMENT in others else ""
        return Again(kept, run.verdict(job), elsewhere, differs)


def _another(course: Course, kept: Kept, basis: Basis, differs: tuple[str, ...], out: Path) -> str:
    student = kept.verdict.student
    what = f"{basis.chapter}, {student}: graded {kept.moment} by another {', '.join(differs)} than this course has"
    if not basis.commit:
        return f"{what}; which commit had them is not known: its files are those that {out}/evidence/{kept.basis} names"
    changed = ", with changes that were not committed" if basis.changed else ""
    root, place = evidence.repository(course.root)
    beside = root.parent / f"replay-{basis.commit[:SHORT]}"
    call = ("uv", "run", "autograder", "--course", str(beside / place), "replay", student, basis.chapter)
    call = (*call, "--out", str(out.absolute()), "--at", kept.moment)
    return (
        f"{what}; it was commit {basis.commit[:SHORT]}{changed}. Have it beside this one: "
        f"git -C {shlex.quote(str(root))} worktree add {shlex.quote(str(beside))} {basis.commit}; "
        f"cd {shlex.quote(str(beside))}; uv sync; {shlex.join(call)}"
    )
