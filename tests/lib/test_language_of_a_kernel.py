"""What given code prints in a kernel of another language, warm or cold: its own lines, from the first cell on."""

from __future__ import annotations

from pathlib import Path

import nbformat.v4 as v4
import pytest
from nbclient import NotebookClient

from across._language import catalogue
from across._process import provisioner, warm

CELLS = [
    "from across import attempt\nprint('The check does not hold.')",
    "print('The check does not hold.')\nprint('mine: The check')",
    "print('half', end='')\nprint(' a line')\nwith attempt.attempt('double'):\n    attempt.expect(False, '')",
]


@pytest.fixture(params=["cold", "warm"])
def kernels(request: pytest.FixtureRequest):
    if request.param == "warm":
        if not warm.available():
            pytest.skip("no warm kernels here")
        provisioner.turn_on()
        yield
        provisioner.turn_off()
    else:
        yield


@pytest.mark.usefixtures("kernels")
def test_a_kernel_prints_the_courses_lines_in_its_language_and_a_students_own_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(catalogue.VARIABLE, "zh")
    notebook = v4.new_notebook(cells=[v4.new_code_cell(source) for source in CELLS])
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, kernel_name="python3", timeout=60, allow_errors=True, resources=resources).execute()
    first, second, third = notebook.cells
    assert first.outputs[0].text == "检查没有通过。\n"
    assert second.outputs[0].text == "检查没有通过。\nmine: The check\n"
    assert third.outputs[0].text == "half a line\n"
    assert third.outputs[1].evalue == "double：还不对。检查没有通过。"
