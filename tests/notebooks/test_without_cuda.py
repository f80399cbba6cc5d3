"""Every chapter under TensorFlow built without CUDA, as on macOS and Windows: it runs clean, and its checks judge alike.

In an environment of its own, with `tensorflow-cpu` in the place of `tensorflow`: pytest -n 0 -m slow tests/notebooks
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from autograder.model.course import find

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
INSTALLS, RUNS = 900.0, 1800.0  # seconds; deadlines: chapters with clusters start one for each listed answer


def said(command: list[str], environment: Path | None = None, deadline: float = INSTALLS) -> str:
    """What a command prints, run in the checkout, in the environment that is given. It must end well."""
    own = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "PYTHONPATH")}
    if environment is not None:
        own |= {"VIRTUAL_ENV": str(environment), "PATH": f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, timeout=deadline, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `uv sync --group ci` installs, but for the one package."""
    if shutil.which("uv") is None:
        pytest.skip("no uv here")
    place = tmp_path_factory.mktemp("without_cuda") / "venv"
    pins = said(
        [
            "uv",
            "export",
            "--frozen",
            "--group",
            "ci",
            "--no-hashes",
            "--no-emit-workspace",
            "--no-header",
            "--no-annotate",
        ]
    )
    changed, count = re.subn(r"^tensorflow==", "tensorflow-cpu==", pins, flags=re.MULTILINE)
    assert count == 1
    requirements = place.parent / "requirements.txt"
    requirements.write_text(changed)
    said(["uv", "venv", "-q", str(place)])
    said(["uv", "pip", "install", "-q", "--no-deps", "-r", str(requirements), "-e", "lib", "-e", "autograder"], place)
    return place


def test_tensorflow_is_built_without_cuda(environment: Path):
    asks = "import tensorflow as tf; print(tf.test.is_built_with_cuda())"
    assert said([str(environment / "bin/python"), "-c", asks], environment).strip() == "False"


@pytest.mark.parametrize("chapter", find().chapters)
def test_a_chapter_runs_clean(environment: Path, chapter: str):
    assert "ran clean" in said([str(environment / "bin/autograder"), "run", chapter], environment, RUNS)


@pytest.mark.parametrize("chapter", find().chapters)
def test_its_checks_judge_as_they_do_with_cuda(environment: Path, chapter: str):
    said([str(environment / "bin/autograder"), "verify", chapter, "--quick"], environment, RUNS)
