"""The verbs of whoever has a class: grade, report, term, forget."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from autograder.commands import grading
from autograder.commands.application import INSTRUCTORS, ChapterName, Out, a_file, app, end, opened, spelled
from autograder.commands.terminal import AUTHOR, INFRASTRUCTURE, OK, console, progress, say, warn
from autograder.model.amounts import some


@app.command(rich_help_panel=INSTRUCTORS)
def grade(
    context: typer.Context,
    chapter: ChapterName,
    submissions: Annotated[
        Path,
        typer.Option(
            help="DIR/<student>/<chapter>/<chapter>.ipynb, a Canvas or Moodle download (folder or zip), or an "
            "exchange of nbgrader"
        ),
    ],
    out: Out,
    workers: Annotated[int, typer.Option(help="submissions graded at once; 0: one a core", min=0)] = 0,
    trust: Annotated[
        bool, typer.Option("--trust-submissions", help="no sandbox: only for code that you trust")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="grade what did not change, too")] = False,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="record a class that is odd: most at one limit, late, blank, changed")
    ] = False,
    student: Annotated[list[str] | None, typer.Option(help="only this one; may be given again for more")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="change nothing: show which marks would change")] = False,
    limit: Annotated[
        list[str] | None, typer.Option(help="with --dry-run: another limit, such as cell_seconds=240")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="with --dry-run: the changes for machines")] = False,
    engine: Annotated[str, typer.Option(help="who grades: local or dask://HOST:PORT")] = "local",
    tls: Annotated[Path | None, typer.Option(help="with dask://: the folder of the cluster's certificate")] = None,
    db: Annotated[str, typer.Option(help="the gradebook, if not in OUT: postgresql+psycopg://USER@HOST/NAME")] = "",
    gpus: Annotated[
        str,
        typer.Option(help="cards leased for each submission, whatever the chapter says; or simulated: on no card"),
    ] = "",
    roster: Annotated[Path | None, a_file(help="CSV of the class: which id (and name) is which lms id")] = None,
    handed_in: Annotated[
        Path | None, a_file(help="CSV: which id (or lms id) handed in when; or Moodle's worksheet")
    ] = None,
    extensions: Annotated[
        Path | None, a_file(help="CSV, kept in OUT: id, chapter, days or until, time (x limits)")
    ] = None,
    name_pattern: Annotated[str, typer.Option(help="how files are named, as for nbgrader zip_collect")] = "",
    watch: Annotated[bool, typer.Option("--watch", help="grade what arrives, until Ctrl-C")] = False,
    release_feedback: Annotated[
        bool, typer.Option("--release-feedback", help="with --watch on an exchange: pages go back into it at once")
    ] = False,
    due: Annotated[
        str | None, typer.Option(help="kept in OUT: 2026-11-30T23:59+01:00, or '2026-11-30T23:59 Europe/Vienna'")
    ] = None,
    late_per_day: Annotated[str | None, typer.Option(help="kept in OUT: 10% of the score a started day")] = None,
    grace: Annotated[
        str | None, typer.Option(help="kept in OUT: 15m late cost nothing; who is later loses from the due date on")
    ] = None,
) -> None:
    """Grade a class: marks.csv, totals.csv, gradebook.db, feedback/ and report.html in OUT.

    Exit code 0: every submission got its verdicts; 1: this machine failed at some; 2: wrong usage, an author's fault, a
    class so odd that nobody was recorded for it, or files that are somebody's and nobody got a mark for: all others did.
    """
    course = opened(context)
    name = course.full_name(chapter)
    policy = (due, late_per_day, grace)
    if not watch and not submissions.exists():
        end(AUTHOR, f"--submissions {submissions}: there is nothing; give a folder or a zip")
    if dry_run and (watch or any(said is not None for said in policy)):
        end(AUTHOR, "--dry-run goes with neither --watch nor --due, --late-per-day or --grace: these are kept in OUT")
    if release_feedback and not watch:
        end(
            AUTHOR,
            "--release-feedback needs --watch; else look at the marks, then run nbgrader release_feedback in OUT",
        )
    if (limit or json_) and not dry_run:
        end(AUTHOR, "--limit and --json need --dry-run: what is recorded rests on the limits of the chapter's header")
    from autograder.engine import executors
    from autograder.engine.request import Request
    from autograder.gpu import simulated
    from autograder.model.limits import read_limits
    from autograder.submissions.handed_in import HandedIn

    given = simulated.asked(gpus)
    request = Request(
        course,
        name,
        HandedIn(submissions),
        out,
        workers=workers,
        trust=trust,
        again=again,
        anyway=anyway,
        watching=watch,
        students=student or (),
        limits=read_limits(limit or ()),  # a slip in them costs no start of servers
        gpus=given,
        db_url=db or None,
        command=spelled(context),
    )
    if extensions:
        from autograder.submissions import extensions as table

        request = replace(request, extensions=table.read(extensions, course.full_name))
    if engine == executors.LOCAL:
        grading.launch(request)
    from autograder.submissions import arrivals, downloads, filenames

    full = course.chapter(name)
    which: dict[str, Any] = {"names": filenames.pattern(name_pattern), "roster": roster, "times": handed_in}
    with executors.opened(engine, course, name, tls, given) as executor:
        request = replace(request, executor=executor)
        if handed_in or any(said is not None for said in policy):
            from autograder.gradebook import late_penalty  # all of nbgrader comes with it: see `grade_class`

            if any(said is not None for said in policy):
                with grading.held(out):
                    late_penalty.settle(out, full, *policy, db_url=db or None)
            which["zone"] = late_penalty.zone(out)
        if watch:
            into = None
            if release_feedback:
                from autograder.export import into_exchange

                into = into_exchange.folder(submissions)
            watching = grading.Watching(request, into)
            which["complain"] = partial(warn, "waiting", colour="yellow")
            sys.exit(watching.to_the_end(arrivals.batches(submissions, full, idle=watching.idle, **which)))
        # held before the class is gathered: what was handed in while this waited is newer than what was gathered before
        with nullcontext() if dry_run else grading.held(out), downloads.gathered(submissions, full, **which) as found:
            code, request = grading.tell(found, name, None if dry_run else out), replace(request, handed_in=found)
            sys.exit(max(code, grading.rehearse(request, json_) if dry_run else grading.grade_to_the_end(request)))


@app.command(rich_help_panel=INSTRUCTORS)
def report(context: typer.Context, chapter: ChapterName, out: Out) -> None:
    """Write marks.csv, feedback and the class's report anew, with the marks that were given by hand meanwhile.

    Exit code 1: a page shows no notebook, and says why.
    """
    from autograder.gradebook import record
    from autograder.report import class_page as reporter
    from autograder.report import outputs, words

    course = opened(context)
    full = course.chapter(course.full_name(chapter))
    with grading.held(out), progress("feedback") as advance:
        words.keep(course, full.name, out)
        unmade = outputs.write(out, full, progress=advance, command=spelled(context))
    console.print(reporter.class_table(out, full))
    grading.reports(out, full)
    grading.too_high(record.records(out, full))
    grading.without_notebook(unmade)
    sys.exit(INFRASTRUCTURE if unmade else OK)


@app.command(rich_help_panel=INSTRUCTORS)
def term(
    context: typer.Context,
    rules: Annotated[
        Path, typer.Argument(help="the rules: see docs/term.md", metavar="TERM.TOML", exists=True, dir_okay=False)
    ],
    out: Out,
    student: Annotated[str, typer.Option(help="write nothing: say this one's total line by line")] = "",
) -> None:
    """Apply a term's rules to all chapters in OUT: term.csv, term.html, and a page for each student that explains the total.

    OUT keeps them: from then on `export` goes by them, and a page of feedback says where its chapter counts otherwise. Marks
    in the gradebook stay as they are. Exit code 2: somebody in a section is in no class; all others are counted.

    For example: autograder term term.toml --out class
    """
    from autograder.gradebook import late_penalty, record, released
    from autograder.model.course import near
    from autograder.report import term_lines, term_page
    from autograder.term import counting, kept
    from autograder.term import rules as rules_of

    course = opened(context)
    read = rules_of.read(rules, course.full_name)
    if student:
        named = {line.student: line for line in kept.lines(out, course.id, read)}
        if student not in named:
            end(AUTHOR, f"{out}: no student {student!r}; {near(student, named)}")
        for head, told in term_lines.parts(named[student], read, late_penalty.zone(out)):
            for said in (head, *(f"  {line}" for line in told)):
                say(said)
        return
    with grading.held(out):  # before it is counted: a batch changes marks
        lines, zone = kept.lines(out, course.id, read), late_penalty.zone(out)
        kept.keep(out, rules)
        path = term_page.write(out, read, lines, zone, course.title)
    chapters = len(lines[0].chapters) if lines else 0
    say(f"{path}: {some(len(lines), 'student')}, {some(chapters, 'chapter')}")
    for chapter in released.every(out, course.id):
        grading.too_high(record.records(out, chapter))
        if read.best:
            grading.no_attempts(out, chapter)
    strangers = counting.strangers(read, lines)
    for section, who in strangers:
        mend = near(who, {line.student for line in lines})
        warn("nobody", f"{rules}: sections.{section}.students: {who!r} is in no class; {mend}")
    sys.exit(AUTHOR if strangers else OK)


@app.command(rich_help_panel=INSTRUCTORS)
def forget(
    context: typer.Context,
    student: str,
    out: Out,
    yes: Annotated[bool, typer.Option("--yes", help="remove it; without this, only say what would go")] = False,
) -> None:
    """Remove all that is kept of one student: marks, answers, feedback, lines of lists and of the log. For good.

    For example: autograder forget ada --out class --yes
    """
    from autograder.gradebook import forgetting, released
    from autograder.report import outputs

    course = opened(context)
    kept = forgetting.kept(out, student, course.id)
    of = (
        f"{', '.join(kept.chapters) or 'no chapter'}; {', '.join(map(str, (*kept.folders, *kept.tables, *kept.pages)))}"
    )
    if not yes:
        return say(f"{student}: would remove {of}; say --yes")
    with grading.held(out):
        forgetting.forget(out, student, course.id)
        for chapter in released.every(out, course.id):
            with progress("pages") as advance:
                outputs.write(out, chapter, progress=advance)
    say(f"{student}: removed {of}")
    for path in forgetting.mentions(out, student):
        warn("has the name still", str(path))
