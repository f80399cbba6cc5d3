"""Clusters where there is a card: who of the tasks has it. Elsewhere these tests skip."""

from __future__ import annotations

import pytest

from across import fresh
from across.clusters import LocalCluster

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("card")]


def devices(target: str) -> list[str]:
    import tensorflow as tf

    v1 = tf.compat.v1
    with v1.Session(target, config=v1.ConfigProto(operation_timeout_in_ms=60_000)) as session:
        return [device.name for device in session.list_devices()]


def test_workers_share_a_card_and_a_ps_sees_none():
    with LocalCluster(ps=1, worker=2, timeout=120) as cluster:
        found = fresh.run(devices, cluster.target("worker", 0), timeout=120)
    assert [name for name in found if "GPU:0" in name] == [
        f"/job:worker/replica:0/task:{index}/device:GPU:0" for index in (0, 1)
    ]
    assert not [name for name in found if "/job:ps" in name and "GPU" in name]
