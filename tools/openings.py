"""Draw the picture that a chapter begins with: one that its own solved run draws, into solutions/pictures/NAME.png.

    uv run python tools/openings.py 07       # runs the chapter as far as that; without a number all of them, in minutes

What a picture shows was measured, so another run draws another one: what is kept is what one run drew. `DRAWN` says which: one
that asks the chapter's question, that its reader draws later, and that gives no answer and no prediction away.
"""

from __future__ import annotations

import base64
import io
from dataclasses import replace
from typing import Annotated

import typer
from PIL import Image

from across._jupyter import progress
from autograder.authoring import build
from autograder.authoring.run import execute
from autograder.model.course import Course, CourseError, find
from autograder.store import files
from course_site.outputs import PATIENCE

COLOURS = 32  # of which the edges of letters and lines need most; a picture is a third as large as it was drawn
DRAWN = {  # a chapter -> what the words of that picture say, and those of none before it
    "01_gpu_setup": "Six layers, This machine, layer by layer",
    "02_gpu_memory": "Two programs, no settings",
    "03_device_placement": "3 ops on 3 devices",
    "04_kernels_and_soft_placement": "3 ops on 2 devices",
    "05_parallel_execution": "Timeline, One run of five ops",
    "06_control_dependencies": "Control edges go from a to",
    "07_clusters": "The same run: what went from server to server",
    "08_sharded_variables": "One forward pass",
    "09_replication": "Four processes, one trainer",
    "10_towers": "Loss in 60 updates",
    "11_strategies": "MirroredStrategy",
    "12_custom_training": "Ten made digits",
    "13_many_workers": "Two workers, one death",
    "14_capstone": "RECORDED: somebody's study",
}


class _Drawn(Exception):  # noqa: N818
    """Ends a run: it has drawn the picture, in base64."""


def drawn(course: Course, name: str) -> bytes:
    """The picture, a PNG, of a new run of a chapter's solved notebook. Raises CourseError where that does not draw it."""
    notebook, chapter = build.solved(course, name), course.chapter(name)

    def look(_done: int) -> None:
        outputs = (output for cell in notebook.cells for output in cell.get("outputs", ()))
        for shown in filter(None, map(progress.picture, outputs)):
            if DRAWN[name] in shown["alt"]:
                raise _Drawn(shown["png"])

    try:
        ran = execute(name, notebook, replace(chapter.limits, **PATIENCE), look, chapter.files)
    except _Drawn as found:
        return _small(base64.b64decode(found.args[0]))
    said = "; ".join(ran.problems) or "mend DRAWN in tools/openings.py"
    raise CourseError(f"{name}: the words of no picture of its run say {DRAWN[name]!r}: {said}")


def _small(png: bytes) -> bytes:
    image, made = Image.open(io.BytesIO(png)), io.BytesIO()
    few = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(made, "PNG", optimize=True, dpi=image.info["dpi"])
    return made.getvalue()


def main(chapters: Annotated[list[str] | None, typer.Argument(help="all of them by default")] = None) -> None:
    """Draw the pictures."""
    course = find()
    for name in map(course.full_name, chapters or DRAWN):
        files.replace(course.root / "solutions" / "pictures" / f"{name}.png", drawn(course, name))
        print(name)


if __name__ == "__main__":
    typer.run(main)
