"""The box: what is in it cannot see, change, reach or outlast anything outside."""

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import venv
from dataclasses import replace
from pathlib import Path

import pytest
from boxed import CAPS, fork_into, inside, needs_a_box, needs_groups, root_only, tried

import across
from across import scripts
from autograder.model.course import Limits
from autograder.sandbox import boxes, bubblewrap, cgroups

pytestmark = needs_a_box


def test_it_has_no_privilege_and_cannot_get_one():
    def status():
        lines = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines())
        return {key: lines[key].strip() for key in ("CapEff", "CapPrm", "CapBnd", "NoNewPrivs")} | {"uid": os.getuid()}

    got, _, _ = inside(status)
    assert got["uid"] != 0
    assert got["NoNewPrivs"] == "1"
    assert {got["CapEff"], got["CapPrm"], got["CapBnd"]} == {"0" * 16}


def test_neither_the_course_nor_the_grader_exists_in_it():
    here = Path(__file__).resolve().parent.parent.parent

    def look():
        return [name for name in ("autograder", "solutions", "notebooks", "tests", ".git") if (here / name).exists()]

    assert look()
    got, _, _ = inside(look)
    assert got == []


def test_an_environment_below_tmp_is_there_and_cannot_be_written(tmp_path, shown):
    (tmp_path / "library.py").write_text("x = 1")
    shown(tmp_path)
    got, _, _ = inside(lambda: [(tmp_path / "library.py").read_text(), *tried(lambda: (tmp_path / "y").touch())])
    assert got == ["x = 1", "Read-only file system"]


def test_of_a_home_in_which_a_prepared_environments_python_lies_a_box_shows_that_python_alone(
    tmp_path, shown, monkeypatch
):
    home, python = tmp_path / "home", tmp_path / "place" / "an-environment" / "bin" / "python"
    for folder in (home / "bin", home / "lib" / "python3.11", python.parent):
        folder.mkdir(parents=True)
    program, library = home / "bin" / "python3.11", home / "lib" / "python3.11" / "os.py"
    for secret in (home / "marks.csv", home / "bin" / "token", library):
        secret.touch()
    program.write_text("#!/bin/sh\necho ran")
    program.chmod(0o755)
    (home / "bin" / "python3").symlink_to("python3.11")
    python.symlink_to(home / "bin" / "python3")
    monkeypatch.setattr(scripts, "PLACE", tmp_path / "place")
    shown(tmp_path / "place")

    def look():
        said = subprocess.run([python], capture_output=True, text=True, check=False).stdout
        return [said, sorted(os.listdir(home)), sorted(os.listdir(home / "bin")), library.exists()]

    got, _, _ = inside(look)
    assert got == ["ran\n", ["bin", "lib"], ["python3", "python3.11"], True]


def test_there_is_no_network_but_its_own_loopback():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def reach():
            interfaces = [name for _, name in socket.if_nameindex()]
            return interfaces, tried(lambda: socket.create_connection(("127.0.0.1", port), 2))

        (interfaces, outside), _, _ = inside(reach)
    assert interfaces == ["lo"]
    assert outside != ["done"]


def test_a_socket_without_a_file_cannot_be_reached():
    name = f"\0across-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()

        def reach():
            with socket.socket(socket.AF_UNIX) as client:
                return tried(lambda: client.connect(name)), Path("/proc/net/unix").read_text().count("@")

        assert reach()[0] == ["done"]
        got, _, _ = inside(reach)
    assert got == [["Connection refused"], 0]


def test_no_other_process_can_be_seen_or_signalled():
    mine = os.getpid()

    def look():
        return sorted(int(name) for name in os.listdir("/proc") if name.isdigit()), tried(lambda: os.kill(mine, 0))

    (pids, signalled), _, _ = inside(look)
    assert max(pids) < 20
    assert signalled == ["No such process"]


def test_a_child_that_left_its_session_ends_with_the_box():
    def daemon():
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execvp("sleep", ["sleep", "987654"])
            os._exit(0)
        deadline = time.monotonic() + 10
        while "987654" not in commands() and time.monotonic() < deadline:
            time.sleep(0.01)
        return "987654" in commands()

    started, _, _ = inside(daemon)
    assert started
    assert "987654" not in commands()


def commands():
    texts = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            texts.append(path.read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return " ".join(texts)


def test_a_file_cannot_grow_beyond_its_limit():
    def grow():
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        with open("/box/big", "wb", buffering=0) as file:
            return tried(lambda: [file.write(b"x" * (1 << 20)) for _ in range(6)])

    got, _, _ = inside(grow)
    assert got == ["File too large"]


@needs_groups
def test_memory_beyond_the_limit_kills_and_is_told():
    def hog():
        blocks = []
        while True:
            blocks.append(b"x" * (8 << 20))

    _, code, ended = inside(hog)
    assert (code, ended.out_of_memory) == (128 + 9, True)


@needs_groups
@pytest.mark.whole
def test_processes_beyond_the_limit_are_refused():
    def bomb():
        made = 0
        try:
            while made < 500:
                if os.fork() == 0:
                    time.sleep(60)
                    os._exit(0)
                made += 1
        except BlockingIOError:
            return made

    # each is a fork of pytest as it is by now: its tables of pages alone may fill a small box
    made, _, _ = inside(bomb, replace(CAPS, memory=4 << 30))
    assert made is not None
    assert made < CAPS.pids


@pytest.mark.skipif(os.getuid() != 0, reason="an ordinary user's boxes have but his own number, and his own limits")
def test_what_a_box_uses_up_another_does_not_miss():
    def fill():  # descriptors in flight: the kernel counts them by user
        one, other = socket.socketpair()
        one.setblocking(False)
        kept = [one, other]
        while True:
            try:
                socket.send_fds(one, [b"x"], [other.fileno()] * 100)
            except BlockingIOError:
                one, other = socket.socketpair()
                one.setblocking(False)
                kept += [one, other]
            except OSError as error:
                if error.errno == errno.ETOOMANYREFS:
                    return kept
                raise

    def send():
        one, other = socket.socketpair()
        return tried(lambda: socket.send_fds(one, [b"x"], [other.fileno()]))

    def beside_a_hog():
        kept = fill()
        os.write(filled[1], b"x" if kept else b"")
        time.sleep(60)

    filled = os.pipe()
    with boxes.Box(f"hog-{os.getpid()}", CAPS) as hog:
        child = fork_into(hog, beside_a_hog)
        assert os.read(filled[0], 1) == b"x"
        got, _, _ = inside(send)
    os.waitpid(child, 0)
    assert got == ["done"]


def test_no_box_notices_what_another_does_to_a_file_that_both_show():
    shown = "/usr/bin/env"
    lock = struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, 0, 0, 0)

    def does():  # as long as the other one looks: every way to leave a word on the file, and reading it
        file = open(shown, "rb")  # noqa: SIM115
        tried(lambda: fcntl.flock(file, fcntl.LOCK_EX), lambda: fcntl.fcntl(file, fcntl.F_OFD_SETLK, lock))
        tried(lambda: fcntl.lockf(file, fcntl.LOCK_SH))
        os.write(done[1], b"x")
        for _ in range(100):
            with open(shown, "rb") as again:
                again.read(1)
            time.sleep(0.02)
        return file.closed

    def looks():
        libc = ctypes.CDLL(None, use_errno=True)
        watch = libc.inotify_init1(os.O_NONBLOCK)
        libc.inotify_add_watch(watch, shown.encode(), 0x20)  # IN_OPEN
        with open(shown, "rb") as file:
            mine = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0)
            free = tried(lambda: fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB))
            seen = [
                tried(lambda ask=ask: found.append(struct.unpack_from("h", fcntl.fcntl(file, ask, mine))[0]))
                for ask in (fcntl.F_GETLK, fcntl.F_OFD_GETLK)
            ]
        locks = [line for line in Path("/proc/locks").read_text().splitlines() if str(os.stat(shown).st_ino) in line]
        time.sleep(0.2)
        return [watch, free, seen, found, locks]

    done, told, found = os.pipe(), os.pipe(), []
    with boxes.Box(f"does-{os.getpid()}", CAPS) as one, boxes.Box(f"looks-{os.getpid()}", CAPS) as other:
        children = [fork_into(one, does)]
        assert os.read(done[0], 1) == b"x"
        children.append(fork_into(other, looks, told[1]))
        got = json.loads(os.read(told[0], 4096))
        with open(shown, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # nor is this machine kept waiting
    for child in children:
        os.waitpid(child, 0)
    refused, absent = ["Operation not permitted"], ["Function not implemented"]
    assert got == [-1, absent, [refused, refused], [], []]


def test_nobody_in_a_box_leaves_a_word_in_the_times_of_a_device():
    devices = [f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty")]

    def does():  # by its name, and by what was open before the process came into the box
        said = tried(*(lambda place=place: os.utime(place) for place in (*devices, 0)))
        with open("/dev/null", "wb") as nowhere, open("/dev/zero", "rb") as zeros, open("/dev/urandom", "rb") as random:
            nowhere.write(b"x")
            return said, len(zeros.read(4) + random.read(4))

    before = [os.stat(each).st_mtime_ns for each in devices[1:]]
    got, _, _ = inside(does)
    assert got == [["Read-only file system"] * 7, 8]
    assert [os.stat(each).st_mtime_ns for each in devices[1:]] == before


def test_a_closed_box_leaves_no_group_and_no_descriptor():
    inside(lambda: 1)  # what is opened once stays
    before = os.listdir("/proc/self/fd")
    box = inside(lambda: 1)[2].box
    assert os.listdir("/proc/self/fd") == before
    assert box.group is None or not any(folder.exists() for folder in box.group.folders)


@root_only
def test_an_ordinary_user_gets_a_box_that_hides_what_it_must_as_well(as_nobody, monkeypatch):
    monkeypatch.setattr(bubblewrap, "hidden", lambda *_: ["/usr/share"])  # stands for a grader in the environment

    def look():
        who = [os.getuid(), [name for _, name in socket.if_nameindex()], os.getpid() < 20]
        return [who, os.listdir("/usr/share"), tried(lambda: open("/usr/share/x", "w").close())]

    assert as_nobody(lambda: inside(look)[:2]) == [[[65534, ["lo"], True], [], ["Read-only file system"]], 0]


def test_a_missing_bubblewrap_is_one_line_with_the_mend(monkeypatch):
    monkeypatch.setattr(boxes.shutil, "which", lambda name: None)
    assert "apt-get install bubblewrap" in boxes.problem()
    assert "\n" not in boxes.problem()


def test_a_bubblewrap_that_fails_says_why(monkeypatch):
    monkeypatch.setattr(bubblewrap, "command", lambda *_: ["sh", "-c", "echo no user namespaces >&2; exit 1"])
    with pytest.raises(boxes.SandboxError, match="no user namespaces"):
        boxes.Box(f"bad-{os.getpid()}", CAPS)
    assert cgroups.leftovers(f"bad-{os.getpid()}") == []


def test_the_limits_of_a_chapter_become_the_boxs():
    limits = Limits()
    caps = boxes.caps(limits)
    assert (caps.memory, caps.pids, caps.file) == (limits.memory_bytes, limits.pids, limits.file_bytes)


def test_a_grader_installed_into_the_environment_is_not_in_the_box(tmp_path):
    """Both packages lie in the environment, as a wheel puts them there; the student's is seen, the grader's is not."""
    for folder in (tmp_path, *list(tmp_path.parents)[:2]):
        folder.chmod(0o755)
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    (site,) = (tmp_path / "env").glob("lib/python*/site-packages")
    for package in (Path(across.__path__[0]), Path(boxes.__file__).parent.parent):
        shutil.copytree(package, site / package.name)
    script = f"""
import os, sys
from autograder.sandbox import boxes, entering
assert boxes.__file__.startswith({str(site)!r})
with boxes.Box("wheel", boxes.Caps(1 << 28, 64, 1 << 20, 1 << 20, 10)) as box:
    child = os.fork()
    if child == 0:
        try:
            entering.enter(box.request())
            os.chdir({str(site)!r})
            seen = [os.listdir("autograder"), os.path.exists("across/fresh.py")]
            try:
                open("autograder/x", "w")
            except OSError as error:
                print(seen, error.strerror, flush=True)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
"""
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    python = [str(tmp_path / "env" / "bin" / "python"), "-c", script]
    said = subprocess.run(python, env=plain, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert said.stdout.strip() in ("[[], True] Read-only file system", "[[], True] Permission denied"), said.stderr


@pytest.mark.parametrize(
    ("shown", "hidden", "mounts"),
    [
        (["/env", "/course/lib"], ["/course"], {"/env": True, "/course/lib": True}),
        (["/usr/local", "/usr/src/app/lib"], ["/usr/src/app"], {"/usr/src/app": False, "/usr/src/app/lib": True}),
        (["/usr/local"], ["/usr/local/lib/autograder"], {"/usr/local/lib/autograder": False}),
        (["/env"], ["/env/course", "/env/course/autograder"], {"/env": True, "/env/course": False}),
        (["/course"], ["/course", "/course/solutions"], {"/course": True, "/course/solutions": False}),
    ],
    ids=["side by side", "a checkout in /usr", "a wheel in /usr", "a checkout in the environment", "the reverse"],
)
def test_what_holds_the_course_shows_nothing_of_it(shown, hidden, mounts):
    assert dict(bubblewrap.mounts(shown, hidden)) == mounts


def test_a_bubblewrap_killed_while_it_builds_leaves_nothing_and_nobody_waits_for_it(tmp_path, monkeypatch):
    fake = tmp_path / "bwrap"  # as it is between clone and prctl: its child holds the pipes, and waits for ever
    child = f'exec -a bwrap {sys.executable} -c "import time; time.sleep(60)" "$@"'
    fake.write_text(f"#!/bin/bash\n({child}) &\necho $! >child\nsleep 0.2\nkill -9 $$\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    began = time.monotonic()
    with pytest.raises(boxes.SandboxError, match="ended at once"):
        boxes.Box(f"j{os.getpid()}-orphan", CAPS)
    assert time.monotonic() - began < 10
    assert cgroups.leftovers(f"j{os.getpid()}-orphan") == []
    child_is_there = Path(f"/proc/{(tmp_path / 'child').read_text().strip()}").exists
    while child_is_there() and time.monotonic() - began < 10:  # until it is reaped
        time.sleep(0.01)
    assert not child_is_there()


def kill_everything():
    """Kill every process but this one, for a second, as often as it can; what is left beside it."""
    until = time.monotonic() + 1
    while time.monotonic() < until:
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != os.getpid():
                for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGCHLD, signal.SIGKILL):
                    with contextlib.suppress(OSError):
                        os.kill(int(name), number)
        time.sleep(0.01)
    return sorted(name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid())


def leave_orphans():
    """Leave twenty processes to process 1, and end them; the states of all but this one after a while."""
    for _ in range(20):
        if not os.fork():
            if not os.fork():
                time.sleep(0.2)
            os._exit(0)
        os.wait()
    until = time.monotonic() + 10
    while time.monotonic() < until:
        others = [name for name in os.listdir("/proc") if name.isdigit() and int(name) not in (1, os.getpid())]
        if not others:
            break
        time.sleep(0.05)
    return others


@root_only
@pytest.mark.parametrize(("does", "left"), [(kill_everything, ["1"]), (leave_orphans, [])])
def test_nothing_in_an_ordinary_users_box_ends_it_and_no_orphan_stays_a_zombie(as_nobody, does, left):
    def in_a_box():
        said, _, ended = inside(does)
        return [said, ended.broken]

    assert as_nobody(in_a_box) == [left, False]
