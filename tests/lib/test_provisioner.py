"""Warm kernels: everything that starts kernels through jupyter_client gets them, and they behave as cold ones do."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.manager import KernelManager, start_new_kernel
from jupyter_client.provisioning.factory import KernelProvisionerFactory
from nbclient import NotebookClient

from across._process import provisioner, warm

pytestmark = pytest.mark.skipif(not warm.available(), reason="kernels are forked on Linux only")

QUIET = ["--log-level=ERROR"]
DEADLINE = 60.0


@pytest.fixture(scope="module")
def turned_on() -> Iterator[None]:
    factory = KernelProvisionerFactory.instance()
    before, env = factory.default_provisioner_name, dict(os.environ)
    provisioner.turn_on()
    yield
    provisioner.turn_off()
    factory.default_provisioner_name = before
    os.environ.clear()
    os.environ.update(env)


@pytest.fixture
def kernel(turned_on: None) -> Iterator[tuple[KernelManager, Any]]:
    manager, client = start_new_kernel(startup_timeout=DEADLINE, extra_arguments=QUIET)
    try:
        yield manager, client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


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


def test_a_notebook_finds_tensorflow_imported_and_can_use_it(turned_on: None):
    first, second = executed(
        "import sys; print('tensorflow' in sys.modules)", "import tensorflow as tf; print(tf.add(1, 2))"
    )
    assert first[0].text == "True\n"
    assert [(out.name, out.text) for out in second] == [("stdout", "tf.Tensor(3, shape=(), dtype=int32)\n")]


def test_a_figure_shows(turned_on: None):
    (outputs,) = executed("import matplotlib.pyplot as plt\nplt.plot([1, 2]);")
    assert "image/png" in outputs[0].data


def test_what_c_code_prints_shows(turned_on: None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # with it ipykernel leaves file descriptors alone
    manager, client = start_new_kernel(startup_timeout=DEADLINE, extra_arguments=QUIET)
    try:
        client.execute("import os; os.write(2, b'from below\\n');")
        wait_for(lambda: "below" in client.get_iopub_msg(timeout=DEADLINE)["content"].get("text", ""), "the line")
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_a_warm_kernel_looks_for_modules_where_a_cold_one_does(turned_on: None, monkeypatch: pytest.MonkeyPatch):
    ask = "import sys, os; print(sys.path, os.getcwd())"
    warm_says = executed(ask)[0][0].text
    monkeypatch.setattr(KernelProvisionerFactory.instance(), "default_provisioner_name", "local-provisioner")
    assert warm_says == executed(ask)[0][0].text


def test_two_kernels_share_nothing(kernel: tuple[KernelManager, Any]):
    _, client = kernel
    value(client, "globals().update(mine=1)")
    drawn = value(client, "__import__('numpy').random.random()")
    assert executed("print('mine' in globals())")[0][0].text == "False\n"
    assert executed("print(__import__('numpy').random.random())")[0][0].text != f"{drawn}\n"


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


def test_shutting_a_kernel_down_ends_what_it_started(turned_on: None):
    manager, client = start_new_kernel(startup_timeout=DEADLINE, extra_arguments=QUIET)
    pids = [
        int(value(client, "__import__('os').getpid()")),
        int(value(client, "__import__('subprocess').Popen(['sleep', '600']).pid")),
    ]
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    wait_for(lambda: all(map(gone, pids)), "the end of the kernel and its child")


def test_variables_that_tensorflow_reads_when_it_starts_make_a_cold_kernel(turned_on: None):
    env = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "0"}
    manager, client = start_new_kernel(startup_timeout=DEADLINE, extra_arguments=QUIET, env=env)
    try:
        assert value(client, "'tensorflow' in __import__('sys').modules") == "False"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_another_programs_kernel_is_not_forked():
    assert provisioner.kernel_arguments([sys.executable, "-m", "ipykernel_launcher", "-f", "x"]) == ["-f", "x"]
    assert provisioner.kernel_arguments(["/other/python", "-m", "ipykernel_launcher", "-f", "x"]) is None
    assert provisioner.kernel_arguments([sys.executable, "-m", "xeus", "-f", "x"]) is None
