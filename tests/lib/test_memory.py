import json
import math
import os
import signal
import sys
from unittest import mock

import pytest
import tensorflow as tf
from processes import in_a_fresh_process

import record_filled
from across import fresh, memory, programs
from across._gpu import building, loading

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="readings come from /proc and glibc")
simulated = pytest.mark.skipif(bool(building.problem()), reason=f"no simulated GPU here: {building.problem()}")


def tensor(mib: int) -> tf.Tensor:
    with tf.device("/CPU:0"):
        return tf.zeros([mib, memory.MIB // 4])


@on_linux
@in_a_fresh_process(env=memory.POOL)
def test_a_reading_tells_what_tensors_use_and_what_is_taken_for_them():
    tensor(1)  # TensorFlow starts
    before = memory.now("CPU:0")
    kept = tensor(32)
    after = memory.now("CPU:0")
    del kept
    dropped = memory.now("CPU:0")
    assert after.used - before.used == pytest.approx(32, abs=0.1)
    assert after.taken - before.taken >= 32
    assert (dropped.used, dropped.taken) == (pytest.approx(before.used, abs=0.1), after.taken)


def on_gpu(mib: int) -> tf.Tensor:
    with tf.device("/GPU:0"):
        return tf.zeros([mib, memory.MIB // 4])


@simulated
@pytest.mark.whole
def test_a_growing_gpu_takes_regions_as_the_rule_says_and_gives_empty_ones_back_for_a_larger(built):
    def regions() -> list[float]:
        (gpu,) = tf.config.list_physical_devices("GPU")
        tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=256)])
        on_gpu(1)
        kept, found = [], [memory.now().taken]
        for _ in range(9):
            kept.append(on_gpu(8))
            found.append(memory.now().taken)
        kept.clear()
        kept.append(on_gpu(127))
        return [*found, memory.now().taken]

    grows = {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    assert fresh.run(regions, gpus=1, env=grows) == [
        2,
        10,
        18,
        34,
        34,
        66,
        66,
        66,
        66,
        130,
        130,
    ]  # five regions for one of 128
    kept = {**grows, "TF_ENABLE_GPU_GARBAGE_COLLECTION": "false"}
    with pytest.raises(tf.errors.ResourceExhaustedError):
        fresh.run(regions, gpus=1, env=kept)


@simulated
@in_a_fresh_process(gpus=1)
def test_places_tell_where_tensors_lie_and_a_small_one_goes_into_a_hole():
    kept = [on_gpu(8) for _ in range(3)]
    del kept[1]
    kept.append(on_gpu(4))
    (first, size), (third, _), (small, least) = memory.places(kept)
    assert (size, least) == (8, 4)
    assert (third - first, small - first) == (16, 8)


@simulated
def test_the_second_program_lives_on_the_first_ones_reserve(built):
    assert programs.takes(["first", "second", "third"], 4096) == (
        {"first": 2560, "second": 1311, "third": 225},
        "measured",
    )


@simulated
def test_a_program_that_is_refused_asks_for_a_tenth_less_until_it_fits(built):
    rows = programs.share([programs.Ask(name, fraction=0.4) for name in ("one", "two", "three")]).rows
    assert [row.held for row in rows] == [1638, 1638, 783]


@simulated
@pytest.mark.whole
def test_a_program_out_of_memory_says_so_and_what_others_hold_stays_theirs(built):
    asks = [programs.Ask("early", part=0.6, growth=True, drops=True), programs.Ask("late", part=0.6, growth=True)]
    shared = programs.share(asks)
    early, late = shared.rows
    assert (early.made, early.kept, early.error) == (2457, 0, "")
    assert early.held >= 2457
    assert early.held + late.held <= 4096
    assert "OOM when allocating tensor" in shared.errors()
    assert "late needs 2457" in repr(shared.draw("t"))
    assert "out of memory" in repr(shared)


@simulated
def test_a_program_that_was_killed_holds_nothing(built, tmp_path):
    def taken(die: bool) -> float:
        from across import devices

        devices.gpus(1, "1 GiB")
        before = memory.taken()
        on_gpu(1)
        if die:
            os.kill(os.getpid(), signal.SIGKILL)
        return before

    cards = {loading.CARDS: str(tmp_path / "cards")}
    with pytest.raises(fresh.Died):
        fresh.run(taken, True, env=cards)
    assert fresh.run(taken, False, env=cards) == 0


def test_where_no_gpu_can_be_had_sharing_says_why(monkeypatch):
    monkeypatch.setattr(programs, "together", mock.Mock(side_effect=programs.devices.NoGpu("No compiler.")))
    shared = programs.share([programs.Ask("one"), programs.Ask("two")])
    assert repr(shared) == shared._repr_html_() == shared.errors() == f"{shared.where}"
    assert "No compiler." in shared.where
    assert shared.draw("t") is None
    assert programs.takes(["first", "second"], 4096) == ({"first": 2560, "second": 1311}, "by the table")


@pytest.mark.parametrize(
    ("free", "taken"), [(10_000, 8_464), (2_048, 512), (2_047, 1_822), (226, 1), (225, 225), (1, 1)]
)
def test_a_reserve_is_left_and_dropped_where_nothing_else_is_left(free, taken):
    assert programs.left_to_take(free) == taken


@pytest.mark.parametrize(
    ("value", "gpus"), [(None, [0, 1, 2, 3]), ("", []), ("-1", []), ("3,2", [3, 2]), ("0,9,1", [0]), ("1, 0", [1, 0])]
)
def test_cuda_visible_devices_is_read_from_the_left_up_to_what_is_no_gpu(value, gpus):
    assert memory.seen(value, 4) == gpus


def test_paper_cards_are_seen_inside_the_block_only():
    before = tf.config.list_physical_devices()
    with memory.paper(3) as paper:
        gpus = tf.config.list_physical_devices("GPU")
        tf.config.set_visible_devices([gpus[2], gpus[0]], "GPU")
        assert paper.asked.visible_device_list == "0,2"
        tf.config.experimental.set_memory_growth(gpus[0], True)
        tf.config.experimental.set_memory_growth(gpus[2], True)
        assert paper.asked.allow_growth
    assert len(gpus) == 3
    assert tf.config.list_physical_devices() == before


def test_what_is_asked_of_each_paper_gpu_is_told_by_gpu():
    with memory.paper(2) as paper:
        first, second = tf.config.list_physical_devices("GPU")
        tf.config.experimental.set_memory_growth(first, True)
        for gpu, limits in ((first, [7]), (second, [5, 6])):
            pieces = [tf.config.LogicalDeviceConfiguration(memory_limit=limit) for limit in limits]
            tf.config.set_logical_device_configuration(gpu, pieces)
        assert paper.settings() == ([True, None], [7, [5, 6]])
    with memory.paper(2) as paper:
        assert paper.settings() == ([None, None], [None, None])


def test_a_rule_is_drawn_over_what_was_measured():
    def twice(size: int, step: int, left: int) -> tuple[int, int]:
        return min(step, left), step * 2

    assert memory.by_rule(twice, 4, 4, 30) == [4, 12, 12, 28]
    assert memory.draw_rule({4: ([4, 12], [4.1, 12.2])}).alt == (
        "MiB taken after each tensor. 4 MiB tensors: measured 4, 12; your rule 4, 12."
    )
    with pytest.raises(ValueError, match="no curves"):
        memory.draw_rule({})


def test_what_was_set_on_one_paper_can_be_set_on_another():
    with memory.paper(2) as first:
        gpus = tf.config.list_physical_devices("GPU")
        tf.config.set_logical_device_configuration(gpus[1], [tf.config.LogicalDeviceConfiguration(memory_limit=7)])
        tf.config.set_visible_devices(gpus[1], "GPU")
        tf.config.experimental.set_memory_growth(gpus[0], True)
    assert first.calls[0] == ["set_logical_device_configuration", "GPU:1", [7.0]]
    with memory.paper(2) as again:
        again.do(first.calls)
        assert again.asked.visible_device_list == "1"
        assert again.settings()[0] == [True, None]
    with memory.paper(1) as smaller, pytest.raises(ValueError, match="no calls that can be made"):
        smaller.do(first.calls)


def test_pictures_tell_their_data_in_words():
    readings = [memory.Reading(0.0, 0.0), memory.Reading(8.0, 16.0)]
    assert "taken in regions rises to 16" in memory.draw(readings, title="t").alt
    unknown = [memory.Reading(i, math.nan) for i in range(2)]
    assert "taken" not in memory.draw(unknown, title="t").alt
    walked = memory.walk_places({"all": [(8.0, 8.0), (16.0, 8.0)], "one": [(16.0, 8.0)], "none": []}, title="t")
    assert [picture.alt for picture in walked.steps.values()] == [
        "t, all. 2 tensors, 16 MiB. Free: none.",
        "t, one. 1 tensors, 8 MiB. Free: 1 of 8.",
        "t, none. 0 tensors, 0 MiB. Free: 1 of 16.",
    ]
    with pytest.raises(ValueError, match="no tensors"):
        memory.walk_places({"none": []}, title="t")


@simulated
@pytest.mark.parametrize("growth", ["no", "yes"])
def test_tensorflow_fills_a_gpu_as_it_was_recorded(built, growth):
    known = json.loads(record_filled.PLACE.read_text(encoding="utf-8"))["filled"][f"64 {growth}"]
    assert [list(each) for each in fresh.run(record_filled.filled, 64, growth, len(known), gpus=1)] == known


def test_the_sliders_show_the_record_and_the_first_tensor_that_was_refused():
    known = json.loads(record_filled.PLACE.read_text(encoding="utf-8"))["filled"]
    data = memory.draw_filled(title="filled").data
    taken, used = data["lines"]
    settings = [f"{limit} {growth}" for limit in data["values"][1] for growth in data["values"][2]]
    for setting, *texts in zip(settings, taken["says"], used["says"], strict=True):
        for column, row in enumerate(texts):
            numbers = [text for text in row if text != "refused"]
            assert numbers == [f"{each[column]:.3g}" for each in known[setting]]
            assert row[len(numbers)] == "refused"
