"""What the checks say of one answer, in seconds: for an author at work, in this process, without box and kernel.

Only for code that the author trusts: it runs where we run. What is decided is decided by the same tests, on answers that go
through the same typed protocol; what a box adds are its limits.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import linecache
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, SimpleNamespace
from typing import Any

import msgspec

from across._process import warm
from autograder.authoring import build
from autograder.gpu import simulated
from autograder.job import assemble, messages, peers
from autograder.job.forkserver import InfrastructureError
from autograder.model.course import Course, CourseError, Limits, near
from autograder.model.rubric import PlannedTest
from autograder.model.verdict import ENDS
from autograder.probe import asking
from autograder.sandbox import boxes, owners

SEEDS = (1, 2, 3)
_RUNS = itertools.count(1)


@dataclass(frozen=True)
class Said:
    """What one test said of the answer, for one seed of its inputs."""

    test: PlannedTest
    seed: int
    passed: bool
    kind: str  # see `verdict.Outcome`
    says: str
    misconception: str


class Asked:
    """A chapter's checks, collected once in this process, to be asked of many answers."""

    def __init__(self, course: Course, chapter: str) -> None:
        """Import what the course preloads, then the checks. Raises CourseError, InfrastructureError: no simulated GPU."""
        from autograder.job import checker

        checker.preload(course.preload)
        self.course, self.chapter = course, chapter
        self._gpus = course.chapter(chapter).gpus
        if self._gpus and (problem := simulated.prepare()):
            raise InfrastructureError(problem)
        checker.simulate(self._gpus)
        self._config, self._session = checker.collect(course, chapter)
        self._all = list(self._session.items)

    def ask(
        self, exercise: str, cells: Mapping[str, str], seeds: Sequence[int], seconds: float = math.inf
    ) -> list[Said]:
        """What every test of `exercise` says on each seed, with `cells` (grade id to source) in place of the reference's.

        After so many `seconds` no seed is begun any more, but for the first few.
        Executes the chapter in this process. Raises CourseError for released cells that raise.
        """
        from autograder.job import checker

        allowed = self.course.chapter(self.chapter).allowed_ops
        names, code = _names(self.course, self.chapter, cells)
        checker.JOB.student = asking.in_process(names, allowed)
        items = [item for item in self._all if item.function.exercise == exercise]  # type: ignore[attr-defined]
        made: list[Said] = []
        until = time.monotonic() + seconds
        for number, seed in enumerate(seeds):
            if number >= len(SEEDS) and time.monotonic() > until:
                break
            sent: list[bytes] = []  # what the worker would be sent
            checker.JOB.seed, checker.OUTCOMES.connection = seed, SimpleNamespace(send=sent.append)  # type: ignore[assignment]
            self._session.items[:] = items
            self._session.testsfailed = 0  # or pytest takes the last seed's failures for broken files
            self._session.shouldstop = False
            with beside(self.course, code, allowed, self._gpus) as checker.JOB.wanted:
                self._config.hook.pytest_runtestloop(session=self._session)
            made += _said(checker.OUTCOMES.numbers, items, seed, sent)
        return made


@contextlib.contextmanager
def beside(
    course: Course, code: Sequence[str], allowed: Sequence[str] = (), gpus: int = 0
) -> Iterator[Callable[[str], asking.Student]]:
    """What makes the peers and lives that a check wants, here without a box; they end with the block. See `job.peers`."""
    with contextlib.ExitStack() as stack:

        @functools.cache
        def made() -> peers.Peers:
            box = stack.enter_context(boxes.Box(owners.new_name("b"), boxes.caps(Limits()), walls=False))
            of = peers.Peers(_server(course).path, f"{box.name}p", box, Limits(), simulated.environment(gpus))
            of.code = list(code)
            stack.callback(of.close)
            return of

        yield lambda kind: asking.beside(made().start(kind), kind, allowed)


@functools.cache
def _server(course: Course) -> warm.ForkServer:
    """The warm server of this process's peers and lives; it ends with this process."""
    return warm.ForkServer("autograder.job.student_server", *course.preload, env={"PYTHONHASHSEED": "0"}).start()


def check(
    course: Course, chapter: str, exercise: str, answer: str | None = None, seeds: Sequence[int] = SEEDS
) -> list[Said]:
    """What every test of `exercise` says of `answer`, the source of its cell; None: of the reference.

    The cell is the one that bears the exercise's name, else the first that it looks at; every other is the reference's.
    Executes the chapter in this process: once in a process. Raises CourseError for an exercise that there is not, or is
    graded by hand, and for cells that raise.
    """
    found = {each.name: each for each in course.chapter(chapter).exercises if not each.manual}
    if exercise not in found:
        raise CourseError(f"{chapter}: no checked exercise {exercise!r}; {near(exercise, found)}")
    ids = found[exercise].answer_ids
    cells = {} if answer is None else {exercise if exercise in ids else ids[0]: answer}
    return Asked(course, chapter).ask(exercise, cells, seeds)


def lines(found: Sequence[Said]) -> Iterator[str]:
    """Of each test on how many seeds it passed, and what it says where it did not."""
    for test in dict.fromkeys(each.test for each in found):
        of = [each for each in found if each.test == test]
        yield f"{test.name}: passed {sum(each.passed for each in of)} of {len(of)}"
        if failed := next((each for each in of if not each.passed), None):
            kind = "" if failed.kind in ENDS else f" [{failed.kind}]"
            taken = f" (taken for {failed.misconception})" if failed.misconception else ""
            yield f"  {failed.says}{kind}{taken}"


def compiled(source: str, name: str) -> CodeType:
    """A cell's code, its source kept where AutoGraph finds it, as IPython does. Raises SyntaxError."""
    file = f"<cell {name} {next(_RUNS)}>"  # each its own, or AutoGraph takes another answer's source
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    return compile(source, file, "exec")


def _said(numbers: dict[str, int], items: Sequence[Any], seed: int, sent: Sequence[bytes]) -> Iterator[Said]:
    named = {numbers[item.nodeid]: item for item in items}
    for data in sent:
        message = msgspec.json.decode(data, type=messages.TestBegins | messages.TestEnds)
        if isinstance(message, messages.TestEnds):
            item = named[message.test]
            test = PlannedTest(item.function.exercise, item.name, item.function.weight)
            yield Said(test, seed, message.passed, message.kind, message.says, message.misconception)


def executed(course: Course, chapter: str, answers: Mapping[str, str], check: str = "") -> Iterator[tuple[Any, str]]:
    """The cells of the solved chapter that a submission with `answers` would have executed, each with its source.

    With the grade id of a visible `check` those that it needs, too, and no further than that.
    """
    code = [cell for cell in build.solved(course, chapter).cells if cell.cell_type == "code"]
    names = [cell.metadata.get("nbgrader", {}).get("grade_id", "") for cell in code]
    end = names.index(check) + 1 if check else len(code)
    kinds = [
        "plain" if check and name == check else assemble.kind_of(cell) for name, cell in zip(names, code, strict=True)
    ]
    sources = [answers.get(name, str(cell.source)) for name, cell in zip(names, code, strict=True)]
    wanted = assemble.executed(kinds, sources)
    return itertools.compress(zip(code[:end], sources, strict=False), wanted)


def _names(course: Course, chapter: str, answers: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """The names that the chapter's cells bind, with `answers` in place of the reference, and these cells' sources.

    Visible checks are left out.
    """
    names, code = namespace(), list[str]()
    for cell, source in executed(course, chapter, answers):
        name = cell.metadata.get("nbgrader", {}).get("grade_id", "")
        code.append(source)
        try:
            exec(compiled(source, name), names)
        except Exception as error:
            if name not in answers:
                raise CourseError(
                    f'{chapter}, cell "{name or source[:40]}": {type(error).__name__}: {error}'
                ) from error
            names.setdefault("_raised", error)  # the student's kernel goes on after a cell that raised, too
    return names, code


def namespace() -> dict[str, Any]:
    """What a cell finds in a notebook before any other has run."""
    return {"__name__": "__main__", "display": lambda *_, **__: None}
