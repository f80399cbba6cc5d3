import math
import sys

import pytest
import tensorflow as tf

from across import fresh, gpu_model, memory, programs
from across._process import warm

needs_fork = pytest.mark.skipif(not warm.available(), reason="no warm forking on this system")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="readings come from /proc and glibc")
POOL = {memory.CPU_POOL: "true", memory.CPU_LIMIT: "256", "CUDA_VISIBLE_DEVICES": ""}


def curve(size: int, tensors: int) -> list[float]:
    tensor(1)
    start, kept, taken = memory.now().taken, [], []
    for _ in range(tensors):
        kept.append(tensor(size))
        taken.append(memory.now().taken - start)
    kept.clear()
    return [*taken, memory.now().taken - start]


def tensor(mib: int) -> tf.Tensor:
    with tf.device("/CPU:0"):
        return tf.zeros([mib, memory.MIB // 4])


@on_linux
@pytest.mark.parametrize(("size", "tensors"), [(3, 30), (8, 20), (20, 10), (50, 4)])
def test_the_model_grows_as_tensorflows_own_allocator_does(size, tensors):
    program = gpu_model.ModelGPU(100_000, context=0).start("model", limit=256)
    program.growth, program.next, program.regions = True, gpu_model.FIRST_REGION, []
    program.allocate(1)
    modelled = []
    for _ in range(tensors):
        program.allocate(size)
        modelled.append(program.taken - gpu_model.FIRST_REGION)
    program.free()
    assert fresh.run(curve, size, tensors, env=POOL) == pytest.approx([*modelled, program.taken - 2], rel=0.05, abs=1)


@on_linux
def test_a_reading_tells_what_tensors_use_and_what_the_process_has_in_ram():
    def read() -> tuple[memory.Reading, memory.Reading]:
        tensor(1)  # TensorFlow starts
        before = memory.now()
        kept = tensor(32)
        after = memory.now()
        assert kept.shape[0] == 32
        return before, after

    before, after = fresh.run(read, env=POOL)
    assert after.used - before.used == pytest.approx(32, abs=0.1)
    assert after.rss - before.rss == pytest.approx(32, abs=8)
    assert 0 < after.pss <= after.rss
    assert after.at > before.at


def test_the_first_program_takes_all_but_a_reserve_and_the_second_lives_on_it():
    card = gpu_model.ModelGPU(16384, context=450)
    assert [card.start(name).taken for name in ("first", "second")] == [16384 - 450 - 1536, 1536 - 450 - 225]
    with pytest.raises(gpu_model.OutOfMemory, match="its CUDA context needs 450"):
        card.start("third")


def test_a_program_that_is_refused_asks_for_a_tenth_less_until_it_fits():
    card = gpu_model.ModelGPU(1000, context=0)
    card.start("one", limit=400)
    assert card.start("two", limit=700).taken == 567  # 700, 630, 567: the first below 600
    assert card.free == 33


@pytest.mark.parametrize(
    ("free", "capability", "taken"),
    [
        (10_000, 6, 9_500),
        (10_000, 7, 8_950),
        (10_000, 8, 8_464),
        (10_000, 9, 8_200),
        (10_000, 12, 8_200),
        (2_048, 8, 512),
        (2_047, 8, 1_822),
        (226, 8, 1),
        (225, 8, 225),
        (1, 9, 1),
    ],
)
def test_the_reserve_goes_by_compute_capability_and_is_dropped_where_nothing_else_is_left(free, capability, taken):
    assert gpu_model.default_limit(free, capability) == taken
    assert gpu_model.ModelGPU(free, context=0, capability=capability).start("only").taken == taken


@on_linux
def test_tensorflow_asks_for_a_tenth_less_each_time_that_the_system_refuses():
    def regions() -> list[float]:
        import resource

        tensor(1)
        kept, sizes = [], [mapped()]
        for room in (60, 20):  # MiB of address space: the next region finds no more
            resource.setrlimit(resource.RLIMIT_AS, (int((sizes[-1] + room) * memory.MIB), resource.RLIM_INFINITY))
            while mapped() < sizes[-1] + room / 2 or mapped() + 8 < sizes[-1] + room:
                kept.append(tensor(4))
                if len(kept) > 40:
                    break
            sizes.append(mapped())
        return sizes

    start, first, second = fresh.run(regions, env={**POOL, memory.CPU_LIMIT: "4096"})
    assert 30 < first - start <= 60
    assert 10 < second - first <= 20


def mapped() -> float:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * 4096 / memory.MIB


def test_whole_free_regions_go_back_when_a_larger_one_is_needed():
    program = gpu_model.ModelGPU(16_000, context=0).start("only", growth=True)
    program.limit = 300
    kept = program.extend(2)
    program.regions[0][1] = 0  # one region is in use to the end, so it stays
    program.allocate(100)
    program.free()
    assert program.taken == 130
    program.allocate(298)
    assert (program.regions[0] is kept, program.taken) == (True, 300)
    with pytest.raises(gpu_model.OutOfMemory):
        program.allocate(299)


def test_a_program_of_the_model_says_what_part_of_the_gpu_it_needs():
    rows = programs.on_model([programs.Ask("one", part=0.25), programs.Ask("two", needs=7, limit=8)], 16_000).rows
    assert [row.needs for row in rows] == [4000, 7]


@pytest.mark.parametrize(
    ("value", "gpus"), [(None, [0, 1, 2, 3]), ("", []), ("-1", []), ("3,2", [3, 2]), ("0,9,1", [0]), ("1, 0", [1, 0])]
)
def test_cuda_visible_devices_is_read_from_the_left_up_to_what_is_no_gpu(value, gpus):
    assert memory.seen(value, 4) == gpus


def test_only_the_end_of_a_program_gives_back_what_it_took():
    card = gpu_model.ModelGPU(4096, context=100)
    program = card.start("only", growth=True)
    program.allocate(1000)
    program.free()
    assert (program.used, program.taken, card.free) == (0, 1024, 4096 - 100 - 1024)
    program.end()
    assert card.free == 4096


def test_a_tensor_past_the_limit_is_refused_on_an_empty_card():
    program = gpu_model.ModelGPU(4096, context=0).start("only", limit=100)
    with pytest.raises(gpu_model.OutOfMemory, match="it took 100 of its limit"):
        program.allocate(101)


def test_growth_and_limit_exclude_each_other_in_the_model_too():
    with pytest.raises(ValueError, match="Cannot set memory growth"):
        gpu_model.ModelGPU(4096).start("only", limit=100, growth=True)


def test_paper_cards_are_seen_inside_the_block_only():
    before = tf.config.list_physical_devices()
    with memory.paper(3) as paper:
        gpus = tf.config.list_physical_devices("GPU")
        tf.config.set_visible_devices([gpus[2], gpus[0]], "GPU")
        assert paper.asked.visible_device_list == "0,2"
    assert len(gpus) == 3
    assert tf.config.list_physical_devices() == before


def test_what_is_settled_for_paper_cards_is_what_tensorflow_would_ask_for():
    with memory.paper(1) as paper:
        (gpu,) = tf.config.list_physical_devices("GPU")
        tf.config.experimental.set_memory_growth(gpu, True)
        assert paper.asked.allow_growth
        tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=7)])
        assert not paper.asked.allow_growth
        assert [list(each.memory_limit_mb) for each in paper.asked.experimental.virtual_devices] == [[7]]


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


def test_pictures_tell_their_data_in_words():
    readings = [memory.Reading(0.0, 0.0, 0.0, 90.0, 50.0), memory.Reading(1.0, 8.0, 16.0, 98.0, 58.0)]
    assert "taken from the system rises to 16" in memory.draw(readings, title="t").alt
    unknown = [memory.Reading(float(i), i, math.nan, math.nan, math.nan) for i in range(2)]
    assert "taken" not in memory.draw(unknown, title="t").alt
    card = gpu_model.ModelGPU(4096, context=100)
    card.start("one", limit=1000)
    assert card.draw("t").alt.startswith("MODEL: t. A GPU of 4096 MiB; after one starts: one holds 1100")


def test_a_card_shared_by_a_model_says_so():
    shared = programs.on_model([programs.Ask("one", 500), programs.Ask("two", 1500)], 16384)
    assert [row.error for row in shared.rows] == ["", "out of memory"]
    assert "MODEL" in repr(shared)
    assert "MODEL" in shared._repr_html_()
    assert "MODEL" in shared.draw("t").alt


@needs_fork
def test_processes_that_meet_run_at_the_same_time():
    def meet(meeting: programs.Meeting) -> int:
        meeting.all("here")
        return meeting.number

    assert programs.together(meet, 3) == [0, 1, 2]


@needs_fork
def test_programs_take_turns_and_stay_until_the_last():
    asks = [programs.Ask("one", needs=96), programs.Ask("two", needs=64)]
    rows = programs.together(programs._program, 2, asks, 0, "/CPU:0", env=POOL)
    assert [(row.name, row.tensors, row.error) for row in rows] == [("one", 96, ""), ("two", 64, "")]
