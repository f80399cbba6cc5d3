"""What became of each file of a class: a line each for the instructor, the worst first, nobody's hiding another's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from autograder.model import harmless
from autograder.model.amounts import some
from autograder.store import files
from autograder.submissions.filenames import Layout
from autograder.submissions.roster import Enrolled

SHARE = 100  # lines of the list, of one student
COLUMNS = ("file", "student", "taken", "when", "when_from", "note")


@dataclass(frozen=True)
class Line:
    """What became of one file: a line of handed_in_<chapter>.csv."""

    file: str
    student: str = ""
    # yes; no; older than the one taken; later: still being written; text: typed into the system; instead: of a notebook, and
    # its student is marked so
    taken: str = "no"
    when: str = ""
    when_from: str = ""
    note: str = ""
    lost: bool = False  # somebody's, and nobody of the class gets a mark for it: the command does not end well


@dataclass(frozen=True)
class HandedIn:
    """A class's submissions, ready for `class_run.grade_class`."""

    folder: Path  # <student>/<chapter>/<chapter>.ipynb
    layout: Layout = Layout.NBGRADER
    lines: tuple[Line, ...] = ()  # none for nbgrader's folders, which are used as they are, but of what is astray there
    students: tuple[str, ...] = ()  # those to be graded; none: everyone in the folder
    roster: tuple[str, ...] = ()  # everyone of the class, if a roster says who that is
    instead: Mapping[str, str] = field(default_factory=dict)  # student -> what they handed in, and is no notebook
    enrolled: Mapping[str, Enrolled] = field(default_factory=dict)  # student -> what the roster says of them
    attempts: Mapping[str, str] = field(default_factory=dict)  # student -> which of their notebooks counts: "2 of 3"
    perhaps: tuple[str, ...] = ()  # of the roster: who may be one of those who are called as several are: not absent
    streamed: tuple[str, ...] = ()  # whose times are files' own, and grow as those of a download do
    doubts: Mapping[str, str] = field(default_factory=dict)  # student -> why another of their notebooks may be meant

    @property
    def lost(self) -> int:
        """How many files are somebody's, and nobody of the class gets a mark for them."""
        return sum(line.lost for line in self.lines)

    def trouble(self, most: int = 20) -> list[str]:
        """What an instructor should look at: a line a file, of the first `most`, what is lost before all else."""
        found = sorted(
            (line for line in self.lines if line.note and line.taken not in ("text", "later")),
            key=lambda line: not line.lost,
        )
        shown, seen = [], Counter[str]()
        for line in found:
            seen[line.student] += 1
            if line.lost or not line.student or seen[line.student] <= 3:  # three of one student say enough
                shown.append(line)
        sentences = []
        for line in shown[:most]:
            student = f" ({line.student})" if line.student else ""
            taken = "" if line.taken == "yes" else "not taken: "
            sentences.append(f"{taken}{harmless.line(line.file, 100)}{student}: {harmless.line(line.note)}")
        return sentences + ([f"and {len(found) - len(sentences)} more"] if len(found) > len(sentences) else [])


def shortened(lines: Iterable[Line]) -> tuple[Line, ...]:
    """The lines, of each student no more than SHARE, what is lost or taken before the rest."""
    made: list[Line] = []
    count: Counter[str] = Counter()
    left_out: dict[str, Line] = {}
    for line in sorted(lines, key=lambda line: (not line.lost, line.taken != "yes")):
        count[line.student] += 1
        if line.student and count[line.student] > SHARE:
            left_out.setdefault(line.student, line)
        else:
            made.append(line)
    more = [
        Line(line.file, who, note=f"and {some(count[who] - SHARE - 1, 'more file')} of theirs")
        for who, line in left_out.items()
    ]
    return (*made, *more)


def write_list(out: Path, found: HandedIn, chapter: str) -> Path:
    """Write OUT/handed_in_<chapter>.csv: what became of each file, and why."""
    rows = [[harmless.field(getattr(line, column)) for column in COLUMNS] for line in found.lines]
    return files.replace_table(Path(out) / f"handed_in_{chapter}.csv", [COLUMNS, *rows])
