"""The version of both distributions stands in lib/pyproject.toml; this writes it wherever else a format asks for it.

uv run python tools/version.py        # after a change there, then: uv lock
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = "lib/pyproject.toml"
OWN = re.compile(r'(?m)^(\s*"?version"?\s*[=:]\s*)"[^"]*"')  # `version = "1.0.0"` and `"version": "1.0.0"`
PINNED = re.compile(r"(across-tensorflow\[\w+\]==)[^\"]*")
PLACES = {  # the file -> what in it repeats the version
    "autograder/pyproject.toml": (OWN, PINNED),
    "lib/handout.toml": (OWN,),
    "lib/across/_jupyter/share/labextensions/across/package.json": (OWN,),
    "lib/across/_jupyter/share/labextensions/across-cells/package.json": (OWN,),
    "pyproject.toml": (OWN,),
}


def version() -> str:
    """The version of both distributions."""
    return tomllib.loads((ROOT / SOURCE).read_text(encoding="utf-8"))["project"]["version"]


def stale() -> Iterator[tuple[Path, str]]:
    """The files that say another version, each with what it should hold."""
    for name, patterns in PLACES.items():
        before = after = (ROOT / name).read_text(encoding="utf-8")
        for pattern in patterns:
            after = pattern.sub(lambda found: found[1] + (version() if found.re is PINNED else f'"{version()}"'), after)
        if after != before:
            yield ROOT / name, after


if __name__ == "__main__":
    for path, text in stale():
        path.write_text(text, encoding="utf-8", newline="\n")
        print(path.relative_to(ROOT))
