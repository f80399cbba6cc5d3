"""What is recorded of a kernel's words: texts and pictures within caps, our own cells and counts, nothing else."""

import base64
import json
from typing import Any

import nbformat
import nbformat.v4 as v4
import pytest

from autograder.model import markup, recorded_notebook
from autograder.model.recorded_notebook import MORE, NOTEBOOK_IMAGES, NOTEBOOK_TEXT, OUTPUTS, TEXT, rebuilt

PICTURE = b"\x89PNG\r\n\x1a\n"


def nested(depth):
    value = 0
    for _ in range(depth):
        value = [value]
    return value


def assembled(cells=1):
    made = v4.new_notebook(cells=[v4.new_markdown_cell("prose"), *(v4.new_code_cell(f"{n}") for n in range(cells))])
    for number, cell in enumerate(made.cells):
        cell["id"] = f"cell-{number}"
    return made


def executed(*outputs, count=1):
    """A notebook as a kernel left it, with these outputs under each of its cells."""
    found = json.loads(json.dumps(assembled(len(outputs) or 1)))
    for cell, under in zip(found["cells"][1:], outputs or ([],), strict=True):
        cell |= {"outputs": under, "execution_count": count, "source": "forged", "metadata": {"tags": ["forged"]}}
    return found


def recorded(*outputs):
    """The outputs that are recorded, cell by cell."""
    made = rebuilt(assembled(len(outputs)), executed(*outputs))
    nbformat.validate(nbformat.from_dict(made))
    json.dumps(made, ensure_ascii=False, allow_nan=False).encode()
    return [cell["outputs"] for cell in made["cells"][1:]]


def stream(text, name="stdout"):
    return {"output_type": "stream", "name": name, "text": text}


def display(**data):
    return {"output_type": "display_data", "data": {mime.replace("_", "/"): value for mime, value in data.items()}}


def test_cells_are_ours_whatever_the_kernel_made_of_them():
    found = executed([stream("said")])
    found["metadata"] = {"widgets": nested(100)}
    made = rebuilt(assembled(), found)
    expected = assembled()
    expected.cells[1] |= {"outputs": [stream("said")], "execution_count": 1}
    assert made == expected


@pytest.mark.parametrize("count", ["<script>", 10**5000, True, nested(700)], ids=lambda c: str(type(c)))
def test_cells_that_ran_are_numbered_by_us(count):
    found = executed([], [], [], count=count)
    found["cells"][2]["execution_count"] = None
    made = rebuilt(assembled(3), found)
    assert [cell.get("execution_count") for cell in made["cells"]] == [None, 1, None, 2]


def test_json_and_html_are_named_and_not_recorded():
    [[shown]] = recorded([display(application_json=nested(480), text_html="<b>")])
    assert shown["data"] == {"text/plain": "(not shown: application/json, text/html)"}


def test_a_long_text_keeps_its_beginning_and_its_end():
    [[shown]] = recorded([stream("begins" + "\x00" * 2 * TEXT + "ends")])
    assert len(shown["text"]) <= TEXT
    assert shown["text"].startswith("begins")
    assert shown["text"].endswith("ends")
    assert "characters left out" in shown["text"]


def test_a_text_cut_in_the_middle_of_a_colour_hides_nothing():
    for shift in range(8):
        [[shown]] = recorded([stream("x" * shift + "\x1b[31m\x1b[0m\x00" * TEXT)])
        assert "\x1b" not in recorded_notebook.COLOUR.sub("", shown["text"])


def test_colours_without_end_are_left_out():
    [[shown]] = recorded([stream("\x1b[31ma" * 2000)])
    assert shown["text"] == "a" * 2000
    [[kept]] = recorded([stream("\x1b[31ma" * 200)])
    assert kept["text"] == "\x1b[31ma" * 200


def test_a_stream_in_a_thousand_pieces_is_one_output():
    assert recorded([stream(f"{n}\n") for n in range(2000)])[0] == [stream("".join(f"{n}\n" for n in range(2000)))]


def test_a_progress_bar_shows_where_it_ended():
    pieces = [stream(f"\r{n}%|{'#' * n}|", "stderr") for n in range(101)]
    [[shown]] = recorded([*pieces, stream("\ndone\r\n", "stderr")])
    assert shown["text"] == f"100%|{'#' * 100}|\ndone\n"


def test_a_cell_has_so_many_outputs_and_says_that_there_were_more():
    [made] = recorded([display(text_plain=f"{n}") for n in range(OUTPUTS + 100)])
    assert [each["data"]["text/plain"] for each in made] == [*(f"{n}" for n in range(OUTPUTS)), MORE]


def test_a_notebook_has_so_much_text_and_every_cell_that_had_more_says_so():
    made = recorded(*([display(text_plain="<" * 90_000)] * 10 for _ in range(30)))
    said = [[each["data"]["text/plain"] for each in cell] for cell in made]
    assert sum(len(text) for cell in said for text in cell) < NOTEBOOK_TEXT + 10 * TEXT
    assert all(cell[-1] == MORE for cell in said)
    assert len(said[0]) > 3
    assert said[-1] == [MORE]


def test_one_picture_in_hundreds_of_displays_is_not_recorded_hundreds_of_times():
    picture = base64.b64encode(PICTURE + b"0" * 600_000).decode()
    made = recorded(*([display(image_png=picture)] * 20 for _ in range(20)))
    assert len(json.dumps(made)) < NOTEBOOK_IMAGES + NOTEBOOK_TEXT
    assert made[0][0]["data"] == {"image/png": picture}
    assert made[-1][-1]["data"] == {"text/plain": "(not shown: image/png)"}


def added(*sources: str) -> dict[str, Any]:
    cells = [
        {"cell_type": "markdown", "id": f"a{number}", "metadata": {"across": {"added": f"a{number}"}}, "source": source}
        for number, source in enumerate(sources)
    ]
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}


def test_of_all_added_prose_only_so_much_is_rendered(monkeypatch):
    rendered: list[str] = []
    monkeypatch.setattr(markup, "_only_text", lambda source: not rendered.append(source))
    slow = [f"{number:04}" + "\\[" * 3_900 for number in range(32)]  # half a second each
    made = markup.notebook(added(*slow))
    assert sum(map(len, rendered)) <= markup.ADDED
    assert made.cells[0].source == slow[0]
    assert made.cells[-1].source.startswith("*Shown as it was typed")
    assert slow[-1] in made.cells[-1].source


def test_a_few_added_cells_are_shown_as_prose():
    made = markup.notebook(added("**One**", "[two](https://example.org)"))
    assert [cell.source for cell in made.cells] == ["**One**", "[two](https://example.org)"]
