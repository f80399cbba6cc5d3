"""What a check file is written with: `probe`, `exercise`, `wrong`, `right`, and the fixture `student` with one verb.

@probe
def averaged(student, gradients):  # its source runs in the student's kernel; it knows no answer
    return [np.asarray(g) for g in student.average_gradients(gradients)]


@exercise("average_gradients")
def test_the_mean_is_over_towers(student, rng):  # runs on the trusted side
    gradients = rng.normal(size=(3, 4, 5))
    got = student.ask(averaged, gradients=gradients)
    assert ..., "You added the towers; divide by how many there are."
"""

from __future__ import annotations

import inspect
import socket
import sys
import textwrap
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, overload

from autograder.probe import answering, graphs, wire

kept: dict[str, Any] = {}  # so that a check file can name it: what a probe finds is the student's kernel's own
Function = TypeVar("Function", bound=Callable[..., Any])
Channel = Callable[[bytes, float, int, int], Any]  # (frame, until, cap, graphs) -> the decoded answer; raises WireError


class Refused(AssertionError):  # noqa: N818
    """The student's code raised, or what it returned cannot cross; the message is for the student."""


@dataclass(frozen=True)
class Probe:
    """A function whose source is run in the student's kernel."""

    name: str
    source: str
    graphs: int = 0  # how many GraphDefs its answer may hold


@overload
def probe(function: Callable[..., Any]) -> Probe: ...
@overload
def probe(*, graphs: int) -> Callable[[Callable[..., Any]], Probe]: ...
def probe(function: Callable[..., Any] | None = None, *, graphs: int = 0) -> Any:
    """Make a probe of a function: its source, without decorators, is what crosses.

    A probe that answers with graphs says how many: `@probe(graphs=1)`. In any other answer none is looked at. In its scope: np, tf, `student` and `kept`, a dictionary that lasts from question to question. The student's function
    can read its caller's locals: where the inputs tell the answer, one question prepares (and keeps), the next one calls.
    """
    if function is None:
        return lambda function: replace(probe(function), graphs=graphs)
    lines = textwrap.dedent(inspect.getsource(function)).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("def "))
    return Probe(function.__name__, "\n".join(lines[start:]))


def exercise(name: str, weight: float = 1.0) -> Callable[[Function], Function]:
    """Mark a test as one of exercise `name`'s; the exercise's points are shared among its tests by weight."""

    def mark(function: Function) -> Function:
        function.exercise, function.weight = name, weight  # type: ignore[attr-defined]
        return function

    return mark


@dataclass(frozen=True)
class Variant:
    """An answer that the checks must judge as said: every other answer is the reference's."""

    chapter: str
    answer: str  # grade id of the answer cell
    name: str
    correct: bool
    source: str = ""  # the whole cell; or else
    change: tuple[str, str] = ("", "")  # (old, new) in the reference's source
    says: str = ""  # part of the message that a wrong answer must get
    exercise: str = ""  # that must not get full points; by default the one named like the answer

    def written_over(self, reference: str) -> str:
        """The source of this variant of the cell. Raises ValueError when the reference does not hold `change[0]`."""
        if self.source:
            return textwrap.dedent(self.source).strip("\n")
        old, new = self.change
        if old not in reference:
            raise ValueError(
                f'{self.chapter}, variant "{self.name}": the reference of {self.answer} does not hold {old!r}'
            )
        return reference.replace(old, new)


_VARIANTS: dict[tuple[str, str, str], Variant] = {}


def wrong(
    answer: str, *, name: str, says: str, change: tuple[str, str] = ("", ""), source: str = "", exercise: str = ""
) -> Variant:
    """List a wrong answer with the misconception it comes from (`name`) and the sentence it must get (`says`)."""
    return _listed(Variant(_caller(), answer, name, False, source, change, says, exercise or answer))


def right(
    answer: str, *, name: str, change: tuple[str, str] = ("", ""), source: str = "", exercise: str = ""
) -> Variant:
    """List a correct answer written in another way: it must pass."""
    return _listed(Variant(_caller(), answer, name, True, source, change, "", exercise or answer))


@dataclass(frozen=True)
class Equivalent:
    """A mutant of the reference that no check can tell from it, because it does the same, or is as good an answer."""

    chapter: str
    answer: str
    change: tuple[str, str] | None  # (old, new): `old` stands once in the reference's source
    because: str


_EQUIVALENTS: dict[tuple[str, str, tuple[str, str] | None], Equivalent] = {}


def equivalent(answer: str, *, because: str, change: tuple[str, str] | None = None) -> Equivalent:
    """Say that a change of the reference is no fault, and why: `autograder verify` lists it, and does not count it.

    Without `change`: that of every mutant of this cell which gets full points, as where any committed guess is right.
    """
    made = Equivalent(_caller(), answer, change, because)
    _EQUIVALENTS[made.chapter, answer, change] = made
    return made


def equivalents(chapter: str) -> list[Equivalent]:
    """The equivalents that a chapter's check file lists, in order; the file must have been imported."""
    return [each for each in _EQUIVALENTS.values() if each.chapter == chapter]


def variants(chapter: str) -> list[Variant]:
    """The variants that a chapter's check file lists, in order; the file must have been imported."""
    return [variant for variant in _VARIANTS.values() if variant.chapter == chapter]


def _caller() -> str:
    return Path(sys._getframe(2).f_code.co_filename).stem.removeprefix("test_")


def _listed(variant: Variant) -> Variant:
    _VARIANTS[variant.chapter, variant.answer, variant.name] = variant
    return variant


class Student:
    """The student's kernel as a check sees it: something that can be asked, and nothing else."""

    def __init__(self, channel: Channel, deadline: float = 30.0, cap: int = 16 << 20) -> None:
        self._channel = channel
        self._deadline = deadline
        self._cap = cap
        self.seconds: list[float] = []

    def ask(self, probe: Probe, deadline: float | None = None, **inputs: object) -> Any:
        """Run `probe` in the student's kernel on `inputs` and return its value: plain types only.

        Raises Refused (an AssertionError with a message for the student) when the student's code raised or its value
        cannot cross, and wire.WireError when the kernel died, hung or broke the protocol.
        """
        frame = wire.encode([probe.source, probe.name, inputs, probe.graphs])
        started = time.perf_counter()
        try:
            until = time.monotonic() + (deadline or self._deadline)
            answer = self._channel(frame, until, self._cap, probe.graphs)
        except graphs.GraphError as error:
            raise Refused(str(error)) from None
        finally:
            self.seconds.append(time.perf_counter() - started)
        if type(answer) is not dict or not answer.keys() & {"value", "error"}:
            raise wire.WireError("not an answer")
        if "error" in answer:
            raise Refused(_said(answer))
        return answer["value"]


def _said(answer: dict[str, Any]) -> str:
    error, says = (str(answer.get(key))[:2000] for key in ("error", "says"))  # whatever it is: an array has no one ==
    line = answer.get("line")
    if error == "NotImplementedError":
        return "Not attempted yet: the cell still raises NotImplementedError."
    if error == "CannotCross":
        return f"Your code returned something that cannot be looked at: {str(says)[:300]}."
    if error == "Missing":
        return f"`{str(says)[:80]}` is not defined after your notebook ran."
    where = f" (line {line} of your cell)" if type(line) is int else ""
    return f"Your code raised {str(error)[:80]}{where}: {str(says)[:400]}"


def by_socket(channel: socket.socket) -> Channel:
    """Ask over a socketpair whose other end the student's kernel holds."""

    def ask(frame: bytes, until: float, cap: int, graphs_asked: int) -> Any:
        wire.send(channel, frame, until)
        return wire.receive(channel, until, cap, graphs_asked, graphs.read)

    return ask


def in_process(namespace: Mapping[str, Any]) -> Student:
    """A student in this very process, for an author at work and for tests of checks: trusted code only.

    Questions and answers go through the typed protocol all the same.
    """

    def ask(frame: bytes, until: float, cap: int, graphs_asked: int) -> Any:
        return opened(answering.reply(*opened(frame, cap), namespace), cap, graphs_asked)

    return Student(ask)


def opened(frame: bytes, cap: int, graphs_asked: int = 0) -> Any:
    """The value of a whole frame, read as from a socket. Raises wire.WireError and wire.RefusedError."""
    _, header, body = wire.HEAD.unpack(frame[: wire.HEAD.size])
    if header + body > cap:
        raise wire.TooBigError(f"a reply of {header + body} bytes; the cap is {cap}")
    content = frame[wire.HEAD.size :]
    return wire.decode(content[:header], content[header:], graphs_asked, graphs.read)
