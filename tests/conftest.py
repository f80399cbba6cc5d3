"""The option with which CI runs the tests: what cannot run for want of a sandbox, a browser or a server fails there.

A skipped test of the sandbox would hide everything that it holds.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from across._process import bytecode

if TYPE_CHECKING:
    from autograder.model.course import Course  # seconds to import: not for a run that has no test of it

bytecode.keep()  # hundreds of processes import TensorFlow

collect_ignore = ["course"]  # the fixture course's checks: a checker runs these
ATTACKS = Path(__file__).parent / "attacks"
BY_CHAPTER = ("/test_checks.py", "/test_validating_chapters.py")
LONGEST = (  # scopes, the longest first; one that is no longer among them costs seconds and no test
    *("browser", "tests/test_student_page.py", "06_control_dependencies", "03_device_placement", "11_strategies"),
    *("tests/autograder/test_export.py", "tests/autograder/test_engine.py", "tests/lib/test_simulated_gpu.py"),
)
OPTION = "--nothing-missing"
UNPREPARED = "--nothing-prepared"
OF_CI = ("distributed", "selenium")  # modules that files of tests import and only the group `ci` brings
PREPARED = re.compile(r"uv run across prepare \d+$")  # what such a skip asks for
MAY_SKIP = re.compile(
    "|".join(
        (
            "only root can",  # an ordinary user runs the rest, and another machine of CI is root's
            "an ordinary user's boxes have but his own number",
            "no control groups (here|may be made here)",  # to an ordinary user; boxes have a watcher then, tested too
            "this user may not make",  # a mount namespace of the test's own
            "a matter of x86_64|has no such call|no 32-bit system calls",
            "libseccomp is not here to compare with",
            "no device file here",
        )
    )
)


@pytest.fixture(autouse=True)
def interruptible() -> None:
    """An interrupt is a KeyboardInterrupt, whatever a shell made of it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def own_environment() -> Iterator[None]:
    """What a test, or what it runs in this process, sets in the environment, the next one does not find."""
    before = dict(os.environ)
    yield
    if dict(os.environ) != before:
        os.environ.clear()
        os.environ.update(before)


_CACHE = tempfile.TemporaryDirectory(prefix="across-tests-")
os.environ.setdefault("ACROSS_CACHE", _CACHE.name)  # the user's own says nothing here, and learns nothing


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    said = "fail what would be skipped: but for gpu, and what another machine or user shows"
    parser.addoption(OPTION, action="store_true", help=said)
    parser.addoption(
        UNPREPARED, action="store_true", help=f"the same, but for what `across prepare` installs ({OPTION} later)"
    )


def reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Why a test, or a whole file, was skipped."""
    return report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that skips, where nothing may be missing."""
    report = yield
    expected = hasattr(report, "wasxfail") or item.get_closest_marker("gpu")
    if report.skipped and not expected and _missing(item.config, reason(report)):
        report.outcome, report.longrepr = "failed", f"{OPTION}: {item.nodeid} was {_lower(reason(report))}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, pytest.CollectReport]:
    """Fail a file that skips as a whole, where nothing may be missing."""
    report = yield
    if report.skipped and _missing(collector.config, reason(report)):
        report.outcome, report.longrepr = "failed", f"{OPTION}: {collector.nodeid} was {_lower(reason(report))}"
    return report


class File(pytest.Module):
    """A file of tests. Where one imports what only the group `ci` installs, and it is not here, the file is skipped."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """What is in it."""
        try:
            return super().collect()
        except self.CollectError as error:
            name = getattr(error.__cause__, "name", None) or ""
            if name.partition(".")[0] in OF_CI:
                pytest.skip(f"{name} is not installed: uv sync --group ci", allow_module_level=True)
            raise


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The corpus of attacks takes seconds to read, and all of its tests are `classes`."""
    return True if collection_path == ATTACKS and "not classes" in config.option.markexpr else None


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> File:
    """Every file of tests is a `File`."""
    return File.from_parent(parent, path=module_path)


def _missing(config: pytest.Config, why: str) -> bool:
    """Whether a test is skipped for want of something that has to be there."""
    if config.getoption(UNPREPARED) and PREPARED.search(why):
        return False
    return (config.getoption(OPTION) or config.getoption(UNPREPARED)) and not MAY_SKIP.search(why)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def scope(nodeid: str) -> str:
    """What is one worker's, so that what fixtures start is started once: a file, a chapter, all that has the browser."""
    file, _, test = nodeid.partition("::")
    chapter = re.search(r"\[(\d\d_\w+)", test) if file.endswith(BY_CHAPTER) else None
    return chapter[1] if chapter else "browser" if "/browser/" in file else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Hand out tests by `scope`, in the order of `pytest_collection_modifyitems`.

    Not by xdist's own mark of a group: xdist 3.8 writes it into an id that pytest 9.2 has elsewhere, and nothing is grouped.
    """
    from xdist.scheduler.loadscope import LoadScopeScheduling

    class ByWhatIsStarted(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope(nodeid)

    config.option.loadscopereorder = (
        False  # by the number of tests: a chapter's nine take longer than hundreds of others
    )
    return ByWhatIsStarted(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is slow unless the command asks for it: so `-m classes` is what tools/parts.py runs.

    Workers begin with what takes longest: begun last, one would still be at it while the others have nothing left.
    """
    if "slow" not in config.option.markexpr:
        slow = [item for item in items if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]
    if hasattr(config, "workerinput"):
        tests = Counter(scope(item.nodeid) for item in items)
        others = [name for name, _ in tests.most_common() if name not in LONGEST]
        turn = {name: number for number, name in enumerate([*LONGEST, *others])}
        items.sort(key=lambda item: turn[scope(item.nodeid)])


@pytest.fixture(scope="session")
def fixture_course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """A copy of tests/course with its notebooks, for all tests of a session: whoever changes it takes a copy."""
    import fixture

    return fixture.build_into(tmp_path_factory.mktemp("fixture") / "course")


@pytest.fixture(scope="module")
def warm_kernels() -> Iterator[None]:
    """Kernels as `across lab` has them."""
    from jupyter_client.provisioning.factory import KernelProvisionerFactory

    from across._process import provisioner

    factory = KernelProvisionerFactory.instance()
    before, env = factory.default_provisioner_name, dict(os.environ)
    provisioner.turn_on()
    yield
    provisioner.turn_off()
    factory.default_provisioner_name = before
    os.environ.clear()
    os.environ.update(env)


@pytest.fixture(scope="session", autouse=True)
def warm_servers_of_the_session() -> Iterator[None]:
    """What tests have started to grade by lives as long as the session: modules that grade one course share it."""
    yield
    if "autograder.job.forkserver" in sys.modules:
        sys.modules["autograder.job.forkserver"].close()
