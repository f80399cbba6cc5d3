"""A chapter on machines that are not the student's: Colab and Binder, by an address that whoever publishes says."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import courses
import nbformat
import pytest
from small_course import CHECKS, NAME, RIGHT, SOURCE, command

from across._jupyter import lab
from autograder.authoring import build
from autograder.model.address import Address
from autograder.model.course import Course, CourseError, find
from autograder.release import elsewhere
from autograder.submissions import intake

ADDRESS = "https://github.com/owner/a-course"
LIBRARY = find().root / "lib"


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    return courses.write(tmp_path_factory.mktemp("published") / "course", NAME, SOURCE, CHECKS)


@pytest.fixture(scope="module")
def handout(course: Course) -> Path:
    out = course.root.parent / "handout"
    command("release", "90", "--out", out, "--published", ADDRESS, root=course.root)
    return out


def installs(course: Course, name: str = NAME) -> str:
    """The source of the cell that installs the library."""
    variant = elsewhere.colab(build.release(course, name), course.chapter(name), LIBRARY, Address.read("", ADDRESS))
    return next(cell.source for cell in variant.cells if cell.cell_type == "code")


def test_the_readme_links_to_colab_and_binder(handout: Path):
    links = re.findall(r"\[(Open [^\]]+)\]\(([^)]+)\)", (handout / "README.md").read_text())
    assert links == [
        ("Open in Colab", f"https://colab.research.google.com/github/owner/a-course/blob/main/colab/{NAME}.ipynb"),
        ("Open on Binder", f"https://mybinder.org/v2/gh/owner/a-course/main?urlpath=lab/tree/notebooks/{NAME}.ipynb"),
    ]
    assert (handout / "colab" / f"{NAME}.ipynb").is_file()
    assert (handout / "notebooks" / f"{NAME}.ipynb").is_file()


def test_the_course_may_say_the_address_once(course: Course, tmp_path: Path):
    copied = tmp_path / "course"
    shutil.copytree(course.root, copied)
    (copied / "course.toml").write_text((copied / "course.toml").read_text() + f'published = "{ADDRESS}@autumn"\n')
    command("release", "90", "--out", tmp_path / "handout", root=copied)
    assert "/blob/autumn/colab/" in (tmp_path / "handout" / "README.md").read_text()


@pytest.mark.parametrize(
    ("said", "colab", "binder"),
    [
        ("https://github.com/o/n.git", "github/o/n/blob/main/", "/v2/gh/o/n/main?"),
        ("https://gitlab.com/group/sub/n@v1", "", "/v2/gl/group%2Fsub%2Fn/v1?"),
        ("https://git.example.org/o/n/", "", "/v2/git/https%3A%2F%2Fgit.example.org%2Fo%2Fn/main?"),
    ],
)
def test_an_address_is_of_any_host_and_colab_reads_one(said: str, colab: str, binder: str):
    address = Address.read("--published", said)
    assert (colab in address.colab("x"), bool(address.colab("x"))) == (True, bool(colab))
    assert binder in address.binder("x")


@pytest.mark.parametrize(
    "said", ["github.com/o/n", "https://github.com/o", "git@github.com:o/n", "https://h/o/n@a b", 'https://h/o/n"; x']
)
def test_what_is_no_address_is_refused_with_the_mend(said: str, course: Course, tmp_path: Path):
    with pytest.raises(CourseError, match="write it like https://HOST/OWNER/NAME"):
        Address.read("--published", said)
    (tmp_path / "course.toml").write_text(f"id = 'x'\ntitle = 'x'\npublished = '{said}'\n")
    with pytest.raises(CourseError, match=r"course\.toml: published: .* write it like"):
        Course.read(tmp_path)


def test_the_variant_for_colab_is_the_release_and_two_cells_that_no_mark_depends_on(course: Course):
    released = build.release(course, NAME)
    variant = elsewhere.colab(released, course.chapter(NAME), LIBRARY, Address.read("", ADDRESS))
    nbformat.validate(variant)
    added = [cell for cell in variant.cells if cell.id not in {each.id for each in released.cells}]
    assert [(cell.cell_type, cell.metadata) for cell in added] == [("markdown", {}), ("code", {})]
    assert [cell.source for cell in variant.cells if cell not in added] == [cell.source for cell in released.cells]
    assert variant.metadata == released.metadata
    assert variant.cells[0].source == released.cells[0].source
    assert build.release_digest(released) == released.metadata["across"]["release"]


def test_what_was_worked_on_in_colab_is_the_same_submission(course: Course, handout: Path, tmp_path: Path):
    for student, source in (("ada", handout / "notebooks"), ("bo", handout / "colab")):
        notebook = json.loads((source / f"{NAME}.ipynb").read_text())
        for cell in notebook["cells"]:
            if answer := RIGHT.get(cell["metadata"].get("nbgrader", {}).get("grade_id", "")):
                cell["source"] = answer
        courses.hand_in(tmp_path, student, NAME, json.dumps(notebook).encode())
    chapter = course.chapter(NAME)
    read = {found.student: intake.read(found, chapter) for found in intake.collect(tmp_path, chapter)}
    assert read["ada"].answers == read["bo"].answers
    assert set(read["ada"].answers) == {"double", "shift", "why"}
    assert (read["ada"].added, read["bo"].added) == ((), ())
    assert not read["bo"].invalid


def test_the_first_cell_does_nothing_where_there_is_no_colab(course: Course, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("something was run"))
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(compile(installs(course), "cell", "exec"), {})
    assert said.getvalue() == ""


def test_the_first_cell_installs_the_library_without_what_colab_has_of_its_own(
    course: Course, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    ran: list[list[str]] = []
    monkeypatch.setitem(sys.modules, "google.colab", contextlib)
    monkeypatch.setattr(subprocess, "run", lambda command, **_: ran.append(command))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(compile(installs(course), "cell", "exec"), {})
    clone, needs, library = ran
    assert clone[:2] == ["git", "clone"]
    assert clone[-2] == ADDRESS
    names = {re.split(r"[=><\[]", each)[0] for each in needs[5:]}
    assert {"tensorflow", "keras", "matplotlib"} <= names
    assert not names & {"jupyterlab", "ipykernel", "nbgrader", "jupyter-server"}
    assert library[-2:] == ["--no-deps", f"{clone[-1]}/lib"]
    assert said.getvalue().startswith(("Installed.", "Now: Runtime"))


def test_files_that_lie_beside_a_chapter_come_along(tmp_path: Path):
    course = courses.write(tmp_path / "course", NAME, SOURCE, CHECKS)
    (course.files(NAME) / "data").mkdir(parents=True)
    (course.files(NAME) / "data" / "rows.csv").write_text("1,2\n")
    assert 'for name in ["data/rows.csv"]:' in installs(course)


def test_binder_starts_jupyterlab_with_validate(handout: Path):
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for name in ("JUPYTER_CONFIG_PATH", "JUPYTER_PATH"):
        env.pop(name, None)
    start = [handout / "binder" / "start", "printenv", "JUPYTER_CONFIG_PATH", "JUPYTER_PATH"]
    done = subprocess.run(start, env=env, cwd=handout, capture_output=True, text=True, timeout=60)
    settings, data = done.stdout.split()
    assert (settings, data) == (str(lab.SETTINGS), str(lab.DATA))
    assert (Path(data) / "labextensions" / "across" / "package.json").is_file()  # our extension, which has the button
    assert (handout / "binder" / "runtime.txt").read_text() == f"python-3.{sys.version_info.minor}\n"
    pinned, library = (handout / "binder" / "requirements.txt").read_text().splitlines()
    assert (handout / "binder" / pinned.removeprefix("-c ")).resolve() == handout / "constraints.txt"
    place, _, extra = library.partition("[")
    asked = tomllib.loads((handout / place / "pyproject.toml").read_text())["project"]
    assert extra.removesuffix("]") in asked["optional-dependencies"]


@pytest.mark.parametrize("minor", [11, 12, 13])
def test_binders_own_builder_installs_the_library_from_the_folder_and_starts_it(
    handout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minor: int
):
    """repo2docker's plan, for each Python that a release may be made on: its Dockerfile is written, no image is made."""
    app = pytest.importorskip(
        "repo2docker.app", reason="repo2docker is not installed: uv sync --group ci"
    ).Repo2Docker()
    shutil.copytree(handout, tmp_path / "repository")
    for name, content in elsewhere.binder(f"3.{minor}").items():
        (tmp_path / "repository" / "binder" / name).write_text(content)
    monkeypatch.chdir(tmp_path / "repository")
    made = (pack(base_image=app.base_image) for pack in app.buildpacks)
    plan = next(pack for pack in made if pack.detect())
    plan.platform = "linux/amd64"
    assert (type(plan).__name__, plan.python_version) == ("PythonBuildPack", f"3.{minor}")
    lines = plan.render({}).splitlines()
    (installs,) = [at for at, line in enumerate(lines) if line.startswith("RUN") and "binder/requirements.txt" in line]
    (copied,) = [at for at, line in enumerate(lines) if line.startswith("COPY") and line.endswith(" src/ ${REPO_DIR}/")]
    assert copied < installs  # or pip would not find ./lib
    assert 'ENV R2D_ENTRYPOINT="${REPO_DIR}/binder/start"' in lines
    assert any(f"environment.py-3.{minor}-linux-64.lock" in name for name in plan.get_build_script_files())


@pytest.fixture
def colabs_machine(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """An environment as Colab's is, as far as it can be had: its kernel, NumPy and protobuf; no TensorFlow, no JupyterLab."""
    uv = shutil.which("uv") or pytest.skip("no uv here")
    venv = tmp_path / "venv"
    there = ["ipykernel==6.17.1", "ipython==7.34.0", "jupyter-client<8", "numpy==2.0.2", "protobuf<6", "nbclient"]
    for command_ in (
        [uv, "venv", "-q", "--seed", "--python", sys.executable, str(venv)],
        [uv, "pip", "install", "-q", "--compile-bytecode", "--python", str(venv / "bin/python"), *there],
    ):
        subprocess.run(command_, check=True, timeout=600)
    starts = tmp_path / "ipython" / "profile_default" / "startup" / "00.py"
    starts.parent.mkdir(parents=True)
    starts.write_text("import sys, types\nsys.modules['google.colab'] = types.ModuleType('google.colab')\n")
    own = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "PYTHONPATH")}
    own |= {"IPYTHONDIR": str(tmp_path / "ipython"), "PATH": f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    own |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.file://{tmp_path}/repository.insteadOf"}
    return venv, own | {"GIT_CONFIG_VALUE_0": ADDRESS}


@pytest.mark.slow
def test_a_chapter_installs_itself_on_a_machine_like_colabs_and_runs(
    colabs_machine: tuple[Path, dict[str, str]], tmp_path: Path
):
    """What pip installs over Colab's own packages, and the whole chapter: minutes, and packages of an index."""
    venv, env = colabs_machine
    repository = tmp_path / "repository"
    command("release", "03", "--out", repository, "--published", ADDRESS, root=find().root)
    for git in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "released"]):
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *who, *git], cwd=repository, check=True, timeout=60)
    ran = tmp_path / "ran.ipynb"
    runs = (
        "import nbformat, nbclient\n"
        f"notebook = nbformat.read({str(repository / 'colab' / '03_device_placement.ipynb')!r}, 4)\n"
        "nbclient.NotebookClient(notebook, timeout=1200, allow_errors=True, kernel_name='python3').execute()\n"
        f"nbformat.write(notebook, {str(ran)!r})\n"
    )
    subprocess.run([str(venv / "bin/python"), "-c", runs], env=env, cwd=tmp_path, check=True, timeout=2400)
    cells = nbformat.read(ran, 4).cells
    raised = {
        cell.id: (output.ename, output.evalue)
        for cell in cells
        for output in cell.get("outputs", [])
        if output.output_type == "error"
    }
    assert {name for name, _ in raised.values()} == {"NotAttempted"}, raised
    assert all(cell.execution_count for cell in cells if cell.cell_type == "code")
    assert sum("image/png" in output.get("data", {}) for cell in cells for output in cell.get("outputs", [])) > 5
