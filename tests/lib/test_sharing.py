"""A kernel takes of a card what it needs and computes float32. It looks for cards itself: who forked it did not."""

from __future__ import annotations

import os
import subprocess
import sys
from ast import literal_eval
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from jupyter_client.provisioning.factory import KernelProvisionerFactory
from nbclient import NotebookClient
from processes import forked, with_a_card

from across._process import provisioner, sharing, warm

ASK = "import with_a_card\nfrom across.attempt import attempt\nprint(with_a_card.said())"
EARLY = "import with_a_card\nearly = with_a_card.said()"
BESIDE = "from across import fresh\nprint(fresh.run(with_a_card.said))"


@pytest.fixture
def served(warm_kernels: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Warm kernels on a machine with a card."""
    with warm.ForkServer("with_a_card", env=with_a_card("across._process.warm_kernel")) as server:
        monkeypatch.setattr(provisioner, "_server", server)
        yield


def said(*cells: str, **env: str) -> list[object]:
    """What the cells of a kernel, with this in its environment, print of looks at a card."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    without = {name: value for name, value in os.environ.items() if name not in sharing.AS_ON_A_CPU}
    NotebookClient(notebook, timeout=60).execute(env={**without, "CUDA_VISIBLE_DEVICES": "3", **env})
    return [literal_eval(cell.outputs[0].text) for cell in notebook.cells]


@forked
@pytest.mark.whole
def test_a_warm_kernel_looks_once_in_its_own_environment_before_any_code_of_the_students(served: None, tmp_path: Path):
    startup = tmp_path / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "early.py").write_text(EARLY)
    assert said("print(early)", ASK, IPYTHONDIR=str(tmp_path)) == [(["3", "0"], True)] * 2


@forked
@pytest.mark.whole
def test_neither_its_server_nor_the_copy_beside_it_has_looked(served: None):
    assert said(ASK, BESIDE)[1] == ([], False)


@pytest.mark.whole
def test_a_cold_kernel_looks_when_it_imports_what_each_chapter_imports_first(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(KernelProvisionerFactory.instance(), "default_provisioner_name", "local-provisioner")
    assert said(ASK, **with_a_card("across.attempt")) == [(["3", "0"], True)]


def test_without_a_driver_tensorflow_is_not_imported_to_look():
    code = "import sys\nfrom across._process import sharing\nsharing.DRIVERS = ()\n"
    code += "import across.attempt\nprint('tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "False\n"


@pytest.mark.whole
def test_with_a_broken_driver_a_chapter_begins_and_who_asks_for_a_card_is_told():
    code = "from pathlib import Path\nfrom tensorflow.python import pywrap_tfe\nimport tensorflow as tf\n"
    code += "def broken(): raise tf.errors.InternalError(None, None, 'no driver answers')\n"
    code += "pywrap_tfe.TF_ListPhysicalDevices = broken\n"
    code += (
        "from across._process import sharing\nsharing.DRIVERS = (Path('/'),)\nimport across.attempt\nprint('begun')\n"
    )
    code += "tf.config.list_physical_devices('GPU')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "begun\n"
    assert done.stderr.rstrip().endswith("InternalError: no driver answers")


def test_jupyters_server_neither_looks_nor_imports_tensorflow():
    code = "import sys\nimport across._jupyter.lab, across._jupyter.validating\n"
    code += "print({'across.attempt', 'tensorflow'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "set()\n"
