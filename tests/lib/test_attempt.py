import asyncio
import functools
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from processes import in_a_fresh_process

from across import attempt as module
from across.attempt import Broke, NotAttempted, NotYet, Waiting, attempt, call, expect, without
from across.expecting import number


@pytest.fixture(autouse=True)
def nothing_passed_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_passed", set())


@pytest.fixture
def notebook(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., str]]:
    """Run cells in an IPython shell of their own; return what the last one showed, colours taken off."""
    shell = InteractiveShell()
    shell.run_cell("from across.attempt import attempt, expect", store_history=True)

    def run(*cells: str) -> str:
        shown = ""
        for cell in cells:
            capsys.readouterr()
            shell.run_cell(cell, store_history=True)
            shown = capsys.readouterr().out
        return shown

    yield run
    shell.history_manager.end_session()


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text).strip()


def untouched() -> None:
    raise NotImplementedError("your turn")


@pytest.mark.parametrize("holds", [True, False])
def test_what_a_check_binds_ends_with_it_and_what_an_answer_binds_stays(notebook, holds):
    answer = "calls = 0\ndef shares():\n    global calls\n    calls += 1\n    return [3, 4]"
    check = f"with attempt('shares'):\n    for shares in (shares(),):\n        got = shares\n    expect({holds}, 'no')"
    there = notebook(answer, check, "print(calls, shares(), 'got' in globals())")
    assert there == "1 [3, 4] False\n"


def test_a_bare_assert_in_the_check_is_not_yet_too():
    with pytest.raises(NotYet, match="three devices"), attempt("pick"):
        assert False, "three devices"  # noqa: B011, PT015


def calls_a_library() -> None:
    asyncio.AbstractEventLoop().run_forever()


def divide() -> float:
    return 1 / 0


@pytest.mark.parametrize(
    ("body", "kind", "says"),
    [
        (lambda: expect(False, "you saw 3"), NotYet, r"^pick: not yet\. you saw 3$"),
        (lambda: expect(np.array([True, True]), "the sentence"), NotYet, "the sentence"),
        (untouched, NotAttempted, "not attempted yet"),
        (calls_a_library, Broke, "your code raised NotImplementedError"),  # which is no stub
        (divide, Broke, r"ZeroDivisionError: division by zero — in divide, line \d+: return 1 / 0$"),
        (sys.exit, Broke, "SystemExit"),
    ],
)
def test_each_way_in_which_an_answer_does_not_pass_has_its_sentence(body, kind, says):
    with pytest.raises(kind, match=says), attempt("pick"):
        body()


def test_an_answer_that_the_check_cannot_use_is_told_apart_from_one_that_raises():
    nothing: Any = None
    with pytest.raises(Broke, match="could not use what your code returned"), attempt("pick"):
        nothing[0]


def test_what_fails_in_a_comprehension_of_the_check_is_not_called_the_students_code():
    def sizes():
        return [None]

    with pytest.raises(Broke, match=r"could not use what your code returned\. TypeError") as broke, attempt("sizes"):
        _ = [len(each) for each in sizes()]
    assert "listcomp" not in str(broke.value)


def test_an_exercise_waits_for_those_it_builds_on_also_when_one_is_broken_again():
    with pytest.raises(Waiting, match="first make `pick` pass"), attempt("round_robin", after=["pick"]):
        pytest.fail("the block ran")
    with attempt("pick"):
        pass
    with attempt("round_robin", after=["pick"]):
        pass
    assert "round_robin" in module._passed
    with pytest.raises(NotYet), attempt("pick"):
        expect(False, "broken again")
    with pytest.raises(Waiting), attempt("round_robin", after=["pick"]):
        pytest.fail("the block ran")


def test_an_interrupt_stays_an_interrupt_and_is_one_line(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    with pytest.raises(KeyboardInterrupt) as seen, attempt("pick"):
        raise KeyboardInterrupt
    assert seen.value._render_traceback_() == ["○ pick: you stopped its check."]  # as IPython asks for it


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("raise NotImplementedError('your turn')", "○ pick: not attempted yet."),
        ("return 3", "✓ pick: looks right so far"),
        ("return 4", "✗ pick: not yet. you returned 4"),
        ("return 1 / 0", "✗ pick: your code raised ZeroDivisionError"),
    ],
)
def test_a_notebook_shows_one_line_and_no_traceback(notebook, body, sentence):
    shown = notebook(
        f"def pick():\n    {body}", "with attempt('pick'):\n    expect(pick() == 3, f'you returned {pick()}')"
    )
    assert plain(shown).startswith(sentence)
    assert len(plain(shown).splitlines()) == 1


def test_a_notebook_sets_the_exercises_name_in_bold_and_in_no_colour_unless_told_not_to(notebook, monkeypatch):
    cell = "with attempt('pick'):\n    expect(False, 'no')"
    monkeypatch.setattr("IPython.get_ipython", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1m✗ pick: \x1b[0mnot yet. no" in notebook(cell)
    assert not re.search(r"\x1b\[[34]\dm", notebook(cell))
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in notebook(cell)


@in_a_fresh_process()
def test_an_error_while_tracing_names_the_students_line_and_a_stub_of_a_tf_function_is_none():
    import tensorflow as tf

    @tf.function
    def product(x):
        return tf.matmul(x, 3.0)

    with pytest.raises(Broke, match="your code raised ValueError: Shape must be rank 2") as broke, attempt("product"):
        product(tf.constant(1.0))
    assert re.search(r"in product, line \d+: return tf.matmul\(x, 3\.0\)$", str(broke.value))
    assert "user code" not in str(broke.value)
    with pytest.raises(NotAttempted), attempt("stub"):
        tf.function(untouched)()


def test_a_cell_that_was_not_run_is_not_the_students_answer():
    with (
        pytest.raises(Waiting, match=r"^pick: first run the cells above\. One of them makes `TABLE`\.$"),
        attempt("pick"),
    ):
        print(TABLE)  # noqa: F821


def test_a_call_that_empties_its_arguments_is_told_as_it_was_made():
    def empty(numbers):
        numbers.clear()
        return numbers

    with pytest.raises(NotYet, match=r"`empty\(\[1, 2\]\)` returned \[\]"):
        call(empty, [1, 2], returns=number)


def test_an_answer_without_a_name_of_its_own_is_called_like_any_other():
    assert call(functools.partial(max, 2), 3, returns=number) == 3
    with pytest.raises(NotYet, match=r"`answer\(3\)` returned"):
        call(functools.partial("{} {}".format, "a"), 3, returns=number)


def test_what_an_answer_is_to_do_by_itself_is_refused_by_any_name_while_it_is_asked():
    def helper():
        return 1

    alias = helper
    with without(helper, says="write it without `helper`"), pytest.raises(RuntimeError, match="without `helper`"):
        alias()
    assert alias() == 1


def test_of_an_error_of_tensorflow_the_reader_sees_what_is_wrong_and_no_name_of_its_own():
    import tensorflow as tf

    with pytest.raises(Broke) as raised, attempt("sums"):
        call(lambda: tf.constant([1.0, 2.0]) - tf.constant([1.0, 2.0, 3.0]))
    assert "Incompatible shapes: [2] vs. [3]" in str(raised.value)
    assert "function_node" not in str(raised.value)
    assert "[Op:" not in str(raised.value)


def test_of_an_error_in_a_graph_the_reader_sees_what_happened_on_the_first_of_the_devices_that_met_it():
    import tensorflow as tf

    @tf.function
    def inverse(x):
        return tf.linalg.inv(x)

    met = "\n  (0) OUT_OF_RANGE:  End of sequence\n\t [[{{node Next}}]]\n\t [[Sum/_182]]\n  (1) OUT_OF_RANGE:  End of sequence"
    both = f"Graph execution error:\n\nDetected at Next\n\n2 root error(s) found.{met}\n\t [[{{{{node Next}}}}]]\n0 errors."

    where = "Detected at node 'a/Read' defined at (most recent call last):\n    File 'x', line 1, in remote\nNode: 'a/Read'\n"
    again = "\n\t [[{{node a/Read}}]]\n\nOriginal stack trace for 'a/Read':\n  File 'x', line 1, in remote\n"
    of_a_task = f"Graph execution error:\n\n{where}From /job:ps/replica:0/task:0:\nCould not find variable a. {again}"

    def raising(text):
        def function(_):
            raise RuntimeError(text)

        return function

    told = (inverse, "Input is not invertible."), (raising(both), "End of sequence")
    for function, says in (*told, (raising(of_a_task), "Could not find variable a.")):
        with pytest.raises(Broke) as raised, attempt("inverse"):
            call(function, tf.zeros([2, 2]))
        assert f"Error: {says}" in str(raised.value)
        assert "node" not in str(raised.value)
