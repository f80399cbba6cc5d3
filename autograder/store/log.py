"""OUT/grading.log: what a run did and met, a line of JSON each: jobs, attempts, steps, seconds, errors, failed clean-ups.

For people who look for what went wrong, and for their programs. Nothing is read from it again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

NAME = "grading.log"
LOGGER = logging.getLogger("autograder")
PLAIN = frozenset(vars(logging.makeLogRecord({})))  # what every record has


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """One line of JSON, ASCII only: whatever a student's name or a message holds, it stays one line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "from": record.name,
            "event": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in PLAIN and name != "taskName"}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class _File(logging.FileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Say nothing: where the disk is full, the marks say it, and they matter more than their log."""


@contextmanager
def kept(out: Path) -> Iterator[Path]:
    """Append what the grader logs to OUT/grading.log for the time of the block. Raises OSError where it cannot be opened."""
    path = Path(out) / NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = _File(path, encoding="utf-8")
    handler.setFormatter(_Lines())
    level = LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    try:
        yield path
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)
        handler.close()
