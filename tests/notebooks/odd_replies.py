"""Every probe of a chapter's checks is given odd replies: no check breaks by one, none passes by one.

The reference is asked once; then its replies are played back, but for one that is odd, as a student's kernel may send it:
over the typed protocol, on which anything plain can come. A check says a sentence to whatever it is given.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import judging
import numpy as np

SEED = 7  # of the checks' own draws
A_QUESTION = 24  # replies that are tried in place of each reply
SPARED = {  # by their place, replies that decide nothing: the evidence is made elsewhere
    "test_at_the_tie_both_train_equally_fast": {1},  # the student's own ring, in whose place there is the true one
    "test_a_ps_waits_and_the_chief_trains": {2, 3},  # what a program that goes on has returned
    # a peer sees where `look` is called; what it brings back is another rule, and has a test of its own
    "test_the_fresh_process_has_the_gpus_that_the_variable_shows": {0, 1, 2},
}
QUESTIONS = 8  # of a test, drawn: some ask dozens of the same kind

VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 10**30, 10**400, -(10**400), 2**63),
    *(float("nan"), float("inf"), float("-inf"), -0.0, 5e-324, -5e-324, 1.7e308, 0.5),
    *("", "x", "\ud800", "\x1b[31mred\x1b[0m", "CPU:0", "/GPU:99", "1", "a" * 5000, "\n\n", "assert x", "{0}", "%s"),
    *(b"", b"\xff", b"CPU:0"),
    *(
        [],
        (),
        {},
        [[]],
        [None],
        [float("nan")],
        ((),),
        {"": 1},
        {None: None},
        {(): []},
        {float("nan"): 1},
        {1: 2, "1": 3},
    ),
    *([0] * 5000, {str(i): i for i in range(500)}, ["\ud800", 10**400], (10**400,), {"x": 10**400}),
    *(np.zeros(0), np.zeros((2, 0)), np.array(3.0), np.array([np.nan, np.inf]), np.zeros(3, np.int8), np.ones(2, bool)),
    *(
        np.zeros((1, 2, 3), np.complex64),
        np.float16("inf"),
        np.zeros([1] * 32),
        np.uint64(2**64 - 1),
        np.zeros(100_000),
    ),
]
DEEP: Any = []
for _ in range(90):
    DEEP = [DEEP]
VALUES.append(DEEP)


def replies(honest: Any, rng: Random) -> Iterator[tuple[str, Any]]:
    """Odd replies in place of `honest`, each with its kind: "all" where none of it is what it should be, else "part"."""
    for value in rng.sample(VALUES, A_QUESTION // 3):
        yield "all", value
    if isinstance(honest, list | tuple) and honest:
        for value in rng.sample(VALUES, A_QUESTION // 3):
            yield "all", type(honest)([value] * len(honest))
    if isinstance(honest, dict) and honest:
        for value in rng.sample(VALUES, A_QUESTION // 3):
            yield "all", dict.fromkeys(honest, value)
    for _ in range(A_QUESTION // 3):
        yield "part", damaged(honest, rng)


def damaged(honest: Any, rng: Random) -> Any:
    """`honest` with one thing in it replaced, left out, doubled, or of another type."""
    if type(honest).__name__ == "GraphDef" and rng.random() < 0.9:
        return damaged_graph(honest, rng)
    inside = isinstance(honest, list | tuple | dict) and len(honest) > 0 and rng.random() < 0.75
    if not inside:
        return rng.choice([*VALUES, [honest], (honest,), {"x": honest}])
    if isinstance(honest, dict):
        items = list(honest.items())
        at = rng.randrange(len(items))
        key, value = items[at]
        keys = [key, key, key, None, 1, "", (1, "x"), f"{key}", f" {key}"]
        items[at : at + 1] = rng.choice([[], [(rng.choice(keys), damaged(value, rng))]])
        return dict(items)
    items = list(honest)
    at = rng.randrange(len(items))
    items[at : at + 1] = rng.choice([[], [items[at]] * 2, *[[damaged(items[at], rng)]] * 5])
    return rng.choice([items, items, tuple(items)])


def damaged_graph(honest: Any, rng: Random) -> Any:
    """A graph with one operation changed in one way."""
    graph = type(honest)()
    graph.CopyFrom(honest)
    node = rng.choice(graph.node)
    match rng.randrange(9):
        case 0:
            graph.node.remove(node)
        case 1:
            node.op = rng.choice(
                ["NoOp", "Identity", "Const", "Placeholder", "AddV2", "no_such_function", "", "MatMul"]
            )
        case 2:
            node.name = rng.choice(["", "x", "one", "a/b", "\u202e", rng.choice(graph.node).name])
        case 3:
            node.device = rng.choice(["/device:CPU:7", "/job:ps/task:1", "nonsense", "/GPU:0", "/cpu:0"])
        case 4:
            node.input.append(rng.choice(["nobody", "^nobody", node.name, rng.choice(graph.node).name, "x:99", ""]))
        case 5:
            del node.input[:]
        case 6:
            for name in rng.sample(sorted(node.attr), min(2, len(node.attr))):
                del node.attr[name]
        case 7:
            for name in node.attr:
                if node.attr[name].WhichOneof("value") == "type":
                    node.attr[name].type = rng.choice([0, 3, 7, 9, 20, 21, 101])
        case 8:
            graph.versions.producer, graph.versions.min_consumer = rng.choice([(0, 0), (1, 1), (9999, 9999), (-1, -1)])
    return graph


class Played:
    """One test, whose questions the reference has answered: they can be answered so again, but for one of them.

    What the lives of the reference answer is a student's reply, too, and what a fork of a peer does; a peer's is played back
    as it was.
    """

    def __init__(
        self,
        test: Any,
        reference: Any,
        allowed_ops: tuple[str, ...] = (),
        wanted: Callable[[str], Any] = lambda kind: None,
    ) -> None:
        from autograder.probe import asking, wire

        self.test, self.allowed_ops = test, allowed_ops
        self.frames: list[tuple[bytes, int]] = []  # answers, and how many graphs they hold
        self.peers: list[tuple[bytes, int]] = []

        def recorded(of: Any, kind: str) -> Any:
            def record(frame: bytes, until: float, cap: int, graphs: int) -> Any:
                answer = of._channel(frame, until, cap, graphs)
                forked = kind == "peer" and asks_a_fork(frame)
                frames = self.peers if kind == "peer" and not forked else self.frames
                frames.append((wire.encode(answer["value"] if forked else answer, graphs), graphs))
                return answer

            return asking.Student(record)

        said = judging.message(
            test, recorded(reference, "student"), SEED, wanted=lambda kind: recorded(wanted(kind), kind)
        )
        assert said == "", f"{test.__name__} fails the reference: {said}"

    def honest(self, at: int) -> Any:
        """The reference's reply to a question."""
        return opened(self.frames[at], self.allowed_ops)["value"]

    def message(self, at: int, odd: Any) -> str:
        """What the student is told when question `at`, and any beyond the last, is answered oddly; "" if it passes.

        Raises TypeError or ValueError for what would not leave the student's kernel.
        """
        from autograder.probe import asking, wire

        reply = wire.encode({"value": odd}, 9), 9
        answers = iter([*self.frames[:at], reply, *self.frames[at + 1 :], *([reply] * 100)])
        student = asking.Student(lambda *_: opened(next(answers), self.allowed_ops))
        peers = iter([*self.peers, *(self.peers[-1:] * 100)])

        def replayed(frame: bytes, *_: Any) -> Any:
            forked = asks_a_fork(frame)
            answer = opened(next(answers if forked else peers), self.allowed_ops)
            return {"value": answer} if forked else answer

        peer = asking.Student(replayed)
        return judging.message(self.test, student, SEED, wanted=lambda kind: peer if kind == "peer" else student)


def asks_a_fork(frame: bytes) -> bool:
    """Whether a question to a peer is one that it passes on."""
    return opened((frame, 0))[1] == "relayed"


def opened(frame: tuple[bytes, int], allowed_ops: tuple[str, ...] = ()) -> Any:
    """What a check gets of a frame with so many graphs."""
    from autograder.probe import asking

    return asking.opened(frame[0], 1 << 30, frame[1], allowed_ops)


def tried(chapter: str, times: int) -> dict[str, Any]:
    """Under "broke" and "passed" a line for each check that did; under "tried" how many odd replies each test got."""
    from autograder.authoring import build, check_answer
    from autograder.model.course import find
    from autograder.probe import asking, listed

    course = find()
    checks = judging.checks_of(chapter)
    solved = build.solution_source(course, chapter)
    names = judging.namespace(chapter, solved)
    allowed_ops = tuple(course.chapter(chapter).allowed_ops)
    reference = asking.in_process(names, allowed_ops)
    guesses = {each.answer for each in listed.equivalents(course.listed_file(chapter)) if each.change is None}
    found: dict[str, Any] = {"tried": {}, "broke": [], "passed": []}
    for test in judging.tests_of(checks):
        rng, name = Random(test.__name__), test.__name__
        with check_answer.beside(course, judging.sources(chapter, solved), allowed_ops) as wanted:
            played, found["tried"][name] = Played(test, reference, allowed_ops, wanted), 0
        questions = range(len(played.frames))
        for at in sorted(rng.sample(questions, min(QUESTIONS, len(questions)))):
            honest = played.honest(at)
            told = honest is None or type(honest) is bytes  # a function's bytes: what comes of it, another reply says
            free = told or test.exercise in guesses or at in SPARED.get(name, ())  # any reply may pass
            for kind, odd in (each for _ in range(times) for each in replies(honest, rng)):
                try:
                    said = played.message(at, odd)
                except (TypeError, ValueError):
                    continue
                found["tried"][name] += 1
                line = f"{name}, question {at}: {ascii(odd)[:150]}: {said[:300]}"
                if said.startswith(("AUTHOR", "assert ")) or "a bare assert" in said:
                    found["broke"].append(line)
                if not said and kind == "all" and not free and not alike(odd, honest):
                    found["passed"].append(line)
    return found


def alike(odd: Any, honest: Any) -> bool:
    """Whether an odd reply is the honest one after all; a tuple is a list, and 1 is True."""
    if isinstance(odd, list | tuple) and isinstance(honest, list | tuple):
        return len(odd) == len(honest) and all(map(alike, odd, honest))
    with contextlib.suppress(ValueError):
        return bool(odd == honest)
    return False
