"""The digest of a program is another one when its code is, or that of a function that it calls; a comment is no code."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from across._process.sources import digest, sources

PROGRAM = """
import numpy as np
LIMIT = 2
SHAPES = [(1, 2)]
TABLE = np.arange(3)

def helper(n):
    return n + LIMIT

def program(n, more=1):
    return [helper(each) for each in range(n)], SHAPES, TABLE, more
"""


@pytest.fixture
def of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """The digest of `program` in a module of that text."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    count = iter(range(100))

    def made(text: str) -> str:
        path = tmp_path / f"module_{next(count)}.py"
        path.write_text(text)
        scope: dict[str, Any] = {"__name__": "cell"}
        exec(compile(text, str(path), "exec"), scope)
        return digest(*sources(scope["program"]))

    return made


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    return n + LIMIT", "    # a comment\n    return n + LIMIT  # and another"),
        ("return n + LIMIT", "return (n +\n        LIMIT)"),
        ("def helper", "\n\n\ndef helper"),
        ("LIMIT = 2", "LIMIT = 2\nOTHER = 3"),
    ],
)
def test_what_is_no_code_changes_nothing(of, old, new):
    assert of(PROGRAM.replace(old, new)) == of(PROGRAM)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("n + LIMIT", "n + 0 + LIMIT"),
        ("LIMIT = 2", "LIMIT = 3"),
        ("[(1, 2)]", "[(1, 3)]"),
        ("arange(3)", "arange(4)"),
        ("more=1", "more=2"),
        ("range(n)", "range(n + 1)"),
        ("def helper", "@functools.cache\ndef helper"),
    ],
)
def test_other_code_of_it_or_of_a_helper_makes_it_another(of, old, new):
    text = "import functools\n" + PROGRAM
    assert of(text.replace(old, new)) != of(text)


def test_a_wrapped_helper_is_followed(of):
    text = "import functools\n" + PROGRAM.replace("def helper", "@functools.cache\ndef helper")
    assert of(text) != of(text.replace("n + LIMIT", "n - LIMIT"))


def test_functions_without_source_are_told_apart_by_their_code():
    def made(text: str) -> str:
        scope: dict[str, Any] = {"__name__": "cell"}
        exec(text, scope)
        return digest(*sources(scope["program"]))

    double = made("def program(n): return n * 2")
    assert double == made("def program(n): return n * 2")
    assert double != made("def program(n): return n * 3")
    assert made("program = lambda n: n * 2") != made("program = lambda n: n * 3")


def test_what_a_function_encloses_counts():
    def enclosing(by: int) -> Callable[[int], int]:
        def program(n: int) -> int:
            return n * by

        return program

    assert digest(*sources(enclosing(2))) == digest(*sources(enclosing(2))) != digest(*sources(enclosing(3)))
    assert sources(functools.wraps(enclosing(2))(lambda n: n)) == sources(enclosing(2))


def test_the_name_of_an_attribute_is_no_global(of):
    text = "step = 1\nlimit = 1\ndef program(x):\n    return x.step() + limit"
    assert of(text) == of(text.replace("step = 1", "step = {2: 3}"))
    assert of(text) != of(text.replace("limit = 1", "limit = 2"))


def test_a_function_that_calls_itself_is_read_once():
    def program(n: int) -> int:
        return program(n - 1) if n else 0

    assert digest(*sources(program)) == digest(*sources(program))


def test_another_process_finds_the_same_digest():
    text = "def program(n): return n in {'a', 'b', 'c', 'd'}"
    command = f"scope = {{}}; exec({text!r}, scope); print(digest(*sources(scope['program'])))"
    command = f"from across._process.sources import digest, sources; {command}"
    found = {
        subprocess.run(
            [sys.executable, "-c", command], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in "12"
    }
    assert len(found) == 1
