"""What a check file is written with: `exercise`, `recorded`, `probe`, and the fixture `student`.

@exercise("mean")
def test_the_mean_is_over_towers(student, rng):  # runs on the trusted side
    cases = [[rng.normal(size=(3, 4))] for _ in range(5)]
    for (towers,), got in student.call("mean", cases, returns=array([4])):
        if np.allclose(got, towers.sum(axis=0)):
            raise Misconception("adds_towers", "You added the towers; divide by how many there are.")
        assert np.allclose(got, towers.mean(axis=0)), "The mean is off."

Where a call is more than that, a probe says what to do; its source runs in the student's kernel, and it knows no answer:

@probe
def averaged(student, gradients):
    return [np.asarray(g) for g in student.average_gradients(gradients)]

What an answer must be is said by `across.expecting`, the answers that are known are listed in `listed_CHAPTER.toml`.
"""

from __future__ import annotations

import inspect
import socket
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, overload

from across import expecting
from across.expecting import Expected
from autograder.model.amounts import some
from autograder.probe import answering, graphs, wire
from autograder.probe.listed import Variant

OR = " or "  # between the names of listed answers that get the same sentence
kept: dict[str, Any] = {}  # so that a check file can name it: what a probe finds is the student's kernel's own
Function = TypeVar("Function", bound=Callable[..., Any])
Channel = Callable[[bytes, float, int, int], Any]  # (frame, until, cap, graphs) -> the decoded answer; raises WireError


class Refused(AssertionError):  # noqa: N818
    """The student's code raised, or what it returned has no plain value; the message is for the student."""


class PeerError(RuntimeError):
    """A probe raised in a peer, where no student's code runs: the check's author should have caught it."""


class Misconception(AssertionError):  # noqa: N818
    """The answer is wrong in a way that an author knows and has listed: by its name, with the sentence for the student."""

    def __init__(self, name: str, says: str) -> None:
        super().__init__(says)
        self.name = name


def misconception(known: Iterable[Variant], exercise: str, error: BaseException | None, says: str) -> str:
    """The name of the `known` wrong answer that a failed test of `exercise` speaks of: raised, or known by its sentence.

    Where several must get this sentence it is one of them: all their names, the one that says most of it first.
    """
    if isinstance(error, Misconception):
        return error.name
    alike = [each for each in known if each.says and each.exercise == exercise and each.says in says]
    return OR.join(dict.fromkeys(each.name for each in sorted(alike, key=lambda each: -len(each.says))))


@dataclass(frozen=True)
class Probe:
    """A function whose source is run in the student's kernel."""

    name: str
    source: str
    graphs: int = 0  # how many GraphDefs its answer may hold


@overload
def probe(function: Callable[..., Any]) -> Probe: ...
@overload
def probe(*, graphs: int = 0, uses: Sequence[Callable[..., Any]] = ()) -> Callable[[Callable[..., Any]], Probe]: ...
def probe(
    function: Callable[..., Any] | None = None, *, graphs: int = 0, uses: Sequence[Callable[..., Any]] = ()
) -> Any:
    """Make a probe of a function: its source, without decorators, is what crosses, with that of the functions it `uses`.

    In its scope: np, `student`, tf where the course preloads TensorFlow, and `kept`, a dictionary that lasts from question
    to question. The student's function can read its caller's locals: where the inputs tell the answer, one question
    prepares (and keeps), the next one calls.
    A probe that answers with graphs says how many: `@probe(graphs=1)`. In any other answer none is looked at.
    """
    if function is None:
        return lambda function: replace(
            probe(function), source="\n\n".join(map(_source, (*uses, function))), graphs=graphs
        )
    return Probe(function.__name__, _source(function))


def _source(function: Callable[..., Any]) -> str:
    """The source of a function or class, without its decorators."""
    lines = textwrap.dedent(inspect.getsource(function)).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(("def ", "class ")))
    return "\n".join(lines[start:])


def exercise(name: str, weight: float = 1.0, *, weak: bool = False) -> Callable[[Function], Function]:
    """Mark a test as one of exercise `name`'s; the exercise's points are shared among its tests by weight.

    `weak`: what it rests on is what the student's process says of itself, and nothing else can tell. `explain` says so, and
    such tests have at most half of an exercise's points.
    """

    def mark(function: Function) -> Function:
        function.exercise, function.weight, function.weak = name, weight, weak  # type: ignore[attr-defined]
        return function

    return mark


def recorded(name: str, kinds: Mapping[Any, Expected]) -> Callable[[Student], None]:
    """The test of exercise `name`: the student's dictionary of that name holds a guess of its kind for each key.

    A guess is recorded, not marked: any that is complete passes.
    """

    @exercise(name)
    def test(student: Student) -> None:
        found = expecting.dict_of()(student.ask(_recorded, name=name), f"`{name}` is")
        missing = [key for key in kinds if key not in found]
        assert not missing, f"`{name}` has no entry for {_key(missing[0])}; expected one for each of the {len(kinds)}."
        empty = [key for key in kinds if found[key] is None]
        assert len(empty) < len(kinds), "Nothing is predicted yet: expected a guess in place of each None."
        assert not empty, f"{_key(empty[0])} is left open; a prediction is a commitment: expected a guess there, too."
        for key, kind in kinds.items():
            kind(found[key], f"{_key(key)} is predicted to be")

    test.__name__ = f"test_every_entry_of_{name}_is_recorded"
    return test


def _key(key: Any) -> str:
    return " ".join(map(str, key)) if isinstance(key, tuple) else str(key)


def each_answer(
    answers: Any,
    cases: Sequence[Any],
    returns: Expected | Callable[[Any], Expected],
    before: str | Callable[[Any], str],
) -> Iterator[tuple[Any, Any]]:
    """Pair the `cases` with the list of `answers` to them, each as `returns` expects it, one after the other.

    What is expected, and how the sentence on an answer begins (see `Expected`), may depend on the case.
    """
    listed = expecting.list_of(expecting.anything, len(cases)).named(f"a list of {some(len(cases), 'answer')}")
    for case, answer in zip(cases, listed(answers, "Your notebook answered with"), strict=True):
        kind = returns if isinstance(returns, Expected) else returns(case)
        yield case, kind(answer, before if isinstance(before, str) else before(case))


class Student:
    """The student's kernel as a check sees it: something that can be asked, and nothing else."""

    def __init__(
        self,
        channel: Channel,
        deadline: float = 30.0,
        cap: int = 16 << 20,
        on_question: Callable[[bool, bool], None] = lambda asks, graphs: None,
        raises: type[Exception] = Refused,
    ) -> None:
        """`on_question` hears when a question is asked, (True, False), and answered: (False, whether by a graph).

        `raises`: what an answer that is an error becomes, of a peer PeerError.
        """
        self._raises = raises
        self._channel = channel
        self._on_question = on_question
        self._deadline = deadline
        self._cap = cap

    def ask(self, probe: Probe, deadline: float | None = None, **inputs: object) -> Any:
        """Run `probe` in the student's kernel on `inputs` and return its value: plain types only.

        Raises Refused (an AssertionError with a message for the student) when the student's code raised or its value
        has no plain one, and wire.WireError when the kernel died, hung or broke the protocol.
        """
        frame = wire.encode([probe.source, probe.name, inputs, probe.graphs])
        self._on_question(True, False)
        try:
            until = time.monotonic() + (deadline or self._deadline)
            answer = self._channel(frame, until, self._cap, probe.graphs)
        except graphs.GraphError as error:
            raise Refused(str(error)) from None
        self._on_question(False, probe.graphs > 0)
        if type(answer) is not dict or not answer.keys() & {"value", "error"}:
            raise wire.WireError("not an answer")
        if "error" in answer:
            raise refused(answer, self._raises)
        return answer["value"]

    def call(
        self,
        function: str,
        cases: Sequence[Sequence[Any]],
        returns: Expected | Callable[[Any], Expected] = expecting.anything,
        before: str | Callable[[Any], str] = "",
    ) -> Iterator[tuple[Any, Any]]:
        """Call the student's `function` on the arguments of each case, in one question; pairs of case and answer.

        See `each_answer` for `returns` and `before`; by default a sentence begins with the call itself.
        """
        answers = self.ask(_called, function=function, cases=[list(case) for case in cases])
        return each_answer(
            answers, cases, returns, before or (lambda case: f"{expecting.called(function, case)} returned")
        )

    def call_once(self, function: str, *arguments: Any, returns: Expected = expecting.anything) -> Any:
        """Call the student's `function` and return its answer, as `returns` expects it."""
        (answer,) = self.call(function, [arguments], returns)
        return answer[1]


@probe
def _called(student, function, cases):
    work = getattr(student, function)
    return [work(*case) for case in cases]


@probe
def _recorded(student, name):
    return getattr(student, name)


def refused(answer: Mapping[str, Any], raises: type[Exception] = Refused) -> Exception:
    """The error for an answer that is one (see `answering`), with the sentence for the student."""
    return raises(_said(answer))


def _said(answer: Mapping[str, Any]) -> str:
    error, says = (str(answer.get(key))[:2000] for key in ("error", "says"))  # whatever it is: an array has no one ==
    line = answer.get("line")
    if error == "NotImplementedError" and (
        not says or "your turn" in says
    ):  # TensorFlow raises it, too, with other words
        return "Not attempted yet: the cell still raises NotImplementedError."
    if error == "NotPlain":
        return f"Your code returned {str(says)[:300]}."
    if error == "Missing":
        return f"`{str(says)[:80]}` is not defined after your notebook ran."
    where = f" (line {line} of your cell)" if type(line) is int else ""
    return f"Your code raised {str(error)[:80]}{where}" + (f": {says[:400]}" if says else ".")


def by_socket(channel: socket.socket, allowed_ops: Iterable[str] = ()) -> Channel:
    """Ask over a socketpair whose other end the student's kernel holds.

    Graphs that come back may hold `allowed_ops` besides `graphs.ALLOWED`.
    """
    read = partial(graphs.read, allowed=graphs.ALLOWED.union(allowed_ops))

    def ask(frame: bytes, until: float, cap: int, graphs_asked: int) -> Any:
        wire.send(channel, frame, until)
        return wire.receive(channel, until, cap, graphs_asked, read)

    return ask


def beside(
    channel: socket.socket,
    kind: str,
    allowed_ops: Iterable[str],
    deadline: float = 30.0,
    cap: int = 16 << 20,
    on_question: Callable[[bool, bool], None] = lambda asks, graphs: None,
) -> Student:
    """The process of a kind, "peer" or "life", that answers on `channel`, once it is ready: within four deadlines.

    Raises wire.WireError where it is not.
    """
    channel.settimeout(4 * deadline)
    with wire.lost():
        ready = channel.recv(1)
    if ready != b"R":
        raise wire.DiedError(f"the {kind} ended before it could be asked")
    raises = PeerError if kind == "peer" else Refused
    return Student(by_socket(channel, allowed_ops), deadline, cap, on_question, raises)


def in_process(namespace: Mapping[str, Any], allowed_ops: Iterable[str] = ()) -> Student:
    """A student in this very process, for an author at work and for tests of checks: trusted code only.

    Questions and answers go through the typed protocol all the same; for `allowed_ops` see `by_socket`.
    """

    def ask(frame: bytes, until: float, cap: int, graphs_asked: int) -> Any:
        source, name, inputs, may = opened(frame, cap)
        return opened(answering.reply(source, name, inputs, may, namespace), cap, graphs_asked, allowed_ops)

    return Student(ask)


def opened(frame: bytes, cap: int, graphs_asked: int = 0, allowed_ops: Iterable[str] = ()) -> Any:
    """The value of a whole frame, read as from a socket. Raises wire.WireError and wire.RefusedError."""
    _, header, body = wire.HEAD.unpack(frame[: wire.HEAD.size])
    if header + body > cap:
        raise wire.TooBigError(f"a reply of {header + body} bytes; the cap is {cap}")
    content = frame[wire.HEAD.size :]
    read = partial(graphs.read, allowed=graphs.ALLOWED.union(allowed_ops))
    return wire.decode(content[:header], content[header:], graphs_asked, read)
