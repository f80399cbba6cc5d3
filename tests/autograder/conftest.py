"""A small course that all modules here share, with the warm servers that grade it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import courses
import pytest
from boxed import inside, root_only
from small_course import CHECKS, NAME, RIGHT, SOURCE

from autograder.model.course import Course
from autograder.sandbox import boxes, bubblewrap


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """A course of one small chapter. Its warm servers live as long as the session: whoever changes it takes `own_small`."""
    course = courses.write(tmp_path_factory.mktemp("course"), NAME, SOURCE, CHECKS)
    courses.SHARED.add(course.root)
    return course


@pytest.fixture
def own_small(tmp_path: Path) -> Course:
    """One like it for tests that change it."""
    return courses.write(tmp_path / "course", NAME, SOURCE, CHECKS)


@pytest.fixture(autouse=True)
def servers_of_a_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """The warm servers of a course in a test's own folder end with the test."""
    yield
    if folder := request.node.funcargs.get("tmp_path"):
        courses.close(folder)


@pytest.fixture(autouse=True, scope="module")
def servers_of_a_module() -> Iterator[None]:
    """Those of a module's own courses end with the module."""
    yield
    courses.close()


@pytest.fixture
def hand_in(small: Course, tmp_path: Path) -> Callable[..., Path]:
    """Write a student's notebook; returns the folder of submissions."""
    folder = tmp_path / "submissions"

    def write(student: str, answers: dict[str, str] = RIGHT) -> Path:
        return courses.hand_in(folder, student, NAME, courses.answered(small, NAME, answers))

    return write


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """Have boxes show a folder in `tmp_path` as well."""
    for folder in (tmp_path, *list(tmp_path.parents)[:2]):
        folder.chmod(0o755)

    def show(folder: Path) -> None:
        before = bubblewrap.shown()
        monkeypatch.setattr(bubblewrap, "shown", lambda: [*before, str(folder)])
        bubblewrap.fixed.cache_clear()

    yield show
    bubblewrap.fixed.cache_clear()


@pytest.fixture
def as_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[], object]], object]]:
    """Run a function as an ordinary user without control groups; its value (JSON)."""
    monkeypatch.setattr(bubblewrap, "shown", lambda: [])  # the interpreter of this run may lie in root's home
    monkeypatch.setattr(boxes, "workroom", lambda: tmp_path)
    bubblewrap.fixed.cache_clear()
    for folder in (tmp_path, *tmp_path.parents):
        if folder.name.startswith(("pytest-", "popen-")) or folder in (tmp_path, tmp_path.parent):
            folder.chmod(0o777)

    def run(function: Callable[[], object]) -> object:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.setgroups([])
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
                os.write(write, json.dumps(function()).encode())
            except BaseException as error:
                os.write(write, json.dumps(repr(error)).encode())
            finally:
                os._exit(0)
        os.close(write)
        os.waitpid(child, 0)
        with open(read) as answer:
            return json.loads(answer.read())

    yield run
    bubblewrap.fixed.cache_clear()


@pytest.fixture(params=["here", pytest.param("nobody", marks=root_only)])
def in_each_box(request: pytest.FixtureRequest) -> Callable[..., list[object]]:
    """Run a function in a box of who runs the tests, and in an ordinary user's; its value (JSON) and the exit code."""
    if request.param == "here":
        return lambda *what: list(inside(*what)[:2])
    as_nobody = request.getfixturevalue("as_nobody")
    return lambda *what: as_nobody(lambda: inside(*what)[:2])
