"""The golden book: what a handful of submissions of each chapter are told, in one file, to be given back byte for byte.

    uv run python tools/golden.py [CHAPTER...]       # what of marks, verdicts, faults and sentences changed; 3 minutes
    uv run python tools/golden.py --write            # keeps what they are now

It grades each chapter's reference, a blank notebook, three of listed wrong answers, two of answers
that are right in another way, and a hostile one, and says what differs from `tests/golden/COURSE.txt`: points, verdict, whose
fault, and the sentence. So code may go that no mark needs. A change of it is explained in its commit.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer

from autograder.authoring import build, verify
from autograder.authoring.trials import Answers, Trial
from autograder.commands.terminal import progress as progress_bar
from autograder.job import forkserver
from autograder.model.course import Course, checkout, find
from autograder.model.verdict import Mark
from autograder.probe import listed

WRONG, RIGHT = 3, 2  # notebooks of listed answers: the first of each cell in the first one, and so on
SEED = 1
HEAD = """\
# The golden book: points, verdict, fault and sentence of each exercise. Written by `tools/golden.py --write`.
# A line that changes is explained in the commit that changes it.
"""
BY_A_PEER = re.compile(r"(?<=sized\()\d+, \d+|\d+(?= int(?:er|ra)-op)")  # 05: sizes that a peer draws, each time others
HOSTILE = """
class _Yes:
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = lambda self, other: True
    __hash__ = lambda self: 0
    __repr__ = __str__ = lambda self: "yes"
    __bool__ = lambda self: True
    __len__ = __int__ = __index__ = lambda self: 1
    __float__ = lambda self: 1.0
    __iter__ = lambda self: iter([self])
    __getattr__ = lambda self, name: self
    __getitem__ = lambda self, name: self
    __call__ = lambda self, *args, **kwargs: self
"""


def path(course: Course) -> Path:
    """Where a course's golden book is: in the checkout of the harness."""
    return checkout() / "tests" / "golden" / f"{course.id}.txt"


def submissions(course: Course, chapter_name: str) -> dict[str, Answers]:
    """What is graded of a chapter, by name: the sources of its answer cells."""
    reference = build.solution_source(course, chapter_name)
    chapter = course.chapter(chapter_name)
    variants = listed.variants(course.listed_file(chapter_name))
    found: dict[str, Answers] = {"reference": reference, "blank": dict(chapter.answers)}
    for kind, count in (("wrong", WRONG), ("right", RIGHT)):
        for number in range(count):
            found[f"{kind} {number + 1}"] = dict(reference)
            for answer in reference:
                of = [each for each in variants if each.answer == answer and each.correct == (kind == "right")]
                if number < len(of):
                    found[f"{kind} {number + 1}"][answer] = of[number].written_over(reference[answer])
    code = {cell.metadata.nbgrader.grade_id for cell in build.solved(course, chapter_name).cells if _answered(cell)}
    found["hostile"] = {answer: HOSTILE + f"\n{answer} = _Yes()\n" for answer in reference if answer in code}
    return found


def _answered(cell: object) -> bool:
    return cell.cell_type == "code" and bool(cell.metadata.get("nbgrader", {}).get("solution"))  # type: ignore[attr-defined]


def graded(
    course: Course, names: Iterable[str], progress: Callable[[int, int, str], None] = lambda *_: None
) -> Iterator[tuple[str, str]]:
    """Each chapter's section of the book, by its name, as it is now.

    Raises CourseError, SandboxError, and InfrastructureError where a submission could not be graded.
    """
    for name in names:
        trials = [Trial(what, "", SEED, answers) for what, answers in submissions(course, name).items()]
        marks: dict[Trial, tuple[Mark, ...]] = {}
        try:
            for trial, verdict in verify.graded(course, forkserver.make_rubric(course, name), trials):
                marks[trial] = verdict.marks
                progress(len(marks), len(trials), f"{name}: {trial.kind}")
        finally:
            forkserver.close()
        yield name, "".join(_lines(trial.kind, marks[trial]) for trial in trials)


def _lines(what: str, marks: Iterable[Mark]) -> str:
    rows = [
        (
            mark.exercise,
            f"{mark.points:g} of {mark.max_points:g}",
            mark.result,
            mark.fault or "-",
            BY_A_PEER.sub("N", mark.message),
        )
        for mark in marks
    ]
    return f"\n{what}\n" + "".join(" | ".join(row).replace("\n", "\\n") + "\n" for row in rows)


def read(course: Course) -> dict[str, str]:
    """The sections of the book as it is kept, by chapter; none where there is no book."""
    place = path(course)
    text = place.read_text(encoding="utf-8") if place.exists() else ""
    parts = (part.partition("\n") for part in text.split("\n== ")[1:])
    return {name: section for name, _, section in parts}


def write(course: Course, sections: Mapping[str, str]) -> Path:
    """Keep these sections in place of, or beside, those that are kept; the file."""
    place, known = path(course), {**read(course), **sections}
    place.parent.mkdir(parents=True, exist_ok=True)
    kept = "".join(f"\n== {name}\n{known[name].rstrip()}\n" for name in course.chapters if name in known)
    place.write_text(HEAD + kept, encoding="utf-8")
    return place


def differences(course: Course, name: str, section: str) -> list[str]:
    """The lines of a unified diff from a chapter's section as it is kept to what it is now; none where they are equal."""
    was, now = (text.strip().splitlines() for text in (read(course).get(name, ""), section))
    return list(difflib.unified_diff(was, now, f"{name}, as kept", f"{name}, now", lineterm="", n=1))


def main(
    chapters: Annotated[list[str] | None, typer.Argument(help="all of them by default")] = None,
    keep: Annotated[bool, typer.Option("--write", help="keep what they are now")] = False,
) -> None:
    """Grade the book's submissions again and say what differs. Exit code 2: something does; its commit says why."""
    course, differ = find(), 0
    with progress_bar("the golden book") as advance:
        for name, section in graded(course, [course.full_name(name) for name in chapters or course.chapters], advance):
            lines = differences(course, name, section)
            differ += bool(lines)
            if lines:
                print("\n".join(lines))
            if keep and lines:
                write(course, {name: section})
    print(f"{differ} chapters differ from {path(course)}")
    sys.exit(2 if differ and not keep else 0)


if __name__ == "__main__":
    typer.run(main)
