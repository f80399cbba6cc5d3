"""Scripts that need an environment of their own, prepared once: chapter 13's Estimator, which TensorFlow has lost.

    scripts.prepare("estimator.py")        # `across prepare 13` in a terminal: installs it, about 1.2 GB for TensorFlow 2.15
    scripts.run("estimator.py")            # what it prints; None where its environment is not prepared
    scripts.output("estimator.py", "estimator_recorded.txt")    # the same; else why not, and what another run printed

A script says in its first lines which Python and packages it needs (inline metadata, PEP 723), and `uv lock --script` has
written the exact versions beside it. `uv run --script` would install them at its first run, into a folder of uv's own; here
they go into our environment's folder, so that they go with it, and so that a sandbox which shows our environment shows them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from across import _system

PLACE = Path(sys.prefix) / "share" / "across"
SECONDS = 90.0  # that a script may run
INSTALLS = 900.0  # seconds; a slow network
LIBRARIES = ("lib", "lib64")  # where beside its `bin` a Python has its own
UV = ("UV_PYTHON", "UV_PROJECT", "UV_PROJECT_ENVIRONMENT", "VIRTUAL_ENV")  # name another Python or environment


class NotPrepared(OSError):  # noqa: N818 - reads as the sentence it is
    """The environment cannot be installed here; the message has the mend."""


class Failed(RuntimeError):  # noqa: N818
    """The script ended with an error, or not in its time; the message has the end of what it printed."""


def beside(notebook: Path) -> list[Path]:
    """The scripts beside a notebook that it names and that have a lock."""
    text = notebook.read_text(encoding="utf-8")
    beside = sorted(lock.with_suffix("") for lock in notebook.parent.glob("*.py.lock"))
    return [script for script in beside if script.name in text]


def folder(script: str | Path) -> Path:
    """Where the script's environment is, or would be: another one for each lock. Raises OSError if it has no lock."""
    lock = Path(f"{script}.lock")
    return PLACE / f"{Path(script).stem}-{hashlib.sha256(lock.read_bytes()).hexdigest()[:16]}"


def prepare(script: str | Path) -> Path:
    """Install what the script's lock names, unless it is there; its folder. Raises NotPrepared, OSError if it has no lock."""
    there = folder(script)
    if there.is_dir():
        return there
    if _system.name() == "win32":
        raise NotPrepared(f"{Path(script).name} is not run on Windows; its chapter shows a recorded run")
    uv = shutil.which("uv")
    if uv is None:
        raise NotPrepared("uv is missing: pip install uv")
    PLACE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{there.name}.", dir=PLACE) as aside:
        made = Path(aside) / "made"
        env = {name: value for name, value in os.environ.items() if name not in UV}
        env |= {"UV_COMPILE_BYTECODE": "1", "VIRTUAL_ENV": str(made)}  # in a sandbox nothing can be compiled later
        # relocatable: it is moved to its place when it is whole
        for command in (
            [uv, "venv", "--quiet", "--relocatable", "--python", _python(script), str(made)],
            [uv, "sync", "--quiet", "--active", "--locked", "--script", str(script)],
        ):
            try:
                done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=INSTALLS, check=False)
            except subprocess.TimeoutExpired:
                raise NotPrepared(f"{' '.join(command[1:3])} took more than {INSTALLS:.0f} s; try again") from None
            if done.returncode:
                raise NotPrepared(
                    f"{Path(script).name} needs its own environment; uv says: {done.stderr.strip()[-600:]}"
                )
        with contextlib.suppress(OSError):  # somebody else was quicker
            os.rename(made, there)
    return there


def run(script: str | Path, seconds: float = SECONDS) -> str | None:
    """Run the script in its environment; what it prints, or None where that is not prepared.

    It has a temporary folder of its own, sees no GPU, and ends with all that it started. Raises Failed.
    """
    python = folder(script) / "bin" / "python"
    if not python.exists():
        return None
    with tempfile.TemporaryDirectory() as own:
        env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TF_"))}
        env |= {"TMPDIR": own, "HOME": own, "CUDA_VISIBLE_DEVICES": ""}
        process = subprocess.Popen(
            [python, script], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            printed = process.communicate(timeout=seconds)[0].decode(errors="replace")
            says = f"ended with exit code {process.returncode}"
        except subprocess.TimeoutExpired:
            printed, says = "", f"did not end in {seconds:.0f} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode:
        raise Failed(f"{Path(script).name} {says}:\n{printed[-2000:]}")
    return printed


def output(script: str | Path, recorded: str | Path) -> str:
    """What the script prints; where it does not run, the reason and, said to be one, a recorded run."""
    why = "its environment is not here. `uv run across prepare` and the number of this chapter, in a terminal, install it."
    try:
        ran = run(script)
    except Failed as failed:
        ran, why = None, str(failed)
    return ran if ran is not None else f"NOT RUN HERE: {why}\n\n{Path(recorded).read_text(encoding='utf-8')}"


def interpreters() -> list[str]:
    """The files and folders of the Pythons that prepared environments run on: who shows the environments must show them, too.

    Of each the program, by every link that leads to it, and its libraries: not the folder that both lie in, which may be
    somebody's home.
    """
    found = set[str]()
    for python in PLACE.glob("*/bin/python"):
        if not python.exists():
            continue
        programs = [os.path.realpath(python)]
        while python.is_symlink():
            python = Path(os.path.abspath(python.parent / os.readlink(python)))
            programs.append(str(python))
        for program in programs:
            above = Path(program).parent.parent
            found |= {program, *(str(above / name) for name in LIBRARIES if any((above / name).glob("python3*/os.py")))}
    return sorted(place for place in found if not Path(place).is_relative_to(PLACE))


def _python(script: str | Path) -> str:
    """What the script says of Python: `>=3.11,<3.12`."""
    for line in Path(script).read_text(encoding="utf-8").splitlines():
        if line.startswith("# requires-python = "):
            return line.split('"')[1]
    raise NotPrepared(f"{script}: no line `# requires-python = ...` in its metadata")
