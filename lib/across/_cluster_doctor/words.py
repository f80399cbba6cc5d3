"""What lines of a log say: a step, an error, a loss that is no number, a full disk, a connection that is lost."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

SHORT = 110  # characters of a line that is quoted
IN_USE = re.compile(r"could not start grpc server|failed to add port to server", re.IGNORECASE)
CAME_AGAIN = re.compile(r"/job:(\w+)/replica:\d+/task:(\d+) unexpectedly tried to connect with a different incarnation")
LOST = re.compile(
    r"UnavailableError|UNAVAILABLE|Connection reset by peer|Socket closed|failed to connect to all addresses"
    r"|Collective ops is aborted|stopped sending heartbeats"
)
MISMATCH = re.compile(r"(?:Shape mismatch in the collective|Collective instance \d+ expected|Inconsistent group)[^{}]*")
ERROR = re.compile(r"^(?:[a-z_][\w.]*\.)?([A-Z]\w*(?:Error|Exception|Interrupt))\b:?\s*(.*)")
NO_NUMBER = re.compile(r"\bTensor had (?:NaN|Inf) values|\b(?:NaN|invalid) loss\b", re.IGNORECASE)
LOSS = re.compile(  # of training: one of validation goes into no sum
    r"(?<!\w)(?<!val[ /.])(?<!eval[ /.])(?<!test[ /.])(?<!validation[ /.])(?!val|eval|test)(?:\w+_)?"
    r"(?:loss|nll|g(?:rad(?:ient)?s?)?[ _-]?(?:global[ _-]?)?norm|global[ _-]?norm)"
    r"[\"']?\s*(?:is\b|was\b|[:=])?\s*(?:(?:tf\.Tensor|tensor|array|(?:np|numpy)\.float\d+)\(|\[)*[-+]?nan(?![\w./-])",
    re.IGNORECASE,
)
NO_SPACE = re.compile(r"no space left on device|disk quota exceeded|file too large", re.IGNORECASE)
NO_SPACE_ERROR = re.compile(  # as Python's own errors and TensorFlow's have it
    rf"\[Errno \d+\] (?:{NO_SPACE.pattern})|; (?:{NO_SPACE.pattern})|RESOURCE_EXHAUSTED.*(?:{NO_SPACE.pattern})",
    re.IGNORECASE,
)
STEP = re.compile(r"(?<![a-z])step[\"']?[\s:=#\[(]{0,3}(\d+)", re.IGNORECASE)
EPOCH = re.compile(r"(?<![a-z])epoch[\"']?[\s:=#\[(]{0,3}(\d+)", re.IGNORECASE)
DUMP = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+")  # of faulthandler
PREFIX = re.compile(r"^[IWEF]0000 \S+\s+\d+ \S+\] |^[\d-]*[T ]?\d\d:\d\d:\d\d\S* |^[\w.]+errors_impl\.")
DEVICE = re.compile(r"/job:(\w+)/replica:\d+/task:(\d+)(?:/device:\w+:\d+)?")
TENSORFLOW = re.compile(r"^[IWEF]\d{4} |^\s*$")  # its log, and what is empty


def step(line: str) -> int:
    """The step that a line is about; -1 if none."""
    found = STEP.search(line)
    return int(found[1]) if found else -1


def steps(lines: Sequence[str]) -> list[tuple[int, int]]:
    """The steps that a task wrote about, each once in its order, as (epoch, step)."""
    found, epoch = [], 0
    for line in lines:
        epoch = int(named[1]) if (named := EPOCH.search(line)) else epoch
        if (number := step(line)) >= 0 and (epoch, number) not in found[-1:]:
            found.append((epoch, number))
    return found


def interval(told: Sequence[tuple[int, int]]) -> int:
    """How many steps lie between two that a task writes about; 0 if that cannot be told."""
    return min((after - before for (_, before), (_, after) in pairwise(told) if after > before), default=0)


def after_steps(lines: Sequence[str]) -> Sequence[str]:
    """What a task wrote after it last wrote about a step."""
    last = max((number for number, line in enumerate(lines) if STEP.search(line)), default=-1)
    return lines[last + 1 :]


def error(lines: Sequence[str]) -> str:
    """The error with which a log ends; "" if a step came after it."""
    return next((found[0] for line in reversed(after_steps(lines)) if (found := ERROR.match(line))), "")


def unfinished(lines: Sequence[str]) -> bool:
    """Whether a task waits at the end of its log, by a dump of where it stands, or has lost another one."""
    return any(DUMP.match(line) or LOST.search(line) for line in after_steps(lines))


def breaks_off(lines: Sequence[str]) -> bool:
    """Whether a program wrote nothing after its last step: whoever comes to its end mostly says so."""
    return all(TENSORFLOW.match(line) for line in after_steps(lines))


def full(lines: Sequence[str]) -> Iterator[str]:
    """Errors, of Python or of TensorFlow, that say that a disk is full. A warning of what may come is none."""
    for line in lines:
        if (found := NO_SPACE.search(line)) and (NO_SPACE_ERROR.search(line) or ERROR.match(line)):
            yield quoted(line[max(0, found.start() - SHORT + 30) : found.end()])


def no_number(line: str) -> bool:
    """Whether a line says that a loss, or a norm of gradients, is no number."""
    return bool(LOSS.search(line) or NO_NUMBER.search(line))


def quoted(line: str) -> str:
    """A line of a log, in short: without its time, and with tasks as we call them."""
    line = DEVICE.sub(r"\1:\2", PREFIX.sub("", line).strip())
    return line if len(line) <= SHORT else line[: SHORT - 3] + "..."
