"""Names and e-mails of the roster in nbgrader's table of students, and our exports as plugins of nbgrader's."""

from __future__ import annotations

import csv
from dataclasses import asdict
from pathlib import Path

import classroom
import courses
import pytest
from classroom import PASSED, TINY
from nbgrader.api import Gradebook
from stock import nbgrader

from autograder.gradebook import roll
from autograder.submissions.roster import Enrolled, Roster

POINTS = ["    Points Possible", "", "", "9"]


def roster(path: Path, text: str) -> Roster:
    path.write_text(text, encoding="utf-8")
    return Roster(path)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    made = tmp_path / "out"
    classroom.record(made, classroom.verdict("ada", why=PASSED), classroom.verdict("x,5,100,=1+1"))
    return made


def test_a_name_is_read_in_any_order_and_from_two_columns(tmp_path):
    text = 'id,name,e-mail\nada,Ada King Lovelace,ada@u.example\nbob,"Brown, Bob",no address\ncem,Çem,\n'
    assert roster(tmp_path / "r.csv", text).enrolled == {
        "ada": Enrolled("Ada King", "Lovelace", "ada@u.example"),
        "bob": Enrolled("Bob", "Brown"),
        "cem": Enrolled("", "Çem"),
    }
    text = "id,first_name,Last Name\nada,Ada King,O'Brien\n"
    assert roster(tmp_path / "r.csv", text).enrolled == {"ada": Enrolled("Ada King", "O'Brien")}


@pytest.mark.parametrize(
    "name",
    ["=HYPERLINK(0) x", "<img src=x onerror=alert(1)> x", "Ada,a@b,100,0,100,100", "'=1+1 @x", "a\u202eb {{7*7}} ${x}"],
)
def test_a_display_name_is_no_formula_no_markup_and_parts_no_cells(tmp_path, name):
    with (tmp_path / "r.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(
            [["id", "name", "email"], ["ada", name, "=1@x.example"], ["bob", "B b", "b,c@d.example"]]
        )
    enrolled = Roster(tmp_path / "r.csv").enrolled
    said = "".join(asdict(enrolled["ada"]).values())
    assert not set(said) & set('<>&"`,;{}$\u202e')
    assert not any(each.startswith(tuple("=+-@'")) for each in asdict(enrolled["ada"]).values())
    assert enrolled["bob"].email == enrolled["ada"].email == ""


def test_who_is_enrolled_stands_in_nbgraders_table_and_its_export_keeps_its_columns(out):
    roll.enter(out, TINY, {"ada": Enrolled("Ada", "Lovelace", "ada@u.example"), "zoe": Enrolled("Zoe", "Zed")})
    roll.enter(out, TINY, {"ada": Enrolled("", "King")})  # what is not said stays
    with Gradebook(f"sqlite:///{out / 'gradebook.db'}", "across") as book:
        assert {each.id: (each.first_name, each.last_name, each.email) for each in book.students} == {
            "ada": ("Ada", "King", "ada@u.example"),
            "zoe": ("Zoe", "Zed", None),
            "x,5,100,=1+1": (None, None, None),
        }
    nbgrader("export", "--to", "grades.csv", cwd=out, home=out.parent / "home")
    rows = {row["student_id"]: row for row in courses.table(out / "grades.csv")}
    assert {student: float(row["score"]) for student, row in rows.items()} == {
        "ada": 5.0,
        "x,5,100,=1+1": 5.0,
        "zoe": 0.0,
    }
    assert rows["ada"]["last_name"] == "King"
