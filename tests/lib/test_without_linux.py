"""The library where there is no fork, no /proc, no pidfd and no TensorFlow with CUDA: macOS and Windows, simulated.

Python reads `sitecustomize` when it starts: the one here takes away what is Linux's own from `across`, in every process that is
started below. Only names of modules that Windows has not, and what TensorFlow does there, are beyond it.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "lib" / "across"
SEAM = "_system.py"
AWAY = """
import builtins, os, signal, socket, sys

for module, names in (
    (os, "fork forkpty pidfd_open sched_getaffinity waitid killpg"),
    (socket, "SOCK_SEQPACKET SO_REUSEPORT send_fds recv_fds"),
    (signal, "pidfd_send_signal"),
):
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)


def refused(ours, place):
    caller = sys._getframe(2).f_globals.get("__name__", "")
    there = os.fspath(place) if isinstance(place, (str, os.PathLike)) else ""
    if caller.split(".")[0] in ("across", "pathlib") and str(there).startswith(("/proc", "/sys")):
        raise FileNotFoundError(2, "there is no such place on this system", str(there))


def away(module, name):
    real = getattr(module, name)

    def instead(place, *args, **more):
        refused(real, place)
        return real(place, *args, **more)

    setattr(module, name, instead)


for module, name in ((builtins, "open"), (os, "listdir"), (os, "readlink"), (os, "open"), (os, "stat")):
    away(module, name)

from across import _system

_system.linux = lambda: False
_system.name = lambda: "elsewhere"
"""
WINDOWS_HAS_NOT = {"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"}


@pytest.fixture
def elsewhere(tmp_path: Path) -> dict[str, str]:
    """The environment of a process that is not on Linux, as far as `across` can tell."""
    (tmp_path / "sitecustomize.py").write_text(AWAY)
    own = {key: value for key, value in os.environ.items() if not key.startswith(("ACROSS_FORK", "JUPYTER_DEFAULT"))}
    return own | {"PYTHONPATH": str(tmp_path), "HOME": str(tmp_path)}


def said(env: dict[str, str], *command: str, seconds: float = 240) -> str:
    """What Python prints, started with `command`. It must end well."""
    done = subprocess.run(
        [sys.executable, *command], env=env, cwd=ROOT, capture_output=True, text=True, timeout=seconds
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(LIBRARY.rglob("*.py")):
        yield path.relative_to(LIBRARY).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def test_one_module_alone_asks_which_system_this_is():
    asked = []
    for name, tree in trees():
        if name == SEAM:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and ast.unparse(node) in ("sys.platform", "os.name", "os.uname"):
                asked.append(f"{name}:{node.lineno}: {ast.unparse(node)}")
            if isinstance(node, ast.Compare) and "platform.system()" in ast.unparse(node):
                asked.append(f"{name}:{node.lineno}: platform.system()")
    assert asked == []


def test_no_module_imports_what_windows_has_not():
    imported = []
    for name, tree in trees():
        for node in ast.walk(tree):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            imported += [f"{name}: {each}" for each in names if each.split(".")[0] in WINDOWS_HAS_NOT]
    assert imported == []


def test_the_simulation_takes_away_what_it_says(elsewhere: dict[str, str]):
    asks = (
        "import os, json; from across import _system; from across._process import network_card, warm\n"
        "print(json.dumps([hasattr(os, 'fork'), warm.available(), network_card.slow(1e6)]))"
    )
    assert json.loads(said(elsewhere, "-c", asks)) == [False, False, 0]


@pytest.mark.slow
def test_every_module_can_be_imported(elsewhere: dict[str, str]):
    names = [
        ".".join(["across", *Path(name).with_suffix("").parts]).removesuffix(".__init__")
        for name, _ in trees()
        if "config" not in name
    ]
    said(elsewhere, "-c", "import importlib\n" + "\n".join(f"importlib.import_module({name!r})" for name in names))


@pytest.mark.whole
def test_doctor_says_what_is_different_here(elsewhere: dict[str, str]):
    facts = json.loads(said(elsewhere, "-c", "from across.cli import main; main()", "doctor", "--json"))
    assert facts["warm_kernels"] is False
    assert facts["sandbox"] == "it needs Linux (on macOS and Windows: a Linux container)"
    assert "No fork server on elsewhere" in facts["advice"][0]
    assert facts["advice"][1] == "Grading needs Linux with bubblewrap; students need neither."
    assert "03_device_placement" in facts["chapters"]


def test_the_clusters_doctor_asks_addresses_and_says_what_it_cannot_see(elsewhere: dict[str, str]):
    asked = {"cluster": {"worker": ["127.0.0.1:1"]}, "task": {"type": "worker", "index": 0}}
    command = [sys.executable, "-c", "from across.cli import main; main()", "doctor", "--cluster", "--json"]
    env = {**elsewhere, "TF_CONFIG": json.dumps(asked)}
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert [each["key"] for each in told["findings"]] == ["nothing runs"]
    assert "Linux's /proc" in told["facts"]["missing"][-1]


EXPERIMENTS = """
from across import clusters, fresh
import tensorflow as tf

def counted():
    tf.constant(1.0) + 1.0
    return len(tf.config.list_logical_devices("CPU"))

print("fresh", fresh.call(counted, cpus=3).result())
with clusters.LocalCluster(ps=1, worker=1) as cluster:
    print("cluster", cluster.tasks)
"""


@pytest.mark.slow
def test_experiments_and_clusters_start_cold_and_end(elsewhere: dict[str, str], tmp_path: Path):
    (tmp_path / "experiments.py").write_text(EXPERIMENTS)
    assert said(elsewhere, str(tmp_path / "experiments.py"), seconds=600).splitlines()[-2:] == [
        "fresh 3",
        "cluster [('ps', 0), ('worker', 0)]",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("chapter", ["03", "05", "07"])
def test_a_blank_chapter_runs_and_no_cell_but_a_check_stops(elsewhere: dict[str, str], chapter: str):
    command = [sys.executable, "-c", "from across.cli import main; main()", "run", chapter]
    done = subprocess.run(command, env=elsewhere, cwd=ROOT, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 1, done.stderr[-3000:]  # no check passes
    assert "cell " not in done.stdout.partition("└")[2], done.stdout
