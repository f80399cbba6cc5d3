"""What a person should look at before the marks are told, most urgent first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from autograder.gradebook.record import Record, Row, above, some
from autograder.model.course import Chapter
from autograder.model.verdict import LOOK, Fault, Lost, Outcome, Result
from autograder.report import rendering

LIMITS = (Result.TIMEOUT, Result.MEMORY, Result.OUTPUT, Result.PROCESSES)
NARROWLY = 3600.0  # seconds late that are looked at: a slow upload, a clock that is wrong
WAITING = "waiting for a mark"
CONFUSED = "what came"  # how the note of a halt begins that what the kernel sent brought about: see job.check


@dataclass(frozen=True)
class Seen:
    """One thing that was seen, of one student or of several alike."""

    students: tuple[str, ...]
    exercise: str  # or several of them; empty: the whole submission
    says: str


@dataclass(frozen=True)
class Need:
    """Things of one kind: what they are, in a few words and in one or two, what to do, and where they were seen."""

    title: str
    short: str
    mend: str
    seen: tuple[Seen, ...]

    @property
    def students(self) -> frozenset[str]:
        """Whom it is about."""
        return frozenset(student for each in self.seen for student in each.students)


@dataclass(frozen=True)
class Mistake:
    """A misconception, or a message, that several students share."""

    exercise: str
    name: str  # of the listed wrong answer; empty if it is none of those
    message: str
    students: tuple[str, ...]


def needs(
    chapter: Chapter, class_: Sequence[Record], faults: Mapping[str, str], unmade: Mapping[str, str]
) -> list[Need]:
    """All that there is of each kind; no kind of which there is nothing."""
    file = chapter.checks or "the check"
    found = [
        Need(
            "Not in the notebook: answer cells that are missing",
            "cells missing",
            "They have no points, and are in no export. Have it handed in again, or give marks by hand.",
            tuple(_alike(class_, (Result.MISSING,))),
        ),
        Need(
            "Not graded: this machine failed",
            "not graded",
            "Run the same command again: what was graded is kept.",
            tuple(Seen((student,), "", why) for student, why in sorted(faults.items())),
        ),
        Need(
            "Marks by hand above the exercise's points",
            "marks too high",
            "They are in no export. Mend them in the formgrader, where what is above goes into extra credit.",
            tuple(Seen((each.student,), "", above(each.rows)) for each in class_ if above(each.rows)),
        ),
        Need(
            "Checks that broke: the author's fault",
            "checks broke",
            f"They gave no points. Mend `{file}`, see what it changes by `autograder grade --dry-run`, and grade again.",
            tuple(
                Seen(tuple(student for student, _ in met), exercise, f"`{test}` met {met[0][1].kind}")
                for (exercise, test), met in broken(class_).items()
            ),
        ),
        Need(
            "Pages without their notebook",
            "pages without notebook",
            "These students' marks stand; the executed notebooks are in `autograded/`.",
            tuple(Seen((student,), "", why) for student, why in sorted(unmade.items())),
        ),
        Need(
            "Confused the grader, by accident or not",
            "confused the grader",
            "It earned nothing by that. Read the code.",
            tuple(_confused(class_)),
        ),
        Need(
            "Taken, and perhaps not what was meant",
            "taken with a doubt",
            "Look at what was taken: `handed_in` lists the files, `autograder explain` the notes.",
            tuple(
                Seen((each.student,), "", note.removeprefix(LOOK))
                for each in class_
                for note in each.verdict.notes
                if note.startswith(LOOK)
            ),
        ),
        Need(
            "Stopped at a limit",
            "stopped at a limit",
            "`autograder explain` has the command that shows what more of it would be worth.",
            tuple(_alike(class_, LIMITS)),
        ),
        Need(
            "Could not be read: a wrong file, or a broken one",
            "could not be read",
            "Have it handed in again, as the message says.",
            tuple(_alike(class_, (Result.INVALID,))),
        ),
        Need(
            "Mistakes that are not listed beside the checks",
            "unlisted mistakes",
            f"Is the sentence right for these answers? What several share may be worth a listed answer in `{file}`.",
            tuple(Seen(each.students, each.exercise, each.message) for each in mistakes(class_) if not each.name),
        ),
        Need(
            "Late by minutes",
            "late by minutes",
            "An extension in the formgrader takes the penalty back, if there was a reason.",
            tuple(_narrowly(class_)),
        ),
        Need(
            "Waiting for a mark by hand",
            WAITING,
            "Give it in the formgrader, then run `autograder report`.",
            tuple(_waiting(chapter, class_)),
        ),
    ]
    return [need for need in found if need.seen]


def broken(class_: Iterable[Record]) -> dict[tuple[str, str], list[tuple[str, Outcome]]]:
    """The checks that raised an exception of their own, and on whose answers: (exercise, test) -> (student, outcome)."""
    found: dict[tuple[str, str], list[tuple[str, Outcome]]] = defaultdict(list)
    for record in class_:
        for outcome in record.verdict.evidence.outcomes:
            if outcome.broke:
                found[outcome.exercise, outcome.test].append((record.student, outcome))
    return dict(found)


def _confused(class_: Iterable[Record]) -> Iterable[Seen]:
    for record in class_:
        evidence = record.verdict.evidence
        told = {
            outcome.exercise: "what came in place of an answer could not be read, or ended the checker"
            for outcome in evidence.outcomes
            if outcome.kind == Lost.PROTOCOL
        }
        told |= {halt.exercise or halt.cell: halt.note for halt in evidence.halts if halt.note.startswith(CONFUSED)}
        yield from (Seen((record.student,), where, says) for where, says in told.items())


def _alike(class_: Iterable[Record], results: Collection[Result]) -> Iterable[Seen]:
    """Where exercises ended so: those of a student that one message is of are told together, by no name if it is all."""
    for record in class_:
        said: dict[str, list[str]] = defaultdict(list)
        for row in record.rows:
            if row.verdict in results:
                said[row.message].append(row.exercise)
        for message, exercises in said.items():
            where = "" if len(exercises) == len(record.rows) else ", ".join(exercises)
            yield Seen((record.student,), where, message)


def mistakes(class_: Iterable[Record]) -> list[Mistake]:
    """What students got wrong, and not a check, in the same way, commonest first: by misconception, else by message."""
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for record in class_:
        for row in record.rows:
            if row.verdict in (Result.FAILED, Result.PARTIAL) and row.fault is Fault.STUDENT:
                found[row.exercise, row.misconception or row.message].append(row)
    made = [
        Mistake(exercise, same[0].misconception, same[0].message, tuple(row.student for row in same))
        for (exercise, _), same in found.items()
    ]
    return sorted(made, key=lambda mistake: (-len(mistake.students), mistake.exercise, mistake.message))


def _narrowly(class_: Iterable[Record]) -> Iterable[Seen]:
    for record in class_:
        if 0 < record.seconds_late <= NARROWLY:
            off = f"{some(record.penalty, 'point')} taken off" if record.penalty else "nothing taken off"
            yield Seen((record.student,), "", f"{rendering.duration(record.seconds_late)} late, {off}")


def _waiting(chapter: Chapter, class_: Iterable[Record]) -> Iterable[Seen]:
    rows = [row for record in class_ for row in record.rows if row.waiting]
    for exercise in chapter.exercises:
        students = tuple(row.student for row in rows if row.exercise == exercise.name)
        if students:
            yield Seen(students, exercise.name, some(len(students), "answer"))
