"""A chapter from the beginning: what is kept of it is forgotten, of no other one; and what was answered is not lost."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import nbformat
import pytest
from processes import across
from test_start_page import change, passes, write

from across._jupyter import chapters, progress, resetting
from across._process import kept, measured, recorded

AGO = 1_000_000_000  # 2001


@pytest.fixture(autouse=True)
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two chapters in a git checkout, the first in Chinese, too: its folder of notebooks."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "user"))
    monkeypatch.setenv("ACROSS_COURSE", str(tmp_path / "course"))
    monkeypatch.delenv("NBGRADER_VALIDATING", raising=False)
    folder = tmp_path / "course" / "notebooks"
    (folder / "zh").mkdir(parents=True)
    for name in ("01_pipes", "02_jobs", "zh/01_pipes"):
        write(folder / f"{name}.ipynb", [])
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "as handed out")
    return folder


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, timeout=60)


def worked_on(path: Path) -> None:
    """Answered, measured and validated, in this order."""
    change(path, "pick", "def pick(): return 1")
    assert measured.first("prediction", "[1]", str(path)) == "[1]"
    passes(path, "pick")


def knows(path: Path) -> bool:
    """Whether the first prediction of a notebook is still known."""
    return kept.read(measured.KIND, path) == {"prediction": "[1]"}


@pytest.mark.parametrize("committed", [False, True])
def test_reset_puts_the_chapter_back_and_forgets_it_alone(course: Path, committed: bool):
    released = {name: (course / f"{name}.ipynb").read_bytes() for name in ("01_pipes", "zh/01_pipes")}
    for name in ("01_pipes", "02_jobs", "zh/01_pipes"):
        worked_on(course / f"{name}.ipynb")
    mine = (course / "01_pipes.ipynb").read_bytes()
    if committed:
        git(course, "commit", "-qam", "my answers")
    said = resetting.reset("01")
    for name in ("01_pipes", "zh/01_pipes"):
        assert (course / f"{name}.ipynb").read_bytes() == released[name]
        assert not knows(course / f"{name}.ipynb")
        assert kept.read(recorded.KIND, course / f"{name}.ipynb") == {}
    assert "return 1" in (course / "02_jobs.ipynb").read_text()
    assert knows(course / "02_jobs.ipynb")
    aside = Path(said[0].partition("Yours is kept: ")[2])
    assert aside.read_bytes() == mine
    assert sorted(each.name for each in course.iterdir() if each.name != ".git") == [
        "01_pipes.ipynb",
        "02_jobs.ipynb",
        "zh",
    ]
    assert measured.first("prediction", "[2]", str(course / "01_pipes.ipynb")) == "[2]"


def test_without_a_blank_version_nothing_is_changed_and_the_mend_is_said(course: Path):
    for name in ("01_pipes", "zh/01_pipes"):
        worked_on(course / f"{name}.ipynb")
    (course.parent / "notebooks" / ".git").rename(course.parent / "no_git")
    before = (course / "01_pipes.ipynb").read_bytes()
    with pytest.raises(chapters.NotHandedOut, match="take the notebook out of your download again"):
        resetting.reset("01")
    assert (course / "01_pipes.ipynb").read_bytes() == before
    assert knows(course / "01_pipes.ipynb")


@pytest.mark.parametrize(
    ("there", "mend"),
    [
        (False, "`01_anna.ipynb` is chapter 01 under another name; rename it to `01_pipes.ipynb` first."),
        (True, "`01_anna.ipynb` is a copy of chapter 01; `uv run across reset 01` begins `01_pipes.ipynb` again."),
    ],
)
def test_a_notebook_under_another_name_is_told_to_be_one(course: Path, there: bool, mend: str):
    notebook = nbformat.read(course / "01_pipes.ipynb", as_version=4)
    notebook.metadata["across"] = {"chapter": "01_pipes"}
    nbformat.write(notebook, course / "01_anna.ipynb")
    worked_on(course / "01_anna.ipynb")
    if not there:
        (course / "01_pipes.ipynb").unlink()
    with pytest.raises(chapters.NotHandedOut, match=f"^{re.escape(mend)}$"):
        resetting.reset("01_anna")
    assert knows(course / "01_anna.ipynb")


def test_a_file_that_is_no_notebook_any_more_is_put_back(course: Path):
    released = (course / "02_jobs.ipynb").read_bytes()
    (course / "02_jobs.ipynb").write_text("{", encoding="utf-8")
    resetting.reset("02")
    assert (course / "02_jobs.ipynb").read_bytes() == released


def test_a_blank_notebook_that_was_put_back_is_noticed_whatever_its_date(course: Path):
    """An archive brings the date at which it was packed."""
    for name in ("01_pipes", "02_jobs"):
        worked_on(course / f"{name}.ipynb")
    record = kept.file(measured.KIND, course / "01_pipes.ipynb")
    os.utime(record, (record.stat().st_mtime - 5, record.stat().st_mtime - 5))
    git(course, "checkout", "01_pipes.ipynb")
    os.utime(course / "01_pipes.ipynb", (AGO, AGO))
    resetting.notice()
    assert not knows(course / "01_pipes.ipynb")
    assert knows(course / "02_jobs.ipynb")


def test_answers_that_were_not_saved_yet_are_no_new_beginning(course: Path):
    """Measured in JupyterLab before its first save: the file is still blank, and older."""
    path = course / "01_pipes.ipynb"
    measured.first("prediction", "[1]", str(path))
    record = kept.file(measured.KIND, path)
    os.utime(record, (path.stat().st_ctime + 5, path.stat().st_ctime + 5))
    resetting.notice()
    assert knows(path)


@pytest.mark.whole
def test_the_command_says_what_it_did_and_what_it_cannot_do(course: Path):
    worked_on(course / "02_jobs.ipynb")
    done = across("reset", "02")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "02_jobs: its predictions count as not measured yet."
    assert [each.answered for each in progress.course()] == [0, 0]
    worked_on(course / "02_jobs.ipynb")
    (course / ".git").rename(course.parent / "no_git")
    done = across("reset", "02")
    assert done.returncode == 2
    assert done.stderr.startswith(f"across: {course / '02_jobs.ipynb'}: git has no blank version of it; ")
