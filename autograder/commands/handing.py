"""The verbs that hand something to students and to other systems: release, export, feedback."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autograder.commands import grading
from autograder.commands.application import INSTRUCTORS, ChapterName, Out, a_file, app, end, opened, published_at
from autograder.commands.terminal import AUTHOR, OK, progress, say, warn
from autograder.model.amounts import are, some

if TYPE_CHECKING:  # these import what takes seconds
    from autograder.export.totals import Total
    from autograder.model.course import Chapter

CHAPTERS = typer.Argument(help="03_device_placement, device_placement or 03", metavar="CHAPTER...")


@app.command(rich_help_panel=INSTRUCTORS)
def release(
    context: typer.Context,
    chapter: ChapterName,
    out: Annotated[Path, typer.Option(help="a folder, new or with chapters of the course: what students get")],
    solutions: Annotated[bool, typer.Option("--solutions", help="with the answers, after the deadline")] = False,
    due: Annotated[
        str | None, typer.Option(help="with --solutions, where the header says none: 2026-11-30T23:59+01:00")
    ] = None,
    published: Annotated[
        str,
        typer.Option(help="where released folders are pushed to, https://HOST/OWNER/NAME: else as course.toml says"),
    ] = "",
) -> None:
    """Write a chapter for students: its notebook, a README, and the library alone; no answer, no check, no grader.

    Several chapters released to one folder stand there together.

    For example: autograder release 03 --out handout
    """
    from autograder.release import bundle

    course = opened(context)
    name = course.full_name(chapter)
    address = published_at(course, published)
    written = bundle.release(course, name, out, solutions=solutions, due=due, published=address)
    say(f"released: {name}, {len(written)} files in {out}; try it: cd {out} && uv run across lab")


@app.command(rich_help_panel=INSTRUCTORS)
def export(
    context: typer.Context,
    chapters: Annotated[list[str] | None, CHAPTERS] = None,
    *,
    out: Out,
    term: Annotated[bool, typer.Option("--term", help="the total of the term, too, or alone")] = False,
    canvas: Annotated[Path | None, a_file(help="fill this gradebook, as Canvas exports it")] = None,
    moodle: Annotated[Path | None, a_file(help="fill this grading worksheet of a Moodle assignment")] = None,
    to: Annotated[Path | None, typer.Option(help="the file to write; by default OUT/export/ and the same name")] = None,
    roster: Annotated[Path | None, a_file(help="CSV: id, lms id, name, email")] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(help="with --canvas: 03=TITLE, 03=ID or term=TITLE, where they are called otherwise"),
    ] = None,
    scale: Annotated[bool, typer.Option("--scale", help="to the points that are possible there")] = False,
    gradescope: Annotated[
        Path | None, typer.Option(help="write an autograder for Gradescope here: it copies marks, and runs nothing")
    ] = None,
    submissions: Annotated[
        Path | None, typer.Option(help="with --gradescope: what was graded, as for grade", exists=True)
    ] = None,
    name_pattern: Annotated[str, typer.Option(help="with --submissions: how files are named, as for grade")] = "",
    waiting: Annotated[
        bool, typer.Option("--waiting", help="what waits for a mark by hand, too, as it stands now")
    ] = False,
) -> None:
    """Fill the columns of a gradebook that was downloaded from Canvas or Moodle, to be imported there again; or write an
    autograder for Gradescope that gives everyone the mark that they have here.

    For example: autograder export 03 --out class --canvas gradebook.csv --roster class.csv

    Where `autograder term` was run, a chapter's mark is what counts by its rules, and --term exports the total.

    Exit code 2: somebody's mark is not in the file; who, and the mend, is printed, and all others are in it.
    """
    from autograder.export import canvas as canvas_file
    from autograder.export import gradescope as gradescope_zip
    from autograder.export import moodle as moodle_file
    from autograder.export import spreadsheet
    from autograder.export.filling import Filled
    from autograder.export.people import People
    from autograder.export.totals import TERM, counted, of_term
    from autograder.store import files
    from autograder.submissions import filenames

    if sum(each is not None for each in (canvas, moodle, gradescope)) != 1:
        table = "OUT/totals.csv is the table for any other system"
        end(AUTHOR, f"give one of --canvas FILE and --moodle FILE, or --gradescope ZIP; {table}")
    course = opened(context)
    names = list(dict.fromkeys(course.full_name(name) for name in chapters or ()))
    if not names and not term:
        end(AUTHOR, "name a CHAPTER, or say --term for the total of the term")
    if (moodle or gradescope) and len(names) + term > 1:
        end(AUTHOR, "--moodle, --gradescope: each is of one assignment; export one chapter, or --term, at a time")
    if gradescope and term:
        end(AUTHOR, "--gradescope is of what was handed in for a chapter, which the total of a term is not")
    if column and not canvas:
        end(AUTHOR, "--column names a column of --canvas")
    columns = {
        TERM.name if term and name == TERM.name else course.full_name(name): title
        for name, _, title in (said.partition("=") for said in column or ())
    }
    class_ = [(chapter, counted(out, chapter)) for chapter in map(course.chapter, names)]
    _say_rules(out, class_)
    if term:
        class_.append((TERM, of_term(out, course.id)))
    if waiting:
        there = [each for _, found in class_ for each in found if not each.not_yet(waiting)]
        _say_open([each for each in there if each.unread + each.waiting])
    if gradescope:
        if submissions is None:
            needs = "--gradescope needs --submissions, what was graded"
            end(AUTHOR, f"{needs}: a mark goes by the notebook that was handed in")
        made = gradescope_zip.write(
            gradescope, out, *class_[0], submissions, roster, filenames.pattern(name_pattern), waiting
        )
        say(f"{gradescope}: of {some(made.pages, 'student')}")
        sys.exit(_left_out(made.troubles))
    source = canvas or moodle
    assert source
    everyone = {total.student for _, found in class_ for total in found}
    people, filled = People(out, everyone, roster), Filled(scale, waiting)
    if canvas:
        canvas_file.fill(spreadsheet.read(canvas), class_, people, filled, columns)
    else:
        moodle_file.fill(spreadsheet.read(source), *class_[0], people, filled)
    path = to or out / "export" / source.name
    if path.resolve() == source.resolve():
        end(AUTHOR, f"--to {path}: that is the download itself; give another file")
    if filled.zeros_alone:
        end(
            AUTHOR,
            f"nothing was written: {some(filled.waiting, 'student')} ha{'s' if filled.waiting == 1 else 've'} no mark yet, "
            f"and the other {filled.filled} ha{'s' if filled.filled == 1 else 've'} 0; "
            "give what waits in the formgrader, or add --waiting",
        )
    files.replace(path, filled.data, mode=0o600)
    were = "it was" if filled.untouched == 1 else "they were"
    other = f"{filled.changed} of them in place of another; {some(filled.untouched, 'cell')} as {were}"
    say(f"{path}: {some(filled.filled, 'mark')}, {other}")
    for line in filled.said():
        warn("not exported", line)
    if filled.troubles:
        sys.exit(AUTHOR)


def _say_rules(out: Path, class_: list[tuple[Chapter, list[Total]]]) -> None:
    """Say whose rules the marks of these chapters are by, where OUT keeps those of a term."""
    from autograder.term.kept import FILE

    for chapter, found in class_:
        asked = [total for total in found if total.stands is not None]
        others = sum(abs(total.points - (total.stands or 0.0)) >= 0.005 for total in asked)
        if asked:
            of = f"{others} of {some(len(asked), 'mark')} {are(others)}"
            say(f"{chapter.name}: as {out / FILE} counts it; {of} other than the gradebook's")
        elif found and (out / FILE).is_file():
            say(f"{chapter.name}: does not count in {out / FILE}; as the gradebook has it")


def _say_open(found: list[Total]) -> None:
    """Say whose mark leaves the house though a part of it waits, or nobody could read it: by itself none would."""
    from autograder.export.filling import LISTED

    for each in found[:LISTED]:
        why = [each.nobody_read] if each.unread else []
        why += [f"{each.waits}, counted 0"] if each.waiting else []
        stands = f"{some(each.points, 'point')} as it stands"
        warn("exported", f"{each.student}, {each.chapter}: {'; '.join(why)}; {stands}", "yellow")
    if len(found) > LISTED:
        warn("exported", f"{len(found) - LISTED} more of that kind", "yellow")


def _left_out(troubles: list[str]) -> int:
    """Say who is not in a zip, and how the command ends."""
    for line in troubles:
        warn("not in the zip", line)
    return AUTHOR if troubles else OK


@app.command(rich_help_panel=INSTRUCTORS)
def feedback(
    context: typer.Context,
    chapters: Annotated[list[str], CHAPTERS],
    out: Out,
    zip_: Annotated[
        str, typer.Option("--zip", help="for whose upload: canvas, moodle, or folders, a folder for each student")
    ],
    waiting: Annotated[bool, typer.Option("--waiting", help="also where answers wait for a mark by hand")] = False,
) -> None:
    """Zip the feedback of a chapter as Canvas or Moodle takes it back: OUT/export/feedback_CHAPTER_canvas.zip.

    For example: autograder feedback 03 --out class --zip canvas

    Exit code 2: somebody's feedback is not in the zip; who, and the mend, is printed, and all others' is.
    """
    from autograder.export import returned
    from autograder.export.totals import totals
    from autograder.report import outputs

    if zip_ not in (known := [each.value for each in returned.Target]):
        end(AUTHOR, f"--zip {zip_}: give one of {', '.join(known)}")
    course, target, code = opened(context), returned.Target(zip_), OK
    for chapter in map(course.chapter, dict.fromkeys(course.full_name(name) for name in chapters)):
        path = out / "export" / f"feedback_{chapter.name}_{target}.zip"
        with grading.held(out), progress(f"feedback on {chapter.name}") as advance:
            unmade = outputs.write(out, chapter, progress=advance)  # with the marks that were given by hand meanwhile
            made = returned.write(path, out, chapter, totals(out, chapter), target, waiting)
        say(f"{path}: of {some(made.pages, 'student')}")
        grading.without_notebook(unmade)
        code = max(code, _left_out(made.troubles))
    sys.exit(code)
