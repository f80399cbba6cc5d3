"""The certificate of a cluster, as docs/scale.md has it written."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from autograder.model.course import checkout


def write(folder: Path) -> Path:
    """Write a certificate and its key into a new folder called `tls`."""
    if not shutil.which("openssl"):
        pytest.skip("no openssl here, which docs/scale.md has write the certificate")
    (command,) = re.findall(r"^\(umask .*openssl req .*$", (checkout() / "docs" / "scale.md").read_text(), re.MULTILINE)
    folder.mkdir()
    subprocess.run(["bash", "-c", command], cwd=folder, check=True, capture_output=True, timeout=60)
    return folder / "tls"
