"""A kernel of another language, warm or cold: a check speaks it, and what code prints stays as it is."""

from __future__ import annotations

from pathlib import Path

import nbformat.v4 as v4
import pytest
from nbclient import NotebookClient

from across._language import catalogue
from across._process import provisioner, warm

CELL = """
from across import attempt
print('The check does not hold.')
with attempt.attempt('double'):
    attempt.expect(False, '')
"""


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
def test_a_check_speaks_the_language_of_its_kernel_and_what_is_printed_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(catalogue.VARIABLE, "zh")
    notebook = v4.new_notebook(cells=[v4.new_code_cell(CELL)])
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, kernel_name="python3", timeout=60, allow_errors=True, resources=resources).execute()
    printed, raised = notebook.cells[0].outputs
    assert printed.text == "The check does not hold.\n"
    assert raised.evalue == "double：还不对。检查没有通过。"
