import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from processes import ended, forked

from across import fresh
from across._process import supervision

WARM, COLD = pytest.param(False, marks=forked, id="warm"), pytest.param(True, id="cold")
either = pytest.mark.parametrize(
    "cold", [WARM, pytest.param(True, marks=pytest.mark.slow, id="cold")]
)  # the same, nightly


@pytest.mark.parametrize("cold", [WARM, COLD])
def test_a_result_comes_back_from_another_process(cold):
    there = 5
    result, process = fresh.run(lambda x, y: (x + y + there, os.getpid()), 1, y=2, cold=cold, timeout=120)
    assert result == 8
    assert process != os.getpid()


@either
def test_the_process_is_fresh_each_time(cold):
    def cpus() -> int:
        import tensorflow as tf

        return len(tf.config.list_logical_devices("CPU"))

    assert [fresh.run(cpus, cpus=n, cold=cold, timeout=120) for n in (3, 2)] == [3, 2]


@either
def test_an_exception_arrives_as_itself_with_its_traceback(cold):
    def breaks() -> None:
        raise KeyError("a name of its own")

    with pytest.raises(KeyError, match="a name of its own") as caught:
        fresh.run(breaks, cold=cold, timeout=120)
    assert isinstance(caught.value.__cause__, fresh.RemoteTraceback)
    assert 'raise KeyError("a name of its own")' in str(caught.value.__cause__)


def test_a_tensorflow_error_arrives_as_itself():
    import tensorflow as tf

    def breaks() -> None:
        import tensorflow as tf

        tf.matmul(tf.ones((2, 3)), tf.ones((2, 3)))

    with pytest.raises(tf.errors.InvalidArgumentError, match="Matrix size-incompatible"):
        fresh.run(breaks)


def test_an_exception_that_cannot_travel_is_described():
    def breaks() -> None:
        class OddError(Exception):
            def __init__(self, one, two):
                super().__init__(f"{one} and {two}")

        raise OddError("this", "that")

    with pytest.raises(fresh.RemoteError, match="OddError: this and that"):
        fresh.run(breaks)


@either
def test_what_it_prints_appears_here(cold, capsys):
    def talks() -> None:
        print("to stdout: é")
        print("to stderr", file=sys.stderr)
        os.write(1, b"from C\n")

    fresh.run(talks, cold=cold, timeout=120)
    captured = capsys.readouterr()
    assert captured.out == "to stdout: é\nfrom C\n"
    assert "to stderr\n" in captured.err


def test_a_call_keeps_what_was_printed_and_raises_nothing(capsys):
    def talks() -> None:
        print("last words")
        raise ValueError("no")

    outcome = fresh.call(talks)
    assert capsys.readouterr().out == ""
    assert outcome.stdout == "last words\n"
    with pytest.raises(ValueError, match="no"):
        outcome.result()


@either
@pytest.mark.parametrize(
    ("ending", "how"),
    [(lambda: os._exit(3), "exit code 3"), (lambda: os.kill(os.getpid(), signal.SIGKILL), "signal SIGKILL")],
    ids=["exit", "kill"],
)
def test_a_process_that_dies_says_how(cold, ending, how):
    with pytest.raises(fresh.Died, match=how):
        fresh.run(ending, cold=cold, timeout=120)


@either
def test_a_process_that_hangs_is_ended_at_the_deadline(cold, tmp_path):
    def hangs() -> None:
        (tmp_path / "pid").write_text(str(os.getpid()))
        time.sleep(600)

    deadline = 3.0
    fresh.run(int, timeout=120)  # the server is up
    with pytest.raises(TimeoutError, match=f"hangs did not return within {deadline:g} s"):
        fresh.run(hangs, cold=cold, timeout=deadline)
    assert ended(int((tmp_path / "pid").read_text()))


def test_a_result_that_cannot_be_pickled_says_what_to_return():
    with pytest.raises(TypeError, match=r"a generator cannot leave the fresh process .*return numbers, text or arrays"):
        fresh.run(lambda: (i for i in range(3)))


def test_a_function_that_cannot_be_sent_is_named():
    lock = __import__("threading").Lock()

    def holds_a_lock() -> object:
        return lock

    with pytest.raises(TypeError, match="holds_a_lock cannot be sent to a fresh process"):
        fresh.run(holds_a_lock)


def test_a_value_in_place_of_a_function_says_how_to_write_it():
    with pytest.raises(TypeError, match=r"a list: write `work`, not `work\(\)`"):
        fresh.run([1, 2])  # type: ignore[arg-type]


def test_a_tf_function_that_has_been_traced_is_sent_and_keeps_its_settings():
    import tensorflow as tf

    def plus_two(x: tf.Tensor) -> tf.Tensor:
        return x + 2.0

    signature = [tf.TensorSpec([None])]
    inner: Any = tf.function(plus_two, signature, autograph=False, jit_compile=False, reduce_retracing=True)
    outer: Any = tf.function(lambda x: 3.0 * inner(x), autograph=False)

    def called() -> tuple[object, ...]:
        settings = str(inner.input_signature), inner._autograph, inner._jit_compile, inner._reduce_retracing
        return outer(tf.constant([1.0, 2.0])).numpy().tolist(), settings

    assert called() == fresh.run(called, timeout=120)


@either
def test_environment_variables_are_the_callers_at_the_call_and_those_set_there_are_not_here(cold, monkeypatch):
    fresh.run(int, timeout=120)  # the server is up
    monkeypatch.setenv("ACROSS_TEST", "set after the server was started")

    def read() -> tuple[str, str]:
        return os.environ["ACROSS_TEST"], os.environ["ACROSS_THERE"]

    found = fresh.run(read, env={"ACROSS_THERE": "there"}, cold=cold, timeout=120)
    assert found == ("set after the server was started", "there")
    assert "ACROSS_THERE" not in os.environ


def test_it_runs_where_the_caller_is(tmp_path, monkeypatch):
    (tmp_path / "neighbour.py").write_text("VALUE = 7\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def look() -> tuple[str, int]:
        import neighbour  # type: ignore[import-not-found]

        return os.getcwd(), neighbour.VALUE

    assert fresh.run(look) == (str(tmp_path), 7)


@forked
def test_a_fresh_process_asks_the_server_that_forked_it():
    def nested() -> tuple[int, int]:
        return os.getppid(), fresh.run(os.getppid, timeout=100)

    server = fresh._own_server().ready().process
    assert server is not None
    assert fresh.run(nested, timeout=120) == (server.pid, server.pid)


@either
def test_temporary_files_end_with_the_process(cold):
    def leaves_files() -> list[str]:
        import tensorflow as tf

        @tf.function
        def translated(x):  # by TensorFlow's AutoGraph, into a file
            if x > 0:
                x += 1
            return x

        translated(tf.constant(1))
        _, path = tempfile.mkstemp()
        return [os.path.join(tempfile.gettempdir(), name) for name in os.listdir(tempfile.gettempdir())] + [path]

    files = fresh.run(leaves_files, cold=cold, timeout=120)
    assert any("__autograph_generated_file" in file for file in files)
    assert [file for file in files if os.path.exists(file)] == []


def test_of_very_much_output_the_end_is_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(supervision, "LOG", 1 << 20)

    def floods() -> None:
        for number in range(300_000):
            print(f"line {number} é")

    outcome = fresh.call(floods, timeout=120)
    assert outcome.error is None
    assert len(outcome.stdout) < 3 << 20
    assert outcome.stdout.endswith("line 299999 é\n")
    assert "was dropped here" in outcome.stdout


def test_importing_the_package_does_not_import_tensorflow():
    modules = "attempt, clusters, devices, fresh, pictures, placement"
    script = f"import sys; from across import {modules}; print('tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "False"


def test_an_import_of_tensorflow_that_fails_keeps_its_log(tmp_path: Path):
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow" / "__init__.py").write_text(
        "import os\nos.write(2, b'what went wrong')\nraise ImportError('broken')\n"
    )
    script = f"import sys, across; sys.path.insert(0, {str(tmp_path)!r}); import tensorflow"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert "what went wrong" in done.stderr
    assert "ImportError: broken" in done.stderr


@forked
@pytest.mark.whole
def test_a_process_whose_processor_others_have_gets_the_time_that_it_waits():
    cpu = min(os.sched_getaffinity(0))

    def burns() -> float:
        os.sched_setaffinity(0, {cpu})
        began, until = time.monotonic(), time.process_time() + 1.0
        while time.process_time() < until:
            pass
        return time.monotonic() - began

    fresh.server_path(time.monotonic() + 120, cold=False)  # its start is not the process's time
    spins = f"import os\nos.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass"
    with contextlib.ExitStack() as stack:
        for _ in range(5):  # each in a session of its own: the kernel shares processors out among sessions
            spinning = subprocess.Popen([sys.executable, "-c", spins], start_new_session=True)
            stack.callback(spinning.wait)
            stack.callback(spinning.kill)
        assert fresh.run(burns, timeout=2.0) > 2.0


@forked
def test_a_process_that_wants_for_nothing_has_its_timeout():
    def computes() -> None:
        while time.process_time() < 60:
            pass

    fresh.server_path(time.monotonic() + 120, cold=False)
    assert isinstance(fresh.call(computes, timeout=2.0).error, TimeoutError)
