"""What CI counts as a failure: a test that is skipped for want of something that CI must have."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parent / "conftest.py"
TOOLS = CONFTEST.parent.parent / "tools"  # which the conftest imports from
TESTS = """
import os
import pytest

@pytest.mark.skipif(True, reason="bubblewrap is missing: install it")
def test_of_the_sandbox():
    pass

def test_in_a_browser():
    pytest.skip("no chromium with chromedriver here")

@pytest.fixture
def server():
    pytest.skip("no PostgreSQL server here")

def test_of_a_database(server):
    pass

def test_of_an_old_tensorflow():
    pytest.skip("its environment is missing: uv run across prepare 13")

@pytest.mark.gpu
def test_on_a_card():
    pytest.skip("TensorFlow sees no GPU on this machine")

@pytest.mark.skipif(True, reason="only root can become an ordinary user for this test")
def test_of_root():
    pass

@pytest.mark.xfail
def test_expected_to_fail():
    assert False

def test_that_runs():
    pass
"""
WHOLE_FILES = {
    "test_none.py": "import pytest\npytest.importorskip('no_such_package')\n",
    "test_selenium.py": "raise ModuleNotFoundError(\"No module named 'selenium'\", name='selenium')\n",
}


@pytest.fixture
def run(tmp_path: Path):
    """Run pytest on files of `TESTS` and `WHOLE_FILES` with the options given; the exit code and what it printed."""
    shutil.copy(CONFTEST, tmp_path)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\naddopts = -rA\nmarkers = gpu\npythonpath = {TOOLS}\n")
    for name, content in {"test_some.py": TESTS, **WHOLE_FILES}.items():
        (tmp_path / name).write_text(content)

    def run(*options: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
        return done.returncode, done.stdout

    return run


def test_on_a_developers_machine_what_is_missing_is_skipped_with_the_mend(run):
    code, printed = run()
    assert (code, "1 passed, 8 skipped, 1 xfailed" in printed) == (0, True), printed
    assert "selenium is not installed: uv sync --group ci" in printed


def test_in_ci_it_fails_and_says_what_is_missing(run):
    code, printed = run("--nothing-missing", "test_some.py")
    assert code == 1
    assert "1 passed, 2 skipped, 1 xfailed" in printed, printed
    for name, why in (
        ("test_of_the_sandbox", "bubblewrap is missing: install it"),
        ("test_in_a_browser", "no chromium with chromedriver here"),
        ("test_of_a_database", "no PostgreSQL server here"),
        ("test_of_an_old_tensorflow", "its environment is missing"),
    ):
        assert f"--nothing-missing: test_some.py::{name} was skipped: {why}" in printed


def test_before_anything_is_prepared_what_that_installs_may_be_skipped_too(run):
    code, printed = run("--nothing-prepared", "test_some.py")
    assert (code, "1 passed, 3 skipped, 1 xfailed" in printed) == (1, True), printed
    assert "test_some.py::test_of_the_sandbox was skipped: bubblewrap is missing" in printed


def test_in_ci_a_file_that_skips_as_a_whole_fails_too(run):
    code, printed = run("--nothing-missing", *WHOLE_FILES)
    assert code == 2
    assert "--nothing-missing: test_none.py was skipped: could not import 'no_such_package'" in printed, printed
    assert "--nothing-missing: test_selenium.py was skipped: selenium is not installed" in printed, printed


def test_a_file_that_imports_what_there_is_nowhere_is_skipped_nowhere(run, tmp_path):
    (tmp_path / "test_none.py").write_text("import no_such_package\n")
    code, printed = run("test_none.py")
    assert (code, "No module named 'no_such_package'" in printed) == (2, True), printed
