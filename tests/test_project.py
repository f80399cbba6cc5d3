"""What holds the project together: equal pins, floors that import downwards only, files that say nothing they must not."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def modules(package: str) -> dict[str, Path]:
    """The modules of a package: dotted name to file."""
    folder = ROOT / package
    return {
        ".".join([folder.name, *path.relative_to(folder).with_suffix("").parts]): path for path in folder.rglob("*.py")
    }


def imports(path: Path) -> Iterator[str]:
    """What a module imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def known(name: str, among: dict[str, Path]) -> str | None:
    """The module of `among` that an import of `name` needs: of `a.course.Limits` it is `a.course`."""
    while name and name not in among:
        name = name.rpartition(".")[0]
    return name or None


def room(name: str) -> str:
    """The package that a module is in, `autograder.job` of `autograder.job.check`; one outside of all is its own."""
    parts = name.split(".")
    return ".".join(parts[:2]) if len(parts) > 2 else name


def tracked() -> list[Path]:
    """The files that git has or would take; outside a git checkout all but hidden ones and what tools generate."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    if listed.returncode == 0:
        return [path for name in listed.stdout.splitlines() if (path := ROOT / name).is_file()]
    found = [path for path in ROOT.rglob("*") if path.is_file()]
    return [
        path
        for path in found
        if not any(part[0] == "." or part == "__pycache__" for part in path.relative_to(ROOT).parts)
    ]


def test_conda_and_pip_users_get_the_same_pins():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    by_pip: list[str] = next(entry["pip"] for entry in environment if isinstance(entry, dict))
    assert sorted(by_pip) == sorted(["-e ./lib[lab]", "-e ./autograder", *PYPROJECT["dependency-groups"]["dev"]])
    assert f"python{PYPROJECT['project']['requires-python']}" in environment


def test_the_students_library_knows_nothing_of_grading():
    guilty = {
        name: found for name, path in modules("lib/across").items() for found in imports(path) if "autograder" in found
    }
    assert guilty == {}


@pytest.mark.parametrize("package", ["lib/across", "autograder"])
@pytest.mark.parametrize("part", [str, room], ids=["modules", "rooms"])
def test_modules_and_rooms_import_downwards_only(package: str, part: Callable[[str], str]):
    """No circle, also counting imports inside functions and those for types only."""
    among = modules(package)
    graph: dict[str, set[str]] = {part(name): set() for name in among}
    for name, path in among.items():
        needs = {part(need) for found in imports(path) if (need := known(found, among))}
        graph[part(name)] |= needs - {part(name)}
    assert len(list(TopologicalSorter(graph).static_order())) == len(graph)  # a circle raises CycleError


def test_rooms_import_from_those_below_them_in_the_table_alone():
    """The table of docs/architecture.md has the rooms of the harness, from the commands down to values."""
    among = modules("autograder")
    table = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/architecture.md").read_text(encoding="utf-8"), re.MULTILINE)
    floor = {f"autograder.{name}": number for number, name in enumerate(table)}
    needs = [(name, known(found, among)) for name, path in among.items() for found in imports(path)]
    guilty = {(name, need) for name, need in needs if need and floor.get(room(name), 0) > floor.get(room(need), 99)}
    assert guilty == set()
    assert floor.keys() == {room(name) for name in among if name.count(".") > 1}


def test_a_module_can_be_held_in_the_head():
    long = {
        name: lines
        for package in ("lib/across", "autograder")
        for name, path in modules(package).items()
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > 400
    }
    assert long == {}


def test_ci_calls_the_test_command_of_the_readme_where_nothing_is_prepared_then_the_rest_and_lets_nothing_be_missing():
    readme = (ROOT / "README.md").read_text()
    command = "uv run pytest"
    assert re.search(rf"^{command}(?:\s+#.*)?$", readme, re.MULTILINE)
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    tested = [line.split("uv run ")[1] for line in lines if "pytest" in line or "across prepare" in line.split("#")[0]]
    assert tested == [
        "--no-sync pytest --nothing-prepared --durations=50",
        "across prepare 13 # the old TensorFlow that still has the Estimator, in an environment of its own",
        'pytest --nothing-missing -n 0 -m "not slow" tests/autograder/test_estimator.py tests/test_student_page.py '
        '-k "stimator or prepare"',
    ]


def test_every_page_links_to_files_that_are_there_and_the_readme_leads_to_every_page():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    readme = pages[0].read_text()
    assert [path.name for path in pages[2:] if f"(docs/{path.name})" not in readme] == []
    for path in pages:
        page = path.relative_to(ROOT)
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
            assert (path.parent / target).exists(), f"{page} links to {target}"


def test_no_file_names_a_package_index():
    hosts = [".".join(parts) for parts in (("pypi", "org"), ("pythonhosted", "org"), ("registry", "npmjs", "org"))]
    guilty = []
    for path in tracked():
        if path.name == "uv.lock" or path.name.endswith(".py.lock"):  # what uv writes is uv's business
            continue
        text = path.read_bytes().decode("utf-8", "replace")
        guilty += [f"{path.relative_to(ROOT)}: {host}" for host in hosts if host in text]
    assert guilty == []


def test_the_dockerfile_installs_what_grading_needs_and_what_is_there():
    text = (ROOT / "Dockerfile").read_text()
    version = re.search(r"^FROM python:3\.(\d+)-", text, re.MULTILINE)
    assert version
    assert int(version[1]) in (11, 12, 13)
    wanted = set(re.search(r"--no-install-recommends ([\w +-]+?) \\", text)[1].split())
    assert (
        wanted == {"bubblewrap", "g++"} <= set(re.findall(r"packages\+=\(([\w+-]+)\)", (ROOT / ".ci/run").read_text()))
    )
    assert "--frozen" in text  # the lock's versions are what checks were verified with
    extras = re.findall(r"--extra (\w+)", text)
    assert set(extras) <= PYPROJECT["project"]["optional-dependencies"].keys()
