"""A kernel on a real card, warm and cold: it sees the card, takes of it what it needs, and computes float32."""

from __future__ import annotations

from ast import literal_eval

import nbformat
import pytest
from jupyter_client.provisioning.factory import KernelProvisionerFactory
from nbclient import NotebookClient

from across._process import provisioner

pytestmark = pytest.mark.gpu
ASK = """\
from across.attempt import attempt
import tensorflow as tf
with tf.device("/GPU:0"):
    product = tf.linalg.matmul(tf.fill([64, 64], 1 + 2.0**-12), tf.eye(64))  # TF32 would round it to 1
grows = {tf.config.experimental.get_memory_growth(gpu) for gpu in tf.config.list_physical_devices("GPU")}
print((grows, product.backing_device[-5:], float(product[0, 0])))
"""
BESIDE = """\
from across import fresh
print(fresh.run(lambda: [gpu.name[-5:] for gpu in tf.config.list_physical_devices("GPU")])[0])
"""


@pytest.mark.parametrize("provision", [provisioner.NAME, "local-provisioner"], ids=["warm", "cold"])
def test_a_kernel_shares_its_card(card: None, warm_kernels: None, monkeypatch: pytest.MonkeyPatch, provision: str):
    monkeypatch.setattr(KernelProvisionerFactory.instance(), "default_provisioner_name", provision)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in (ASK, BESIDE)])
    NotebookClient(notebook, timeout=300).execute()
    asked, beside = (
        "".join(out.text for out in cell.outputs if out.get("name") == "stdout") for cell in notebook.cells
    )
    assert literal_eval(asked) == ({True}, "GPU:0", 1 + 2.0**-12)
    assert beside == "GPU:0\n"
