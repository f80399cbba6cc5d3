"""What only a machine with NVIDIA cards can show. On others these tests say so and skip."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from across import fresh

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def cards() -> list[dict[str, Any]]:
    """The cards that TensorFlow sees, as `across doctor` tells them."""
    command = [sys.executable, "-c", "from across.cli import main; main()", "doctor", "--json"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
    found = [device for device in json.loads(said)["devices"] if device["type"] == "GPU"]
    if not found:
        pytest.skip("TensorFlow sees no GPU on this machine")
    return found


def product_on_best() -> tuple[str, float]:
    import tensorflow as tf

    from across import devices

    with tf.device(devices.gpus_or_cpus(1)[0]):
        product = tf.linalg.matmul(tf.ones([64, 64]), tf.ones([64, 64]))
    return product.backing_device, float(product[0, 0])


def test_the_doctor_tells_model_memory_and_compute_capability(cards: list[dict[str, Any]]):
    for card in cards:
        assert card["model"]
        assert card["memory"] > 1 << 30
        assert card["compute_capability"] >= [5, 0]


def test_a_forked_process_computes_on_a_card(cards: list[dict[str, Any]]):
    device, value = fresh.run(product_on_best, timeout=300)
    assert "GPU:0" in device
    assert value == 64.0
