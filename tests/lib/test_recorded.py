"""One record: a tick in a cell, `across run` and Validate say the same of an exercise, until its answer is changed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from test_validation import answer, cell

from across._jupyter import headless, progress, validation
from across._process import kept, measured, recorded
from across._process.recorded import BY_HAND, NOT_YET, OPEN, PASSES

pytestmark = pytest.mark.usefixtures("warm_kernels", "user")
RIGHT = {"pick": "def pick():\n    return 1", "place": "def place():\n    return 2"}


def run_in_jupyter(path: Path, *added: str) -> list[str]:
    """Run every cell of the notebook, and `added` ones, in a kernel that knows which it is; what the checks raised."""
    notebook = nbformat.read(path, as_version=4)
    notebook.cells += [nbformat.v4.new_code_cell(each) for each in added]
    NotebookClient(notebook, timeout=60, allow_errors=True).execute(env={**os.environ, "JPY_SESSION_NAME": str(path)})
    return [
        output.ename for each in notebook.cells for output in each.get("outputs", []) if output.output_type == "error"
    ]


def states(path: Path) -> dict[str, str]:
    return {name: each["state"] for name, each in recorded.read(path).items()}


def said(found: tuple[recorded.Standing, ...]) -> dict[str, tuple[str, str]]:
    return {each.exercise: (each.state, each.says) for each in found}


def chapter() -> progress.Chapter:
    [found] = progress.course()
    return found


def told() -> tuple[int, int, str, str | None]:
    """How many checks pass, how many answers wait for Validate, how the chapter stands, and what is next in it."""
    found = chapter()
    return found.passing, found.waiting, found.state, found.open.name if found.open else None


@pytest.mark.whole
def test_what_ticks_in_its_cell_is_solved_on_the_start_page_and_waits_for_validate_alone(path: Path):
    answer(path, **RIGHT)
    assert told() == (0, 2, "begun", "explain")  # nothing is known of them: next is no answer that may be right
    assert run_in_jupyter(path) == []
    assert states(path) == {"pick": PASSES, "place": PASSES}
    assert told() == (2, 2, "begun", "explain")
    answer(path, explain="Because.")
    assert told() == (2, 2, "begun", None)
    validation.validate(path)
    assert told() == (2, 0, "done", None)
    before = recorded.read(path)
    run_in_jupyter(path)
    assert recorded.read(path) == before  # Validate's word says more than the tick


def test_a_tick_is_forgotten_when_the_answer_has_changed_since_and_counts_again_when_it_is_back(path: Path):
    answer(path, **RIGHT)
    run_in_jupyter(path)
    answer(path, pick="def pick():\n    return 1  # or two?")
    assert [(each.name, each.passes, each.waits) for each in chapter().exercises][:2] == [
        ("pick", False, True),
        ("place", True, True),
    ]
    answer(path, pick=RIGHT["pick"])
    assert told()[0] == 2


def test_a_tick_is_of_the_answer_that_the_kernel_has_run_whatever_the_file_holds(path: Path):
    """In JupyterLab the cells are run before they are saved; and an answer may be tried in a cell below."""
    answer(path, **RIGHT)
    tried = "with attempt('pick'):\n    expect(pick() == 1, 'no')"
    run_in_jupyter(path, "def pick():\n    return 1.0", tried)
    assert [each.passes for each in chapter().exercises] == [
        False,
        True,
        False,
    ]  # it was not the answer's cell that ticked
    answer(path, pick="def pick():\n    return 1.0\n\n")
    assert [each.passes for each in chapter().exercises] == [True, True, False]


def test_what_a_check_does_not_let_pass_is_next_and_is_no_longer_solved(path: Path):
    answer(path, **RIGHT)
    validation.validate(path)
    answer(path, pick="def pick():\n    return 7")
    assert run_in_jupyter(path) == ["NotYet"]
    assert told() == (1, 0, "begun", "pick")
    assert recorded.read(path)["pick"]["says"] == "pick: not yet. `pick()` returned 7"


def test_a_blank_chapter_that_is_run_is_not_begun(path: Path):
    assert run_in_jupyter(path) == ["NotAttempted", "NotAttempted"]
    assert states(path) == {"pick": OPEN, "place": OPEN}
    assert told() == (0, 0, "new", "pick")


def test_across_run_records_what_validate_would_and_says_the_same_of_untouched_prose_with_a_total(path: Path):
    answer(path, pick=RIGHT["pick"])
    report = headless.run(path)
    ours, validated = said(report.exercises), said(validation.validate(path, anew=True).exercises)
    assert ours == validated
    assert ours["explain"] == (OPEN, "explain: not attempted yet. A person reads it.")
    assert headless.total(report) == "1 of 2 checks pass, for 2 of 4 points. A person gives the other 2."
    answer(path, **RIGHT, explain="Because.")
    report = headless.run(path)
    assert [each.state for each in report.exercises] == [PASSES, PASSES, BY_HAND]
    assert told() == (2, 0, "done", None)


def test_what_ticks_while_validate_runs_is_kept_if_it_is_of_another_answer(path: Path):
    answer(path, pick="def pick():\n    return 7", place=RIGHT["place"])

    def meanwhile(exercises: tuple[recorded.Standing, ...]) -> None:
        if exercises[1].state == validation.TRIED:  # the first has failed; its student repairs it now
            answer(path, **RIGHT)
            run_in_jupyter(path)

    found = validation.validate(path, on_progress=meanwhile)
    assert [each.state for each in found.exercises] == [NOT_YET, PASSES, OPEN]
    assert told() == (2, 1, "begun", "explain")


def test_where_nothing_can_be_recorded_a_check_says_what_it_says(path: Path, user: Path):
    user.write_text("no folder")
    answer(path, **RIGHT)
    assert run_in_jupyter(path) == []
    assert told() == (0, 2, "begun", "explain")


def two_at_once(path: Path, script: str) -> list[float]:
    """Run a script, which is told `path` and a letter of its own, in two processes that begin together; how long each took."""
    begins = (
        "import sys, time; from pathlib import Path; path, mine = Path(sys.argv[1]), sys.argv[2]\n"
        "from across._process import kept, measured, recorded\nprint('ready', flush=True); sys.stdin.readline()\n"
        f"began = time.monotonic()\n{script}\nprint(time.monotonic() - began)\n"
    )
    command = [sys.executable, "-c", begins, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    both = [subprocess.Popen([*command, letter], **pipes) for letter in "ab"]
    try:
        for each in both:
            assert each.stdout.readline() == "ready\n"
        for each in both:
            each.stdin.write("go\n")
            each.stdin.flush()
        return [float(each.communicate(timeout=120)[0]) for each in both]
    finally:
        for each in both:
            each.kill()
            each.wait(60)


def test_of_two_processes_that_record_at_the_same_time_neither_loses_what_the_other_said(path: Path):
    wanted = {f"{letter}{number}" for letter in "ab" for number in range(60)}
    cells = [cell(f"def {name}():\n    return 1", "answer", name) for name in sorted(wanted)]
    cells += [cell(f"with attempt('{name}'):\n    pass", "check", name) for name in sorted(wanted)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    two_at_once(
        path,
        "for n in range(60):\n"
        "    recorded._ran = lambda: [f'def {mine}{n}(): return 1']\n"
        "    recorded.tick(f'{mine}{n}', recorded.PASSES, '', str(path))\n"
        "    measured.first(f'{mine}{n}', mine, str(path))",
    )
    assert set(recorded.read(path)) == wanted
    assert set(kept.read(measured.KIND, path)) == wanted


def test_a_process_that_holds_the_record_holds_a_check_up_for_two_seconds_at_most(path: Path):
    with kept.alone(recorded.KIND, path):
        took = two_at_once(path, "with kept.alone(recorded.KIND, path): pass")
    assert kept.SECONDS <= min(took) < 10 * kept.SECONDS
