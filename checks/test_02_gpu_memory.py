"""Trusted checks of chapter 02: rules of memory on fresh numbers, a model in a peer's memory, settings made again here."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import tensorflow as tf

from across import memory
from across.expecting import anything, between, entries, list_of, maybe, number, row, shown, text, whole
from across.memory import seen
from autograder.probe.asking import Misconception, each_answer, exercise, kept, probe, recorded

mebibytes = between(0, math.inf).named("a number of MiB, and not less than nothing")
test_every_program_has_a_recorded_number = recorded(
    "prediction", dict.fromkeys(("first", "second", "third"), mebibytes)
)


# gpus_for


def check_gpus(student: Any, rng: Any, workers: int, gpus: int) -> None:
    tasks = [f"ps:{i}" for i in range(int(rng.integers(2, 4)))] + [f"worker:{i}" for i in range(workers)]
    tasks = [tasks[i] for i in rng.permutation(len(tasks))]
    said = f"`gpus_for({tasks}, {gpus})`:"
    values = entries(dict.fromkeys(tasks, text)).named("a dictionary with a text for every task")
    got = values(student.call_once("gpus_for", tasks, gpus), f"{said[:-1]} returned")
    sees = {task: seen(value, gpus) for task, value in got.items()}
    owned: list[int] = []
    for task in tasks:
        case = f"{said} {task} gets {shown(got[task])} and sees GPUs {sees[task]};"
        if task.startswith("ps"):
            assert not sees[task], f"{case} a parameter server needs no GPU: expected none."
            continue
        full = len([each for each in got[task].split(",") if each.strip() not in ("", "-1")]) == len(sees[task])
        assert full, f"{case} the rest of the value is no GPU; expected numbers from 0 to {gpus - 1}."
        twice = set(owned) & set(sees[task])
        assert not twice, f"{case} GPU {min(twice)} has two owners; expected one."
        owned += sees[task]
    idle = sorted(set(range(gpus)) - set(owned))
    assert not idle, f"{said} GPU {idle[0]} has no worker; expected one for each GPU."
    counts = {task: len(sees[task]) for task in tasks if task.startswith("worker")}
    assert max(counts.values()) - min(counts.values()) <= 1, (
        f"{said} the workers have {counts} GPUs; expected no worker to have two more than another."
    )


@exercise("gpus_for")
def test_each_gpu_has_one_worker_and_a_ps_sees_none(student, rng):
    workers = int(rng.integers(2, 4))
    check_gpus(student, rng, workers, workers * 2)
    check_gpus(student, rng, 3, int(rng.choice([5, 8])))  # which leaves one worker with a GPU less
    check_gpus(student, rng, 4, 5)  # blocks of two would leave the last worker with none
    check_gpus(student, rng, 4, 2)  # not enough for all
    check_gpus(student, rng, 11, 11)  # a number of two digits


# mean_output: the model's memory is a peer's, which counts it

BUDGET = 50  # MiB; an output of 8 MiB, the one before it and what makes it are 24; a peer gives back some 8 to 16 late
TRIES = 6  # for what was dropped is sometimes given back later still


@probe
def lent(peer):
    """Serve this process's main memory, managed by the allocator that manages a GPU's; its address."""
    import os

    from across import memory
    from across._process.addresses import free_address

    os.environ |= {memory.CPU_POOL: "true", memory.CPU_LIMIT: "512", "TF_GRPC_REUSE_PORT": "1"}
    held = []
    address = free_address(held)
    config = tf.compat.v1.ConfigProto(device_count={"CPU": 1, "GPU": 0}, inter_op_parallelism_threads=4)
    kept["lent"] = held, tf.distribute.Server({"memory": [address]}, "memory", 0, config=config)
    return address


@probe
def most(peer):
    """MiB of its memory that were in use at the worst moment since it was asked for the last time."""
    counts = tf.config.experimental
    with tf.device("/CPU:0"):
        tf.zeros([1])
    found = counts.get_memory_info("CPU:0")["peak"] / 2**20
    counts.reset_memory_stats("CPU:0")
    return found


@probe
def averaged(student, address, kernel, batches):
    from across import fresh, memory

    def ask(mean_output):
        import gc

        import keras
        import numpy as np
        import tensorflow as tf

        cluster = tf.train.ClusterSpec({"memory": [address]})
        tf.config.experimental_connect_to_cluster(cluster, make_master_device_default=False)
        tensorflow: Any = tf
        block, lent = tensorflow.device, "/job:memory/task:0/device:CPU:0"
        here = "/device:CPU:0"  # the notebook's device where there is no GPU, in letters that tell it from the host's

        def device(name):  # what is lent plays the GPU, and the CPU is the host's, as in a notebook that has a GPU
            kind = str(name).lower().removeprefix("/").removeprefix("device:").partition(":")[0]
            homes = {"gpu": lent, "cpu": "/job:localhost/replica:0/task:0/device:CPU:0"}
            return block(name if name == here else homes.get(kind, name))

        names = getattr(mean_output, "__globals__", {})
        if names.get("DEVICE") == "/CPU:0":
            names["DEVICE"] = here
        tensorflow.device = device
        with block(lent):
            layer = keras.layers.Dense(kernel.shape[1], activation="relu", use_bias=False)
            model = keras.Sequential([keras.Input([kernel.shape[0]]), layer])
            layer.set_weights([kernel])
            made = mean_output(model, [np.repeat(batch, rows, axis=0) for batch, rows in batches])
            made = made if isinstance(made, (int, float)) else np.asarray(made)
            del layer, model
            gc.collect()
            tf.zeros([1]).numpy()  # what was dropped before is given back by now
            return made

    return fresh.run(ask, student.mean_output, env=memory.POOL)


def check_mean(student: Any, peer: Any, rng: Any, of: list[tuple[list[int], int]]) -> None:
    address = peer.ask(lent)
    for rows, width in of:
        kernel = rng.normal(size=[16, width]).astype("float32")
        far = [4 if n < max(rows) else 1 for n in rows]  # short batches are far from the mean: their weight shows
        batches = [[(k * rng.normal(size=[1, 16])).astype("float32"), n] for k, n in zip(far, rows, strict=True)]
        means = [float(np.maximum(batch @ kernel, 0).mean()) for batch, _ in batches]
        case = f"`mean_output(model, batches)` of batches of {rows} rows, a model of {width} outputs"
        answer, mib, tries = None, float("inf"), 0
        while mib > BUDGET and tries < TRIES:
            peer.ask(most)
            answer = student.ask(averaged, address=address, kernel=kernel, batches=batches)
            mib, tries = min(mib, peer.ask(most)), tries + 1
        got, wanted = number(answer, f"{case} returned"), float(np.average(means, weights=rows))
        if abs(got - np.mean(means)) < 1e-4 * wanted < abs(got - wanted):
            told = "that is the mean of the batches' means"
            says = f"{case} returned {got:g}; {told}: expected {wanted:g}, a short batch counts less."
            raise Misconception("the_mean_of_means", says)
        near = 5e-5 if sum(rows) < 9 else 1e-3  # of few numbers one too many is seen; of millions float32 loses more
        assert abs(got - wanted) < near * wanted, (
            f"{case} returned {got:.6g}; expected {wanted:g}, the mean of all outputs."
        )
        assert mib <= BUDGET, (
            f"{case} needs {mib:.0f} MiB at the peak; the budget is {BUDGET}: which outputs live at the same time?"
        )


@exercise("mean_output")
def test_batches_of_one_length_stay_within_the_budget(student, peer, rng):
    check_mean(student, peer, rng, [([2048] * int(rng.integers(12, 14)), 1024), ([1024] * 14, 2048)])


@exercise("mean_output")
def test_batches_of_many_lengths_stay_within_the_budget(student, peer, rng):
    lengths = [*[2048, 2048, 1024, 2048, 2048, 2048, 1536, 2048] * 2, int(rng.choice([256, 512]))]
    check_mean(student, peer, rng, [(lengths, 1024), ([1, 3], 100)])


# extend

EXTENSION = maybe(row(whole, whole)).named("two whole numbers, the region and the next step, or None")


def by_the_rules(size: int, step: int, left: int) -> tuple[int, int] | None:
    """BFCAllocator::Extend, in whole MiB."""
    if size > left:
        return None
    doublings = max(0, math.ceil(math.log2(size / step)))
    region = step << doublings
    return min(region, left), region << (doublings == 0)


def check_extend(student: Any, cases: list[list[int]], why: str) -> None:
    for (size, step, left), got in student.call("extend", cases, EXTENSION):
        case = f"`extend({size}, {step}, {left})` returned {got};"
        wanted = by_the_rules(size, step, left)
        if got is None or wanted is None:
            more = "more than" if size > left else "no more than"
            assert got == wanted, f"{case} {size} MiB are {more} the {left} that are left: see rule 1."
            continue
        assert got[0] >= size, f"{case} a region of {got[0]} is too small for the tensor: see rule 2."
        assert got[0] <= left, f"{case} a region of {got[0]} is more than the limit leaves: see rule 3."
        if size <= step and got[0] == min(2 * step, left) != wanted[0]:
            fits = f"the tensor fits the step of {step}: expected a region of {wanted[0]};"
            says = f"{case} {fits} rule 4 doubles the step for next time."
            raise Misconception("doubles_before", says)
        assert got[0] == wanted[0], f"{case} the region of {got[0]} is not what the rules give; {why}."
        if got[0] == left and got[1] != wanted[1] and got[1] in (left, 2 * left):
            says = (
                f"{case} the next step comes from what was left; only the region is cut to the limit, the step is not."
            )
            raise Misconception("step_kept_to_the_limit", says)
        assert got[1] == wanted[1], f"{case} the next step of {got[1]} is not what the rules give; {why}."


def steps(rng: Any) -> int:
    return 1 << int(rng.integers(2, 7))


@exercise("extend")
def test_a_tensor_that_fits_the_step(student, rng):
    cases = [[8, 8, 99], [100, 8, 50], [8, 8, 8]]
    for _ in range(3):
        step = steps(rng)
        cases += [[int(rng.integers(1, step)), step, step * 4], [step // 2, step, step - 1]]
    check_extend(student, cases, "nothing had to be doubled, so rule 4 doubles the step afterwards")


@exercise("extend")
def test_a_tensor_larger_than_the_step(student, rng):
    cases = [[16, 8, 99], [100, 8, 50], [20, 8, 20], [8, 3, 100]]  # no step has to be a power of two
    for _ in range(3):
        step = steps(rng)
        more = int(rng.integers(2, 9))
        cases += [[step * more + 1, step, step * 64], [step << 2, step, step * 64], [step + 1, step, step * 2 - 1]]
    check_extend(student, cases, "rule 2 doubles the step until the tensor fits, and then it stays for next time")


# to_train

PARTS = ("weights", "gradients", "optimizer")
OPTIMIZERS = {  # its class, how it is made, the numbers that it keeps for each trained weight
    "Adam": ("Adam", {}, 2),
    "momentum": ("SGD", {"momentum": 0.9}, 1),
    "SGD": ("SGD", {}, 0),
    "Adafactor()": ("Adafactor", {}, 1),  # and a row and a column, of some KiB
    "Adam(amsgrad=True)": ("Adam", {"amsgrad": True}, 3),
    "RMSprop()": ("RMSprop", {}, 1),
    "RMSprop(momentum=0.9)": ("RMSprop", {"momentum": 0.9}, 2),
    "RMSprop(momentum=0.9, centered=True)": ("RMSprop", {"momentum": 0.9, "centered": True}, 3),
}


@probe
def trained(student, cases):
    import keras

    answers = []
    for widths, frozen, dtype, optimizer, settings in cases:
        layers = [keras.layers.Dense(width, dtype=dtype, use_bias=False) for width in widths[1:]]
        model = keras.Sequential([keras.Input([widths[0]]), *layers])
        for i in frozen:
            layers[i].trainable = False  # pyright: ignore[reportAttributeAccessIssue]
        answers.append(student.to_train(model, getattr(keras.optimizers, optimizer)(**settings)))
    return answers


@exercise("to_train")
def test_what_weights_gradients_and_state_need(student, rng):
    a, b = (int(each) for each in rng.permutation([1, 2]))
    widths = [512, 512 * a, 512 * b, 512]  # each product of neighbours is a whole number of MiB in float32
    cases = [
        [widths, [], "float32", "Adam"],
        [widths, [0], "float32", "Adam"],
        [widths, [1, 2], "float32", "momentum"],
        [widths, [], "float32", "SGD"],
        [widths, [1], "bfloat16", "Adam"],
        [widths, [], "float32", "Adam(amsgrad=True)"],  # the notebook's rules of thumb know none of these
        [widths, [0], "mixed_bfloat16", "Adafactor()"],  # three variables for a weight, two of them small
        [widths, [], "float32", str(rng.choice([name for name in OPTIMIZERS if name.startswith("RMSprop")]))],
    ]
    asked = [[*case[:3], *OPTIMIZERS[case[3]][:2]] for case in cases]
    kind = entries(dict.fromkeys(PARTS, number))
    for (_, frozen, dtype, optimizer), got in each_answer(
        student.ask(trained, cases=asked), cases, kind, "`to_train(model, optimizer)` returned"
    ):
        size = 2 if dtype == "bfloat16" else 4  # bytes of a variable's number
        sizes = [x * y * size / 2**20 for x, y in itertools.pairwise(widths)]
        learned = sum(mib for i, mib in enumerate(sizes) if i not in frozen)
        states = OPTIMIZERS[optimizer][2]
        wanted = dict(zip(PARTS, (sum(sizes), learned, states * learned), strict=True))
        held = f"layers {frozen} frozen" if frozen else "no layer frozen"
        case = f"{dtype} layers of {sizes} MiB, {held}, {optimizer}:"
        for part in PARTS:
            told = f"{case} you say {got[part]:g} MiB for {part}; expected {wanted[part]:g}"
            if wanted[part] and abs(size * got[part] - wanted[part]) < 0.01:
                raise Misconception("numbers_not_bytes", f"{told}: these are numbers, and each has {size} bytes.")
            if part == "weights" and frozen and abs(got[part] - learned) < 0.1:
                raise Misconception("only_trained_weights", f"{told}: frozen weights are in memory, too.")
            if part == "optimizer" and wanted[part] and abs(got[part]) < 0.1:
                raise Misconception("state_not_made", f"{told}: a new optimizer has no state until it is built.")
            if part == "optimizer" and "(" in optimizer and abs(got[part] - wanted[part]) >= 0.1:
                says = f"{told}: `optimizer.variables` says what this one keeps for a weight."
                raise Misconception("state_by_its_name", says)
            if part == "optimizer" and states != 2 and abs(got[part] - 2 * learned) < 0.1:
                raise Misconception("always_adam", f"{told}: two numbers for each trained weight are Adam's.")
            if dtype == "mixed_bfloat16" and part == "gradients" and abs(2 * got[part] - learned) < 0.1:
                says = f"{told}: such layers compute in bfloat16; their variables, and so their gradients, are float32."
                raise Misconception("gradients_as_computed", says)
            if dtype == "bfloat16" and wanted[part] and abs(got[part] - 2 * wanted[part]) < 0.1:
                raise Misconception("four_bytes_each", f"{told}: a bfloat16 has 2 bytes.")
            if (
                frozen
                and wanted[part] != sum(sizes)
                and abs(got[part] - (states if part == "optimizer" else 1) * sum(sizes)) < 0.1
            ):
                name = "state_for_frozen" if part == "optimizer" else "gradients_of_frozen"
                raise Misconception(name, f"{told}: what is frozen has no gradient and no state.")
            assert abs(got[part] - wanted[part]) < 0.1, f"{told}."
    check_two_types(student)


@probe
def trained_in_two_types(student, types):
    import keras

    layers = [keras.layers.Dense(1024, dtype=dtype, use_bias=False) for dtype in types]
    return student.to_train(keras.Sequential([keras.Input([512]), *layers]), keras.optimizers.SGD(momentum=0.9))


def check_two_types(student: Any) -> None:
    kind = entries(dict.fromkeys(PARTS, number))
    for types, wanted in ((["float32", "bfloat16"], 4), (["bfloat16", "float32"], 5)):
        got = kind(student.ask(trained_in_two_types, types=types), "`to_train(model, optimizer)` returned")
        for part in PARTS:
            told = f"a {types[0]} layer, then a {types[1]} layer, momentum: you say {got[part]:g} MiB for {part}"
            if abs(got[part] - 3) < 0.1 or abs(got[part] - 6) < 0.1:
                says = f"{told}; expected {wanted}: a model may have weights of two types."
                raise Misconception("one_type", says)
            assert abs(got[part] - wanted) < 0.1, f"{told}; expected {wanted}."


@probe
def trained_with_biases(student, features, frozen):
    import keras

    model = keras.Sequential([keras.Input([1]), keras.layers.Dense(features), keras.layers.BatchNormalization()])
    model.layers[0].trainable = not frozen
    return student.to_train(model, keras.optimizers.Adam())


@exercise("to_train")
def test_biases_and_moving_averages_count(student, rng):
    mib = int(rng.integers(1, 4))  # of a bias, and of each of the six other variables
    for frozen in (False, True):
        kind = entries(dict.fromkeys(PARTS, number))
        answer = student.ask(trained_with_biases, features=mib * 2**18, frozen=frozen)
        got = kind(answer, "`to_train(model, optimizer)` returned")
        case = (
            f"{'A frozen' if frozen else 'A'} Dense layer and a BatchNormalization, each variable of {mib} MiB, Adam:"
        )
        trained = 2 if frozen else 4  # gamma and beta; kernel and bias
        for part, variables in zip(PARTS, (6, trained, 2 * trained), strict=True):
            told = f"{case} you say {got[part]:g} MiB for {part}; expected {variables * mib}"
            if part == "weights" and abs(got[part] - trained * mib) < 0.1:
                raise Misconception("only_trained_weights", f"{told}: frozen weights are in memory, too.")
            if part == "weights" and abs(got[part] - mib) < 0.1:
                raise Misconception("kernels_only", f"{told}: a bias and a moving average are weights, too.")
            if part == "gradients" and abs(got[part] - (trained + 2) * mib) < 0.1:
                says = f"{told}: `model.trainable_variables` says what has a gradient, moving averages have none."
                raise Misconception("moving_averages_trained", says)
            assert abs(got[part] - variables * mib) < 0.1, f"{told}."


# settle: the settings that were made are made again here, on paper, by TensorFlow's own code


@probe
def settled(student, gpus, limit):
    from across import memory

    with memory.paper(gpus) as paper:
        try:
            student.settle(tf.config.list_physical_devices("GPU"), limit)
        except ValueError:  # where TensorFlow refuses, it does so there, too
            if not paper.calls:
                raise
        return paper.calls


CALLS = list_of(row(text, anything, anything)).named("settings that can be made again")


def check_settled(student: Any, gpus: int, limit: int | None) -> None:
    case = f"`settle(gpus, {limit})` with {gpus} GPU{'s' * (gpus > 1)}:"
    calls = CALLS(student.ask(settled, gpus=gpus, limit=limit), f"{case} your settings are")
    with memory.paper(gpus) as paper:
        try:
            paper.do(calls)
            growth, limits = paper.settings()
            listed = paper.asked.visible_device_list
        except (ValueError, TypeError) as error:
            grows = any(call[0] == "set_memory_growth" and call[2] is True for call in calls)
            asks = " growth is asked for although there is a limit;" * (grows and limit is not None)
            raise AssertionError(f"{case}{asks} TensorFlow refuses: {shown(str(error), 150)}.") from None
    assert listed == ",".join(map(str, range(gpus))), f"{case} only GPUs {shown(listed)} are seen; expected all."
    if limit is None:
        asked = " (asked of TensorFlow, not of the environment)"
        assert limits == [None] * gpus, f"{case} the limits are {shown(limits)} MiB; expected none."
        assert growth == [True] * gpus, f"{case} growth is {shown(growth)}; expected it on each{asked}."
        return
    without = limits.count(None)
    assert without < gpus, f"{case} no GPU has a limit; expected {limit} MiB on each."
    assert not without, f"{case} {without} of the GPUs have no limit; expected {limit} MiB on each."
    assert limits == [limit] * gpus, f"{case} the limits are {shown(limits)} MiB; expected {limit} MiB on each."
    if any(growth):
        says = f"{case} growth is asked for, too; with a limit TensorFlow drops that wish: expected a limit alone."
        raise Misconception("growth_then_limit", says)


@exercise("settle")
def test_with_a_limit_every_gpu_has_it_and_none_is_told_to_grow(student, rng):
    check_settled(student, int(rng.integers(2, 6)), int(rng.integers(512, 9000)))
    check_settled(student, 1, 1024)


@exercise("settle")
def test_without_a_limit_every_gpu_grows(student, rng):
    check_settled(student, int(rng.integers(2, 6)), None)
    check_settled(student, 1, None)
