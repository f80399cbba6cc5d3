"""The trusted side: a warm server with one chapter's checks, collected, and what they import; its child runs them.

Served by `across._process.warm`, prepared with the course and the chapter. A child either tells the plan, which is every test
that there is, or steps into a box of its own, holds one end of the student's socketpair and runs tests: it says which one
begins, and what became of it as soon as it has ended.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import socket
import sys
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from across._process import pristine
from autograder.gpu import simulated
from autograder.job import messages
from autograder.model import digests, test_cells
from autograder.model.course import Course, CourseError
from autograder.model.rubric import InBox, PlannedTest
from autograder.model.verdict import ASSERT, REFUSED, Lost
from autograder.probe import asking, listed, nbgrader_cells, wire
from autograder.probe.listed import Variant
from autograder.sandbox import entering

SAYS = 600  # characters of a message
STARTS = 60.0  # seconds until a peer is there
LOST = (  # how a kernel is lost; the last one holds for all others
    (Lost.DEADLINE, wire.DeadlineError),
    (Lost.DIED, wire.DiedError),
    (Lost.SIZE, wire.TooBigError),
    (Lost.PROTOCOL, wire.WireError),
)
TENSORFLOW = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_ENABLE_ONEDNN_OPTS": "0",  # with it a process's first op goes through all kernels, for 20 ms,
    "TENSORFLOW_USE_CUSTOM_CONTRACTION_KERNEL": "0",  # and with this one its first product compiles its own
}


class Job:
    """What the fixtures of the running job give: set in the forked child."""

    student: asking.Student
    wanted: Callable[[str], asking.Student]  # a new peer or life: see `peers`
    seed: int = 0


JOB = Job()


@pytest.fixture
def student() -> asking.Student:
    """The student's kernel: `student.ask(probe, **inputs)`."""
    return JOB.student


@pytest.fixture
def peer() -> asking.Student:
    """A process in the box's network in which no student's code ever ran: `peer.ask(probe, **inputs)`. See `peers`."""
    return JOB.wanted("peer")


@pytest.fixture
def lives() -> Callable[[], asking.Student]:
    """Each call makes a process of its own in which the notebook's cells have run, to be asked like the kernel. See `peers`."""
    return lambda: JOB.wanted("life")


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Fresh inputs: drawn from the job's seed and the test's own name, so that tests do not depend on each other."""
    return np.random.default_rng([JOB.seed, zlib.crc32(request.node.name.encode())])


class Outcomes:
    """A pytest plugin: tells of every test when it begins and ends, and stops when the student's kernel is gone."""

    def __init__(self) -> None:
        self.connection: socket.socket | None = None
        self.known: list[Variant] = []  # the answers that the chapter's author has listed
        self.numbers: dict[str, int] = {}  # node id -> the test's place in the plan

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Say which test begins."""
        self._send(messages.TestBegins(self.numbers[nodeid]))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Function, call: pytest.CallInfo[None]) -> Any:
        """Send the outcome of the test's call, or of whatever part of it went wrong."""
        report = yield
        if report.when == "call" or not report.passed:
            error = call.excinfo.value if call.excinfo else None
            self._tell(item, report.outcome, error)
            if isinstance(error, wire.WireError):
                item.session.shouldstop = "the student's kernel is gone"
        return report

    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Collector:
        """Take folders as folders: a package would be imported by the first test, in a box where it does not exist."""
        return pytest.Dir.from_parent(parent, path=path)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Raise the author's fault that keeps a check file from being read."""
        if report.failed:
            raise CourseError(f"{report.nodeid}: {str(report.longrepr)[-2000:]}")

    def _tell(self, item: pytest.Function, outcome: str, error: BaseException | None) -> None:
        kind, says = _explained(item, error)
        exercise = item.function.exercise  # type: ignore[attr-defined]
        self._send(
            messages.TestEnds(
                test=self.numbers[item.nodeid],
                passed=outcome == "passed" and error is None,
                kind=_sendable(kind),
                says=_sendable(says),
                misconception=asking.misconception(self.known, exercise, error, says),
                share=error.share if isinstance(error, nbgrader_cells.Partial) else 0.0,
            )
        )

    def on_question(self, asks: bool, graph: bool) -> None:
        """Say who is waited for: the student, or the check."""
        self._send(messages.Asks() if asks else messages.Answered(graph))

    def _send(self, message: messages.FromChecker) -> None:
        if self.connection is not None:
            self.connection.send(messages.written(message))


def _explained(item: pytest.Function, error: BaseException | None) -> tuple[str, str]:
    """What kind of failure it was, and the sentence for the student: only what an author wrote to be read."""
    if error is None:
        return "", ""
    for kind, raised in LOST:
        if isinstance(error, raised):
            return kind, str(error)[:SAYS]
    text = str(error).split("\n")[0][:SAYS].strip()
    if isinstance(error, asking.Refused):
        return REFUSED, text
    if isinstance(error, AssertionError) and text and not text.startswith("assert "):
        return ASSERT, text
    promise = item.name.split("[")[0].removeprefix("test_").replace("_", " ")
    kind = ASSERT if isinstance(error, AssertionError) else f"{type(error).__name__}: {text}"
    return kind, f"Not yet: {promise}."


def _sendable(text: str) -> str:
    """A text without halves of surrogate pairs, which UTF-8 has none of."""
    return text.encode(errors="backslashreplace").decode()


OUTCOMES = Outcomes()


def collect(course: Course, chapter: str) -> tuple[pytest.Config, pytest.Session]:
    """Return a pytest session with the chapter's checks collected, not run. Raises CourseError."""
    from _pytest.config import _prepareconfig
    from _pytest.main import Session

    file = course.check_file(chapter)
    source = course.source(chapter)
    nbgrader_cells.COLLECTED.file = file.name
    nbgrader_cells.COLLECTED.cells = test_cells.read(source) if source.suffix == ".ipynb" else ()
    off = "cacheprovider terminal faulthandler tmpdir warnings junitxml logging".split()
    arguments = [part for name in off for part in ("-p", f"no:{name}")]
    arguments += ["--disable-plugin-autoload"]  # what else this environment holds, and may shuffle tests or stop them
    arguments += ["--assert=plain"]  # nobody reads how two texts differ, and 16 MiB of them take long to compare
    arguments += ["--capture=no", "-c", os.devnull, "--rootdir", str(file.parent), str(file)]
    config = _prepareconfig(arguments, [OUTCOMES, sys.modules[__name__]])
    config._do_configure()
    session = Session.from_config(config)
    config.hook.pytest_sessionstart(session=session)
    session.perform_collect()
    unmarked = [item.name for item in session.items if not hasattr(item.function, "exercise")]  # type: ignore[attr-defined]
    if unmarked:
        raise CourseError(f"{file.name}: {unmarked[0]} has no @exercise(name)")
    known = {exercise.name for exercise in course.chapter(chapter).exercises if not exercise.manual}
    checked = {item.function.exercise for item in session.items}  # type: ignore[attr-defined]
    if without := sorted(known - checked):
        raise CourseError(f'{file.name}: no check is of {", ".join(without)}; add one, @exercise("{without[0]}")')
    if strangers := sorted(checked - known):
        raise CourseError(f"{file.name}: {', '.join(strangers)}: no exercise of {chapter} that is graded by checks")
    names = [item.name for item in session.items]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise CourseError(f"{file.name}: two tests are called {twice[0]}; rename one")
    for each in sorted(checked):
        tests = [item.function for item in session.items if item.function.exercise == each]  # type: ignore[attr-defined]
        weak = sum(test.weight for test in tests if getattr(test, "weak", False))
        if weak > (whole := sum(test.weight for test in tests)) / 2:
            raise CourseError(
                f'{file.name}, exercise "{each}": weak tests have {weak / whole:.0%} of its points, and may have half; see '
                "docs/security.md"
            )
    OUTCOMES.numbers = {item.nodeid: number for number, item in enumerate(session.items)}
    OUTCOMES.known = listed.variants(course.listed_file(chapter))
    config.option.tbstyle = "no"  # nobody reads pytest's picture of a failure, and to find its source takes 20 ms
    return config, session


def preload(names: Sequence[str]) -> None:
    """Import what checks of a course that preloads the modules `names` use without importing it, before they are collected.

    No op of TensorFlow's is run: after one, forked children hang.
    """
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    for name in ("numpy.random", "numpy.testing"):
        importlib.import_module(name)
    if "tensorflow" not in names:
        return
    os.environ.update(TENSORFLOW)
    # Keras would import it, for pictures that no check draws: 0.4 s of the server's start
    sys.modules.setdefault("matplotlib", None)  # type: ignore[arg-type]
    import tensorflow as tf

    if sys.modules["matplotlib"] is None:
        del sys.modules["matplotlib"]
    for lazy in ("Session", "RunMetadata"):
        getattr(tf.compat.v1, lazy)
    for name in ("tensorflow.core.framework.graph_pb2", "tensorflow.python.client.session", "across.placement"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def simulate(count: int) -> None:
    """Have `count` simulated GPUs in this process and in those that it starts. Raises NoGpu."""
    if count:
        from across import devices

        del os.environ["CUDA_VISIBLE_DEVICES"]
        os.environ.update(simulated.environment(count))
        devices.gpus(count)


CONFIG: pytest.Config
SESSION: pytest.Session
PLAN = messages.Plan()


def prepare(dumped: str, chapter: str) -> None:
    """Collect the checks of a chapter of a course (`Course.dumps`), and keep what a child is to tell of them."""
    global CONFIG, SESSION, PLAN
    course = Course.loads(dumped)
    preload(course.preload)
    read = digests.of_checks(course.check_sources(chapter))
    try:
        CONFIG, SESSION = collect(course, chapter)
        machine = simulated.prepare() if course.chapter(chapter).gpus else ""
    except CourseError as error:
        PLAN = messages.Plan(author=str(error))
        return
    if "across.fresh" in sys.modules:  # it runs processes that have TensorFlow: see `child`
        importlib.import_module("across._process.fresh_child")
    PLAN = messages.Plan(tests=[_planned(item) for item in SESSION.items], checks=read, machine=machine)  # type: ignore[arg-type]


def _planned(item: pytest.Function) -> PlannedTest:
    function: Any = item.function
    cell = getattr(function, "cell", None)  # of a test cell of nbgrader's
    in_box = cell and InBox(cell.grade_id, cell.uses, cell.binds)
    return PlannedTest(function.exercise, item.name, function.weight, in_box, getattr(function, "weak", False))


def before(message: dict[str, Any]) -> Callable[[], None]:
    """See `entering.before`."""
    return entering.before(message["box"]) if "box" in message else lambda: None


def child(message: dict[str, Any], fds: list[int], connection: socket.socket) -> None:
    """Tell the plan; or run the tests that `message` names against the kernel at the other end of fds[0]."""
    if "box" not in message:
        connection.send(messages.written(PLAN))
        return
    request: messages.RunTests = messages.received(message, messages.RunTests)
    questions, handed = fds
    entering.hold([questions, handed, connection.fileno()])
    entering.enter(request.box)
    entering.hush()
    os.chdir("/tmp")
    if fresh_child := sys.modules.get(
        "across._process.fresh_child"
    ):  # the checks use it: 5 ms that others need not pay
        pristine.leave(fresh_child)
    simulate(request.gpus)
    channel = asking.by_socket(socket.socket(fileno=questions), request.allowed_ops)
    OUTCOMES.connection = connection
    JOB.wanted = partial(_wanted, connection, socket.socket(fileno=handed), request)
    JOB.seed = request.seed
    JOB.student = asking.Student(channel, request.deadline, request.cap, OUTCOMES.on_question)
    nbgrader_cells.COLLECTED.keep = request.keep
    SESSION.items[:] = [SESSION.items[number] for number in request.tests]
    if SESSION.items:
        CONFIG.hook.pytest_runtestloop(session=SESSION)


def _wanted(connection: socket.socket, handed: socket.socket, request: messages.RunTests, kind: str) -> asking.Student:
    """Have the worker make a process of a kind: see `peers`. Raises wire.WireError where none comes that answers."""
    connection.send(messages.written(messages.Wants(kind)))
    handed.settimeout(STARTS)
    with wire.lost():
        descriptors = socket.recv_fds(handed, 1, 1)[1]
    if not descriptors:
        raise wire.DiedError(f"no {kind} came")
    channel = socket.socket(fileno=descriptors[0])
    limits = (request.deadline, request.cap, OUTCOMES.on_question)
    return asking.beside(channel, kind, request.allowed_ops, *limits)
