"""Where a class's submissions come from: nbgrader's folders as they are, or a download or an exchange made into them.

`gathered` finds out whose each file is (`filenames`, `roster`), takes the newest of each student, and writes it below a
private folder as <student>/<chapter>/<chapter>.ipynb, which `intake` reads with all its mistrust. What was not taken is
listed with the reason. A file that cannot be read costs only its own student: an empty one stands in for it, which is
marked as invalid, and so is who handed in something that is no notebook.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from autograder.model import harmless, headers
from autograder.model.course import Chapter, CourseError
from autograder.sandbox import owners
from autograder.submissions import archives, contents, exchange, filenames, intake, members, moments, places
from autograder.submissions.filenames import READERS, Claim, Layout, Reader
from autograder.submissions.handed_in import HandedIn, Line, shortened
from autograder.submissions.members import Member, Parts, UnreadableError
from autograder.submissions.places import Place
from autograder.submissions.roster import Account, Enrolled, Person, Roster, people
from autograder.submissions.times import Times

TOTAL = 4 << 30  # bytes of a class's notebooks
STAMP, SECRET = ("timestamp.txt",), (exchange.SECRET,)
SILENT = "nothing that a student meant to hand in"

Settled = Callable[[Member], bool]


@dataclass
class _One:
    """A file that is somebody's, and what is known of it."""

    member: Member
    claim: Claim
    place: int  # of the file in its source
    student: str = ""
    order: tuple[object, ...] = ()
    number: int = 0  # of `x-2.ipynb`
    when: str = ""
    when_from: str = ""
    why_not: str = ""  # it is no submission
    held: bytes | None = None  # the notebook that it holds, where its name does not say so
    unclear: bool = False  # it is graded, and the roster has several whose it may be
    notes: list[str] = field(default_factory=list)

    @property
    def account(self) -> Account:
        return self.claim.name, self.claim.lms

    @property
    def arrival(self) -> tuple[object, ...]:
        """What puts a student's files in the order in which they came, as far as names and times say."""
        return self.when, moments.readable(self.claim.when), self.claim.submission, self.number, self.place

    def line(self, taken: str, lost: bool = False) -> Line:
        student = intake.student_name(self.student or self.claim.name)
        return Line(self.member.path, student, taken, self.when, self.when_from, "; ".join(self.notes), lost)


@contextmanager
def gathered(
    source: Path,
    chapter: Chapter,
    *,
    names: Reader | None = None,
    roster: Path | None = None,
    times: Path | None = None,
    zone: str = "",
    settled: Settled | None = None,
) -> Iterator[HandedIn]:
    """Find the class in `source`: a folder or a zip; its files live as long as the block.

    `times` says when each handed in, Moodle's in `zone`: see `Times`. A file that is not `settled` is left for later. Raises
    CourseError, which names the file and the mend; OSError for what is the disk's fault.
    """
    source = Path(source)
    ids = Roster(roster) if roster else None
    told = Times(times, chapter.name, zone) if times else None
    with tempfile.TemporaryDirectory(prefix=f"{owners.new_name('across-')}-") as private:
        if source.is_dir():
            place = places.located(source, chapter, names)
            if settled is None:  # where one watches, the class is yet to come
                places.occupied(place, chapter)
            if place.layout is Layout.NBGRADER and times is not None:
                raise CourseError(
                    f"{place.path}: its folders hold timestamp.txt; write it there, leave --handed-in out"
                )
            if place.layout is Layout.NBGRADER and settled is None:
                note = "it lies among nbgrader's folders, but its name is none of them: give it by itself"
                astray = [Line(name, note=note, lost=True) for name in places.strays(place, chapter)]
                astray += _strangers(place, chapter, ids) if ids else []
                note = places.BESIDE.format(chapter.name)
                loose = [
                    (intake.student_name(student), student, name) for student, name in places.loose(place, chapter)
                ]
                astray += [Line(f"{student}/{name}", shown, note=note, lost=True) for shown, student, name in loose]
                numbered = headers.NUMBERED  # of another chapter, whose folder it was
                others = {who: intake.student_name(name) for who, _, name in loose if not numbered.match(name[:-6])}
                yield HandedIn(place.path, place.layout, tuple(astray), (), _everyone(ids), others, _enrolled(ids))
                return
            yield _Gathering(place, chapter, settled, ids, told).gather(places.listed(place, chapter), Path(private))
            return
        with archives.opened(source) as archive:
            place = _named(source, archive.names(), chapter, names)
            found = archive.members(place.owner())
            yield _Gathering(place, chapter, settled, ids, told).gather(found, Path(private))


def _everyone(roster: Roster | None) -> tuple[str, ...]:
    return tuple(sorted(map(intake.student_name, roster.ids))) if roster else ()


def _enrolled(roster: Roster | None) -> dict[str, Enrolled]:
    return {intake.student_name(student): each for student, each in roster.enrolled.items()} if roster else {}


def _strangers(place: Place, chapter: Chapter, roster: Roster) -> list[Line]:
    """A line for each of nbgrader's folders that is nobody's of the roster: it is graded all the same."""
    ids = set(_everyone(roster))
    note = f"{roster.path}: no such id; add a line, or rename the folder"
    found = [each.student for each in intake.collect(place.path, chapter) if each.student not in ids]
    return [Line(student, student, taken="yes", note=note) for student in found]


def _named(source: Path, every: list[Parts], chapter: Chapter, names: Reader | None) -> Place:
    """Who named an archive's files: what most of them say. Raises CourseError if nobody that is known."""
    if names:
        return Place(source, Layout.PATTERN, names)
    if found := filenames.most(every, chapter.folders):
        return Place(source, found[0], READERS[found[0]], found[1])
    first = next((parts for parts in every if parts and not filenames.junk(parts)), ("nothing",))
    seen = harmless.visible("/".join(first))[:80]
    raise CourseError(
        f"{source}: these are no names of Canvas, Moodle, nbgrader's exchange or nbgrader's folders of {chapter.name} (the "
        f"first: {seen}); say how they are made with --name-pattern, as for nbgrader zip_collect"
    )


class _Gathering:
    """One class on its way into the private folder."""

    def __init__(
        self, place: Place, chapter: Chapter, settled: Settled | None, roster: Roster | None, times: Times | None
    ) -> None:
        self.place, self.chapter, self.roster, self.times = place, chapter, roster, times
        self.settled = settled or (lambda member: True)
        self.beside: dict[Parts, Member] = {}  # what nbgrader leaves beside a notebook
        self.lines: list[Line] = []
        self.moving: set[Account] = set()  # of whom something is still being written
        self.attempts: dict[str, str] = {}  # student -> which of their notebooks counts
        self.instead: dict[str, str] = {}  # student -> what they handed in, and is no notebook
        self.perhaps: set[str] = set()  # of the roster: who may be one of those of whom it is not clear
        self.doubts: dict[str, str] = {}  # student -> why another notebook of theirs may be the one that was meant
        self.punctual: set[str] = set()  # of whom a time is told, and Canvas does not say LATE

    def gather(self, found: list[Member], private: Path) -> HandedIn:
        """Take the newest file of each student."""
        theirs = self._claimed(found)
        persons = people((one.claim for one in theirs), self.place.layout, self.roster)
        self.beside = {member.parts: member for member in found if member.parts[-1:] in (STAMP, SECRET)}
        by_student: dict[str, list[_One]] = {}
        for one in theirs:
            if self._known(one, persons[one.account]):
                self._dated(one, self.beside.get((*one.member.parts[:-1], *STAMP)))
                by_student.setdefault(one.student, []).append(one)
        exchanged = self.place.layout is Layout.EXCHANGE
        dated = [one for one in theirs if exchanged and one.when and one.when_from != moments.TABLE]
        for number, note in moments.backdated([(one.member, one.when) for one in dated]):
            dated[number].notes.append(note)
        newest, students = [], []
        for student, ones in by_student.items():
            if self.place.layout is Layout.NBGRADER and any(one.account in self.moving for one in ones):
                continue
            if self.place.layout not in (Layout.EXCHANGE, Layout.NBGRADER) and all(one.why_not for one in ones):
                self._unwrap(ones, private)
            if best := self._newest(ones):
                newest.append(best)
            elif any(one.account in self.moving for one in ones):
                continue
            else:
                (private / student / self.chapter.name).mkdir(parents=True)
            students.append(student)
        self._write(private, newest)
        self.lines += [one.line("yes", one.unclear) for one in sorted(newest, key=lambda one: one.student)]
        self._told()
        names = tuple(map(intake.student_name, sorted(students)))
        own = sorted((one for one in newest if one.when_from == moments.OWN), key=lambda one: one.place)
        of_a_download = moments.streamed([one.member.time for one in own if one.member.time])
        streamed = tuple(intake.student_name(one.student) for one in own if of_a_download)
        perhaps = tuple(map(intake.student_name, sorted(self.perhaps)))
        told = (self.instead, _enrolled(self.roster), self.attempts, perhaps, streamed, self.doubts)
        return HandedIn(private, self.place.layout, self._lines(students), names, _everyone(self.roster), *told)

    def _claimed(self, found: list[Member]) -> list[_One]:
        """The files that are somebody's; of the others a line each."""
        handed, others = [], []
        for member in found:
            claim = self.place.claim(member.parts)
            if claim is None:
                others.append(member)
            elif claim.chapter in ("", *self.chapter.folders):
                handed.append((member, claim))
        forged = exchange.forged(handed, self.place.names_of_users) if self.place.layout is Layout.EXCHANGE else {}
        theirs = []
        for number, (member, claim) in enumerate(handed):
            if not self.settled(member):
                self.moving.add((claim.name, claim.lms))
                self.lines.append(Line(member.path, taken="later", note="it is still being written"))
            elif number in forged:
                notebook = members.is_notebook(member.parts)
                self.lines.append(
                    Line(member.path, intake.student_name(claim.name), note=forged[number], lost=notebook)
                )
            else:
                theirs.append(_One(member, claim, number, why_not=self._why_not(member, claim)))
        tops = {one.member.parts[: self.place.above + 1] for one in theirs}
        for member in others:
            self._nobodys(member, member.parts[: self.place.above + 1] in tops)
        return theirs

    def _nobodys(self, member: Member, beside: bool) -> None:
        """A line of a file that is of no student; `beside` files of one that are."""
        if filenames.junk(member.parts) or member.parts[-1:] in (STAMP, SECRET):
            return
        lost = not beside and (not member.parts or self.place.somebodys(member.parts, self.chapter.folders))
        if lost or self.place.layout is not Layout.NBGRADER:
            note = member.why_not or f"its name is none of {self.place.layout}"
            widen = self.place.layout is Layout.PATTERN
            mend = "widen --name-pattern" if widen else "if the others are astray, say --name-pattern"
            note += f"; {mend}" if lost else ""
            self.lines.append(Line(member.path, note=note, lost=lost))

    def _why_not(self, member: Member, claim: Claim) -> str:
        """Why a student's file is no submission of the chapter; empty when it is one, be it unreadable."""
        ours = self.place.layout in (Layout.EXCHANGE, Layout.NBGRADER)
        if member.beyond:
            return member.why_not
        if claim.text:
            return "typed into Moodle's text field: no notebook"
        if (claim.file,) in (STAMP, SECRET):
            return SILENT
        if not members.is_notebook((claim.file,)):
            if claim.file.lower().endswith((".zip", ".gz", ".tar", ".7z", ".rar", ".tgz")):
                return "an archive that is not one notebook in a zip; ask for the notebook itself"
            return member.why_not or "no notebook (.ipynb)"
        if ours and len(member.parts) - self.place.above > (2 if self.place.layout is Layout.EXCHANGE else 3):
            return SILENT  # a copy in a folder of theirs
        called = [file for _, file in self.chapter.handed_in_as]
        return f"its name is not {' or '.join(called)}" if ours and claim.file not in called else ""

    def _told(self) -> None:
        """Of whom nobody says when; what of the table of times did not count."""
        if untimed := {line.student for line in self.lines if line.when_from == moments.NO_TIME}:
            self.lines.append(Line(self.place.path.name, taken="yes", note=moments.untimed(len(untimed))))
        if self.times is None:
            return
        name = self.times.path.name
        if self.punctual:
            says = f"Canvas does not say LATE of {len(self.punctual)} whom it names: they are on time, whatever it says; a "
            self.lines.append(
                Line(name, taken="yes", note=f"{says}column `late` (yes or no) goes before Canvas's word")
            )
        self.lines += [
            Line(name, taken="yes", note=f"{where}: of nobody who handed in") for where in self.times.unused()
        ]

    def _known(self, one: _One, person: Person) -> bool:
        """Give a file its student; without one it gets its line."""
        one.student, one.unclear = person.student, bool(person.may_be)
        self.perhaps |= person.may_be
        one.notes += [person.note] if person.note else []
        if not one.student:
            self.lines.append(one.line("no", lost=not one.why_not))
        return bool(one.student)

    def _dated(self, one: _One, stamp: Member | None) -> None:
        if one.why_not:
            return
        told = self.times.find(one.student, one.claim.lms) if self.times else None
        moment = moments.moment(one.member, one.claim, self.place.layout, stamp, told)
        if told and told.late is None and moment.source == moments.ON_TIME:
            self.punctual.add(one.student)
        one.when, one.when_from = moment.when, moment.source
        one.notes[:0] = moment.notes
        one.order = self._order(one)

    def _order(self, one: _One) -> tuple[object, ...]:
        """What makes a file the newest. In an exchange, where anybody may write, the student's own goes before others'."""
        called = [Path(file).stem for _, file in self.chapter.handed_in_as]
        named, one.number = max(filenames.rank(one.claim.file, name) for name in called)
        when = moments.readable(one.claim.when)
        if self.place.layout in (Layout.EXCHANGE, Layout.NBGRADER):
            return exchange.owned(one.member, one.claim), when, one.place
        if not named:
            one.notes.append(f"it is called {harmless.visible(one.claim.file)[:80]}, not {self.chapter.name}.ipynb")
        doubtful = self.place.layout is Layout.CANVAS and not named and bool(filenames.SIGNS.match(one.claim.file))
        if doubtful:
            one.notes.append("a number stands before that: it may be of another, whose display name ends like theirs")
        downloaded = self.place.layout in (Layout.CANVAS, Layout.MOODLE)  # and its own time is that of the download
        changed = f"{one.member.time:{moments.FORMAT}}" if one.member.time and not downloaded else ""
        return named, not doubtful, when, one.claim.submission, -len(one.member.parts), one.number, changed, one.place

    def _unwrap(self, ones: list[_One], private: Path) -> None:
        """Take the one file of somebody without a notebook that is one all the same."""
        may_be = [one for one in ones if not (one.member.why_not or one.claim.text or one.why_not == SILENT)]
        held = [(one, contents.unwrapped(one.member, self.chapter, private)) for one in may_be[: contents.LOOKED_AT]]
        found = [(one, data) for one, data in held if data is not None]
        if len(found) == 1:
            ((one, one.held),) = found
            one.why_not = ""
            one.notes.append("by what it holds it is the notebook: taken")
            self._dated(one, None)

    def _answered_first(self, notebooks: list[_One]) -> list[_One]:
        """The notebooks of a student, newest first: but a blank one never goes before another unless a time says so."""
        newest, *others = notebooks
        if not others or contents.answered(newest.member, self.chapter) is not False:
            return notebooks
        looked_at = (one for one in others[: contents.LOOKED_AT] if contents.answered(one.member, self.chapter))
        if not (other := next(looked_at, None)):
            return notebooks
        blank, answered = (harmless.visible(one.member.path)[:100] for one in (newest, other))
        later = moments.readable(newest.when) > moments.readable(other.when)
        says = f"{blank} was taken, which is blank: it is newer than {answered}, which is not"
        if not later:
            says = f"{answered} was taken: {blank} is blank, and nothing says that it came later"
            notebooks = [other, *(one for one in notebooks if one is not other)]
        notebooks[0].notes.append(says)
        self.doubts[intake.student_name(newest.student)] = says
        return notebooks

    def _newest(self, ones: list[_One]) -> _One | None:
        """The file that counts; of the others a line each. None if there is no notebook, which the first one's line says."""
        notebooks = sorted((one for one in ones if not one.why_not), key=lambda one: one.order, reverse=True)
        for one in sorted(ones, key=lambda one: not one.member.beyond):
            if one.why_not and (one.why_not != SILENT or not notebooks):
                one.notes.append(f"no {self.chapter.name}.ipynb" if one.why_not == SILENT else one.why_not)
                if not notebooks:
                    one.notes.append("they handed in no notebook, and are marked so")
                taken = "no" if notebooks or one.why_not == SILENT else "instead"
                self.lines.append(one.line("text" if one.claim.text and notebooks else taken))
        if not notebooks:
            if other := next((one.claim.file for one in ones if one.why_not != SILENT), ""):
                self.instead[intake.student_name(ones[0].student)] = intake.student_name(other)
            return None
        newest, *older = self._answered_first(notebooks)
        in_time = sorted(notebooks, key=lambda one: one.arrival).index(newest) + 1
        self.attempts[intake.student_name(newest.student)] = f"{in_time} of {len(notebooks)}"
        if older:
            newest.notes.append(f"{'the newest' if newest is notebooks[0] else 'one'} of {len(notebooks)} files")
        self.lines += [one.line("older") for one in older]
        return newest

    def _write(self, private: Path, newest: list[_One]) -> None:
        """Write what `intake` reads, in the order of the source; where a class is too large, its largest are left out."""
        cap, left = self.chapter.limits.notebook_bytes + 1, TOTAL
        too_much: set[str] = set()
        for one in sorted(newest, key=lambda one: (min(one.member.size, cap), one.student)):
            left -= min(one.member.size, cap)
            too_much |= {one.student} if left < 0 else set()
        for one in sorted(newest, key=lambda one: one.place):
            place = private / one.student / self.chapter.name
            place.mkdir(parents=True)
            try:
                if one.student in too_much:
                    raise UnreadableError(f"is one of the largest: the class has more than {TOTAL >> 30} GiB")
                data = one.member.read(cap) if one.held is None else one.held
            except UnreadableError as error:
                one.notes.insert(0, f"it {error}: marked as invalid")
                data = b""
            (place / f"{self.chapter.name}.ipynb").write_bytes(data)
            if one.when:
                (place / "timestamp.txt").write_text(one.when, encoding="utf-8")
            secret = self.beside.get((*one.member.parts[:-1], *SECRET))
            if secret and self.place.layout in (Layout.EXCHANGE, Layout.NBGRADER):
                with suppress(UnreadableError):
                    (place / exchange.SECRET).write_bytes(secret.read(exchange.SECRET_BYTES + 1))

    def _lines(self, students: list[str]) -> tuple[Line, ...]:
        """All lines; a forged file is no loss where its name's own student handed in, too."""
        there = set(map(intake.student_name, students))
        forged = self.place.layout is Layout.EXCHANGE
        kept = [replace(line, lost=line.lost and not (forged and line.student in there)) for line in self.lines]
        if self.place.layout is Layout.NBGRADER and self.place.path.is_dir():  # used as they are: only what is odd
            kept = [line for line in kept if line.note]
        return shortened(kept)
