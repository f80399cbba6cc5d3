# ---
# jupyter:
#   across:
#     rows: S9-S12 S32
# ---

# %% [markdown]
# # GPU memory
# **Who owns the memory of a GPU, and how do two programs share it?**
#
# ![Two bars: two programs need 80% of a GPU; the first took more than it uses, and the second ran out of
# memory.](pictures/02_gpu_memory.png)
#
# A colleague starts a program on "your" GPU. Yours dies. In 75 minutes you find out who took what, and you write the
# rules by which programs live together.

# %% tags=["folded"]
from across import devices, fresh, memory, pictures, programs
from across.attempt import NotAttempted, attempt, call, expect, read
from across.expecting import between, dict_of, entries, number, row, text, whole

# %%
(DEVICE,) = devices.gpus_or_cpus(1)

# %%
import keras
import numpy as np
import tensorflow as tf

# %% [markdown]
# Two programs start on one GPU. Each needs 40% of it for its tensors:

# %% tags=["show"] covers=["S9"]
two = programs.share([programs.Ask("first", part=0.4), programs.Ask("second", part=0.4)])
two.draw("Two programs, no settings")

# %% [markdown]
# Together they need 80%. Still the second dies, after ten seconds:

# %% tags=["show"]
print(two.errors())

# %% [markdown]
# The message names the tensor that found no room. The cause is the first program. TensorFlow waited: another thread
# could free something.
#
# A simulated GPU is made of main memory. Its bytes, and who shares them, are the simulation's. The allocator, its
# limits and its errors are TensorFlow's. On a real GPU each program also holds a *context*, some hundred MiB for CUDA itself.

# %% [markdown]
# ## What is left over?
# Without settings, a program takes what is free when it starts, less a *reserve*:
#
# | free | compute capability (the GPU's generation) | reserve (MiB) |
# |---|---|---|
# | under 2,048 MiB | any | 225 |
# | 2,048 MiB or more | 6 or less / 7 / 8 / 9 or more | 500 / 1,050 / 1,536 / 1,800 |
#
# If no more than the reserve is free, the program takes all. (Read in TensorFlow's `gpu_device.cc`; the pictures' simulated
# GPU follows, with capability 8 and no context.)

# %% [markdown]
# ### Exercise: `prediction` (1 point)
# Three programs start on such a GPU of 2,000 MiB. How many MiB does each **take**? Put a number for each `None`. Any
# complete guess earns the point.

# %% answer="prediction" covers=["S9"]
### BEGIN SOLUTION
prediction = {"first": 1775, "second": 225, "third": 0}
#: prediction = {"first": None, "second": None, "third": None}
### END SOLUTION

# %% check="prediction" points=1
with attempt("prediction", done="recorded before three programs started"):
    if all(guess is None for guess in read(prediction, "`prediction` is", dict_of()).values()):
        raise NotAttempted("prediction: not attempted yet. Replace each None by a number of MiB.")
    guesses = read(
        prediction, "`prediction` is", entries(dict.fromkeys(("first", "second", "third"), between(0, float("inf"))))
    )
    takes, how = programs.takes(list(guesses), 2000)
    print(
        pictures.table_text(["", "you said", how], [[name, f"{guesses[name]:g}", str(takes[name])] for name in guesses])
    )

# %% [markdown]
# <details><summary>What was measured</summary>
#
# The second program takes the first one's reserve. On the picture's GPU of 4,096 MiB it got 1,311.
# </details>

# %% [markdown]
# ## A GPU of one's own
# CUDA reads `CUDA_VISIBLE_DEVICES` when a program starts: which GPUs the program sees, and in which order. It reads from
# left to right, and stops at the first number that is no GPU. Of four GPUs, by their numbers in the machine:

# %% tags=["show"] covers=["S10"]
for value in ("0,1", "3,2", "0,9,1", "-1", ""):
    print(f"{value!r:8}", {f"GPU:{i}": n for i, n in enumerate(memory.seen(value, 4))})

# %% [markdown]
# `set_visible_devices` also chooses. We ask TensorFlow's own code about four GPUs on paper:

# %% tags=["show"] covers=["S10"]
with memory.paper(4) as paper:
    gpus = tf.config.list_physical_devices("GPU")
    tf.config.set_visible_devices([gpus[3], gpus[2]], "GPU")
    print("asked for 3, 2; TensorFlow would open", paper.asked.visible_device_list)

# %% [markdown]
# It forgets your order: GPU 2 of the machine becomes `GPU:0`. `CUDA_VISIBLE_DEVICES` keeps your order.

# %% [markdown]
# ### Exercise: `gpus_for` (2 points)
# A parameter server (`"ps:0"`; chapter 07) stores numbers and needs no GPU. If it sees GPUs, it fills them.
#
# Return each task's `CUDA_VISIBLE_DEVICES`; tasks come in any order. A `ps` sees no GPU. Each GPU belongs to one worker.
# The workers' numbers of GPUs differ by one at most. Roughly 5 lines.

# %% [markdown]
# <details><summary>Hint</summary>
#
# `range(i, gpus, n)` deals GPUs to worker `i` of `n`.
# </details>


# %% answer="gpus_for" covers=["S32", "S10"]
def gpus_for(tasks, gpus):  # ["worker:0", "ps:0", ...], how many GPUs -> {"ps:0": "...", ...}
    ### BEGIN SOLUTION
    workers = [task for task in tasks if task.startswith("worker")]
    chosen = dict.fromkeys(tasks, "")
    for i, worker in enumerate(workers):
        chosen[worker] = ",".join(str(gpu) for gpu in range(i, gpus, len(workers)))
    return chosen
    ### END SOLUTION


# %%
def names():
    return [gpu.name for gpu in tf.config.list_physical_devices("GPU")]


# %% check="gpus_for" points=2
with attempt("gpus_for"):
    ps, workers = ["ps:0", "ps:1"], [f"worker:{i}" for i in range(4)]
    tasks = [*workers[:1], *ps, *workers[1:]]
    got = call(gpus_for, [*tasks], 6, returns=entries(dict.fromkeys(tasks, text)))
    sees = {task: memory.seen(got[task], 6) for task in tasks}
    print(pictures.table_text(["task", "value", "GPUs"], [[task, repr(got[task]), str(sees[task])] for task in tasks]))
    said = f"`gpus_for({tasks}, 6)`: "
    for task in ps:
        expect(not sees[task], f"{said}{task} gets {got[task]!r} and sees GPU {sees[task][:1]}; expected none")
    owned = sorted(gpu for task in workers for gpu in sees[task])
    expect(owned == [0, 1, 2, 3, 4, 5], f"{said}the workers own {owned}; expected each of 0 to 5 once")
    counts = {len(sees[task]) for task in workers}
    expect(counts == {1, 2}, f"{said}workers have {sorted(counts)} GPUs; expected 1 or 2 each")
    for many, gpus in (([f"worker:{i}" for i in range(11)], 11), (workers, 2)):
        chosen = call(gpus_for, [*many], gpus, returns=entries(dict.fromkeys(many, text)))
        owned = sorted(gpu for value in chosen.values() for gpu in memory.seen(value, gpus))
        said = f"`gpus_for({many}, {gpus})`: the workers own {owned}; expected each of 0 to {gpus - 1} once"
        expect(owned == [*range(gpus)], said)
    real = fresh.run(names, env={"CUDA_VISIBLE_DEVICES": got["ps:0"]})
    expect(real == [], f"a real process with {got['ps:0']!r} sees {real}; expected none")

# %% [markdown]
# ## What do tensors use?
# Asking a driver for memory is slow. So TensorFlow takes large *regions* and cuts tensors out of them. This
# allocator is called BFC: *best fit, with coalescing*. A simulated `DEVICE` is another GPU than above: 2,048
# MiB, no reserve. We give BFC 256 MiB of it, in a process of its own:


# %%
GROW = memory.POOL if "CPU" in DEVICE else {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}  # region by region


def small(work, *args):
    def cut():
        for gpu in tf.config.list_physical_devices("GPU")[:1]:
            piece = tf.config.LogicalDeviceConfiguration(memory_limit=256)
            tf.config.set_logical_device_configuration(gpu, [piece])
        return work(*args)

    return fresh.run(cut, env=GROW)


def tensor(mib):  # of so many MiB: a float32 has 4 bytes
    with tf.device(DEVICE):
        return tf.zeros([mib, 2**18])


# %% [markdown]
# `get_memory_info` counts the *blocks* that tensors have. A block is a piece of a region; it may be larger than its tensor.
# `"current"` is now. `"peak"` is the most since the process started, or since `reset_memory_stats`:


# %%
def peak(work):  # MiB that `work()` needs at its worst moment, on top of what is in use
    tf.config.experimental.reset_memory_stats(DEVICE)
    before = tf.config.experimental.get_memory_info(DEVICE)["current"]
    work()
    return (tf.config.experimental.get_memory_info(DEVICE)["peak"] - before) / 2**20


# %% tags=["show"] covers=["S12"]
def all_at_once():
    return tf.add_n([tensor(8) for _ in range(6)])


def one_by_one():
    total = tensor(8)
    for _ in range(5):
        total += tensor(8)
    return total


peaks = {work.__name__: small(peak, work) for work in (all_at_once, one_by_one)}
pictures.bars(peaks, title="The sum of six tensors of 8 MiB", unit="MiB at the peak")

# %% [markdown]
# The first keeps six tensors and their sum: 56 MiB. The second keeps two sums and a tensor: 24. A tensor lives as long as
# something holds it: a name, a list, a tape.

# %% [markdown]
# ### Exercise: `mean_output` (2 points)
# Repair it: the mean is right, but all outputs live at the same time. The budget is 50 MiB of the GPU at the peak, for any
# number of batches; NumPy's arrays are in main memory. `wide()` puts out 8 MiB for a batch of 2,048. Batches and models
# differ in size. Roughly 6 lines.
#
# <details><summary>Hint</summary>
#
# `model.predict` keeps all its outputs on the GPU until it ends.
# </details>


# %%
def wide(outputs=1024):
    signs = np.tile([1.0, -1.0], [16, outputs // 2])
    layer = keras.layers.Dense(outputs, "relu", kernel_initializer=lambda shape, dtype: signs)
    return keras.Sequential([keras.Input([16]), layer])


def batches(rows):  # how long each is; they are full of 0, -1, 2, -3 ...
    return [np.full([n, 16], i * (-1) ** i, "float32") for i, n in enumerate(rows)]


# %% answer="mean_output" covers=["S12"]
def mean_output(model, batches):  # Keras model, list of arrays -> the mean of all numbers that it puts out
    ### BEGIN SOLUTION
    #: outputs = [model(batch) for batch in batches]
    #: return tf.reduce_mean(tf.concat(outputs, axis=0))
    total, count = 0.0, 0
    for batch in batches:
        output = model(batch)
        total += tf.reduce_sum(output)
        count += tf.size(output)
    return total / tf.cast(count, total.dtype)
    ### END SOLUTION


# %% check="mean_output" points=2
with attempt("mean_output"):

    def spent(work, outputs, rows):
        tf.config.experimental.reset_memory_stats = lambda device: None  # the whole call counts
        made = work(wide(outputs), batches(rows))
        return made, tf.config.experimental.get_memory_info(DEVICE)["peak"] / 2**20

    did, long = {}, [2048]
    for outputs, rows, mean in (
        (1024, long * 3, 8),
        (1024, long * 12, 44),
        (1024, [2048, 512, 512], 4),
        (10, [3, 1], 2),
    ):
        said = f"`mean_output(wide({outputs}), batches({rows}))`"
        got, did[said] = small(spent, mean_output, outputs, rows)
        got = read(got, f"{said} returned", number)
        expect(abs(got - mean) < 0.01, f"{said} returned {got:g}; expected {mean}")
    shown = dict(zip(("3 batches", "12 batches", "a long one, two short ones"), did.values(), strict=False))
    display(pictures.bars({**shown, "the budget": 50}, title="mean_output", unit="MiB at the peak"))
    for said, mib in did.items():
        expect(mib <= 50, f"{said} needs {mib:.0f} MiB at the peak; the budget is 50")

# %% [markdown]
# ## Half of it is free
# Of our 256 MiB, 2 went to a first small region. The other 254 are one region: 31 tensors of 8 MiB fit in. We drop every
# second one, and ask for 16 MiB. Then we drop one more, and ask for 4 MiB, then for 16:


# %% tags=["show"] covers=["S11"]
def holes():
    kept, maps, refused = [tensor(248)], {}, ""
    maps["one tensor of 248 MiB: one block"] = memory.places(kept)
    kept.clear()
    maps["it is dropped; the block stays, free"] = memory.places(kept)
    kept.append(tensor(8))
    maps["8 MiB: the block is split"] = memory.places(kept)
    kept += [tensor(8) for _ in range(30)]
    maps["30 more of 8 MiB"] = memory.places(kept)
    del kept[1::2]
    maps["every second one is dropped; 16 MiB are refused"] = memory.places(kept)
    try:
        tensor(16)
    except tf.errors.ResourceExhaustedError as error:
        refused = error.message.split("}} ")[-1]
    del kept[1]
    maps["one more is dropped"] = memory.places(kept)
    kept.append(tensor(4))
    maps["4 MiB find a place"] = memory.places(kept)
    kept.append(tensor(16))
    maps["16 MiB find a place"] = memory.places(kept)
    return maps, refused


# %% tags=["show"] covers=["S11"]
maps, refused = small(holes)
print(refused)
memory.walk_places(maps, title="Measured: where tensors lie")

# %% [markdown]
# Move the slider. 120 MiB were free, and a tensor of 16 found no room: no hole was larger than 8. This is *fragmentation*.
#
# The last tensor that we dropped lay between two holes. BFC *merged* all three into one of 24. Yet it put the 4 MiB into a
# hole of 8, the smallest that fits: "best fit". That hole was *split*.

# %% [markdown]
# The 16 MiB got all 24. BFC splits a block that is at least twice as large as asked, or that would waste 128 MiB or more.
# The map shows tensors: the 8 beside the 16 belong to its block.

# %% [markdown]
# ## How it grows
# A *growing* program starts small. When no region has room for a tensor, BFC takes one more region:
#
# 1. A tensor of more than is `left` under the limit is refused.
# 2. `step` is the size of the next region. While the tensor is larger than `step`, double `step`.
# 3. Take `step`, or what is `left` if that is less.
# 4. If the tensor fitted `step` from the beginning, double `step` for next time.

# %% [markdown]
# ### Exercise: `extend` (3 points)
# Return the region's size and the `step` for next time. If the tensor is refused, return `None`. Roughly 7 lines.
#
# <details><summary>Hint</summary>
#
# Two cases: the tensor fits `step`, or it does not. `step` changes in both, but not at the same moment.
# </details>


# %% answer="extend" covers=["S12"]
def extend(size, step, left):  # MiB, `size` of the tensor -> (region, step) or None
    ### BEGIN SOLUTION
    if size > left:
        return None
    if size <= step:
        return min(step, left), step * 2
    while step < size:
        step *= 2
    return min(step, left), step
    ### END SOLUTION


# %%
def measured(size, tensors):
    tensor(1)
    start, kept, curve = memory.now(DEVICE).taken, [], []
    for _ in range(tensors):
        kept.append(tensor(size))
        curve.append(memory.now(DEVICE).taken - start)
    return curve


# %% check="extend" points=3
with attempt("extend"):
    got = call(extend, 300, 4, 256)
    expect(got is None, f"`extend(300, 4, 256)` returned {got}; 256 MiB are left: expected None")
    shown = {
        (8, 8, 256): (8, 16),
        (8, 8, 8): (8, 16),
        (8, 128, 124): (124, 256),
        (20, 8, 20): (20, 32),
        (8, 3, 99): (12, 12),
    }
    for asked, (region, step) in shown.items():
        got = call(extend, *asked, returns=row(whole, whole))
        expect(
            tuple(got) == (region, step), f"`extend{asked}` returned {got}; expected a region of {region}, then {step}"
        )
    curves = {}
    for size, tensors in ((8, 20), (3, 30)):
        curves[size] = memory.by_rule(extend, size, tensors, 256), small(measured, size, tensors)
    display(memory.draw_rule(curves))
    for size, (rule, real) in curves.items():
        for tensors, (said, was) in enumerate(zip(rule, real, strict=True), start=1):
            says = f"after {tensors} of {size} MiB your rule has taken {said} MiB; TensorFlow took {was:.0f}"
            expect(not abs(said - was) > 0.05 * was + 1, says)

# %% [markdown]
# ### And back?
# Twelve tensors of 8 MiB, then none, then six, then none. At last one of 127 MiB; 126 are left under the limit,
# for 2 went at the start:


# %% tags=["show"] covers=["S12"]
def tide():
    tensor(1)
    seen, kept = [memory.now(DEVICE)], []
    for goal in (12, 0, 6, 0):
        while len(kept) != goal:
            kept = kept[:-1] if len(kept) > goal else [*kept, tensor(8)]
            seen.append(memory.now(DEVICE))
    if "GPU" in DEVICE:  # main memory's BFC would refuse it
        kept = tensor(127)
    return [*seen, memory.now(DEVICE), memory.now(DEVICE)]


memory.draw(small(tide), title="Measured: twelve tensors, none, six, none, a large one", each="tensors made or dropped")

# %% [markdown]
# The tensors are gone, and the process keeps the regions. One exception: when a new region is
# refused, TensorFlow gives empty ones back, and asks again. On a GPU the line does not move: five regions
# (8, 8, 16, 32, 64) went, and one of 128 came. `TF_ENABLE_GPU_GARBAGE_COLLECTION=false` ends this.

# %% [markdown]
# ## How much does a model need?
# Training keeps *weights*, a *gradient* for each weight that is trained, and the optimizer's own *state*. Adam's state
# is two more numbers for each trained weight. Frozen weights need neither. TensorFlow counts:


# %% tags=["show"]
def used():
    return tf.config.experimental.get_memory_info(DEVICE)["current"] / 2**20


def phases(make, x):  # MiB for weights, gradients, optimizer state
    with tf.device(DEVICE):
        at = [used()]
        model, optimizer = make()
        at.append(used())
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x))
        gradients = tape.gradient(loss, model.trainable_variables)
        del tape  # it holds what the layers put out
        at.append(used())
        optimizer.apply(gradients, model.trainable_variables)
    return np.diff([*at, used()]).round(1).tolist()


# %% tags=["show"]
def half_frozen():
    first, second = (keras.layers.Dense(1024, use_bias=False) for _ in range(2))
    first.trainable = False
    return keras.Sequential([keras.Input([1024]), first, second]), keras.optimizers.Adam()


small(phases, half_frozen, np.ones([1, 1024], "float32"))

# %% [markdown]
# Two layers of 4 MiB, one of them frozen: 8 MiB of weights, 4 of gradients, 8 of state.

# %% [markdown]
# ### Exercise: `to_train` (3 points)
# Compute it *before* training. Return MiB: `{"weights": ..., "gradients": ..., "optimizer": ...}`, for a Keras model that is
# built and an optimizer that is new. Ask the variables for their shapes and types. Roughly 7 lines.
#
# <details><summary>Hint</summary>
#
# `optimizer.build(variables)` makes the state for these variables; `optimizer.variables` lists it.
# `tf.as_dtype(v.dtype).size` is the bytes of one number.
# </details>


# %% answer="to_train" covers=["S11"]
def to_train(model, optimizer):  # -> {"weights": MiB, "gradients": MiB, "optimizer": MiB}
    ### BEGIN SOLUTION
    def mib(variables):
        return sum(np.prod(v.shape) * tf.as_dtype(v.dtype).size for v in variables) / 2**20

    optimizer.build(model.trainable_variables)
    trained = mib(model.trainable_variables)
    return {"weights": mib(model.weights), "gradients": trained, "optimizer": mib(optimizer.variables)}
    ### END SOLUTION


# %% check="to_train" points=3
with attempt("to_train"):

    def half_size():  # numbers of two bytes, and moving averages, which nobody trains
        layers = keras.layers.Dense(2**20, dtype="bfloat16"), keras.layers.BatchNormalization(dtype="bfloat16")
        return keras.Sequential([keras.Input([1]), *layers]), keras.optimizers.SGD()

    def two_types():  # the first computes with two bytes, and its variable has four
        layers = [keras.layers.Dense(1024, use_bias=False, dtype=dtype) for dtype in ("mixed_bfloat16", "bfloat16")]
        return keras.Sequential([keras.Input([1024]), *layers]), keras.optimizers.Adafactor()

    parts, table = ("weights", "gradients", "optimizer"), []
    for make, width in ((half_frozen, 1024), (half_size, 1), (two_types, 1024)):
        case = f"`to_train(*{make.__name__}())`"
        got = read(to_train(*make()), f"{case} returned", entries(dict.fromkeys(parts, number)))
        real = dict(zip(parts, small(phases, make, np.ones([1, width], "float32")), strict=True))
        table += [[make.__name__, part, f"{got[part]:g}", f"{real[part]:g}", got[part] - real[part]] for part in parts]
    print(pictures.table_text(["model", "MiB of", "you say", "measured"], [line[:4] for line in table]))
    for name, part, says, was, off in table:
        expect(abs(off) < 0.2, f"`to_train(*{name}())`, {part}: you say {says} MiB; TensorFlow counts {was}")

# %% [markdown]
# Is that all?


# %% tags=["show"] covers=["S11"]
def one_step():
    model, optimizer = half_frozen()
    model.compile(optimizer, "mse")
    model.fit(np.ones([1, 1024]), np.ones([1, 1024]), verbose=0)


print(f"{small(peak, one_step):.0f} MiB at the peak")

# %% [markdown]
# The parts are 20 MiB. The peak is higher: for a moment, the update needs more. What the layers put out comes on top, and
# grows with the batch. So compute the parts, and measure the peak.

# %% [markdown]
# ## A piece each
# Each program may be told a limit. In 2017 it was a *fraction* of the whole. Three times 0.4 is more than one:

# %% tags=["show"] covers=["S11"]
programs.share([programs.Ask(name, fraction=0.4) for name in ("one", "two", "three")])

# %% [markdown]
# All three start. The third is refused. So BFC asks for 10% less until the driver agrees: of 4,096 MiB, 1,638 becomes 783
# in seven times. A limit counts regions: on a real GPU each context comes on top.
#
# One program can also cut a GPU into several *logical* GPUs, by a list of pieces.

# %% [markdown]
# ## Growth between neighbours
# `set_memory_growth` makes a program grow as in `tide`. Two such programs share a GPU. Each needs 60% of it, and `early`
# has dropped its tensors before `late` makes any:

# %% tags=["show"] covers=["S12"]
pair = [programs.Ask("early", part=0.6, growth=True, drops=True), programs.Ask("late", part=0.6, growth=True)]
programs.share(pair).draw("Two growing programs")

# %% [markdown]
# `early` uses nothing, and `late` dies. `early` gives regions back only for its own tensors. With growth alone, nobody
# knows who will fail, or when.

# %% [markdown]
# ### Growth against limit
# The manual says that they exclude each other. Two orders, two answers:


# %% tags=["show"] covers=["S12"]
def grow(gpu):
    tf.config.experimental.set_memory_growth(gpu, True)


def cap(gpu):
    piece = tf.config.LogicalDeviceConfiguration(memory_limit=4096)
    tf.config.set_logical_device_configuration(gpu, [piece])


for steps in ((cap, grow), (grow, cap)):
    with memory.paper(1) as paper:
        gpu = tf.config.list_physical_devices("GPU")[0]
        try:
            [step(gpu) for step in steps]
            grows = tf.config.experimental.get_memory_growth(gpu)
            print("accepted: get_memory_growth says", grows, "and TensorFlow starts with", paper.asked.allow_growth)
        except ValueError as error:
            print("refused:", error)

# %% [markdown]
# With the limit first, TensorFlow refuses. With growth first it accepts, and drops the growth: `get_memory_growth` still
# says `True`. The allocator can do both, and `small` did: `TF_FORCE_GPU_ALLOW_GROWTH=true`, set before the start, makes a program
# grow in any case.

# %% tags=["show"] covers=["S12"]
memory.draw_filled(title="RECORDED: one GPU, filled until a tensor is refused")

# %% [markdown]
# Move the sliders. Here a growing program is refused sooner: the end of a region may be too small for a tensor.

# %% [markdown]
# ### Exercise: `settle` (3 points)
# Repair it. With a `limit`, each GPU gets that limit, and growth is not asked for. Without one, each GPU grows, by
# `set_memory_growth`: TensorFlow refuses to start if some grow and some do not. Roughly 6 lines.


# %% answer="settle" covers=["S11", "S12"]
def settle(gpus, limit=None):  # what list_physical_devices("GPU") returns, MiB
    ### BEGIN SOLUTION
    #: tf.config.experimental.set_memory_growth(gpus[0], True)
    #: piece = tf.config.LogicalDeviceConfiguration(memory_limit=limit)
    #: tf.config.set_logical_device_configuration(gpus[0], [piece])
    for gpu in gpus:
        if limit is None:
            tf.config.experimental.set_memory_growth(gpu, True)
        else:
            piece = tf.config.LogicalDeviceConfiguration(memory_limit=limit)
            tf.config.set_logical_device_configuration(gpu, [piece])
    ### END SOLUTION


# %% check="settle" points=3
with attempt("settle"):
    for limit in (None, 3000):
        try:
            with memory.paper(3) as paper:
                settle(tf.config.list_physical_devices("GPU"), limit)
                wishes, limits = paper.settings()
            with memory.paper(3) as again:
                again.do(paper.calls)  # what TensorFlow refuses is seen here, even if `settle` caught it
        except ValueError as error:
            expect(False, f"`settle(gpus, {limit})`: TensorFlow says: {error}")
        print(f"limit={limit}: growth {wishes}, limits {limits}")
        if limit is None:
            wanted = "expected it on each of 3 GPUs (asked of TensorFlow, not of the environment)"
            expect(wishes == [True] * 3, f"`settle(gpus)`: growth is {wishes}; {wanted}")
        else:
            expect(True not in wishes, f"`settle(gpus, {limit})`: growth is {wishes}; expected a limit alone")
        expect(limits == [limit] * 3, f"`settle(gpus, {limit})`: limits are {limits}; expected {limit} on each")

# %% [markdown]
# ## Then and now
# In 2017 these were options of a *session*, the object that ran a graph. They still work, growth and a limit together:


# %% tags=["show"] covers=["S10", "S11", "S12"]
def old():
    v1 = tf.compat.v1
    options = v1.GPUOptions(per_process_gpu_memory_fraction=0.25, allow_growth=True)
    with tf.Graph().as_default(), v1.Session(config=v1.ConfigProto(gpu_options=options)) as session:
        gpus = [device for device in session.list_devices() if device.device_type == "GPU"]
        return int(session.run(tf.constant(20) + 22)), [device.memory_limit_bytes / 2**20 for device in gpus]


fresh.run(old)

# %% [markdown]
# The first session says how many MiB each GPU may use, of a simulated one's 2,048. A GPU starts once in a process: the
# first session, or the first tensor, decides. A later session prints its own wish, and gets the first one's limit.

# %% [markdown]
# ## Recipe
# Set the limit before the first tensor, and measure the peak:


# %% tags=["show"]
def recipe(limit):  # MiB for all regions; on a real GPU the context comes on top
    for gpu in tf.config.list_physical_devices("GPU"):  # those of CUDA_VISIBLE_DEVICES
        piece = tf.config.LogicalDeviceConfiguration(memory_limit=limit)
        tf.config.set_logical_device_configuration(gpu, [piece])
    keras.Sequential([keras.Input([1024]), keras.layers.Dense(1024)])(tf.ones([8, 1024]))
    return tf.config.experimental.get_memory_info(DEVICE)["peak"] / 2**20


print(f"{fresh.run(recipe, 1024, env=GROW):.1f} MiB at the peak")

# %% [markdown]
# ## What you take with you
# - Without settings the first program takes all but a reserve. The second starts on this reserve.
# - Tensors borrow from regions; the process owns the regions.
# - Free bytes in small holes hold no large tensor.
# - Training with Adam keeps four numbers for each trained weight. A step's peak is higher.
# - Limits and fractions count regions. On a real GPU, add a context for each program.
# - `CUDA_VISIBLE_DEVICES` and `set_visible_devices` choose and renumber.
