"""The rules that `autograder term` keeps in OUT, and what counts by them: of a chapter, and in all."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from autograder.gradebook import late_penalty, released, roll
from autograder.model import course
from autograder.model.course import Chapter, CourseError
from autograder.store import files
from autograder.term import attempts, counting, rules
from autograder.term.counting import Counted, Line
from autograder.term.rules import Rules

FILE = "term.toml"  # in OUT


def keep(out: Path, said: Path) -> None:
    """Keep the rules of a file in OUT. Raises files.BusyError, OSError."""
    with files.only_writer(out):
        files.replace(out / FILE, said.read_bytes())


def read(out: Path, course_id: str) -> Rules | None:
    """The rules that are kept in OUT; None if there are none. A chapter that was not graded there yet may be in them.

    Raises CourseError, OSError as `rules.read` does.
    """
    if not (out / FILE).is_file():
        return None
    graded = [each.name for each in released.every(out, course_id)]
    return rules.read(out / FILE, lambda said: next(iter(course.meant(said, graded)), said))


def lines(out: Path, course_id: str, rules: Rules) -> list[Line]:
    """Everyone's term, of the chapters that were graded into OUT.

    Raises CourseError if nothing was graded, or a chapter has no weight; GradebookError.
    """
    found = [attempts.of(out, chapter) for chapter in released.every(out, course_id)]
    classes = [each for each in found if each.theirs]  # a run that was stopped may have left a release alone
    if not classes:
        raise CourseError(f"{out}: nothing was graded there; run `autograder grade CHAPTER --out {out}`")
    return counting.count(rules, classes, late_penalty.policy(out))


def counts(out: Path, chapter: Chapter, students: Collection[str] | None = None) -> dict[str, Counted] | None:
    """What a chapter counts for everyone, or for these students, by the rules in OUT; None where there are none, or it does
    not count by them.

    A chapter that has no weight yet, where others have, does not count yet, and takes no day of anybody's bank.
    """
    said = read(out, chapter.course)
    if said is None or (said.weights and not said.weights.get(chapter.name)):
        return None
    there = [each for each in released.chapters(out, chapter) if not said.weights or each.name in said.weights]
    classes = [attempts.of(out, each, students) for each in there]
    found = counting.count(said, classes, late_penalty.policy(out))
    return {line.student: each for line in found for each in line.chapters if each.chapter.name == chapter.name}


def never_graded(out: Path, chapter: Chapter) -> list[str]:
    """Of whom the last download held more notebooks than were ever graded: the others are no attempts."""
    held = {student: int(said.rpartition(" ")[2]) for student, said in roll.attempts(out, chapter).items()}
    theirs = attempts.of(out, chapter, [student for student in held if held[student] > 1]).theirs
    return [student for student, each in theirs.items() if each.attempts and len(each.attempts) < held.get(student, 0)]
