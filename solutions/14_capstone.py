# ---
# jupyter:
#   across:
#     limits: {cell_seconds: 120, notebook_seconds: 300, question_seconds: 30}
#     rows: S1-S76
#   # house: answers_in_tensorflow: a model of the cost and the statistics of its measurement are plain numbers
# ---

# %% [markdown]
# # A scaling study
# **How much faster will it be, and was it?**
#
# In an hour you state what two and four replicas gain on *your* machine, measure it so that others can believe it, and explain
# the difference. You hand in one page. A *replica* is a copy of the computation, on one device (chapter 11).

# %%
from across import devices, expecting, fresh, gpu_traffic, pictures, scaling_page, study
from across.attempt import NotAttempted, attempt, call, expect, read
from across.study import Study

D = devices.gpus_or_cpus(4)
fresh.warm_up()

# %%
import itertools
import math
import tempfile
import time
from pathlib import Path

import numpy as np
import tensorflow as tf

tf.get_logger().setLevel("ERROR")  # a strategy says much when it starts

# %% [markdown]
# ## The program
# A dense network, 64 numbers to 10 classes. Each of `n` replicas gets a share of the *global batch*: all examples of one step.

# %% covers=["S56"]
SHAPES = [(64, 1024), (1024, 1024), (1024, 10)]
SIZE = 4 * sum(rows * columns for rows, columns in SHAPES)  # bytes of all gradients


def logits(w, x):
    for matrix in w[:-1]:
        x = tf.nn.relu(x @ matrix)
    return x @ w[-1]


# %% [markdown]
# The speed of a wrong program is worth nothing. So first: `n` replicas must do what one device does.

# %% [markdown]
# ### Exercise: `replica_step` (3 points)
# One step of one replica. The loss is the cross-entropy of `logits(w, x)`, its mean over all `batch` examples of *all*
# replicas. Shares may differ. Each copy of `w` descends by `rate` times the gradient of that whole loss. Return this
# replica's part of the loss. Roughly 7 lines.
#
# <details><summary>Hint</summary>
#
# `tf.distribute.get_replica_context().all_reduce("sum", gradients)` and, for each example,
# `tf.nn.sparse_softmax_cross_entropy_with_logits(y, ...)`. Descend by `assign_sub`: a Keras optimizer makes variables.
# </details>


# %% answer="replica_step" covers=["S56", "S65"]
def replica_step(w, x, y, batch, rate):  # variables; images and labels of this replica; all examples; -> a number
    ### BEGIN SOLUTION
    with tf.GradientTape() as tape:
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits(w, x))
        loss = tf.reduce_sum(each) / batch
    gradients = tf.distribute.get_replica_context().all_reduce("sum", tape.gradient(loss, w))
    for variable, gradient in zip(w, gradients, strict=True):
        variable.assign_sub(rate * gradient)
    return loss
    ### END SOLUTION


# %% covers=["S56", "S65"]
def in_step(devices):
    return tf.distribute.MirroredStrategy(devices, cross_device_ops=tf.distribute.ReductionToOneDevice())


# %% tags=["folded"]
def trained(step, shares, rate=2.0):  # two steps with a share for each replica -> losses, all copies of w, first parts
    strategy, x = in_step(D[: len(shares)]), np.eye(64, dtype="float32")
    with strategy.scope():
        shapes = ((64, 8), (8, 8), (8, 10))
        w = [tf.Variable(tf.random.stateless_normal(shape, [1, 2]) * 0.7) for shape in shapes]
    at = np.cumsum([0, *shares])
    parts = [(x[a:b], np.arange(a, b) % 10) for a, b in itertools.pairwise(at)]
    given = strategy.experimental_distribute_values_from_function(lambda c: parts[c.replica_id_in_sync_group])
    run = tf.function(lambda part: strategy.run(step, args=(w, *part, int(at[-1]), rate)))
    parts_of_the_loss = [run(given) for _ in range(2)]
    expect(parts_of_the_loss[0] is not None, "`replica_step` returned None; expected this replica's part of the loss")
    losses = [float(strategy.reduce("sum", each, axis=None)) for each in parts_of_the_loss]
    parts = [float(each) for each in strategy.experimental_local_results(parts_of_the_loss[0])]
    return losses, [[copy.numpy() for copy in strategy.experimental_local_results(each)] for each in w], parts


# %% check="replica_step" points=3 covers=["S56", "S65"]
with attempt("replica_step"):
    alone, single, _ = trained(replica_step, [60])
    expect(abs(alone[0] - 3.1310) < 1e-3, f"one replica: the first loss is {alone[0]:.4f}; expected a mean over 60")
    says = f"one replica, rate 2: the loss went from {alone[0]:.4f} to {alone[1]:.4f}"
    expect(abs(alone[1] - 2.3509) < 1e-3, f"{says}; expected 2.3509: all of `w` at once, by `rate` times its gradient?")
    for shares, own in (([30, 30], [1.6352, 1.4958]), ([50, 7, 3], [2.6131, 0.4318, 0.0861])):
        losses, copies, parts = trained(replica_step, shares)
        says = f"shares of {shares}:"
        print(says, *(f"{loss:.4f}" for loss in losses), "one device:", *(f"{loss:.4f}" for loss in alone))
        apart = max(np.ptp(each, axis=0).max() for each in copies)
        expect(apart < 1e-5, f"{says} the copies of a weight differ by {apart:.2g}; what do replicas exchange?")
        seen, wanted = (" and ".join(f"{loss:.4f}" for loss in each) for each in (losses, alone))
        expect(np.allclose(losses, alone, atol=1e-4), f"{says} the losses add up to {seen}; one device has {wanted}")
        expect(
            np.allclose(parts, own, atol=1e-3), f"{says} the parts of the loss are {np.round(parts, 4)}; expected {own}"
        )
        off = max(np.abs(many[0] - one[0]).max() for many, one in zip(copies, single, strict=True))
        expect(off < 1e-4, f"{says} a weight differs from one device's by {off:.2g}")

# %% [markdown]
# ## What crosses
# Gradients of `SIZE` bytes, three replicas. `ReductionToOneDevice` adds them up on one and sends the sum back. How many bytes
# cross in all? Of a ring (chapter 10), each device sends `SIZE / 3` four times. Count:

# %% tags=["show"] covers=["S56"]
strategy = in_step(D[:3])
ones = strategy.run(lambda: tf.ones([SIZE // 4]))
with gpu_traffic.counting() as counted:
    strategy.extended.batch_reduce_to("sum", [(ones, ones)])
print(f"{SIZE:,} bytes of gradients; a ring: {3 * 4 * SIZE // 3:,} in all")
counted.traffic

# %% [markdown]
# In all it is as much. But all of it passes *one* device's links, and a ring uses those of all. Between logical CPUs nothing
# is copied, and nothing counted.

# %% [markdown]
# ## A run
# What is measured: seconds of one step, the median of seven. Each run is a **fresh process**. The first step traces, and is
# left out. A replica runs on a logical CPU here, as a simulated GPU's speed says nothing of a card. TensorFlow may use one
# thread inside of an op.


# %% covers=["S16", "S63"]
def program(replicas, batch):  # in a fresh process with as many logical CPUs -> seconds of one step
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(8)
    strategy, share = in_step([f"/CPU:{i}" for i in range(replicas)]), batch // replicas
    with strategy.scope():
        w = [tf.Variable(tf.random.stateless_normal(shape, [1, 2]) / 30) for shape in SHAPES]
    ones = (tf.ones([share, 64]), tf.zeros([share], tf.int64))
    step = tf.function(lambda: strategy.run(replica_step, args=(w, *ones, batch, 0.001)))
    found = []
    for _ in range(8):
        start = time.perf_counter()
        [loss.numpy() for loss in strategy.experimental_local_results(step())]  # waits for all replicas
        found.append(time.perf_counter() - start)
    return float(np.median(found[1:]))


# %% [markdown]
# A **study** is configurations times repeats. One line of a file for each run: interrupt it, restart the kernel, and it goes
# on. The runs of a program that was changed do not count; a changed comment is no change. A run that fails or hangs is a
# result, too:


# %% tags=["show"]
def moody(n):
    if n == 2:
        raise MemoryError("no room")
    return 0.1 if n == 1 else time.sleep(60)


with tempfile.TemporaryDirectory() as folder:
    tried = {"fine": {"n": 1}, "fails": {"n": 2}, "hangs": {"n": 3}}
    for run in Study(Path(folder, "moody.jsonl"), moody, tried, repeats=1, timeout=2).run().runs():
        print(run.name, run.seconds, run.error)

# %% [markdown]
# ## What one device costs
# First, one replica with three batches. The repeats are the outer loop. Each has an order of its own, so that any two
# configurations are about as far apart in time as any other two.

# %% tags=["show"]
own = {"cpus": lambda arguments: arguments["replicas"], "env": {"CUDA_VISIBLE_DEVICES": ""}}
batches = {f"{batch} examples": {"replicas": 1, "batch": batch} for batch in (128, 256, 512)}
costs = Study("14_costs.jsonl", program, batches, repeats=5, **own).run()

# %% tags=["show"]
if not all(run.error for run in costs.runs()):
    found = {name: [1000 * each for each in runs if each > 0] for name, runs in costs.seconds().items()}
    display(pictures.bars(found, title="One replica, one step", unit="milliseconds"))

# %% [markdown]
# ### Exercise: `calibrate` (3 points)
# A step of `batch` examples costs `fixed + example * batch` seconds. Find both by **least squares**: the line for which the sum
# of squared distances to all measured seconds is smallest. Roughly 2 lines.


# %% answer="calibrate"
def calibrate(batches, seconds):  # [128, 256, 128, ...], the seconds of each -> (fixed, example)
    ### BEGIN SOLUTION
    example, fixed = np.polyfit(batches, seconds, 1)
    return fixed, example
    ### END SOLUTION


# %% tags=["show", "folded"]
def measured_pairs():  # batch and seconds of each run that did not fail
    runs = [run for run in costs.runs() if run.seconds is not None]
    return [costs.configurations[run.name]["batch"] for run in runs], [run.seconds for run in runs]


def line_picture(fixed, example, batches, seconds, title):
    figure, axes = pictures.plot(title=title, x="examples", y="seconds a step")
    axes.plot(batches, seconds, "o", markerfacecolor="none", color=pictures.PALETTE[5])
    ends = [0, max(batches)]
    axes.plot(ends, [fixed + example * each for each in ends], "--", color=pictures.ALERT)
    words = f"{len(seconds)} runs; dashed line from {fixed:.3g} s, {example:.3g} s an example"
    return pictures.render(figure, f"{title}: {words}.")


# %% tags=["folded"]
TWO = expecting.row(expecting.number, expecting.number)


def tried(
    function, *arguments, returns=expecting.number
):  # what an answer returns; None and a line while it is not right
    try:
        return read(function(*arguments), "it returned", returns)
    except NotImplementedError:
        print(f"write `{function.__name__}` first")
    except Exception as error:
        raised = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
        print(f"`{function.__name__}` cannot be used yet: {raised}{str(error)[:100]}")


# %% check="calibrate" points=3
with attempt("calibrate", after=["replica_step"]):
    for x, y in (
        ([10, 20, 40], [3.0, 4.0, 6.0]),
        ([1, 1, 2, 3], [1.0, 3.0, 4.0, 9.0]),
        ([3, 1, 2, 4, 4], [2.0, 5.0, 1.0, 8.0, 8.0]),
        ([1, 2, 3, 4, 5, 6, 7, 8], [1.0, 1.0, 1.0, 1.0, 9.0, 1.0, 1.0, 1.0]),
    ):
        fixed, example = call(calibrate, x, y, returns=TWO)
        display(line_picture(fixed, example, x, y, f"calibrate({x}, {y})"))
        off = [v - fixed - example * b for b, v in zip(x, y, strict=True)]
        says = f"`calibrate({x}, {y})` is fixed {fixed:g}, example {example:g}: the line misses the runs by {np.round(off, 3).tolist()}"
        expect(abs(sum(off)) < 1e-6, f"{says}; above and below do not balance")
        expect(abs(np.dot(off, x)) < 1e-5, f"{says}; another slope comes nearer")
    expect(measured_pairs()[0], "there are no runs yet; run the cell that makes `costs` again")
    fixed, example = read(calibrate(*measured_pairs()), "`calibrate` of your runs returned", TWO)
    print(f"your machine: {1000 * fixed:.2f} ms, and {1e6 * example:.1f} microseconds an example")
    display(line_picture(fixed, example, *measured_pairs(), "Your runs"))

# %% [markdown]
# ## A model of n replicas
# `fixed` is paid once a step, whatever `n` is. Each replica computes its share. Where there are more replicas than **cores**,
# they share those: the work takes `n / cores` times as long, 1.5 times for three on two.

# %% [markdown]
# Then the ring of chapter 10 adds the gradients: `2 (n − 1) (latency + size / n / rate)`. The *latency* is what a message
# costs, however short it is.

# %% [markdown]
# A ring is how several GPUs add. **What you measure here is none**: `ReductionToOneDevice` copies all gradients to one device,
# adds, and copies the sum back. For the model, `rate` is the fastest of nine copies of so many bytes, from cache or memory. The
# latency is 0: one process has no network.

# %% tags=["show"]
copied = np.ones(SIZE // 4, "float32")
took = []
for _ in range(9):
    start = time.perf_counter()
    copied = copied.copy()
    took.append(time.perf_counter() - start)

# %% tags=["show"]
machine = {"cores": study.cores(), "size": SIZE, "rate": SIZE / min(took), "latency": 0.0}  # bytes, seconds
x, y = measured_pairs()
line = tried(calibrate, x, y, returns=TWO) if len(set(x)) > 1 else None
machine["fixed"], machine["example"] = line or (0.001, 4e-5)
if line is None:
    print("made up: `fixed` and `example`" + ("" if len(set(x)) > 1 else ", since no two batches have runs"))
if machine["fixed"] < 0:
    print(f"fixed {machine['fixed']:.3g} s, and no cost is below 0: the machine did other things. The model takes 0.")
    print("Better: delete 14_costs.jsonl, and measure again in peace.")
    machine["fixed"] = 0.0
print(*(f"{name}: {value:.3g}" for name, value in machine.items()), sep="\n")

# %% tags=["show"]
of_512 = [1000 * each for each in costs.seconds()["512 examples"] if each > 0]
if of_512:
    said = 1000 * (machine["fixed"] + machine["example"] * 512)
    print(f"512 examples: the line says {said:.1f} ms; runs: {min(of_512):.1f} to {max(of_512):.1f} ms")

# %% [markdown]
# ### Exercise: `speedup` (4 points)
# **Strong**: `n` replicas share `batch` examples. **Weak**: each has `batch` examples. Return the examples per second of `n`
# replicas, divided by those of one with `batch`. A step costs `fixed`, the work of a share, and the ring. Roughly 6 lines.


# %% answer="speedup" covers=["S1", "S16", "S63"]
def speedup(n, batch, weak, machine):  # 2, 512, False, the dictionary above -> 1.8, say
    ### BEGIN SOLUTION
    def seconds(n, share):
        ring = 2 * (n - 1) * (machine["latency"] + machine["size"] / n / machine["rate"])
        return machine["fixed"] + machine["example"] * share * max(1, n / machine["cores"]) + ring

    share = batch if weak else batch / n
    return n * share / batch * seconds(1, batch) / seconds(n, share)
    ### END SOLUTION


# %% tags=["show", "folded"]
def model_picture(machine, title):
    figure, axes = pictures.plot(title=f"MODEL: {title}", x="replicas", y="examples a second, times one")
    ns, words = [1, 2, 3, 4, 6, 8], []
    wide = {
        "linewidth": 5,
        "markersize": 11,
        "markerfacecolor": "none",
        "alpha": 0.6,
    }  # is seen below the one that covers it
    styles = [("o-", pictures.PALETTE[5], wide), ("s--", pictures.ALERT, {"markersize": 4})]
    styles += [("^-", pictures.PALETTE[2], wide), ("v--", pictures.INK, {"markersize": 4})]
    kinds = [(cores, weak) for cores in (machine["cores"], 8) for weak in (False, True)]
    for (cores, weak), (style, colour, more) in zip(kinds, styles, strict=True):
        values = [speedup(n, 512, weak, machine | {"cores": cores}) for n in ns]
        name = f"{cores} cores, {'weak' if weak else 'strong'}"
        axes.plot(ns, values, style, color=colour, label=name, **more)
        words.append(f"{name}: {', '.join(f'{value:.2f}' for value in values)}")
    axes.legend(frameon=False, labelcolor=pictures.INK)
    return pictures.render(figure, f"MODEL, {title}; {ns} replicas. {'; '.join(words)}.")


# %% check="speedup" points=4 covers=["S1", "S16", "S63"]
with attempt("speedup"):
    plain = {"cores": 4, "size": 0.0, "rate": 1.0, "latency": 0.0, "fixed": 0.0, "example": 0.01}
    for n, weak, changes, wanted, why in (
        (4, False, {}, 4, "4 cores, nothing but work"),
        (8, False, {}, 4, "8 replicas, 4 cores"),
        (8, True, {}, 4, "8 replicas, 4 cores"),
        (3, False, {"cores": 2}, 2, "3 replicas, 2 cores"),
        (4, False, {"fixed": 1.0}, 1.6, "1 second of work, 1 second fixed"),
        (8, False, {"fixed": 1.0}, 1.6, "the same, 8 replicas"),
        (4, True, {"fixed": 1.0}, 4, "1 second of work each, 1 second fixed"),
        (2, False, {"size": 4.0, "latency": 0.25}, 1 / 5, "half a second of work, 4.5 in the ring"),
        (4, False, {"size": 4.0, "latency": 0.25}, 4 / 31, "a quarter of a second of work, 7.5 in the ring"),
        (4, True, {"size": 4.0, "latency": 0.25}, 8 / 17, "a second of work each, 7.5 in the ring"),
        (4, False, {"size": 4.0, "latency": 0.25, "cores": 2}, 1 / 8, "4 replicas, 2 cores, 7.5 in the ring"),
    ):
        got = call(speedup, n, 100, weak, plain | changes, returns=expecting.number)
        says = f"{why}: `speedup({n}, 100, {weak}, ...)` is {got:.3g}"
        expect(math.isclose(got, wanted, rel_tol=1e-6), f"{says}; how long is a step of 1, how long one of {n}?")
    display(model_picture(machine, f"your machine, {machine['cores']} cores, and one with 8"))

# %% [markdown]
# *Hands-On Machine Learning with Scikit-Learn and TensorFlow*, chapter 12: 8 GPUs in one machine are often as fast as 16 in
# several, because of the network. At 12.5 GB/s the model says so: 6.70 against 6.75. It takes 100 MB of gradients, 200 ms of
# work for 64 examples, strong scaling:

# %% tags=["show"] covers=["S1"]
gpus = {
    "cores": 16,
    "size": 100e6,
    "rate": 50e9,
    "latency": 20e-6,
    "fixed": 0.001,
    "example": 0.2 / 64,
}  # a core for each GPU
found = {"8 in one machine": tried(speedup, 8, 64, False, gpus)}
for rate in (1.25, 5, 12.5, 25, 50) if found["8 in one machine"] else ():
    network = gpus | {"rate": rate * 1e9, "latency": 50e-6}
    found[f"16 over a network of {rate:g} GB/s"] = tried(speedup, 16, 64, False, network)
print(*(f"MODEL: {name}: {value:.2f}" for name, value in found.items() if value), sep="\n")

# %% [markdown]
# ## 64 times the cores
# Two logs of MLPerf Training v0.6, [published](https://github.com/mlcommons/training_results_v0.6) by Google in 2019: ResNet-50 in
# TensorFlow, on 32 and on 2048 cores of TPU v3, trained until 75.9 % of the images are named right. How many times sooner was
# that with 64 times the cores? Guess, then run:

# %% tags=["show"] covers=["S1"]
logs = {32: (4096, 60, 2533.5), 2048: (32768, 72, 77.0)}  # cores: global batch, epochs, seconds
(_, few_epochs, few_seconds), (_, many_epochs, many_seconds) = logs.values()
print(f"RECORDED: {few_seconds / many_seconds:.1f} times sooner")
print(f"RECORDED: {few_seconds / many_seconds * many_epochs / few_epochs:.1f} times the images a second")

# %% [markdown]
# A core's share fell from 4096 / 32 = 128 images to 16, so costs that are fixed weigh more. And the larger global batch needed 12 epochs
# more: examples a second are not the time until a model is good. Your page measures the first.

# %% [markdown]
# ## A ratio has a spread
# A machine drifts: another program starts, a core heats up. So divide within a *repeat*, where runs stood close in time. Then
# show the ratios' median, smallest and largest.

# %% [markdown]
# ### Exercise: `ratios` (3 points)
# Two lists of seconds, an entry for each repeat. A failed run is NaN. Return the median, the smallest and the largest of `base`
# over `other`, and how many repeats were left out. With no ratio at all, return `None`. Roughly 5 lines.


# %% answer="ratios"
def ratios(base, other):  # [4.0, 6.0, nan], [2.0, 2.0, 1.0] -> (2.5, 2.0, 3.0, 1)
    ### BEGIN SOLUTION
    found = np.array(base) / np.array(other)
    good = found[~np.isnan(found)]
    if not len(good):
        return None
    return np.median(good), good.min(), good.max(), len(found) - len(good)
    ### END SOLUTION


# %% check="ratios" points=3
with attempt("ratios"):
    four = expecting.maybe(expecting.row(*[expecting.number] * 3, expecting.whole))
    nan = math.nan
    for base, other, wanted in (
        ([4.0, 6.0, 12.0], [2.0, 2.0, 8.0], (2, 1.5, 3, 0)),
        ([4.0, nan, 9.0, 8.0, nan], [1.0, 1.0, nan, 4.0, nan], (3, 2, 4, 3)),
        ([9.0, 2.0, 3.0, 4.0], [1.0, 1.0, 1.0, 1.0], (3.5, 2, 9, 0)),
        ([5.0, nan], [2.0, 1.0], (2.5, 2.5, 2.5, 1)),
        ([nan, 2.0], [1.0, nan], None),
    ):
        got = call(ratios, base, other, returns=four)
        same = got == wanted or (got and wanted and np.allclose(got, wanted))
        expect(same, f"`ratios({base}, {other})` is {got}; wanted {wanted}: of pairs of the same repeat")
    names = ("512 examples", "128 examples")
    if costs.speedup(*names):
        got = read(ratios(*(costs.seconds()[name] for name in names)), "`ratios` of your runs returned", four)
        print(f"512 examples take {got[0]:.2f} times as long as 128 ({got[1]:.2f} to {got[2]:.2f})")

# %% [markdown]
# ## Is it real?
# Suppose that your prediction is right. Then *measured / predicted* is above 1 or below 1 by chance, in each repeat, like a
# coin. If all of six are below, is that luck?

# %% [markdown]
# ### Exercise: `chance` (3 points)
# `ratios` are measured / predicted, one for each pair. Leave out those of exactly 1: they favour neither side. Of `k` fair
# coins, how probable is a result that is *at least as uneven*, to either side? Return that; for no coins 1. Three of four
# above: 4, 3, 1 or 0 heads are at least as uneven, so 10 / 16. Roughly 5 lines.


# %% answer="chance"
def chance(ratios):  # [1.2, 0.9, 1.1, 1.3] -> 0.625
    ### BEGIN SOLUTION
    above, below = sum(ratio > 1 for ratio in ratios), sum(ratio < 1 for ratio in ratios)
    k, most = above + below, max(above, below)
    return min(1.0, 2 * sum(math.comb(k, heads) for heads in range(most, k + 1)) / 2**k)
    ### END SOLUTION


# %% check="chance" points=3
with attempt("chance"):
    for found, wanted in (
        ([1.2, 0.9, 1.1, 1.3], 10 / 16),
        ([0.8, 0.9, 0.7], 2 / 8),
        ([2.0, 0.5], 1.0),
        ([1.0, 1.5, 1.0, 2.0, 3.0], 2 / 8),
        ([2.0, 2.0, 2.0, 2.0, 2.0, 2.0], 2 / 64),
        ([1.01, 0.98, 1.01, 1.01, 1.02], 12 / 32),
        ([], 1.0),
    ):
        got = call(chance, found, returns=expecting.number)
        expect(math.isclose(got, wanted, abs_tol=1e-9), f"`chance({found})` is {got:g}; how many coins, how uneven?")
    for count in range(3, 9):
        print(count, "repeats, all on one side:", call(chance, [2.0] * count, returns=expecting.number))

# %% [markdown]
# Often 0.05 is asked for. Five repeats cannot reach it, however large the difference: hence six below. A small chance speaks
# for a difference; it does not say that the difference is large. And where the prediction is right, a row looks like that in 2
# studies of 64, by luck.

# %% [markdown]
# That is one row. Your page will have four, and all of them divide the same runs of one replica. How often is at least one
# row at 2 / 64, though all predictions are right?

# %% tags=["show"]
draw = np.random.default_rng(1).normal  # seconds that differ by luck only: 100,000 pages, four rows, six repeats
above = (draw(size=(100_000, 4, 6)) > draw(size=(100_000, 1, 6))).sum(axis=2)
luck = (above == 0) | (above == 6)
print(f"SIMULATED: a given row {luck[:, 0].mean():.3f}, at least one of four {luck.any(axis=1).mean():.3f}")

# %% [markdown]
# ## State it, then measure it
# Your study: 512 examples on 1, 2 and 4 replicas, and 1024 on 2. The fifth configuration is a **control**: one replica again,
# under another name. Its prediction is 1. Your model says:

# %% tags=["show"]
shared = {f"{n} replica{'s' * (n > 1)}": {"replicas": n, "batch": 512} for n in (1, 2, 4)}
shared["2 replicas, twice the batch"] = {"replicas": 2, "batch": 1024}
shared["1 replica, again"] = shared["1 replica"]
scaling = Study("14_scaling.jsonl", program, shared, repeats=6, **own)
WORK = {"2 replicas, twice the batch": 2}

# %% tags=["show"]
for name, n, weak in zip(list(shared)[1:4], (2, 4, 2), (False, False, True), strict=True):
    if (says := tried(speedup, n, 512, weak, machine)) is None:
        break
    print(f"{name}: {says:.2f}")

# %% [markdown]
# ### Exercise: `prediction` (1 point)
# How many times the examples a second of one replica? Write the model's numbers, or others if you know what it leaves out. Any
# complete prediction earns the point. The check writes it into the file, with the time and a digest of the program's code.
# Then it measures.

# %% answer="prediction" covers=["S63"]
### BEGIN SOLUTION
prediction = {"2 replicas": 1.8, "4 replicas": 1.7, "2 replicas, twice the batch": 1.9}
#: prediction = {"2 replicas": None, "4 replicas": None, "2 replicas, twice the batch": None}
### END SOLUTION

# %% check="prediction" points=1 covers=["S63"]
with attempt("prediction", after=["replica_step"]) as outcome:
    if isinstance(prediction, dict) and all(value is None for value in prediction.values()):
        raise NotAttempted("prediction: not attempted yet. Replace each None by a number.")
    kinds = dict.fromkeys(list(shared)[1:4], expecting.between(0.01, 100))
    scaling.state({**read(prediction, "`prediction` is", expecting.entries(kinds)), "1 replica, again": 1.0})
    scaling.run()
    outcome.done = f"complete; {scaling.stated()}"
    for name, said in scaling.stated().values.items():
        found = scaling.speedup("1 replica", name, WORK.get(name, 1))
        outside = found and not found.low <= said <= found.high
        print(f"{name}: recorded {said:.2f}, measured {found}{'  <- a surprise' if outside else ''}")

# %% [markdown]
# ## The page
# It is made from the file, `14_scaling.jsonl`. What counts is the prediction that was recorded before the first run; one that
# you change later stands beside it. The last column is your `chance` of measured / predicted.

# %% tags=["show"] covers=["S1", "S63"]
headings = ["Prediction", "Measurement", "Is it real", "Difference", "On 8 GPUs"]
scaling_page.page(scaling, "1 replica", WORK, headings=headings, chance=chance)

# %% [markdown]
# ## Where a difference comes from
# A model leaves things out. Each of them has a run that would show it: change one thing, predict, run.

# %% [markdown]
# | what may cost time | chapters | a run that tells |
# |---|---|---|
# | another program | 02 | the control |
# | shared cores, threads | 01, 03, 05 | other numbers of threads |
# | shared memory | 02 | smaller layers |
# | an op that waits | 04, 06 | a trace |
# | each replica's own ops | 11, 12 | a tiny batch |
# | gradients to one device and back | 07, 08, 10, 13 | fewer weights |
# | the slowest replica | 09 | each replica's time |

# %% [markdown]
# ### Exercise: `explain` (6 points, read by a person)
# Copy the text of your page into the cell below, the table too: grading measures anew. Then write one or two sentences under
# each heading. Which term of the model limits the gain? Is the difference between prediction and measurement real, where does
# it come from, and how would you test that? What would change on 8 GPUs?

# %% [markdown] answer="explain" points=6 covers=["S1", "S56", "S63"]
# ### BEGIN SOLUTION
# | configuration | predicted | measured | smallest to largest | pairs | left out | chance, if the prediction is right |
# |---|---|---|---|---|---|---|
# | 2 replicas | 1.80 | 1.15 | 1.04 to 1.41 | 6 | 0 | 0.031 |
# | 4 replicas | 1.70 | 1.05 | 0.92 to 1.26 | 6 | 0 | 0.031 |
# | 2 replicas, twice the batch | 1.90 | 1.23 | 1.11 to 1.61 | 6 | 0 | 0.031 |
# | 1 replica, again | 1.00 | 1.03 | 0.97 to 1.27 | 6 | 0 | 0.219 |
#
# **Prediction.** 1.8 with two replicas, recorded before the first run: two cores halve the work, and what is fixed stays. Four
# replicas share two cores, so the model gives them no more than two have, and a larger sum of gradients. **Measurement.** 1.15
# (1.04 to 1.41 in six pairs), 1.05 (0.92 to 1.26), with twice the batch 1.23 (1.11 to 1.61); no run failed. **Is it real.** If
# 1.8 were right, six of six pairs below it would have the chance 0.03, or about 0.1 for one of four rows; and it is three rows
# here. The control stayed between 0.97 and 1.27, so the 0.65 that are missing are more than noise. **Difference.** The model
# pays `fixed` once; each replica has ops of its own to start, and all gradients go to one device and back, which is no ring.
# Twice the batch comes nearer, as a cost that does not grow with the batch must, but the spreads overlap. A run of 2 replicas
# with a tiny batch would show that cost alone; one replica held to one core would show whether it uses two already. **On 8
# GPUs.** Each has its own cores and memory: the work falls to an eighth, and the ring over the link decides; 64 examples each
# are little, so I would keep the batch of each replica, and adapt the learning rate.
#
# **Rubric.** One point for each, two for the difference; half a point where the reason is missing.
#
# - *Prediction* (1): recorded before the first run (the page says so), and the term that limits it. Earns: "Two cores: four
#   replicas cannot gain more than two." Does not: "I expect about 1.8."
# - *Measurement* (1): a median with its smallest, largest and number of pairs; failed runs named. Earns: "1.15, 1.04 to 1.41,
#   six pairs." Does not: "It was 1.6 times faster."
# - *Is it real* (1): whether measurement and prediction differ, by the chance *and* by the control or the spread. Earns:
#   "0.031, and the control reaches 1.27 at most." Does not: "0.03, so the effect is large", or that more than 1 was measured.
# - *Difference* (2): a cause that the model leaves out or has wrong (1), and what in the data speaks for it, or a run that
#   would tell (1). "No difference beyond the spread" earns both if the spread is given. Earns: "Twice the batch comes nearer to
#   the model, so it is a fixed cost." Does not: "The computer was busy", unless load or control is shown.
# - *On 8 GPUs* (1): no shared cores there, the ring and its link decide, or the small share of each. Does not: "8 times
#   faster."
# ### END SOLUTION

# %% [markdown]
# ## Recipe
# ```python
# # 1. is n replicas' result that of one device?   2. calibrate one device   3. write the prediction down
# study = Study("study.jsonl", program, configurations, repeats=6)  # each run in a fresh process; goes on where it stopped
# study.state(prediction)  # before the first run
# study.run()
# print(study.speedup("1 replica", "2 replicas"))  # median (smallest to largest, pairs)
# # 4. a control: the same program twice   5. measured / predicted   6. the page: also what failed
# ```
