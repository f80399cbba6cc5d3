"""A PostgreSQL server of the tests' own: in a temporary folder, on a socket there, ended with them."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import NullPool, create_engine
from sqlalchemy.exc import OperationalError

ADMIN = "across"


def programs() -> Path | None:
    """The folder of PostgreSQL's server programs, if there is one: Debian keeps them off PATH."""
    found = shutil.which("postgres")
    folders = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


@contextmanager
def server() -> Iterator[str]:
    """Start a server, yield the URL of its empty database, end it. As root it runs as another user: it insists."""
    binaries = programs()
    assert binaries is not None
    user = "nobody" if os.getuid() == 0 else None
    place = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # short: a socket's path has 107 bytes
    try:
        if user:
            account = pwd.getpwnam(user)
            os.chown(place, account.pw_uid, account.pw_gid)
        data = place / "data"
        quick = ["--no-sync", "--encoding=UTF8", "--locale=C.UTF-8", "--auth=trust", f"--username={ADMIN}"]
        subprocess.run(
            [binaries / "initdb", "-D", data, *quick], check=True, capture_output=True, user=user, timeout=120, cwd="/"
        )
        settings = {"listen_addresses": "", "unix_socket_directories": str(place), "fsync": "off"}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with open(place / "log", "wb") as log:
            process = subprocess.Popen(
                [binaries / "postgres", "-D", data, *options], stdout=log, stderr=log, user=user, cwd="/"
            )
        try:
            url = f"postgresql+psycopg://{ADMIN}@/postgres?host={place}"
            _wait(url, place / "log", process)
            yield url
        finally:
            process.send_signal(signal.SIGINT)  # "fast": it ends its connections
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _wait(url: str, log: Path, process: subprocess.Popen[bytes], deadline: float = 60.0) -> None:
    engine, until = create_engine(url, poolclass=NullPool), time.monotonic() + deadline
    while True:
        try:
            engine.connect().close()
            return
        except OperationalError:
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(log.read_text()) from None
            time.sleep(0.05)
