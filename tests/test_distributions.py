"""Two distributions: what students install, and the harness; each declares what it imports."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import version

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = {"across-tensorflow": "lib", "across-autograder": "autograder"}
PROJECTS: dict[str, dict[str, Any]] = {
    name: tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"] for name, folder in FOLDERS.items()
}
CHECKOUT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
OURS = {
    "across": "across-tensorflow",
    "autograder": "across-autograder",
}  # editable: no list of files says which modules they hold
ABSENT = {"pynvml": "nvidia-ml-py"}  # not installed everywhere, and not called like its module
WRITTEN_BY_TESTS = {"neighbour"}
BESIDE = WRITTEN_BY_TESTS | {  # modules and packages of the repository that no distribution holds
    name
    for folder in ("tests", "tools", "checks")
    for path in (ROOT / folder).rglob("*.py")
    for name in (path.stem, path.parent.name)
}


@functools.cache
def held() -> dict[str, list[str]]:
    """The distributions of each package on this machine; 2 s to find out."""
    return {**packages_distributions(), **{package: [name] for package, name in OURS.items()}}


def names(requirements: Iterable[str]) -> set[str]:
    """The distributions that requirements ask for."""
    return {canonicalize_name(Requirement(text).name) for text in requirements}


def declared(name: str, extras: bool) -> set[str]:
    """What one of our distributions asks for, with or without its extras; a student's has `lab`."""
    optional = PROJECTS[name]["optional-dependencies"]
    brought = [text for extra, texts in optional.items() if extras or extra == "lab" for text in texts]
    return names([*PROJECTS[name]["dependencies"], *brought]) | {name}


def imported(tree: ast.AST) -> Iterator[str]:
    """The modules that are imported anywhere in `tree`, also in functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def imported_at_once(tree: ast.Module) -> Iterator[str]:
    """The modules that are imported when `tree` itself is."""
    for statement in tree.body:
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            yield statement.module
            yield from (f"{statement.module}.{alias.name}" for alias in statement.names)


def distributions(module: str, beside: Iterable[str] = ()) -> set[str]:
    """Which distributions hold a module; none for the standard library and for what lies `beside` who imports it."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names or top in beside:
        return set()
    return {canonicalize_name(name) for name in held().get(top, [ABSENT.get(top, top)])}


@functools.cache
def sources(*folders: str) -> dict[Path, ast.Module]:
    """Every Python file below these folders, read."""
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return {path.relative_to(ROOT): ast.parse(path.read_text(encoding="utf-8")) for path in files}


def undeclared(trees: dict[Path, ast.Module], allowed: set[str], beside: Iterable[str] = ()) -> list[str]:
    """What is imported of distributions none of which is `allowed`."""
    return [
        f"{path}: {module}"
        for path, tree in trees.items()
        for module in imported(tree)
        if (found := distributions(module, BESIDE)) and not found & allowed
    ]


@pytest.mark.parametrize(
    ("name", "package"), [("across-tensorflow", "lib/across"), ("across-autograder", "autograder")]
)
def test_a_distribution_declares_every_package_that_it_imports(name: str, package: str):
    assert undeclared(sources(package), declared(name, extras=True)) == []


def test_the_tests_import_what_is_declared_only():
    allowed = names([each for group in CHECKOUT["dependency-groups"].values() for each in group])
    for name in PROJECTS:
        allowed |= declared(name, extras=True)
    assert undeclared(sources("tests", "tools", "checks"), allowed, BESIDE) == []


def test_what_only_ci_installs_is_what_files_of_tests_are_skipped_without():
    """What `uv run pytest` installs is enough to collect every other file; a test that needs more in it says so itself."""
    allowed = names(CHECKOUT["dependency-groups"]["dev"]).union(*(declared(name, extras=False) for name in PROJECTS))
    skipped_without = ast.parse((ROOT / "tests" / "conftest.py").read_text(encoding="utf-8"))
    (of_ci,) = [
        ast.literal_eval(each.value)
        for each in skipped_without.body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "OF_CI"
    ]
    heavy = {
        module.partition(".")[0]
        for tree in sources("tests").values()
        for module in imported_at_once(tree)
        if (found := distributions(module, BESIDE)) and not found & allowed
    }
    assert heavy == set(of_ci)


def test_a_chapters_cells_import_what_students_have():
    assert undeclared(sources("solutions"), declared("across-tensorflow", extras=False)) == []


@pytest.mark.parametrize(
    ("name", "package"), [("across-tensorflow", "lib/across"), ("across-autograder", "autograder")]
)
def test_what_an_extra_brings_is_imported_only_where_it_is_needed(name: str, package: str):
    """A module that imports an extra's package at once is itself imported in functions only."""
    plain = declared(name, extras=False)
    trees = {
        ".".join(path.relative_to(Path(package).parent).with_suffix("").parts): tree
        for path, tree in sources(package).items()
    }
    need_extras = {
        module
        for module, tree in trees.items()
        if any((found := distributions(other)) and not found & plain for other in imported_at_once(tree))
    }
    assert [
        f"{module}: {other}"
        for module, tree in trees.items()
        if module not in need_extras
        for other in imported_at_once(tree)
        if other in need_extras
    ] == []


def test_the_harness_asks_for_the_very_library_beside_it():
    """It uses the library's private modules, of which no version promises anything."""
    grader = PROJECTS["across-autograder"]
    asked = [Requirement(text) for text in (*grader["dependencies"], *grader["optional-dependencies"]["gpu"])]
    pins = [str(each.specifier) for each in asked if each.name == "across-tensorflow"]
    assert pins == [f"=={version.version()}"] * 2


def test_the_version_stands_in_one_file_and_the_change_log_tells_it():
    assert [str(path.relative_to(ROOT)) for path, _ in version.stale()] == [], "uv run python tools/version.py"
    locked = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    ours = {each["name"]: each["version"] for each in locked if each["name"] in (*FOLDERS, CHECKOUT["project"]["name"])}
    assert set(ours.values()) == {version.version()}
    heads = [line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")]
    assert f"## {version.version()}" in heads[:2]  # the first may be what is not released yet


def test_what_is_built_may_be_published_and_the_checkout_may_not():
    private = "Private :: Do Not Upload"
    assert private in CHECKOUT["project"]["classifiers"]
    assert [name for name, project in PROJECTS.items() if private in project["classifiers"]] == []


def test_python_licence_and_shared_pins_are_the_same_everywhere():
    ours = [CHECKOUT["project"], *PROJECTS.values()]
    assert len({project["requires-python"] for project in ours}) == 1
    for folder in FOLDERS.values():
        assert (ROOT / folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    pins: dict[str, set[str]] = {}
    for project in PROJECTS.values():
        for requirement in map(Requirement, project["dependencies"]):
            pins.setdefault(canonicalize_name(requirement.name), set()).add(str(requirement.specifier))
    assert {name: found for name, found in pins.items() if len(found) > 1} == {}


def test_what_students_are_handed_asks_for_the_library_alone():
    handout = tomllib.loads((ROOT / "lib" / "handout.toml").read_text())
    assert handout["project"]["dependencies"] == ["across-tensorflow[lab]"]
    assert handout["project"]["requires-python"] == CHECKOUT["project"]["requires-python"]
    assert handout["tool"]["uv"]["sources"] == {"across-tensorflow": {"path": "lib", "editable": True}}
    assert "autograder" not in str(handout)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both wheels, built as a release builds them, without a network."""
    pytest.importorskip("hatchling", reason="hatchling is not installed: uv sync --group ci")
    made = tmp_path_factory.mktemp("wheels")
    found = {}
    for name, folder in FOLDERS.items():
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(made)]
        subprocess.run(command, cwd=ROOT / folder, check=True, capture_output=True, timeout=120)
        (found[name],) = made.glob(f"{name.replace('-', '_')}-[0-9]*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A student's environment and a grader's: folders as pip fills them, for the interpreter that runs this."""
    places = {}
    for name, parts in {"across-tensorflow": ["across-tensorflow"], "across-autograder": [*FOLDERS]}.items():
        places[name] = tmp_path_factory.mktemp(name)
        for part in parts:
            with zipfile.ZipFile(wheels[part]) as wheel:
                wheel.extractall(places[name])
    return places


def files(package: str) -> set[str]:
    """The files of a package, as a wheel should name them."""
    folder = ROOT / package
    found = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    kept = {path for path in found if not any(part[0] == "." or part == "__pycache__" for part in path.parts)}
    return {
        f"{folder.name}/{path.as_posix()}"
        for path in kept - {Path("pyproject.toml"), Path("LICENSE"), Path("README.md")}
    }


@pytest.mark.parametrize(
    ("name", "package"), [("across-tensorflow", "lib/across"), ("across-autograder", "autograder")]
)
def test_a_wheel_holds_its_package_and_nothing_else(wheels: dict[str, Path], name: str, package: str):
    with zipfile.ZipFile(wheels[name]) as wheel:
        held = {entry for entry in wheel.namelist() if ".dist-info/" not in entry}
    assert held == files(package)


def run(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python on what is installed in `place`, with the declared packages of this environment and not the checkout."""
    site = next(
        path for path in sys.path if path.endswith("site-packages")
    )  # a path alone: its .pth files are not read
    start = f"import sys; sys.path[:0] = [{str(place)!r}, {site!r}];"
    command = [sys.executable, "-I", "-S", "-c", f"{start} {arguments[0]}", *arguments[1:]]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, timeout=120)


def test_a_students_environment_has_no_grader(installed: dict[str, Path]):
    place = installed["across-tensorflow"]
    assert [path for path in place.rglob("*") if "autograder" in path.name] == []
    assert "No module named 'autograder'" in run(place, "import autograder").stderr
    (listed,) = place.glob("across_tensorflow-*.dist-info/METADATA")
    assert "autograder" not in listed.read_text()


@pytest.mark.whole
def test_a_students_environment_has_the_command_and_what_cells_import(installed: dict[str, Path]):
    place = installed["across-tensorflow"]
    helped = run(place, "from across.cli import main; main()", "--help")
    assert (helped.returncode, "doctor" in helped.stdout) == (0, True), helped.stderr
    needed = sorted({module for tree in sources("solutions").values() for module in imported(tree)})
    script = f"import importlib; [importlib.import_module(name) for name in {needed!r}]; import across; print(across.__file__)"
    done = run(place, script)
    assert done.stdout.strip() == str(place / "across" / "__init__.py"), done.stderr


def test_a_graders_environment_has_the_command_and_nothing_that_decides_a_mark_of_this_course(
    installed: dict[str, Path],
):
    place = installed["across-autograder"]
    helped = run(place, "from autograder.commands.cli import main; main()", "--help")
    assert (helped.returncode, "grade" in helped.stdout) == (0, True), helped.stderr
    kept = {path.name for where in ("checks/test_*", "checks/listed_*", "solutions/*") for path in ROOT.glob(where)}
    assert {"test_01_gpu_setup.py", "listed_01_gpu_setup.toml", "01_gpu_setup.py"} <= kept
    assert kept & {path.name for path in place.rglob("*") if path.is_file()} == set()


def test_both_commands_and_the_kernels_plug_in_are_there():
    assert PROJECTS["across-tensorflow"]["scripts"] == {"across": "across.cli:main"}
    assert PROJECTS["across-autograder"]["scripts"] == {"autograder": "autograder.commands.cli:main"}
    assert PROJECTS["across-tensorflow"]["entry-points"]["jupyter_client.kernel_provisioners"]
