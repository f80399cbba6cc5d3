"""A JupyterHub of this checkout on this machine: two students, and a grader's service under a user of its own.

    unshare --mount python a_hub.py FOLDER NOTEBOOK [COMMAND ...]

must be run by root, in a mount namespace of its own, where alone its users exist (`ordinary_user`). In FOLDER, which others may
pass, are homes, the exchange, and the hub's own. The settings are those of docs/jupyterhub.md. It says {"address": ...,
"pid": ...} on its standard output once the hub serves, and ends, with all that it started, when its standard input does.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import ordinary_user

from across._jupyter import lab

STUDENTS, GRADER = ("ada", "bob"), "grader"
FIRST = 61000  # its number
COURSE, PASSWORD = "across", "a word of this test"
STARTS = 240.0  # seconds; a deadline
PROXY = "ACROSS_HUB_PROXY"  # the command of configurable-http-proxy, where it is not on the PATH
BIN = Path(sys.executable).parent

NBGRADER = """\
c = get_config()
c.Exchange.root = {exchange!r}
c.CourseDirectory.course_id = {course!r}
"""

HUB = """\
import os

c = get_config()
c.JupyterHub.bind_url = "http://127.0.0.1:{ports[0]}"
c.JupyterHub.hub_bind_url = "http://127.0.0.1:{ports[1]}"
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{ports[2]}"
c.ConfigurableHTTPProxy.command = {proxy!r}
c.JupyterHub.db_url = "sqlite:///{own}/hub.sqlite"
c.JupyterHub.cookie_secret_file = "{own}/cookie_secret"
c.JupyterHub.authenticator_class = "shared-password"
c.SharedPasswordAuthenticator.user_password = {password!r}
c.Authenticator.allow_all = True
c.Spawner.cmd = [{singleuser!r}]
c.Spawner.start_timeout = 120
c.Spawner.http_timeout = 120
c.Spawner.environment = {{
    "PATH": os.environ["PATH"],
    "JUPYTER_CONFIG_PATH": "{jupyter}/config_hub:{etc}",
    "JUPYTER_PATH": "{jupyter}/share",
    "JUPYTER_DEFAULT_PROVISIONER_NAME": "across-warm",
}}
c.JupyterHub.services = {services!r}
"""


def proxy() -> str:
    """The command of the hub's proxy; "" where there is none."""
    return os.environ.get(PROXY) or shutil.which("configurable-http-proxy") or ""


def _ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def folders(folder: Path) -> dict[str, tuple[int, Path]]:
    """Make what the hub's users have; the users, by name, with number and home."""
    users = {name: (FIRST + place, folder / "home" / name) for place, name in enumerate((*STUDENTS, GRADER))}
    for number, home in users.values():
        home.mkdir(parents=True)
        home.chmod(0o700)
        os.chown(home, number, number)
    (folder / "exchange").mkdir()
    (folder / "exchange").chmod(0o1777)
    (folder / "etc").mkdir()
    settings = NBGRADER.format(exchange=str(folder / "exchange"), course=COURSE)
    (folder / "etc" / "nbgrader_config.py").write_text(settings)
    (folder / "hub").mkdir(mode=0o700)
    return users


def environment(folder: Path, name: str) -> dict[str, str]:
    """What a user's command finds in its environment."""
    home = folder / "home" / name
    path = os.pathsep.join([str(BIN), "/usr/local/bin", "/usr/bin", "/bin"])
    return {"HOME": str(home), "USER": name, "LOGNAME": name, "PATH": path, "LANG": "C.UTF-8"} | {
        "JUPYTER_CONFIG_PATH": str(folder / "etc")
    }


def as_user(number: int, command: list[str], cwd: Path, env: dict[str, str]) -> None:
    """Run a command as a user, to its end."""
    subprocess.run(command, cwd=cwd, env=env, preexec_fn=lambda: ordinary_user.become(number), check=True, timeout=300)


def release(folder: Path, users: dict[str, tuple[int, Path]], notebook: Path) -> None:
    """Put a chapter into the exchange, as the grader, by nbgrader's own command."""
    number, home = users[GRADER]
    name = notebook.stem
    place = home / "course" / "release" / name
    place.mkdir(parents=True)
    (place / notebook.name).write_bytes(notebook.read_bytes())
    for path in (home / "course", place.parent, place, place / notebook.name):
        os.chown(path, number, number)
    as_user(number, [str(BIN / "nbgrader"), "release_assignment", name], home / "course", environment(folder, GRADER))


@contextlib.contextmanager
def hub(folder: Path, services: list[dict[str, object]]) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The hub's address and process; it ends with the block, with its proxy, servers and services."""
    own, ports = folder / "hub", _ports(3)
    told = {"ports": ports, "own": own, "password": PASSWORD, "services": services, "etc": folder / "etc"}
    told |= {"proxy": proxy(), "singleuser": str(BIN / "jupyterhub-singleuser"), "jupyter": lab.DATA.parent}
    (own / "jupyterhub_config.py").write_text(HUB.format(**told))
    path = os.pathsep.join([str(BIN), "/usr/local/bin", "/usr/bin", "/bin"])
    env = {"HOME": str(own), "PATH": path, "LANG": "C.UTF-8"}
    with (own / "log").open("wb") as log:
        command = [str(BIN / "jupyterhub"), "-f", str(own / "jupyterhub_config.py")]
        process = subprocess.Popen(command, cwd=own, env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        address = f"http://127.0.0.1:{ports[0]}"
        _wait(process, f"{address}/hub/api", own / "log")
        yield address, process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def _wait(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    until = time.monotonic() + STARTS
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=10) as answer:
            if "version" in json.loads(answer.read()):
                return
        time.sleep(0.2)
    raise AssertionError(f"the hub does not serve:\n{log.read_text(errors='replace')[-3000:]}")


def main(folder: Path, notebook: Path, command: list[str]) -> None:
    """Serve until standard input ends. `command` is the service: {home} in it is the grader's, {exchange} the course's."""
    kept = folder / "hub" / "kept"
    users = folders(folder)
    kept.mkdir()
    ordinary_user.make_users(users, kept)
    ordinary_user.open_the_way_to(
        dict.fromkeys(Path(path) for path in (sys.base_prefix, sys.prefix, str(ordinary_user.CHECKOUT))), kept
    )
    release(folder, users, notebook)
    home = users[GRADER][1]
    words = [word.format(home=home, exchange=folder / "exchange" / COURSE) for word in command]
    service = {"name": "grading", "command": words, "user": GRADER, "cwd": str(home)}
    service["environment"] = environment(folder, GRADER)
    with hub(folder, [service] if words else []) as (address, process):
        print(json.dumps({"address": address, "pid": process.pid}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
