"""What is in the way of a command: a file that cannot be written, said in one line with the mend."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from jupyter_core.paths import jupyter_config_dir, jupyter_data_dir, jupyter_runtime_dir

REFUSED = (errno.EROFS, errno.EACCES, errno.EPERM)
FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
NO_PLACE = "No usable temporary directory"  # how tempfile begins to say that
TEMPORARY = "TMPDIR=/a/folder/of/yours in front of the command"
HOME = "HOME=/a/folder/of/yours in front of the command"


def sentence(error: OSError) -> str:
    """The line for an error of the system: which file, what is wrong, and the mend where there is one."""
    said, file = error.strerror or str(error), error.filename
    if NO_PLACE in said:
        return f"no folder for temporary files can be written, /tmp among them; put {TEMPORARY}"
    if file is None:
        return said
    place = Path(os.fsdecode(file)) if isinstance(file, str | bytes) else Path(str(file))
    mend = {**dict.fromkeys(REFUSED, _elsewhere(place)), **dict.fromkeys(FULL, "make room there")}.get(
        error.errno or 0, ""
    )
    return f"{place}: {said}" + (f"; {mend}" if mend else "")


def look(*, settings: bool) -> None:
    """Raise OSError where there is no place for what kernels need while they run; with `settings`, or for a user's own."""
    for folder in (jupyter_runtime_dir(), *((jupyter_data_dir(), jupyter_config_dir()) if settings else ())):
        try:
            os.makedirs(folder, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=folder, prefix=".across-") as file:
                file.write(b"-")
                file.flush()
        except OSError as error:  # which is of a name that nobody knows
            raise OSError(error.errno, error.strerror, folder) from None
    tempfile.gettempdir()


def _elsewhere(place: Path) -> str:
    """The mend for a file that may not be written: by the folder nearest above it that a variable moves."""
    moved = {Path("/tmp"): TEMPORARY, Path(os.environ.get("TMPDIR") or "/tmp"): TEMPORARY, Path.home(): HOME}
    above = max((each for each in moved if place.is_relative_to(each)), key=lambda each: len(each.parts), default=None)
    return f"put {moved[above]}" if above else "it has to be one that you can write"
