"""Warm kernels: everything that starts kernels through jupyter_client gets them, and they behave as cold ones do."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from ast import literal_eval
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.manager import KernelManager, start_new_kernel
from jupyter_client.provisioning.factory import KernelProvisionerFactory
from nbclient import NotebookClient
from processes import forked

from across._gpu import building
from across._process import provisioner

pytestmark = [forked, pytest.mark.usefixtures("warm_kernels")]

QUIET = ["--log-level=ERROR"]
DEADLINE = 60.0


@contextmanager
def started(**options: Any) -> Iterator[tuple[KernelManager, Any]]:
    """A kernel with its client; ended with the block."""
    manager, client = start_new_kernel(startup_timeout=DEADLINE, extra_arguments=QUIET, **options)
    try:
        yield manager, client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.fixture
def kernel() -> Iterator[tuple[KernelManager, Any]]:
    with started() as running:
        yield running


def executed(*sources: str, **options: Any) -> list[Any]:
    """The outputs of cells, executed by plain nbclient."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    NotebookClient(notebook, timeout=int(DEADLINE), extra_arguments=QUIET, **options).execute()
    return [cell.outputs for cell in notebook.cells]


def value(client: Any, expression: str) -> str:
    reply = client.execute("", user_expressions={"it": expression}, reply=True, timeout=DEADLINE)
    content = reply["content"]
    assert "data" in content.get("user_expressions", {}).get("it", {}), content
    return content["user_expressions"]["it"]["data"]["text/plain"]


def wait_for(seen: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + DEADLINE
    while not seen():
        assert time.monotonic() < until, f"{what}: not within {DEADLINE:.0f} s"
        time.sleep(0.02)


def gone(pid: int) -> bool:
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True


@pytest.mark.whole
def test_a_notebook_finds_tensorflow_imported_and_can_use_it_and_a_figure_shows():
    first, second, third = executed(
        "import sys; print('tensorflow' in sys.modules)",
        "import tensorflow as tf; print(tf.add(1, 2))",
        "import matplotlib.pyplot as plt\nplt.plot([1, 2]);",
    )
    assert first[0].text == "True\n"
    assert [(out.name, out.text) for out in second] == [("stdout", "tf.Tensor(3, shape=(), dtype=int32)\n")]
    assert "image/png" in third[0].data


@pytest.mark.whole
def test_what_c_code_prints_shows(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # with it ipykernel leaves file descriptors alone
    with started() as (_, client):
        client.execute("import os; os.write(2, b'from below\\n');")
        wait_for(lambda: "below" in client.get_iopub_msg(timeout=DEADLINE)["content"].get("text", ""), "the line")


def test_a_warm_kernel_looks_for_modules_where_a_cold_one_does(monkeypatch: pytest.MonkeyPatch):
    ask = "import sys, os; print(sys.path, os.getcwd())"
    warm_says = executed(ask)[0][0].text
    monkeypatch.setattr(KernelProvisionerFactory.instance(), "default_provisioner_name", "local-provisioner")
    assert warm_says == executed(ask)[0][0].text


def test_two_kernels_share_nothing(kernel: tuple[KernelManager, Any]):
    _, client = kernel
    value(client, "globals().update(mine=1)")
    drawn = value(client, "__import__('numpy').random.random()")
    ((other,),) = executed("print('mine' in globals(), __import__('numpy').random.random())")
    assert other.text.startswith("False ")
    assert other.text != f"False {drawn}\n"


def test_an_interrupt_ends_the_cell_and_keeps_the_kernel(kernel: tuple[KernelManager, Any]):
    manager, client = kernel
    value(client, "globals().update(kept=7)")
    # not stop_on_error: ipykernel would abort the next request, too, if it came soon
    told = client.execute("print('in', flush=True)\nwhile True: pass", stop_on_error=False)
    wait_for(lambda: client.get_iopub_msg(timeout=DEADLINE)["content"].get("text") == "in\n", "the cell runs")
    manager.interrupt_kernel()
    reply = client.get_shell_msg(timeout=DEADLINE)
    assert reply["parent_header"]["msg_id"] == told
    assert reply["content"]["ename"] == "KeyboardInterrupt"
    assert value(client, "kept") == "7"


def test_a_restart_gives_a_fresh_kernel(kernel: tuple[KernelManager, Any]):
    manager, client = kernel
    value(client, "globals().update(kept=7)")
    before = value(client, "__import__('os').getpid()")
    manager.restart_kernel(now=True, extra_arguments=QUIET)
    client.wait_for_ready(timeout=DEADLINE)
    assert value(client, "'kept' in globals()") == "False"
    assert value(client, "__import__('os').getpid()") != before


def test_a_kernel_that_dies_is_seen_to_be_dead(kernel: tuple[KernelManager, Any]):
    manager, client = kernel
    client.execute("import os; os._exit(3)")
    wait_for(lambda: not manager.is_alive(), "the death of the kernel")


def test_shutting_a_kernel_down_ends_what_it_started():
    with started() as (_, client):
        asked = ("__import__('os').getpid()", "__import__('subprocess').Popen(['sleep', '600']).pid")
        pids = [int(value(client, each)) for each in asked]
    wait_for(lambda: all(map(gone, pids)), "the end of the kernel and its child")


def test_fresh_processes_come_from_a_server_beside_the_kernel_that_ends_with_it():
    with started() as (_, client):
        value(client, "__import__('tensorflow').add(1, 2)")  # from here on the kernel itself could not be forked
        value(client, "globals().update(fresh=__import__('across.fresh').fresh, os=__import__('os'))")
        kernel, beside, own = literal_eval(value(client, "(os.getpid(), fresh.run(os.getppid), len(fresh._servers))"))
        assert own == 0
        assert f"\nPPid:\t{kernel}\n" in Path(f"/proc/{beside}/status").read_text()
        assert literal_eval(value(client, "fresh.run(eval, \"int(__import__('tensorflow').add(1, 2))\")")) == 3
        draw = "[float(fresh.run(eval, \"__import__('numpy').random.random()\")) for _ in range(2)]"
        assert len(set(literal_eval(value(client, draw)))) == 2
        folder = Path(literal_eval(value(client, "os.environ['ACROSS_FORK_SERVER']")).partition(os.pathsep)[0]).parent
        assert (folder / "warm").is_socket()
    wait_for(lambda: gone(beside) and not folder.exists(), "the end of the server beside the kernel")


CELLS = """
import tensorflow as tf
from across import fresh, programs

@tf.function
def up(x):
    if x > 0:
        x += 1
    return x

def breaks(meeting=None):
    raise ValueError("no")  # this line
=====
print(fresh.run(lambda: int(up(tf.constant(1)))))
=====
fresh.run(breaks)
=====
programs.together(breaks, 2)
"""


def test_code_of_a_notebook_keeps_its_source_in_a_fresh_process():
    _, up, alone, together = executed(*CELLS.split("=====\n"), allow_errors=True)
    assert "".join(output.get("text", "?") for output in up) == "2\n"  # AutoGraph read it
    for outputs, process in ((alone, "the fresh process"), (together, "process ")):
        remote, _, shown = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(outputs[-1].traceback)).partition("direct cause")
        assert re.search(r'in breaks\n +raise ValueError\("no"\)  # this line', remote)
        assert re.search(
            rf'ValueError: no\nin {process}.*, in breaks, line \d+: raise ValueError\("no"\)  # this', shown
        )


@pytest.mark.whole
def test_a_kernel_whose_server_was_killed_starts_another(kernel: tuple[KernelManager, Any]):
    _, client = kernel
    value(client, "globals().update(fresh=__import__('across.fresh').fresh, os=__import__('os'))")
    beside = int(value(client, "fresh.run(os.getppid)"))
    os.kill(beside, signal.SIGKILL)
    wait_for(lambda: gone(beside), "its end")
    assert value(client, "fresh.run(int)") == "0"
    assert value(client, "len(fresh._servers)") == "1"


def test_tensorflow_logs_in_a_kernel_as_in_a_notebook_and_beside_it_as_in_a_script():
    ask = (
        "import logging, tensorflow as tf\nfrom across import fresh\n"
        "def ask():\n    tf.get_logger().info('told'), tf.get_logger().warning('warned')\n"
        "    (handler,) = logging.getLogger('tensorflow').handlers\n    return type(handler.stream).__name__\n"
    )
    (here,) = executed(ask + "print(ask())")
    assert "".join(output.text for output in here).split("\n")[-2] == "OutStream"
    assert "INFO:tensorflow:told" in here[0].text
    (beside,) = executed(ask + "outcome = fresh.call(ask)\nprint(outcome.value, repr(outcome.output))")
    assert beside[0].text == r"TextIOWrapper 'WARNING:tensorflow:warned\n'" + "\n"


def test_variables_that_tensorflow_reads_when_it_starts_make_a_cold_kernel():
    with started(env={**os.environ, "TF_ENABLE_ONEDNN_OPTS": "0"}) as (_, client):
        assert value(client, "'tensorflow' in __import__('sys').modules") == "False"


def test_another_programs_kernel_is_not_forked():
    assert provisioner.kernel_arguments([sys.executable, "-m", "ipykernel_launcher", "-f", "x"]) == ["-f", "x"]
    assert provisioner.kernel_arguments(["/other/python", "-m", "ipykernel_launcher", "-f", "x"]) is None
    assert provisioner.kernel_arguments([sys.executable, "-m", "xeus", "-f", "x"]) is None


@pytest.mark.skipif(bool(building.problem()), reason=f"no simulated GPU here: {building.problem()}")
def test_a_warm_kernel_has_the_gpus_that_its_environment_asks_for(monkeypatch: pytest.MonkeyPatch):
    building.build()
    monkeypatch.setenv("ACROSS_GPUS", "2")
    (cell,) = executed("import tensorflow as tf; print(len(tf.config.list_physical_devices('GPU')))")
    assert cell[0].text == "2\n"
