"""docs/security.md shows every attack of the corpus, and what stock nbgrader makes of them is measured."""

import re

import pytest
from rich.console import Console

from autograder.devtools import attacks, stock
from autograder.devtools.stock import HONEST, Seen
from autograder.model.course import checkout
from autograder.sandbox import boxes

ATTACKS = attacks.corpus()
DOCUMENT = checkout() / "docs" / "security.md"


def shown() -> list[list[str]]:
    table = DOCUMENT.read_text(encoding="utf-8").split(stock.BEGIN)[1].split(stock.END)[0]
    lines = [line for line in table.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_the_page_shows_exactly_the_attacks_there_are():
    assert [row[0].strip("`") for row in shown()] == sorted(attack.name for attack in ATTACKS), (
        "docs/security.md: run `autograder verify --attacks --stock`"
    )


def test_the_page_says_what_each_attack_tries_and_gets():
    said = {row[0].strip("`"): row[1:3] for row in shown()}
    for attack in ATTACKS:
        assert said[attack.name] == [stock.plain(attack.tries), stock.here(attack.expected, stock.earned(attack))]


def test_a_row_says_what_stock_nbgrader_lost():
    said = Seen(10.0, 0.0, left=2, notes=("reads the solutions",)).sentence(honest=17.0, earns=2.0)
    assert said == (
        "**10 points**; **the honest student gets 0 of 17**; **2 processes left behind**; **reads the solutions**"
    )
    assert Seen(None, None).sentence(17.0, 0.0) == "no mark; **aborts the class**"
    assert Seen(2.0, None, killed=True).sentence(17.0, 2.0) == "2 points; **hangs the class** (ended after 300 s)"


def test_the_table_is_written_between_its_marks_and_nowhere_else(tmp_path):
    page = tmp_path / "security.md"
    page.write_text(f"before\n{stock.BEGIN}\nold\n{stock.END}\nafter\n")
    stock.write(["| new |"], page)
    assert page.read_text() == f"before\n{stock.BEGIN}\n\n| new |\n\n{stock.END}\nafter\n"


def test_what_was_measured_is_not_measured_again(fixture_course, tmp_path, monkeypatch):
    monkeypatch.setenv("ACROSS_CACHE", str(tmp_path))
    measured = []
    monkeypatch.setattr(stock, "_released", lambda course: None)
    monkeypatch.setattr(stock, "measure", lambda course, attack: measured.append(attack) or Seen(1.0, 17.0))
    first, second = ATTACKS[:1], ATTACKS[:2]
    assert stock.run(fixture_course, first, Console(quiet=True), workers=1) == dict.fromkeys(
        (HONEST, ATTACKS[0].name), Seen(1.0, 17.0)
    )
    stock.run(fixture_course, second, Console(quiet=True), workers=1)
    assert measured == [None, *second]


def test_after_its_time_nothing_is_begun(fixture_course, tmp_path, monkeypatch):
    monkeypatch.setenv("ACROSS_CACHE", str(tmp_path))
    monkeypatch.setattr(stock, "_released", lambda course: None)
    assert stock.run(fixture_course, ATTACKS[:1], Console(quiet=True), seconds=-1.0) == {}


@pytest.mark.slow
@pytest.mark.skipif(boxes.problem() != "", reason=f"no sandbox here: {boxes.problem()}")
def test_stock_nbgrader_believes_a_notebook_that_deletes_its_asserts(fixture_course):
    (attack,) = [attack for attack in ATTACKS if attack.name == "deletes_asserts"]
    full = sum(
        exercise.max_points for exercise in fixture_course.chapter(attacks.CHAPTER).exercises if not exercise.manual
    )
    seen = stock.measure(fixture_course, attack)
    assert seen.honest == full
    assert (seen.points or 0.0) > 0.0
