"""Which kernel an exercise is asked in: its names must mean what they meant where its check stands.

nbgrader executes a test cell in its place; here it is asked after the student's cells, so that none of them can print what a
hidden test holds. The two differ where a cell further down changes a name that the test rests on: another question's `result`,
a column added to a table. Such a test is asked in a kernel that ran no further than to its place; and so is an exercise of ours
that needs a name which a cell that the student added further down changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from nbformat import NotebookNode

from across._process import global_names
from autograder.job import assemble
from autograder.model.course import Chapter
from autograder.model.rubric import InBox, PlannedTest, Rubric
from autograder.submissions import added_cells
from autograder.submissions.intake import Submission


@dataclass(frozen=True)
class Stages:
    """Where the tests of one submission are asked."""

    ends: dict[str, int]  # exercise -> the cell's number at which its kernel ends; of others the kernel runs all cells
    keep: dict[
        str, list[str]
    ]  # by grade id of a test cell: names that cells below it bind, which it must leave as they were

    @classmethod
    def of(cls, submission: Submission, rubric: Rubric) -> Stages:
        """Those of a submission."""
        in_box = [(test.exercise, test.in_box) for test in rubric.tests if test.in_box]
        if not (in_box or submission.added):
            return cls({}, {})
        notebook = assemble.assemble(submission, rubric.chapter)
        if not in_box:
            return cls(_changed_below(notebook, submission, rubric.chapter), {})
        at = {cell.metadata.get("nbgrader", {}).get("grade_id"): number for number, cell in enumerate(notebook.cells)}
        code = [(number, cell.source) for number, cell in enumerate(notebook.cells) if assemble.is_executed(cell)]
        modules = frozenset[str]().union(*(global_names.imports(source) for _, source in code))
        # read once: three students with hundreds of cells are more than a cache holds
        known = [(number, global_names.changes(source), global_names.uses(source)) for number, source in code]
        ends: dict[str, int] = {}
        keep: dict[str, list[str]] = {}
        for exercise, test in in_box:
            place = at[test.cell]
            below = frozenset[str]().union(*(changed for number, changed, _ in known if number > place)) - modules
            above = [(changed, used) for number, changed, used in known if number < place]
            if below & _rests_on(test, above):
                ends[exercise] = place
            keep[test.cell] = sorted(below & set(test.binds))
        return cls(ends, keep)

    def next(self, left: Collection[str], executed: bool) -> tuple[int | None, list[str]]:
        """The kernel to start when these exercises are left: where it ends (None: nowhere), and of which it is asked.

        First comes the one that runs all cells; it is over when the notebook has been `executed`, and asked.
        """
        whole = [exercise for exercise in left if exercise not in self.ends]
        if whole or not executed:
            return None, whole
        end = min(self.ends[exercise] for exercise in left)
        return end, [exercise for exercise in left if self.ends[exercise] == end]


def _changed_below(notebook: NotebookNode, submission: Submission, chapter: Chapter) -> dict[str, int]:
    """The exercises that need a name which a cell that the student added below the check changes: a helper's second version.

    Where the check stands it meant the first, and said what that is worth.
    """
    code = [(number, cell) for number, cell in enumerate(notebook.cells) if assemble.is_executed(cell)]
    modules = frozenset[str]().union(*(global_names.imports(cell.source) for _, cell in code))
    own = [(number, global_names.changes(cell.source)) for number, cell in code if added_cells.is_added(cell)]
    at = {cell.metadata.get("nbgrader", {}).get("grade_id"): number for number, cell in enumerate(notebook.cells)}
    ends = {}
    for name, needed in added_cells.needs(notebook.cells, submission.answers, chapter).items():
        place = at[next(each.grade_id for each in chapter.exercises if each.name == name)]
        below = frozenset[str]().union(*(changed for number, changed in own if number > place)) - modules
        if below & needed.names:
            ends[name] = place
    return ends


def helpers(asked: Collection[str], tests: Iterable[PlannedTest], notebook: NotebookNode) -> list[str]:
    """The exercises whose test cells stand above those of `asked` and bind names that these use: an import, a function."""
    at = {cell.metadata.get("nbgrader", {}).get("grade_id"): number for number, cell in enumerate(notebook.cells)}
    cells = [(test.exercise, test.in_box) for test in tests if test.in_box]
    wanted = {exercise for exercise, _ in cells if exercise in asked}
    for exercise, test in sorted(cells, key=lambda each: -at[each[1].cell]):
        used = [other for name, other in cells if name in wanted and at[other.cell] > at[test.cell]]
        if any(set(test.binds) & set(other.uses) for other in used):
            wanted.add(exercise)
    return [exercise for exercise, _ in cells if exercise in wanted and exercise not in asked]


def resting(helper: str, asked: Collection[str], tests: Iterable[PlannedTest], notebook: NotebookNode) -> str:
    """The first exercise of `asked` for whose sake the test cell of `helper` was run: the others do not need it."""
    tests = tuple(tests)
    return next((each for each in asked if helper in helpers([each], tests, notebook)), min(asked))


def _rests_on(test: InBox, above: list[tuple[frozenset[str], frozenset[str]]]) -> frozenset[str]:
    """The names that a test reads, and what the cells above it, each with what it changes and uses, read to make these."""
    found, fresh = frozenset[str](), frozenset(test.uses)
    while fresh:
        found |= fresh
        fresh = frozenset[str]().union(*(used for changed, used in above if changed & fresh)) - found
    return found
