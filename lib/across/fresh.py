"""Run a function in a fresh TensorFlow process, where nothing has been initialised yet.

    fresh.run(fn, 3, cpus=4)                    # fn(3) with four logical CPUs
    fresh.call(fn).output                       # what it printed, kept instead of shown

The process is forked from a server that has imported TensorFlow and run nothing: about 0.1 s. The first call starts that
server. Where warm forking is missing (macOS, Windows), and with `cold=True`, a new interpreter is started
instead. Functions defined in a notebook work, with what they close over. Results travel by pickle: return numbers
and arrays rather than tensors, whose unpickling starts TensorFlow in the process that asked.
"""

from __future__ import annotations

import atexit
import codecs
import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import cloudpickle

from across._process import warm

T = TypeVar("T")
TIMEOUT = 60.0  # seconds


class Died(RuntimeError):  # noqa: N818 - reads as the sentence it is
    """The fresh process ended without an answer: killed by a signal, or by its own exit."""


class RemoteError(RuntimeError):
    """The function raised an exception that cannot be brought here; its type and text are in the message."""


class RemoteTraceback(Exception):  # noqa: N818
    """The traceback in the fresh process, shown as the cause of the exception that came from there."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """What became of a call in a fresh process."""

    value: T | None  # None when it failed
    error: BaseException | None
    stdout: str
    stderr: str
    seconds: float = field(compare=False)  # of the whole call, the process's start included

    @property
    def ok(self) -> bool:
        """Whether the function returned."""
        return self.error is None

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
    env: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
    cold: bool = False,
    **kwargs: Any,
) -> T:
    """Return `fn(*args, **kwargs)`, computed in a fresh TensorFlow process; what it prints appears here as it comes.

    `cpus` splits the CPU there into as many logical CPUs. `env` is set before `fn` runs; what TensorFlow reads while it is
    imported (TF_CPP_MIN_LOG_LEVEL, TF_ENABLE_ONEDNN_OPTS) needs `cold=True`, which starts a new interpreter in seconds.
    `timeout` is in seconds; then the process is killed.

    Raises what `fn` raised, with its traceback there as the cause; RemoteError where that exception cannot travel; Died when
    the process ended without an answer; TimeoutError.
    """
    return _call(fn, args, kwargs, cpus, env, timeout, cold, show=True).result()


def call(
    fn: Callable[..., T],
    *args: Any,
    cpus: int | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
    cold: bool = False,
    **kwargs: Any,
) -> Outcome[T]:
    """Like `run`, but print nothing and raise nothing of what happens there: it is all in the Outcome."""
    return _call(fn, args, kwargs, cpus, env, timeout, cold, show=False)


def warm_up() -> None:
    """Start the server in the background, so that the first `run` does not wait for TensorFlow's import."""
    if warm.available():
        _server(launch=True)


def _call(
    fn: Callable[..., T],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    cpus: int | None,
    env: Mapping[str, str] | None,
    timeout: float,
    cold: bool,
    show: bool,
) -> Outcome[T]:
    name = getattr(fn, "__name__", repr(fn))
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="across-") as folder:
        Path(folder, "call").write_bytes(_pickled(name, (fn, args, kwargs)))
        task = {"folder": folder, "cpus": cpus, "env": dict(env or {}), "cwd": os.getcwd(), "path": sys.path}
        process = _Cold(task) if cold or not warm.available() else _Warm(task, start + timeout)
        try:
            stdout, stderr, code = _follow(process, start + timeout, show)
        finally:
            process.close()
        value, error = None, None
        try:
            ok, found = pickle.loads(Path(folder, "answer").read_bytes())
            value, error = (pickle.loads(found), None) if ok else (None, _revived(*found))
        except FileNotFoundError:
            error = _no_answer(name, code, timeout, stderr)
        except Exception as failure:
            error = RemoteError(f"{name}: its result cannot be read here: {type(failure).__name__}: {failure}")
    return Outcome(value, error, stdout, stderr, time.monotonic() - start)


def _pickled(name: str, call: Any) -> bytes:
    try:
        return cloudpickle.dumps(call)
    except Exception as error:
        raise TypeError(f"{name} cannot be sent to a fresh process: {error}") from error


def _no_answer(name: str, code: int | None, timeout: float, stderr: str) -> Exception:
    if code is None:
        return TimeoutError(f"{name} did not return within {timeout:g} s; its process was ended.")
    how = f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
    last = f" Its last words: {words[-1].strip()}" if (words := stderr.strip().splitlines()) else ""
    return Died(f"the process of {name} ended without an answer ({how}).{last}")


def _revived(pickled: bytes | None, described: str, text: str) -> BaseException:
    """The exception as it was raised, its traceback as the cause."""
    error: BaseException = RemoteError(described)
    if pickled is not None:
        with contextlib.suppress(Exception):  # an exception whose constructor wants what its pickle lacks
            loaded = pickle.loads(pickled)
            error = loaded if isinstance(loaded, BaseException) else error
    error.__cause__ = RemoteTraceback(text)
    return error


class _Process(Protocol):
    stdout: int  # file descriptors to read
    stderr: int

    def poll(self) -> int | None: ...

    def close(self) -> None: ...


class _Warm:
    """A child of the fork server."""

    def __init__(self, task: Mapping[str, Any], until: float) -> None:
        server = _server().ready(max(1.0, until - time.monotonic()))
        self.stdout, out = os.pipe()
        self.stderr, err = os.pipe()
        try:
            Path(task["folder"], "task").write_bytes(pickle.dumps(dict(task)))
            self.child = server.request({"folder": task["folder"]}, [out, err])
        except BaseException:
            os.close(self.stdout)
            os.close(self.stderr)
            raise
        finally:
            os.close(out)
            os.close(err)

    def poll(self) -> int | None:
        self.child.alive()
        return self.child.returncode

    def close(self) -> None:
        self.child.close()


class _Cold:
    """A new interpreter."""

    def __init__(self, task: Mapping[str, Any]) -> None:
        Path(task["folder"], "task").write_bytes(pickle.dumps(dict(task)))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "across._process.fresh_child", task["folder"]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **_importable(), **task["env"]},
            start_new_session=True,
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.stdout, self.stderr = (os.dup(stream.fileno()) for stream in (self.process.stdout, self.process.stderr))
        self.process.stdout.close()
        self.process.stderr.close()

    def poll(self) -> int | None:
        if self.process.returncode is not None or not hasattr(os, "waitid"):
            return self.process.poll()
        # unreaped, its process group keeps its number, so that `close` cannot hit another's
        ended = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    def close(self) -> None:
        if hasattr(os, "killpg") and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)  # what it started goes with it
        self.process.kill()
        self.process.wait()


def _follow(process: _Process, until: float, show: bool) -> tuple[str, str, int | None]:
    """Read what the process prints until it has ended or time is up; return it with the exit code, None if it goes on."""
    chunks: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()
    decoders = [codecs.getincrementaldecoder("utf-8")("replace") for _ in range(2)]
    kept: tuple[list[str], list[str]] = ([], [])

    def read(number: int, fd: int) -> None:
        with os.fdopen(fd, "rb", buffering=0) as stream:
            while data := stream.read(1 << 16):
                chunks.put((number, data))
        chunks.put((number, b""))

    for number, fd in enumerate((process.stdout, process.stderr)):
        threading.Thread(target=read, args=(number, fd), daemon=True).start()
    open_streams = {0, 1}
    ended_at: float | None = None
    while open_streams and time.monotonic() < until:
        try:
            number, data = chunks.get(timeout=0.05)
        except queue.Empty:
            if process.poll() is not None:  # a process that it started may hold the streams open for ever
                ended_at = ended_at or time.monotonic()
                if time.monotonic() - ended_at > 0.5:
                    break
            continue
        if not data:
            open_streams.discard(number)
        text = decoders[number].decode(data, final=not data)
        kept[number].append(text)
        if show and text:
            stream = (sys.stdout, sys.stderr)[number]
            stream.write(text)
            stream.flush()
    code = process.poll()
    while code is None and not open_streams and time.monotonic() < until:
        time.sleep(0.001)
        code = process.poll()
    return "".join(kept[0]), "".join(kept[1]), code


_servers: dict[int, warm.ForkServer] = {}  # by process id: a forked process must not use its parent's


def _server(launch: bool = False) -> warm.ForkServer:
    """This process's fork server, launched if it does not run."""
    server = _servers.get(os.getpid())
    if server is None or server.process is None or server.process.poll() is not None:
        if server is not None:
            server.close()
        _servers.clear()
        server = warm.ForkServer("across._process.fresh_child", env=_importable())
        _servers[os.getpid()] = server
        server.launch()
    return server


def _importable() -> dict[str, str]:
    """The environment in which a new interpreter finds this package, installed or not."""
    found = [str(Path(__file__).parent.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(found)}


@atexit.register
def _close() -> None:
    server = _servers.pop(os.getpid(), None)
    if server is not None:
        server.close()
