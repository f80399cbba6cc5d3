"""The student's side: a warm server that has imported ipykernel and what its course preloads; its child is a boxed kernel.

Or a peer, in which no student's code runs, or another life of the notebook's code without a kernel: see `job.peers`.

Served by `across._process.warm`. It imports nothing of `autograder` but what a kernel needs (answering, entering): whatever
is in its memory is in the student's memory too.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import sys
import tarfile
import tempfile
from typing import Any

from across._process import preload, pristine, sharing
from autograder.probe import answering
from autograder.sandbox import entering

before = entering.before
# Messages of the kernel that nobody has read yet; what is more is lost, the word that the cell has ended for one. libzmq's
# own 1,000 are displayed in a second, while who reads waits for a processor; `output_bytes` end before these do.
UNREAD = 100_000


def prepare(*names: str) -> None:
    """Import ipykernel and the modules `names`, before any kernel is forked."""
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # a card comes in only under a lease
    preload.preload(names, debugger=False)


def child(message: dict[str, Any], fds: list[int], connection: socket.socket) -> None:
    """Become a kernel in the box of `message`, or a peer, or another life of its code; see `_start` and `_alone`.

    `fds`: its log, the socket on which it is asked, the code of a life, an archive of its files.
    """
    log, asked, *packed = fds
    packed = [fcntl.fcntl(each, fcntl.F_DUPFD, 10) for each in packed]
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
    worker = fcntl.fcntl(connection.fileno(), fcntl.F_DUPFD, 10)
    connection.close()
    asked = os.dup2(asked, 3)
    entering.hold([asked, *packed, *([worker] if "as" in message else [])])
    entering.enter(message)
    channel = socket.socket(fileno=asked)
    home = message["inside"]
    os.chdir(home)
    code = None
    if message.get("as") == "life":
        with open(packed.pop(0), "rb") as file:
            code = json.load(file)
    for each in packed:
        _unpack(each, home)
    path = f"{sys.prefix}/bin:/usr/bin:/bin"
    os.environ.clear()
    os.environ.update(PATH=path, HOME=home, USER="student", LOGNAME="student", TMPDIR="/tmp", LANG="C.UTF-8")
    os.environ.update(PYTHONDONTWRITEBYTECODE="1")
    if "tensorflow" in sys.modules:
        os.environ.update(preload.TENSORFLOW)
    os.environ.update(
        PYTHONHASHSEED="0"
    )  # as this process's own, see `forkserver`: a rerun orders sets in the same way
    os.environ.update(IPYTHONDIR=f"{home}/.ipython", MPLCONFIGDIR=f"{home}/.matplotlib", ACROSS_GRADING="1")
    os.environ.update(message.get("cards") or {"CUDA_VISIBLE_DEVICES": "-1"})
    if fresh_child := sys.modules.get("across._process.fresh_child"):  # where the course preloads this library
        pristine.leave(fresh_child)
        sharing.share()  # after the copy, which is to be forked
    _signals_as_in_any_shell()
    if "as" in message:
        _alone(channel, code, worker)
    else:
        _start(channel, home, _write_connection(message))


def _signals_as_in_any_shell() -> None:
    """Ignore nothing that this process was made to ignore, SIGHUP by nohup(1) for one: a mark would depend on it."""
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:  # these two Python ignores itself
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _simulate() -> None:
    """Have the GPUs that this box is told to simulate. Raises RuntimeError: this machine's fault."""
    if "ACROSS_GPUS" in os.environ:
        from across import devices

        if said := devices.from_environment():
            raise RuntimeError(said)


def _unpack(descriptor: int, home: str) -> None:
    """Lay what the chapter's author put beside the notebook where the kernel works: it is the student's to change."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    with open(descriptor, "rb") as file, tarfile.open(fileobj=file) as archive:
        how: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # 3.11.2 has none
        archive.extractall(home, **how)


def _write_connection(message: dict[str, Any]) -> str:
    """Write the kernel's connection file, and make the folder of its sockets; return that folder."""
    folder = f"{message['inside']}/{message['sockets']}"
    os.mkdir(folder)
    os.chmod(folder, 0o711)  # who listens may be another user, and comes by a descriptor of this folder
    with open(
        f"{message['inside']}/connection.json", "w", opener=lambda path, flags: os.open(path, flags, 0o600)
    ) as file:
        json.dump({**message["connection"], "ip": f"{folder}/k", "kernel_name": ""}, file)
    return folder


def _alone(channel: socket.socket, code: list[str] | None, worker: int) -> None:
    """Answer without a kernel: as a peer, or when the `code` of a life's cells has run, each whatever became of the others.

    The `worker`'s descriptor hears that it begins, and is closed before any of the student's code runs.
    """
    from IPython.core.interactiveshell import InteractiveShell  # is there: see `prepare`
    from traitlets.config import Config

    _simulate()
    os.write(worker, b'{"began": true}')
    os.close(worker)
    entering.hush()
    tempfile.tempdir = None
    sys.path.insert(0, "")
    sys.argv = ["kernel"]
    names: dict[str, Any] = {}
    if code is not None:
        preload.log_as_in_a_notebook()
        shell = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
        names = shell.user_ns
        for source in code:
            shell.run_cell(source, silent=True)
    with contextlib.suppress(OSError):
        channel.send(b"R")
    answering.serve_alone(channel, names)


def _start(channel: socket.socket, home: str, sockets: str) -> None:
    import zmq  # all are there: see `prepare`
    from ipykernel import kernelapp
    from tornado.ioloop import IOLoop

    class Application(kernelapp.IPKernelApp):
        def init_iopub(self, context: zmq.Context) -> None:
            context.setsockopt(zmq.SNDHWM, UNREAD)
            super().init_iopub(context)

    tempfile.tempdir = None
    sys.path.insert(0, "")  # the kernel's own working folder, as every notebook has it
    sys.argv = ["kernel"]
    application = Application.instance()
    quiet = ["--HistoryManager.enabled=False", "--log-level=ERROR"]
    application.initialize(["-f", f"{home}/connection.json", *quiet])
    _simulate()
    for file in os.scandir(sockets):
        os.chmod(file, 0o777)
    preload.log_as_in_a_notebook()
    answering.serve(channel, IOLoop.current(), application.shell.user_ns)  # type: ignore[union-attr]
    with contextlib.suppress(OSError):
        channel.send(b"R")  # bound and listening: the client may connect
    application.start()
