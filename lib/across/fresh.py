"""Run a function in a fresh TensorFlow process, where nothing has been initialised yet.

    fresh.run(fn, 3, cpus=4)                    # fn(3) with four logical CPUs
    fresh.run(fn, 3, gpus=2)                    # fn(3) with two GPUs, simulated ones where there is no real one
    fresh.call(fn).output                       # what it printed, kept instead of shown
    fresh.side_by_side(fn, [(3,), (4,)])        # [fn(3), fn(4)], in two processes at the same time

The process is forked from a server that has imported TensorFlow and run nothing: about 0.1 s. A warm kernel has such a
server beside it; elsewhere the first call starts one. Where warm forking is missing (macOS, Windows), and with `cold=True`,
a new interpreter is started instead. Functions defined in a notebook work, with what they close over. The process has our
environment variables, working folder and `sys.path`, and a folder for temporary files that ends with it. Results travel by
pickle: return numbers and arrays rather than tensors, whose unpickling starts TensorFlow in the process that asked.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import cloudpickle

from across._process import pristine, supervision, warm, watched
from across._process.tracebacks import Frame, cell_sources, own_line

__all__ = [
    "TIMEOUT",
    "Call",
    "Died",
    "RemoteError",
    "RemoteTraceback",
    "call",
    "pickled_call",
    "run",
    "server_path",
    "side_by_side",
    "warm_up",
]

T = TypeVar("T")
TIMEOUT = 60.0  # seconds
LOUD = {"TF_CPP_MIN_LOG_LEVEL": "0"}
STARVED = 1.0  # seconds for which is seen whether a process whose time is up went without processors


class Died(RuntimeError):  # noqa: N818 - reads as the sentence it is
    """The fresh process ended without an answer: killed by a signal, or by its own exit."""


class RemoteError(RuntimeError):
    """The function raised an exception that cannot be brought here; its type and text are in the message."""


class RemoteTraceback(Exception):  # noqa: N818
    """The traceback in the fresh process, shown as the cause of the exception that came from there."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """What became of a call in a fresh process."""

    value: T | None  # None when it failed
    error: BaseException | None
    stdout: str  # of more than 16 MiB the end
    stderr: str
    seconds: float = field(compare=False)  # of the whole call, the process's start included

    @property
    def output(self) -> str:
        """Everything that it printed: stdout, then stderr."""
        return self.stdout + self.stderr

    def result(self) -> T:
        """Return the value. Raises the error if there was one."""
        if self.error is not None:
            raise self.error
        return self.value  # pyright: ignore[reportReturnType]


def run(
    fn: Callable[..., T],
    *args: Any,
    cpus: int | None = None,
    gpus: int | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
    cold: bool = False,
    **kwargs: Any,
) -> T:
    """Return `fn(*args, **kwargs)`, computed in a fresh TensorFlow process; what it prints appears here as it comes.

    `cpus` splits the CPU there into as many logical CPUs; `gpus` has so many GPUs there, simulated ones where there is no real
    one (`devices.gpus`). `env` is set before `fn` runs; what TensorFlow reads while it is
    imported (TF_CPP_MIN_LOG_LEVEL, TF_ENABLE_ONEDNN_OPTS) needs `cold=True`, which starts a new interpreter in seconds.
    `timeout` is in seconds; then the process is killed, but not while it waits for processors that others have.

    Raises what `fn` raised, with its traceback there as the cause; RemoteError where that exception cannot travel; Died when
    the process ended without an answer; TimeoutError; TypeError where `fn` is no function.
    """
    return _call(fn, args, kwargs, cpus, gpus, env, timeout, cold, show=True).result()


def call(
    fn: Callable[..., T],
    *args: Any,
    cpus: int | None = None,
    gpus: int | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
    cold: bool = False,
    **kwargs: Any,
) -> Outcome[T]:
    """Like `run`, but print nothing and raise nothing of what happens there: it is all in the Outcome."""
    return _call(fn, args, kwargs, cpus, gpus, env, timeout, cold, show=False)


def side_by_side(
    fn: Callable[..., T],
    arguments: Sequence[tuple[Any, ...]],
    *,
    env: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
) -> list[T]:
    """Return `fn(*each)` for each of `arguments`, in order, each in a fresh process of its own, all at the same time.

    The first that fails ends all: raises what it raised, with a note of which process it was and at which of its lines,
    or Died, which says which it was. Raises TimeoutError, which names who had not returned after `timeout` seconds.
    """
    name, until = _name(fn), time.monotonic() + timeout
    server = server_path(until, cold=False)
    with supervision.Group(server and os.path.dirname(server)) as group:
        calls: list[Call[T]] = []
        for number, args in enumerate(arguments):
            process = f"process {number} (counting from 0)"
            calls.append(Call(group, server, name, process, pickled_call(name, (fn, args, {})), None, env))
        try:
            failed = group.wait(until - time.monotonic(), lambda ended: any(each.failed(ended) for each in calls))
        except TimeoutError as error:
            raise TimeoutError(f"{error}: no return from {name} within {timeout:g} s; all were ended.") from None
        for each in calls:
            if each.member is failed:
                raise each.failure()
        return [each.outcome().result() for each in calls]


def warm_up() -> None:
    """Start the server in the background, so that the first `run` does not wait for TensorFlow's import."""
    if warm.available() and not pristine.socket_path():
        _own_server()


def _call(
    fn: Callable[..., T],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    cpus: int | None,
    gpus: int | None,
    env: Mapping[str, str] | None,
    timeout: float,
    cold: bool,
    show: bool,
) -> Outcome[T]:
    if not callable(fn):
        what = type(fn).__name__
        raise TypeError(
            f"a fresh process calls a function, and was given a value, a {what}: write `work`, not `work()`"
        )
    name, started = _name(fn), time.monotonic()
    pickled = pickled_call(name, (fn, args, kwargs))
    server = server_path(started + timeout, cold)
    with supervision.Group(server and os.path.dirname(server)) as group:
        call: Call[T] = Call(group, server, name, "the fresh process", pickled, cpus, env, gpus)
        _wait(group, call, started + timeout, timeout, call.show if show else lambda: None)
        return call.outcome(started, timeout)


def _wait(group: supervision.Group, call: Call[Any], until: float, timeout: float, on_look: Callable[[], None]) -> None:
    """Wait for a call until its time is up and it does not want for processors, or has used them for `timeout` seconds."""
    wanting, at = watched.Wanting(call.member.process.pid), until - STARVED
    while True:
        try:
            group.wait(at - time.monotonic(), on_look=on_look)
        except TimeoutError:
            wants = wanting.still() and wanting.used < timeout
            if time.monotonic() >= until and not wants:
                return
            at = max(until, time.monotonic() + STARVED * wants)
        else:
            return


class Call(Generic[T]):
    """One call in a fresh process, a member of a group: it lies in a folder of its own, and so will its answer."""

    def __init__(
        self,
        group: supervision.Group,
        server: str | None,
        name: str,
        process: str,
        pickled: bytes,
        cpus: int | None,
        env: Mapping[str, str] | None,
        gpus: int | None = None,
    ) -> None:
        """Start it: `pickled` is function and arguments, `name` and `process` are for messages."""
        self.name = name
        self.process = process
        self.started = time.monotonic()
        self.folder = Path(tempfile.mkdtemp(prefix="call-", dir=group.folder))
        temporary = self.folder / "tmp"
        temporary.mkdir()
        environment = {**os.environ, "TMPDIR": str(temporary), **(env or {})}
        if server is not None:  # what it asks of this module in turn, the same server does
            environment[pristine.ADDRESS] = pristine.address(server)
        task = {
            "cpus": cpus,
            "gpus": gpus,
            "env": environment,
            "cwd": os.getcwd(),
            "path": sys.path,
            "sources": cell_sources(),
        }
        (self.folder / "task").write_bytes(pickle.dumps(task))
        (self.folder / "call").write_bytes(pickled)
        if server is not None:
            self.member = group.fork(process, server, {"folder": str(self.folder)})
        else:
            command = [sys.executable, "-m", "across._process.fresh_child", str(self.folder)]
            self.member = group.spawn(process, command, {**environment, **_importable(), **(env or {})})

    def show(self) -> None:
        """Print here what it has printed since the last time."""
        for log, stream in ((self.member.stdout, sys.stdout), (self.member.stderr, sys.stderr)):
            if text := log.new():
                stream.write(text)
                stream.flush()

    def outcome(self, started: float | None = None, timeout: float = 0.0) -> Outcome[T]:
        """What became of it; one that runs is out of its `timeout` seconds."""
        value, error = None, None
        stdout, stderr = self.member.stdout.text(), self.member.stderr.text()
        try:
            returned, answer = pickle.loads((self.folder / "answer").read_bytes())
            value, error = (pickle.loads(answer), None) if returned else (None, self._revived(*answer))
        except FileNotFoundError:
            error = Died(f"{self.process} of {self.name} ended without an answer {self.member.how_it_ended()}")
            if self.member.code is None:
                error = TimeoutError(f"{self.name} did not return within {timeout:g} s; its process was ended.")
        except Exception as failure:
            error = RemoteError(f"{self.name}: its result cannot be read here: {type(failure).__name__}: {failure}")
        return Outcome(value, error, stdout, stderr, time.monotonic() - (started or self.started))

    def failed(self, ended: supervision.Member) -> bool:
        """Whether this call is that of `ended`, and failed."""
        return ended is self.member and (ended.code != 0 or not (self.folder / "answer").exists())

    def failure(self) -> BaseException:
        """The error of one that failed."""
        error = self.outcome().error
        return error or Died(f"{self.process} of {self.name} failed after it had returned {self.member.how_it_ended()}")

    def _revived(self, pickled: bytes | None, described: str, text: str, frames: Sequence[Frame]) -> BaseException:
        """The exception as it was raised, its traceback as the cause; in a note, where."""
        error: BaseException = RemoteError(described)
        if pickled is not None:
            with contextlib.suppress(Exception):  # an exception whose constructor wants what its pickle lacks
                loaded = pickle.loads(pickled)
                error = loaded if isinstance(loaded, BaseException) else error
        error.__cause__ = RemoteTraceback(text)
        error.add_note(f"in {self.process}" + (f", {line}" if (line := own_line(frames)) else ""))
        return error


def _name(fn: Callable[..., Any]) -> str:
    return getattr(fn, "__name__", repr(fn))


def pickled_call(name: str, call: Any) -> bytes:
    """Pickle a (function, arguments, keyword arguments); `name` is for the message. Raises TypeError.

    A `tf.function` in it goes as its Python function, which is wrapped again there: what has been traced cannot travel.
    """
    try:
        with io.BytesIO() as file:
            _Pickler(file).dump(call)
            return file.getvalue()
    except Exception as error:
        raise TypeError(f"{name} cannot be sent to a fresh process: {error}") from error


class _Pickler(cloudpickle.Pickler):
    """Knows how a `tf.function` travels."""

    def reducer_override(self, obj: Any) -> Any:
        tensorflow = sys.modules.get("tensorflow")  # who has not imported it has no tf.function
        if tensorflow is not None and isinstance(obj, tensorflow.types.experimental.PolymorphicFunction):
            settings = {key: getattr(obj, at) for key, at in _SETTINGS.items() if getattr(obj, at, None) is not None}
            return _wrapped_again, (obj.python_function, settings)
        return super().reducer_override(obj)


_SETTINGS = {  # argument of tf.function -> where it is kept
    "input_signature": "input_signature",
    "autograph": "_autograph",
    "jit_compile": "_jit_compile",
    "reduce_retracing": "_reduce_retracing",
    "experimental_autograph_options": "_experimental_autograph_options",
    "experimental_attributes": "_attributes",
}


def _wrapped_again(function: Callable[..., Any], settings: Mapping[str, Any]) -> Any:
    import tensorflow as tf

    return tf.function(function, **settings)


_servers: dict[tuple[int, bool], warm.ForkServer] = {}  # by process id: a forked process must not use its parent's


def server_path(until: float, cold: bool, loud: bool = False) -> str | None:
    """The socket of a fork server that answers; None where a new interpreter has to do. Raises warm.ServerError.

    `loud`: one whose TensorFlow logs as in a program of one's own. The level is read while TensorFlow is imported.
    """
    if cold or not warm.available():
        return None
    kept = None if loud else pristine.socket_path()
    return kept or _own_server(loud).ready(max(1.0, until - time.monotonic())).path


def _own_server(loud: bool = False) -> warm.ForkServer:
    """This process's own fork server, launched if it does not run."""
    server = _servers.get((os.getpid(), loud))
    if server is None or not server.alive():
        if server is not None:
            server.close()
        for of_parent in [key for key in _servers if key[0] != os.getpid()]:
            del _servers[of_parent]
        server = warm.ForkServer("across._process.fresh_child", env={**_importable(), **(LOUD if loud else {})})
        _servers[os.getpid(), loud] = server
        server.launch()
    return server


def _importable() -> dict[str, str]:
    """The environment in which a new interpreter finds this package, installed or not."""
    folders = [str(Path(__file__).parent.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(folders)}


@atexit.register
def _close() -> None:
    for pid, loud in list(_servers):
        server = _servers.pop((pid, loud))
        if pid == os.getpid():
            server.close()
