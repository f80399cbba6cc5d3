"""Runs a command as an ordinary user, as whom root's tests grade a class: a user that exists for that command only.

    unshare --mount python ordinary_user.py NUMBER FOLDER COMMAND ...

must be run by root, in a mount namespace of its own. There /etc/passwd and /etc/group know one user more: NUMBER, whose
home is FOLDER and who owns all that is in it; and where the interpreter, the environment or the checkout lie in somebody's
closed folder (/root), these three and nothing else of it are open. Nothing of the machine itself is changed.
"""

from __future__ import annotations

import os
import pwd
import random
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

NAME = "across-ordinary"
HERE = Path(__file__)
CHECKOUT = HERE.resolve().parents[2]


def command(number: int, folder: Path, words: Iterable[str]) -> list[str]:
    """The command line by which root runs `words` as the ordinary user `number`, in `folder`."""
    return ["unshare", "--mount", sys.executable, str(HERE), str(number), str(folder), *words]


def bind(source: Path, target: Path) -> None:
    subprocess.run(["mount", "--bind", str(source), str(target)], check=True, timeout=30)


def closed_above(path: Path) -> Path | None:
    """The topmost folder on the way to `path` that others may not pass."""
    above = reversed(path.parents)
    return next((folder for folder in above if not folder.stat().st_mode & stat.S_IXOTH), None)


def open_the_way_to(paths: Iterable[Path], kept: Path) -> None:
    """Cover closed folders by empty ones in which there are these `paths` only; `kept` is an empty folder for our use."""
    behind: dict[Path, list[Path]] = {}
    for path in paths:
        if closed := closed_above(path):
            behind.setdefault(closed, []).append(path)
    for closed, needed in behind.items():
        held = {path: kept / str(number) for number, path in enumerate(needed)}
        for path, place in held.items():
            place.mkdir()
            bind(path, place)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", str(closed)], check=True, timeout=30)
        for path, place in held.items():
            path.mkdir(parents=True, exist_ok=True)
            bind(place, path)
            subprocess.run(["umount", str(place)], check=True, timeout=30)
            place.rmdir()


def make_users(users: Mapping[str, tuple[int, Path]], kept: Path) -> None:
    """Add users, each with a number and a home, to what this namespace sees as /etc/passwd and /etc/group."""
    passwd = [f"{name}:x:{number}:{number}::{home}:/bin/sh" for name, (number, home) in users.items()]
    group = [f"{name}:x:{number}:" for name, (number, _) in users.items()]
    for file, lines in (("passwd", passwd), ("group", group)):
        text = Path("/etc", file).read_text()
        made = kept / file
        made.write_text("\n".join([text.rstrip(), *lines, ""]))
        made.chmod(0o644)
        bind(made, Path("/etc", file))


def free_number() -> int:
    """A number of ordinary users' that none has; not always the same, for what an earlier run left is not this one's."""
    return next(number for number in iter(lambda: random.randrange(20000, 60000), 0) if not _known(number))


def _known(number: int) -> bool:
    try:
        pwd.getpwuid(number)
    except KeyError:
        return False
    return True


def become(number: int) -> None:
    """Be that user from now on, without a privilege."""
    os.setgroups([])
    os.setresgid(number, number, number)
    os.setresuid(number, number, number)


def main(number: int, home: Path, words: list[str]) -> None:
    """Run `words` in `home` as a user who owns it; exit as they did."""
    kept = Path(tempfile.mkdtemp(prefix="across-ordinary-"))
    try:
        make_users({NAME: (number, home)}, kept)
        open_the_way_to(dict.fromkeys(Path(path) for path in (sys.base_prefix, sys.prefix, str(CHECKOUT))), kept)
        for path in (home, *home.rglob("*")):
            os.chown(path, number, number)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
        environment |= {"HOME": str(home), "USER": NAME, "LOGNAME": NAME}
        done = subprocess.run(words, cwd=home, env=environment, preexec_fn=lambda: become(number), check=False)
    finally:
        shutil.rmtree(kept, ignore_errors=True)  # what is mounted ends with this namespace
    sys.exit(done.returncode)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
