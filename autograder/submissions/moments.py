"""When a file was handed in, as far as it can be believed: timestamp.txt, the name, the file's own time, in this order.

What the instructor's own table says (`times`) goes before all of them. Of a Canvas or Moodle download a file's own time is
that of the download, for everyone. Of Canvas only the name's LATE counts, and a time from that table; its word stands for
whether somebody is late, as it knows of extensions. Of Moodle only the table counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise

from autograder.model.amounts import some
from autograder.submissions import exchange, intake, members
from autograder.submissions.filenames import Claim, Layout
from autograder.submissions.members import Member, UnreadableError
from autograder.submissions.times import FORMAT, Told

TABLE = "--handed-in"
ON_TIME = "Canvas does not say LATE: on time"
NOT_YET = "Canvas says LATE, and not when: nothing is taken off until its time is told by --handed-in"
NO_TIME = "a Moodle download does not say"
OWN = "the file's own time, taken for UTC"
SEVERAL, BETWEEN = 3, 60.0  # files, seconds from one to the next: so a download is written, and no class hands in
SLACK = 3600  # seconds that a folder of the exchange may be younger than it says


@dataclass
class Moment:
    """When, where that is from, and what is odd about it."""

    when: str = ""
    source: str = ""
    notes: list[str] = field(default_factory=list)


def moment(member: Member, claim: Claim, layout: Layout, stamp: Member | None, told: Told | None = None) -> Moment:
    """When a file was handed in; `stamp` is the timestamp.txt beside it, `told` what the instructor's table says."""
    if layout is Layout.CANVAS:
        if not (told.late if told and told.late is not None else claim.late):
            return Moment(source=ON_TIME)
        return Moment(told.when, TABLE, ["Canvas says LATE"]) if told else Moment(notes=[NOT_YET])
    if told:
        return Moment(told.when, TABLE)
    if layout is Layout.MOODLE:
        return Moment(source=NO_TIME)
    made, text = Moment(), ""
    if stamp and layout in (Layout.EXCHANGE, Layout.NBGRADER):  # in a download a student may have written it
        try:
            text = stamp.read(intake.TIMESTAMP_BYTES).decode("utf-8", "replace").strip()
        except UnreadableError as error:
            made.notes.append(f"timestamp.txt {error}: ignored")
    in_name, in_file = readable(claim.when), readable(text)
    name = "the folder's name" if layout is Layout.EXCHANGE else "the file's name"
    if in_file and in_name and in_name > in_file:
        made.when, made.source = in_name, name
        made.notes.append("its timestamp.txt is older than the folder's name: the name counts")
    elif in_file or intake.DATE.fullmatch(text):
        made.when, made.source = in_file or text, "timestamp.txt"
    elif in_name or intake.DATE.fullmatch(claim.when):
        made.when, made.source = in_name or claim.when, name
    elif member.time and not (layout is Layout.NBGRADER and member.owner is not None):  # such folders are as they are
        made.when, made.source = f"{member.time:{FORMAT}}", OWN
    if layout is Layout.EXCHANGE:  # where anybody may write
        if not exchange.owned(member, claim):
            made.notes.append(f"its folder belongs to another user ({exchange.user(member.owner)}): is it theirs?")
        if later := _later(member.time, readable(made.when)):
            made.notes.append(f"the file is from {later}, later than that")
    return made


def untimed(count: int) -> str:
    """Of how many students nothing says when they handed in, and the mend."""
    return (
        f"nothing says when {some(count, 'student')} handed in, so nothing is taken off: all files of a Moodle download have "
        "its own time; give its grading worksheet, --handed-in worksheet.csv"
    )


def streamed(times: Sequence[datetime]) -> bool:
    """Whether files' own times, in the order of their source, are those of whoever wrote one after the other: a download's."""
    gaps = [(after - before).total_seconds() for before, after in pairwise(times)]
    return len(times) >= SEVERAL and all(0 <= gap <= BETWEEN for gap in gaps)


def backdated(handed: Sequence[tuple[Member, str]]) -> list[tuple[int, str]]:
    """Of files of an exchange, with the time that each claims, those that the system saw change after it: index and note.

    A user sets a name and a file's time, and no ctime. Where most changed later, somebody copied or restored the exchange.
    """
    found = []
    for number, (member, claimed) in enumerate(handed):
        changed = members.moment(member.mark[3] / 1e9) if member.mark and exchange.of_a_student(member) else None
        if (later := _later(changed, readable(claimed))) and not _later(member.time, readable(claimed)):
            found.append((number, f"the file was last changed at {later}, later than that, whatever its own time says"))
    return found if 2 * len(found) <= len(handed) else []


def _later(seen: datetime | None, claimed: str) -> str:
    """A time of a file's, where it is later than the one that is claimed; empty where it is not."""
    if not seen or not claimed:
        return ""
    late = (seen - datetime.strptime(claimed, FORMAT).replace(tzinfo=UTC)).total_seconds()
    return f"{seen:%Y-%m-%d %H:%M} UTC" if late > SLACK else ""


def readable(text: str) -> str:
    """A time in the one form, comparable as text; empty if it is none."""
    shown = text.strip()
    numbers = shown.split("-")
    if (date := intake.DATE.fullmatch(shown)) and shown.endswith(("UTC", "Z", "+00:00", "+0000", date[1])):
        shown = date[1]
    elif len(numbers) in (5, 6) and all(number.isascii() and number.isdigit() for number in numbers):
        # 2016-01-30-15-00-00, as names of files have it
        shown = f"{'-'.join(numbers[:3])} {':'.join(numbers[3:])}"
    else:
        return ""
    try:
        return f"{datetime.fromisoformat(shown):{FORMAT}}"
    except ValueError:
        return ""
