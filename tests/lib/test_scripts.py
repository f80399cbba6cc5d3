"""Scripts with an environment of their own: installed once by their lock, run there, ended with all that they started."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from across import scripts

pytestmark = pytest.mark.skipif(not shutil.which("uv"), reason="uv is missing: pip install uv")
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
HEADER = f'# /// script\n# requires-python = "=={VERSION}.*"\n# dependencies = []\n# ///\n'


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script that needs nothing but Python, with its lock, and a place for its environment."""
    monkeypatch.setattr(scripts, "PLACE", tmp_path / "place")
    path = tmp_path / "small.py"
    path.write_text(HEADER + "import os, sys\nprint('in', sys.prefix, os.environ.get('TF_CONFIG'))\n")
    subprocess.run(["uv", "lock", "--quiet", "--offline", "--script", path], check=True, timeout=60)
    return path


def prepared_with(script: Path, body: str) -> Path:
    script.write_text(HEADER + body)
    scripts.prepare(script)
    return script


def test_it_runs_in_its_own_environment_and_is_told_nothing_of_ours(script: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TF_CONFIG", "{}")
    there = scripts.prepare(script)
    assert scripts.run(script) == f"in {there} None\n"
    assert there.parent == scripts.PLACE
    assert list(scripts.PLACE.iterdir()) == [there]  # nothing half made


def test_it_is_installed_once_and_without_uv_the_mend_is_named(script: Path, monkeypatch: pytest.MonkeyPatch):
    uv = os.environ["PATH"]
    monkeypatch.setenv("PATH", "")
    with pytest.raises(scripts.NotPrepared, match="pip install uv"):
        scripts.prepare(script)
    monkeypatch.setenv("PATH", uv)
    there = scripts.prepare(script)
    monkeypatch.setenv("PATH", "")
    assert scripts.prepare(script) == there


def test_another_lock_is_another_environment(script: Path):
    there = scripts.prepare(script)
    lock = Path(f"{script}.lock")
    lock.write_text(lock.read_text() + "\n")
    assert scripts.folder(script) != there
    assert scripts.run(script) is None


def test_where_it_is_not_prepared_the_recorded_run_is_shown_as_one(script: Path, tmp_path: Path):
    recorded = tmp_path / "recorded.txt"
    recorded.write_text("A recorded run: 42\n")
    assert scripts.run(script) is None
    said = scripts.output(script, recorded)
    assert said.startswith("NOT RUN HERE: its environment is not here. `uv run across prepare`")
    assert said.endswith("A recorded run: 42\n")


def test_a_run_that_fails_says_how_and_the_recorded_one_is_shown(script: Path, tmp_path: Path):
    recorded = tmp_path / "recorded.txt"
    recorded.write_text("A recorded run: 42\n")
    prepared_with(script, "raise SystemExit('no such card')\n")
    with pytest.raises(scripts.Failed, match=r"small\.py ended with exit code 1:\nno such card"):
        scripts.run(script)
    said = scripts.output(script, recorded)
    assert "no such card" in said
    assert "A recorded run: 42" in said


@pytest.mark.skipif(sys.platform == "win32", reason="no process groups")
def test_what_it_started_ends_with_it(script: Path, tmp_path: Path):
    note = tmp_path / "pid"
    body = "import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    prepared_with(script, body + f"open({str(note)!r}, 'w').write(str(child.pid))\nimport time; time.sleep(600)\n")
    with pytest.raises(scripts.Failed, match="did not end in 3 s"):
        scripts.run(script, seconds=3)
    child, until = int(note.read_text()), time.monotonic() + 10
    while alive(child) and time.monotonic() < until:
        time.sleep(0.05)
    assert not alive(child)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_lock_that_does_not_fit_the_script_is_not_installed(script: Path):
    script.write_text(script.read_text().replace("dependencies = []", 'dependencies = ["nosuchpackage-of-across"]'))
    with pytest.raises(scripts.NotPrepared, match="uv says"):
        scripts.prepare(script)
    assert list(scripts.PLACE.iterdir()) == []


def test_a_notebook_s_scripts_are_those_with_a_lock_that_it_names(script: Path, tmp_path: Path):
    notebook = tmp_path / "01_a.ipynb"
    notebook.write_text('{"source": "run small.py"}')
    assert scripts.beside(notebook) == [script]
    notebook.write_text('{"source": "run other.py"}')
    assert scripts.beside(notebook) == []


def test_the_interpreters_of_what_is_prepared_are_told(script: Path):
    assert scripts.interpreters() == []
    scripts.prepare(script)
    told = scripts.interpreters()
    program = os.path.realpath(scripts.folder(script) / "bin" / "python")
    assert program in told
    assert str(Path(program).parent.parent / "lib") in told
    assert str(Path(program).parent.parent) not in told  # nor what else lies beside them
