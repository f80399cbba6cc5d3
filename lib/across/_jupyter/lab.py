"""JupyterLab on the course: the start page, the Validate button, warm kernels, nothing else to set up.

Students work in notebooks/ itself. Settings come from `config/`, found by JUPYTER_CONFIG_PATH, and our JupyterLab extension
from `share/`, found by JUPYTER_PATH: this leaves the settings of the user and of the environment as they are.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
from pathlib import Path

from across import _system
from across._gpu import building
from across._jupyter import chapters, in_the_way
from across._language import catalogue, pictured
from across._language.catalogue import said
from across._process import diary, provisioner, warm

SETTINGS = Path(__file__).parent / "config"
IN_LANGUAGE = (
    Path(__file__).parent / "config_in"
)  # a folder a language: what JupyterLab's own words are, for this server alone
ON_A_HUB = Path(__file__).parent / "config_hub"  # for a server that is not ours: docs/jupyterhub.md
DATA = Path(__file__).parent / "share"  # the start page and Validate, as a JupyterLab extension
PORT = 8888
HIDDEN = ("__pycache__", "*.pyc", "*~", "*.lock", "*_recorded.txt")  # in the file browser: nobody opens these
TRIES = 50  # ports that Jupyter tries after the first, unless one was asked for


def start(browser: bool = True, port: int | None = None, keep_diary: bool = False, gpus: int = 0) -> None:
    """Serve the course's notebooks/ until interrupted; JupyterLab and the start page speak the language of this process.

    `keep_diary` of what exercises take, in a file of the user's. Kernels simulate so many `gpus` where there is no real one.

    Raises chapters.NoSuchChapter, OSError: also where another program listens on the `port` that was asked for.
    """
    if gpus:
        _tell(simulate(gpus))
    notebooks = chapters.folder()
    in_the_way.look(settings=True)
    if catalogue.current() != catalogue.ENGLISH and not pictured.font():
        _tell(said(pictured.NO_FONT))
    if port and _is_taken(port):
        taken = said("port {0} is taken; try `uv run across lab --port {1}`", port, port + 1)
        raise OSError(errno.EADDRINUSE, taken)
    os.environ.update(environment(os.environ))
    os.environ.pop(diary.ASKED_FOR, None)
    if keep_diary:
        os.environ[diary.ASKED_FOR] = "1"
        _tell(
            said(
                "your diary is {0}: when you were at which exercise, and what checks said. It stays on this machine; `uv run "
                "across diary` shows it, and you may delete it.",
                diary.file(),
            )
        )
    if warm.available():
        provisioner.turn_on()
    else:
        _tell(said("kernels start cold on {0}: about 4 s each. Everything else is the same.", _system.name()))
    _tell(said("starting JupyterLab; Ctrl+C ends it."))  # a minute on a busy machine
    from jupyterlab.labapp import LabApp

    try:
        LabApp.launch_instance(arguments(notebooks, browser, port))
    finally:
        provisioner.turn_off()


def simulate(count: int) -> str:
    """Have the kernels of this process simulate so many GPUs, built before one starts; say whether they will."""
    try:
        building.build()
    except building.NoGpu as error:
        return str(error)
    os.environ[building.GPUS] = str(count)
    if count == 1:
        return said("kernels have 1 simulated GPU where TensorFlow finds no real one.")
    return said("kernels have {0} simulated GPUs where TensorFlow finds no real one.", count)


def environment(env: os._Environ[str] | dict[str, str]) -> dict[str, str]:
    """The variables that JupyterLab and its kernels need on top of `env`."""
    binaries = os.path.dirname(sys.executable)  # nbgrader and the kernels call programs by name
    language = IN_LANGUAGE / catalogue.current()  # before the others: the first folder that says something decides
    settings = [str(each) for each in (language, SETTINGS) if each.is_dir()]
    return {
        "JUPYTER_CONFIG_PATH": os.pathsep.join(filter(None, [*settings, env.get("JUPYTER_CONFIG_PATH", "")])),
        "JUPYTER_PATH": os.pathsep.join(filter(None, [str(DATA), env.get("JUPYTER_PATH", "")])),
        "PATH": os.pathsep.join([binaries, env.get("PATH", "")]),
    }


def arguments(notebooks: Path, browser: bool, port: int | None) -> list[str]:
    """JupyterLab's command line; without a `port` it takes the first that is free."""
    language = catalogue.current()
    options = [
        f"--ServerApp.root_dir={notebooks}",
        f"--ServerApp.port={port or PORT}",
        f"--ServerApp.port_retries={0 if port else TRIES}",
        "--MappingKernelManager.transport_encryption=auto",
        f"--ServerApp.open_browser={browser}",
        "--log-level=WARN",  # the address is shown all the same
        # the file browser shows the notebooks of one language: the start page leads to the others
        *(f"--ContentsManager.hide_globs={each}" for each in (*HIDDEN, *catalogue.LANGUAGES) if each != language),
    ]
    if (notebooks / language).is_dir():
        options.append(f"--ContentsManager.preferred_dir={language}")
    if _system.administrator():
        options.append("--ServerApp.allow_root=True")  # in a container one is often root
    return options


def _tell(line: str) -> None:
    print(f"across lab: {line}", flush=True)


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
