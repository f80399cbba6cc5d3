"""A `concurrent.futures.Executor` whose workers are Dask's: what `engine.grade_class` needs to leave this machine.

Dask's own (`Client.get_executor`) waits for ever when there is no worker any more. This one gives up, by its deadline, and
says that it was a machine's fault. The connection is TLS, with one certificate for all of the cluster, or there is none.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from distributed import Client
from distributed import Future as DaskFuture
from distributed.security import Security

from autograder.engine import dask_worker
from autograder.job import forkserver
from autograder.job.forkserver import InfrastructureError
from autograder.model.amounts import some
from autograder.model.course import Course, CourseError

CONNECT = 30.0  # seconds to reach a scheduler
LOOK = 1.0  # seconds between two looks at the workers
CERTIFICATE, KEY = "cert.pem", "key.pem"


def security(folder: Path) -> Security:
    """TLS for every role by the certificate and the key in a folder: see docs/scale.md. Raises CourseError."""
    certificate, key = str(folder / CERTIFICATE), str(folder / KEY)
    for file in (certificate, key):
        if not Path(file).is_file():
            raise CourseError(f"{file}: there is no such file; docs/scale.md has the command that writes one")
    if Path(key).stat().st_mode & 0o077:
        raise CourseError(f"{key}: others can read it; chmod 600, and make a new one if they may have")
    roles = {
        f"tls_{role}_{what}": file
        for role in ("client", "scheduler", "worker")
        for what, file in (("cert", certificate), ("key", key))
    }
    return Security(tls_ca_file=certificate, require_encryption=True, **roles)


class DaskExecutor(Executor):
    """Jobs on the workers of a scheduler. `close` leaves the cluster as it is, but for our warm servers."""

    def __init__(self, address: str, secure: Security, *, patience: float = 60.0) -> None:
        """Connect to `address`, as `tls://HOST:PORT`.

        `patience`: seconds for which there may be no worker. Raises InfrastructureError.
        """
        self.patience = patience
        self._cards = 0  # that a worker must have to be one
        self._mine: dict[Future[Any], DaskFuture] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._lost = ""
        _shake_hands(address, secure)
        try:
            self.client = Client(address, security=secure, timeout=CONNECT, set_as_default=False)
        except Exception as error:  # of Dask's, tornado's and ssl's there are many
            raise InfrastructureError(f"the Dask scheduler at {address}: {type(error).__name__}: {error}") from error
        self._watch = threading.Thread(target=self._watching, name="dask workers", daemon=True)
        self._watch.start()

    def same_course(self, course: Course, chapter: str, gpus: int | str | None = None) -> int:
        """See that every worker there is would grade by a course like ours; returns how many there are.

        Waits for the first one, with cards where the chapter needs them. Raises CourseError, which names the worker and
        what differs; InfrastructureError.
        """
        self._cards = forkserver.limited(course.chapter(chapter), gpus=gpus).cards
        try:
            self.client.wait_for_workers(1, timeout=self.patience)
            ours = dask_worker.parts(course, chapter)
            found: Any = self.client.run(dask_worker.differs, chapter, ours, on_error="return")
        except (OSError, TimeoutError) as error:
            raise InfrastructureError(f"no worker came in {self.patience:.0f} s ({type(error).__name__})") from error
        if not self._workers():
            raise InfrastructureError(
                f"no worker has {some(self._cards, 'card')}; start one with --resources GPU={self._cards}"
            )
        for worker, said in sorted(found.items()):
            if isinstance(said, BaseException):  # another version of ours, or none
                said = f"{type(said).__name__}: {said}; it must have the same course"
            if said:
                raise CourseError(f"worker {worker}: {said}")
        return len(found)

    def submit(self, function: Callable[..., Any], /, *jobs: Any, **_: Any) -> Future[Any]:
        """Send a job: `function` is `grade.grade_job`, which each worker has of its own, and so it has a course."""
        job, _course = jobs
        future: Future[Any] = Future()
        if self._lost:
            future.set_exception(InfrastructureError(self._lost))
            return future
        cards = job.rubric.chapter.cards
        try:
            theirs = self.client.submit(
                dask_worker.grade_job,
                job,
                key=f"grade-{uuid.uuid4().hex}",  # equal jobs are our caller's business
                pure=False,
                resources={"GPU": cards} if cards else None,
            )
        except Exception as error:  # a client that has lost its scheduler says so in several ways
            future.set_exception(InfrastructureError(f"the cluster takes no job: {type(error).__name__}: {error}"))
            return future
        with self._lock:
            self._mine[future] = theirs
        theirs.add_done_callback(lambda done: self._done(future, done))
        return future

    def _done(self, future: Future[Any], theirs: DaskFuture) -> None:
        with self._lock:
            if self._mine.pop(future, None) is None:
                return
        if theirs.status == "finished":
            try:
                verdict = theirs.result(timeout=CONNECT)
            except Exception as error:  # its worker died before it was fetched
                _fail(future, InfrastructureError(f"the verdict was lost: {type(error).__name__}: {error}"))
            else:
                if future.set_running_or_notify_cancel():
                    future.set_result(verdict)
            return
        error = theirs.exception(timeout=CONNECT) if theirs.status == "error" else None
        if isinstance(error, CourseError | InfrastructureError):
            _fail(future, error)
        else:  # KilledWorker; a scheduler that ended
            said = f"{type(error).__name__}: {error}" if error else f"Dask says {theirs.status}"
            _fail(future, InfrastructureError(f"the worker did not end the job: {said}"))

    def _watching(self) -> None:
        """Fail everything once there has been no worker, or no scheduler, for `patience` seconds."""
        seen = time.monotonic()
        while not self._over.wait(LOOK):
            if self._workers():
                seen = time.monotonic()
            elif time.monotonic() - seen > self.patience:
                self._lost = (
                    f"the cluster has had no worker for {self.patience:.0f} s{', none with cards' * bool(self._cards)}"
                )
                self._drop(InfrastructureError(self._lost))
                return

    def _workers(self) -> int:
        try:
            info: Any = self.client.scheduler_info(n_workers=-1)
            each = info["workers"].values()
            return sum(worker.get("resources", {}).get("GPU", 0) >= self._cards for worker in each)
        except Exception:  # the scheduler is gone, or the client is being closed
            return 0

    def _drop(self, error: Exception | None) -> None:
        with self._lock:
            mine, self._mine = self._mine, {}
        for future, theirs in mine.items():
            theirs.cancel()
            if error is not None:
                _fail(future, error)
            else:
                future.cancel()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take back what did not begin, end the warm servers that we had the workers start, and let go."""
        self._over.set()
        self._drop(None)
        if not self._lost:  # Dask's call has no deadline of its own
            telling = threading.Thread(target=self._tell, name="dask close", daemon=True)
            telling.start()
            telling.join(CONNECT)
        self.client.close(timeout=CONNECT)
        self._watch.join(CONNECT)

    def _tell(self) -> None:
        with contextlib.suppress(Exception):  # who does not hear it has ended
            self.client.run(dask_worker.close, on_error="ignore")


def _shake_hands(address: str, secure: Security) -> None:
    """See that a TLS server with our certificate is there, which a Client would find out with less grace."""
    host, _, port = address.removeprefix("tls://").rpartition(":")
    context: ssl.SSLContext = secure.get_connection_args("client")["ssl_context"]
    mend = "start it with --protocol tls, --tls-ca-file, --tls-cert and --tls-key, and give the same files with --tls"
    try:
        with socket.create_connection((host, int(port)), CONNECT) as there, context.wrap_socket(there):
            pass
    except ssl.SSLError as error:
        raise InfrastructureError(f"{address} has no certificate of ours ({error.reason}); {mend}") from None
    except OSError as error:
        raise InfrastructureError(f"no Dask scheduler answers at {address} ({error}); {mend}") from None


def _fail(future: Future[Any], error: Exception) -> None:
    if future.set_running_or_notify_cancel():
        future.set_exception(error)
