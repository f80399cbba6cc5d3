"""The page of a study says what its file holds: no number on it is made up, none that failed is hidden."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_study import filled

from across import scaling_page
from across.study import Study

TABLE = {"1 replica": [1.0, 2.0, 4.0], "2 replicas": [0.5, 1.0, None], "twice": [1.0, 2.5, 4.0]}
WORK = {"twice": 2.0}


@pytest.fixture
def study(tmp_path: Path) -> Study:
    made = filled(tmp_path / "study.jsonl", TABLE)
    made.state({"2 replicas": 1.75, "twice": 1.5})
    return made


def test_the_page_has_the_prediction_and_the_measurement_with_its_spread(study):
    rows = scaling_page.page(study, "1 replica", WORK).markdown.splitlines()
    assert rows[2] == "| 2 replicas | 1.75 | 2.00 | 2.00 to 2.00 | 2 | 1 |  |"
    assert rows[3] == "| twice | 1.50 | 2.00 | 1.60 to 2.00 | 3 | 0 |  |"


def test_a_prediction_that_came_after_the_runs_says_so(study):
    assert "after runs had been seen." in scaling_page.page(study, "1 replica").markdown
    study.state({"2 replicas": 2.0})
    assert "changed since the first one" in scaling_page.page(study, "1 replica").markdown


def test_a_prediction_before_the_first_run_says_so_and_what_is_not_measured_too(tmp_path):
    made = Study(tmp_path / "s", print, {"one": {}, "two": {}}, 2)
    made.state({"two": 1.5})
    text = scaling_page.page(made, "one").markdown
    assert "before the first run" in text
    assert "| two | 1.50 | not measured |" in text
    assert "measured by no pair" in scaling_page.draw(made, "one", title="t").alt


def test_the_picture_says_in_words_what_it_shows(study):
    alt = scaling_page.draw(study, "1 replica", WORK, title="Speed-up").alt
    assert "2 replicas: predicted 1.75, measured 2.00 (2.00 to 2.00, 2 pairs, 1 left out)" in alt
    assert "twice: predicted 1.50, measured 2.00 (1.60 to 2.00, 3 pairs)" in alt


def test_headings_stand_under_the_table_and_an_unwritten_chance_leaves_its_column_empty(study):
    def unwritten(ratios: list[float]) -> float:
        raise NotImplementedError("your turn")

    made = scaling_page.page(study, "1 replica", WORK, headings=["Difference"], chance=unwritten)
    assert made.markdown.endswith("**Difference.** …")
    assert "| 3 | 0 |  |" in made.markdown
    assert "0.250 |" in scaling_page.page(study, "1 replica", WORK, chance=lambda ratios: 0.25).markdown


def test_a_notebook_shows_table_picture_and_text_and_names_are_escaped(tmp_path):
    made = filled(tmp_path / "s", {"base": [1.0], "<b>": [0.5]})
    shown = scaling_page.page(made, "base")._repr_mimebundle_()["text/html"]
    assert "<table" in shown
    assert 'alt="Speed-up' in shown
    assert "<pre>" in shown
    assert "<b>" not in shown
