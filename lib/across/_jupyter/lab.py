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
TRIES = 50  # ports tried after the first, unless one was asked for


class PortTaken(OSError):  # noqa: N818 - reads as the sentence it is
    """Another program listens on the port; the message has the mend."""


def start(browser: bool = True, port: int | None = None, keep_diary: bool = False) -> None:
    """Serve the course's notebooks/ until interrupted; JupyterLab and the start page speak the language of this process.

    `keep_diary` of what exercises take, in a file of the user's.

    Raises PortTaken, chapters.NoSuchChapter, OSError.
    """
    notebooks = chapters.folder()
    in_the_way.look(settings=True)
    if catalogue.current() != catalogue.ENGLISH and not pictured.font():
        print(f"across lab: {said(pictured.NO_FONT)}")
    port = free_port(port)
    os.environ.update(environment(os.environ))
    os.environ.pop(diary.ASKED_FOR, None)
    if keep_diary:
        os.environ[diary.ASKED_FOR] = "1"
        kept = said(
            "your diary is {0}: when you were at which exercise, and what checks said. It stays on this machine; `uv run "
            "across diary` shows it, and you may delete it.",
            diary.file(),
        )
        print(f"across lab: {kept}")
    if warm.available():
        provisioner.turn_on()
    else:
        cold = said("kernels start cold on {0}: about 4 s each. Everything else is the same.", _system.name())
        print(f"across lab: {cold}")
    print(f"across lab: {said('starting JupyterLab; Ctrl+C ends it.')}", flush=True)  # a minute on a busy machine
    from jupyterlab.labapp import LabApp

    try:
        LabApp.launch_instance(arguments(notebooks, browser, port))
    finally:
        provisioner.turn_off()


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


def arguments(notebooks: Path, browser: bool, port: int) -> list[str]:
    """JupyterLab's command line."""
    language = catalogue.current()
    options = [
        f"--ServerApp.root_dir={notebooks}",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
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


def free_port(wanted: int | None = None) -> int:
    """`wanted` if it is free, else PortTaken; without a wish the first free one from 8888 on, saying so."""
    if wanted is not None:
        if not _is_free(wanted):
            raise PortTaken(
                errno.EADDRINUSE, said("port {0} is taken; try `uv run across lab --port {1}`", wanted, wanted + 1)
            )
        return wanted
    for port in range(PORT, PORT + TRIES):
        if _is_free(port):
            if port != PORT:
                print(f"across lab: {said('port {0} is taken; using {1}.', PORT, port)}")
            return port
    taken = said("ports {0} to {1} are taken; choose one: `uv run across lab --port N`", PORT, PORT + TRIES - 1)
    raise PortTaken(errno.EADDRINUSE, taken)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        if _system.listens_again():
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server itself does
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
