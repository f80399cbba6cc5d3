"""What Validate says of a notebook, what it runs for that, and what it keeps."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbgrader.utils import compute_checksum

from across._jupyter import validation
from across._jupyter.running import Stop
from across._jupyter.validation import BY_HAND, NOT_YET, OPEN, PASSES, PENDING, PREPARED, TRIED, Standing, validate

pytestmark = pytest.mark.usefixtures("warm_kernels", "user")
STUB = 'raise NotImplementedError("your turn")'


def cell(source: str, kind: str, name: str, **ours: Any) -> nbformat.NotebookNode:
    make = nbformat.v4.new_markdown_cell if kind == "prose" else nbformat.v4.new_code_cell
    nbgrader = {"grade_id": f"check_{name}" if kind == "check" else name, "grade": kind != "answer", "points": 2}
    nbgrader |= {"solution": kind != "check", "locked": kind == "check", "schema_version": 3, "task": False}
    made = make(source, metadata={"nbgrader": nbgrader, "across": {"exercise": name, "answers": [name], **ours}})
    made.metadata.nbgrader["cell_type"] = made.cell_type
    made.metadata.nbgrader["checksum"] = compute_checksum(made)
    return made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A chapter of three exercises, as released: every cell that runs adds its name to a file."""
    (tmp_path / "notebooks").mkdir()
    place = tmp_path / "notebooks" / "01_first.ipynb"
    log = tmp_path / "log"
    cells = [
        nbformat.v4.new_code_cell(
            f"from across.attempt import attempt, expect\ndef ran(what):\n    open({str(log)!r}, 'a').write(what + ' ')"
        ),
        nbformat.v4.new_code_cell("ran('shown')", metadata={"tags": ["show"]}),
        cell(f"def pick():\n    {STUB}", "answer", "pick"),
        cell(
            "ran('pick')\nwith attempt('pick'):\n    expect(pick() == 1, f'`pick()` returned {pick()}')",
            "check",
            "pick",
        ),
        cell(f"def place():\n    {STUB}", "answer", "place"),
        cell("ran('place')\nwith attempt('place', after=['pick']):\n    expect(place() == 2, 'no')", "check", "place"),
        cell("*Your answer goes here.*", "prose", "explain"),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), place)
    return place


def test_a_cell_has_the_checksum_that_nbgrader_gives_it():
    notebooks = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("0*.ipynb"))
    cells = [each for path in notebooks for each in nbformat.read(path, as_version=4).cells]
    ours = [each for each in cells if "nbgrader" in each.metadata]
    assert len(ours) > 100
    assert [validation.checksum(each) for each in ours] == [compute_checksum(each) for each in ours]


def answer(path: Path, **sources: str) -> None:
    notebook = nbformat.read(path, as_version=4)
    for each in notebook.cells:
        name = each.metadata.get("nbgrader", {}).get("grade_id")
        if name in sources:
            each.source = sources[name]
    nbformat.write(notebook, path)


def ran(path: Path) -> list[str]:
    """Which cells ran since this was asked last."""
    log = path.parent.parent / "log"
    found = log.read_text().split() if log.exists() else []
    log.write_text("")
    return found


def states(found: validation.Validation) -> dict[str, str]:
    return {each.exercise: each.state for each in found.exercises}


@pytest.mark.whole
def test_a_blank_chapter_is_open_everywhere_and_what_only_shows_is_not_run(path: Path):
    before = path.read_bytes()
    found = validate(path)
    assert states(found) == {"pick": OPEN, "place": OPEN, "explain": OPEN}
    assert [each.says for each in found.exercises][:2] == [
        "pick: not attempted yet. Replace the line that raises NotImplementedError.",
        "place: first make `pick` pass; this exercise builds on it.",
    ]
    assert ran(path) == ["pick", "place"]
    assert (found.ran, found.cells, found.passed) == (5, 6, False)
    assert path.read_bytes() == before


def test_only_what_depends_on_a_change_is_run_again(path: Path):
    answer(path, pick="def pick():\n    return 1", place="def place():\n    return 3")
    assert states(validate(path)) == {"pick": PASSES, "place": NOT_YET, "explain": OPEN}
    assert ran(path) == ["pick", "place"]
    answer(path, place="def place():\n    return 2", explain="Because.")
    found = validate(path)
    assert ran(path) == ["place"]
    assert states(found) == {"pick": PASSES, "place": PASSES, "explain": BY_HAND}
    assert [each.again for each in found.exercises] == [False, True, True]
    assert found.passed
    assert validate(path).ran == 0
    assert validate(path, anew=True).ran == 5


def test_an_answer_that_is_broken_again_makes_those_wait_that_build_on_it(path: Path):
    answer(path, pick="def pick():\n    return 1", place="def place():\n    return 2")
    validate(path)
    answer(path, pick="def pick():\n    return 7")
    found = validate(path)
    assert states(found) == {"pick": NOT_YET, "place": OPEN, "explain": OPEN}
    assert found.exercises[0].says == "pick: not yet. `pick()` returned 7"
    answer(path, pick="def pick():\n    return 1")
    assert states(validate(path)) == {"pick": PASSES, "place": PASSES, "explain": OPEN}


def test_a_cell_that_is_no_python_says_so_where_its_check_only_misses_a_name(path: Path):
    answer(path, pick="def pick(:")
    [pick, *_] = validate(path).exercises
    assert pick.state == NOT_YET
    assert "SyntaxError" in pick.says or "invalid syntax" in pick.says


@pytest.mark.parametrize(
    ("pick", "cell"), [("import os\nos._exit(1)", 3), ("def pick():\n    import os\n    os._exit(1)", 4)]
)
def test_a_kernel_that_dies_also_at_a_check_is_said_and_run_again(path: Path, pick: str, cell: int):
    answer(path, pick=pick)
    found = validate(path)
    assert states(found) == {"pick": NOT_YET, "place": NOT_YET, "explain": OPEN}
    assert found.exercises[0].says == f"pick: did not run. The kernel died before, at cell {cell}."
    assert validate(path).ran == found.ran


def test_each_exercise_is_told_as_it_is_tried_and_as_its_check_has_spoken(path: Path):
    answer(path, pick="def pick():\n    return 1", place="def place():\n    return 3")
    told: list[tuple[Standing, ...]] = []
    found = validate(path, on_progress=told.append)
    assert [[each.state for each in exercises] for exercises in told] == [
        [PREPARED, PENDING, OPEN],
        [TRIED, PENDING, OPEN],
        [PASSES, PENDING, OPEN],
        [PASSES, PREPARED, OPEN],
        [PASSES, TRIED, OPEN],
        [PASSES, NOT_YET, OPEN],
    ]
    assert told[-1][1].says == found.exercises[1].says == "place: not yet. no"
    answer(path, place="def place():\n    return 2")
    told.clear()
    validate(path, on_progress=told.append)
    assert told[0][0].state == PASSES  # what is not run again
    assert told[0][1].seconds == found.exercises[1].seconds  # what it took the last time


def test_what_a_browser_has_is_validated_in_place_of_the_file_and_each_cell_is_told_as_it_begins(path: Path):
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[2].source = "def pick():\n    return 1"
    begun: list[validation.CellUnderWay] = []
    found = validate(path, on_cell=begun.append, in_browser=notebook)
    assert states(found) == {"pick": PASSES, "place": OPEN, "explain": OPEN}
    assert [(each.number, each.own) for each in begun] == [(1, False), (3, True), (4, False), (5, True), (6, False)]
    assert begun[1].line == "def pick():"
    assert set(found.outputs) == {"pick", "place"}


def test_what_is_stopped_is_said_and_run_the_next_time_and_what_was_known_is_kept(path: Path):
    answer(path, pick="def pick():\n    return 1", place="def place():\n    import time\n    time.sleep(100)")
    stop = Stop()

    def tried(exercises: tuple[Standing, ...]) -> None:
        if exercises[1].state == TRIED:
            stop.ask()

    found = validate(path, on_progress=tried, stop=stop)
    assert states(found) == {"pick": PASSES, "place": NOT_YET, "explain": OPEN}
    assert found.exercises[1].says == "place: You stopped Validate before this one."
    answer(path, place="def place():\n    return 2")
    ran(path)
    assert states(validate(path)) == {"pick": PASSES, "place": PASSES, "explain": OPEN}
    assert ran(path) == ["place"]


def stopped_at_once(path: Path, anew: bool = False) -> validation.Validation:
    stop = Stop()
    stop.ask()
    return validate(path, anew=anew, stop=stop)


def test_a_stop_takes_no_verdict_away_of_cells_that_are_the_same_or_the_same_again(path: Path):
    answer(path, pick="def pick():\n    return 1", place="def place():\n    return 2")
    assert states(validate(path)) == {"pick": PASSES, "place": PASSES, "explain": OPEN}
    assert states(stopped_at_once(path, anew=True)) == {"pick": PASSES, "place": PASSES, "explain": OPEN}
    whole = path.read_bytes()
    notebook = nbformat.read(path, as_version=4)
    del notebook.cells[0]  # a given one, which every check needs
    nbformat.write(notebook, path)
    found = stopped_at_once(path)
    assert states(found) == {"pick": NOT_YET, "place": NOT_YET, "explain": OPEN}
    assert found.exercises[0].says == "pick: You stopped Validate before this one."
    assert states(validate(path)) == {"pick": NOT_YET, "place": NOT_YET, "explain": OPEN}
    path.write_bytes(whole)
    ran(path)
    assert states(stopped_at_once(path)) == {"pick": PASSES, "place": PASSES, "explain": OPEN}
    assert ran(path) == []
    answer(path, pick="def pick():\n    return 0")  # on which the other rests
    assert states(stopped_at_once(path)) == {"pick": NOT_YET, "place": NOT_YET, "explain": OPEN}


def test_a_stop_leaves_ticks_as_ticks_and_is_no_success(path: Path):
    answer(path, pick="def pick():\n    return 1", place="def place():\n    return 2", explain="Because.")
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=60).execute(env={**os.environ, "JPY_SESSION_NAME": str(path)})
    found = stopped_at_once(path)
    assert states(found) == {"pick": PASSES, "place": PASSES, "explain": validation.BY_HAND}
    assert [each.ticked for each in found.exercises] == [True, True, False]
    assert not found.passed
    answer(path, place="def place():\n    return 3")
    assert states(stopped_at_once(path)) == {"pick": PASSES, "place": NOT_YET, "explain": validation.BY_HAND}


def test_a_check_that_is_no_longer_the_released_one_is_named(path: Path):
    answer(path, check_pick="pass")
    found = validate(path)
    assert found.changed == ("pick",)
    assert not found.passed


def test_a_cell_that_is_there_twice_is_one_sentence_with_the_mend(path: Path):
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.append(notebook.cells[2])
    nbformat.write(notebook, path)
    with pytest.raises(ValueError, match=r'cell 8: "pick" is there twice; delete the copy'):
        validate(path)


def test_where_nothing_can_be_kept_everything_is_run(path: Path, user: Path):
    user.write_text("no folder")
    assert validate(path).ran == validate(path).ran == 5


PREDICTION = "with attempt('guess', done='recorded before it was measured'):\n    pass"


@pytest.fixture
def guess(path: Path) -> Path:
    notebook = nbformat.read(path, as_version=4)
    notebook.cells = [
        notebook.cells[0],
        cell("guess = {'a': None}", "answer", "guess"),
        cell(PREDICTION, "check", "guess"),
    ]
    nbformat.write(notebook, path)
    answer(path, guess="guess = {'a': 1}")
    return path


def measured(path: Path) -> str:
    """Run the chapter as JupyterLab does, in a kernel that knows its notebook; what the check says."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=60).execute(env={**os.environ, "JPY_SESSION_NAME": str(path)})
    return notebook.cells[-1].outputs[0].text.strip()


def test_a_prediction_that_is_changed_after_its_measurement_says_so_in_any_later_kernel_and_in_validate(guess: Path):
    assert measured(guess).endswith("recorded before it was measured.")
    answer(guess, guess="guess = {'a': 2}")
    said = "changed after it was measured; at first it was {'a': 1}."
    assert measured(guess).endswith(said)
    [found] = validate(guess).exercises
    assert found.state == PASSES
    assert found.says.endswith(said)
    answer(guess, guess="guess = {'a': 1}")
    assert measured(guess).endswith("recorded before it was measured.")


def test_validating_measures_nothing(guess: Path):
    assert validate(guess).exercises[0].says == ""
    answer(guess, guess="guess = {'a': 2}")
    assert measured(guess).endswith("recorded before it was measured.")
