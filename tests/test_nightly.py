"""nightly.yml: each test marked slow is in one of its parts, whatever a part names is there, and none may take an hour."""

from __future__ import annotations

import ast
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from autograder.model.course import find

ROOT = Path(__file__).resolve().parent.parent
JOB = yaml.safe_load((ROOT / ".github" / "workflows" / "nightly.yml").read_text())["jobs"]["slow"]
CHAPTERS = find().chapters
SLOW = re.compile(r"mark\.slow\b|^from kinds import", re.MULTILINE)


@dataclass(frozen=True)
class Part:
    """What one part runs."""

    name: str
    words: tuple[str, ...]

    @property
    def slow(self) -> bool:
        return "-m slow" in " ".join(self.words)

    @property
    def paths(self) -> list[str]:
        """The files and folders of tests, but for one that is ignored."""
        return [word for at, word in enumerate(self.words) if word[:6] == "tests/" and self.words[at - 1] != "--ignore"]

    @property
    def chosen(self) -> list[str]:
        """One of these is in the name of each test that it runs; empty: it runs all."""
        return self.words[self.words.index("-k") + 1].split(" or ") if "-k" in self.words else []

    def has(self, file: str) -> bool:
        ignored = "--ignore" in self.words and self.words[self.words.index("--ignore") + 1] == file
        return self.slow and not ignored and any(file == path or file.startswith(f"{path}/") for path in self.paths)


PARTS = [Part(each["part"], tuple(shlex.split(each["run"]))) for each in JOB["strategy"]["matrix"]["include"]]


def slow(file: Path) -> dict[str, str]:
    """The tests of a file that are, or may be, marked slow: their names, and the source of their marks."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    every = any("mark.slow" in ast.unparse(each) for each in tree.body if isinstance(each, ast.Assign))
    found = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef) and each.name.startswith("test_")]
    marks = {each.name: "\n".join(map(ast.unparse, each.decorator_list)) for each in found}
    return {name: said for name, said in marks.items() if every or "mark.slow" in said}


def test_every_file_with_a_slow_test_is_in_a_part():
    files = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)]
    marked = [file for file in files if SLOW.search((ROOT / file).read_text(encoding="utf-8"))]
    assert len(marked) > 20
    assert [file for file in marked if not any(part.has(file) for part in PARTS)] == []


@pytest.mark.parametrize("file", sorted({path for part in PARTS if part.chosen for path in part.paths}))
def test_of_a_file_that_is_several_parts_no_slow_test_is_left_out(file: str):
    chosen = [term for part in PARTS if part.has(file) for term in part.chosen]
    assert [name for name in CHAPTERS if sum(term in name for term in chosen) != 1] == []
    for name, marks in slow(ROOT / file).items():
        assert "find().chapters" in marks or any(term in name for term in chosen), name


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_what_a_part_runs_is_there(part: Part):
    assert [path for path in part.paths if not (ROOT / path).exists()] == []
    assert part.paths
    assert re.search(r"\buv run (--no-sync )?pytest --nothing-missing ", " ".join(part.words))


def test_parts_have_names_of_their_own_and_end_within_an_hour():
    assert len({part.name for part in PARTS}) == len(PARTS)
    assert JOB["timeout-minutes"] <= 60
