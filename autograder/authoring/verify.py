"""Tests of the checks themselves: what `autograder verify` runs, through the real grading path.

The reference must pass on many seeds and the blank score nothing; every listed wrong answer must fail with its sentence,
every other right one pass; nine in ten, and a half, of the reference's mutants must not get full points; and no check may
judge the same answer differently on other inputs. Each of these is a submission like a student's, graded in the sandbox.

On many seeds, without a box (see `worth`): a wrong rule earns half at most and an answer without a thought nothing. The
visible check passes what is right; which listed wrong answers it passes is told. What is `innocent` costs nothing.

Of an imported chapter, which is somebody else's code, nothing runs without a box; which wrong answers its tests accept, and
what would tell them, is `accepted`.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from autograder.authoring import accepted, build, innocent, mutants, unboxed, worth
from autograder.authoring.accepted import Accepted
from autograder.authoring.mutants import Mutant
from autograder.authoring.trials import Trial, trials_of
from autograder.authoring.worth import Tried
from autograder.job import forkserver, grade
from autograder.job.forkserver import InfrastructureError
from autograder.model import test_cells
from autograder.model.course import Chapter, Course, CourseError, near
from autograder.model.rubric import Rubric
from autograder.model.verdict import Mark, Result, Verdict
from autograder.probe import asking, listed
from autograder.probe.listed import Variant
from autograder.submissions.intake import Submission

SEEDS = 20  # for the reference
KILLED = 0.95  # of a chapter's mutants, at least
LIMITS = {  # many times the reference's: a mutant may loop
    "cell_seconds": 20.0,
    "question_seconds": 15.0,
    "notebook_seconds": 90.0,
}
FULL = (Result.PASSED, Result.MANUAL)


@dataclass
class Verified:
    """What was found of one chapter's checks."""

    chapter: str
    digest: str
    exercises: int
    tests: int = 0
    wrong: int = 0
    right: int = 0
    trivial: int = 0  # answers without a thought
    visible: int = 0  # answers that visible checks looked at
    ticked: list[str] = field(default_factory=list)  # wrong ones that they pass
    faults: list[str] = field(default_factory=list)  # the author's: what, where, how to mend it
    killed: int = 0
    survivors: list[Mutant] = field(default_factory=list)
    equivalents: list[tuple[Mutant, str]] = field(default_factory=list)  # and why
    flakes: list[str] = field(default_factory=list)  # checks that judge one answer now so, now so
    accepted: list[Accepted] = field(default_factory=list)  # of an imported chapter
    notes: list[str] = field(default_factory=list)  # what costs nobody points

    @property
    def mutants(self) -> int:
        """How many count: all but the equivalent ones."""
        return self.killed + len(self.survivors)

    @property
    def share(self) -> float:
        """The share of the mutants that was killed."""
        return self.killed / self.mutants if self.mutants else 1.0

    @property
    def good(self) -> bool:
        """Whether the checks do what they must."""
        return not self.faults and not self.flakes and self.share >= KILLED


def complaints(found: Verified) -> Iterator[str]:
    """What is to be mended, a line each."""
    yield from (*found.faults, *found.flakes)
    if found.share < KILLED and not found.accepted:
        for mutant in found.survivors:
            yield f"full points for a mutant of {mutant.answer} ({mutant.operator}):\n{mutant.diff}"


def digest(course: Course, chapter: str) -> str:
    """SHA-256 of what decides what is found: the chapter's source, but for its prose, and its checks."""
    source = tried(course.source(chapter).read_text(encoding="utf-8"))
    checks = [path.read_bytes() for path in course.check_sources(chapter)]
    return hashlib.sha256(b"\0".join([source.encode(), *checks])).hexdigest()


def tried(source: str) -> str:
    """A chapter's source without what no answer meets: prose that nobody answers, and reasons for its house figures."""
    lines = [line for line in source.splitlines() if not build.WHY.match(line)]
    cells = re.split(r"^(?=# %%)", "\n".join(lines), flags=re.MULTILINE)
    return "\n".join(cell.strip() for cell in cells if cell.partition("\n")[0].strip() != "# %% [markdown]")


def verify(
    course: Course,
    chapter_name: str,
    *,
    seeds: int = SEEDS,
    progress: Callable[[int, int, str], None] = lambda *_: None,  # (done, of how many, what)
    exercises: Iterable[str] = (),
    quick: bool = False,
) -> Verified:
    """Try the checks of one chapter, or of some of its `exercises`: their listed answers and mutants alone.

    `quick`: only what takes seconds and no sandbox: wrong rules, answers without a thought, visible checks. Of an imported
    chapter nothing is without a sandbox, and `quick` leaves out mutants, which take most of the time.

    Leaves no server running. Raises CourseError, SandboxError, InfrastructureError (after another try).
    """
    chapter = course.chapter(chapter_name)
    known = {each.name: each for each in chapter.exercises if not each.manual}
    for name in exercises:
        if name not in known:
            raise CourseError(f"{chapter_name}: no checked exercise {name!r}; {near(name, known)}")
    looked_at = [known[name] for name in exercises] or list(chapter.exercises)
    file, source = course.listed_file(chapter_name), build.solution_source(course, chapter_name)
    listed.must_fit(file, source, {each.name for each in chapter.exercises})
    theirs = course.source(chapter_name).suffix == ".ipynb"  # imported
    if theirs or not quick:
        forkserver.launch(course, chapter_name)
    found = Verified(chapter_name, digest(course, chapter_name), len(looked_at))
    found.notes += filter(None, [listed.unlisted(course, chapter_name)])
    if theirs:
        trials = list(accepted.trials(course, chapter, looked_at, seeds, not quick))
    else:
        trials = list(trials_of(chapter, looked_at, file, source, seeds))
    if not theirs:
        progress(0, len(trials), "wrong rules and answers without a thought, unboxed")
        _try_unboxed(course, chapter, found, worth.tried(looked_at, file, source, seeds))
        if quick:
            return found
    try:
        rubric = forkserver.make_rubric(course, chapter_name, limits=LIMITS)
        results: dict[Trial, Verdict] = {}
        for done, (trial, verdict) in enumerate(graded(course, rubric, trials), start=1):
            results[trial] = verdict
            progress(done, len(trials), f"{trial.kind} {trial.name}")
        results = {trial: results[trial] for trial in trials}
        _judge(chapter, file, found, results, {each.name for each in looked_at})
        if theirs:
            _tell_apart(course, rubric, found, results)
        return found
    finally:
        forkserver.close()


def _try_unboxed(course: Course, chapter: Chapter, found: Verified, tried: list[Tried]) -> None:
    """Ask the checks of our own author's answers, in no box."""
    asked = list(zip(tried, unboxed.ask(course, chapter.name, [each.asked for each in tried]), strict=True))
    found.faults += [fault for each, of in asked for fault in worth.faults(chapter.checks, each, of)]
    found.flakes += [flake for each, of in asked for flake in worth.flakes(each, of)]
    found.ticked = [each.name for each, of in asked if worth.ticked(each, of)]
    right = [(each.name, each.asked) for each in tried if each.kind in ("reference", "right")]
    found.faults += [f"{chapter.checks}, {cost}" for cost in innocent.costs(course, chapter.name, right)]
    for kind in ("trivial", "wrong", "right"):
        setattr(found, kind, sum(each.kind == kind for each in tried))
    found.visible = len(tried)


def _tell_apart(course: Course, rubric: Rubric, found: Verified, results: dict[Trial, Verdict]) -> None:
    """Of the wrong answers with full points those alone survive that something tells from the solution."""
    wrong = [(trial.of, verdict) for trial, verdict in results.items() if isinstance(trial.of, Mutant)]
    full = {mutant: _full(rubric.chapter, verdict, mutant) for mutant, verdict in wrong}
    of_solution = [mark for trial, verdict in results.items() if trial.kind == "reference" for mark in verdict.marks]
    sound = {mark.exercise for mark in of_solution} - {mark.exercise for mark in of_solution if mark.result not in FULL}
    found.accepted = accepted.told_apart(course, rubric, full, sound)
    told = [mutant for each in found.accepted for mutant, _ in each.told]
    same = [mutant for mutant in found.survivors if mutant not in told]
    found.equivalents += [(mutant, "nothing that was tried tells it from the solution") for mutant in same]
    found.survivors = [mutant for mutant in found.survivors if mutant in told]
    for cell in test_cells.read(course.source(found.chapter)):
        found.notes += [
            f"{cell.grade_id}: a hidden test says what it expects: `{line}`; in nbgrader's own feedback students read it, in "
            "ours nothing of a hidden test"
            for line in accepted.leaks(cell)
        ]


def _full(chapter: Chapter, verdict: Verdict, mutant: Mutant) -> bool:
    """Whether every exercise that looks at the mutant's cell has full points."""
    marks = {mark.exercise: mark for mark in verdict.marks}
    of = [exercise.name for exercise in chapter.exercises if mutant.answer in exercise.answer_ids]
    return all(marks[name].result in FULL for name in of)


def graded(course: Course, rubric: Rubric, trials: Iterable[Trial]) -> Iterator[tuple[Trial, Verdict]]:
    """The verdict on each of `trials`, as they come, one a core at once.

    Raises SandboxError, InfrastructureError (after another try).
    """
    pool = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="verify")
    try:
        waiting = {pool.submit(_grade, course, rubric, trial): trial for trial in trials}
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _grade(course: Course, rubric: Rubric, trial: Trial) -> Verdict:
    job = grade.Job(Submission(f"({trial.kind})", rubric.chapter.name, trial.answers), rubric, trial.seed)
    try:
        return grade.grade_job(job, course)
    except InfrastructureError:
        return grade.grade_job(job, course)


def _judge(
    chapter: Chapter, file: Path, found: Verified, results: Mapping[Trial, Verdict], exercises: Set[str]
) -> None:
    tests: set[str] = set()
    for trial, verdict in results.items():
        marks = {mark.exercise: mark for mark in verdict.marks if mark.exercise in exercises}
        for outcome in verdict.evidence.outcomes:
            if outcome.exercise not in exercises:
                continue
            tests.add(outcome.test)
            if outcome.broke:
                found.faults.append(
                    f"{chapter.checks}, {outcome.test}: met {outcome.kind} on the {trial.kind} {trial.name} with seed "
                    f"{trial.seed}; a check says a sentence, whatever it is given"
                )
        found.faults += [f"{chapter.checks}, {said}" for said in _said(file, trial, marks, _claimed(verdict))]
        if isinstance(trial.of, Mutant):
            _count(file, chapter.checks, found, trial.of, _full(chapter, verdict, trial.of))
    found.faults = list(dict.fromkeys(found.faults))
    found.tests = len(tests)


def _claimed(verdict: Verdict) -> dict[str, str]:
    """Exercise -> the listed answer that the sentence speaks of which its student reads, or that says most of it."""
    failed = sorted((each for each in verdict.evidence.outcomes if not each.passed), key=lambda each: each.broke)
    return {each.exercise: each.misconception.partition(asking.OR)[0] for each in reversed(failed)}


def _said(file: Path, trial: Trial, marks: dict[str, Mark], claimed: dict[str, str]) -> Iterator[str]:
    """What is wrong with how one trial was judged, mutants aside."""
    at = f"with seed {trial.seed}"
    if trial.kind == "reference":
        for mark in marks.values():
            if mark.result not in FULL:
                yield f'exercise "{mark.exercise}": the reference is {mark.result} {at} ({mark.message}); mend the check'
    if trial.kind == "innocent":
        for mark in marks.values():
            if mark.result not in FULL:
                said = f"the solution with {trial.name} is {mark.result} {at} ({mark.message}); mend the test"
                yield f'exercise "{mark.exercise}": {said}'
    if trial.kind == "blank":
        for mark in marks.values():
            if mark.points:
                yield f'exercise "{mark.exercise}": a blank answer gets {mark.points:g} points {at}; mend the check'
    if not isinstance(trial.of, Variant):
        return
    variant, mark = trial.of, marks[trial.of.exercise]
    what = f'exercise "{mark.exercise}": the listed answer "{variant.name}"'
    if variant.correct and mark.result not in FULL:
        yield f"{what} is right and {mark.result} {at} ({mark.message}); mend the check"
    elif not variant.correct and mark.result in FULL:
        yield f"{what} is wrong and gets full points {at}; mend the check"
    elif not variant.correct and variant.says not in mark.message:
        yield f"{what} is not told {variant.says!r} {at}, but {mark.message!r}; mend the check or what it `says`"
    elif not variant.correct and variant.says not in _says(file, mark.exercise, name := claimed.get(mark.exercise, "")):
        yield f"{what} is told what {name!r} is {at}: their sentences are alike; make them differ"


def _says(file: Path, exercise: str, name: str) -> str:
    named = [each.says for each in listed.variants(file) if (each.exercise, each.name) == (exercise, name)]
    return next((says for says in named if says), "")


def _count(file: Path, checks: str, found: Verified, mutant: Mutant, survived: bool) -> None:
    same = [each for each in listed.equivalents(file) if mutants.same(mutant, each.answer, each.change)]
    if survived and same:
        found.equivalents.append((mutant, same[0].because))
    elif survived:
        found.survivors.append(mutant)
    else:
        found.killed += 1
        found.faults += [
            f"{checks}, equivalent {each.change}: a check tells it from the reference; take it out of the list"
            for each in same
            if each.change is not None
        ]
