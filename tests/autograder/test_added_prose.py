"""Cells of prose that a student added: there may be many, and what is made of them takes no longer than of a few."""

from typing import Any

from autograder.model import markup


def notebook(*sources: str) -> dict[str, Any]:
    cells = [
        {"cell_type": "markdown", "id": f"a{number}", "metadata": {"across": {"added": f"a{number}"}}, "source": source}
        for number, source in enumerate(sources)
    ]
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}


def test_of_all_added_prose_only_so_much_is_rendered(monkeypatch):
    rendered: list[str] = []
    monkeypatch.setattr(markup, "_only_text", lambda source: not rendered.append(source))
    slow = [f"{number:04}" + "\\[" * 3_900 for number in range(32)]  # half a second each
    made = markup.notebook(notebook(*slow))
    assert sum(map(len, rendered)) <= markup.ADDED
    assert made.cells[0].source == slow[0]
    assert made.cells[-1].source.startswith("*Shown as it was typed")
    assert slow[-1] in made.cells[-1].source


def test_a_few_added_cells_are_shown_as_prose():
    made = markup.notebook(notebook("**One**", "[two](https://example.org)"))
    assert [cell.source for cell in made.cells] == ["**One**", "[two](https://example.org)"]
