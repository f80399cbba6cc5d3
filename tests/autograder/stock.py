"""nbgrader's own commands, as an instructor or a student types them, each in a process that is forked from this one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from nbgrader.apps.nbgraderapp import NbGraderApp

DEADLINE = 180.0  # seconds for a command on a busy machine


def nbgrader(*arguments: object, cwd: Path, home: Path) -> subprocess.CompletedProcess[str]:
    """Run `nbgrader` in a folder, without the settings of whoever runs the tests; `home` is the user's. It has to succeed."""
    home.mkdir(exist_ok=True)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("JUPYTER")}
    kept |= {"HOME": str(home), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    call = ["nbgrader", *map(str, arguments)]
    said = [home / "stdout", home / "stderr"]
    child = os.fork()
    if not child:
        os._exit(_run(call, cwd, kept, said))
    until = time.monotonic() + DEADLINE
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > until:
            os.kill(child, 9)
            os.waitpid(child, 0)
            raise TimeoutError(f"{' '.join(call)}: no end in {DEADLINE:.0f} s\n{said[1].read_text()}")
        time.sleep(0.01)
    done = subprocess.CompletedProcess(call, os.waitstatus_to_exitcode(ended[1]), *(path.read_text() for path in said))
    assert done.returncode == 0, done.stderr
    return done


def _run(call: list[str], cwd: Path, environment: dict[str, str], said: list[Path]) -> int:
    """What the child does; its exit code."""
    for fd, path in enumerate(said, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), fd)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115 -- its last ones
    sys.__stdout__, sys.__stderr__, sys.argv = sys.stdout, sys.stderr, call
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    try:
        NbGraderApp.launch_instance()
        return 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


class Exchange:
    """A temporary exchange of a course with one assignment, and nbgrader's commands on it."""

    def __init__(self, folder: Path, course: str, chapter: str, released: bytes = b"{}") -> None:
        self.root, self.home, self.course, self.chapter = folder / "exchange", folder / "home", course, chapter
        for name, mode in (("inbound", 0o733), ("outbound", 0o755), ("feedback", 0o711)):
            (self.root / course / name).mkdir(parents=True)
            (self.root / course / name).chmod(mode)
        self.root.chmod(0o777)
        (self.root / course / "outbound" / chapter).mkdir()
        (self.root / course / "outbound" / chapter / f"{chapter}.ipynb").write_bytes(released)

    def run(self, cwd: Path, *arguments: object) -> None:
        """Run `nbgrader` in a folder."""
        settings = [f"--Exchange.root={self.root}", f"--Exchange.cache={cwd / 'cache'}", f"--course={self.course}"]
        nbgrader(*arguments, *settings, cwd=cwd, home=self.home)

    def submit(self, student: str, notebook: bytes) -> Path:
        """Hand in as `nbgrader submit` does; where the student works."""
        place = self.home.parent / "students" / student
        (place / self.chapter).mkdir(parents=True, exist_ok=True)
        (place / self.chapter / f"{self.chapter}.ipynb").write_bytes(notebook)
        self.run(place, "submit", self.chapter, f"--CourseDirectory.student_id={student}")
        return place
