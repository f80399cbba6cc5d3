"""A full disk and a read-only folder end in one clear line, and what was graded is kept."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autograder.gradebook import database, tables
from autograder.store import files

HERE = Path(__file__).parent
MAY = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False, timeout=30).returncode == 0


@pytest.mark.skipif(not MAY, reason="disks of a chosen size need a mount namespace, and this user may not make one")
@pytest.mark.whole
def test_a_full_or_read_only_disk_is_named_and_nothing_is_lost(tmp_path):
    ran = subprocess.run(
        ["unshare", "-m", sys.executable, str(HERE / "full_disk.py"), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=180,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])},
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stderr == ""  # no traceback beside what is told
    told = ran.stdout
    assert "gradebook.db: database or disk is full; make room" in told  # in the database,
    assert f".seed: No space left on device; make room on that disk, {files.AGAIN}" in told  # and in a file


def test_a_damaged_gradebook_is_named(tmp_path):
    (tmp_path / "gradebook.db").write_bytes(b"no database" * 500)
    with pytest.raises(database.GradebookError, match=r"gradebook.db: file is not a database; the file is damaged"):
        tables.Gradebook(database.locate(tmp_path), "tiny")


def test_one_process_may_hold_a_folder_twice_and_another_not_at_all(tmp_path):
    other = "import sys; from pathlib import Path; from autograder.store import files\n"
    other += "with files.only_writer(Path(sys.argv[1])): pass"

    def another():
        return subprocess.run([sys.executable, "-c", other, str(tmp_path)], capture_output=True, text=True, timeout=60)

    with files.only_writer(tmp_path):
        with files.only_writer(tmp_path):
            pass
        assert "another grader" in another().stderr
    assert another().returncode == 0


def test_a_process_forked_meanwhile_does_not_keep_a_folder(tmp_path):
    with files.only_writer(tmp_path):  # jobs that are begun ahead make boxes while the class's secret is written
        pid = os.fork()
        if not pid:
            time.sleep(60)
            os._exit(0)
    try:
        with files.only_writer(tmp_path):
            pass
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_the_folder_of_a_class_is_its_graders_alone(tmp_path):
    mine, others = tmp_path / "new" / "out", tmp_path / "shared"
    others.mkdir(mode=0o750)
    with files.only_writer(mine), files.only_writer(others):
        assert [folder.stat().st_mode & 0o777 for folder in (mine, others)] == [0o700, 0o750]  # what was there stays
