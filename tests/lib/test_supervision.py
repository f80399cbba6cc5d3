"""Groups of child processes: whatever becomes of their owner, they end, and what they printed can be read."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from processes import ended, forked

from across._process import supervision, warm
from across._process.supervision import Group, Member

pytestmark = forked

MODULE = """
    import os, signal, sys, time

    def child(message, fds, connection):
        for number, fd in enumerate(fds, start=1):
            os.dup2(fd, number)
        os.write(1, message.get("says", "").encode())
        if "code" in message:
            return message["code"]
        if "signal" in message:
            os.kill(os.getpid(), message["signal"])
        time.sleep(600)
"""
Start = Callable[..., Member]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[warm.ForkServer]:
    folder = tmp_path_factory.mktemp("modules")
    (folder / "supervised.py").write_text(textwrap.dedent(MODULE))
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    with warm.ForkServer("supervised", env={"PYTHONPATH": path}) as running:
        yield running


@pytest.fixture(params=["forked", "spawned"])
def start(request: pytest.FixtureRequest, server: warm.ForkServer) -> Start:
    """Start a member of a group that prints `says` and ends by `code` or `signal`, or goes on."""

    def fork(group: Group, name: str, **message: object) -> Member:
        return group.fork(name, server.path, message)

    def spawn(group: Group, name: str, says: str = "", **message: object) -> Member:
        last = f"exit {message['code']}" if "code" in message else "exec sleep 600"
        last = f"kill -{message['signal']} $$" if "signal" in message else last
        return group.spawn(name, ["sh", "-c", f"printf '%s' '{says}'; {last}"], dict(os.environ))

    return fork if request.param == "forked" else spawn


def test_all_that_end_well_are_no_failure(start: Start):
    with Group() as group:
        members = [start(group, str(number), says=f"I am {number}", code=0) for number in range(3)]
        assert group.wait(60.0) is None
        assert [member.stdout.text() for member in members] == ["I am 0", "I am 1", "I am 2"]
        assert [member.code for member in members] == [0, 0, 0]


@pytest.mark.parametrize(
    ("bad", "ending", "how"),
    [(0, {"code": 3}, "(exit code 3)."), (2, {"signal": int(signal.SIGKILL)}, "(signal SIGKILL).")],
)
def test_the_first_that_fails_is_told_while_the_others_go_on(start: Start, bad: int, ending: dict[str, int], how: str):
    with Group() as group:
        members = [start(group, str(number), **(ending if number == bad else {})) for number in range(3)]
        assert group.wait(60.0) is members[bad]
        assert members[bad].how_it_ended() == how
        assert [member.code is None for member in members] == [number != bad for number in range(3)]
    assert all(ended(member.process.pid) for member in members)
    assert not os.path.exists(group.folder)


def test_who_is_late_is_named(start: Start):
    with Group() as group:
        start(group, "early", code=0)
        start(group, "late one"), start(group, "late two")
        group.wait(60.0, failed=lambda _: True)
        with pytest.raises(TimeoutError, match=r"^late one, late two$"):
            group.wait(0.0)


def test_an_interrupt_while_waiting_ends_all(start: Start):
    members: list[Member] = []

    def interrupted() -> None:
        with Group() as group:
            members.append(start(group, "one"))
            group.wait(60.0, on_look=lambda: signal.raise_signal(signal.SIGINT))

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert ended(members[0].process.pid)


def test_an_interrupt_while_starting_leaks_nothing(start: Start, monkeypatch: pytest.MonkeyPatch):
    original = supervision.Member

    def interrupted(*args: object) -> Member:
        signal.raise_signal(signal.SIGINT)  # the process runs, and nobody knows it yet
        return original(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(supervision, "Member", interrupted)
    with pytest.raises(KeyboardInterrupt), Group() as group:
        start(group, "one")
    (member,) = group.members
    assert ended(member.process.pid)


def test_a_group_that_nobody_holds_any_more_ends(start: Start):
    group = Group()
    pid = start(group, "one").process.pid
    folder = group.folder
    del group
    gc.collect()
    assert ended(pid)
    assert not os.path.exists(folder)


def test_what_a_member_started_ends_with_it():
    with Group() as group:
        member = group.spawn("one", ["sh", "-c", "sleep 600 & echo $!; wait"], dict(os.environ))

        def look() -> None:
            if member.stdout.text().endswith("\n"):
                raise EOFError

        with pytest.raises(EOFError):
            group.wait(60.0, on_look=look)
        pid = int(member.stdout.text())
    assert ended(pid)


def test_a_process_that_the_owner_forked_does_not_end_the_group(start: Start):
    with Group() as group:
        member = start(group, "one")
        pid = os.fork()
        if pid == 0:
            group.close()
            os._exit(0)
        os.waitpid(pid, 0)
        assert not ended(member.process.pid, 0)
        assert os.path.exists(group.folder)


def test_a_member_ends_with_its_owner(tmp_path: Path):
    script = """
        import os, signal
        from across._process.supervision import Group
        group = Group()
        print(group.spawn("one", ["sleep", "600"], dict(os.environ)).process.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    owner = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60)
    assert owner.returncode == -signal.SIGKILL
    assert ended(int(owner.stdout))


def test_a_log_is_read_in_whole_characters(tmp_path: Path):
    log = supervision.Log(tmp_path / "log")
    descriptor = log.open()
    parts = []
    for byte in "aé".encode():
        os.write(descriptor, bytes([byte]))
        parts.append(log.new())
    os.close(descriptor)
    assert parts == ["a", "", "é"]
    assert log.text() == "aé"


def test_a_log_that_grows_too_long_is_cut_and_its_end_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(supervision, "LOG", 1 << 16)
    monkeypatch.setattr(supervision, "KEPT", 1 << 10)
    log = supervision.Log(tmp_path / "log")
    descriptor = log.open()
    os.write(descriptor, b"x" * (1 << 16))
    log.cut()
    assert len(log.new()) == 1 << 16
    os.write(descriptor, b"read\nnot read yet")
    log.cut()
    os.write(descriptor, b" and more")
    os.close(descriptor)
    assert log.path.stat().st_size < 2 << 10
    assert log.new() == "read\nnot read yet and more"
    assert log.text().endswith("xread\nnot read yet and more")
    assert "was dropped here" in log.text()


def test_of_what_was_cut_unread_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(supervision, "LOG", 1 << 16)
    monkeypatch.setattr(supervision, "KEPT", 1 << 10)
    log = supervision.Log(tmp_path / "log")
    log.path.write_bytes(b"x" * (1 << 17))
    log.cut()
    text = log.new()
    assert "was dropped here" in text
    assert text.endswith("x" * (1 << 10))
    assert log.new() == ""
