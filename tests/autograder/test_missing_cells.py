"""Through the command: an answer whose cell is not in the notebook is no blank one; marks, report and exports say so."""

import csv
import json

import courses
import pytest
from boxed import needs_a_box
from lms_downloads import zipped
from small_course import NAME, RIGHT, command

pytestmark = needs_a_box
CLASS = ("ada", "bob", "cem", "dan", "eve")
GRADEBOOK = [
    ["Student", "ID", "SIS Login ID", "Section", "Small (7001)"],
    ["    Points Possible", "", "", "", "6"],
    *([name, str(number), name, "A", ""] for number, name in enumerate(CLASS, 100)),
]


def without(notebook: bytes, *names: str, ids: bool = True) -> bytes:
    """The notebook without the cells of these answers; without all grade ids, too."""
    value = json.loads(notebook)
    value["cells"] = [c for c in value["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") not in names]
    if not ids:
        value["metadata"] = {}
        value["cells"] = [{**cell, "metadata": {}, "id": f"c{n}"} for n, cell in enumerate(value["cells"])]
    return json.dumps(value).encode()


@pytest.fixture(scope="module")
def graded(small, tmp_path_factory):
    """Ada is right, Bob's `shift` is gone, Cem's cells lost their ids, Dan handed in his own notes, Eve's file is torn."""
    place = tmp_path_factory.mktemp("missing")
    whole = courses.answered(small, NAME, RIGHT)
    notes = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}
    files = [whole, without(whole, "shift"), without(whole, ids=False), json.dumps(notes).encode(), whole[:200]]
    names = [f"{name}_{number}_{number}_{NAME}.ipynb" for number, name in enumerate(CLASS, 100)]
    source = zipped(place / "submissions.zip", dict(zip(names, files, strict=True)))
    asked = ("--submissions", source, "--out", place / "out")
    command("grade", NAME, *asked, root=small.root)
    return place


def test_a_missing_cell_is_a_verdict_of_its_own_and_one_that_lost_its_id_is_graded(graded):
    rows = courses.marks(graded / "out")
    verdicts = {
        who[:3]: [rows[who, name]["verdict"] for name in RIGHT] for who in sorted({student for student, _ in rows})
    }
    assert verdicts == {
        "ada": ["passed", "passed", "manual"],
        "bob": ["passed", "missing", "manual"],
        "cem": ["passed", "passed", "manual"],
        "dan": ["missing", "missing", "missing"],
        "eve": ["invalid", "invalid", "invalid"],
    }
    assert rows["bob_101", "shift"]["message"].startswith("The cell `shift` is not in your notebook.")
    assert rows["dan_103", "why"]["message"].startswith(f"No answer cell of {NAME} is in your notebook.")


def test_what_is_missing_is_the_first_thing_that_needs_a_person(graded):
    page = (graded / "out" / "report.html").read_text(encoding="utf-8")
    first = page.index("Not in the notebook: answer cells that are missing")
    assert page.index("Taken, and perhaps not what was meant") > first
    assert "had lost their ids and were found all the same: double (by its def line), shift (by its def line)" in page


def test_totals_say_why_a_total_is_0(graded):
    notes = {line["student"][:3]: line["note"] for line in courses.table(graded / "out" / "totals.csv")}
    assert notes.pop("dan").startswith(f"No answer cell of {NAME} is in your notebook.")
    assert notes.pop("eve").startswith(f"{NAME}.ipynb: is not JSON")
    assert notes == {"ada": "", "bob": "missing: shift", "cem": ""}


def test_an_answer_that_nobody_can_read_is_not_exported_as_0_by_itself(graded, small):
    with (graded / "gradebook.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(GRADEBOOK)
    asked = ("export", NAME, "--out", graded / "out", "--canvas", graded / "gradebook.csv")
    done = command(*asked, root=small.root, code=2)
    for who in ("dan_103", "eve_104"):
        says = "3 answer cells are not in the notebook, or cannot be read; have it handed in again, or give them"
        assert f"{who}, 90_small: {says}" in " ".join(done.stderr.split())
    read = courses.table(graded / "out" / "export" / "gradebook.csv")
    assert {row["Small (7001)"] for row in read if row["Student"] in ("dan", "eve")} == {""}
    said = command(*asked, "--waiting", root=small.root, columns=400).stderr  # as it stands, and that is said
    for who, cells, points in (
        ("bob_101", "1 answer cell is", "1 exercise waits for a mark by hand, counted 0; 2"),
        ("dan_103", "3 answer cells are", "0"),
        ("eve_104", "3 answer cells are", "0"),
    ):
        unread = f"{cells} not in the notebook, or cannot be read"
        assert f"exported: {who}, 90_small: {unread}; {points} points as it stands" in said
    hers = [line for line in said.splitlines() if "ada" in line]  # all of it can be read, and one waits
    assert hers == [
        "exported: ada_100, 90_small: 1 exercise waits for a mark by hand, counted 0; 5 points as it stands"
    ]
