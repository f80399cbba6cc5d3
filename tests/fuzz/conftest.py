"""The tiny chapter of tests/autograder is the fuzz tests' too; what fails says from which seed its examples were drawn."""

import sys
from collections.abc import Generator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent.parent / "autograder"))

from fuzzing import SEED


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Name the seed beside a failure."""
    report = yield
    if report.failed and item.path.parent == Path(__file__).parent:
        again = f"ACROSS_FUZZ_SEED={SEED} uv run pytest '{item.nodeid}'"
        report.sections.append(("fuzz", f"the same examples again: {again}"))
    return report
