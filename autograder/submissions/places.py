"""Where in a folder a class lies, and who named what is there: what most names say, and never what lies deeper."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from autograder.model import harmless
from autograder.model.course import Chapter, CourseError
from autograder.submissions import filenames, folders, members
from autograder.submissions.filenames import READERS, UNKNOWN, Claim, Layout, Reader
from autograder.submissions.members import Member, Owner, Parts

BESIDE = "it lies beside where {}/ belongs; move it into such a folder, or say --name-pattern"
ASTRAY = "a folder that is no submission"
BY_STUDENT = "(?P<student_id>[^/]+)/(?P<file_id>.+)"  # a pattern of files that lie directly in their students' folders


@dataclass(frozen=True)
class Place:
    """Where a class lies, and how its names are read."""

    path: Path
    layout: Layout
    reader: Reader
    above: int = 0  # folders of an archive that all files lie in
    certain: bool = False  # by where it lies: no name there can tell otherwise

    def claim(self, parts: Parts) -> Claim | None:
        """What a name says."""
        return self.reader.read(parts[self.above :])

    def owner(self) -> Owner:
        """Whose a file is, for a quota: those of one account, chapter and user, else those of one name."""

        @lru_cache(1000)
        def named(parts: Parts) -> tuple[object, ...]:
            claim = self.reader.read(parts)
            return (claim.name, claim.lms, claim.chapter) if claim else (parts[:1],)

        def owner(parts: Parts, user: int | None) -> tuple[object, ...]:
            mine = parts[self.above :]
            return (user, *named(mine if self.layout is Layout.PATTERN else filenames.front(mine)))

        return owner

    def names_of_users(self) -> dict[int, set[str]]:
        """Under which names each user of the machine has a folder in an exchange, of any chapter. Raises OSError."""
        found: defaultdict[int, set[str]] = defaultdict(set)
        with os.scandir(self.path) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # taken away meanwhile
                    if claim := self.reader.read((entry.name, UNKNOWN)):
                        found[entry.stat(follow_symlinks=False).st_uid].add(claim.name)
        return found

    def somebodys(self, parts: Parts, chapters: tuple[str, ...]) -> bool:
        """Whether a name that is none of this layout's is all the same one of a submission."""
        mine = parts[self.above :]
        if self.certain:
            return False
        if self.layout is not Layout.NBGRADER and members.is_notebook(mine):
            return True
        others = () if self.layout is Layout.PATTERN else filenames.PATTERNS
        return any(filenames.fits(mine, layout, chapters) for layout in others if layout is not self.layout)


def located(source: Path, chapter: Chapter, names: Reader | None) -> Place:
    """Where in a folder a class lies, by what lies directly in it, or `names` say. Raises CourseError, OSError."""
    if names:
        return Place(source, Layout.PATTERN, names)
    if all((source / name).is_dir() for name in ("inbound", "outbound")):
        return Place(source / "inbound", Layout.EXCHANGE, READERS[Layout.EXCHANGE], certain=True)
    entries = folders.top(source)
    inside = [_inside(source, name, chapter.folders) for name, is_folder in entries if is_folder]
    loose = [(name,) for name, is_folder in entries if not is_folder]
    if source.name == "inbound" and any(filenames.fits(name, Layout.EXCHANGE, chapter.folders) for name in inside):
        return Place(source, Layout.EXCHANGE, READERS[Layout.EXCHANGE], certain=True)
    # what lies loose among nbgrader's folders is nobody's: so folders are asked first
    layout = _most(inside, chapter.folders, (Layout.MOODLE, Layout.EXCHANGE, Layout.NBGRADER))
    layout = layout or _most(loose, chapter.folders, (Layout.MOODLE, Layout.CANVAS))
    if layout is None:
        # the folder in which the exchanges of several courses lie is none: a student's own may look like one, too
        named = [source / name[0] for name in inside]
        courses = [each for each in named if os.path.isdir(each / "inbound") and os.path.isdir(each / "outbound")]
        if courses and courses == named:
            raise CourseError(f"{source}: there are exchanges in it; give the course's own folder: {courses[0]}")
        layout = Layout.EXCHANGE if source.name == "inbound" else Layout.NBGRADER
    return Place(source, layout, READERS[layout])


def _inside(source: Path, folder: str, chapters: tuple[str, ...]) -> Parts:
    """The name of a file that may lie in a folder."""
    there = next((name for name in chapters if os.path.lexists(source / folder / name)), None)
    return (folder, there, UNKNOWN) if there else (folder, UNKNOWN)


def _most(names: Iterable[Parts], chapters: tuple[str, ...], among: tuple[Layout, ...]) -> Layout | None:
    counts = Counter(layout for parts in names for layout in among if filenames.fits(parts, layout, chapters))
    return max(among, key=counts.__getitem__) if counts else None


def occupied(place: Place, chapter: Chapter) -> None:
    """Raise CourseError, with the mend, for a folder in which no submission can be: empty, or one that holds the zips."""
    entries = [each for each in folders.top(place.path) if not filenames.junk(each[:1]) and each[0][0] != "."]
    if not entries:
        raise CourseError(
            f"{place.path}: there is nothing in it; give the folder, or the zip, that holds the submissions"
        )
    inside = [name for name, is_folder in entries if is_folder]
    takes = [*chapter.folders, *(file for _, file in chapter.handed_in_as)]
    there = (place.path / name / each for name in inside for each in takes)
    if place.layout is not Layout.NBGRADER or any(map(os.path.lexists, there)):
        return
    if zips := [name for name, is_folder in entries if not is_folder and name.lower().endswith(".zip")]:
        which = "it" if len(zips) == 1 else f"one of the {len(zips)}"
        raise CourseError(
            f"{place.path}: it holds {zips[0]}, and no submission; give {which} by itself: --submissions {place.path / zips[0]}"
        )
    if not inside:
        raise CourseError(
            f"{place.path}: there is no <student>/{chapter.name}/{chapter.name}.ipynb in it, and no file of a download; give "
            "the folder, or the zip, that holds the submissions"
        )
    if loose := [name for name in inside if _notebooks(place.path / name)]:
        one = harmless.line(f"{loose[0]}/{_notebooks(place.path / loose[0])[0]}", 100)
        raise CourseError(
            f"{place.path}: there is no <student>/{chapter.name}/{chapter.name}.ipynb in it; where notebooks lie directly in "
            f"their students' folders, as {one} does, say --name-pattern '{BY_STUDENT}'"
        )


def loose(place: Place, chapter: Chapter) -> Iterator[tuple[str, str]]:
    """Student and file of notebooks in the folders of students who have none of the chapter's name, nor its folder."""
    called = {file for _, file in chapter.handed_in_as}
    for name, is_folder in folders.top(place.path):
        if is_folder and not any(os.path.lexists(place.path / name / each) for each in chapter.folders):
            notebooks = _notebooks(place.path / name)
            if notebooks and not called & set(notebooks):
                yield name, notebooks[0]


def _notebooks(folder: Path) -> list[str]:
    """The names of notebooks directly in a folder; none where it cannot be listed."""
    try:
        return [name for name, is_folder in folders.top(folder) if not is_folder and members.is_notebook((name,))]
    except OSError:
        return []


def listed(place: Place, chapter: Chapter) -> list[Member]:
    """The files of a class's folder, and one member for each folder that is no submission. Raises OSError."""
    astray: list[Member] = []

    def wanted(name: str) -> bool:
        if place.layout in (Layout.PATTERN, Layout.NBGRADER):
            return True
        claim = place.reader.read((name, UNKNOWN))
        if claim is None:
            parts = _inside(place.path, name, chapter.folders)
            astray.append(Member(name, parts, members.cannot(ASTRAY), why_not=ASTRAY))
        return claim is not None and claim.chapter in ("", *chapter.folders)

    return [*folders.listed(place.path, wanted, place.owner()), *astray]


def strays(place: Place, chapter: Chapter) -> list[str]:
    """What lies directly among nbgrader's folders and is named as in a download or an exchange."""
    found = []
    for name, is_folder in folders.top(place.path):
        parts = _inside(place.path, name, chapter.folders) if is_folder else (name,)
        if place.somebodys(parts, chapter.folders):
            found.append(name)
    return found
