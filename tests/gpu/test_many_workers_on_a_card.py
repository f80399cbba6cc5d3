"""Chapter 13 where there is a card: workers that share it, and with a card each NCCL. Elsewhere these tests skip."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from on_cards import cells

from across import fresh
from across.clusters import LocalCluster

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("card")]

CHAPTER = "13_many_workers"
LOOP = ("made", "alone", "pipeline", "worker", "started", "reducing")
STRATEGY = "tf.distribute.MultiWorkerMirroredStrategy()"
OPTIONS = "tf.distribute.experimental.CommunicationOptions"
WAYS = "tf.distribute.experimental.CommunicationImplementation"
GROWS = {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}  # two processes on one card: none may take it all
STEPS = 20


def source(way: str) -> str:
    """The chapter's programs, in which the gradients are added by `way`."""
    told = f"tf.distribute.MultiWorkerMirroredStrategy(communication_options={OPTIONS}(implementation={WAYS}.{way}))"
    programs = cells(CHAPTER, *LOOP)
    assert STRATEGY in programs
    return programs.replace(STRATEGY, told)


def names(source: str) -> dict[str, Any]:
    """What the chapter's programs bind; for a process in which TensorFlow has not started. Products are not rounded to TF32."""
    import tensorflow as tf

    from across import digits, replicas, workers

    tf.config.experimental.enable_tensor_float_32_execution(False)
    found: dict[str, Any] = {"tf": tf, "v1": tf.compat.v1, "replicas": replicas, "workers": workers}
    found |= {"train": digits.load()[0], "SIZES": []}
    exec(source, found)
    return found


def alone(source: str) -> list[float]:
    return names(source)["alone"](STEPS)


def trained(source: str, folder: str, kind: str, *, card_each: bool):
    """A program for LocalCluster: the losses of one worker, and how many devices of `kind` it had."""

    def program(spec, job, index):
        if card_each:
            os.environ["CUDA_VISIBLE_DEVICES"] = str(index)
        found = names(source)
        losses = found["started"](folder, STEPS)(spec, job, index)
        return losses, len(found["tf"].config.list_logical_devices(kind))

    return program


def reduced(source: str):
    """A program for LocalCluster: bytes of each collective, its hint, and 1 + 1, with a card each."""

    def program(spec, job, index):
        os.environ["CUDA_VISIBLE_DEVICES"] = str(index)
        found = names(source)
        way = found["tf"].distribute.experimental.CommunicationImplementation.NCCL
        return found["reducing"](0, way, [8192, 128])(spec, job, index)

    return program


def both(program: Any, env: dict[str, str]) -> list[Any]:
    with LocalCluster(program, worker=2, env=env, timeout=120) as cluster:
        return [cluster.result("worker", index, 120) for index in (0, 1)]


def in_step(way: str, folder: str, kind: str = "GPU", *, card_each: bool = False) -> None:
    """Assert that two workers in step, on devices of `kind`, have the losses of one device."""
    env = GROWS if kind == "GPU" else {"CUDA_VISIBLE_DEVICES": ""}
    one = fresh.run(alone, source(way), env=env, timeout=300)
    for losses, seen in both(trained(source(way), folder, kind, card_each=card_each), env):
        assert seen
        assert np.allclose(losses, one, atol=1e-4)


def test_two_workers_that_share_a_card_train_as_one_device(tmp_path):
    in_step("RING", str(tmp_path))


@pytest.mark.usefixtures("two_cards")  # NCCL refuses two workers that share one
def test_two_workers_with_a_card_each_add_by_nccl(tmp_path):
    sizes, hint, total = both(reduced(source("NCCL")), {})[0]
    assert (sizes, hint, total) == ([8320], "nccl", 2.0)
    in_step("NCCL", str(tmp_path), card_each=True)
