"""The page of a study says what its file holds: no number on it is made up, none that failed is hidden."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_study import filled, seconds_of

from across import scaling_page
from across.study import Study

TABLE = {"1 replica": [1.0, 2.0, 4.0], "2 replicas": [0.5, 1.0, None], "twice": [1.0, 2.5, 4.0]}
WORK = {"twice": 2.0}


@pytest.fixture
def study(tmp_path: Path) -> Study:
    made = filled(tmp_path / "study.jsonl", TABLE)
    made.state({"2 replicas": 1.75, "twice": 1.5})
    return made


def test_the_page_has_the_prediction_and_the_measurement_with_its_spread_and_its_picture_says_them_in_words(study):
    made = scaling_page.page(study, "1 replica", WORK)
    rows = made.markdown.splitlines()
    assert rows[0].endswith("| chance, if the prediction is right |")
    assert rows[2] == "| 2 replicas | 1.75 | 2.00 | 2.00 to 2.00 | 2 | 1 |  |"
    assert rows[3] == "| twice | 1.50 | 2.00 | 1.60 to 2.00 | 3 | 0 |  |"
    assert "2 replicas: predicted 1.75, measured 2.00 (2.00 to 2.00, 2 pairs, 1 left out)" in made.picture.alt
    assert "twice: predicted 1.50, measured 2.00 (1.60 to 2.00, 3 pairs)" in made.picture.alt


def test_the_chance_is_asked_of_measured_over_predicted(study):
    asked: list[list[float]] = []

    def chance(ratios: list[float]) -> float:
        asked.append(ratios)
        return 0.25

    rows = scaling_page.page(study, "1 replica", WORK, chance=chance).markdown.splitlines()
    assert asked == [pytest.approx([2 / 1.75] * 2), pytest.approx([2 / 1.5, 1.6 / 1.5, 2 / 1.5])]
    assert rows[3].endswith("| 3 | 0 | 0.250 |")


def test_a_row_without_a_prediction_has_no_chance(tmp_path):
    made = filled(tmp_path / "s", {"one": [1.0], "two": [0.5]})
    text = scaling_page.page(made, "one", chance=lambda ratios: 0.25).markdown
    assert "| two |  | 2.00 | 2.00 to 2.00 | 1 | 0 |  |" in text
    assert "Nothing was predicted." in text


def test_a_prediction_that_came_after_the_runs_says_so(study):
    assert ", after 9 runs had been seen." in scaling_page.page(study, "1 replica").markdown


def test_a_prediction_that_was_changed_after_the_runs_stands_beside_the_one_that_counts(tmp_path):
    made = Study(tmp_path / "s", seconds_of, {"one": {"value": 0.0}, "two": {"value": 1.0}}, 2)
    made.state({"two": 1.5})
    filled(tmp_path / "s", {"one": [1.0, 2.0], "two": [0.5, 1.0]})
    made.state({"two": 2.0})
    shown = scaling_page.page(made, "one", chance=lambda ratios: ratios[0])
    assert "| two | 1.50, later 2.00 | 2.00 | 2.00 to 2.00 | 2 | 0 | 1.333 |" in shown.markdown
    assert "before the first run; changed at " in shown.markdown
    assert "predicted 1.50, later 2.00, measured" in shown.picture.alt


def test_runs_of_another_version_of_the_program_are_told(tmp_path):
    filled(tmp_path / "s", {"one": [1.0], "two": [0.5]})
    made = Study(tmp_path / "s", print, {"one": {}, "two": {}}, 1)
    assert "Not counted: 2 runs of another version of the program." in scaling_page.page(made, "one").markdown


def test_a_prediction_before_the_first_run_says_so_and_what_is_not_measured_too(tmp_path):
    made = Study(tmp_path / "s", print, {"one": {}, "two": {}}, 2)
    made.state({"two": 1.5})
    text = scaling_page.page(made, "one").markdown
    assert "before the first run" in text
    assert "| two | 1.50 | not measured |" in text
    assert "measured by no pair" in scaling_page.page(made, "one").picture.alt


def test_headings_stand_under_the_table_and_a_chance_that_cannot_be_computed_is_empty_or_named_by_its_error(study):
    def unwritten(ratios: list[float]) -> float:
        raise NotImplementedError("your turn")

    made = scaling_page.page(study, "1 replica", WORK, headings=["Difference"], chance=unwritten)
    assert made.markdown.endswith("**Difference.** …")
    assert "| 3 | 0 |  |" in made.markdown
    broken = scaling_page.page(study, "1 replica", WORK, chance=lambda _: None)  # pyright: ignore[reportArgumentType]
    assert "| 3 | 0 | TypeError |" in broken.markdown


def test_a_notebook_shows_table_picture_and_text_and_names_are_escaped(tmp_path):
    made = filled(tmp_path / "s", {"base": [1.0], "<b>": [0.5]})
    shown = scaling_page.page(made, "base")._repr_mimebundle_()["text/html"]
    assert "<table" in shown
    assert 'alt="Speed-up' in shown
    assert "<pre>" in shown
    assert "<b>" not in shown


def test_what_it_costs_is_told_of_the_measured_median(study):
    dollars = {"1 replica": 0.5, "2 replicas": 1.0, "twice": 1.5}
    rows = scaling_page.page(study, "1 replica", WORK, dollars=dollars).markdown.splitlines()
    assert rows[0].endswith("| what the base does in 100 h, 0.50 USD each |")
    assert rows[2].endswith("| 50 h, 50 USD |")
    assert rows[3].endswith("| 50 h, 75 USD |")
