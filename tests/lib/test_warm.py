import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import ended, forked

from across._process import warm
from across._process.warm import Child, ForkServer, ServerError

pytestmark = forked

MODULE = """
    import json, os, random, signal, socket, subprocess, sys, time
    import numpy.random

    def child(message, fds, connection):
        def say(**what):
            connection.send(json.dumps(what).encode())
        match message["do"]:
            case "exit":
                return message["code"]
            case "echo":
                say(got=message["text"])
            case "raw":
                connection.send(message["text"].encode())
            case "write":
                os.write(fds[0], b"through the descriptor")
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "raise":
                raise ValueError("broken")
            case "hang":
                say(ready=True)
                time.sleep(600)
            case "leave":
                leftover = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
                say(leftover=leftover.pid)
                if message["stay"]:
                    time.sleep(600)
            case "descriptors":
                links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
                say(open=[os.readlink(link) for link in links if os.path.lexists(link)])
            case "where":
                say(directory=os.getcwd(), pid=os.getpid())
            case "draw":
                say(drawn=[random.random(), float(numpy.random.random())])

    def before(message):
        here = os.getcwd()
        os.chdir(message.get("place", here))
        return lambda: os.chdir(here)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("modules")
    (path / "served.py").write_text(textwrap.dedent(MODULE))
    (path / "fails.py").write_text("raise RuntimeError('cannot be imported')\n")
    (path / "runs_an_op.py").write_text("import tensorflow as tf\ntf.add(1, 2)\n")
    return path


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ForkServer]:
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    with ForkServer("served", env={"PYTHONPATH": path}) as running:
        yield running


def test_a_child_answers_and_its_exit_code_arrives(server):
    with server.request({"do": "echo", "text": "é"}) as child:
        assert child.receive(30) == {"got": "é"}
        assert child.receive(30) is None
        assert child.returncode == 0
    assert server.request({"do": "exit", "code": 7}).wait(30) == 7


def test_a_child_gets_the_file_descriptors(server):
    reading, writing = os.pipe()
    with server.request({"do": "write"}, [writing]) as child:
        os.close(writing)
        with open(reading, "rb") as stream:
            assert stream.read() == b"through the descriptor"
        assert child.wait(30) == 0


def test_a_child_that_raises_ends_with_one_and_its_traceback_is_logged(server):
    assert server.request({"do": "raise"}).wait(30) == 1
    assert "ValueError: broken" in Path(server.folder, "log").read_text()


@pytest.mark.parametrize(
    "data", [b"[" * 60_000, b'{"do": ' * 10_000, b"[1]", b'"exit"', b"{", b"\xff", b'{"place": 1.5}', b"no JSON"]
)
def test_what_is_no_request_is_refused_and_the_server_lives(server, data):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(30)
        connection.connect(server.path)
        connection.send(data)
        assert connection.recv(100) == b""
    assert server.request({"do": "exit", "code": 7}).wait(30) == 7


def test_a_message_nested_deeper_than_our_stack_is_no_message(server):
    with server.request({"do": "raw", "text": "[" * 60_000}) as child, pytest.raises(ValueError, match="nested"):
        child.receive(30)


def test_waiting_for_a_child_that_hangs_has_a_deadline(server):
    with server.request({"do": "hang"}) as child:
        assert child.receive(30) == {"ready": True}
        with pytest.raises(TimeoutError):
            child.wait(0.05)
        with pytest.raises(TimeoutError):
            child.receive(0)
        assert child.alive()


def test_closing_ends_the_child_and_what_it_started(server):
    child = server.request({"do": "leave", "stay": True})
    message = child.receive(30)
    assert message is not None
    child.close()
    assert child.returncode == -signal.SIGKILL
    assert not child.alive()
    assert ended(message["leftover"])


def test_what_a_child_leaves_behind_ends_with_it(server):
    child = server.request({"do": "leave", "stay": False})
    message = child.receive(30)
    assert message is not None
    assert child.wait(30) == 0
    assert ended(message["leftover"])


def test_closing_at_once_leaves_no_child(server):
    children = [server.request({"do": "hang"}) for _ in range(30)]
    for child in children:
        child.close()
    assert all(ended(child.pid) for child in children)


def test_each_of_many_children_gets_its_own_exit_code(server):
    children = [server.request({"do": "exit", "code": code}) for code in range(40)]
    assert [child.wait(60) for child in children] == list(range(40))


def test_a_child_does_not_hold_the_sockets_of_other_jobs(server):
    with server.request({"do": "hang"}) as other, server.request({"do": "descriptors"}) as child:
        assert other.receive(30) == {"ready": True}
        message = child.receive(30)
    assert message is not None
    sockets = [path for path in message["open"] if path.startswith("socket:")]
    assert len(sockets) == 1  # its own connection
    assert not [path for path in message["open"] if "pidfd" in path]


def test_a_server_that_sees_client_gone_and_child_ended_at_once_goes_on(server):
    assert server.process is not None
    children = [server.request({"do": "hang"}) for _ in range(5)]
    for child in children:
        assert child.receive(30) == {"ready": True}
    os.kill(server.process.pid, signal.SIGSTOP)
    for child in children:
        os.kill(child.pid, signal.SIGKILL)
        child.connection.close()
    os.kill(server.process.pid, signal.SIGCONT)
    assert server.request({"do": "exit", "code": 5}).wait(30) == 5


def test_a_request_too_long_for_a_message_is_refused(server):
    with pytest.raises(ValueError, match=r"send more than .* through a file descriptor"):
        server.request({"do": "echo", "text": "x" * warm.MESSAGE})


def test_closing_the_server_ends_its_children_and_removes_its_folder(folder):
    server = ForkServer("served", env={"PYTHONPATH": str(folder)}).start()
    child: Child = server.request({"do": "hang"})
    assert child.receive(30) == {"ready": True}
    left = Path(server.folder)
    server.close()
    assert ended(child.pid)
    assert not left.exists()
    assert child.wait(30) == -signal.SIGKILL
    with pytest.raises(ServerError, match="does not answer"):
        warm.request(str(left / "warm"), {"do": "exit", "code": 0})


def test_the_server_ends_with_its_owner_also_where_a_fork_of_that_one_lives_on(folder):
    script = """
        import os, signal
        from across._process.warm import ForkServer
        server = ForkServer("served").start()
        child = server.request({"do": "hang"})
        child.receive(30)
        heir = os.fork()  # without exec, as multiprocessing does: it holds whatever the owner holds
        if heir == 0:
            signal.pause()
        print(server.process.pid, child.pid, heir, server.folder, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(folder)},
    ) as owner:
        assert owner.stdout is not None
        *pids, left = owner.stdout.readline().split()
        server, child, heir = map(int, pids)
        try:
            assert ended(server)
            assert ended(child)
            assert not ended(heir, 0)
        finally:
            os.kill(heir, signal.SIGKILL)
    assert not Path(left).exists()


def test_children_end_with_a_server_that_was_killed(folder):
    with ForkServer("served", env={"PYTHONPATH": str(folder)}) as server, server.request({"do": "hang"}) as child:
        assert server.process is not None
        assert child.receive(30) == {"ready": True}
        server.process.kill()
        assert ended(child.pid)


def test_what_children_draw_without_a_seed_differs(server):
    drawn = []
    for _ in range(2):
        with server.request({"do": "draw"}) as child:
            answer = child.receive(30)
            assert answer is not None
            drawn.append(answer["drawn"])
    assert all(one != other for one, other in zip(*drawn, strict=True))


@pytest.mark.parametrize(
    ("module", "said"), [("fails", "RuntimeError: cannot be imported"), ("runs_an_op", "a forked child would hang")]
)
@pytest.mark.whole
def test_a_module_that_cannot_be_served_is_an_error_that_says_why(folder, module, said):
    server = ForkServer(module, env={"PYTHONPATH": str(folder)})
    with pytest.raises(ServerError, match=said):
        server.start()
    assert server.process is None


def test_a_child_is_born_where_the_module_says_and_the_next_one_where_the_server_is(server):
    places = []
    for place in ({"place": "/"}, {}):
        with server.request({"do": "where", **place}) as child:
            said = child.receive(30)
            assert child.wait(30) == 0
        assert said["pid"] == child.pid
        places.append(said["directory"])
    assert places == ["/", os.getcwd()]


def test_a_place_that_is_gone_costs_only_that_request(server, folder):
    with pytest.raises(ServerError):
        server.request({"do": "where", "place": str(folder / "gone")})
    with server.request({"do": "exit", "code": 7}) as child:
        assert child.wait(30) == 7


@pytest.mark.whole
def test_starting_does_not_wait_longer_than_its_deadline(folder):
    (folder / "slow.py").write_text("import time\ntime.sleep(600)\n")
    server = ForkServer("slow", env={"PYTHONPATH": str(folder)}).launch()
    assert server.process is not None
    pid = server.process.pid
    with pytest.raises(ServerError, match=r"did not start within 0.2 s; is the machine busy\?"):
        server.ready(0.2)
    assert ended(pid)
