"""Chapter 02 on a real card: several programs on one card, and the chapter itself. Skipped where there is no GPU."""

from __future__ import annotations

import pytest

from across import devices, fresh, memory, programs

pytestmark = pytest.mark.gpu


def gpus_there() -> list[devices.Device]:
    return list(devices.here().gpus)


@pytest.fixture(scope="module")
def card() -> devices.Device:
    found = fresh.run(gpus_there, timeout=300)
    if not found:
        pytest.skip("TensorFlow sees no GPU on this machine")
    return found[0]


def names_seen() -> list[str]:
    import tensorflow as tf

    return [gpu.name for gpu in tf.config.list_physical_devices("GPU")]


def test_the_first_program_holds_nearly_all_and_the_second_gets_crumbs(card: devices.Device):
    first, second = programs.share([programs.Ask("first", 100), programs.Ask("second", 4000)]).rows
    assert first.held > 0.9 * (card.memory or 0) / memory.MIB
    assert "OOM" in second.error


def test_two_programs_of_0_4_share_a_card(card: devices.Device):
    rows = programs.share([programs.Ask(name, 256, fraction=0.4) for name in ("one", "two")]).rows
    total = (card.memory or 0) / memory.MIB
    assert [row.error for row in rows] == ["", ""]
    assert all(0.4 * total < row.held < 0.4 * total + 2048 for row in rows)


def test_a_growing_program_holds_little_more_than_it_needs(card: devices.Device):
    (row,) = programs.share([programs.Ask("growing", 1000, growth=True)]).rows
    assert row.error == ""
    assert 1000 < row.held < 2048 + 2048


@pytest.mark.parametrize(("value", "count"), [("", 0), ("-1", 0), ("0", 1), ("0,99", 1)])
def test_reading_of_cuda_visible_devices_stops_at_what_is_no_card(card: devices.Device, value: str, count: int):
    assert len(fresh.run(names_seen, env={"CUDA_VISIBLE_DEVICES": value}, timeout=300)) == count
