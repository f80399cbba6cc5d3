"""The README of what students are handed: how its chapters are opened, worked on and handed in."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from autograder.model.address import Address
from autograder.model.course import Chapter, Course
from autograder.release import elsewhere
from autograder.submissions.instead import short

DEVICES = (
    "## Devices\n\nOn a machine without cards the GPUs are *simulated*, or TensorFlow's processor is split into *logical "
    "CPUs*: devices with real copies and real errors, but not faster. `uv run across doctor` says what there is. With "
    "NVIDIA cards on Linux: `uv sync --extra gpu` once, then `uv run --extra gpu across lab`."
)


def text(
    course: Course, chapters: Sequence[Chapter], solved: Collection[str] = (), published: Address | None = None
) -> str:
    """The README, in Markdown; each of its links leads to a file beside it, or to where it is `published`.

    `chapters` are as released, one at least; the answers to those whose names are in `solved` are there.
    """
    chapter, name = chapters[0], chapters[0].name
    tensorflow = any(module.partition(".")[0] == "tensorflow" for module in course.preload)
    parts = [
        f"# {course.title}",
        "\n".join(_line(each, each.name in solved, published) for each in chapters),
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
        "Colab and Binder need no installation. Their machines forget what you do: download the notebook before you leave."
        if published
        else "",
        "## Work",
        f"{_answering(chapter)}\n"
        "- *Validate* in the toolbar runs what the checks need in a fresh kernel and lists each exercise that is open; a click "
        f"on it leads there. `uv run across run {short(name)}` runs the whole notebook in a terminal.\n"
        f"- To start afresh, take `notebooks/{name}.ipynb` out of your download again.",
        "## Hand in",
        f"Save, press *Validate*, and hand in the chapter's one file, such as `notebooks/{name}.ipynb`. Keep its name, and "
        "keep all cells"
        + ("." if any(each.assignment for each in chapters) else ": what you add is left out of your mark."),
        DEVICES if tensorflow else "",
        "## When something is in the way",
        _troubles(name, tensorflow),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _line(chapter: Chapter, solved: bool, published: Address | None) -> str:
    """One chapter: its notebook, what it is worth, when it is due, its answers, where else it can be opened."""
    name, count = chapter.name, len(chapter.exercises)
    by_hand = sum(exercise.manual for exercise in chapter.exercises)
    said = f"- *{chapter.title}*: [{name}.ipynb](notebooks/{name}.ipynb), with {count} exercise{'s' * (count != 1)} "
    said += f"worth {chapter.max_points:g} point{'s' * (chapter.max_points != 1)}"
    said += f", {by_hand} of them read by a person." if by_hand else "."
    said += f" It is due {chapter.due}." if chapter.due else ""
    said += f" Its answers: [solutions/{name}.ipynb](notebooks/solutions/{name}.ipynb)." if solved else ""
    return said + (f" {elsewhere.links(published, chapter)}" if published else "")


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
