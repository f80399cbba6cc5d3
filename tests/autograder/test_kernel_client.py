"""Sockets of a kernel are reached by a descriptor of their folder, and never where a link leads."""

import os
import socket
import time

import pytest
import zmq.asyncio

from autograder.job.kernel_client import KernelClient, SilentError

CONNECTION = {"transport": "ipc", "key": "", "signature_scheme": "hmac-sha256", "shell_port": 1, "iopub_port": 2}


@pytest.fixture
def folder(tmp_path):
    """A folder as a kernel has it, and a descriptor of it."""
    opened = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    yield tmp_path, opened
    os.close(opened)


def listening(path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    listener.setblocking(False)
    return listener


def came(listener):
    """Whether somebody has connected."""
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


@pytest.mark.parametrize("kind", ["link", "file", "folder", "nothing"])
def test_what_stands_where_a_socket_should_be_is_not_connected_to(folder, tmp_path_factory, kind):
    path, opened = folder
    elsewhere = tmp_path_factory.mktemp("x") / "s"
    with listening(elsewhere) as other, listening(path / "k-1"):
        if kind == "link":
            (path / "k-2").symlink_to(elsewhere)
        elif kind == "file":
            (path / "k-2").write_text("")
        elif kind == "folder":
            (path / "k-2").mkdir()
        client = KernelClient(CONNECTION, opened, lambda: True)
        with pytest.raises(SilentError, match="channel iopub is"):
            client.ready(zmq.asyncio.Context(), 1.0)
        client._hush()
        assert not came(other)


def test_a_link_put_there_later_is_not_followed_when_libzmq_connects_anew(folder, tmp_path_factory):
    path, opened = folder
    elsewhere = tmp_path_factory.mktemp("x") / "s"
    lives = [True]
    with listening(elsewhere) as other, listening(path / "k-1") as shell, listening(path / "k-2") as iopub:
        client = KernelClient(CONNECTION, opened, lambda: lives[0])
        context = zmq.asyncio.Context()
        client._hold()
        assert not client._listening(context, time.monotonic())
        until = time.monotonic() + 20
        for listener in (shell, iopub):  # each connection is closed by us, as by a student's kernel
            while not came(listener):
                assert time.monotonic() < until
                time.sleep(0.01)
        for name in ("k-1", "k-2"):
            (path / name).unlink()
            (path / name).symlink_to(elsewhere)
        again = 0
        while again < 3:
            again += came(shell)
            assert time.monotonic() < until
            time.sleep(0.01)
        client._hush()
        context.destroy(0)
        assert not came(other)
