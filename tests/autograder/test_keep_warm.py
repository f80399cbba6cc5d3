"""`grade --keep-warm`: the same marks by the same code, in what is kept; it ends by idleness and is known by nobody else."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import pty
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import courses
import pytest
from lms_downloads import wait_for
from small_course import CHECKS, NAME, RIGHT, SOURCE

from autograder.commands import warm_client, warm_code, warm_place
from autograder.sandbox import boxes

needs_box = pytest.mark.skipif(bool(boxes.problem()), reason=boxes.problem())
BIN = Path(sys.executable).parent / "autograder"
TRIPLE = "def double(x):\n    return 3 * x"
ENDLESS = "def double(x):\n    while True:\n        pass"


class Grader:
    """A course with submissions, and a place for keepers of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.course = courses.write(folder / "course", NAME, SOURCE, CHECKS)
        self.tmp, self.path = folder / "t", folder / "path"
        for each in (self.tmp, self.path):
            each.mkdir()
        self.env = {**os.environ, "TMPDIR": str(self.tmp), "PYTHONPATH": str(self.path)}
        self.place = self.tmp / f"across-kept-{os.geteuid()}"

    def hand_in(self, double: str = RIGHT["double"]) -> None:
        notebook = json.loads(self.course.notebook(NAME).read_text())
        for cell in notebook["cells"]:
            meta = cell["metadata"].get("nbgrader", {})
            if meta.get("solution"):
                cell["source"] = {**RIGHT, "double": double}[meta["grade_id"]]
        place = self.folder / "in" / "ada" / NAME
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{NAME}.ipynb").write_text(json.dumps(notebook))

    def start(self, out: str, *more: str, **how) -> subprocess.Popen[str]:
        command = [BIN, "--course", self.course.root, "grade", NAME, "--submissions", self.folder / "in"]
        command += ["--out", self.folder / out, "--workers", "1", *more]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "env": self.env, **how}
        return subprocess.Popen([str(each) for each in command], **streams)

    def grade(self, out: str, *more: str, code: int = 0, **how) -> str:
        with self.start(out, *more, **how) as process:
            said = process.communicate(timeout=120)[0]
        assert process.returncode == code, said
        return said

    def rows(self, out: str) -> list[dict[str, str]]:
        with open(self.folder / out / "marks.csv") as file:
            return list(csv.DictReader(file))

    def double(self, out: str) -> dict[str, str]:
        return next(row for row in self.rows(out) if row["exercise"] == "double")

    def keeper(self) -> int:
        """The process number of the keeper that listens; 0 if there is none."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TMPDIR", str(self.tmp))
            with contextlib.suppress(warm_place.PlaceError):
                place = warm_place.opened(make=False)
                try:
                    connection = place.connect()
                    if connection is not None:
                        with connection:
                            return warm_place.peer(connection)[0]
                finally:
                    place.close()
        return 0

    def end(self) -> None:
        subprocess.run([BIN, "grade", "--keep-warm", "0"], env=self.env, check=True, timeout=60)


def children(pid: int, word: str = "") -> list[int]:
    """The processes that a process has forked, by what stands in their command lines."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(each) for each in task.read_text().split() if word in line(int(each))]
    return found


def line(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


def below(pid: int) -> list[int]:
    return [each for child in children(pid) for each in (child, *below(child))]


def servers(keeper: int) -> list[int]:
    return sorted(children(keeper, "across._process.warm"))


def running(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    return False


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """One for all tests that leave it as they found it."""
    made = Grader(tmp_path_factory.mktemp("kept"))
    yield made
    made.end()
    assert list(made.tmp.glob("across-kept*")) == []


@pytest.fixture
def own(tmp_path):
    made = Grader(tmp_path)
    yield made
    made.end()


@needs_box
def test_marks_are_the_same_and_the_next_command_finds_the_same_servers(kept):
    kept.hand_in(TRIPLE)
    said = kept.grade("ordinary")
    assert kept.keeper() == 0
    assert list(kept.tmp.glob("across-kept*")) == []
    warm = kept.grade("warm", "--keep-warm", "5")
    before = servers(kept.keeper())
    assert len(before) == 3
    again = kept.grade("again", "--keep-warm=5")
    assert servers(kept.keeper()) == before
    assert kept.rows("ordinary") == kept.rows("warm") == kept.rows("again")
    assert [each.replace("/warm/", "/X/").replace("/again/", "/X/") for each in (warm, again)]
    assert said.replace("/ordinary/", "/warm/").splitlines()[-3:] == warm.splitlines()[-3:]
    for name in ("feedback/ada", f"report_{NAME}.html", "gradebook.db"):
        assert (kept.folder / "again" / name).exists()
    kept.hand_in()
    assert "1 graded" in kept.grade("again", "--keep-warm", "5")
    assert kept.double("again")["points"] == "2"
    assert servers(kept.keeper()) == before


@needs_box
def test_two_commands_at_once_are_both_served(kept):
    kept.hand_in()
    started = [kept.start(f"beside{n}", "--keep-warm", "5") for n in range(2)]
    said = [each.communicate(timeout=120)[0] for each in started]
    assert [each.returncode for each in started] == [0, 0], said
    assert kept.rows("beside0") == kept.rows("beside1")


@needs_box
def test_it_speaks_to_the_terminal_of_the_command_and_knows_its_folder(kept):
    kept.hand_in()
    ours, theirs = pty.openpty()
    said = bytearray()

    def read():
        with contextlib.suppress(OSError):
            while part := os.read(ours, 4096):
                said.extend(part)

    reader = threading.Thread(target=read)
    reader.start()
    env = {**kept.env, "TERM": "xterm-256color"}
    options = ["--submissions", "in", "--out", "from here", "--keep-warm", "5"]
    command = [BIN, "--course", "course", "grade", NAME, *options]
    process = subprocess.Popen(command, cwd=kept.folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    assert process.wait(120) == 0, said.decode()
    reader.join(20)
    os.close(ours)
    assert b"\x1b[1m" in said
    assert b"feedback" in said
    assert (kept.folder / "from here" / "marks.csv").exists()


@needs_box
def test_wrong_usage_ends_as_it_does_without(kept):
    kept.hand_in()
    kept.grade("usage", "--keep-warm", "5", "--student", "nobody", code=2)
    kept.grade("usage", "--keep-warm", "5", "--nonsense", code=2)
    kept.grade("usage", "--keep-warm", "-1", code=2)


KILLS = {
    "Ctrl-C at the command": ("command", signal.SIGINT, 130, "interrupted; what was graded is kept"),
    "SIGTERM at the command": ("command", signal.SIGTERM, 143, "interrupted; what was graded is kept"),
    "the command": ("command", signal.SIGKILL, -9, ""),
    "what the keeper forked": (
        "child",
        signal.SIGKILL,
        1,
        "this machine failed: the process that graded was ended by signal 9",
    ),
    "the keeper": ("keeper", signal.SIGKILL, 1, "was ended from outside"),
    "the keeper's polite end": ("keeper", signal.SIGTERM, 1, "was ended from outside"),
}


@needs_box
@pytest.mark.parametrize("how", KILLS)
def test_whatever_is_killed_nothing_is_left_and_the_next_command_works(kept, how):
    which, number, code, words = KILLS[how]
    kept.hand_in()
    kept.grade("whole", "--keep-warm", "5")  # so the reference has passed: who is executed now is the student
    keeper = kept.keeper()
    known = servers(keeper)
    kept.hand_in(ENDLESS)
    process = kept.start("killed", "--keep-warm", "5")
    student = next(pid for pid in known if "student_server" in line(pid))
    wait_for(lambda: children(student), 60)
    started = {child for server in known for child in below(server)}
    [child] = [pid for pid in children(keeper) if pid not in known]
    started |= {child, *below(child)}
    os.kill({"command": process.pid, "child": child, "keeper": keeper}[which], number)
    said = process.communicate(timeout=60)[0]
    assert process.returncode == code, said
    assert words in said
    wait_for(lambda: not any(map(running, started)), 30)
    if which == "keeper":
        wait_for(lambda: not any(map(running, [keeper, *known])), 30)
        assert not kept.place.exists()
    else:
        assert servers(keeper) == known
    kept.hand_in(TRIPLE)
    kept.grade("killed", "--keep-warm", "5")
    assert kept.double("killed")["points"] == "0"
    assert kept.double("killed")["verdict"] == "failed"
    assert {*kept.tmp.glob("across-*")} == {kept.place}  # nothing is left of where students' files were unpacked


@needs_box
def test_a_server_that_is_killed_is_started_anew_and_said_so(kept):
    kept.hand_in()
    kept.grade("whole", "--keep-warm", "5")
    keeper = kept.keeper()
    for word in ("student_server", "checker"):
        [server] = children(keeper, word)
        os.kill(server, signal.SIGKILL)
        said = kept.grade("whole", "--keep-warm", "5", "--again")
        assert "started anew: not all of its servers run any more" in said
        assert server not in servers(keeper)
    assert kept.keeper() == keeper
    assert kept.double("whole")["points"] == "2"


@needs_box
def test_a_check_that_was_edited_marks_from_then_on(own):
    own.hand_in(TRIPLE)
    own.grade("out", "--keep-warm", "5")
    assert own.double("out")["message"] == "The result is not twice the argument."
    before = servers(own.keeper())
    checks = own.course.check_file(NAME)
    checks.write_text(checks.read_text().replace("The result is not twice", "It is not twice"))
    said = own.grade("out", "--keep-warm", "5")
    assert "1 graded" in said
    assert "started anew: the chapter, its checks" in said
    assert own.double("out")["message"] == "It is not twice the argument."
    wait_for(lambda: not any(map(running, before)), 30)
    checks.write_text(checks.read_text().replace("x * 2)", "x * 3)"))
    assert "the reference is failed" in own.grade("out", "--keep-warm", "5", code=2).replace("\n", " ")


@needs_box
def test_another_environment_or_a_new_package_is_another_keeper(own):
    own.hand_in()
    own.grade("out", "--keep-warm", "5")
    first = own.keeper()
    (own.path / "something-1.0.dist-info").mkdir()
    assert "started anew: the grader's code, the library or the installed packages" in own.grade(
        "out", "--keep-warm", "5"
    )
    second = own.keeper()
    own.env["TZ"] = "Asia/Shanghai"
    assert "started anew: the environment differs (TZ)" in own.grade("out", "--keep-warm", "5")
    third = own.keeper()
    assert len({first, second, third}) == 3
    wait_for(lambda: not running(first) and not running(second), 30)
    own.end()
    assert not running(third)


@needs_box
def test_idleness_ends_it_and_leaves_nothing(own):
    own.hand_in()
    own.grade("out", "--keep-warm", "0.05")
    keeper = own.keeper()
    known = servers(keeper)
    folders = [Path(word).parent for pid in known for word in line(pid).split() if word.endswith("/warm")]
    assert len(folders) == 3
    wait_for(lambda: not any(map(running, [keeper, *known])), 60)
    assert [each for each in folders if each.exists()] == []
    assert list(own.tmp.iterdir()) == []


def closed(place: Path, tmp_path: Path) -> None:
    place.mkdir(0o700)
    place.chmod(0o750)


def linked(place: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(0o700)
    place.symlink_to(tmp_path / "elsewhere")


def anothers(place: Path, tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can give a folder away")
    place.mkdir(0o700)
    os.chown(place, 65534, 65534)


def a_file(place: Path, tmp_path: Path) -> None:
    place.write_text("")


@pytest.mark.parametrize("made", [closed, linked, anothers, a_file])
def test_a_folder_that_is_not_ours_alone_is_refused(tmp_path, monkeypatch, made):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    made(tmp_path / f"across-kept-{os.geteuid()}", tmp_path)
    with pytest.raises(warm_place.PlaceError, match=r"across-kept.*remove it"):
        warm_place.opened()


@needs_box
def test_where_the_folder_is_refused_a_class_is_graded_all_the_same(own):
    own.hand_in()
    closed(own.place, own.folder)
    said = own.grade("out", "--keep-warm", "5")
    assert "nothing is kept warm" in said
    assert own.double("out")["points"] == "2"
    assert list(own.place.iterdir()) == []
    own.place.rmdir()


SPIES = {
    "its folder": "any(map(os.path.lexists, ({place!r}, *glob.glob('/tmp/across-*'), *glob.glob('/run/across-*'))))",
    "its process": "any(b'warm_start' in read(each) for each in glob.glob('/proc/[0-9]*/cmdline'))",
    "its socket": "b'{name}' in read('/proc/net/unix')",
}
SPY = """
import contextlib, glob, os
def read(name):
    with contextlib.suppress(OSError):
        return open(name, "rb").read()
    return b""
def double(x):
    return 2 * x if {seen} else None
"""


@needs_box
@pytest.mark.parametrize("what", SPIES)
def test_a_students_box_does_not_see_it(kept, what):
    name = warm_place.Place("", 0).name
    kept.hand_in(SPY.replace("{seen}", SPIES[what].format(place=str(kept.place), name=name)))
    kept.grade("spied", "--keep-warm", "5")
    assert kept.keeper()
    assert kept.double("spied")["verdict"] == "failed"
    kept.grade("spied", "--keep-warm", "5", "--trust-submissions")  # without a box it would: the spy works
    assert kept.double("spied")["verdict"] == "passed"
    assert kept.double("spied")["points"] == "2"


@needs_box
def test_what_is_no_request_is_no_end_of_it(kept):
    kept.hand_in()
    kept.grade("asked", "--keep-warm", "5")
    keeper = kept.keeper()
    commands = [
        b"[]",
        b"{}",
        b'{"argv": 1}',
        b"[" * 60_000,
        b'{"argv": [], "environment": {}, "key": {}, "minutes": "5", "streams": []}',
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(kept.tmp))
        place = warm_place.opened(make=False)
        for request in (b"", b"[1]", b'"end"', b"{}", b'{"end": "x"}', b'{"run": true}', b'{"run": 0}', b"[" * 60_000):
            for command in commands if request == b'{"run": true}' else [b""]:
                for count in (0, 1, 5, 6):
                    file = os.memfd_create("command")
                    os.write(file, command)
                    with place.connect() as connection, contextlib.suppress(OSError):
                        socket.send_fds(connection, [request], [file] * count)
                        assert connection.recv(100) == b""
                    os.close(file)
        place.close()
    assert kept.keeper() == keeper
    assert "started" not in kept.grade("asked", "--keep-warm", "5")


@pytest.mark.parametrize(
    ("interrupted", "code", "says"),
    [(False, None, "nothing is kept warm: the process that keeps it does not answer"), (True, 130, "interrupted;")],
)
def test_who_does_not_answer_is_not_waited_for(tmp_path, monkeypatch, capfd, interrupted, code, says):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(warm_client, "ANSWER", 1.0)
    if interrupted:  # while it is waited for, and its handler stands
        ask = warm_client._ask
        monkeypatch.setattr(warm_client, "_ask", lambda *args: (ask(*args), signal.raise_signal(signal.SIGINT)))
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    place = warm_place.opened()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stopped:  # as by SIGSTOP
        stopped.bind(place.at(place.name))
        stopped.listen()
        try:
            assert warm_client.run(["autograder", "grade", "03"], 5.0) == code
        finally:
            place.close()
            for number, handler in handlers.items():
                signal.signal(number, handler)
    assert says in capfd.readouterr().err


@needs_box
def test_it_is_ended_by_name_whatever_course_is_named(own):
    own.hand_in()
    own.grade("out", "--keep-warm", "5")
    keeper = own.keeper()
    ended = [BIN, "--course", own.course.root, "grade", "--keep-warm=0"]
    assert subprocess.run(ended, env=own.env, check=False, timeout=60).returncode == 0
    assert not running(keeper)


def test_only_the_option_asks_for_it():
    assert warm_client.asked(["grade", "03", "--keep-warm", "2.5"]) == 2.5
    assert warm_client.asked(["--course", "x", "grade", "03", "--keep-warm=0"]) == 0.0
    for words in (
        ["grade", "03"],
        ["report", "--keep-warm", "3"],
        ["grade", "--keep-warm"],
        ["grade", "--keep-warm", "nan"],
    ):
        assert warm_client.asked(words) is None
    for number in ("-1", "inf", "1e9", "soon"):
        assert warm_client.asked(["grade", "03", "--keep-warm", number]) is None
    assert warm_client.asked(["grade", "--help", "--keep-warm", "3"]) is None


@pytest.mark.parametrize("name", ["engine/class_run.py", "report/templates/page.css", "checks/new.py"])
def test_every_file_of_the_grader_is_part_of_what_a_keeper_runs(tmp_path, monkeypatch, name):
    import autograder

    for folder in ("engine", "report/templates", "checks"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "engine/class_run.py").write_text("a = 1\n")
    monkeypatch.setattr(autograder, "__path__", [str(tmp_path)])
    before = warm_code.digest([])
    assert warm_code.digest([]) == before
    (tmp_path / name).write_text("a = 2\n")
    assert warm_code.digest([]) != before


def test_a_keeper_looks_at_no_terminal_before_a_command_has_come():
    program = (
        "import importlib, sys\nfrom autograder.commands import warm_keeper\n"
        "for name in warm_keeper.IMPORTS: importlib.import_module(name)\n"
        "import os; print('autograder.commands.terminal' in sys.modules, len(os.listdir('/proc/self/task')))"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert said.stdout.split() == ["False", "1"]  # of one thread: what it forks has no other's locks


def test_a_command_imports_little_before_it_has_asked():
    program = (
        "import sys\nfrom autograder.commands import cli\nprint(*sorted({each.split('.')[0] for each in sys.modules}))"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert {"typer", "rich", "numpy", "nbformat", "msgspec", "asyncio"} & set(said.stdout.split()) == set()


def test_a_file_that_only_the_command_has_open_is_read_by_the_command_itself(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert warm_client.run(["autograder", "grade", "03", "--roster", "/dev/fd/63"], 5.0) is None
    assert "nothing is kept warm: /dev/fd/63 is a file that only this command has open" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_what_is_relative_means_the_folder_where_the_command_works(tmp_path, monkeypatch):
    keys = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        monkeypatch.setenv("PYTHONPATH", "lib")
        monkeypatch.setenv("TMPDIR", ".")
        keys.append(warm_place.key())
        place = warm_place.opened()
        assert place.path == str(tmp_path / name / f"across-kept-{os.geteuid()}")
        place.close()
    assert "PYTHONPATH" in warm_place.differs(*keys)
