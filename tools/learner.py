"""What a learner waits for, warm as the course does it and cold as it would be without: a table, in turns, on this machine.

uv run python tools/learner.py --repeats 3
uv run python tools/learner.py --only page      # of the steps that have this word
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
import websocket
from rich.console import Console
from rich.table import Table

DEADLINE = 120.0  # seconds
CELL = "import tensorflow as tf; print(tf.constant(1).numpy())"
FRESH = """
import time
from across import fresh
def op():
    import tensorflow as tf
    return int(tf.constant(1))
{before}
started = time.perf_counter()
assert fresh.{call} == 1
print(time.perf_counter() - started)
"""
CLUSTER = """
import os, socket, tempfile, time
from concurrent.futures import ThreadPoolExecutor
from across import fresh
holders = [socket.socket() for _ in range(3)]
for holder in holders:
    holder.bind(("127.0.0.1", 0))
tasks = ["127.0.0.1:%d" % holder.getsockname()[1] for holder in holders]
for holder in holders:
    holder.close()
over = tempfile.mktemp()
def member(number):
    import tensorflow as tf
    v1 = tf.compat.v1
    server = tf.distribute.Server({{"worker": tasks}}, "worker", number)
    if number:
        until = time.monotonic() + 60
        while not os.path.exists(over) and time.monotonic() < until:
            time.sleep(0.01)
        os._exit(0)
    with tf.Graph().as_default():
        parts = []
        for each in range(len(tasks)):
            with tf.device("/job:worker/task:%d" % each):
                parts.append(tf.constant(each) + 1)
        with v1.Session(server.target) as session:
            return int(session.run(tf.add_n(parts)))
def op():
    return 1
{before}
started = time.perf_counter()
with ThreadPoolExecutor(3) as pool:
    others = [pool.submit(fresh.call, member, number, cold={cold}) for number in (1, 2)]
    assert fresh.run(member, 0, cold={cold}) == 6
    took = time.perf_counter() - started
    open(over, "w").close()
os.remove(over)
print(took)
"""
KERNEL = f"""
import time
from across._process import provisioner, warm
{{before}}
from jupyter_client.manager import KernelManager
started = time.perf_counter()
manager = KernelManager(kernel_name="python3")
manager.start_kernel()
client = manager.client()
client.start_channels()
try:
    client.wait_for_ready(timeout={DEADLINE})
    assert client.execute_interactive({CELL!r}, timeout={DEADLINE}, output_hook=lambda _: None)["content"]["status"] == "ok"
    print(time.perf_counter() - started)
finally:
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    provisioner.turn_off()
"""
START_PAGE = """
import time
from across._jupyter import progress, resetting, start
def page():
    resetting.notice()
    start.render(progress.course(), {{}})
{before}
started = time.perf_counter()
page()
print(time.perf_counter() - started)
"""  # of the course in ACROSS_COURSE
PANEL = """
import json, time
from pathlib import Path
from across._jupyter import panel
path = max(Path({notebooks!r}).glob("*.ipynb"), key=lambda each: each.stat().st_size)
notebook = json.loads(path.read_text(encoding="utf-8"))
def look():
    json.dumps(panel.shown(path, notebook))
{before}
started = time.perf_counter()
look()
print(time.perf_counter() - started)
"""  # what the server does for one look at the largest notebook
READY = "provisioner.turn_on()\nwarm.ForkServer.ready(provisioner._server)"


def timed(program: str, **environment: str) -> float:
    """Seconds that a program of its own prints."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **environment},
        capture_output=True,
        text=True,
        timeout=2 * DEADLINE,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{program}\n{done.stderr[-3000:]}")
    return float(done.stdout.split()[-1])


def imported(bytecode: bool) -> float:
    """Seconds of `import tensorflow` in a new process, with its bytecode on the disk or none."""
    program = "import time; started = time.perf_counter(); import tensorflow; print(time.perf_counter() - started)"
    if bytecode:
        return timed(program)
    empty = tempfile.mkdtemp()
    try:
        return timed(program, PYTHONPYCACHEPREFIX=empty)
    finally:
        shutil.rmtree(empty)


def opened(command: list[str]) -> tuple[float, float]:
    """Seconds from a command to a JupyterLab that answers, and to the result of a first cell with TensorFlow."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token, started = uuid.uuid4().hex, time.perf_counter()
    process = subprocess.Popen(
        [argument.format(port=port) for argument in command],
        env={**os.environ, "JUPYTER_TOKEN": token},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while not _answers(port, token):
            if time.perf_counter() - started > DEADLINE or process.poll() is not None:
                raise RuntimeError(f"{command}: no JupyterLab answers")
            time.sleep(0.02)
        there = time.perf_counter() - started
        kernel = json.loads(_asked(port, token, "kernels", b'{"name": "python3"}'))["id"]
        _executed(port, token, kernel)
        return there, time.perf_counter() - started
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


def _asked(port: int, token: str, what: str, data: bytes | None = None) -> bytes:
    asked = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/{what}",
        data,
        {"Authorization": f"token {token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(asked, timeout=DEADLINE) as answer:
        return answer.read()


def _answers(port: int, token: str) -> bool:
    try:
        return bool(_asked(port, token, "status"))
    except (urllib.error.URLError, ConnectionError):
        return False


def _executed(port: int, token: str, kernel: str) -> None:
    address = f"ws://127.0.0.1:{port}/api/kernels/{kernel}/channels?token={token}"
    channel = websocket.create_connection(address, timeout=DEADLINE)
    header = {"msg_id": uuid.uuid4().hex, "msg_type": "execute_request", "username": "", "session": uuid.uuid4().hex}
    content = {"code": CELL, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
    asked = {"header": header | {"version": "5.3"}, "parent_header": {}, "metadata": {}, "content": content}
    channel.send(json.dumps(asked | {"channel": "shell", "buffers": []}))
    until = time.monotonic() + DEADLINE
    while time.monotonic() < until:
        said: dict[str, Any] = json.loads(channel.recv())
        if said["msg_type"] == "execute_reply" and said["parent_header"].get("msg_id") == header["msg_id"]:
            channel.close()
            assert said["content"]["status"] == "ok", said
            return
    raise TimeoutError("the first cell did not end")


def steps() -> dict[str, tuple[Callable[[], float], Callable[[], float]]]:
    """What is waited for -> how to time it warm, and cold."""
    notebooks = str(Path(__file__).resolve().parent.parent / "notebooks")
    plain = [
        sys.executable,
        "-m",
        "jupyterlab",
        "--no-browser",
        "--port={port}",
        "--allow-root",
        f"--ServerApp.root_dir={notebooks}",
    ]
    ours = [sys.executable, "-c", "from across.cli import main; main()", "lab", "--no-browser", "--port", "{port}"]
    return {
        "import tensorflow: its bytecode on the disk / compiled first": (
            lambda: imported(True),
            lambda: imported(False),
        ),
        "fresh.run: a new process, an op: forked / a new interpreter": (
            lambda: timed(FRESH.format(before="fresh.run(op)", call="run(op)")),
            lambda: timed(FRESH.format(before="", call="run(op, cold=True)")),
        ),
        "the first fresh.run of a notebook, which starts the server": (
            lambda: timed(FRESH.format(before="", call="run(op)")),
            lambda: timed(FRESH.format(before="", call="run(op, cold=True)")),
        ),
        "three TensorFlow servers to a first sum over all: forked / three new interpreters": (
            lambda: timed(CLUSTER.format(before="fresh.run(op)", cold=False)),
            lambda: timed(CLUSTER.format(before="", cold=True)),
        ),
        "a kernel to its first cell with TensorFlow": (
            lambda: timed(KERNEL.format(before=READY)),
            lambda: timed(KERNEL.format(before="")),
        ),
        "the start page: nothing was written since / the first since the start": (
            lambda: timed(START_PAGE.format(before="page()")),
            lambda: timed(START_PAGE.format(before="")),
        ),
        "the panel beside the largest notebook: looked at again / first": (
            lambda: timed(PANEL.format(notebooks=notebooks, before="look()")),
            lambda: timed(PANEL.format(notebooks=notebooks, before="")),
        ),
        "across lab to JupyterLab / jupyter lab": (lambda: opened(ours)[0], lambda: opened(plain)[0]),
        "across lab to the first cell with TensorFlow / jupyter lab": (
            lambda: opened(ours)[1],
            lambda: opened(plain)[1],
        ),
    }


def main(
    repeats: Annotated[int, typer.Option(min=1, help="of each step")] = 3,
    only: Annotated[str, typer.Option(help="steps that have this word, as in --only page")] = "",
) -> None:
    """Time each step warm and cold, in turns; medians, with the smallest and the largest."""
    Console(width=130).print(_steps_table(repeats, only))


def _steps_table(repeats: int, only: str) -> Table:
    made = Table(title=f"seconds that a learner waits; {os.cpu_count()} cores, {repeats} repeats")
    for column in ("", "warm", "(min-max)", "cold", "(min-max)", "times"):
        made.add_column(column, justify="left" if column == "" else "right")
    for name, ways in ((name, ways) for name, ways in steps().items() if only in name):
        seen: tuple[list[float], list[float]] = ([], [])
        for repeat in range(repeats):
            for way in (0, 1) if repeat % 2 == 0 else (1, 0):
                seen[way].append(ways[way]())
        cells = [
            text
            for each in seen
            for text in (_seconds(statistics.median(each)), f"({_seconds(min(each))}-{_seconds(max(each))})")
        ]
        made.add_row(name, *cells, f"{statistics.median(seen[1]) / statistics.median(seen[0]):.1f}")
    return made


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


if __name__ == "__main__":
    typer.run(main)
