"""tools/parts.py: what takes long is run again where what it rests on has changed, and only there."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import parts

ROOT = Path(__file__).resolve().parents[1]
PART = parts.PARTS["classes"]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small project under git."""
    for name, text in {
        "lib/a.py": "1",
        "docs/a.md": "a page that a test follows",
        "docs/checks.md": "written by verify",
        "tests/helper.py": "2",
        "tests/test_quick.py": "def test(): ...",
        "tests/test_long.py": "@pytest.mark.classes\ndef test(): ...",
        "tests/parts.toml": "",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True, timeout=60)
    subprocess.run(["git", "add", "-A"], cwd=tmp_path, check=True, timeout=60)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "due"),
    [
        ("lib/a.py", True),
        ("lib/new.py", True),  # not yet added
        ("tests/helper.py", True),
        ("tests/test_long.py", True),
        ("tests/test_quick.py", False),
        ("tests/parts.toml", False),
        ("docs/a.md", True),
        ("docs/checks.md", False),
    ],
)
def test_a_part_is_due_where_a_file_that_it_rests_on_is_another(checkout: Path, file: str, due: bool):
    before = parts.digest(PART, checkout)
    (checkout / file).write_text("@pytest.mark.classes" if "long" in file else "other", encoding="utf-8")
    assert (parts.digest(PART, checkout) != before) is due


def test_what_has_passed_is_kept_beside_the_others(tmp_path: Path):
    record = tmp_path / "parts.toml"
    assert parts.recorded(record) == {}
    parts.keep("whole", "aa", record)
    parts.keep("browser", "bb", record)
    parts.keep("whole", "cc", record)
    assert parts.recorded(record) == {"browser": "bb", "whole": "cc"}


@pytest.mark.parametrize(("code", "meddled", "kept"), [(0, False, True), (1, False, False), (0, True, False)])
def test_only_what_passed_on_files_that_stayed_is_written_down(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, code: int, meddled: bool, kept: bool
):
    def pytested(*options: str) -> int:
        assert options == ("-n", "0", "-m", "classes")
        if meddled:
            (checkout / "lib/a.py").write_text("changed while it ran", encoding="utf-8")
        return code

    found, digest = {}, parts.digest
    before = digest(PART, checkout)
    monkeypatch.setattr(parts, "digest", lambda part: digest(part, checkout))
    monkeypatch.setattr(parts, "PARTS", {"classes": PART})
    monkeypatch.setattr(parts, "keep", found.__setitem__)
    monkeypatch.setattr(parts, "pytested", pytested)
    assert parts.run(["classes"]) == code
    assert found == ({"classes": before} if kept else {})


def test_what_takes_too_long_is_ended_and_has_not_passed(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(parts, "MINUTES", 0)
    assert parts.pytested("-n", "0", "--collect-only", __file__) == 1
    assert "not at its end after 0 minutes" in capfd.readouterr().err


def test_every_part_is_a_mark_that_the_usual_run_leaves_out_and_ci_runs_what_is_due():
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert all(f"not {name}" in options["addopts"] for name in parts.PARTS)
    assert parts.PARTS.keys() < {each.partition(":")[0] for each in options["markers"]}
    assert "uv run python tools/parts.py" in (ROOT / ".ci/run").read_text().splitlines()
    nightly = re.findall(
        r'-m "?((?:\w+ or )*\w+)"? tests/$', (ROOT / ".github/workflows/nightly.yml").read_text(), re.MULTILINE
    )
    assert parts.PARTS.keys() <= {name for said in nightly for name in said.split(" or ")}


@pytest.mark.whole
@pytest.mark.parametrize("name", parts.PARTS)
def test_a_part_rests_on_each_file_that_has_some_of_its_tests(name: str):
    """What pytest collects of a part stands in files that its digest has."""
    command = [sys.executable, "-m", "pytest", "-n", "0", "-m", name, "--collect-only", "-q", "-p", "no:cacheprovider"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    files = {line.partition("::")[0] for line in ran.stdout.splitlines() if line.startswith("tests/") and "::" in line}
    assert len(files) > 2, ran.stdout + ran.stderr
    assert [file for file in files if not parts.has_some_of(parts.PARTS[name], file, (ROOT / file).read_text())] == []
