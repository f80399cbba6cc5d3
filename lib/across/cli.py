"""The student's command: across lab, doctor, run, reset, prepare, diary."""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - whoever has an older Python gets a sentence instead of a SyntaxError
    sys.exit(f"across: this Python is {sys.version.split()[0]}; 3.11 to 3.13 is needed: uv run --python 3.12 across")

from pathlib import Path
from typing import Annotated

import typer

from across._language.catalogue import LANGUAGES, said

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)

FAILED, USAGE = 1, 2  # exit codes
Language = Annotated[str, typer.Option("--lang", help=f"en, or another language: {', '.join(LANGUAGES)}")]


def main() -> None:
    """Run the command; what is in its way is one line with the mend, and exit code 2."""
    from across._cluster_doctor.gathering import NoCluster
    from across._gpu.building import NoGpu
    from across._jupyter.chapters import NoSuchChapter, NoSuchLanguage, NotHandedOut
    from across._process import bytecode

    bytecode.keep()
    try:
        app()
    except OSError as error:
        from across._jupyter import in_the_way

        print(f"across: {in_the_way.sentence(error)}", file=sys.stderr)
        sys.exit(USAGE)
    except (NoSuchChapter, NoSuchLanguage, NotHandedOut, NoCluster, NoGpu) as error:
        print(f"across: {error}", file=sys.stderr)
        sys.exit(USAGE)


def _version(asked: bool) -> None:
    if asked:
        from across._system import version

        print(f"across {version('across')}, TensorFlow {version('tensorflow')}, Python {sys.version.split()[0]}")
        raise typer.Exit


@app.callback(help=__doc__)
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="what is installed")
    ] = False,
) -> None:
    """Say what is installed, before any command."""


@app.command()
def lab(
    browser: Annotated[bool, typer.Option(help="open a browser window")] = True,
    port: Annotated[int | None, typer.Option(help="8888, or the next that is free", min=1, max=65535)] = None,
    lang: Language = "",
    gpus: Annotated[int, typer.Option(help="simulate so many GPUs where there is no real one", min=0, max=16)] = 0,
    diary: Annotated[bool, typer.Option("--diary", help="write down, in a file of yours, what exercises take")] = False,
) -> None:
    """Open JupyterLab on the course."""
    from across._jupyter import chapters
    from across._jupyter import lab as jupyter

    chapters.speak(lang)
    jupyter.start(browser, port, diary, gpus)


@app.command()
def doctor(
    cluster: Annotated[bool, typer.Option("--cluster", help="say why a job of several tasks hangs")] = False,
    pid: Annotated[
        int | None, typer.Option(help="with --cluster: whose TF_CONFIG; otherwise that of this environment")
    ] = None,
    logs: Annotated[
        Path | None, typer.Option(help="with --cluster: the folder with what tasks printed", exists=True)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="for programs: one JSON object")] = False,
) -> None:
    """Say which devices, versions and limits there are, and what each chapter can show here.

    --cluster: look at the tasks of a TF_CONFIG, here and at their addresses, and name what they wait for (exit code 1: found).
    """
    if cluster:
        from across._cluster_doctor import report

        sys.exit(report.look(pid, logs, json))
    if pid or logs:
        raise typer.BadParameter("--pid and --logs go with --cluster")
    from rich.console import Console

    from across import doctor as examine

    facts = examine.facts()
    if json:
        import json as text

        print(text.dumps(facts, indent=2))
    else:
        Console().print(examine.rendered(facts))


@app.command()
def run(
    chapter: Annotated[str, typer.Argument(help="03_device_placement, device_placement or 03")], lang: Language = ""
) -> None:
    """Run a chapter from top to bottom and say which of its checks pass (exit code 1: not all)."""
    from across._jupyter import chapters

    chapters.speak(lang)
    path = chapters.find(chapter)

    from rich.console import Console
    from rich.progress import Progress

    from across._jupyter import headless, in_the_way  # seconds of imports, after what can go wrong at once

    in_the_way.look(settings=False)
    headless.build_ahead(path)
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task(said("running {0}", path.stem), total=None)
        report = headless.run(path, lambda done, of: bar.update(task, completed=done, total=of))
    console = Console()
    console.print(headless.rendered(report))
    for line in report.errors:
        console.print(line, style="red", markup=False, highlight=False)
    sys.exit(0 if report.passed else FAILED)


@app.command()
def reset(chapter: Annotated[str, typer.Argument(help="03_device_placement, device_placement or 03")]) -> None:
    """Begin a chapter anew: its notebooks as they were handed out, its predictions not measured yet; yours are kept."""
    from across._jupyter import resetting

    for line in resetting.reset(chapter):
        print(line)


@app.command()
def prepare(chapter: Annotated[str, typer.Argument(help="13_many_workers, many_workers or 13; or gpu")]) -> None:
    """Install what a chapter's scripts need in an environment of their own: 13 runs an old TensorFlow (1.2 GB).

    gpu: build the simulated GPU, about 20 s.
    """
    if chapter == "gpu":
        from across._gpu import building

        print(f"the simulated GPU is built: {building.build()}")
        return
    from across import scripts
    from across._jupyter import chapters

    notebook = chapters.find(chapter)
    found = scripts.beside(notebook)
    for script in found:
        print(f"{script.name}: {scripts.prepare(script)}")
    if not found:
        print(f"{notebook.stem} needs no environment of its own")


@app.command()
def diary(lang: Language = "") -> None:
    """Say how long each exercise took, of what `uv run across lab --diary` wrote down."""
    from rich.console import Console

    from across._jupyter import chapters, progress, spent
    from across._process import diary as kept

    chapters.speak(lang)
    table = spent.rendered(progress.course())
    Console().print(
        table or said("There is no diary of these chapters yet: `uv run across lab --diary` keeps one."),
        highlight=False,
    )
    if table:
        print(kept.file())
