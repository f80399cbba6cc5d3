"""What the tests of an imported course accept: wrong answers to each of its questions, graded like a student's.

Wrong answers are mutants of the solution's own lines, what returns a constant or another type, and the stub as it was
released. One that gets full points counts only if something tells it from the solution, see `telling`: the rest may be no
fault. An imported course is somebody else's code, so all of it runs in boxes, here and in `verify`.
"""

from __future__ import annotations

import ast
import difflib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass

from IPython.core.inputtransformer2 import TransformerManager

from across._process import global_names
from autograder.authoring import build, check_answer, innocent, mutants, nbgrader_source, telling, unboxed
from autograder.authoring.mutants import Mutant
from autograder.authoring.trials import Answers, Trial, known
from autograder.gpu import simulated
from autograder.job import forkserver, peers
from autograder.model import test_cells
from autograder.model.amounts import are
from autograder.model.course import Chapter, Course, Exercise
from autograder.model.rubric import Rubric
from autograder.model.test_cells import TestCell
from autograder.probe import asking, wire
from autograder.probe.asking import Student
from autograder.sandbox import boxes, owners

__all__ = ["Accepted", "leaks", "told_apart", "trials"]

SHOWN = 100  # characters of a changed line
# Wrong answers that are no change of a line
STUB, CONSTANT = "the stub, unchanged", "each function returns "
COMPARE = re.compile(r"assert_?[a-z]*_?(equal|allclose|almost)", re.IGNORECASE)  # their messages show both sides


@dataclass(frozen=True)
class Accepted:
    """What the tests of one answer make of the wrong ones."""

    answer: str  # grade id
    names: tuple[str, ...]  # what it binds that tests ask
    tests: tuple[str, ...]  # grade ids of the test cells that look at it
    wrong: int  # all that count
    told: tuple[tuple[Mutant, str], ...]  # wrong ones that have full points, each with the line that tells it
    untold: tuple[Mutant, ...]  # that have full points, too, and nothing tried tells from the solution
    lines: tuple[tuple[str, int], ...]  # lines that would tell, each with how many more it tells

    def __str__(self) -> str:
        """The finding: one line, then one for each wrong answer that is accepted, then the lines that tell them apart."""
        names = f" ({', '.join(self.names)})"[: SHOWN if self.names not in ((), (self.answer,)) else 0]
        tests = ", ".join([*self.tests[:3], *(["..."] if len(self.tests) > 3 else [])])
        head = f"{self.answer}{names}: your tests ({tests}) accept {len(self.told)} of {self.wrong} wrong answers"
        if self.untold:
            head += f"; {len(self.untold)} more that nothing tried tells from your solution {are(len(self.untold))} not counted"
        if not self.told:
            return head
        accepted = [f"  accepted: {described(mutant)}" for mutant, _ in self.told]
        return "\n".join([head, *accepted, *(f"  add: {line}  # tells {count}" for line, count in self.lines)])


def described(mutant: Mutant) -> str:
    """A wrong answer on one line: what was changed into what."""
    if mutant.operator == STUB or mutant.operator.startswith(CONSTANT):
        return mutant.operator
    old, new = ([line[1:].strip() for line in mutant.diff.splitlines() if line[:1] == sign] for sign in "-+")
    return f"`{' '.join(old)[:SHOWN]}` becomes `{' '.join(new)[:SHOWN]}`"


def trials(
    course: Course, chapter: Chapter, exercises: Sequence[Exercise], seeds: int, mutated: bool
) -> Iterator[Trial]:
    """The solution so often, the blank notebook, listed answers, the solution with what is innocent, each wrong answer."""
    reference = build.solution_source(course, chapter.name)
    file = course.listed_file(chapter.name)
    yield from known(exercises, file, reference, seeds, lambda answer, source: reference | {answer: source})
    looked_at = dict.fromkeys(answer for each in exercises if not each.manual for answer in each.answer_ids)
    for addition in innocent.additions(course, chapter.name):
        added = {answer: _added(reference[answer], addition) for answer in looked_at}
        yield Trial("innocent", addition, 1, reference | added)
    if not mutated:
        return
    own = nbgrader_source.solved_lines(course, chapter.name)
    for answer in looked_at:
        for number, mutant in enumerate(
            _wrong(answer, reference[answer], own[answer], chapter.answers.get(answer, ""))
        ):
            yield Trial("mutant", f"{answer} {number}", 1, reference | {answer: mutant.source}, mutant)


def _wrong(answer: str, reference: str, own: frozenset[int], stub: str) -> Iterator[Mutant]:
    source = _plain(reference)
    if source and source.count("\n") == reference.rstrip("\n").count("\n"):  # a magic of the whole cell is one call
        for mutant in (*mutants.mutants(answer, source), *mutants.of_another_type(answer, source)):
            if _changed(source, mutant.source) <= own:
                yield mutant
        for value, other in unboxed.trivial(source):
            yield Mutant(answer, f"{CONSTANT}{value}", other, source)
    if stub:
        yield Mutant(answer, STUB, stub, reference)


def _plain(source: str) -> str:
    """A cell without IPython's own syntax; "" where it is no Python even so."""
    made = TransformerManager().transform_cell(source).rstrip("\n")
    try:
        ast.parse(made)
    except (SyntaxError, ValueError):
        return ""
    return made


def _changed(reference: str, source: str) -> frozenset[int]:
    """The numbers of the lines of `reference` that are others in `source`."""
    matcher = difflib.SequenceMatcher(None, reference.split("\n"), source.split("\n"), autojunk=False)
    rows = (range(one + 1, two + 1) for kind, one, two, _, _ in matcher.get_opcodes() if kind != "equal")
    return frozenset(itertools.chain.from_iterable(rows))


def _added(source: str, addition: str) -> str:
    """A solution with an addition; where it defines no function, with a print and a helper of its own."""
    plain = _plain(source)
    if not plain:
        return source
    return innocent.added(plain, [addition]) or f'{source}\nprint("so far")\ndef {innocent.HELPER}(): pass\n'


def told_apart(course: Course, rubric: Rubric, full: Mapping[Mutant, bool], sound: Set[str]) -> list[Accepted]:
    """What is accepted of each answer, by whether each wrong one got full points.

    Nothing is said of an answer some test of which is not `sound`: its own solution fails it.
    """
    chapter = rubric.chapter
    reference = build.solution_source(course, chapter.name)
    cells = {cell.grade_id: cell for cell in test_cells.read(course.source(chapter.name))}
    made = []
    for answer in dict.fromkeys(mutant.answer for mutant in full):
        survivors = [mutant for mutant in full if mutant.answer == answer and full[mutant]]
        killed = sum(mutant.answer == answer and not full[mutant] for mutant in full)
        looking = [each.grade_id for each in chapter.exercises if not each.manual and answer in each.answer_ids]
        if not sound >= set(looking):
            continue
        tests = [cells[name] for name in looking]
        asked = _asked(reference[answer], tests)
        told = _told(course, rubric, answer, reference, tests, asked, survivors) if survivors else []
        lines = telling.fewest(told)
        first = [next(line for line, _ in lines if line in each) if each else "" for each in told]
        pairs = list(zip(survivors, first, strict=True))
        count = killed + sum(map(bool, first))
        accepted = tuple((mutant, line) for mutant, line in pairs if line)
        untold = tuple(mutant for mutant, line in pairs if not line)
        names = tuple(itertools.chain(*asked))
        made.append(Accepted(answer, names, tuple(looking), count, accepted, untold, tuple(lines)))
    return made


def _told(
    course: Course,
    rubric: Rubric,
    answer: str,
    reference: Answers,
    cells: Sequence[TestCell],
    asked: tuple[list[str], list[str]],
    survivors: Sequence[Mutant],
) -> list[list[str]]:
    """For each of the survivors the lines that tell it from the solution."""
    source = _plain(reference[answer])
    executed = list(check_answer.executed(course, rubric.chapter.name, {}))
    ids = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell, _ in executed]
    at = ids.index(answer)
    between = [plain for _, text in executed[at + 1 :] if (plain := _plain(text))]
    tests = [plain for cell in cells if (plain := _plain(cell.source))]
    others = [_plain(mutant.source) for mutant in survivors]
    try:
        with life(course, rubric, [text for _, text in executed[:at]]) as student:
            return telling.tell(student, source, between, tests, *asked, others)
    except (wire.WireError, asking.Refused, TypeError, LookupError, ValueError):  # one ends its process, answers oddly
        return [[] for _ in survivors]


def _asked(answer: str, cells: Sequence[TestCell]) -> tuple[list[str], list[str]]:
    """The functions and classes that an answer defines, and other names of its own that the tests read."""
    source = _plain(answer)
    functions = [node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    read = set().union(*(cell.uses for cell in cells))
    return functions, sorted((global_names.binds(source) & read) - set(functions))


@contextmanager
def life(course: Course, rubric: Rubric, code: Sequence[str]) -> Iterator[Student]:
    """A process in a box of its own that has executed `code`, to be asked; it ends with the block."""
    limits, name = rubric.chapter.limits, f"{owners.new_name('j')}."
    server = forkserver.servers(course, rubric).student.path
    with boxes.Box(f"{name}k", boxes.caps(limits), hidden=course.private) as box:
        environment = simulated.environment(rubric.chapter.gpus)
        of = peers.Peers(server, f"{name}p", box, limits, environment, course.private, rubric.chapter.files)
        of.code = list(code)
        try:
            with of.start(peers.LIFE) as channel:
                yield asking.beside(channel, peers.LIFE, rubric.chapter.allowed_ops)
        finally:
            of.close()


def leaks(cell: TestCell) -> list[str]:
    """Hidden lines whose message or output says what is expected: students read it in nbgrader's own feedback, not in ours."""
    source = _plain(cell.source)
    statements = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)] if source else []
    hidden = [node for node in statements if node.lineno in cell.hidden]
    return [ast.unparse(node).splitlines()[0][:SHOWN] for node in hidden if _shows(node)]


def _shows(node: ast.stmt) -> bool:
    """Whether what a statement says when it fails, or prints, holds a value that it tests for."""
    if isinstance(node, ast.Assert) and node.msg is not None:
        said, tested = _words(node.msg), _words(node.test)
        texts = [str(each.value) for each in ast.walk(node.msg) if isinstance(each, ast.Constant)]
        values = {str(each.value) for each in ast.walk(node.test) if isinstance(each, ast.Constant)}
        return bool(said & tested) or any(
            re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text) for text in texts for value in values
        )
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        called = ast.unparse(node.value.func)
        return bool(COMPARE.search(called)) or (called == "print" and len(_words(node)) > 1)
    return False


def _words(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
