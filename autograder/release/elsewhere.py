"""A chapter on machines that are not the student's: its variant for Colab, and what Binder is told.

The variant is the released notebook with two cells more below its title. They have no grade id, so of a notebook that was
worked on in Colab the same answers are taken, and its mark is that of the same answers elsewhere. A note says what Colab
cannot show; the code cell installs the library, and does nothing where there is no Colab.
"""

from __future__ import annotations

import copy
import json
import tomllib
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from autograder.model.address import Address
from autograder.model.course import Chapter

INSTALL = """\
# On Colab: run this cell first, once a session; it takes some minutes. Elsewhere it does nothing.
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

if "google.colab" in sys.modules:
    started = "tensorflow" in sys.modules
    pip = [sys.executable, "-m", "pip", "install", "--quiet"]
    needs = {needs}
    needs += {gpu} if shutil.which("nvidia-smi") else []
    with tempfile.TemporaryDirectory() as folder:
        source = ["{url}", folder]
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", "--branch", "{ref}", *source], check=True)
        subprocess.run([*pip, *needs], check=True)
        subprocess.run([*pip, "--no-deps", f"{{folder}}/lib"], check=True)
        for name in {files}:
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(f"{{folder}}/notebooks/{{name}}", name)
    print("Now: Runtime, Restart session; then go on below." if started else "Installed. Go on below.")
"""
NOTE = """\
**On Colab.** Run the next cell first. Then all is as elsewhere, but for this:

- There is no *Validate*. Before you hand in: Runtime, Restart session and run all; then look at each check.
- The source of long checks may not be folded.
- Two processors and at most one GPU: what needs more devices runs on logical CPUs, and says so.
- TensorFlow and Keras are those of the marks; other packages are Colab's own, in its versions.
- To hand in: File, Download, Download .ipynb; name the file `{name}.ipynb`.
"""
START = """\
#!/bin/bash
# What Binder starts JupyterLab by: with Validate and the start page, as `across lab` has them. Kernels start cold.
set -e
settings="$(python -c 'from across._jupyter import lab; print(lab.SETTINGS)')"
extension="$(python -c 'from across._jupyter import lab; print(lab.DATA)')"
export JUPYTER_CONFIG_PATH="$settings${JUPYTER_CONFIG_PATH:+:$JUPYTER_CONFIG_PATH}"
export JUPYTER_PATH="$extension${JUPYTER_PATH:+:$JUPYTER_PATH}"
exec "$@"
"""


def colab(released: NotebookNode, chapter: Chapter, library: Path, address: Address) -> NotebookNode:
    """The variant of a released notebook for Colab; `library`: the folder of the library's pyproject.toml."""
    notebook = copy.deepcopy(released)
    project = tomllib.loads((library / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    install = INSTALL.format(
        needs=json.dumps(_needs(project, library)),
        gpu=json.dumps(project["optional-dependencies"]["gpu"]),
        url=address.url,
        ref=address.ref,
        files=json.dumps([path for path, _ in chapter.files]),
    )
    notebook.cells[1:1] = [
        nbformat.v4.new_markdown_cell(NOTE.format(name=chapter.name).rstrip("\n"), id="on-colab"),
        nbformat.v4.new_code_cell(install.rstrip("\n"), id="install-on-colab"),
    ]
    for cell in notebook.cells:
        if cell.metadata.get("jupyter", {}).get("source_hidden"):
            cell.metadata["cellView"] = "form"  # Colab's way to fold a source
    return notebook


def binder(python: str) -> dict[str, str]:
    """The files of the folder binder/: what repo2docker installs, on which Python ("3.12"), and starts."""
    return {
        "requirements.txt": "-c ../constraints.txt\n./lib[lab]\n",
        "runtime.txt": f"python-{python}\n",
        "start": START,
    }


def links(address: Address, chapter: Chapter) -> str:
    """The README's links; an imported chapter has none to Colab, for there every added cell is executed."""
    said = [("on Binder", address.binder(chapter.name))]
    if not chapter.assignment and (link := address.colab(chapter.name)):
        said.insert(0, ("in Colab", link))
    return " · ".join(f"[Open {where}]({link})" for where, link in said)


def _needs(project: dict[str, Any], library: Path) -> list[str]:
    """What the library needs on a machine that has a notebook server of its own."""
    handout = tomllib.loads((library / "handout.toml").read_text(encoding="utf-8"))
    without = {canonicalize_name(name) for name in handout["tool"]["across"]["servers_own"]}
    needs = [*project["dependencies"], *project["optional-dependencies"]["lab"]]
    return [need for need in needs if canonicalize_name(Requirement(need).name) not in without]
