"""What `autograder grade` does and says: from a class in a folder to marks, pages and a table; a rehearsal; watching."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from autograder.commands.terminal import AUTHOR, INFRASTRUCTURE, OK, Interrupted, console, progress, say, warn
from autograder.model.amounts import are, some

MOST = 40  # lines of one kind
PATIENCE = 600.0  # seconds that a command waits for another that writes into OUT, such as a batch of who watches
AGAIN = (60.0, 300.0, 1200.0)  # seconds until who was left is tried again, when nothing else arrives; then no more
AT_ONCE = 100  # who are graded before their pages are given: nobody of a large batch waits for all of it

if TYPE_CHECKING:
    from autograder.engine.class_run import ClassResult
    from autograder.engine.request import Request
    from autograder.gradebook.record import Record
    from autograder.model.course import Chapter
    from autograder.submissions.handed_in import HandedIn


def tell(found: HandedIn, chapter_name: str, out: Path | None = None) -> int:
    """Say where the class comes from, and what was not taken of it; the exit code. The list of files is kept in `out`."""
    from autograder.submissions import handed_in

    if not found.lines:
        return OK
    for says in found.trouble():
        warn("handed in", says, "yellow")
    if out:
        where = handed_in.write_list(out, found, chapter_name)
        who = f"{some(len(found.students), 'student')} from {found.layout}; " if found.students else ""
        say(f"{who}what became of each file: {where}")
    if not found.lost:
        return OK
    said = f"{some(found.lost, 'file')} {are(found.lost)} somebody's, but nobody of the class gets a mark for "
    said += f"{'it' if found.lost == 1 else 'them'}; the others were taken"
    warn("handed in", said)
    return AUTHOR


@dataclass
class _Class:
    """What is told of the class as a whole, and was not told yet: while one watches it waits for those who wait for a page."""

    before: list[Record] = field(default_factory=list)  # what was recorded when it was told last
    result: ClassResult | None = None
    unmade: dict[str, str] = field(default_factory=dict)
    told: float = 0.0  # time.monotonic, when it was told last
    took: float = 0.0  # seconds

    def due(self) -> bool:
        """Whether it may be told though more arrives: it takes a tenth of the time at most."""
        return time.monotonic() - self.told > 10 * self.took


class Watching:
    """Grades each batch that arrives, and gives pages back into the exchange `into` if there is one.

    Of a batch those are graded, and get their pages, whose submissions changed; what tells of the whole class is written
    when nothing arrives, or now and then: it grows with the class, and nobody of those who handed in waits for it.
    """

    def __init__(self, request: Request, into: Path | None = None) -> None:
        self.request, self.into = request, into
        self.code, self.batches = OK, 0
        self._seen: dict[str, bytes] = {}
        self._left: dict[str, tuple[int, float]] = {}  # whom this machine failed at: tries again, when next
        self._asked = -math.inf  # time.monotonic, when those were last asked for
        self._class: _Class | None = None

    def idle(self) -> bool:
        """Tell of the class what was not told yet; Ctrl-C meanwhile is one in the middle of a batch.

        Returns whether it is time to try those again at whom this machine failed, who need the class gathered.
        """
        if self._pending():
            self._tell()
        now = time.monotonic()
        asks = bool(self._due()) and now - self._asked > AGAIN[0]  # once, where the class cannot be gathered
        self._asked = now if asks else self._asked
        return asks

    def _tell(self) -> None:
        assert self._class is not None
        with held(self.request.out, math.inf):
            self.code = max(self.code, _tell_class(self.request, self._class))
        self._watch()

    def _due(self) -> set[str]:
        """Whom to try again now."""
        return {student for student, (_, at) in self._left.items() if at <= time.monotonic()}

    def _leave(self, student: str, tries: int) -> None:
        """Try a student again later, and not for ever: whose answers make the machine fail would hold up everybody's page."""
        pause = AGAIN[tries] if tries < len(AGAIN) else math.inf
        self._left[student] = tries, time.monotonic() + pause
        if pause == math.inf:
            warn("not graded", f"{student}: failed {tries + 1} times; tried again when it is handed in anew")

    def _pending(self) -> bool:
        return self._class is not None and self._class.result is not None

    def _watch(self) -> None:
        console.print("watching; Ctrl-C ends it", highlight=False)

    def to_the_end(self, arrivals: Iterator[HandedIn]) -> int:
        """Ctrl-C between two batches is how it ends. Returns the worst exit code.

        Raises files.BusyError where another process watches the same chapter: neither of the two would ever end.
        """
        from autograder.store import files

        with files.only_watcher(self.request.out, self.request.chapter):
            from autograder.engine import class_run

            self._watch()
            while found := self._next(arrivals):
                self._batch(found)
            self.idle()
            class_run.close()
        console.print(f"watched: {self.batches} batch{'' if self.batches == 1 else 'es'} graded", highlight=False)
        return self.code

    def _next(self, arrivals: Iterator[HandedIn]) -> HandedIn | None:
        try:
            return next(arrivals, None)
        except Interrupted:
            if self._pending():
                raise
        return None

    def _batch(self, found: HandedIn) -> None:
        from autograder.submissions import arrivals

        request, chapter = self.request, self.request.course.chapter(self.request.chapter)
        now = arrivals.prints(found, chapter)
        among = {*found.students} & {*(request.students or found.students)}
        changed = {each for each, made_of in now.items() if self._seen.get(each) != made_of} & among
        again = set() if changed else self._due()
        for student in again - among:
            del self._left[student]
        asked = sorted(changed or again & among)
        if not asked:
            if self._class and self._pending() and self._class.due():
                self._tell()
            return
        self.code = max(self.code, tell(found, request.chapter, request.out))
        for first in range(0, len(asked), AT_ONCE):
            with held(request.out, math.inf):
                some = replace(request, handed_in=found, students=asked[first : first + AT_ONCE])
                self._class = self._class or _Class()
                faults = _verdicts(some, self._class, self.into).faults
                for student in some.students:
                    tries, _ = self._left.pop(student, (0, 0.0))
                    if student in faults:
                        self._leave(student, tries + 1 if student in again else 0)
                if self._class.due():
                    self.code = max(self.code, _tell_class(request, self._class))
        self._seen |= now
        self.batches += 1
        if not self._pending():
            self._watch()


def held(out: Path, seconds: float = PATIENCE) -> AbstractContextManager[None]:
    """Hold OUT if it is there; wait for another process that writes there, and say so."""
    from autograder.store import files

    if not out.is_dir():
        return nullcontext()
    return files.patient_writer(out, seconds, lambda says: warn("waiting", f"{says}; this goes on after it", "yellow"))


def launch(request: Request) -> None:
    """Start the warm servers: they import, TensorFlow for one, while we import nbgrader. Not where others grade."""
    from autograder.job import forkserver
    from autograder.sandbox import boxes

    if request.executor is None and (request.trust or not boxes.problem()):
        forkserver.launch(request.course, request.chapter)


def _ready(request: Request) -> Request:
    """Start the servers; the request with the reference as it is now, which is read meanwhile."""
    launch(request)
    from autograder.authoring import build

    return replace(request, reference=build.solution_source(request.course, request.chapter))


def rehearse(request: Request, as_json: bool = False) -> int:
    """Grade and keep nothing; say which marks would change against what is in OUT. Returns the exit code."""
    request = _ready(request)
    from autograder.engine import class_run, dry_run
    from autograder.report import changes

    with progress(f"grading {request.chapter}, to keep nothing") as advance:
        result, was, then = dry_run.rehearse(request, advance)
    found = changes.compare(was, then)
    class_run.close()
    if as_json:
        typer.echo(json.dumps({**found.to_json(), "faults": result.faults}, indent=1))
    else:
        if not found.same and not found.changed:
            console.print("there is nothing in OUT to compare with: every mark is new", highlight=False)
        elif found.changed or found.kept:
            console.print(changes.table(found))
        console.print(f"{changes.totals(found)}; nothing was written", highlight=False, soft_wrap=True)
    left(result.faults)
    return INFRASTRUCTURE if result.faults else OK


def grade_to_the_end(request: Request) -> int:
    """Grade, write marks, feedback and report, print the class; all the while OUT is held. Returns the exit code."""
    from autograder.store import files

    with files.only_writer(request.out):
        class_ = _Class()
        _verdicts(request, class_)
        return _tell_class(request, class_)


def _verdicts(request: Request, class_: _Class, into: Path | None = None) -> ClassResult:
    """Grade and record, and write the pages of these students; into the exchange `into` as well."""
    out, chapter = request.out, request.course.chapter(request.chapter)  # an author's fault ends the command here
    request, found = _ready(request), request.handed_in
    from autograder.engine import class_run
    from autograder.report import words

    first = class_.told == 0.0 and class_.result is None

    def meanwhile() -> None:
        from autograder.gradebook import database, record

        if first:
            class_.before = record.records(out, chapter) if database.exists(out) else []

    pages = ThreadPoolExecutor(1, thread_name_prefix="pages")
    with progress(f"grading {chapter.name}") as advance, pages:
        # what all pages share, made once, while submissions are graded: 0.7 s
        prepare = cache(lambda: pages.submit(_prepare, chapter))

        def advanced(done: int, of: int, student: str) -> None:
            prepare()
            advance(done, of, student)

        begun = partial(words.keep, request.course, chapter.name, out)
        result = class_run.grade_class(request, progress=advanced, meanwhile=meanwhile, begun=begun)
    from autograder.gradebook import record, roll
    from autograder.report import outputs
    from autograder.submissions import intake

    if not request.watching:
        class_run.close()
    if found.roster:
        there = {each.student for each in intake.collect(found.folder, chapter)}
        roll.keep_absent(out, chapter, set(found.roster) - there - set(found.perhaps))
    if request.extensions:
        known = {*found.roster, *(each.student for each in record.records(out, chapter))}
        for each in request.extensions:
            if each.chapter in ("", chapter.name) and each.student not in known:
                warn("extension", f"{each.where}: nobody of that id is in the class yet; it is kept", "yellow")
    if found.enrolled:
        roll.enter(out, chapter, found.enrolled)
    done = {*result.graded, *result.unchanged}
    roll.keep_attempts(out, chapter, found.attempts, done)
    faults = result.faults
    if request.students:  # of the others nothing has changed
        faults = {name: why for name, why in roll.left(out, chapter).items() if name not in done} | faults
    roll.keep_left(out, chapter, faults)
    class_.result = result if class_.result is None else class_.result.with_more(result)
    if request.watching:
        unmade = outputs.write_pages(out, chapter, done, request.workers)
        class_.unmade = {student: why for student, why in class_.unmade.items() if student not in done} | unmade
    if into is not None:
        from autograder.export import into_exchange

        for says in into_exchange.give(into, out, chapter, done):
            warn("not given back", says)
    return result


def _tell_class(request: Request, class_: _Class) -> int:
    """Write and print what tells of the class as a whole; without `watching` everybody's page, too. Returns the exit code."""
    from autograder.gradebook import record, roll
    from autograder.report import attention, changes, class_page, outputs
    from autograder.term import kept

    begun = time.monotonic()
    out, chapter, result = request.out, request.course.chapter(request.chapter), class_.result
    assert result is not None
    with progress("feedback") as advance:
        made = class_.unmade if request.watching else None
        say_how = {"workers": request.workers, "progress": advance, "command": request.command}
        unmade = outputs.write(out, chapter, made=made, **say_how)
    after = record.records(out, chapter)
    console.print(class_page.class_table(out, chapter))
    said = f"{len(result.graded)} graded, {len(result.unchanged)} unchanged"
    console.print(f"{said}, {len(result.faults)} left by a fault of this machine", highlight=False)
    if absent := roll.absent(out, chapter):
        say(f"{len(absent)} of the roster handed in nothing: {', '.join(absent)}")
    if summary := changes.summary(changes.compare(class_.before, after)):
        say(summary)
    reports(out, chapter)
    if (rules := kept.read(out, chapter.course)) and rules.best:
        no_attempts(out, chapter)
    for (exercise, test), met in attention.broken(after).items():
        says = f"{exercise}, {test}: {met[0][1].kind} (on {some(len(met), 'answer')}, {met[0][0]}'s for one)"
        warn("a check broke", says)
    too_high(after)
    left(result.faults)
    without_notebook(unmade)
    class_.before, class_.result = after, None
    class_.told = time.monotonic()
    class_.took = class_.told - begun
    return INFRASTRUCTURE if result.faults or unmade else OK


def _prepare(chapter: Chapter) -> None:
    from autograder.report import feedback, outputs  # noqa: F401

    feedback.prepare(chapter)


def reports(out: Path, chapter: Chapter) -> None:
    """Say where the pages of the chapter and, if there are several, of the course lie."""
    from autograder.gradebook import released
    from autograder.report import class_page

    say(f"report: {out / class_page.page_name(chapter)}")
    if len(released.chapters(out, chapter)) > 1:
        say(f"all chapters: {out / 'report.html'}")


def too_high(class_: list[Record]) -> None:
    """Say which marks by hand are more than their exercises have: no export gives them, and no term counts them."""
    from autograder.gradebook.record import TOO_HIGH, above

    for each in class_:
        if found := above(each.rows):
            no = "no export gives it, no term counts it"
            warn("mark too high", f"{each.student}, {each.verdict.chapter}: {found} {TOO_HIGH}; {no}")


def no_attempts(out: Path, chapter: Chapter) -> None:
    """Say whose older notebooks the best attempt is not chosen from."""
    from autograder.term import kept

    if who := kept.never_graded(out, chapter):
        names = f"{', '.join(who[:MOST])}{', ...' if len(who) > MOST else ''}"
        says = f"{chapter.name}: {names}: the last download holds older notebooks of theirs that were never graded"
        mend = "grade each download before the next one, or these files by themselves and then the download again"
        warn("no attempts", f"{says}; the best attempt is one that was graded: {mend}", "yellow")


def left(faults: dict[str, str]) -> None:
    """Say who was not graded, and why."""
    for student, why in islice(faults.items(), MOST):
        warn("not graded", f"{student}: {why}")
    if len(faults) > MOST:
        warn("not graded", f"{len(faults) - MOST:,} more")


def without_notebook(unmade: dict[str, str]) -> None:
    """Say whose page shows no notebook, and why."""
    for student, why in unmade.items():
        warn("no notebook on the page", f"{student}: {why}; the marks stand, the notebook is in autograded/")
