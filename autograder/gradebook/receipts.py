"""By what nbgrader's exchange knows a submission: the secret that `nbgrader submit` left beside it.

`nbgrader release_feedback` puts a page into the exchange under a hash of the secret that lies beside it, and `fetch_feedback`
looks there for the secret of one's own submission (nbgrader 0.9, exchange/default/release_feedback.py, fetch_feedback.py).
It fails for the whole class where one page has none, or no timestamp.txt. So who handed in elsewhere gets a secret that
nobody knows: their page is fetched by nobody.
"""

from __future__ import annotations

import hmac
import secrets
from pathlib import Path

from autograder.store import files

SECRET, TIMESTAMP = "submission_secret.txt", "timestamp.txt"


def keep(out: Path, chapter: str, student: str, secret: str) -> None:
    """Keep the secret of the submission that counts beside what was taken of it; empty: it has none."""
    path = _submitted(out, chapter, student) / SECRET
    if not secret:
        path.unlink(missing_ok=True)
    elif files.read(path) != secret.encode():
        files.replace(path, secret.encode(), mode=0o600)


def own(out: Path, chapter: str, student: str) -> str:
    """The secret that came with the submission that counts; empty: it has none."""
    return (files.read(_submitted(out, chapter, student) / SECRET) or b"").decode()


def beside(out: Path, chapter: str, student: str) -> dict[str, bytes]:
    """The files that must lie beside a student's page, by name."""
    submitted = _submitted(out, chapter, student)
    return {
        TIMESTAMP: files.read(submitted / TIMESTAMP) or b"",
        SECRET: files.read(submitted / SECRET) or _nobodys(out, chapter, student),
    }


def _submitted(out: Path, chapter: str, student: str) -> Path:
    return Path(out) / "submitted" / student / chapter


def _nobodys(out: Path, chapter: str, student: str) -> bytes:
    """The same each time, so that a page released twice replaces itself."""
    key = files.read(Path(out) / files.SEED) or secrets.token_bytes(32)
    return hmac.digest(key, f"feedback\0{chapter}\0{student}".encode(), "sha256").hex().encode()
