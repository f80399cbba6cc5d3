"""What a box shows: bubblewrap's command line.

Shown, read-only and at their own paths: /usr, the Python installation, the environment, the students' library, and that of
simulated GPUs. Hidden: whatever of the course and the grader lies below those. A wheel puts `autograder/` into the
environment, an image may hold the checkout in /usr/src.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from across._gpu import building

INSIDE = "/box"  # the work folder
WRITABLE = (INSIDE, "/tmp", "/dev/shm")  # each a file system of its own, in memory
LINKS = ("bin", "lib", "lib64", "sbin")  # in /, to those in /usr
SLEEP = "/sleep"  # what process 1 runs where it is the student's user
FILE = 4096  # bytes of such a file system for which it may hold one file: names alone take memory, too
HERE = Path(__file__).resolve().parent.parent
CHECKOUT = (
    "autograder",
    "solutions",
    "tests",
    "docs",
    ".git",
)  # hidden one by one where the environment is the checkout
THERE = {"/", *WRITABLE}  # folders that the box has already


def command(
    name: str,
    tmp: int,
    info: int,
    filter: int,
    devices: Sequence[str] = (),
    private: tuple[str, ...] = (),
    watched: bool = False,
    sleep: int | None = None,
) -> list[str]:
    """Build the box `name`, with `tmp` bytes in each of `WRITABLE`; process 1 says "ready" and sleeps.

    `info` and `filter` are file descriptors: where bwrap tells its child's number, and where it reads the system calls'
    filter. `devices` are the files of leased cards: /dev has no others of hardware. `private` are further folders to be
    hidden. `watched`: memory is read off processes and file systems, and a shared mapping of /dev/zero is in neither: that
    device is empty. `sleep`: what process 1 runs, see `open_sleep`. The name does nothing in there, it tells this box's
    bwrap from others.
    """
    cards: list[str] = []
    for device in devices:
        cards += ["--dev-bind", device, device]
    if sleep is not None:
        cards += ["--perms", "0111", "--ro-bind-data", str(sleep), SLEEP]
    if watched:
        cards += ["--dev-bind", "/dev/null", "/dev/zero"]
    # /dev is a file system in memory, too, and of no size: where student and grader are one user it could be written
    closed = ["--remount-ro", "/dev", "--remount-ro", "/"]
    descriptors = ["--info-fd", str(info), "--seccomp", str(filter)]
    return [
        "bwrap",
        *fixed(tmp, private, (str(library),) if (library := building.folder()).is_dir() else ()),
        *cards,
        *closed,
        *descriptors,
        "--as-pid-1",
        "sh",
        "-c",
        process_1("sleep" if sleep is None else SLEEP),
        name,
    ]


def open_sleep() -> int:
    """A descriptor of the program `sleep`, for process 1 of a box that has its student's user; close it.

    Who may execute a file and not read it has a process that nobody of that user may look into, write to, trace or take
    descriptors from: see PR_SET_DUMPABLE in prctl(2). Whoever built the box still may. Raises OSError.
    """
    return os.open(shutil.which("sleep") or "sleep", os.O_RDONLY | os.O_CLOEXEC)


@cache
def process_1(sleep: str) -> str:
    """What the first process of a box does, for a shell: `sleep` is the path of that program.

    Nothing in the box can end it, whosever it is: the first process of a namespace gets no signal from there that it does
    not handle; what bwrap runs as its second would. Who ignores SIGCHLD has nothing to reap; only GNU's env can say that.
    """
    quiet = "env --ignore-signal=CHLD"
    found = subprocess.run([*quiet.split(), "true"], stderr=subprocess.DEVNULL, timeout=60, check=False).returncode == 0
    return f"echo ready; exec {quiet if found else ''} {sleep} infinity"


def files(tmp: int) -> dict[str, int]:
    """How many files each of `WRITABLE` may hold, being of `tmp` bytes: `entering` sees to it."""
    return dict.fromkeys(WRITABLE, max(64, tmp // FILE))


@cache
def fixed(tmp: int, private: tuple[str, ...] = (), more: tuple[str, ...] = ()) -> list[str]:
    """The part of the command line that is the same for all boxes of a course with `tmp` bytes; `more` is shown, too."""
    arguments = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup"]
    if os.getuid() != 0:
        arguments.append("--unshare-user")
    arguments += ["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "box"]
    arguments += ["--ro-bind", "/usr", "/usr"]
    for name in LINKS:
        if os.path.isdir(f"/{name}"):
            arguments += ["--symlink", f"usr/{name}", f"/{name}"]
    arguments += ["--perms", "0755", "--dir", "/etc"]
    for file in ("/etc/ld.so.cache", "/etc/hosts"):
        if os.path.exists(file):
            arguments += ["--ro-bind", file, file]
    arguments += ["--proc", "/proc", "--dev", "/dev"]
    for place in WRITABLE:  # before what may lie in them: an environment below /tmp
        arguments += ["--size", str(tmp), "--perms", "0700" if place == INSIDE else "1777", "--tmpfs", place]
    return arguments + _mounted(mounts([*shown(), *more], hidden(private)))


def shown() -> list[str]:
    """The folders that are bound read-only: the interpreter, the environment, the students' library; /usr is always.

    What `across prepare` installed lies in the environment; its interpreters may lie elsewhere: of each what it needs alone.
    """
    import across
    from across import scripts

    library = Path(across.__path__[0]).resolve().parent
    prepared = [place for place in scripts.interpreters() if Path(place).parts[1] not in LINKS]
    return [os.path.realpath(sys.base_prefix), os.path.abspath(sys.prefix), str(library), *prepared]


def hidden(private: Iterable[str] = ()) -> list[str]:
    """The folders that must not be seen even if one that is shown holds them: the grader's, its checkout's, `private`."""
    root = HERE.parent
    checkout = [root, *(root / name for name in CHECKOUT)] if (root / "course.toml").is_file() else []
    found = (HERE, *checkout, *map(Path, private))
    return list(dict.fromkeys(os.path.realpath(place) for place in found if place.is_dir()))


def mounts(shown: Iterable[str], hidden: Iterable[str]) -> list[tuple[str, bool]]:
    """Return (folder, whether it is shown) in the order in which they are mounted: parents first.

    What its nearest ancestor shows or hides already is left out.
    """
    kinds = {place: False for place in hidden} | {"/usr": True} | {place: True for place in shown}
    needed = []
    for place in sorted(kinds, key=lambda place: Path(place).parts):
        above = next((kinds[str(parent)] for parent in Path(place).parents if str(parent) in kinds), False)
        if above != kinds[place] and place != "/usr":
            needed.append((place, kinds[place]))
    return needed


def _mounted(mounts: Sequence[tuple[str, bool]]) -> list[str]:
    arguments: list[str] = []
    made = set(THERE)
    for place, visible in mounts:
        for parent in reversed(Path(place).parents):  # bwrap itself would make them for root only
            if str(parent) not in made:
                arguments += ["--perms", "0755", "--dir", str(parent)]
                made.add(str(parent))
        if visible:
            arguments += ["--ro-bind", place, place]
        else:
            arguments += ["--size", "4096", "--perms", "0755", "--tmpfs", place]
    for place, visible in mounts:
        if not visible:
            arguments += ["--remount-ro", place]
    return arguments
