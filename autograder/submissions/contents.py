"""What a file holds, where its name does not tell: whether a notebook is blank; one under another name, or in a zip."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from autograder.model.course import Chapter, CourseError
from autograder.submissions import archives, filenames, intake, members, unanswered
from autograder.submissions.members import Member, UnreadableError

LOOKED_AT = 5  # files of a student
OTHER_ENDINGS = (".json", ".ipynb.txt")
PACKED = 4  # times as many bytes as a notebook may have: a zip with pictures beside one


def answered(member: Member, chapter: Chapter) -> bool | None:
    """Whether a notebook has an answer; None where it cannot be read."""
    with suppress(UnreadableError):
        return _answered(member.read(chapter.limits.notebook_bytes + 1), chapter)
    return None


def unwrapped(member: Member, chapter: Chapter, private: Path) -> bytes | None:
    """The notebook that a file is in spite of its name, or that is alone in a zip; None if it is, or has, none for certain."""
    file, most = member.parts[-1].lower() if member.parts else "", chapter.limits.notebook_bytes
    with suppress(UnreadableError, CourseError):
        if file.endswith(OTHER_ENDINGS):
            data = member.read(most + 1)
        elif file.endswith(".zip"):
            data = _only_one(member.read(PACKED * most + 1), most, private / "packed")
        else:
            return None
        if _answered(data, chapter) is not None:
            return data
    return None


def _only_one(data: bytes, most: int, place: Path) -> bytes:
    """The one notebook of a zip, by the same rules as the class's own archive. Raises UnreadableError, CourseError."""
    place.write_bytes(data)
    try:
        with archives.opened(place) as archive:
            inside = [each for each in archive.members(lambda parts, user: "") if not filenames.junk(each.parts)]
            notebooks = [each for each in inside if members.is_notebook(each.parts)]
            if len(notebooks) != 1:
                raise UnreadableError(f"holds {len(notebooks)} notebooks")
            return notebooks[0].read(most + 1)
    finally:
        place.unlink()


def _answered(data: bytes, chapter: Chapter) -> bool | None:
    if len(data) > chapter.limits.notebook_bytes or (found := intake.of_bytes(data, chapter, [])).refused:
        return None
    return unanswered.blank(found, chapter) < {each.name for each in chapter.exercises}
