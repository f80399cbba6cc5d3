"""The instructor's command: autograder build, run, grade, report, explain, demo, verify, bench, engine, certificates."""

from __future__ import annotations

import json
import shlex
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from autograder.commands import grading
from autograder.commands.terminal import AUTHOR, INFRASTRUCTURE, OK, Interrupted, console, errors, plain, progress

if TYPE_CHECKING:
    from autograder.model.course import Course

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

ChapterName = Annotated[str, typer.Argument(help="03_device_placement, device_placement or 03", metavar="CHAPTER")]
Out = Annotated[Path, typer.Option(help="the folder of the class's gradebook, feedback and reports")]


def main() -> None:
    """Run the command; an author's or a user's fault is one line and exit code 2, this machine's exit code 1.

    Ctrl-C and SIGTERM end all that was started; what was graded is kept (exit codes 130 and 143).
    """
    from across._process.warm import ServerError
    from autograder.job.forkserver import InfrastructureError
    from autograder.model.course import CourseError
    from autograder.sandbox.boxes import SandboxError
    from autograder.store import files

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupted)
    try:
        app()
    except CourseError as error:
        _end(AUTHOR, str(error))
    except ServerError as error:
        at = str(error).rfind("CourseError: ")
        _end(AUTHOR if at >= 0 else INFRASTRUCTURE, str(error)[at + 13 :] if at >= 0 else str(error))
    except SandboxError as error:
        _end(INFRASTRUCTURE, f"{error}; or, for submissions that you trust: --trust-submissions")
    except InfrastructureError as error:
        _end(INFRASTRUCTURE, f"{error}")
    except OSError as error:
        _end(INFRASTRUCTURE, files.says(error))
    except Interrupted as stop:
        _end(128 + stop.args[0], "interrupted; what was graded is kept: run the same command again to go on")


def _interrupted(number: int, _: object) -> None:
    raise Interrupted(number)


def _end(code: int, says: str) -> None:
    errors.print(f"[bold red]autograder:[/] {plain(says)}", highlight=False, soft_wrap=True)
    sys.exit(code)


@app.callback(help=__doc__)
def options(
    context: typer.Context,
    course: Annotated[
        Path | None,
        typer.Option(help="the folder of course.toml; by default that of the working folder, or one above it"),
    ] = None,
) -> None:
    """Keep what is said before the command."""
    context.obj = course


def opened(context: typer.Context) -> Course:
    """The course that the command is about. Raises CourseError."""
    from autograder.model import course

    return course.find(context.obj)


@app.command()
def build(
    context: typer.Context,
    check: Annotated[bool, typer.Option("--check", help="change nothing; fail if a notebook is stale")] = False,
) -> None:
    """Write notebooks/ from solutions/."""
    from autograder.authoring import build as builder

    stale = builder.build(opened(context), check=check)
    for name in stale:
        console.print(f"{'stale' if check else 'built'}: notebooks/{name}.ipynb", highlight=False)
    if check and stale:
        _end(AUTHOR, "notebooks/ is older than solutions/; run `autograder build` and commit what it writes")


@app.command()
def run(
    context: typer.Context,
    chapters: Annotated[list[str] | None, typer.Argument(help="all of them by default")] = None,
) -> None:
    """Execute solved notebooks from top to bottom, as CI does; fail on an error, a warning or a trace of one."""
    from autograder.authoring import run as runner

    course = opened(context)
    if not runner.run(course, [course.full_name(name) for name in chapters or course.chapters]):
        sys.exit(AUTHOR)


@app.command()
def grade(
    context: typer.Context,
    chapter: ChapterName,
    submissions: Annotated[
        Path,
        typer.Option(
            help="DIR/<student>/<chapter>/<chapter>.ipynb, a Canvas or Moodle download (folder, zip, tar, tar.gz), or an "
            "exchange of nbgrader"
        ),
    ],
    out: Out,
    workers: Annotated[int, typer.Option(help="submissions graded at once; 0: one a core", min=0)] = 0,
    trust: Annotated[
        bool, typer.Option("--trust-submissions", help="no sandbox: only for code that you trust")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="grade what did not change, too")] = False,
    student: Annotated[list[str] | None, typer.Option(help="only this one; may be given again for more")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="change nothing: show which marks would change")] = False,
    limit: Annotated[
        list[str] | None, typer.Option(help="with --dry-run: another limit, such as cell_seconds=240")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="with --dry-run: the changes for machines")] = False,
    engine: Annotated[
        str, typer.Option(help="who grades: local, dask://HOST:PORT, slurm:FILE or kubernetes:FILE")
    ] = "local",
    tls: Annotated[Path | None, typer.Option(help="with dask://: the folder of the cluster's certificate")] = None,
    db: Annotated[str, typer.Option(help="the gradebook, if not in OUT: postgresql+psycopg://USER@HOST/NAME")] = "",
    gpus: Annotated[
        int | None, typer.Option(help="cards leased for each submission, whatever the chapter says", min=0)
    ] = None,
    roster: Annotated[
        Path | None, typer.Option(help="CSV: which id (and name) is which lms id", exists=True, dir_okay=False)
    ] = None,
    name_pattern: Annotated[str, typer.Option(help="how files are named, as for nbgrader zip_collect")] = "",
    layout: Annotated[str, typer.Option(help="who named the files: canvas, moodle, exchange, nbgrader")] = "",
    watch: Annotated[bool, typer.Option("--watch", help="grade what arrives, until Ctrl-C")] = False,
    watch_for: Annotated[float | None, typer.Option(help="grade what arrives, for so many seconds", min=0)] = None,
    due: Annotated[str | None, typer.Option(help="kept in OUT: 2026-11-30T23:59+01:00")] = None,
    late_per_day: Annotated[str | None, typer.Option(help="kept in OUT: 10% of the score a started day")] = None,
    grace: Annotated[str | None, typer.Option(help="kept in OUT: 15m, for which nothing is taken off")] = None,
) -> None:
    """Grade a class: marks.csv, gradebook.db, feedback/ and report.html in OUT.

    Exit code 0: every submission got its verdicts; 1: this machine failed at some; 2: wrong usage, an author's fault, or
    files that are somebody's and nobody got a mark for: all others did.
    """
    course = opened(context)
    name = course.full_name(chapter)
    how: dict[str, Any] = {"workers": workers, "trust": trust, "again": again, "students": student or (), "gpus": gpus}
    how |= {"db_url": db} if db else {}
    watch = watch or watch_for is not None
    policy = (due, late_per_day, grace)
    if not watch and not submissions.exists():
        _end(AUTHOR, f"--submissions {submissions}: there is nothing; give a folder, a zip, a tar or a tar.gz")
    if dry_run and (watch or any(said is not None for said in policy)):
        _end(AUTHOR, "--dry-run goes with neither --watch nor --due, --late-per-day or --grace: these are kept in OUT")
    if (limit or json_) and not dry_run:
        _end(AUTHOR, "--limit and --json need --dry-run: what is recorded rests on the limits of the chapter's header")
    from autograder.engine import executors
    from autograder.model.limits import read_limits

    limits = read_limits(limit or ())  # a slip in them costs no start of servers
    if engine == executors.LOCAL:
        grading.launch(course, name, how)
    from autograder.gradebook import late_penalty
    from autograder.submissions import arrivals, downloads, filenames

    full, names = course.chapter(name), filenames.Names(name_pattern, layout)
    with executors.opened(engine, course, name, tls, gpus) as executor:
        how |= {"executor": executor} if executor else {}
        if dry_run:
            how["limits"] = limits
            with downloads.gathered(submissions, full, names=names, roster=roster) as found:
                code = grading.tell(found)
                sys.exit(max(code, grading.rehearse(course, name, found.folder, out, json_, **how)))
        if any(said is not None for said in policy):
            late_penalty.settle(out, full, *policy, db_url=db or None)
        if watch:
            how_long: dict[str, Any] = {"seconds": watch_for, "complain": grading.complain}
            batches = arrivals.batches(submissions, full, names=names, roster=roster, **how_long)
            sys.exit(grading.watch(course, name, batches, out, **how))
        with downloads.gathered(submissions, full, names=names, roster=roster) as found:
            code = grading.tell(found, out)
            sys.exit(max(code, grading.grade_to_the_end(course, name, found.folder, out, **how)))


@app.command()
def engine(said: Annotated[str, typer.Argument(help="slurm:FILE or kubernetes:FILE", metavar="ENGINE")]) -> None:
    """Print the job script or the manifest that `grade --engine` would send. Sends nothing."""
    from autograder.engine import executors

    typer.echo(executors.shown(said))


@app.command()
def certificates(folder: Path) -> None:
    """Write the certificate and the key of a Dask cluster: whoever has the key can run programs on its workers."""
    from autograder.engine import executors

    for path in executors.certificates(folder):
        console.print(f"written: {path}", highlight=False, soft_wrap=True)


@app.command()
def report(context: typer.Context, chapter: ChapterName, out: Out) -> None:
    """Write marks.csv, feedback and the class's report anew, with the marks that were given by hand meanwhile.

    Exit code 1: a page shows no notebook, and says why.
    """
    from autograder.report import class_page as reporter
    from autograder.report import outputs

    course = opened(context)
    full = course.chapter(course.full_name(chapter))
    with progress("feedback") as advance:
        unmade = outputs.write(out, full, progress=advance)
    console.print(reporter.class_table(out, full))
    console.print(f"report: {out / 'report.html'}", highlight=False, soft_wrap=True)
    grading.without_notebook(unmade)
    sys.exit(INFRASTRUCTURE if unmade else OK)


@app.command()
def explain(
    context: typer.Context,
    student: str,
    chapter: ChapterName,
    exercise: Annotated[str, typer.Argument(help="all of them by default")] = "",
    *,
    out: Out,
    json_: Annotated[bool, typer.Option("--json", help="all of it, for machines")] = False,
) -> None:
    """Say why a student has the marks that they have: whose fault, evidence, limits reached, what to do."""
    from autograder.report import explain as explainer

    course = opened(context)
    full = course.chapter(course.full_name(chapter))
    command = f"autograder --course {shlex.quote(str(course.root))}" if context.obj else "autograder"
    if json_:
        typer.echo(json.dumps(explainer.as_json(out, full, student, exercise, command=command), indent=1))
    else:
        said, again = explainer.explain(out, full, student, exercise, command=command)
        console.print(said, highlight=False)
        if again:  # in one piece, to be copied
            console.print(plain(again), highlight=False, soft_wrap=True)


@app.command()
def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="where the class and its marks are written")] = Path("demo"),
    workers: Annotated[int, typer.Option(help="submissions graded at once; 0: one a core", min=0)] = 0,
) -> None:
    """Make a class of 30 invented submissions of the course's chapter for it and grade it, start to end."""
    from autograder.devtools import demo as classroom

    course = opened(context)
    submissions = classroom.make(course, out / "submissions")
    code = grading.grade_to_the_end(course, classroom.chapter_of(course), submissions, out, workers=workers)
    console.print(f"open {(out / 'report.html').resolve().as_uri()}", highlight=False, soft_wrap=True)
    sys.exit(code)


@app.command()
def check(
    context: typer.Context,
    chapter: ChapterName,
    exercise: Annotated[str, typer.Argument(help="as the check's cell names it: split")],
    answer: Annotated[
        Path | None,
        typer.Option(help="a file with the cell's source; none: the reference", exists=True, dir_okay=False),
    ] = None,
    seeds: Annotated[int, typer.Option(help="on how many inputs", min=1)] = 3,
) -> None:
    """Say what the checks say of one answer, in seconds: for authors, in no sandbox.

    Exit code 0: every test passed on every seed.
    """
    from autograder.authoring import check_answer

    course = opened(context)
    source = None if answer is None else answer.read_text(encoding="utf-8")
    found = check_answer.check(course, course.full_name(chapter), exercise, source, range(1, seeds + 1))
    console.print(check_answer.table(found))
    sys.exit(OK if all(each.passed for each in found) else INFRASTRUCTURE)


@app.command()
def verify(
    context: typer.Context,
    chapters: Annotated[
        list[str] | None, typer.Argument(help="all by default; one may be followed by some of its exercises")
    ] = None,
    seeds: Annotated[int, typer.Option(help="on how many the reference is graded", min=1)] = 20,
    workers: Annotated[int, typer.Option(help="answers graded at once; 0: one a core", min=0)] = 0,
    changed: Annotated[bool, typer.Option("--changed", help="only chapters that changed since docs/checks.md")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="no sandbox, no mutants: about half a minute")] = False,
    attacks: Annotated[bool, typer.Option("--attacks", help="the corpus of attacks instead of the checks")] = False,
    stock: Annotated[bool, typer.Option("--stock", help="with --attacks: against stock nbgrader, too")] = False,
) -> None:
    """Test the checks themselves: reference, blank, listed answers and mutants of each chapter; or the walls: --attacks.

    A wrong rule earns half of its points at most, an answer without a thought none, and what is right passes the visible
    check.

    With 20 seeds or more what was found of a whole chapter is written into docs/checks.md, if all is well. Exit code 2: a
    check does not do what it must.
    """
    from autograder.authoring import checks_page
    from autograder.authoring import verify as verifier

    course = opened(context)
    if attacks:
        from autograder.devtools import verify_attacks

        sys.exit(OK if verify_attacks.verify(workers, stock) else AUTHOR)
    asked = _with_exercises(course, chapters or course.chapters)
    if changed:
        known = checks_page.digests(course)
        asked = {name: some for name, some in asked.items() if known.get(name) != verifier.digest(course, name)}
    found, written = [], False
    for name, some in asked.items():
        with progress(f"verifying {name}") as advance:
            one = verifier.verify(
                course, name, seeds=seeds, workers=workers, progress=advance, exercises=some, quick=quick
            )
            found.append(one)
        if (
            seeds >= verifier.SEEDS and not some and not quick
        ):  # each as soon as it is known: the next one takes minutes
            written = bool(checks_page.write(course, found[-1:]))
    if found:
        console.print(checks_page.table(found))
    for each in found:
        for said in verifier.complaints(each):
            errors.print(f"[bold red]{each.chapter}:[/] {plain(said)}", highlight=False, soft_wrap=True)
    if written:
        console.print(f"written: {checks_page.path(course)}", highlight=False, soft_wrap=True)
    sys.exit(OK if all(each.good for each in found) else AUTHOR)


def _with_exercises(course: Course, arguments: Iterable[str]) -> dict[str, list[str]]:
    """Each chapter named, with the exercises named after it: `03 split 04`. What follows a chapter's own is its exercise."""
    from autograder.model.course import CourseError

    asked: dict[str, list[str]] = {}
    for argument in arguments:
        try:
            name = course.full_name(argument)
        except CourseError:
            if not asked:
                raise
            asked[list(asked)[-1]].append(argument)
        else:
            asked[name] = []
    return asked


@app.command()
def bench(
    context: typer.Context,
    students: Annotated[int, typer.Option(help="of the demo's class, again and again, each signed", min=1)] = 24,
    repeats: Annotated[int, typer.Option(help="how often each way is timed", min=1)] = 2,
    few: Annotated[int, typer.Option(help="students for papermill and otter, which are timed one by one", min=1)] = 4,
    stock: Annotated[int, typer.Option(help="students for nbgrader, at most: each costs it the same", min=1)] = 24,
    way: Annotated[list[str] | None, typer.Option(help="only ways with this in their name; may be repeated")] = None,
    json: Annotated[Path | None, typer.Option(help="write the figures there, too")] = None,
) -> None:
    """Time grading the same class by stock nbgrader, papermill, otter (if installed) and this, side by side."""
    from autograder.devtools import bench as benchmark

    made = benchmark.bench(
        opened(context),
        students,
        repeats,
        tuple(way or ()),
        few,
        stock,
        lambda line: console.print(line, highlight=False),
    )
    (console if console.is_terminal else Console(width=120)).print(made.table())
    if json is not None:
        benchmark.write(made, json)
