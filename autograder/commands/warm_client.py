"""A command that asks for something to be kept warm: it hands itself to the keeper, and ends as what the keeper forked ends.

The keeper (`warm_keeper`) is started where there is none, or where the one that is there is of something else. What cannot be
done so is done in the ordinary way, and a line says why: no mark waits for a convenience.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence
from itertools import pairwise

from across import _system
from autograder.commands import warm_place
from autograder.commands.warm_place import Place, PlaceError

OPTION = "--keep-warm"
LONGEST = 24 * 60.0  # minutes
START = 120.0  # seconds for a keeper to import and to listen
LOOK = 0.1  # seconds after which it is seen that we were interrupted meanwhile
ANSWER = 20.0  # seconds for a keeper to fork
TRIES = 3
MESSAGE = 1 << 16
OPENED = ("/dev/fd/", "/proc/self/")  # `--roster <(...)`, for one: only our standard streams are handed over
INTERRUPTED = "interrupted; what was graded is kept: run the same command again to go on"
AGAIN = "what was graded is kept: run the same command again to go on"


def asked(arguments: Sequence[str]) -> float | None:
    """For how many minutes a command asks; None where it does not, or where the verbs have something to say of it."""
    if "grade" not in arguments or "--help" in arguments:
        return None
    said = [value for name, value in pairwise(arguments) if name == OPTION]
    said += [each[len(OPTION) + 1 :] for each in arguments if each.startswith(f"{OPTION}=")]
    try:
        minutes = float(said[-1])
    except (IndexError, ValueError):
        return None
    return minutes if math.isfinite(minutes) and 0 <= minutes <= LONGEST else None


def _nothing_more(arguments: Sequence[str]) -> bool:
    """Whether a command grades nobody: `grade --keep-warm 0`, of whatever course."""
    rest = iter(arguments)
    names = (OPTION, "--course")
    more = [each for each in rest if not (each in names and next(rest, "")) and each.partition("=")[0] not in names]
    return more == ["grade"]


def run(argv: list[str], minutes: float) -> int | None:
    """Have the keeper run a command: its exit code; None where the command is to be run in the ordinary way."""
    if not _system.forks():
        _says(f"nothing is kept warm here: {_system.NEEDS_LINUX}")
        return None
    try:
        if minutes == 0:
            _end()
            return 0 if _nothing_more(argv[1:]) else None
        if opened := next((each for each in argv for name in OPENED if name in each), ""):
            _says(f"nothing is kept warm: {opened} is a file that only this command has open")
            return None
        place = warm_place.opened()
        try:
            return _handed(place, argv, minutes)
        finally:
            place.close()
    except PlaceError as error:
        _says(f"nothing is kept warm: {error}")
    except OSError as error:
        _says(f"nothing is kept warm: {error.strerror or error}")
    return None


def _handed(place: Place, argv: list[str], minutes: float) -> int | None:
    """Hand the command over, starting keepers as they are needed."""
    stops: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: stops.append(number))
    for _ in range(TRIES):
        connection = place.connect() or _started(place, argv, stops)
        if connection is None:
            return _interrupted(stops[-1])
        with connection:
            _ask(connection, argv, minutes)
            connection.settimeout(ANSWER)
            try:
                first = json.loads(connection.recv(MESSAGE) or b"{}")
            except TimeoutError:  # stopped (SIGSTOP), perhaps
                if stops:
                    return _interrupted(stops[-1])
                raise PlaceError("the process that keeps it does not answer") from None
            except (OSError, ValueError):
                first = {}
            if "pid" in first:
                return _followed(place, connection, first["pid"], stops)
            if why := first.get("anew"):
                _says(f"what was kept warm is started anew: {why}")
            else:
                _await_end(connection)
        if stops:
            return _interrupted(stops[-1])
    raise PlaceError("the process that keeps it does not answer")


def _ask(connection: socket.socket, argv: list[str], minutes: float) -> None:
    """Send the command: what is long in a file of its own, with our standard streams and working folder."""
    text = {
        "argv": argv,
        "environment": dict(os.environ),
        "package": sys.modules["__main__"].__package__,
        "streams": [
            [stream.encoding, stream.errors] if stream else None for stream in (sys.stdin, sys.stdout, sys.stderr)
        ],
        "minutes": minutes,
        "key": warm_place.key(),
    }
    file = os.memfd_create("command")
    here = os.open(".", os.O_PATH | os.O_DIRECTORY)
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        data = json.dumps(text).encode()
        while data:
            data = data[os.write(file, data) :]
        streams = [number if _is_open(number) else nothing for number in range(3)]
        with contextlib.suppress(OSError):  # it has ended: told by its answer
            socket.send_fds(connection, [b'{"run": true}'], [file, *streams, here])
    finally:
        for number in (file, here, nothing):
            os.close(number)


def _followed(place: Place, connection: socket.socket, pid: int, stops: list[int]) -> int:
    """Wait for the end of the process that does it, and be interrupted as it is. Returns its exit code."""
    with contextlib.suppress(ProcessLookupError):
        process = os.pidfd_open(pid)

        def forward(number: int, _frame: object) -> None:
            stops.append(number)
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(process, number)

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, forward)
        for number in list(stops):
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(process, number)
    connection.settimeout(None)  # as long as the command takes
    try:
        data = connection.recv(MESSAGE)
    except OSError:
        data = b""
    code = json.loads(data)["exit"] if data else None
    if code is None:
        _await_end(connection)
        _sweep(place)
        _says(f"the process that keeps things warm was ended from outside, and grading with it; {AGAIN}")
        return 1
    if code >= 0:
        return code
    if -code in stops:
        return _interrupted(-code)
    _says(f"this machine failed: the process that graded was ended by signal {-code} (exit code {code}); {AGAIN}")
    return 1


def _await_end(connection: socket.socket, patience: float = 10.0) -> None:
    """Wait until a keeper that has hung up has ended: one that was just killed can be connected to for a moment."""
    with contextlib.suppress(OSError):
        process = os.pidfd_open(warm_place.peer(connection)[0])
        select.select([process], [], [], patience)
        os.close(process)


def _interrupted(number: int) -> int:
    _says(INTERRUPTED)
    return 128 + number


def _started(place: Place, argv: list[str], stops: list[int]) -> socket.socket | None:
    """Start a keeper and connect to it; None where we are stopped before it stands. Raises PlaceError with what it printed."""
    import subprocess

    with place.locked():
        if not place.there():  # the last keeper has removed it on its way out
            again = warm_place.opened()
            os.dup2(again.fd, place.fd)
            again.close()
            return place.connect() or _started(place, argv, stops)
        if connection := place.connect():  # another command was first
            return connection
        place.remove("", ".log")  # of keepers that were killed
        log = f"{place.name}-{secrets.token_hex(4)}.log"
        ready, told = os.pipe()
        with open(os.open(log, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600, dir_fd=place.fd), "wb") as file:
            keeper = subprocess.Popen(
                [sys.executable, "-P", "-m", "autograder.commands.warm_start", log, str(told), *argv[1:]],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                pass_fds=[told],
                start_new_session=True,
            )
        os.close(told)
        until = time.monotonic() + START
        while not (told_us := select.select([ready], [], [], LOOK)[0]) and not stops and time.monotonic() < until:
            pass
        said = told_us and os.read(ready, 1)
        os.close(ready)
        if not said and stops:
            keeper.terminate()  # it removes what it made, and its servers
            keeper.wait()
            place.remove("", ".log")
            with contextlib.suppress(OSError):
                os.rmdir(place.path)
            return None
        if not said:
            keeper.kill()
            keeper.wait()
            with open(place.at(log), errors="replace") as file:
                printed = file.read().strip().splitlines()
            place.remove("", ".log")
            raise PlaceError(
                f"the process that keeps it did not start: {printed[-1] if printed else 'it said nothing'}"
            )
        keeper.returncode = 0  # it outlives us: no warning about that
        connection = place.connect()
    if connection is None:
        raise PlaceError("the process that keeps it ended at once")
    return connection


def _end() -> None:
    """End this user's keeper, and say so; wait until it has ended, unless it still has work."""
    try:
        place = warm_place.opened(make=False)
    except PlaceError as error:
        if os.path.lexists(str(error).partition(":")[0]):
            raise
        return
    connection = place.connect()
    if connection is None:
        _sweep(place)
        place.close()
        return
    process = os.pidfd_open(warm_place.peer(connection)[0])
    with connection:
        connection.send(b'{"end": true}')
        answer = json.loads(connection.recv(MESSAGE) or b"{}")
    until = time.monotonic() + 20.0
    if not answer.get("busy"):
        select.select([process], [], [], max(0.0, until - time.monotonic()))
    os.close(process)
    place.close()
    _says("what was kept warm is ended" + (", once the commands that use it are" if answer.get("busy") else ""))


def _sweep(place: Place) -> None:
    """Remove what a keeper left that was killed."""
    with contextlib.suppress(PlaceError), place.locked(0.0):
        if (connection := place.connect()) is not None:  # another one
            connection.close()
            return
        place.remove("", ".log")
        with contextlib.suppress(OSError):
            os.rmdir(place.path)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _says(text: str) -> None:
    """One line, as `application.end` says it, without its imports; in colour on a terminal."""
    bold, end = (
        ("\x1b[1;33m", "\x1b[0m") if sys.stderr and sys.stderr.isatty() and "NO_COLOR" not in os.environ else ("", "")
    )
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print(f"{bold}autograder:{end} {text}", file=sys.stderr, flush=True)
