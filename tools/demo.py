"""A class of invented submissions of one chapter, with the marks that they must get because of how they were made.

    uv run python tools/demo.py --out demo        # makes the class, grades it, and names the report to open

Right, right in another way, every misconception that the checks list, half done, blank, late, crashing, endless, greedy
for memory, talkative, corrupt and hostile. `make` writes them as nbgrader lays them out. The marks that `students` expects
come from how each submission was made; none was read off a run.
"""

from __future__ import annotations

import copy
import json
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from autograder.authoring import build
from autograder.commands import grading
from autograder.engine.request import Request
from autograder.model.course import Chapter, Course, CourseError, find, text
from autograder.model.verdict import Result
from autograder.probe.listed import Variant, variants
from autograder.submissions import unanswered
from autograder.submissions.handed_in import HandedIn
from autograder.submissions.intake import Submission

CHAPTER = "03_device_placement"  # of this checkout's course

ON_TIME, LATE = "2026-03-02 17:40:12.000000 UTC", "2026-03-11 03:59:58.000000 UTC"
WRONG = frozenset({Result.FAILED, Result.PARTIAL, Result.CRASHED})
MISTAKEN = "bela carol dmitri elena farid gwen hana igor juno kofi".split()  # they share the listed misconceptions


@dataclass(frozen=True)
class Expected:
    """What one exercise of one student must get."""

    results: frozenset[Result]
    points: float | None = None  # None: anything below the exercise's points
    says: str = ""  # part of the message


@dataclass(frozen=True)
class Student:
    """An invented student: the answers, the file where it is no plain notebook, and what they must get."""

    name: str
    how: str
    answers: dict[str, str] = field(default_factory=dict)  # grade id -> source; the stub for all others
    expected: dict[str, Expected] = field(default_factory=dict)  # exercise -> mark, all of them
    damage: Callable[[dict[str, Any]], bytes | None] | None = None  # the notebook -> the file, None: no file
    timestamp: str = ON_TIME


def chapter_of(course: Course) -> str:
    """The chapter that the class hands in: of another course its first."""
    return CHAPTER if CHAPTER in course.chapters else course.chapters[0]


def make(course: Course, folder: Path) -> Path:
    """Write the class below `folder` as <student>/<chapter>/<chapter>.ipynb; return `folder`. Raises CourseError."""
    chapter = course.chapter(chapter_of(course))
    for student in students(course):
        place = folder / student.name / chapter.name
        place.mkdir(parents=True, exist_ok=True)
        content = notebook_bytes(student, chapter)
        if content is not None:
            (place / f"{chapter.name}.ipynb").write_bytes(content)
            (place / "timestamp.txt").write_text(student.timestamp + "\n")
    return folder


def notebook_bytes(student: Student, chapter: Chapter) -> bytes | None:
    """The file that a student hands in; None if there is none."""
    notebook = copy.deepcopy(chapter.release)
    for cell in notebook["cells"]:
        grade_id = cell["metadata"].get("nbgrader", {}).get("grade_id")
        if grade_id in student.answers:
            cell["source"] = student.answers[grade_id]
    return student.damage(notebook) if student.damage else json.dumps(notebook, indent=1).encode()


def signed(notebook: dict[str, Any], student: str) -> dict[str, Any]:
    """A copy with a comment in the first answer: equal answers would be graded once."""
    copied = copy.deepcopy(notebook)
    for cell in copied["cells"]:
        if cell["cell_type"] == "code" and cell["metadata"].get("nbgrader", {}).get("solution"):
            cell["source"] = f"{text(cell)}\n# {student}"
            break
    return copied


def students(course: Course) -> list[Student]:
    """The students, by name: 30, or fewer where what some try needs TensorFlow.

    Raises CourseError when the checks list what this class cannot show.
    """
    makers = _Makers(course)
    found = [*makers.right(), *makers.mistaken(), *makers.unfinished(), *makers.limits(), *makers.hostile()]
    return sorted(found, key=lambda student: student.name)


def honest(course: Course) -> list[Student]:
    """Those of them who hand in a notebook that nothing stops, with work of their own. Raises CourseError."""
    makers = _Makers(course)
    return [*makers.right(), *makers.mistaken(), makers.unfinished()[0]]


def listed(course: Course) -> list[Variant]:
    """The answers that are listed for the chapter."""
    return variants(course.listed_file(chapter_of(course)))


class _Makers:
    """Makes students out of the reference, the listed variants and the sources below."""

    def __init__(self, course: Course) -> None:
        self.chapter = course.chapter(chapter_of(course))
        self.tensorflow = "tensorflow" in course.preload
        self.reference = build.solution_source(course, self.chapter.name)
        self.listed = listed(course)
        self.automatic = [exercise for exercise in self.chapter.exercises if not exercise.manual]
        self.functions = [
            each.name for each in self.automatic if f"def {each.name}(" in self.reference.get(each.name, "")
        ]
        if not self.functions:
            raise CourseError(
                f"{self.chapter.name}: no exercise is a function of its name; `demo` needs another chapter"
            )

    def full(self, **but: Expected) -> dict[str, Expected]:
        """Full marks for everything, the explanation waiting to be read, but for the exercises named."""
        marks = {e.name: Expected(frozenset({Result.PASSED}), e.max_points) for e in self.automatic}
        marks |= {e.name: Expected(frozenset({Result.MANUAL}), 0.0) for e in self.chapter.exercises if e.manual}
        return marks | but

    def none(self, but: dict[str, Expected] | None = None, result: Result = Result.BLANK) -> dict[str, Expected]:
        """Nothing for anything, but for the exercises named."""
        return {e.name: Expected(frozenset({result}), 0.0) for e in self.chapter.exercises} | (but or {})

    def right(self) -> list[Student]:
        ways = {}
        for way in (1, -1):
            answers = dict(self.reference)
            for variant in self.listed[::way]:
                if variant.correct:
                    answers[variant.answer] = variant.written_over(self.reference[variant.answer])
            ways[way] = answers
        talks = dict(self.reference)
        ways_to_talk = TALK + TALK_TENSORFLOW * self.tensorflow
        for number, answer in enumerate(self.functions):
            talks[answer] = ways_to_talk[number % len(ways_to_talk)] + talks[answer]
        first = self.functions[0]
        inside = self.reference | {first: self.reference[first].replace("    return", "    print('x')\n    return", 1)}
        return [
            Student("ada", "right", self.reference, self.full()),
            Student("alan", "right in another way", ways[1], self.full()),
            Student("barbara", "right in yet another way", ways[-1], self.full()),
            Student("chatty", "right; prints to stderr, warns, logs", talks, self.full()),
            Student("claude", "right; prints whenever it is asked", inside, self.full()),
            Student("tardy", "right, and late", self.reference, self.full(), timestamp=LATE),
        ]

    def mistaken(self) -> list[Student]:
        """The listed misconceptions, one of an exercise a student, about as many a student; the rest is right."""
        mistakes: dict[str, dict[str, Variant]] = {name: {} for name in MISTAKEN}
        at = 0
        for answer, each in self._wrong().items():
            for variant in each[: len(MISTAKEN)]:
                mistakes[MISTAKEN[at % len(MISTAKEN)]][answer] = variant
                at += 1
        return [self._mistaken(name, theirs) for name, theirs in mistakes.items()]

    def _wrong(self) -> dict[str, list[Variant]]:
        wrongs: dict[str, list[Variant]] = {}
        for variant in self.listed:
            if not variant.correct:
                wrongs.setdefault(variant.answer, []).append(variant)
        return wrongs

    def _beyond(self, students: list[Student]) -> list[Student]:
        """The same students, right where it is not said, with the misconceptions for which there were too few others."""
        left = [variant for each in self._wrong().values() for variant in each[len(MISTAKEN) :]]
        for variant in left:
            answer = variant.answer
            free = [at for at, each in enumerate(students) if each.answers[answer] == self.reference[answer]]
            if not free:
                raise CourseError(f'{self.chapter.name}: too many misconceptions of "{answer}" for a class of 30')
            one = students[free[0]]
            students[free[0]] = replace(
                one,
                how=f"{one.how}; {answer}: {variant.name}",
                answers=one.answers | {answer: variant.written_over(self.reference[answer])},
                expected=one.expected | {variant.exercise: Expected(WRONG, None, variant.says)},
            )
        return students

    def _mistaken(self, name: str, mistakes: dict[str, Variant]) -> Student:
        answers = dict(self.reference)
        marks = self.full()
        for answer, variant in mistakes.items():
            answers[answer] = variant.written_over(self.reference[answer])
            marks[variant.exercise] = Expected(WRONG, None, variant.says)
        for exercise in unanswered.blank(
            Submission(name, self.chapter.name, answers), self.chapter
        ):  # a program to be repaired
            marks[exercise] = Expected(frozenset({Result.BLANK}), 0.0)
        how = ", ".join(f"{answer}: {variant.name}" for answer, variant in mistakes.items())
        return Student(name, f"misconceptions: {how}", answers, marks)

    def unfinished(self) -> list[Student]:
        half = [exercise.name for exercise in self.automatic][: len(self.automatic) // 2]
        rest = [exercise.name for exercise in self.chapter.exercises if exercise.name not in half]
        done = self.full()
        return [
            Student("first", "half done", *self._only(half)),
            Student("second", "the other half done", *self._only(rest)),
            Student("blank", "as it was released", {}, self.none()),
            Student("absent", "nothing handed in", {}, self.none(result=Result.ABSENT), lambda notebook: None),
            Student("corrupt", "a file cut off", self.reference, self.none(result=Result.INVALID), _cut),
            Student(
                "double",
                f"right, but with two cells {half[0]}",
                self.reference,
                done | {half[0]: Expected(frozenset({Result.INVALID}), 0.0, "2 cells have this grade id")},
                lambda notebook: _doubled(notebook, half[0]),
            ),
        ]

    def _only(self, names: list[str]) -> tuple[dict[str, str], dict[str, Expected]]:
        full = self.full()
        return {name: self.reference[name] for name in names}, self.none({name: full[name] for name in names})

    def limits(self) -> list[Student]:
        typo, crash, hog = (self.functions[at % len(self.functions)] for at in (1, 2, 3))
        last = self.functions[-1]
        students = [
            self._one("typo", "a slip of the pen", typo, f"def {typo}(:\n    pass", Result.CRASHED, "SyntaxError"),
            self._one("crash", "ends its kernel", crash, "import os\n\nos._exit(0)", Result.CRASHED),
            self._one("endless", "never ends", last, "while True:\n    pass", Result.TIMEOUT),
            self._one("hog", "takes all the memory", hog, HOG, Result.MEMORY),
        ]
        return self._beyond(students)

    def hostile(self) -> list[Student]:
        first = self.functions[0]
        wrong = f"\n\ndef {first}(*args):\n    return None\n"
        blind = {first: DELETE_ASSERTS + wrong}
        forged = {first: FORGE_REPLIES + wrong}
        failed = Expected(frozenset({Result.FAILED}), 0.0)
        found = [
            Student("mallory", "hostile: deletes asserts", blind, self.none({first: failed})),
            Student("oscar", "hostile: forges the kernel's replies", forged, self.none({first: failed})),
            self._one("eve", "hostile: looks for the solutions", first, LOOK_AROUND + wrong, Result.FAILED),
        ]
        if self.tensorflow and "round_robin" in self.functions:
            how = "hostile: a graph that writes a file"
            found.append(self._one("trudy", how, "round_robin", WRITE_FILE, Result.FAILED, "WriteFile"))
        return found

    def _one(self, name: str, how: str, exercise: str, source: str, result: Result, says: str = "") -> Student:
        """A student who is right but for one exercise."""
        mark = Expected(frozenset({result}), 0.0, says)
        return Student(name, how, self.reference | {exercise: source.strip()}, self.full(**{exercise: mark}))


def _cut(notebook: dict[str, Any]) -> bytes:
    whole = json.dumps(notebook).encode()
    return whole[: len(whole) // 2]


def _doubled(notebook: dict[str, Any], grade_id: str) -> bytes:
    cells = notebook["cells"]
    at = next(i for i, c in enumerate(cells) if c["metadata"].get("nbgrader", {}).get("grade_id") == grade_id)
    cells.insert(at, copy.deepcopy(cells[at]) | {"id": "copied"})
    return json.dumps(notebook).encode()


TALK = (
    'import sys\n\nprint("thinking aloud", file=sys.stderr)\n\n\n',
    'import warnings\n\nwarnings.warn("are you sure?")\n\n\n',
    'import logging\n\nlogging.getLogger().warning("hm")\n\n\n',
)
TALK_TENSORFLOW = ('tf.print("here I am")\n\n\n',)
HOG = textwrap.dedent("""
    held = []
    while len(held) < 320:
        held.append(bytearray(b"x") * (64 << 20))
""")
DELETE_ASSERTS = textwrap.dedent("""
    import ast


    class Deleted(ast.NodeTransformer):
        def visit_Assert(self, node):
            return ast.Pass()


    get_ipython().ast_transformers.append(Deleted())
    get_ipython().showtraceback = lambda *args, **kwargs: None
""")
FORGE_REPLIES = textwrap.dedent("""
    import sys

    session = type(get_ipython().kernel.session)
    send = session.send


    def forged(self, stream, kind, content=None, *args, **kwargs):
        if kind == "execute_reply":
            content = {"status": "ok", "execution_count": 1, "user_expressions": {}, "payload": []}
        return None if kind == "error" else send(self, stream, kind, content, *args, **kwargs)


    session.send = forged
    encode = sys.modules["autograder.probe.wire"].encode
    sys.modules["autograder.probe.wire"].encode = lambda *args: encode({"value": True, "passed": True})
""")
WRITE_FILE = textwrap.dedent("""
    def round_robin(devices):
        def device_of(op):
            if op.graph not in written:
                written.append(op.graph)
                with op.graph.as_default():
                    tf.io.write_file("/tmp/across_demo", "written by the checker")
            return op.device

        return device_of


    written = []
""")
LOOK_AROUND = textwrap.dedent("""
    import pathlib
    import socket
    import sys

    try:
        socket.create_connection(("1.1.1.1", 53), 1)
    except OSError as error:
        print(error)
    try:
        print(open("/etc/shadow").read())
    except OSError as error:
        print(error)
    for folder in pathlib.Path(sys.prefix).parents:
        for path in [*folder.glob("solutions/*.py"), *folder.glob("*/gradebook.db")]:
            print(path, path.read_bytes())
""")


def main(
    out: Annotated[Path, typer.Option(help="where the class and its marks are written")] = Path("demo"),
    workers: Annotated[int, typer.Option(help="submissions graded at once; 0: one a core", min=0)] = 0,
) -> None:
    """Make a class of 30 invented submissions and grade it, start to end."""
    course = find()
    submissions = HandedIn(make(course, out / "submissions"))
    code = grading.grade_to_the_end(Request(course, chapter_of(course), submissions, out, workers=workers))
    Console().print(f"open {(out / 'report.html').resolve().as_uri()}", highlight=False, soft_wrap=True)
    sys.exit(code)


if __name__ == "__main__":
    typer.run(main)
