"""What `autograder grade` was asked, as one value: made once, of the command's options, and handed down to the engine."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.model.course import Course

if TYPE_CHECKING:  # servers are started before these are imported
    from autograder.submissions.extensions import Extension
    from autograder.submissions.handed_in import HandedIn


@dataclass(frozen=True)
class Request:
    """A class to be graded: what was handed in, by `course`, into `out`."""

    course: Course
    chapter: str
    handed_in: HandedIn
    out: Path
    reference: Mapping[str, str] = field(default_factory=dict)  # the chapter's own answers: grade id, source
    workers: int = 0  # jobs at once; 0: one a core
    executor: Executor | None = None  # of `executors`; it runs as many as it does, and the reference too
    trust: bool = False  # in no sandbox
    again: bool = False  # what did not change, too
    anyway: bool = False  # a class that is odd is recorded: see `guard`
    watching: bool = False  # more comes soon: of any chapter's notebooks, and servers stay warm
    students: Collection[str] = ()  # those to be graded; none: all of them
    limits: Mapping[str, Any] = field(default_factory=dict)  # before the chapter's
    gpus: int | str | None = None  # before the chapter's: see `forkserver.limited`
    db_url: str | None = None  # of the gradebook that is not OUT's own
    extensions: Sequence[Extension] = ()  # kept in the gradebook
    command: str = "autograder"  # how commands begin that pages name
