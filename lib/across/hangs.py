"""Why does it hang? Failures of programs on many machines, each made here, on purpose, by real TensorFlow processes.

    hangs.names()                              # which there are
    case = hangs.show("a copied TF_CONFIG")    # some seconds; every process has ended when it returns
    case                                       # symptom, question, cause, mend; how each task ended
    case.logs                                  # what each printed, and where each that hung stood
    case.draw()
    hangs.drawn(rng, "a wrong port").evidence  # the logs of such a case with four workers, recorded: nothing runs

    python -m across.hangs "a copied TF_CONFIG"

They are made on Linux; `drawn` needs nothing. docs/hangs.md has them as a table. Where something is not as on machines of
one's own, `simulated` says what.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from across import pictures
from across._hanging import tasks
from across._hanging.evidence import Drawn, causes, drawn
from across._hanging.failures import FAILURES, Failure
from across._hanging.tasks import End, Run
from across._language import pictured
from across._language.catalogue import marked
from across.clusters import Logs
from across.pictures import Picture, Span

__all__ = ["Case", "Drawn", "End", "causes", "drawn", "names", "running", "show"]

QUIET = 3.0  # seconds without a line, an end or any work: it hangs


@dataclass(frozen=True, repr=False)
class Case:
    """A failure that was made here: what was seen, and what one says of it."""

    name: str
    tasks: dict[str, End]  # by name, "worker:1"; what each printed, when it ended and how
    guilty: str
    symptom: str
    question: str
    cause: str
    mend: str
    simulated: str  # "" where all is as on machines of one's own

    @property
    def logs(self) -> Logs:
        """What each task printed, and for one that hung where each of its Python threads stood."""
        return Logs({name: end.log for name, end in self.tasks.items()})

    def draw(self) -> Picture:
        """Draw the tasks over the seconds: who works, who waits for whom, who has ended; the guilty one is marked."""
        waits, last, spans = FAILURES[self.name].waits, max(end.seconds for end in self.tasks.values()), []
        for name, end in self.tasks.items():
            lane = pictured.said("{0}, guilty", name) if name == self.guilty else name
            idle = end.how == "hangs" or name in waits
            spans.append(Span(lane, 0.0, end.last if idle else end.seconds, marked("works")))
            if idle:
                spans.append(
                    Span(
                        lane,
                        end.last,
                        end.seconds,
                        pictured.said("waits for {0}", waits[name]) if name in waits else marked("serves"),
                    )
                )
            if end.how != "hangs" and end.seconds < last:
                spans.append(Span(lane, end.seconds, last, pictured.said("ended: {0}", end.how)))
        lanes = [] if self.guilty in self.tasks else [pictured.said("{0}, guilty: never started", self.guilty)]
        lanes = [*dict.fromkeys(span.lane for span in spans), *lanes]
        return pictures.timeline(spans, title=self.name, unit=marked("seconds"), lanes=lanes)

    def __repr__(self) -> str:
        told = {name: f"{end.how}, after {end.seconds:.1f} s" for name, end in self.tasks.items()}
        rows = [
            ("symptom", self.symptom),
            ("question", self.question),
            ("guilty", self.guilty),
            ("cause", self.cause),
            ("mend", self.mend),
            ("simulated", self.simulated),
        ]
        return "\n".join([self.name, *(f"  {head:12}{text}" for head, text in [*told.items(), *rows] if text)])


def names() -> list[str]:
    """The failures that can be made."""
    return list(FAILURES)


def show(name: str, *, seconds: float = 30.0, quiet: float = QUIET) -> Case:
    """Make a failure; watch until all have ended, or nothing happens for `quiet` seconds, at most `seconds`. KeyError."""
    failure = _failure(name)
    with running(name) as run:
        run.wait(quiet, seconds)
        ends = run.ends()
    return Case(
        name, ends, failure.guilty, failure.symptom, failure.question, failure.cause, failure.mend, failure.simulated
    )


@contextlib.contextmanager
def running(name: str, *, cold: bool = False) -> Iterator[Run]:
    """The tasks of a failure while they run, to be looked at from outside. Raises KeyError.

    `cold`: each is a new interpreter, whose TF_CONFIG is in its /proc/PID/environ; that takes seconds.
    """
    with tasks.running(_failure(name).lay, cold) as run:
        yield run


def _failure(name: str) -> Failure:
    if name not in FAILURES:
        raise KeyError(f"no failure {name!r}; there are: {', '.join(FAILURES)}")
    return FAILURES[name]


if __name__ == "__main__":
    for asked in sys.argv[1:]:
        case = show(asked)
        print(case.logs, case, sep="\n")
    if not sys.argv[1:]:
        print(*names(), sep="\n")
