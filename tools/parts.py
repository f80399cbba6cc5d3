"""Run the tests that take long in parts, each only where what it rests on has changed since it passed here.

    uv run python tools/parts.py           # what is due; then commit tests/parts.toml
    uv run python tools/parts.py --all     # each, as nightly
    uv run python tools/parts.py classes   # this one

A part is a mark of tests, left out of `uv run pytest`. tests/parts.toml has a digest of the files that it rests on, written
when it has passed; with another file there, the part is due again.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "tests" / "parts.toml"
MINUTES = 60  # for one part
HEAD = (
    "# Written by tools/parts.py: each part of the long tests, and a digest of all it rested on when it passed last.\n"
)
EVERYWHERE = (
    "lib",
    "autograder",
    "course.toml",
    "pyproject.toml",
    "uv.lock",
    "notebooks",
    "solutions",
    "tools",
    "tests",
)


@dataclass(frozen=True)
class Part:
    """Tests of one mark."""

    workers: int  # of pytest-xdist; 0: none, what is measured in them bears nothing beside it
    rests_on: tuple[
        str, ...
    ]  # files and folders; of tests/ all but those whose name begins with test_ and have none of it
    told: str  # a file of tests has some of it, where this matches its name and text


PARTS = {
    "browser": Part(2, EVERYWHERE, r"\Atests/browser/"),
    "whole": Part(
        2, (*EVERYWHERE, "checks", "files", "docs/student.md"), r"\bmark\.whole\b|^from kinds import|\boften\("
    ),
    "classes": Part(0, (*EVERYWHERE, "checks", "files"), r"\bmark\.classes\b"),
}


def digest(part: Part, root: Path = ROOT) -> str:
    """Of the names and contents of all files that it rests on, tracked or to be; without the record itself."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *part.rests_on]
    names = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.split("\0")
    found = hashlib.sha256()
    for name in sorted({name for name in names if name and (root / name).is_file()} - {"tests/parts.toml"}):
        content = (root / name).read_bytes()
        if Path(name).name.startswith("test_") and not re.search(
            part.told, f"{name}\n{content.decode()}", re.MULTILINE
        ):
            continue
        found.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    return found.hexdigest()


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
    """Run pytest with these options, as CI does before `across prepare`; its exit status."""
    command = [sys.executable, "-m", "pytest", "--nothing-prepared", "--durations=15", *options]
    return subprocess.run(command, cwd=ROOT, check=False, timeout=MINUTES * 60).returncode


def main() -> int:
    """Run what the command names, or what is due."""
    parser = argparse.ArgumentParser(description="Run the tests that take long, where what they rest on has changed.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--all", action="store_true", help="also what passed on these very files")
    said = parser.parse_args()
    if unknown := [name for name in said.parts if name not in PARTS]:
        parser.error(f"there is no part {unknown[0]}; there are {', '.join(PARTS)}")
    due = []
    for name, part in PARTS.items():
        if said.parts and name not in said.parts:
            continue
        if not (said.all or said.parts) and recorded().get(name) == digest(part):
            print(f"{name}: passed on these very files, not run again (tests/parts.toml)", flush=True)
            continue
        due.append(name)
    worst = 0
    for _, together in itertools.groupby(due, key=lambda name: PARTS[name].workers):
        worst = max(worst, run([*together]))
    return worst


if __name__ == "__main__":
    sys.exit(main())
