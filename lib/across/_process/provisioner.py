"""Warm kernels for Jupyter: whatever starts kernels through jupyter_client gets forks of one warm process.

Registered as the kernel provisioner `across-warm`. JupyterLab, nbgrader's Validate, nbclient and papermill use it
unmodified once the environment says `JUPYTER_DEFAULT_PROVISIONER_NAME=across-warm` (see `turn_on`). A kernel that cannot
be forked (another Python, no Linux, environment variables that TensorFlow or Python read when they start) starts cold.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
import threading
from collections.abc import Mapping
from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning.factory import KernelProvisionerFactory
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from across._process import warm

NAME = "across-warm"
CHOICE = "JUPYTER_DEFAULT_PROVISIONER_NAME"  # jupyter_client's own variable
EARLY = ("PYTHON", "TF_", "XLA_", "LD_", "KERAS_")  # variables that are read before a fork could set them

_server: warm.ForkServer | None = None
_lock = threading.Lock()


def turn_on() -> None:
    """Make warm kernels the default in this process and those it starts; launch their server without waiting for it."""
    os.environ[CHOICE] = NAME
    KernelProvisionerFactory.instance().default_provisioner_name = NAME  # which reads the environment only once
    if warm.available():
        with _lock:
            _launched()


def turn_off() -> None:
    """End the server that this process launched, and every kernel of it."""
    global _server
    with _lock:
        if _server is not None:
            _server.close()
            _server = None


def _launched() -> warm.ForkServer:
    """The server of this process, launched if need be. Call with the lock held."""
    global _server
    if _server is None or not _server.alive():
        _server = warm.ForkServer("across._process.warm_kernel").launch()
        atexit.register(turn_off)
    return _server


class WarmProvisioner(LocalProvisioner):
    """Launches a kernel by a fork where that gives the same kernel, and as LocalProvisioner does elsewhere."""

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Fork a warm kernel, or start a cold one."""
        forked = await asyncio.to_thread(self._fork, cmd, kwargs)
        if forked is None:
            return await super().launch_kernel(cmd, **kwargs)
        self.process = forked  # type: ignore[assignment]
        self.pid = self.pgid = forked.pid  # type: ignore[assignment]
        self.cwd = kwargs.get("cwd") or os.getcwd()
        return self.connection_info

    def _fork(self, cmd: list[str], kwargs: dict[str, Any]) -> warm.Child | None:
        """A forked kernel, or None where it has to start cold."""
        argv = kernel_arguments(cmd)
        streams = [_descriptor(kwargs.get(name), fd) for name, fd in (("stdout", 1), ("stderr", 2))]
        env = dict(kwargs.get("env") or os.environ)
        if argv is None or None in streams or not warm.available() or early(env) != early(os.environ):
            return None
        try:
            message = {"argv": argv, "cwd": os.fspath(kwargs.get("cwd") or os.getcwd()), "env": env}
            return warm.request(_socket(), message, streams)  # type: ignore[arg-type]
        except (warm.ServerError, ValueError, OSError) as error:
            self.log.warning("no warm kernel, starting a cold one: %s", error)
            return None


def kernel_arguments(cmd: list[str]) -> list[str] | None:
    """What follows `-m ipykernel_launcher` in a command that starts this Python's own kernel; else None."""
    if cmd[1:3] == ["-m", "ipykernel_launcher"] and cmd[0] in ("python", "python3", sys.executable):
        return cmd[3:]
    if cmd[1:4] == ["-Xfrozen_modules=off", "-m", "ipykernel_launcher"] and cmd[0] == sys.executable:
        return cmd[4:]
    return None


def early(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that are read when Python or TensorFlow starts; TensorFlow's log level we set ourselves."""
    return {key: env[key] for key in env if key.startswith(EARLY) and key != "TF_CPP_MIN_LOG_LEVEL"}


def _socket() -> str:
    """The socket of this process's server, which is launched if need be. Raises warm.ServerError."""
    with _lock:
        return _launched().ready().path


def _descriptor(stream: Any, default: int) -> int | None:
    """The file descriptor for what Popen takes as stdout or stderr; None where it asks for a pipe."""
    fd = default if stream is None else stream if isinstance(stream, int) else stream.fileno()
    if fd < 0:
        return None
    try:
        os.fstat(fd)
    except OSError:
        return None
    return fd
