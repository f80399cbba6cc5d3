"""The student's commands: what they find, what they say when something is in the way."""

from __future__ import annotations

import ast
import json
import os
import re
import socket
import sys
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from processes import across

from across import _system, doctor
from across._jupyter import chapters, headless, in_the_way, lab
from across._language import catalogue


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A course of two empty chapters."""
    monkeypatch.setenv("ACROSS_COURSE", str(tmp_path))
    (tmp_path / "notebooks").mkdir()
    for name in ("01_first", "03_device_placement"):
        nbformat.write(nbformat.v4.new_notebook(), tmp_path / "notebooks" / f"{name}.ipynb")
    return tmp_path


def graded(source: str, exercise: str) -> nbformat.NotebookNode:
    meta = {"grade": True, "solution": False, "grade_id": f"check_{exercise}", "points": 2}
    return nbformat.v4.new_code_cell(source, metadata={"nbgrader": meta, "across": {"exercise": exercise}})


@pytest.mark.parametrize("name", ["03_device_placement", "device_placement", "03", "3", "03_device_placement.ipynb"])
def test_a_chapter_is_found_by_name_or_number(course: Path, name: str):
    assert chapters.find(name) == course / "notebooks" / "03_device_placement.ipynb"


@pytest.mark.parametrize("copy", ["03_device_placement-Copy1", "03_device_placement (1)", "03_my_backup"])
def test_a_copy_is_no_chapter_and_is_found_by_its_whole_name(course: Path, copy: str):
    for name in ("03_device_placement", copy):
        notebook = nbformat.v4.new_notebook(metadata={"across": {"chapter": "03_device_placement"}})
        nbformat.write(notebook, course / "notebooks" / f"{name}.ipynb")
    assert chapters.names() == ["01_first", "03_device_placement"]
    assert (
        chapters.find("03") == chapters.find("device_placement") == course / "notebooks" / "03_device_placement.ipynb"
    )
    assert chapters.find(copy) == course / "notebooks" / f"{copy}.ipynb"
    (course / "notebooks" / "03_device_placement.ipynb").unlink()
    assert chapters.find("03") == course / "notebooks" / f"{copy}.ipynb"


def test_a_number_of_several_notebooks_is_one_line_that_names_them(course: Path):
    for name in ("03_anna", "03_bob"):
        nbformat.write(nbformat.v4.new_notebook(), course / "notebooks" / f"{name}.ipynb")
    (course / "notebooks" / "03_device_placement.ipynb").unlink()
    with pytest.raises(chapters.NoSuchChapter) as raised:
        chapters.find("03")
    assert str(raised.value) == "'03' is 2 notebooks: 03_anna, 03_bob; name one in full."


def test_what_is_installed_is_one_line():
    ended = across("--version")
    assert ended.returncode == 0, ended.stderr
    assert re.fullmatch(r"across \S+, TensorFlow 2\.\S+, Python 3\.\S+\n", ended.stdout)


def test_an_unknown_chapter_is_one_line_that_names_those_there_are(course: Path):
    ended = across("run", "04")
    assert ended.returncode == 2
    assert ended.stderr == "across: no chapter '04'; there are: 01_first, 03_device_placement\n"


def test_the_course_is_found_from_a_folder_within_it(course: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("ACROSS_COURSE")
    (course / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(course / "deep" / "er")
    assert chapters.folder() == course / "notebooks"


def test_a_folder_without_a_course_is_one_line_with_the_mend(tmp_path: Path):
    ended = across("lab", "--no-browser", ACROSS_COURSE=str(tmp_path))
    assert ended.returncode == 2
    assert ended.stderr == f"across: no folder notebooks/ with chapters in {tmp_path}; start in the course's folder\n"


def test_a_taken_port_is_one_line_with_the_mend(course: Path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = listener.getsockname()[1]
        ended = across("lab", "--no-browser", "--port", str(taken))
    assert ended.returncode == 2
    assert ended.stderr == f"across: port {taken} is taken; try `uv run across lab --port {taken + 1}`\n"


def test_a_command_in_a_message_can_be_pasted():
    """As docs/student.md has it, by `uv run`: the folder's own environment is on nobody's path."""
    bare = re.compile(r"(?<!uv run )\bacross (lab|doctor|run|reset|prepare|diary)\b(?!:)")
    found = []
    for path in sorted(Path(chapters.__file__).parents[1].rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        told = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}  # docstrings
        texts = (each for each in ast.walk(tree) if isinstance(each, ast.Constant) and isinstance(each.value, str))
        found += [f"{path.name}: {each.value}" for each in texts if id(each) not in told and bare.search(each.value)]
    assert found == []


def test_without_a_wish_jupyter_takes_the_next_free_port():
    assert {"--ServerApp.port=8888", "--ServerApp.port_retries=50"} <= set(lab.arguments(Path(), False, None))
    assert {"--ServerApp.port=8889", "--ServerApp.port_retries=0"} <= set(lab.arguments(Path(), False, 8889))


@pytest.mark.parametrize(
    ("language", "line"),
    [("en", "starting JupyterLab; Ctrl+C ends it."), ("zh", "正在启动 JupyterLab；按 Ctrl+C 结束。")],
)
def test_the_lab_says_that_it_starts_before_it_is_slow(
    course: Path, language: str, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    said: list[str] = []
    app = SimpleNamespace(launch_instance=lambda _: said.append(capsys.readouterr().out))
    monkeypatch.setitem(sys.modules, "jupyterlab.labapp", SimpleNamespace(LabApp=app))  # as if it were imported at once
    monkeypatch.setattr(in_the_way, "look", lambda **_: None)
    for name in ("JUPYTER_CONFIG_PATH", "JUPYTER_PATH", "PATH", catalogue.VARIABLE):
        monkeypatch.setenv(name, os.environ.get(name, ""))  # and taken back afterwards
    monkeypatch.setenv(catalogue.VARIABLE, language)
    monkeypatch.setattr(lab.warm, "available", lambda: False)
    lab.start(browser=False)
    assert said[0].splitlines()[-1] == f"across lab: {line}"


def test_jupyters_own_settings_are_found_after_ours():
    env = lab.environment({"JUPYTER_CONFIG_PATH": "theirs", "PATH": "bin"})
    ours, theirs = env["JUPYTER_CONFIG_PATH"].split(os.pathsep)
    assert theirs == "theirs"
    for path in Path(ours).rglob("*.json"):
        json.loads(path.read_text())
    assert env["PATH"].split(os.pathsep) == [os.path.dirname(sys.executable), "bin"]


def test_a_run_says_of_every_check_whether_it_passes_and_leaves_the_file_alone(course: Path):
    path = course / "notebooks" / "01_first.ipynb"
    hand = {"grade": True, "solution": True, "grade_id": "explain", "points": 3}
    cells = [
        graded("assert True", "good"),
        graded("assert False, 'seen 1; expected 2'", "bad"),
        nbformat.v4.new_markdown_cell("mine", metadata={"nbgrader": hand, "across": {"exercise": "explain"}}),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    before = path.read_bytes()
    report = headless.run(path)
    assert [(each.exercise, each.points, each.state, each.says) for each in report.exercises] == [
        ("good", 2.0, "passes", ""),
        ("bad", 2.0, "not yet", "seen 1; expected 2"),
        ("explain", 3.0, "by hand", "A person reads it."),
    ]
    assert not report.passed
    assert path.read_bytes() == before


def test_after_the_death_of_a_kernel_no_check_counts_as_passed(course: Path):
    path = course / "notebooks" / "01_first.ipynb"
    cells = [nbformat.v4.new_code_cell("import os; os._exit(1)"), graded("assert True", "good")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    report = headless.run(path)
    [good] = report.checks
    assert (good.state, good.says) == ("not yet", "good: did not run. The kernel died before, at cell 1.")
    assert not report.passed


def test_a_chapters_notebook_says_how_many_devices_it_can_use(course: Path):
    notebook = nbformat.v4.new_notebook(metadata={"across": {"chapter": "01_first", "devices": 4}})
    nbformat.write(notebook, course / "notebooks" / "01_first.ipynb")
    (course / "notebooks" / "02_torn.ipynb").write_text("{")
    assert [chapters.devices(name) for name in chapters.names()] == [4, 1, 1]


@pytest.mark.parametrize(
    ("gpus", "says"),
    [
        (0, "4 logical CPUs (no GPU)"),
        (1, "4 pieces of one GPU"),
        (2, "4 pieces of 2 GPUs"),
        (4, "4 GPUs"),
        (8, "4 GPUs"),
    ],
)
def test_the_doctor_says_honestly_what_a_chapter_shows(gpus: int, says: str):
    assert says in doctor.shows(4, gpus)


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({"memory.max": "1048576\n"}, 1048576),
        ({"memory.max": "max\n"}, None),
        ({"memory/memory.limit_in_bytes": "2097152\n"}, 2097152),
        ({"memory/memory.limit_in_bytes": "9223372036854771712\n"}, None),
        ({}, None),
    ],
)
def test_limits_are_read_from_either_kind_of_cgroup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], limit: int | None
):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(_system, "CGROUP", tmp_path)
    assert _system.limit("memory.max", "memory/memory.limit_in_bytes") == limit
