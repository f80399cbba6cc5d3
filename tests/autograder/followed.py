"""A page of docs/, followed step by step: its files are written, its commands run, what they print is compared."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from autograder.model.course import checkout

BLOCK = re.compile(
    r"(?:^`(?P<file>[\w./]+)`\n\n)?^```(?P<language>\w+)\n(?P<content>.*?)^```$", re.MULTILINE | re.DOTALL
)
PATIENCE = 900.0  # seconds for one command on a busy machine


def follow(folder: Path, command: str) -> str:
    """Run what stands in a block, in the course's folder; what it printed, on one line."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "COLUMNS": "200", "HOME": str(folder)}
    done = subprocess.run(
        ["bash", "-e", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return " ".join(done.stdout.split())


def page(name: str) -> str:
    """A page of docs/."""
    return (checkout() / "docs" / name).read_text(encoding="utf-8")


def follow_page(text: str, folder: Path) -> None:
    """Do in `folder` all that a page says; `cd NAME` on a line of its own leads there for good."""
    printed, steps = "", 0
    for block in BLOCK.finditer(text):
        content = block["content"]
        if block["file"]:
            (folder / block["file"]).parent.mkdir(exist_ok=True)
            (folder / block["file"]).write_text(content, encoding="utf-8")
        elif block["language"] == "bash":
            printed, steps = follow(folder, content), steps + 1
            folder = folder.joinpath(*re.findall(r"^cd (\w+)$", content, re.MULTILINE))
        else:
            assert block["language"] == "text"
            for line in content.splitlines():
                assert line in printed, f"{line!r} was not printed: {printed}"
    assert steps == text.count("```bash") > 0
