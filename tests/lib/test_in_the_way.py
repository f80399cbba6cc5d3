"""What a command says where a file cannot be written: which, what is wrong, and the mend, in one line."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
import pytest

from across._jupyter import in_the_way
from across._process import forking

bubblewrap = pytest.mark.skipif(not shutil.which("bwrap"), reason="no bubblewrap here, which makes a folder read-only")


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A course of one empty chapter, and an empty home beside it."""
    for name in ("JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "XDG_RUNTIME_DIR", "TMPDIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ACROSS_COURSE", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "notebooks").mkdir()
    nbformat.write(nbformat.v4.new_notebook(), tmp_path / "notebooks" / "01_first.ipynb")
    return tmp_path


def across(*arguments: str, boxed: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """What the command says on a machine of which nothing can be written, but for what `boxed` says."""
    box = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", *boxed]
    command = [*box, sys.executable, "-c", "from across.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@bubblewrap
@pytest.mark.parametrize("verb", [("lab", "--no-browser"), ("run", "1")])
def test_a_home_that_cannot_be_written_is_one_line_with_the_mend(course: Path, verb: tuple[str, ...]):
    ended = across(*verb, boxed=("--tmpfs", "/dev/shm"))
    runtime = course / "home/.local/share/jupyter/runtime"
    said = f"across: {runtime}: Read-only file system; put HOME=/a/folder/of/yours in front of the command\n"
    assert (ended.returncode, ended.stderr) == (2, said)


@bubblewrap
@pytest.mark.parametrize("verb", [("lab", "--no-browser"), ("run", "1")])
@pytest.mark.whole
def test_where_no_temporary_file_can_be_made_the_mend_is_tmpdir(course: Path, verb: tuple[str, ...]):
    ended = across(*verb, boxed=("--bind", str(course / "home"), str(course / "home"), "--chdir", "/"))
    said = f"no folder for temporary files can be written, /tmp among them; put {in_the_way.TEMPORARY}"
    assert (ended.returncode, ended.stderr) == (2, f"across: {said}\n")


def test_a_full_disk_a_missing_file_and_a_sentence_of_ours(monkeypatch: pytest.MonkeyPatch):
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/data/record.json")
    assert in_the_way.sentence(full) == "/data/record.json: No space left on device; make room there"
    missing = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "/data/plan")
    assert in_the_way.sentence(missing) == "/data/plan: No such file or directory"
    assert in_the_way.sentence(OSError(errno.EADDRINUSE, "port 8888 is taken")) == "port 8888 is taken"
    refused = PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/tmp/across-1/warm")
    assert in_the_way.sentence(refused).endswith(
        "Permission denied; put TMPDIR=/a/folder/of/yours in front of the command"
    )


def test_a_servers_socket_is_where_temporary_files_are_unless_that_path_is_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp") as short:
        for place, found in ((short, short), (str(tmp_path / ("long" * 30)), "/tmp")):
            monkeypatch.setattr(tempfile, "tempdir", place)
            folder = Path(forking.new_folder())
            folder.rmdir()
            assert str(folder.parent) == found
