"""What students are handed: it works by itself, and holds nothing that they must not have."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import time
import tomllib
import urllib.request
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import courses
import pytest
import yaml
from packaging.requirements import Requirement
from small_course import CHECKS, LEAKY, LONG, NAME, SOURCE, command

from across._jupyter import chapters
from autograder.authoring import build
from autograder.model.course import Course, find
from autograder.probe import listed
from autograder.release import leaks

LISTED = (
    "[double.right.by_hand]\nsource = '''\ndef double(x):\n    return np.multiply(np.asarray(x), np.asarray(2))\n'''\n"
)


def texts(folder: Path) -> dict[str, str]:
    """Every file of a folder, as text; a notebook's cells as they are read."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            text = path.read_bytes().decode("utf-8", "replace")
            if path.suffix == ".ipynb":
                text += "\n" + "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
            found[path.relative_to(folder).as_posix()] = text
    return found


@cache  # the library's files are in every bundle
def squeezed(source: str) -> str:
    """Code without comments and layout, so that it is found however it is written."""
    try:
        return ast.unparse(ast.parse(source))
    except SyntaxError:
        return " ".join(source.split())


def test_one_chapter_is_handed_out_with_a_readme_and_the_library_alone(own_small: Course, tmp_path: Path):
    out = tmp_path / "handout"
    command("release", "90", "--out", out, root=own_small.root)
    installs = {"pyproject.toml", "constraints.txt", "environment.yml"}
    assert {path.name for path in out.iterdir()} == {"README.md", *installs, "notebooks", "lib"}
    assert [path.name for path in (out / "notebooks").iterdir()] == [f"{NAME}.ipynb"]
    assert (out / "notebooks" / f"{NAME}.ipynb").read_bytes() == own_small.notebook(NAME).read_bytes()
    assert not [path for path in out.rglob("*") if path.name[0] == "." or path.name == "__pycache__"]
    readme = (out / "README.md").read_text()
    links = re.findall(r"\]\(([^)]+)\)", readme)
    assert links
    assert [link for link in links if not (out / link).exists()] == []
    assert "3 exercises worth 6 points, 1 of them read by a person" in readme
    project = tomllib.loads((out / "pyproject.toml").read_text())
    assert project["project"]["dependencies"] == ["across-tensorflow[lab]"]
    assert project["tool"]["uv"]["sources"]["across-tensorflow"]["path"] == "lib"
    held = (out / "pyproject.toml").read_text() + (out / "lib" / "pyproject.toml").read_text()
    developers = ("pytest", "ruff", "pyright", "cosmic", "selenium", "autograder", "jupytext", "papermill")
    assert [name for name in developers if name in held] == []
    assert "dependency-groups" not in project


SYSTEMS = {
    "linux": {"sys_platform": "linux", "os_name": "posix", "platform_system": "Linux"},
    "darwin": {"sys_platform": "darwin", "os_name": "posix", "platform_system": "Darwin"},
    "win32": {"sys_platform": "win32", "os_name": "nt", "platform_system": "Windows"},
}


def held_there(lines: Iterable[str], system: str, python: str) -> set[tuple[str, str]]:
    """The packages, each with its version, of requirements that hold on a system with a Python."""
    there = {**SYSTEMS[system], "python_version": python.rpartition(".")[0], "python_full_version": python}
    found = [Requirement(line) for line in lines]
    return {(each.name, str(each.specifier)) for each in found if each.marker is None or each.marker.evaluate(there)}


def test_for_every_system_and_python_a_release_pins_one_version_of_each_package(own_small: Course, tmp_path: Path):
    out = tmp_path / "handout"
    command("release", "90", "--out", out, root=own_small.root)
    pinned = tomllib.loads((out / "pyproject.toml").read_text())["tool"]["uv"]["constraint-dependencies"]
    assert (out / "constraints.txt").read_text().splitlines() == pinned
    locked = tomllib.loads((find().root / "uv.lock").read_text())["package"]
    versions = {(each["name"], f"=={each['version']}") for each in locked if "version" in each}
    for system in SYSTEMS:
        for python in ("3.11.2", "3.11.9", "3.12.4", "3.13.1"):
            ours = held_there(pinned, system, python)
            assert len(dict(ours)) == len(ours) > 100
            assert ours <= versions


def test_a_release_is_installed_by_one_line_of_conda_and_names_no_index(own_small: Course, tmp_path: Path):
    out = tmp_path / "handout"
    command("release", "90", "--out", out, root=own_small.root)
    said = yaml.safe_load((out / "environment.yml").read_text())
    assert said["dependencies"] == ["python>=3.11,<3.14", "pip", {"pip": ["-c constraints.txt", "./lib[lab]"]}]
    assert f"conda env create -f environment.yml && conda activate {said['name']} &&" in (out / "README.md").read_text()
    installs = [(out / name).read_text() for name in ("pyproject.toml", "constraints.txt", "environment.yml")]
    assert [text for text in installs if "://" in text] == []


@pytest.mark.parametrize("name", find().chapters)
@pytest.mark.whole
def test_no_reference_no_check_and_no_listed_answer_of_this_course_is_in_its_bundle(name: str, tmp_path: Path):
    course, out = find(), tmp_path / "handout"
    command("release", name, "--out", out, root=course.root)
    held = texts(out)
    whole = [squeezed(text) for text in held.values()]
    assert not [path for path in held if "autograder" in path or "solutions" in path or "checks" in path]
    stubs, references = course.chapter(name).answers, build.solution_source(course, name)
    answers = {answer: squeezed(source) for answer, source in references.items() if source != stubs[answer]}
    for variant in listed.variants(course.listed_file(name)):
        answers[f"{variant.answer}, listed: {variant.name}"] = squeezed(
            variant.written_over(references[variant.answer])
        )
    given = [squeezed(stub) for stub in stubs.values()]
    assert [
        what for what, source in answers.items() if source not in given and any(source in text for text in whole)
    ] == []
    functions = {
        f"def {node.name}("
        for path in course.check_sources(name)
        if path.suffix == ".py"
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }
    assert functions
    assert [function for function in functions if any(function in text for text in held.values())] == []
    assert not [path for path, text in held.items() if "BEGIN SOLUTION" in text or "autograder.probe" in text]


@pytest.mark.parametrize(
    ("told", "says"),
    [
        (LONG, 'the reference of "double"'),
        ("    return np.multiply(np.asarray(x), np.asarray(2))", 'the listed answer "by_hand" to "double"'),
        (CHECKS[CHECKS.index("@probe\ndef doubled") :], '"test_it_doubles" of test_90_small.py'),
    ],
)
def test_what_would_hand_out_an_answer_or_a_check_is_refused_and_nothing_is_written(
    tmp_path: Path, told: str, says: str
):
    told = "\n".join(f"# {line}" for line in told.splitlines())
    source = LEAKY + f"\n# %% [markdown]\n# For the curious:\n# ```python\n{told}\n# ```\n"
    course = courses.write(tmp_path / "course", NAME, source, CHECKS)
    course.listed_file(NAME).write_text(LISTED)
    done = command("release", "90", "--out", tmp_path / "handout", root=course.root, code=2)
    assert f"notebooks/{NAME}.ipynb: holds {says}" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["course"]


def test_the_library_is_searched_too(tmp_path: Path):
    course = courses.write(tmp_path / "course", NAME, LEAKY, CHECKS)
    secrets = leaks.secrets(course, NAME)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "sums.py").write_text(f"def weighted(x):\n    # as it should be\n\n    {LONG}\n")
    assert leaks.leaks(tmp_path / "lib", secrets) == ['sums.py: holds the reference of "double"']


def test_answers_are_handed_out_after_the_deadline_only(tmp_path: Path):
    due = '# ---\n# jupyter:\n#   across:\n#     due: "{}"\n# ---\n\n'
    course = courses.write(tmp_path / "course", NAME, due.format("2999-01-01T00:00+01:00") + LEAKY, CHECKS)
    out = tmp_path / "handout"
    early = command("release", "90", "--out", out, "--solutions", root=course.root, code=2)
    assert "is due 2998-12-31T23:00:00+00:00; release its answers after that" in early.stderr
    assert not out.exists()
    course = courses.write(tmp_path / "course", NAME, LEAKY, CHECKS)
    unknown = command("release", "90", "--out", out, "--solutions", root=course.root, code=2)
    assert "nothing says when 90_small was due; add --due" in unknown.stderr
    said = ("--solutions", "--due", "2020-01-01T00:00+01:00")
    command("release", "90", "--out", out, *said, root=course.root)
    held = texts(out)
    assert [path for path, text in held.items() if LONG in text] == [f"notebooks/solutions/{NAME}.ipynb"]
    assert "notebooks/solutions/90_small.ipynb" in held["README.md"]


def test_with_its_answers_there_is_one_chapter_still(
    own_small: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    out = tmp_path / "handout"
    said = ("--solutions", "--due", "2020-01-01T00:00+01:00")
    command("release", "90", "--out", out, *said, root=own_small.root)
    monkeypatch.setenv("ACROSS_COURSE", str(out))
    assert chapters.find("90") == out / "notebooks" / f"{NAME}.ipynb"


def test_a_folder_with_something_in_it_and_a_stale_notebook_are_refused(own_small: Course, tmp_path: Path):
    out = tmp_path / "handout"
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    full = command("release", "90", "--out", out, root=own_small.root, code=2)
    assert "there is something already; give a new folder" in full.stderr
    own_small.source(NAME).write_text(SOURCE.replace("# # Small", "# # Smaller"))
    stale = command("release", "90", "--out", tmp_path / "other", root=own_small.root, code=2)
    assert "run `autograder build`" in stale.stderr
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("uv") is None, reason="uv installs the bundle")
@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_a_bundle_installs_by_itself_serves_and_runs_its_chapter(tmp_path: Path, python: str):
    """In an environment of its own by the README's command, of a Python that uv finds or fetches: minutes, and packages."""
    out = tmp_path / "handout"
    command("release", "03", "--out", out, root=find().root)
    env = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "PYTHONPATH", "ACROSS_COURSE")}
    env["UV_PYTHON"] = python  # the student's; the bundle's versions are those of the one that runs this
    uv = {"cwd": out, "env": env, "text": True, "timeout": 1800}
    listed_ = subprocess.run(
        ["uv", "run", "python", "-c", "import across, sys; print(sys.version, across.__file__)"],
        capture_output=True,
        **uv,
    )
    assert listed_.stdout.startswith(f"{python}."), listed_.stderr
    assert listed_.stdout.split()[-1] == str(out / "lib" / "across" / "__init__.py")
    none = subprocess.run(["uv", "run", "python", "-c", "import autograder"], capture_output=True, **uv)
    assert "No module named 'autograder'" in none.stderr
    ran = subprocess.run(["uv", "run", "across", "run", "03"], capture_output=True, **uv)
    assert (ran.returncode, "prediction" in ran.stdout) == (1, True), ran.stderr  # a blank notebook: no check passes
    served = subprocess.Popen(["uv", "run", "across", "lab", "--no-browser", "--port", "8971"], cwd=out, env=env)
    try:
        end = time.monotonic() + 120
        while True:
            try:
                with urllib.request.urlopen("http://127.0.0.1:8971/api", timeout=5) as answer:
                    assert "version" in json.load(answer)
                break
            except OSError:
                assert time.monotonic() < end, "across lab did not answer"
                time.sleep(0.2)
    finally:
        served.terminate()
        served.wait(60)
