"""Chapters for people who hear them: headings in order in each, and what `autograder run` says of a picture without words."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable
from typing import Any

import nbformat
import pytest
from bs4 import BeautifulSoup
from PIL import Image

import house
from across import hands, memory, placement
from autograder.authoring.run import SHORTEST, _Pictures, found
from autograder.model.course import find

GOOD = "Two lanes: CPU:0 runs a, then b; CPU:1 runs c."


@pytest.mark.parametrize("chapter", find().chapters)
def test_the_headings_of_a_chapter_are_in_order(chapter: str):
    assert list(house.heading_slips(find().chapter(chapter).release["cells"])) == []


@pytest.mark.parametrize("chapter", find().chapters)
@pytest.mark.parametrize("folder", ["", "zh"])
def test_a_chapter_begins_with_its_title_a_question_and_a_picture_in_words(folder: str, chapter: str):
    notebook = nbformat.read(find().root / "notebooks" / folder / f"{chapter}.ipynb", as_version=4)
    title, question, *_ = notebook.cells[0].source.splitlines()
    assert title.startswith("# ")
    assert re.fullmatch(r"\*\*.+[?？]\*\*", question)
    image = BeautifulSoup(notebook.cells[0].source, "html.parser").img
    assert image is not None
    assert len(str(image["alt"])) >= SHORTEST
    assert len(str(image["alt"]).split(". ")) == 1
    png = base64.b64decode(str(image["src"]).partition("base64,")[2])
    assert len(png) <= 25_000
    shape = Image.open(io.BytesIO(png)).size
    width = int(str(image["width"]))
    assert width <= 770
    assert width * shape[1] / shape[0] <= 350


@pytest.mark.parametrize(
    ("prose", "slip"),
    [
        ("# One\n### Three", "'Three': ### follows #; a level is left out"),
        ("## Two", "'Two': ## follows nothing; a level is left out"),
        ("# One\n## Two\n# Again", "'Again': a second heading of the first level; make it ## or lower"),
        ("no heading", "there is no heading; begin with `# Title`"),
    ],
)
def test_a_heading_out_of_order_is_named(prose: str, slip: str):
    assert list(house.heading_slips([{"cell_type": "markdown", "source": prose}])) == [slip]


def test_going_up_several_levels_and_a_comment_in_a_fence_are_no_slip():
    prose = "# One\n## Two\n### Three\n```python\n# a comment\n```\n## Two again"
    assert list(house.heading_slips([{"cell_type": "markdown", "source": prose}])) == []


def shown(**data: Any) -> list[str]:
    """What `autograder run` says of a cell that showed this."""
    output = nbformat.v4.new_output(
        "display_data", data={key.replace("_", "/", 1): value for key, value in data.items()}
    )
    return list(found(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("show()", outputs=[output])])))


def test_a_picture_that_says_what_it_shows_is_no_problem():
    assert shown(text_html=f'<img src="data:," alt="{GOOD}">', image_png="iVBORw0KGgo=") == []
    assert shown(text_html=f'<svg role="img" aria-label="{GOOD}"></svg><svg aria-hidden="true"></svg>') == []


@pytest.mark.parametrize(
    "html", ['<img src="data:,">', '<img src="data:," alt=" ">', "<svg></svg>", '<img alt="plot">']
)
def test_a_picture_without_words_is_a_problem(html: str):
    [said] = shown(text_html=html)
    assert said.startswith("cell 1 (show()): a picture says ")
    assert said.endswith("give it alt text made of its data")


def test_a_figure_as_matplotlib_shows_it_is_a_problem():
    assert len(shown(text_plain="<Figure size 640x480 with 1 Axes>", image_png="iVBORw0KGgo=")) == 1


@pytest.mark.parametrize(
    "dump", ["[[1. 2.]\n [3. 4.]]", "array([1.0, 2.0])", "0.1234 0.5678 0.9123 1.2345", "<tf.Tensor: shape=()>"]
)
def test_values_as_printed_are_no_words(dump: str):
    [said] = shown(text_html=f'<img src="data:," alt="The values are {dump.replace("<", "&lt;")} here.">')
    assert "values as printed" in said


CPUS = ("CPU:0", "CPU:1")
RAN = placement.Trace((placement.Op("x", "Const", "CPU:0", "float32", ()),), CPUS)
LINES = {"x": [1, 2], "n": [1, 2]}
MOVED = {  # by hand; of a title too short to be a picture's words
    "filled": lambda: memory.draw_filled(title="T"),
    "lines": lambda: hands.draw_lines({"f": lambda x, n: x + n}, LINES, title="T", y="s", start=(1, 2)),
    "lines without a title": lambda: hands.draw_lines({"f": lambda x, n: x * n}, LINES, title="", y="s", start=(1, 2)),
    "placement": lambda: hands._placed(RAN, [RAN, RAN], "T", CPUS),
    "placement without a title": lambda: hands._placed(RAN, [RAN, RAN], "", CPUS),
    "walk": lambda: memory.walk_places({"a": [(0.0, 4.0)], "b": [(0.0, 4.0), (8.0, 4.0)]}, title="T"),
}


@pytest.mark.parametrize("show", MOVED.values(), ids=MOVED)
def test_a_picture_that_is_moved_by_hand_has_words_of_its_data_whatever_its_title(show: Callable[[], Any]):
    data, facts = show()._repr_mimebundle_()
    output = nbformat.v4.new_output("display_data", data=data, metadata=facts)
    assert len(_words(data["text/html"])) == 2, "as it starts and as it moves, or a step each"
    assert list(found(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("show()", outputs=[output])]))) == []


def _words(html: str) -> list[str | None]:
    seen = _Pictures()
    seen.feed(html)
    return seen.words
