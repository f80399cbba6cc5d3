"""The instructor's command: autograder build, run, grade, report, explain, demo."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
console = Console()
errors = Console(stderr=True)

OK, INFRASTRUCTURE, AUTHOR = 0, 1, 2  # exit codes; 2 is wrong usage, too

ChapterName = Annotated[str, typer.Argument(help="03_device_placement, device_placement or 03", metavar="CHAPTER")]
Out = Annotated[Path, typer.Option(help="the folder of the class's gradebook, feedback and reports")]


def main() -> None:
    """Run the command; an author's or a user's fault is one line and exit code 2, this machine's exit code 1."""
    from across.warm import ServerError
    from autograder.course import CourseError
    from autograder.grade import InfrastructureError
    from autograder.sandbox import SandboxError

    try:
        app()
    except CourseError as error:
        _end(AUTHOR, str(error))
    except ServerError as error:
        at = str(error).rfind("CourseError: ")
        _end(AUTHOR if at >= 0 else INFRASTRUCTURE, str(error)[at + 13 :] if at >= 0 else str(error))
    except SandboxError as error:
        _end(INFRASTRUCTURE, f"{error}; or, for submissions that you trust: --trust-submissions")
    except (InfrastructureError, OSError) as error:
        _end(INFRASTRUCTURE, f"{error}")
    except KeyboardInterrupt:
        _end(130, "interrupted; what was graded is kept: run the same command again to go on")


def _end(code: int, says: str) -> None:
    errors.print(f"[bold red]autograder:[/] {_plain(says)}", highlight=False, soft_wrap=True)
    sys.exit(code)


def _plain(says: str) -> str:
    from rich.markup import escape

    return escape(says.strip())


@app.command()
def build(
    check: Annotated[bool, typer.Option("--check", help="change nothing; fail if a notebook is stale")] = False,
) -> None:
    """Write notebooks/ from solutions/."""
    from autograder import build as builder

    stale = builder.build(check=check)
    for name in stale:
        console.print(f"{'stale' if check else 'built'}: notebooks/{name}.ipynb", highlight=False)
    if check and stale:
        _end(AUTHOR, "notebooks/ is older than solutions/; run `autograder build` and commit what it writes")


@app.command()
def run(chapters: Annotated[list[str] | None, typer.Argument(help="all of them by default")] = None) -> None:
    """Execute solved notebooks from top to bottom, as CI does; fail on an error, a warning or a trace of one."""
    from autograder import course
    from autograder import run as runner

    names = [course.full_name(name) for name in chapters or course.chapter_names()]
    if not runner.run(names):
        sys.exit(AUTHOR)


@app.command()
def grade(
    chapter: ChapterName,
    submissions: Annotated[
        Path, typer.Option(help="DIR/<student>/<chapter>/<chapter>.ipynb", exists=True, file_okay=False)
    ],
    out: Out,
    workers: Annotated[int, typer.Option(help="submissions graded at once; 0: one a core", min=0)] = 0,
    trust: Annotated[
        bool, typer.Option("--trust-submissions", help="no sandbox: only for code that you trust")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="grade what did not change, too")] = False,
    gpus: Annotated[
        int | None, typer.Option(help="cards leased for each submission, whatever the chapter says", min=0)
    ] = None,
) -> None:
    """Grade a class: marks.csv, gradebook.db, feedback/ and report.html in OUT.

    Exit code 0: every submission got its verdicts; 1: this machine failed at some; 2: wrong usage or an author's fault.
    """
    from autograder import course

    course.ask_gpus(gpus)
    sys.exit(grade_to_the_end(course.full_name(chapter), submissions, out, workers, trust, again))


def grade_to_the_end(
    chapter_name: str, submissions: Path, out: Path, workers: int = 0, trust: bool = False, again: bool = False
) -> int:
    """Grade, write marks, feedback and report, print the class's table; the exit code."""
    from autograder import course, engine, outputs, report

    with progress(f"grading {chapter_name}") as advance:
        result = engine.grade_class(
            chapter_name, submissions, out, workers=workers, trust=trust, again=again, progress=advance
        )
    engine.close()
    chapter = course.chapter(chapter_name)
    with progress("feedback") as advance:
        outputs.write(out, chapter, faults=result.faults, workers=workers, progress=advance)
    console.print(report.class_table(out, chapter))
    said = f"{len(result.graded)} graded, {len(result.unchanged)} unchanged"
    console.print(f"{said}, {len(result.faults)} left by a fault of this machine", highlight=False)
    console.print(f"report: {out / 'report.html'}", highlight=False, soft_wrap=True)
    for student, why in result.faults.items():
        errors.print(f"[bold red]not graded:[/] {_plain(student)}: {_plain(why)}", highlight=False)
    return INFRASTRUCTURE if result.faults else OK


@app.command()
def report(chapter: ChapterName, out: Out) -> None:
    """Write marks.csv, feedback and the class's report anew, with the marks that were given by hand meanwhile."""
    from autograder import course, outputs
    from autograder import report as reporter

    full = course.chapter(course.full_name(chapter))
    with progress("feedback") as advance:
        outputs.write(out, full, progress=advance)
    console.print(reporter.class_table(out, full))
    console.print(f"report: {out / 'report.html'}", highlight=False, soft_wrap=True)


@app.command()
def explain(
    student: str,
    chapter: ChapterName,
    exercise: Annotated[str, typer.Argument(help="all of them by default")] = "",
    *,
    out: Out,
) -> None:
    """Say why a student has the marks that they have: evidence, limits reached, what to do."""
    from autograder import course
    from autograder import report as reporter

    console.print(reporter.explain(out, course.chapter(course.full_name(chapter)), student, exercise), highlight=False)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="where the class and its marks are written")] = Path("demo"),
    workers: Annotated[int, typer.Option(help="submissions graded at once; 0: one a core", min=0)] = 0,
) -> None:
    """Make a class of 30 invented submissions of chapter 03 and grade it, start to end."""
    from autograder import demo as classroom

    submissions = classroom.make(out / "submissions")
    code = grade_to_the_end(classroom.CHAPTER, submissions, out, workers)
    console.print(f"open {(out / 'report.html').resolve().as_uri()}", highlight=False, soft_wrap=True)
    sys.exit(code)


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int, str], None]]:
    """A progress bar with the time that is left; yields what is called with (done, of how many, whom)."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, TextColumn("{task.fields[whom]}"), console=errors) as bar:
        task = bar.add_task(what, total=None, whom="starting")

        def advance(done: int, total: int, whom: str) -> None:
            bar.update(task, completed=done, total=total, whom=_plain(whom)[:30])

        yield advance
