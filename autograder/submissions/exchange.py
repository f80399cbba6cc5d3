"""Whose a folder of an exchange is: anybody may write there under any name, but not as another user of the machine.

Names and users need not be alike (a hub's `ada` may be the user `jupyter-ada`), and all may be one user, whose folders
then say nothing. What root or the instructor copied there is as good as the student's own.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

from autograder.model.course import Chapter
from autograder.submissions import intake, student_files
from autograder.submissions.filenames import Claim
from autograder.submissions.members import Member

SECRET = "submission_secret.txt"  # which `nbgrader submit` leaves, and `fetch_feedback` finds one's page by
SECRET_BYTES = 200
A_SECRET = re.compile(r"[0-9A-Za-z_=+-]{16,200}")

Handed = tuple[Member, Claim]


def user(owner: int | None) -> str:
    """What a user of this machine is called."""
    try:
        return "unknown" if owner is None else pwd.getpwuid(owner).pw_name
    except KeyError:
        return f"user {owner}"


def number_of(name: str) -> int | None:
    """The number of a user of this machine; None if nobody is called so."""
    try:
        return pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError):  # a NUL
        return None


def owned(member: Member, claim: Claim) -> bool:
    """Whether a folder belongs to the user whose name it has, or to nobody that can be known."""
    return member.owner is None or user(member.owner) == claim.name


def of_a_student(member: Member) -> bool:
    """Whether a folder belongs to a user who is neither root nor the instructor."""
    return member.owner not in (None, 0, os.getuid())


def forged(handed: Sequence[Handed], ever: Callable[[], Mapping[int, set[str]]]) -> dict[int, str]:
    """Which of these are not taken, by their index, and why: another may have written them.

    A user under whose name another hands in; a user who hands in under several names, of all but their own; and where two
    users hand in under one name that is neither's, both, or all but the one who has handed in under no other name: `ever`
    says under which names each user has, for any chapter.
    """
    found: dict[int, str] = {}
    students = {number: pair for number, pair in enumerate(handed) if of_a_student(pair[0])}
    names: defaultdict[int | None, set[str]] = defaultdict(set)
    for member, claim in students.values():
        names[member.owner].add(claim.name)
    for number, (member, claim) in students.items():
        if owned(member, claim):
            continue
        who = f"its folder belongs to {user(member.owner)}, "
        if number_of(claim.name) is not None:
            found[number] = f"{who}and {claim.name} is another user of this machine: not taken"
        elif len(names) > 1 and len(names[member.owner]) > 1:
            found[number] = f"{who}who hands in under {len(names[member.owner])} names: not taken; ask whose it is"
    left: defaultdict[str, set[int | None]] = defaultdict(set)
    for number, (member, claim) in students.items():
        if number not in found:
            left[claim.name].add(member.owner)
    before = ever() if any(len(owners) > 1 for owners in left.values()) else {}
    for number, (member, claim) in students.items():
        owners = left[claim.name]
        if number not in found and len(owners) > 1 and not any(user(each) == claim.name for each in owners):
            theirs = [each for each in owners if each is not None and before.get(each) == {claim.name}]
            if theirs == [member.owner]:
                continue
            users = " and ".join(sorted(map(user, owners)))
            found[number] = f"{users} both hand in under this name: not taken; ask whose it is"
    return found


def secrets(found: Sequence[intake.Found], chapter: Chapter) -> dict[str, str]:
    """The secret of each one's submission, by student; empty for who has none, and for who has another's."""
    made = {each.student: _secret(each, chapter).strip() for each in found}
    made = {student: secret if A_SECRET.fullmatch(secret) else "" for student, secret in made.items()}
    count = Counter(made.values())
    return {student: secret if count[secret] == 1 else "" for student, secret in made.items()}


def _secret(found: intake.Found, chapter: Chapter) -> str:
    """What lies beside a notebook as its secret: read as the notebook is, through no link and with a cap."""
    with (
        contextlib.suppress(student_files.RefusedError, OSError),
        student_files.folder(found.folder, chapter) as folder,
    ):
        data = None if folder is None else student_files.read(folder, SECRET, SECRET_BYTES)
        return (data or b"").decode("utf-8", "replace")
    return ""
