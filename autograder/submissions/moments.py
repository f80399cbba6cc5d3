"""When a file was handed in, as far as it can be believed: timestamp.txt, the name, the file's own time, in this order."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from autograder.submissions import exchange, intake
from autograder.submissions.filenames import Claim, Layout
from autograder.submissions.members import Member, UnreadableError

FORMAT = "%Y-%m-%d %H:%M:%S.%f UTC"  # as nbgrader writes timestamp.txt
SLACK = 3600  # seconds that a folder of the exchange may be younger than it says


@dataclass
class Moment:
    """When, where that is from, and what is odd about it."""

    when: str = ""
    source: str = ""
    notes: list[str] = field(default_factory=list)


def moment(member: Member, claim: Claim, layout: Layout, stamp: Member | None) -> Moment:
    """When a file was handed in; `stamp` is the timestamp.txt beside it."""
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
        made.when, made.source = f"{member.time:{FORMAT}}", "the file's own time, taken for UTC"
    if claim.late:
        made.notes.append("Canvas says LATE")
    if layout is Layout.EXCHANGE:
        made.notes += _odd(member, claim, readable(made.when))
    return made


def _odd(member: Member, claim: Claim, claimed: str) -> list[str]:
    """What is odd about a folder of an exchange, where anybody may write."""
    notes = []
    if not exchange.owned(member, claim):
        notes.append(f"its folder belongs to another user ({exchange.user(member.owner)}): is it theirs?")
    seen = member.time
    if claimed and seen and (seen - datetime.strptime(claimed, FORMAT).replace(tzinfo=UTC)).total_seconds() > SLACK:
        notes.append(f"the file is from {seen:%Y-%m-%d %H:%M} UTC, later than that")
    return notes


def readable(text: str) -> str:
    """A time in the one form, comparable as text; empty if it is none."""
    shown = text.strip()
    if (date := intake.DATE.fullmatch(shown)) and shown.endswith(("UTC", "Z", "+00:00", "+0000", date[1])):
        shown = date[1]
    elif not (shown := _digits(shown)):
        return ""
    try:
        return f"{datetime.fromisoformat(shown):{FORMAT}}"
    except ValueError:
        return ""


def _digits(text: str) -> str:
    """2016-01-30-15-00-00, as names of files have it."""
    numbers = text.split("-")
    if len(numbers) not in (5, 6) or not all(number.isascii() and number.isdigit() for number in numbers):
        return ""
    return f"{'-'.join(numbers[:3])} {':'.join(numbers[3:])}"
