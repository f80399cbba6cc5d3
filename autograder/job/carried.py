"""What a failed answer owes to an earlier one: it is asked again on top of the reference's, where the course wants that.

An exercise whose code uses what an earlier answer binds cannot pass where that one is wrong. `after` says so of it. With the
course's policy `follow_through` the notebook is executed again, with the reference's source in place of the earlier answers
that failed, and who passes then has the error carried over: no points for that at 0, all at 1.

The reference is then in a box with the student's code. So nothing leaves this second run but whether an exercise passed: no
output, no sentence, no error, no note; and it is asked about the exercises alone that failed and use what was replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from across._process import global_names
from autograder.job import judge
from autograder.job.clocks import BusyError
from autograder.job.forkserver import InfrastructureError
from autograder.model.rubric import Rubric
from autograder.model.verdict import CARRIED, Fault, Mark, Result
from autograder.submissions import unanswered
from autograder.submissions.intake import Submission

FAILED = (Result.FAILED, Result.PARTIAL, Result.CRASHED, Result.TIMEOUT)
FINE = (Result.PASSED, Result.MANUAL)

Again = Callable[[Submission, tuple[str, ...], int], Iterable[Mark]]  # (answers, exercises, which run) -> their marks


@dataclass(frozen=True)
class Owed:
    """A failed exercise, and what it owes."""

    exercise: str
    first: tuple[str, ...]  # failed exercises whose names its own code uses
    replaced: tuple[str, ...]  # cells: theirs, and those that these use and that failed, too


def owed(rubric: Rubric, submission: Submission, marks: Sequence[Mark]) -> list[Owed]:
    """The failed exercises whose code uses what an earlier answer binds that failed, too; in order."""
    stubs = rubric.chapter.answers
    order = {cell: at for at, cell in enumerate(stubs)}
    wrong = {mark.exercise for mark in marks if mark.result not in FINE}
    coded = [each for each in rubric.chapter.exercises if each.name in wrong and not each.manual]
    of_cell = {cell: each.name for each in coded for cell in unanswered.own_cells(each)}
    binds = {
        cell: global_names.binds(stubs[cell]) | global_names.binds(rubric.references.get(cell, ""))
        for cell in of_cell
        if cell in stubs
    }

    def used(cell: str, source: str) -> set[str]:
        uses = global_names.uses(source)
        return {other for other, names in binds.items() if order[other] < order[cell] and names & uses}

    found = []
    for mark in marks:
        cells = unanswered.own_cells(rubric.exercise(mark.exercise)) & submission.answers.keys() & order.keys()
        if mark.result not in FAILED or mark.fault not in (Fault.STUDENT, Fault.LIMIT):
            continue
        direct = set().union(*(used(cell, submission.answers[cell]) for cell in cells)) - cells
        fresh, replaced = list(direct), set(direct)
        while fresh:  # what the reference of an earlier answer uses itself
            cell = fresh.pop()
            more = used(cell, rubric.references.get(cell, "")) - replaced - cells  # its own is what is judged
            fresh += more
            replaced |= more
        if direct:
            first = tuple(dict.fromkeys(of_cell[cell] for cell in sorted(direct, key=order.__getitem__)))
            found.append(Owed(mark.exercise, first, tuple(sorted(replaced))))
    return found


def after(rubric: Rubric, submission: Submission, marks: tuple[Mark, ...], again: Again) -> tuple[Mark, ...]:
    """The marks, where a failed one says what to mend first, or that it was carried over, with what the course gives for that.

    `again` grades answers in new boxes. Raises InfrastructureError, with no word of what came back.
    """
    by_name = {each.exercise: each for each in owed(rubric, submission, marks)}
    follows = rubric.chapter.follow_through
    asked = list(by_name.values()) if follows is not None and rubric.reference else []
    passed: set[str] = set()
    runs = groupby(sorted(asked, key=lambda each: each.replaced), key=lambda each: each.replaced)
    for number, (replaced, group) in enumerate(runs):
        names = tuple(each.exercise for each in group)
        answers = {**submission.answers, **{cell: rubric.references[cell] for cell in replaced}}
        invalid = {cell: why for cell, why in submission.invalid.items() if cell not in replaced}
        try:
            seen = again(replace(submission, answers=answers, invalid=invalid), names, number)
            passed |= {mark.exercise for mark in seen if mark.exercise in names and mark.result is Result.PASSED}
        except BusyError:
            raise
        except Exception as error:  # its text may hold what the student's code said
            raise InfrastructureError(f"asked again, of a reference's answers: {type(error).__name__}") from None
    made = []
    for mark in marks:
        if mark.exercise in passed:
            mark = _carried(rubric, mark, by_name[mark.exercise].first, follows or 0.0)
        elif mark.exercise in by_name:
            names = " and ".join(f"`{name}`" for name in by_name[mark.exercise].first)
            mark = replace(mark, message=f"{mark.message} It uses {names}, not right yet: mend that first.")
        made.append(mark)
    return tuple(made)


def _carried(rubric: Rubric, mark: Mark, first: tuple[str, ...], follows: float) -> Mark:
    points = max(mark.points, judge.awarded(mark.max_points, follows, rubric.chapter.step))
    label = f"{CARRIED} {' and '.join(f'`{name}`' for name in first)}"
    says = f"{label[0].upper()}{label[1:]}: with that right, your answer passes. {mark.message}"
    result = Result.PARTIAL if points else mark.result
    return replace(mark, points=points, result=result, message=says, misconception=label)
