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
# In about 105 minutes you plan a study of *your* machine: a question, runs, a control, numbers stated before they are measured,
# and a run that could prove your explanation wrong. You hand in one page. A *replica* is a copy of the computation, on one
# device (chapter 11). Somebody's page looked like this; by the end, yours does:

# %%
from across import devices, expecting, fresh, gpu_traffic, pictures, planned, scaling_page, study
from across.attempt import NotAttempted, attempt, call, expect, read
from across.study import Study

D = devices.gpus_or_cpus(4)
fresh.warm_up()

# %% tags=["show", "folded"] covers=["S63"]
RECORDED = {  # of each run what was predicted, and what six repeats gave
    "1 replica, again": (1.0, [1.00, 0.99, 0.96, 1.98, 0.88, 1.37]),
    "2 share a batch": (1.2, [0.62, 0.57, 0.69, 1.15, 0.60, 1.52]),
    "2, a batch each": (1.6, [0.81, 0.80, 0.95, 1.58, 0.79, 0.91]),
    "4 share a batch": (0.7, [0.37, 0.34, 0.41, 0.79, 0.30, 0.83]),
}
scaling_page.drawn(RECORDED, "1 replica", title="RECORDED: somebody's study")

# %% [markdown]
# The first row is the *same* run as its base: what do its dots say of the other rows, whose predictions were all too high?

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
# left out. A replica runs on a logical CPU here, as a simulated GPU's speed says nothing of a card.

# %% [markdown]
# One process has no network, so one is SIMULATED: after each step the program waits as long as a ring would, `2 (n − 1)` times
# (chapter 10). Each time, a replica sends an n-th of the gradients, in as many `messages` as you say.

# %%
LATENCY, RATE = 0.010, 1e9  # SIMULATED: seconds of each message, bytes a second


# %% covers=["S16", "S63"]
def program(replicas, batch, messages, threads):  # in a fresh process with as many logical CPUs -> seconds of one step
    tf.config.threading.set_intra_op_parallelism_threads(threads)  # inside of an op
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
        time.sleep(2 * (replicas - 1) * (messages * LATENCY + SIZE / replicas / RATE))  # the network
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

# %%
ONE = {"replicas": 1, "batch": 512, "messages": 1, "threads": 1}
own = {"cpus": lambda arguments: arguments["replicas"], "env": {"CUDA_VISIBLE_DEVICES": ""}}

# %% tags=["show"]
batches = {f"{batch} examples": ONE | {"batch": batch} for batch in (128, 256, 512)}
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
# Then the ring adds the gradients: `2 (n − 1) (messages · latency + size / n / rate)`. The *latency* is what a message costs,
# however short it is. What the model leaves out: `ReductionToOneDevice`, by which the replicas of this process really add, and
# what each replica does itself.

# %% tags=["show"]
machine = {"cores": study.cores(), "size": SIZE, "rate": RATE, "latency": LATENCY}  # bytes, seconds
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
# Return the examples per second of a `run`, divided by those of the run `base`. `batch` is of all replicas together. A step
# costs `fixed`, the work of a share, and the ring; `threads` are left out. Roughly 6 lines.


# %% answer="speedup" covers=["S1", "S16", "S63"]
def speedup(run, base, machine):  # {"replicas": 2, "batch": 512, "messages": 1, "threads": 1}, {...}, {...} -> 1.8, say
    ### BEGIN SOLUTION
    def rate(run):
        n, share = run["replicas"], run["batch"] / run["replicas"]
        ring = 2 * (n - 1) * (run["messages"] * machine["latency"] + machine["size"] / n / machine["rate"])
        return run["batch"] / (machine["fixed"] + machine["example"] * share * max(1, n / machine["cores"]) + ring)

    return rate(run) / rate(base)
    ### END SOLUTION


# %% [markdown]
# Two words of the field: **strong** scaling gives `n` replicas one batch to share; **weak** gives each a whole one.


# %% tags=["show", "folded"]
def model_picture(machine, title):
    figure, axes = pictures.plot(title=f"MODEL: {title}", x="replicas", y="examples a second, times one")
    ns, words = [1, 2, 3, 4, 6, 8], []
    for marker, weak, messages, colour in (
        ("o-", False, 1, 5),
        ("o--", False, 3, 5),
        ("s-", True, 1, 7),
        ("s--", True, 3, 7),
    ):
        runs = [ONE | {"replicas": n, "batch": 512 * (n if weak else 1), "messages": messages} for n in ns]
        values = [speedup(run, ONE, machine) for run in runs]
        name = f"{'weak' if weak else 'strong'}, {messages} message{'s' * (messages > 1)}"
        axes.plot(ns, values, marker, color=pictures.PALETTE[colour], label=name)
        words.append(f"{name}: {', '.join(f'{value:.2f}' for value in values)}")
    axes.legend(frameon=False, labelcolor=pictures.INK)
    return pictures.render(figure, f"MODEL, {title}; {ns} replicas. {'; '.join(words)}.")


# %% check="speedup" points=4 covers=["S1", "S16", "S63"]
with attempt("speedup"):
    plain = {"cores": 4, "size": 0.0, "rate": 1.0, "latency": 0.0, "fixed": 0.0, "example": 0.01}
    ring = {"size": 4.0, "latency": 0.25}
    hundred = {"replicas": 1, "batch": 100, "messages": 1, "threads": 1}
    for n, batch, messages, changes, wanted, why in (
        (4, 100, 1, {}, 4, "4 cores, nothing but work"),
        (8, 100, 1, {}, 4, "8 replicas, 4 cores"),
        (3, 100, 1, {"cores": 2}, 2, "3 replicas, 2 cores"),
        (4, 100, 1, {"fixed": 1.0}, 1.6, "1 second of work, 1 second fixed"),
        (4, 400, 1, {"fixed": 1.0}, 4, "1 second of work each, 1 second fixed"),
        (8, 100, 1, {"fixed": 1.0}, 1.6, "1 second of work on 4 cores, 1 second fixed"),
        (1, 300, 5, {"fixed": 1.0, **ring}, 1.5, "one replica, 3 seconds of work: it sends nothing"),
        (2, 100, 1, ring, 1 / 5, "half a second of work, 4.5 in the ring"),
        (2, 100, 3, ring, 1 / 6, "half a second of work, 5.5 in the ring"),
        (4, 100, 1, ring, 4 / 31, "a quarter of a second of work, 7.5 in the ring"),
        (4, 400, 1, ring, 8 / 17, "a second of work each, 7.5 in the ring"),
        (4, 100, 1, {"cores": 2, **ring}, 1 / 8, "4 replicas, 2 cores, 7.5 in the ring"),
        (2, 51, 1, {}, 2, "51 examples: a share of 25.5"),
    ):
        run = hundred | {"replicas": n, "batch": batch, "messages": messages}
        got = call(speedup, run, hundred, plain | changes, returns=expecting.number)
        says = f"{why}: `speedup` of {run} is {got:.3g}"
        expect(math.isclose(got, wanted, rel_tol=1e-6), f"{says}; how long is a step of the base, how long one of it?")
    got = call(speedup, hundred, hundred | {"replicas": 2}, plain | ring, returns=expecting.number)
    expect(math.isclose(got, 5, rel_tol=1e-6), f"one replica, with two as the base: `speedup` is {got:.3g}; expected 5")
    display(model_picture(machine, "your machine, and the network of `program`"))

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
alone = ONE | {"batch": 64}
found = {"8 in one machine": tried(speedup, alone | {"replicas": 8}, alone, gpus)}
for rate in (1.25, 5, 12.5, 25, 50) if found["8 in one machine"] else ():
    network = gpus | {"rate": rate * 1e9, "latency": 50e-6}
    found[f"16 over a network of {rate:g} GB/s"] = tried(speedup, alone | {"replicas": 16}, alone, network)
print(*(f"MODEL: {name}: {value:.2f}" for name, value in found.items() if value), sep="\n")

# %% [markdown]
# ## 64 times the cores
# Two logs of MLPerf Training v0.6, [published](https://github.com/mlcommons/training_results_v0.6) by Google in 2019: ResNet-50 in
# TensorFlow, on 32 and on 2048 cores of TPU v3, trained until 75.9 % of the images are named right. How many times sooner was
# that with 64 times the cores? Guess, then run (the seconds are folded):

# %% tags=["show", "folded"] covers=["S1"]
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

# %% tags=["show"]
print("examples a second, batches of 512 against 128:", costs.speedup("128 examples", "512 examples", work=4))

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
# That is one row. A page with four divides the same runs of one replica four times. How often is at least one row at 2 / 64,
# though all predictions are right?

# %% tags=["show"]
draw = np.random.default_rng(1).normal  # seconds that differ by luck only: 100,000 pages, four rows, six repeats
above = (draw(size=(100_000, 4, 6)) > draw(size=(100_000, 1, 6))).sum(axis=2)
luck = (above == 0) | (above == 6)
print(f"SIMULATED: a given row {luck[:, 0].mean():.3f}, at least one of four {luck.any(axis=1).mean():.3f}")

# %% [markdown]
# ## Your study
# You have **48 runs**, and two questions to choose from:
#
# - `"batch"`: does it pay to give each replica a whole batch rather than a share of one?
# - `"messages"`: does it pay to send the gradients as one message rather than in several?

# %% [markdown]
# ### Exercise: `plan` (3 points)
# 1. `configurations`: two with as many replicas, at least 2, differ in the question *alone*. For `"batch"`: strong and weak, by
# the base's batch. Shares are whole.
# 2. `control`: the run of `base`, one replica, under another name. Its prediction is 1.
# 3. `repeats`: enough for a chance below 0.05. With the follow-up's two, at most 48 runs.
# 4. `predicted`: numbers, copied from your `speedup`, or better. The check writes them down, then measures.

# %% answer="plan" covers=["S16", "S63"]
### BEGIN SOLUTION
TWO = ONE | {"replicas": 2}
plan = {
    "question": "batch",
    "repeats": 6,
    "base": "1 replica",
    "control": "1 replica, again",
    "configurations": {
        "1 replica": ONE,
        "1 replica, again": ONE,
        "2 share a batch": TWO,
        "2, a batch each": TWO | {"batch": 1024},
        "4 share a batch": ONE | {"replicas": 4},
    },
    "predicted": {"1 replica, again": 1, "2 share a batch": 1.2, "2, a batch each": 1.6, "4 share a batch": 0.7},
}
#: plan = {
#:     "question": None,  # "batch" or "messages"
#:     "repeats": None,
#:     "base": "1 replica",
#:     "control": None,  # a name
#:     "configurations": {"1 replica": ONE},  # name -> run, such as ONE | {"replicas": 2}
#:     "predicted": {},  # name -> examples a second, times those of the base
#: }
### END SOLUTION


# %% tags=["folded"]
def whole_plan():  # as grading reads it
    if isinstance(plan, dict) and plan.get("question") is None:
        raise NotAttempted("plan: not attempted yet. Which question?")
    given = read(plan, "`plan` is", planned.PLAN)
    for rule in (planned.within_budget, planned.controlled, planned.contrasted):
        fault = rule(given)
        expect(not fault, f"`plan`: {fault and fault.says}")
    return given


def planned_study(given):
    made = Study("14_plan.jsonl", program, given["configurations"], repeats=given["repeats"], **own)
    made.state({name: value for name, value in given["predicted"].items() if name in given["configurations"]})
    examples = {name: run["batch"] for name, run in given["configurations"].items()}
    return made, {name: count / examples[given["base"]] for name, count in examples.items()}


# %% check="plan" points=3 answers=["plan"] covers=["S16", "S63"]
with attempt("plan", after=["replica_step"]) as outcome:
    given = whole_plan()
    scaling, work = planned_study(given)
    scaling.run()
    outcome.done = f"planned; {scaling.stated()}"
    for name, said in scaling.stated().values.items():
        found = scaling.speedup(given["base"], name, work[name])
        outside = found and not found.low <= said <= found.high
        print(f"{name}: recorded {said:.2f}, measured {found}{'  <- a surprise' if outside else ''}")
    headings = ["Measurement", "Is it real", "Difference", "On 8 GPUs"]
    display(scaling_page.page(scaling, given["base"], work, headings=headings, chance=chance))

# %% [markdown]
# What counts on the page is what was recorded before the first run; a prediction that you change later stands beside it. The
# last column is your `chance` of measured / predicted.

# %% [markdown]
# ## Where a difference comes from
# A model leaves things out. An explanation is worth something if a run could prove it *wrong*: change one thing, say what will
# come if it is so, and what if it is not.

# %% [markdown]
# | suspect | chapters | what to change |
# |---|---|---|
# | another program | 02 | nothing: the control tells |
# | `"messages"`: the network | 07, 10, 13 | `messages` |
# | `"own ops"`: what each replica does, however small its share | 04, 11, 12 | `batch` |
# | `"cores"`: replicas that share them | 01, 03, 05 | `threads` or `replicas` |

# %% [markdown]
# ### Exercise: `follow_up` (4 points)
# `of` is the name of a configuration of your plan, best one whose measurement differs from its prediction. Name the suspect, and
# a new `run` that differs from it in one argument. How many times the examples a second of `of` will it have if it is so, and if
# it is not? One must be 1.1 times the other, or no result refutes anything.

# %% [markdown]
# The check measures, and prints a record of all runs, from `{"plan"` to the last `}`: what you hand in. Paste it into `record`,
# and run the check again.

# %% answer="follow_up" covers=["S63"]
### BEGIN SOLUTION
follow_up = {
    "suspect": "messages",
    "of": "4 share a batch",
    "run": ONE | {"replicas": 4, "messages": 3},
    "if it is so": 0.5,
    "if it is not": 1.0,
}
#: follow_up = {
#:     "suspect": None,  # "messages", "own ops" or "cores"
#:     "of": None,  # a name
#:     "run": ONE,  # such as ONE | {"replicas": 2, "threads": 2}
#:     "if it is so": None,
#:     "if it is not": None,
#: }
### END SOLUTION

# %% answer="record"
### BEGIN SOLUTION
#: record = """None"""
record = """{"plan": {"stated": 0.00,
"predicted": {"1 replica, again": 1.0, "2 share a batch": 1.2, "2, a batch each": 1.6, "4 share a batch": 0.7},
"runs": {
"1 replica": [[5.06, 41.1], [7.05, 39.5], [12.46, 48.6], [21.06, 75.8], [25.02, 39.8], [63.08, 168.0]],
"1 replica, again": [[5.64, 41.2], [9.67, 39.8], [11.77, 50.4], [18.74, 38.3], [22.21, 45.5], [65.65, 122.4]],
"2 share a batch": [[6.49, 66.4], [7.95, 69.3], [15.0, 70.7], [18.17, 65.9], [24.4, 66.1], [30.23, 110.5]],
"2, a batch each": [[3.21, 101.0], [9.1, 98.7], [16.18, 102.5], [19.93, 96.1], [23.44, 100.6], [50.16, 369.0]],
"4 share a batch": [[4.51, 112.5], [10.99, 116.7], [14.0, 118.4], [17.3, 95.8], [27.64, 131.2], [58.75, 201.4]]}},
"follow-up": {"stated": 65.68,
"predicted": {"follow-up": 0.5},
"runs": {
"4 share a batch": [[82.43, 414.2], [88.97, 196.4], [105.36, 255.6], [133.11, 256.0], [150.07, 239.2], [159.22, 191.2]],
"follow-up": [[69.2, 253.7], [97.75, 312.6], [114.83, 401.3], [125.2, 340.0], [142.42, 356.7], [165.1, 266.5]]}}}"""
### END SOLUTION

# %% check="follow_up" points=4 answers=["follow_up", "plan", "record"] covers=["S63"]
with attempt("follow_up", after=["plan"]):
    if isinstance(follow_up, dict) and follow_up.get("suspect") is None:
        raise NotAttempted("follow_up: not attempted yet. Which suspect?")
    given, then = whole_plan(), read(follow_up, "`follow_up` is", planned.FOLLOW_UP)
    for fault in (planned.one_thing(given, then), planned.tells(then)):
        expect(not fault, f"`follow_up`: {fault and fault.says}")
    pair = {then["of"]: given["configurations"][then["of"]], "follow-up": then["run"]}
    again = Study("14_follow_up.jsonl", program, pair, repeats=given["repeats"], **own)
    again.state({"follow-up": then["if it is so"]})
    again.run()
    found = again.speedup(then["of"], "follow-up", pair["follow-up"]["batch"] / pair[then["of"]]["batch"])
    if found:
        so, not_so = (abs(math.log(found.median / then[f"if it is {word}"])) for word in ("so", "not"))
        print(f"if it is so {then['if it is so']:.2f}, if not {then['if it is not']:.2f}; measured {found}:")
        print("nearer to what you said", "if it is so" if so < not_so else "if it is NOT so: REFUTED")
    told = read(record, "`record` is", expecting.text)
    if told == "None":
        print(planned.record(planned_study(given)[0], again))
        expect(False, "`record` is empty; paste between its quotes what stands above, all of it")
    seen = planned.recorded(told)
    for fault in (planned.stated_first(seen, given), planned.followed(seen, given, then)):
        expect(not fault, f"`record`: {fault and fault.says}")

# %% [markdown]
# ### Exercise: `explain` (5 points, read by a person)
# Copy the text of your page into the cell below, the table too. Then write one or two sentences under each heading. Which term
# of the model limits the gain? Is a difference between prediction and measurement real, where does it come from, and what did
# your follow-up say to that? What would change on 8 GPUs?

# %% [markdown] answer="explain" points=5 covers=["S1", "S56", "S63"]
# ### BEGIN SOLUTION
# | configuration | predicted | measured | smallest to largest | pairs | left out | chance, if the prediction is right |
# |---|---|---|---|---|---|---|
# | 1 replica, again | 1.00 | 1.00 | 0.88 to 1.98 | 6 | 0 | 0.688 |
# | 2 share a batch | 1.20 | 0.65 | 0.57 to 1.52 | 6 | 0 | 0.219 |
# | 2, a batch each | 1.60 | 0.86 | 0.79 to 1.58 | 6 | 0 | 0.031 |
# | 4 share a batch | 0.70 | 0.39 | 0.30 to 0.83 | 6 | 0 | 0.688 |
#
# **Measurement.** Six pairs each, none left out: 0.65 (0.57 to 1.52) for two that share a batch, 0.86 (0.79 to 1.58) for a batch
# each, 0.39 (0.30 to 0.83) for four. Weak scaling beats strong, as the ring costs the same and is paid for twice the examples.
# **Is it real.** Only the row of a batch each lies below its prediction in all six pairs, 0.031, and about one page in nine has
# such a row by luck. The control should be 1 and went from 0.88 to 1.98, so single pairs tell little: the machine was busy in
# the fourth and the last repeat. **Difference.** The model has no cost of each replica's own ops nor of adding on one device. For
# four replicas I suspected the messages: with three instead of one the rate should halve, and stay if they cost nothing. It was
# 0.69 (0.63 to 1.63), nearer to 0.5 than to 1, so it does not refute them; by the model 0.49, so something else takes time, too.
# **On 8 GPUs.** Each has its own cores and memory; the ring's 14 messages and its link decide, so I would keep a batch for each.
#
# **Rubric.** One point for each, two for the difference; half a point where the reason is missing.
#
# - *Measurement* (1): a median with its smallest, largest and number of pairs, failed runs named, and the plan's question
#   answered. Earns: "0.65, 0.57 to 1.52, six pairs." Does not: "It was slower."
# - *Is it real* (1): whether measurement and prediction differ, by the chance *and* by the control or the spread. Earns:
#   "0.031, but the control reaches 1.98." Does not: "0.03, so the effect is large."
# - *Difference* (2): a cause that the model leaves out or has wrong (1), and what the follow-up said to it (1), also if it
#   refuted the cause. Earns: "It was 0.98: the messages are not it." Does not: "The computer was busy", without the control.
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
