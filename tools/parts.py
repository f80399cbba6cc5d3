"""Run the tests that take long in parts, each only where what it rests on has changed since it passed here.

    uv run python tools/parts.py           # what is due; then commit tests/parts.toml
    uv run python tools/parts.py classes   # this one, due or not

A part is a mark of tests, left out of `uv run pytest`. tests/parts.toml has a digest of the files that it rests on, written
when it has passed; with another file there, the part is due again.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import itertools
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "tests" / "parts.toml"
MINUTES, AFTER = 60, 120  # for parts that run together; seconds for what they have started to be ended then
HEAD = (
    "# Written by tools/parts.py: each part of the long tests, with a digest of all that it rested on when it passed.\n"
)
# Every file of the checkout but these, which no test of a part reads: many tests follow a page of docs/, or run a tool.
REST = (".", ":!tests/parts.toml", ":!docs/checks.md", ":!CHANGELOG.md", ":!CONTRIBUTING.md", ":!.ci", ":!.github")


@dataclass(frozen=True)
class Part:
    """Tests of one mark. It rests on `REST`, without files of tests that have none of it."""

    workers: int  # of pytest-xdist; 0: none, what is measured in them bears nothing beside it
    told: str  # a file of tests, which begins with test_, has some of it where this matches its name and text


PARTS = {
    "browser": Part(2, r"\Atests/browser/"),
    "whole": Part(2, r"\bmark\.whole\b|^from kinds import|\boften\("),
    "classes": Part(0, r"\bmark\.classes\b"),
}


def digest(part: Part, root: Path = ROOT) -> str:
    """Of the names and contents of all files that it rests on, tracked or to be; without the record itself."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *REST]
    names = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.split("\0")
    found = hashlib.sha256()
    for name in sorted({name for name in names if (root / name).is_file()}):
        content = (root / name).read_bytes()
        if re.match(r"tests/(.+/)?test_\w+\.py$", name) and not has_some_of(part, name, content.decode()):
            continue
        found.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    return found.hexdigest()


def has_some_of(part: Part, name: str, source: str) -> bool:
    """Whether a file of tests has tests of a part."""
    return bool(re.search(part.told, f"{name}\n{source}", re.MULTILINE))


def recorded(record: Path = RECORD) -> dict[str, str]:
    """Part -> the digest that it passed on last."""
    return tomllib.loads(record.read_text(encoding="utf-8")) if record.exists() else {}


def keep(name: str, passed: str, record: Path = RECORD) -> None:
    """Write down that a part has passed on files of this digest."""
    lines = [f'{each} = "{at}"\n' for each, at in sorted({**recorded(record), name: passed}.items())]
    record.write_text(HEAD + "".join(lines), encoding="utf-8")


def run(names: Sequence[str]) -> int:
    """Run parts that have as many workers, beside each other; 0 if all passed. What was changed meanwhile is not recorded."""
    before = {name: digest(PARTS[name]) for name in names}
    code = pytested("-n", str(PARTS[names[0]].workers), "-m", " or ".join(names))
    for name, passed in before.items():
        if code == 0 and digest(PARTS[name]) == passed:
            keep(name, passed)
    return code


def pytested(*options: str) -> int:
    """Run pytest with these options, as CI does before `across prepare`; its exit status, 1 where it took too long."""
    command = [sys.executable, "-m", "pytest", "--nothing-prepared", "--durations=15", *options]
    with subprocess.Popen(command, cwd=ROOT) as running:
        try:
            return running.wait(MINUTES * 60)
        except subprocess.TimeoutExpired:
            print(f"{' '.join(options)}: not at its end after {MINUTES} minutes", file=sys.stderr, flush=True)
            running.send_signal(signal.SIGINT)  # fixtures end what they have started
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(AFTER)
            running.kill()
    return 1


def main() -> int:
    """Run what the command names, or what is due."""
    parser = argparse.ArgumentParser(description="Run the tests that take long, where what they rest on has changed.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}: this one, due or not")
    named = parser.parse_args().parts
    if unknown := [name for name in named if name not in PARTS]:
        parser.error(f"there is no part {unknown[0]}; there are {', '.join(PARTS)}")
    due = []
    for name, part in PARTS.items():
        if name in named or (not named and recorded().get(name) != digest(part)):
            due.append(name)
        elif not named:
            print(f"{name}: passed on these very files, not run again (tests/parts.toml)", flush=True)
    together = itertools.groupby(due, key=lambda name: PARTS[name].workers)
    return max((run([*names]) for _, names in together), default=0)


if __name__ == "__main__":
    sys.exit(main())
