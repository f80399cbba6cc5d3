"""The keeper: a process of this user that keeps warm servers and all that a grader imports, for so many minutes.

    python -P -m autograder.commands.warm_start LOG READY [ARGUMENT ...]      # started by `warm_client`

It has one thread, and serves commands (`warm_client`) of the same user, environment and code: each is run by a child that it
forks, with the command's own streams, folder and environment, on the servers that the keeper has launched (`job.lent`). The
child ends when the command's process does, and so does what it asked those servers for. It looks at the code on the disk before
each: where that is not what it has imported, it takes no more commands, and ends with the last that runs.

It ends when nothing was asked of it for as long as the last command said, at SIGTERM, or when it is told to; its servers
end with it, however it ended. It must import nothing that looks at the terminal (`commands.terminal`): that is the child's.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NoReturn

from across._process import bytecode, forking
from autograder.commands import warm_code, warm_place
from autograder.commands.warm_place import Place, PlaceError
from autograder.job import forkserver
from autograder.job.lent import MESSAGE
from autograder.model import course as courses
from autograder.model import digests
from autograder.model.course import Course, CourseError
from autograder.sandbox import boxes

TYPES = {"argv": list, "environment": dict, "key": dict, "minutes": float, "streams": list}  # of a command's request
FIRST = 60.0  # seconds for the command that started it to ask for what it keeps
IMPORTS = (  # what a command of any kind will need
    "typer",
    "rich.console",
    "rich.progress",
    "rich.table",
    "autograder.authoring.build",
    "autograder.engine.executors",
    "autograder.engine.class_run",
    "autograder.engine.dry_run",
    "autograder.gradebook.late_penalty",
    "autograder.gradebook.record",
    "autograder.gradebook.roll",
    "autograder.gradebook.students",
    "autograder.report.outputs",
    "autograder.report.attention",
    "autograder.report.changes",
    "autograder.report.class_page",
    "autograder.submissions.downloads",
    "autograder.submissions.arrivals",
    "autograder.submissions.handed_in",
)


@dataclass(eq=False)
class Command:
    """A command that runs in a child of ours."""

    minutes: float  # for which to keep what it used, once it has ended


@dataclass(eq=False)
class Kept:
    """The servers of one chapter, and who uses them."""

    group: tuple[str, str]  # of which there is one that is not outdated: the course's folder, the chapter
    servers: forkserver.Servers
    users: set[Command] = field(default_factory=set)
    until: float = 0.0  # time.monotonic: when they end, if nobody uses them
    outdated: bool = False  # what they were made of is not on the disk any more
    plan: dict[str, Any] | None = None  # once a command has seen that they are made of what they say
    passed: set[str] = field(default_factory=set)
    rendered: bool = False  # whether what all pages of the chapter share is made


class Keeper(forking.Server):
    """The loop of the keeper."""

    def __init__(self, place: Place, log: str, path: list[str], code: str) -> None:
        """Listen in `place`; `code` is the digest of what was on the disk, along `path`, before anything was imported."""
        super().__init__(place.at(place.name), SimpleNamespace(child=self.graded, before=self.prepared))
        self.pid = os.getpid()
        self.place, self.log = place, log
        self.path, self.code, self.key = path, code, warm_place.key()
        self.kept: dict[tuple[str, ...], Kept] = {}
        self.commands: set[Command] = set()
        self.until = time.monotonic() + FIRST
        self.listening = True
        self.control: socket.socket | None = None  # of the child that is being forked
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ, (self.accept, None))

    def keep(self) -> NoReturn:
        """Serve until it is time to end."""
        while True:
            now = time.monotonic()
            for key, kept in list(self.kept.items()):
                if not kept.users and kept.until <= now:
                    del self.kept[key]
                    kept.servers.close()
            if not self.commands and not self.running:
                if not self.listening or self.until <= now:
                    self.end()
                self._render()
            times = [self.until, *(kept.until for kept in self.kept.values() if not kept.users)]
            wait = min((each - now for each in times if each > now), default=None)
            for key, _ in self.selector.select(wait):
                # what an earlier event of this batch closed is not ours any more: its number may be another's by now
                if self.selector.get_map().get(key.fd) is key:
                    action, data = key.data
                    action(key.fileobj, data)

    def accept(self, listener: socket.socket, _: None) -> None:
        """Await the request of who has connected, if it is this user's."""
        with contextlib.suppress(OSError):  # gone again
            connection, _address = listener.accept()
            if warm_place.peer(connection)[1] != os.geteuid():
                connection.close()
                return
            self.selector.register(connection, selectors.EVENT_READ, (self.fork, None))

    def read(self, connection: socket.socket, fds: list[int]) -> Any:
        """Return the command that is asked for; ValueError if there is none, or it is not to be run by us: it was told."""
        asked = super().read(connection, fds)
        if asked == {"end": True}:
            self.retire()
            connection.send(json.dumps({"busy": len(self.commands)}).encode())
            raise ValueError("no command")
        if asked != {"run": True} or len(fds) != 5:
            raise ValueError("no command")
        with open(fds.pop(0), "rb") as file:
            file.seek(0)
            command = forking.values(file.read())
        if {name: type(command.get(name)) for name in TYPES} != TYPES:
            raise ValueError("no command")
        if why := self._differs(command["key"]):
            self.retire()
            connection.send(json.dumps({"anew": why}).encode())
            raise ValueError("another's command")
        return command

    def prepared(self, message: dict[str, Any]) -> Callable[[], None]:
        """Before the fork: a socket by which the child asks for servers."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(10.0)
        command = Command(message["minutes"])
        self.commands.add(command)
        self.control = theirs
        self.selector.register(ours, selectors.EVENT_READ, (self.asked, command))
        return theirs.close

    def graded(self, message: dict[str, Any], fds: list[int], connection: socket.socket) -> int:
        """In the child: be the command."""
        assert self.control is not None
        connection.close()  # the keeper holds it
        for server in (each for kept in self.kept.values() for each in kept.servers.every):
            if server.process is not None and server.process.stdin is not None:
                server.process.stdin.close()  # or it could not be ended politely before we have
        return _command(message, fds, self.control)

    def asked(self, control: socket.socket, command: Command) -> None:
        """Do what a child asks for; without a word, its command has ended."""
        try:
            message = forking.values(control.recv(MESSAGE) or b"{}")
            if "lend" in message:
                self._lend(control, message["lend"], command)
            elif "note" in message:
                self._note(message)
            else:
                self._left(control, command)
        except (OSError, ValueError):
            self._left(control, command)

    def ended(self, pidfd: int, pid: int) -> None:
        """Reap a child; where it was killed, remove what its boxes left."""
        killed = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        super().ended(pidfd, pid)
        if killed is not None and killed.si_code != os.CLD_EXITED:
            with contextlib.suppress(OSError):
                boxes.remove_leftovers()

    def retire(self) -> None:
        """Take no more commands, and let another keeper have our place."""
        if self.listening:
            self.listening = False
            self.selector.unregister(self.listener)
            self.listener.close()
            with contextlib.suppress(OSError):
                os.unlink(self.place.name, dir_fd=self.place.fd)

    def end(self) -> NoReturn:
        """End every child, the servers and this process; leave nothing."""
        if os.getpid() != self.pid:  # a signal that came to a child that was just forked
            os._exit(1)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        self.retire()
        for pid in self.running:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
                os.killpg(pid, signal.SIGKILL)
        for kept in self.kept.values():
            kept.servers.close()
        with contextlib.suppress(OSError):
            os.unlink(self.log, dir_fd=self.place.fd)
        with (
            contextlib.suppress(PlaceError, OSError),
            self.place.locked(0.0),
        ):  # else another keeper is being started there
            if self.place.there():
                os.rmdir(self.place.path)
        os._exit(0)

    def launch(self, course: Course, chapter: str) -> None:
        """Launch the servers of a chapter of which we know that it will be asked for."""
        which = [course.dumps(), chapter, forkserver.made_of(course, chapter)]
        kept = self._of(which)
        kept.until = time.monotonic() + FIRST
        for server in kept.servers.every:
            server.launch()

    def _differs(self, theirs: dict[str, Any]) -> str:
        """Why a command is not ours to run; empty if it is."""
        if warm_code.digest(self.path) != self.code:
            return "the grader's code, the library or the installed packages have changed"
        if names := warm_place.differs(self.key, theirs):
            return f"the environment differs ({', '.join(names)})"
        return ""

    def _of(self, which: list[str]) -> Kept:
        """The servers `which`; of the same chapter others are outdated."""
        course, chapter, _ = which
        if tuple(which) not in self.kept:
            read = Course.loads(course)
            self.kept[tuple(which)] = Kept((str(read.root), chapter), forkserver.made(read, chapter))
        return self.kept[tuple(which)]

    def _lend(self, control: socket.socket, which: list[str], command: Command) -> None:
        """Launch those of the servers `which` that do not run, and tell the command of all."""
        why = ""
        try:
            kept = self._of(which)
            kept.users.add(command)
            kept.outdated = False
            for other in self.kept.values():
                if other is not kept and other.group == kept.group and not other.outdated:
                    other.outdated, other.until = True, 0.0
                    why = "the chapter, its checks, its course or what a mark rests on has changed"
            dead = [server for server in kept.servers.every if not server.alive()]
            if dead and kept.plan is not None:
                why = "not all of its servers run any more"
            for server in dead:
                server.launch()
            if dead:
                kept.plan = None
                kept.passed.clear()
            processes = [os.pidfd_open(server.pid) for server in kept.servers.every]
        except OSError as error:
            control.send(json.dumps({"error": str(error)}).encode())
            return
        try:
            servers = [[server.folder, server.pid] for server in kept.servers.every]
            answer = {"servers": servers, "plan": kept.plan, "passed": sorted(kept.passed), "why": why}
            socket.send_fds(control, [json.dumps(answer).encode()], processes)
        finally:
            for process in processes:
                os.close(process)

    def _render(self) -> None:
        """Make what all pages of a chapter share, for those who are forked next; it is known by what it was made of."""
        from autograder.report import feedback

        for kept in self.kept.values():
            if kept.plan is not None and not kept.rendered:
                kept.rendered = True
                with contextlib.suppress(Exception):  # who needs it says what is wrong
                    feedback.prepare(kept.servers.course.chapter(kept.servers.chapter))

    def _note(self, message: dict[str, Any]) -> None:
        """Remember what a child has seen of servers."""
        kept = self.kept.get(tuple(message["note"]))
        if kept is None or message["by"] != [server.pid for server in kept.servers.every]:
            return
        kept.plan = message.get("plan", kept.plan)
        kept.passed |= {*message.get("passed", ())}

    def _left(self, control: socket.socket, command: Command) -> None:
        """A command has ended: what it used is kept for as long as it said."""
        self.selector.unregister(control)
        control.close()
        self.commands.discard(command)
        self.until = time.monotonic() + 60.0 * command.minutes
        for kept in self.kept.values():
            if command in kept.users:
                kept.users.discard(command)
                # what no command has seen to be made of what it says is not kept
                kept.until = 0.0 if kept.outdated or kept.plan is None else self.until


def _command(message: dict[str, Any], fds: list[int], control: socket.socket) -> int:
    """Take the place of a command's process in all that it can see of itself, and run it. Returns its exit code."""
    for number, fd in enumerate(fds[:3]):
        os.dup2(fd, number)
    os.fchdir(fds[3])
    for fd in fds:
        os.close(fd)
    os.environ.clear()
    os.environ.update(message["environment"])
    time.tzset()
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    sys.argv = message["argv"]
    sys.modules["__main__"].__package__ = message["package"]  # by which click calls the command
    for number, (name, how) in enumerate(zip(("stdin", "stdout", "stderr"), message["streams"], strict=True)):
        encoding, errors = how or ("utf-8", "backslashreplace")
        stream = open(number, "w" if number else "r", encoding=encoding, errors=errors, closefd=False)  # noqa: SIM115
        stream.reconfigure(line_buffering=number == 2 or os.isatty(number))
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    bytecode.keep()
    from autograder.commands import terminal, verbs  # these look at the streams
    from autograder.job import lent

    def says(why: str) -> None:
        said = f"[bold yellow]autograder:[/] what was kept warm is started anew: {terminal.plain(why)}"
        terminal.errors.print(said, highlight=False, soft_wrap=True)

    keeper = lent.Keeper(control)
    forkserver.lend(lambda course, chapter: lent.made(course, chapter, keeper, says))
    try:
        verbs.run()
    finally:
        atexit._run_exitfuncs()  # `forking` ends us by os._exit
    return 0


def _expected(arguments: list[str]) -> tuple[Course, str] | None:
    """The course and the chapter that a command is about, if that can be seen without reading it as the command will."""
    folder = [value for name, value in pairwise(arguments) if name == "--course"]
    with contextlib.suppress(Exception):  # the command itself says what is wrong
        course = courses.find(*map(courses.Path, folder[:1]))
        for word in arguments[arguments.index("grade") + 1 :]:
            with contextlib.suppress(CourseError):
                return course, course.full_name(word)
    return None


def main(path: list[str], code: str) -> NoReturn:
    """Be a keeper: launch what the first command will ask for, import, listen, and tell the command that it may ask.

    `code` is the digest of what was on the disk, along `path`, before anything was imported.
    """
    log, ready, arguments = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    bytecode.keep()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # no SIG_IGN: the servers would inherit it, and what students' code does to itself would have another end
    signal.signal(signal.SIGHUP, lambda _number, _frame: None)
    digests.grader()
    expected = _expected(arguments)
    place = warm_place.opened()
    gc.disable()  # what is imported stays
    keeper = Keeper(place, log, path, code)  # nobody asks before it is told that we are ready
    if "PYTHONPATH" in os.environ:  # of the servers: they mean the folder where the command works
        places = os.environ["PYTHONPATH"].split(os.pathsep)
        os.environ["PYTHONPATH"] = os.pathsep.join(os.path.abspath(each) for each in places if each)
    os.chdir("/")
    signal.signal(signal.SIGTERM, lambda _number, _frame: keeper.end())
    if expected and "--trust-submissions" not in arguments:
        with contextlib.suppress(Exception):  # what is wrong is told by the command itself
            keeper.launch(*expected)
    for name in IMPORTS:
        importlib.import_module(name)
    gc.freeze()
    gc.enable()
    try:
        os.write(ready, b"!")
    except BrokenPipeError:  # who has started us is gone
        keeper.end()
    os.close(ready)
    keeper.keep()
