"""The README of what students are handed: how its chapters are opened, worked on and handed in."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from autograder.model.address import Address
from autograder.model.course import Chapter, Course
from autograder.release import elsewhere
from autograder.submissions.instead import short


def text(
    course: Course, chapters: Sequence[Chapter], solved: Collection[str] = (), published: Address | None = None
) -> str:
    """The README, in Markdown; each of its links leads to a file beside it, or to where it is `published`.

    `chapters` are as released, one at least; the answers to those whose names are in `solved` are there.
    """
    chapter, name = chapters[0], chapters[0].name
    tensorflow = any(module.partition(".")[0] == "tensorflow" for module in course.preload)
    parts = [
        *(
            _one(course, chapter, name in solved)
            if len(chapters) == 1
            else _several(course, chapters, solved, published)
        ),
        "## Start",
        "On a machine with Python and pip, in this folder:",
        "```bash\npip install uv && uv run across lab\n```",
        "The first start installs all that is needed, TensorFlow and JupyterLab among it, which takes some minutes; later "
        "ones take seconds. JupyterLab opens on a start page. Without a browser on that machine: `uv run across lab "
        "--no-browser --port 8890`, then open the address that it prints.",
        "Without uv, with a Python from 3.11 to 3.13:",
        '```bash\npython -m venv .venv\n.venv/bin/pip install -c constraints.txt "./lib[lab]"\n.venv/bin/across lab\n```',
        "With conda:",
        f"```bash\nconda env create -f environment.yml && conda activate {course.id} && across lab\n```",
        _elsewhere(chapter, published) if published and len(chapters) == 1 else "",
        FORGETS if published and len(chapters) > 1 else "",
        "## Work",
        f"{_answering(chapter)}\n"
        "- *Validate* in the toolbar runs what the checks need in a fresh kernel and lists each exercise that is open; a click "
        f"on it leads there. `uv run across run {short(name)}` runs the whole notebook in a terminal.\n"
        f"- To start afresh, take `notebooks/{name}.ipynb` out of your download again.",
        "## Hand in",
        f"Save, press *Validate*, and hand in {_file(chapters)}. Keep its name, and keep all cells"
        + ("." if any(each.assignment for each in chapters) else ": what you add is left out of your mark."),
        _devices() if tensorflow else "",
        "## When something is in the way",
        _troubles(name, tensorflow),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


FORGETS = (
    "Colab and Binder need no installation. Their machines forget what you do: download the notebook before you leave."
)


def _one(course: Course, chapter: Chapter, solved: bool) -> list[str]:
    name = chapter.name
    return [
        f"# {chapter.title}",
        f"A chapter of *{course.title}*: {_notebook(chapter)}, with {_exercises(chapter)}." + _due(chapter),
        f"Its answers are in [solutions/{name}.ipynb](notebooks/solutions/{name}.ipynb)." if solved else "",
    ]


def _several(
    course: Course, chapters: Sequence[Chapter], solved: Collection[str], published: Address | None
) -> list[str]:
    said = []
    for chapter in chapters:
        line = f"- *{chapter.title}*: {_notebook(chapter)}, with {_exercises(chapter)}." + _due(chapter)
        if chapter.name in solved:
            line += f" Its answers: [solutions/{chapter.name}.ipynb](notebooks/solutions/{chapter.name}.ipynb)."
        said.append(line + (f" {elsewhere.links(published, chapter)}" if published else ""))
    return [f"# {course.title}", f"{len(chapters)} chapters of it, in their order:", "\n".join(said)]


def _notebook(chapter: Chapter) -> str:
    return f"[{chapter.name}.ipynb](notebooks/{chapter.name}.ipynb)"


def _file(chapters: Sequence[Chapter]) -> str:
    if len(chapters) == 1:
        return f"`notebooks/{chapters[0].name}.ipynb`, this one file"
    return f"the chapter's one file, such as `notebooks/{chapters[0].name}.ipynb`"


def _answering(chapter: Chapter) -> str:
    if chapter.assignment:
        return (
            "- Answer in the cells that say so; you may add cells of your own.\n- The tests below an answer say whether it "
            "looks right so far. Run them as often as you like. There may be others that you do not see."
        )
    return (
        '- Answer in the cells that say `raise NotImplementedError("your turn")`, or repair the program in them. '
        "Cells of your own count where an answer needs a name that they bind.\n"
        "- The check below an answer says whether it looks right so far, and if not, what it saw. Run it as often as you "
        "like. Marks come from others, which ask your functions about other inputs."
    )


def _exercises(chapter: Chapter) -> str:
    count = len(chapter.exercises)
    by_hand = sum(exercise.manual for exercise in chapter.exercises)
    said = f"{count} exercise{'s' * (count != 1)} worth {chapter.max_points:g} point{'s' * (chapter.max_points != 1)}"
    return said + (f", {by_hand} of them read by a person" if by_hand else "")


def _due(chapter: Chapter) -> str:
    return f" It is due {chapter.due}." if chapter.due else ""


def _elsewhere(chapter: Chapter, published: Address) -> str:
    return (
        f"Without installing anything: {elsewhere.links(published, chapter)}. These machines forget what you do: download the "
        "notebook before you leave."
    )


def _devices() -> str:
    return (
        "## Devices\n\nOn a machine without cards the GPUs are *simulated*, or TensorFlow's processor is split into *logical "
        "CPUs*: devices with real copies and real errors, but not faster. `uv run across doctor` says what there is. With "
        "NVIDIA cards on Linux: `uv sync --extra gpu` once, then `uv run --extra gpu across lab`."
    )


def _troubles(name: str, tensorflow: bool) -> str:
    rows = [
        ("you see", "do"),
        ("---", "---"),
        ("`port 8888 is taken; try ...`", "what it says"),
        (
            "a kernel that dies",
            f"`uv run across run {short(name)}` says at which cell; out of memory is the usual reason",
        ),
        ("no `Validate` in the toolbar", "JupyterLab was started in another way; use `uv run across lab`"),
        ("Python too old", "`uv run --python 3.12 across lab`; uv fetches that Python"),
    ]
    if tensorflow:
        says = "`TensorFlow has already started with 1 logical CPU`"
        rows.insert(3, (says, "Kernel, Restart: devices are fixed by the first op of a process"))
    return "\n".join(f"| {left} | {right} |" for left, right in rows)
