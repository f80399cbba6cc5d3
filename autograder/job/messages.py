"""What the processes of one job say to each other: typed, and decoded as what was agreed or not at all.

The worker asks a driver to execute a notebook (`Execute`), and hears which cell begins (`CellBegins`) and what became of it
(`Executed`); it asks a checker for its plan, or to run tests (`RunTests`), and hears of each when it begins, asks, is answered
and ends (`FromChecker`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from autograder.model.rubric import PlannedTest
from autograder.model.verdict import Stop

EXECUTED = 64 << 20  # bytes of what a driver may answer


class MessageError(ValueError):
    """What came is not what was agreed."""


class Execute(msgspec.Struct, frozen=True, kw_only=True):
    """Execute the notebook (nbformat 4 JSON) that comes in a file beside this message."""

    box: dict[str, Any]  # the driver's own: see `boxes.Box.request`
    connection: dict[str, Any]  # to the kernel: see `KernelClient`
    cell_seconds: float
    output_bytes: int
    until: float  # time.monotonic


class CellBegins(msgspec.Struct, frozen=True):
    """A cell is executed from now on."""

    cell: int  # its number in the notebook


class Executed(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a notebook: the outputs of each of its cells, and where it stopped, if it did."""

    stopped: Stop | None = None
    cell: int = -1  # the last one that began
    note: str = ""
    fault: str = ""  # why nothing was executed: this machine's
    outputs: list[list[dict[str, Any]]] = []  # nbformat 4, by cell; none for prose


class RunTests(msgspec.Struct, frozen=True, kw_only=True):
    """Run tests against the kernel at the other end of the socket beside this message."""

    box: dict[str, Any]
    tests: list[int]  # their places in the plan
    seed: int
    cap: int  # bytes of one answer
    deadline: float  # seconds for one question
    allowed_ops: list[str]  # that graphs may hold besides `graphs.ALLOWED`
    gpus: int = 0  # simulated ones, in this process
    keep: dict[str, list[str]] = {}  # by the grade id of a test cell: names that it must leave as they were


class Wants(msgspec.Struct, frozen=True, tag="wants"):
    """The test that runs wants a process besides the kernel, which comes as a socket: see `job.peers`."""

    kind: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Every test of a chapter's checks, and what they were read from."""

    tests: list[PlannedTest] = []
    checks: str = ""  # digest
    author: str = ""  # why there is none: the author's fault
    machine: str = ""  # why this machine cannot grade by it


class TestBegins(msgspec.Struct, frozen=True, tag="begins"):
    """A test runs from now on."""

    __test__ = False  # no test of pytest's

    test: int  # its place in the plan


class Asks(msgspec.Struct, frozen=True, tag="asks"):
    """The test that runs asks the kernel a question: from now on it waits for the student."""


class Answered(msgspec.Struct, frozen=True, tag="answered"):
    """The kernel has answered: from now on the check itself computes."""

    graph: bool  # on a graph of the student's


class TestEnds(msgspec.Struct, frozen=True, tag="ends", kw_only=True):
    """A test, or the part of it that went wrong, has ended."""

    __test__ = False

    test: int
    passed: bool
    kind: str = ""
    says: str = ""
    misconception: str = ""
    share: float = 0.0  # of its points, where it did not pass


FromChecker = TestBegins | Wants | Asks | Answered | TestEnds
Message = TypeVar("Message")
# msgspec learns a type where it is met first; two threads that meet it at once ended the process (0.22): here is one alone
for _kind in (Execute, CellBegins, Executed, RunTests, Plan, FromChecker):
    msgspec.json.Decoder(_kind)


def sent(message: msgspec.Struct) -> dict[str, Any]:
    """Plain JSON values of a message."""
    return msgspec.to_builtins(message)


def received(values: Mapping[str, Any], kind: type[Message] | Any) -> Message:
    """The message of plain JSON values. Raises MessageError."""
    try:
        return msgspec.convert(values, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise MessageError(f"{str(error)[:200]}") from None


def read(data: bytes, kind: type[Message]) -> Message:
    """The message of JSON text. Raises MessageError."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise MessageError(f"{str(error)[:200]}") from None


def written(message: msgspec.Struct) -> bytes:
    """A message as JSON text."""
    return msgspec.json.encode(message)
