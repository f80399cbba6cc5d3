# ---
# jupyter:
#   across:
#     devices: 4
#     limits: {cell_seconds: 60, notebook_seconds: 180, question_seconds: 30}
#     rows: S54-S57 S60-S63 S69
# ---

# %% [markdown]
# # Strategies
# **Which strategy, and what does it change in my Keras program?**
#
# ![Two GPUs under MirroredStrategy: each has a variable of its own, and multiplies it there.](pictures/11_strategies.png)
#
# In chapter 10 you built data parallelism by hand. `tf.distribute` does it for you, if you choose a **strategy**. In about 120
# minutes, and 15 for an optional section, you see what a strategy changes, find two results that are wrong without an error,
# write a whole program, and predict what four devices gain. *The guide* is TensorFlow's page on `tf.distribute`, as of 2.0.

# %% tags=["folded"]
from across import devices, digits, expecting, fresh, parts, pictures, placement, strategies
from across.attempt import NotAttempted, attempt, call, expect, read

# %%
D = devices.gpus_or_cpus(4)
fresh.warm_up()

# %%
import collections
import math
import time
import warnings

import numpy as np
import tensorflow as tf

warnings.filterwarnings("ignore", "`shuffle=True`")  # Keras says it of its own default
tf.config.threading.set_inter_op_parallelism_threads(8)
tf.get_logger().setLevel("ERROR")  # a strategy says much when it starts
train, test = digits.load()

# %% [markdown]
# ## A scope
# A **replica** is one copy of the computation, on one device: the tower of chapter 10. A strategy changes what `tf.Variable`
# makes inside its **scope**:


# %% tags=["show"] covers=["S54", "S56"]
def cnn():
    layers = tf.keras.layers
    first = [tf.keras.Input((8, 8, 1)), layers.Conv2D(8, 5, padding="same", activation="relu"), layers.MaxPooling2D()]
    return tf.keras.Sequential([*first, layers.Flatten(), layers.Dense(10)])


strategy = tf.distribute.MirroredStrategy(D[:2])
with strategy.scope():
    kernel = cnn().weights[0].value  # TensorFlow's own variable
print(type(kernel).__name__, "of", strategy.num_replicas_in_sync, "replicas")
for copy in strategy.experimental_local_results(kernel):
    print(copy.name, copy.shape, copy.device)

# %% [markdown]
# Two copies: a **mirrored variable**. Each replica reads its own. A training step changes both alike.
#
# There are six strategies, on two axes:

# %% [markdown]
# | strategy | replicas | variables |
# |---|---|---|
# | `MirroredStrategy` | in step, one machine | a copy on each device |
# | `MultiWorkerMirroredStrategy` | in step, many machines | a copy on each device |
# | `TPUStrategy` | in step, on TPU cores | a copy on each core |
# | `CentralStorageStrategy` | in step, one machine | one, mostly on the CPU |
# | `ParameterServerStrategy` | out of step, many machines | one, on servers |
# | `OneDeviceStrategy` | there is only one | one, on that device |
#
# `run` calls a function in each replica, also in a `tf.function`. Three programs, each reads a variable:

# %% tags=["show"] covers=["S54", "S56", "S57"]
central = tf.distribute.experimental.CentralStorageStrategy(D[:2], parameter_device="/CPU:0")
for strategy in (tf.distribute.MirroredStrategy(D[:2]), central, tf.distribute.OneDeviceStrategy(D[0])):
    with strategy.scope():
        w = tf.Variable(3.0, name="w")
    step = tf.function(lambda strategy=strategy, w=w: strategy.run(lambda: w * 2))
    name = type(strategy).__name__.removesuffix("V1")
    display(placement.trace(step).draw(title=name, devices=["/CPU:0", *D[:2]]))

# %% [markdown]
# ### Exercise: `homes` (2 points)
# Build a model by `build()` in the strategy's scope. Return for each of its weights, trainable or not, the list of devices
# that have a copy. A layer may have been made before, outside the scope: look at each weight. Roughly 3 lines.


# %% answer="homes" covers=["S54", "S56", "S57", "S60"]
def homes(strategy, build):  # -> [[device of each copy], ...], one list a weight
    ### BEGIN SOLUTION
    with strategy.scope():
        weights = build().weights
    return [[copy.device for copy in strategy.experimental_local_results(weight.value)] for weight in weights]
    ### END SOLUTION


# %% tags=["folded"]
made_in = []  # the strategies in whose scope models were built


with tf.device(D[3]):  # a layer that was made before, outside of any scope
    (old := tf.keras.layers.Dense(1)).build((None, 2))


def tiny():
    made_in.append(tf.distribute.get_strategy())
    return tf.keras.Sequential([tf.keras.Input((2,)), old, tf.keras.layers.BatchNormalization()])


# %% check="homes" points=2
with attempt("homes"):
    central = tf.distribute.experimental.CentralStorageStrategy(D[:2], parameter_device="/CPU:0")
    made = {
        f"MirroredStrategy({D[1:4]})": (tf.distribute.MirroredStrategy(D[1:4]), D[1:4]),
        f'CentralStorageStrategy({D[:2]}, "/CPU:0")': (central, ["/CPU:0"]),
        f'OneDeviceStrategy("{D[2]}")': (tf.distribute.OneDeviceStrategy(D[2]), [D[2]]),
    }
    for name, (strategy, wanted) in made.items():
        made_in.clear()
        got = read(homes(strategy, tiny), "`homes` returned", expecting.list_of(expecting.list_of(expecting.text)))
        short = [sorted("/" + place.split("device:")[-1].lstrip("/").upper() for place in each) for each in got]
        print(f"{name}: {len(short)} weights, the last on", *short[-1])
        expect(len(short) == 6, f"`tiny()` has 6 weights, 2 of them not trainable; `homes` has {len(short)}")
        expect(short[:2] == [[D[3]]] * 2, f"{name}: `old` was made on {D[3]}; `homes` has its weights on {short[:2]}")
        wrong = [each for each in short[2:] if each != sorted(wanted)]
        expect(not wrong, f"{name}: a weight on {wrong[:1]}; where are its variables?")
        expect(made_in == [strategy], f"{name}: the model was not built in its scope")

# %% [markdown]
# ## The tables, by running them
# The guide's three tables are out of date. Ours is run: each cell trains a small model in a fresh
# process, and compares weights and loss with one device. Recorded:

# %% covers=["S55"]
strategies.recorded()

# %% [markdown]
# Keras 2 is the package `tf_keras`. `Mirrored` and `CentralStorage` had two replicas, `MultiWorkerMirrored` two
# workers, `ParameterServer` one: more would not equal one device. There was no TPU: its row says only that. Of the other five,
# Keras 3's `fit` is right here with `Mirrored` and `OneDevice` only. With the others, use Keras 2 or a loop of your own. Run one cell:

# %% tags=["show"] covers=["S55", "S57"]
strategies.cell("CentralStorage", "Keras fit")

# %% [markdown]
# No error, right weights, and a wrong loss. So compare a program with `OneDeviceStrategy`:

# %% tags=["show"] covers=["S60"]
alone = tf.distribute.OneDeviceStrategy(D[1])
given = alone.experimental_distribute_dataset(tf.data.Dataset.range(4).batch(2))
print("a batch without it:", next(iter(tf.data.Dataset.range(4).batch(2))).device)
print("with it:", *{batch.device for batch in given})
print("what it runs:", alone.run(lambda: tf.ones([]) + 1).device)

# %% [markdown]
# ### Exercise: `differs` (3 points)
# `program(strategy)` trains a fresh model and returns its weights, a list of arrays, and its loss. What differs from
# a strategy of one device, `device`? Return `[]`, `["weights"]`, `["loss"]` or `["weights", "loss"]`. A difference is more than `atol` in any one number, or a NaN. Roughly
# 6 lines.
#
# <details><summary>Hint</summary>
#
# `np.allclose(a, b, rtol=0, atol=atol)` is False where there is a NaN.
# </details>


# %% answer="differs" covers=["S55", "S60"]
def differs(program, strategy, device, atol):  # ..., the one device, 1e-4 -> what is not the same there
    ### BEGIN SOLUTION
    weights, loss = program(strategy)
    right_weights, right_loss = program(tf.distribute.OneDeviceStrategy(device))
    same = [np.allclose(a, b, rtol=0, atol=atol) for a, b in zip(weights, right_weights, strict=True)]
    found = [] if all(same) else ["weights"]
    return found if np.allclose(loss, right_loss, rtol=0, atol=atol) else [*found, "loss"]
    ### END SOLUTION


# %% [markdown]
# The check tries yours on `fit`. In its first program two replicas get 3 and 2 of the last 5 digits:


# %% covers=["S61", "S62"]
def linear(*between):
    layers = [tf.keras.Input((8, 8, 1)), tf.keras.layers.Flatten(), *between]
    return tf.keras.Sequential([*layers, tf.keras.layers.Dense(10, kernel_initializer="zeros")])


def fitted(strategy, count, batch, layers=(), **how):  # a strategy, digits, batch -> weights and loss after one epoch
    with strategy.scope():
        model = linear(*[layer() for layer in layers])
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(tf.keras.optimizers.SGD(0.1, **how), loss)
    data = tf.data.Dataset.from_tensor_slices(tuple(train.some(0, count))).batch(batch)
    history = model.fit(data, shuffle=False, verbose=0)
    return model.get_weights(), history.history["loss"][0]


# %% [markdown]
# From here on, replicas add on one device, by ops that a trace shows: see *Adding over replicas*.


# %% covers=["S56"]
def in_step(devices):
    return tf.distribute.MirroredStrategy(devices, cross_device_ops=tf.distribute.ReductionToOneDevice())


# %% check="differs" points=3
with attempt("differs"):
    kind = expecting.list_of(expecting.one_of(["weights", "loss"]))
    first, last, nan = np.full((1, 1000), 1000.0), np.ones(3), float("nan")
    right, broken = ([first, last], 1000.0), ([first, last * [1, 1, nan]], 1000.0)
    for what, there, alone, wanted, atol in (
        ("equal weights and losses", right, right, [], 1e-4),
        ("each of 1,000 is 0.00005 more", ([first + 5e-5, last], 1000.0), right, [], 1e-4),
        ("0.005 more in the last array", ([first, last * [1, 1.005, 1]], 1000.0), right, [], 0.01),
        ("0.005 less in the first array", ([first - 0.005 * np.eye(1, 1000), last], 1000.0), right, ["weights"], 1e-4),
        ("0.0002 more in one of 1,000", ([first + 2e-4 * np.eye(1, 1000), last], 1000.0), right, ["weights"], 1e-4),
        ("0.005 more in the last array", ([first, last * [1, 1.005, 1]], 1000.0), right, ["weights"], 1e-4),
        ("a weight that is NaN", broken, right, ["weights"], 1e-4),
        ("a weight that is NaN in both", broken, broken, ["weights"], 1e-4),
        ("a loss of 999.995 for 1000", ([first, last], 999.995), right, ["loss"], 1e-4),
        ("both are 0.005 less", ([first, last - 0.005], 999.995), right, ["loss", "weights"], 1e-4),
        ("a loss that is NaN", ([first, last], nan), right, ["loss"], 1e-4),
        ("a loss that is NaN on one device", right, ([first, last], nan), ["loss"], 1e-4),
    ):
        ran = []

        def program(strategy, ran=ran, there=there, alone=alone):
            ran.append(strategy)
            return there if strategy.num_replicas_in_sync > 1 else alone

        got = read(differs(program, in_step(D[:2]), D[1], atol), f"{what}: `differs` returned", kind)
        single = [s for s in ran if s is not tf.distribute.get_strategy() and s.num_replicas_in_sync == 1]
        places = [s.extended.worker_devices[0] for s in single]
        expect(bool(places), "no strategy of one device was given to the program")
        expect(places[0].endswith(D[1][1:]), f"with `device` {D[1]}, the program ran alone on {places}")
        expect(sorted(got) == wanted, f"{what}, atol {atol:g}: you found {got}")
    central = tf.distribute.experimental.CentralStorageStrategy(D[:2], parameter_device="/CPU:0")
    asked = {
        "2 replicas, 13 digits in batches of 8": (in_step(D[:2]), 13, ["weights"]),
        "CentralStorage, 16 digits in batches of 8": (central, 16, ["loss"]),
    }
    for name, (strategy, count, wanted) in asked.items():
        found = differs(lambda s, n=count: fitted(s, n, 8), strategy, D[0], 1e-4)
        got = read(found, f"{name}: `differs` returned", kind)
        print(f"{name}: {' and '.join(got) or 'no difference'}")
        expect(sorted(got) == sorted(wanted), f"{name}: you found {got}; do you compare both, with one device?")

# %% [markdown]
# Two results are wrong, without an error. The wrong loss is Keras's own. And the weights? First, four programs:

# %% tags=["show"] covers=["S61"]
normal = {"layers": [tf.keras.layers.BatchNormalization]}
try:
    for name, how in {
        "plain": {},
        "momentum": {"momentum": 0.9},
        "clipnorm": {"clipnorm": 0.1},
        "normal": normal,
    }.items():
        found = differs(lambda strategy, how=how: fitted(strategy, 64, 32, **how), in_step(D[:2]), D[0], 1e-4)
        print(f"{name}:", " and ".join(found) or "no difference")
except Exception as error:
    print("first make `differs` pass:", error)

# %% [markdown]
# Each replica clips its own part of the gradient, and normalizes by its own half of the batch.
# `BatchNormalization(synchronized=True)` takes the whole batch. Random layers, such as `Dropout`, differ, too.

# %% [markdown]
# ## Five and five
# The guide: a batch of 10 is divided evenly over two replicas, 5 and 5. And over four?


# %% tags=["show"] covers=["S62"]
def shares(replicas, count, size):  # -> of each batch how many examples each replica gets
    strategy, data = in_step([f"/CPU:{i}" for i in range(replicas)]), tf.data.Dataset.range(count).batch(size)
    batches = strategy.experimental_distribute_dataset(data)
    return [[len(part) for part in strategy.experimental_local_results(batch)] for batch in batches]


asked = {"20 examples in batches of 10, 2 replicas": (2, 20, 10), "4 replicas": (4, 20, 10)}
asked["13 in batches of 8, 2 replicas: the program above"] = (2, 13, 8)
parts.draw({name: fresh.run(shares, *each, cpus=4) for name, each in asked.items()}, title="Who gets which example")

# %% [markdown]
# Each replica takes 10 / 4 examples, rounded up, until none are left. One that gets none counts as zero. In `fit`:

# %% tags=["show"] covers=["S62"]
failed = fresh.call(lambda: fitted(in_step([f"/CPU:{i}" for i in range(4)]), 20, 10), cpus=4)
print(type(failed.error).__name__, str(failed.error).split("of type ")[-1].split("[Op")[0])

# %% [markdown]
# Before it trains or evaluates, Keras 3 takes the *mean of the replicas' images*, to learn their shape. `AddN` cannot
# add 3 images and 1.
#
# An uneven *last* batch gets past that: each replica takes the mean over its own examples, Keras the mean of those. So the 2 digits of one replica count as much as the other's 3.

# %% [markdown]
# ### Exercise: `even` (3 points)
# Repair both, the error and the weights. `data` is a dataset of single examples whose length is known. Return it in batches
# that all replicas share evenly: as large as possible, but `size` at most. The last one may be smaller. **Budget: lose fewer examples than there are replicas, only the last ones.** Keep the order. Roughly 3 lines.


# %% answer="even" covers=["S62"]
def even(data, size, strategy):  # examples and `size` are at least as many as replicas -> a Dataset of batches
    ### BEGIN SOLUTION
    n = strategy.num_replicas_in_sync
    return data.take(len(data) // n * n).batch(size // n * n)
    ### END SOLUTION


# %% check="even" points=3
with attempt("even"):
    drawn = {}
    for count, size, n in ((22, 10, 4), (21, 9, 3), (20, 8, 1), (15, 9, 4)):
        says = f"`even` of {count} examples, size {size}, {n} replicas:"
        made = even(tf.data.Dataset.range(count), size, in_step(D[:n]))
        text = f"{says} it returned a {type(made).__name__}; expected a tf.data.Dataset"
        expect(isinstance(made, tf.data.Dataset), text)
        seen = [batch.numpy().tolist() for batch in made]
        sizes, flat = [len(batch) for batch in seen], [each for batch in seen for each in batch]
        print(says, sizes)
        for each in sizes:
            expect(each % n == 0, f"{says} batches of {sizes}; {n} replicas cannot share {each} evenly")
        expect(len(set(flat)) == len(flat), f"{says} {len(flat)} examples of {count}: some came twice")
        before = min(flat, default=0)
        expect(flat == list(range(before, before + len(flat))), f"{says} the order is {flat}")
        expect(before == 0, f"{says} it loses the first {before}; lose only the last ones")
        expect(count - len(flat) < n, f"{says} {count - len(flat)} are lost")
        largest = size // n * n
        expect(max(sizes) <= size, f"{says} batches of {sizes}; {max(sizes)} is more than {size}")
        expect(all(each == largest for each in sizes[:-1]), f"{says} batches of {sizes}; {largest} is possible")
        drawn[f"{count} examples, size {size}, {n} replicas"] = [[each // n] * n for each in sizes]
    display(parts.draw(drawn, title="Your batches, dealt out"))
    shared = even(tf.data.Dataset.from_tensor_slices(tuple(train.some(0, 22))), 10, in_step(D))
    with in_step(D).scope():
        model = linear()
        model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    print(f"fit, 4 replicas: loss {model.fit(shared, shuffle=False, verbose=0).history['loss'][0]:.3f}")

# %% [markdown]
# ## The global batch
# A batch of `fit` is **global**: it is divided over the replicas. With more replicas, people keep the batch *per replica*. And the learning rate? The guide has a table, without a reason: `{5: 0.1, 10: 0.15}`.


# %% tags=["folded"]
def learned(batch, rate, epochs=3):  # the linear model, one device -> loss of the test digits after each epoch
    x, y = tf.reshape(train.images, [-1, 64]), tf.one_hot(train.labels, 10)
    w, losses = tf.Variable(tf.zeros([64, 10])), []

    @tf.function
    def epoch():
        for i in tf.range(0, 1500 - batch + 1, batch):
            at, to = x[i : i + batch], y[i : i + batch]
            w.assign_sub(rate / batch * tf.matmul(at, tf.nn.softmax(at @ w) - to, transpose_a=True))

    for _ in range(epochs):
        epoch()
        logits = tf.reshape(test.images, [-1, 64]) @ w
        losses.append(float(tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(test.labels, logits))))
    return losses


# %% tags=["show"] covers=["S63"]
tried = {"batch 8, rate 0.1": (8, 0.1), "batch 32, rate 0.1": (32, 0.1), "batch 32, rate 0.4": (32, 0.4)}
pictures.bars(
    {name: learned(*each)[-1] for name, each in tried.items()}, title="After three epochs", unit="loss of new digits"
)

# %% [markdown]
# Four times the batch is a quarter of the updates. With four times the rate it learns as much. This is the *linear
# scaling rule* (Goyal and others, 2017). For very large batches and rates it fails.

# %% [markdown]
# ## In the scope
# Building *and* compiling belong in the scope: the optimizer has variables, too. Here the model is compiled outside. Four steps of training:


# %% tags=["show"] covers=["S61"]
def half_outside(optimizer):
    with in_step([f"/CPU:{i}" for i in range(4)]).scope():
        model = linear()
    model.compile(optimizer, "mse")
    model.fit(train.images[:64], np.zeros((64, 10)), batch_size=16, verbose=0)
    return int(model.optimizer.iterations.value)


for optimizer in ("sgd", "adam"):
    tried = fresh.call(half_outside, optimizer, cpus=4)
    print(optimizer, f"{type(tried.error).__name__}: {str(tried.error)[:46]}" if tried.error else tried.result())

# %% [markdown]
# SGD has counted 16 steps in place of 4: a rate that falls by steps falls four times too fast. Adam has
# variables for each weight, and fails. Built and compiled outside, the model trains on one device. `fit` itself needs no scope.

# %% [markdown]
# ### Exercise: `program` (5 points)
# Write a whole Keras program, for any mirrored strategy. Build the model by `build()`; compile it with plain SGD and the loss `"mse"`.
# Train one epoch on `data`, then evaluate on `new`: datasets of pairs (x, y). Make the batches of both by `even`, with
# `per_replica` examples for each replica. `rate` is right for one replica alone; scale it. Return the weights, and
# the loss of `evaluate`. Roughly 7 lines.


# %% answer="program" covers=["S54", "S61", "S62", "S63"]
def program(strategy, build, data, new, per_replica, rate):  # -> weights, loss
    ### BEGIN SOLUTION
    n = strategy.num_replicas_in_sync
    with strategy.scope():
        model = build()
        model.compile(tf.keras.optimizers.SGD(rate * n), "mse")
    model.fit(even(data, per_replica * n, strategy), shuffle=False, verbose=0)
    loss = model.evaluate(even(new, per_replica * n, strategy), verbose=0)
    return model.get_weights(), loss
    ### END SOLUTION


# %% [markdown]
# Your program takes Keras's three styles:


# %% covers=["S61"]
class Subclassed(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = tf.keras.layers.Dense(1, kernel_initializer="ones")

    def call(self, x):
        return self.dense(x)


def functional():
    x = tf.keras.Input((2,))
    return tf.keras.Model(x, tf.keras.layers.Dense(1, kernel_initializer="ones")(x))


def sequential():
    return tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1, kernel_initializer="ones")])


# %% tags=["folded"]
points = np.float32([[1, 0], [0, 1], [2, 1], [1, 3], [0, 2], [1, 1], [3, 1]] * 4)


def pairs(count):  # the first `count` points; the target is 0
    return tf.data.Dataset.from_tensor_slices((points[:count], 0 * points[:count, :1]))


def by_numpy(count, size, rate):  # an epoch of descent, from ones to a target of 0 -> kernel and bias, in one
    w, x = np.array([1.0, 1, 0]), np.c_[points[:count], np.ones(count)]
    for batch in np.split(x, range(size, count, size)):
        w = w - rate * 2 * (batch @ w) @ batch / len(batch)
    return w


# %% check="program" points=5 answers=["program", "even"]
with attempt("program", after=["even"]):
    kind = expecting.row(expecting.list_of(expecting.array()), expecting.number)
    for n, build in ((3, sequential), (2, Subclassed)):
        strategy, built = in_step(D[:n]), []

        def kept(build=build, built=built):
            built.append(build())
            return built[-1]

        says = f"`program(strategy, {build.__name__}, data, new, 4, 0.01)`, {n} replicas:"
        weights, loss = read(program(strategy, kept, pairs(23), pairs(8), 4, 0.01), f"{says} it returned", kind)
        expect(len(built) == 1, f"{says} it built {len(built)} models")
        expect(built[0].distribute_strategy is strategy, f"{says} the model was not built in the scope")
        counter = strategy.experimental_local_results(built[0].optimizer.iterations.value)
        text = f"{says} the optimizer's variables have {len(counter)} copy; make it, and compile, in the scope"
        expect(len(counter) == n, text)
        expect(not built[0].optimizer.weight_decay, f"{says} the weights decay; expected plain SGD")
        wanted = by_numpy(23 // n * n, 4 * n, 0.01 * n)
        expect([each.shape for each in weights] == [(2, 1), (1,)], f"{says} the weights are not a kernel and a bias")
        got = np.concatenate([each.ravel() for each in weights])
        print(f"{build.__name__:10} weights {got.round(4)}, one device with {n} times the rate {wanted.round(4)}")
        expect(np.allclose(got, wanted, atol=1e-5), f"{says} the weights are {got.round(4)}; wanted {wanted.round(4)}")
        tested = 8 // n * n
        right = float(np.mean((np.c_[points[:tested], np.ones(tested)] @ wanted) ** 2))
        expect(abs(loss - right) < 1e-4, f"{says} the loss is {loss:.4f}; of {tested} new pairs it is {right:.4f}")

# %% [markdown]
# Prove it by your `differs`. What is *global* stays: 12 examples a batch, a rate of 0.12:


# %% tags=["show"] covers=["S54", "S60"]
def in_all(strategy):
    n = strategy.num_replicas_in_sync
    return program(strategy, functional, pairs(28), pairs(8), 12 // n, 0.12 / n)


# %% tags=["show"] covers=["S54", "S60"]
try:
    print("4 replicas against one device:", " and ".join(differs(in_all, in_step(D), D[0], 1e-4)) or "no difference")
except Exception as error:
    print("first make `differs`, `even` and `program` pass:", error)

# %% [markdown]
# *A good place to stop: your program trains on any mirrored strategy.*

# %% [markdown]
# ## Adding over replicas
# In each step every replica gets the sum of all gradients. `cross_device_ops=` chooses how. The
# guide says that NVIDIA's NCCL is the default. The ops for three gradients on four replicas:


# %% tags=["show"] covers=["S56"]
def adding():  # what a replica does
    gradients = [tf.ones([2, 3]), tf.ones([3]), tf.ones([])]
    return tf.distribute.get_replica_context().all_reduce("sum", gradients)


ways = {"default": None, "ReductionToOneDevice": tf.distribute.ReductionToOneDevice()}
ways["HierarchicalCopyAllReduce"] = tf.distribute.HierarchicalCopyAllReduce()
kinds = ("ConcatV2", "CollectiveReduceV2", "AddN", "SplitV")
for name, way in ways.items():
    strategy = tf.distribute.MirroredStrategy(D, cross_device_ops=way)
    graph = tf.function(strategy.run).get_concrete_function(adding).graph
    ops = graph.get_operations()
    counted = collections.Counter(op.type for op in ops)
    hints = {op.get_attr("communication_hint").decode() for op in ops if op.type == "CollectiveReduceV2"}
    print(name, {kind: counted[kind] for kind in kinds if counted[kind]}, *hints)

# %% [markdown]
# The second, on two replicas:

# %% tags=["show"] covers=["S56"]
both = in_step(D[:2])
each_alone = tf.function(lambda: both.run(adding))
placement.trace(each_alone).draw(title="ReductionToOneDevice: one AddN a gradient", devices=D[:2])

# %% [markdown]
# The default is a collective op. On GPUs it asks for NCCL; on CPUs alone, for the ring of chapter 10. It *packs*: each replica
# makes one tensor of three. `ReductionToOneDevice` adds each gradient on its own. Over a network a small message is mostly latency: there packing helps.

# %% [markdown]
# ### Exercise: `packed` (4 points)
# A replica calls `packed` with its gradients, float32 tensors of known shapes. Return their sums over all replicas, in the
# same order and shapes. **Budget: one `AddN` in the trace**, however many gradients; its result has no more numbers than one replica's
# gradients. Use only reshape, concat, split and slices around the sum. Roughly 5 lines.


# %% answer="packed" covers=["S56"]
def packed(gradients):  # [tensor, ...] of this replica -> [sum over the replicas, ...]
    ### BEGIN SOLUTION
    flat = tf.concat([tf.reshape(gradient, [-1]) for gradient in gradients], axis=0)
    total = tf.distribute.get_replica_context().all_reduce("sum", flat)
    parts = tf.split(total, [gradient.shape.num_elements() for gradient in gradients])
    return [tf.reshape(part, gradient.shape) for part, gradient in zip(parts, gradients, strict=True)]
    ### END SOLUTION


# %% check="packed" points=4
with attempt("packed"):
    for n, shapes in ((2, [(2, 2), (3,), ()]), (3, [(4,), (), (1, 2), (2, 3)])):
        added, times = [], [1, 10, 100][:n]

        def add(values, added=added):  # what `ReductionToOneDevice` adds by
            added.append(int(np.prod(values[0].shape)) if tf.executing_eagerly() else 0)
            return tf.add_n(values)

        ways = tf.distribute.ReductionToOneDevice(accumulation_fn=add)
        strategy = tf.distribute.MirroredStrategy(D[:n], cross_device_ops=ways)
        thirds = [np.arange(1, 1 + math.prod(shape), dtype="float32").reshape(shape) / 3 for shape in shapes]
        given = [
            strategy.experimental_distribute_values_from_function(
                lambda context, third=third, times=times: tf.constant(times[context.replica_id_in_sync_group] * third)
            )
            for third in thirds
        ]

        def replica(*gradients):
            return packed(list(gradients))

        step = tf.function(lambda *each, on=strategy, replica=replica: on.run(replica, args=each))
        found = step(*given)
        expect(isinstance(found, list | tuple), "expected a list of sums")
        expect(len(found) == len(shapes), f"{len(shapes)} gradients: expected as many sums; you have {len(found)}")
        for shape, third, sums in zip(shapes, thirds, found, strict=True):
            for own in strategy.experimental_local_results(sums):
                expect(tuple(own.shape) == shape, f"a gradient of shape {shape} came back as {tuple(own.shape)}")
                wanted = sum(times) * third
                one, right, got = (np.round(np.asarray(each, float), 2).tolist() for each in (third, wanted, own))
                text = f"{n} replicas have {one}, times {times}: you have {got}; their sum is {right}"
                expect(np.allclose(own, wanted), text)
        odd = set()
        for op in step.get_concrete_function(*given).graph.get_operations():
            if op.type in ("PyFunc", "EagerPyFunc", "Bitcast"):
                odd.add(op.type)
            odd.update(op.type for each in op.outputs if each.dtype.is_complex or each.dtype == tf.variant)
        expect(
            not odd, f"you build {', '.join(sorted(odd))}; use only reshape, concat, split and slices around the sum"
        )
        seen = placement.trace(step, *given)
        display(seen.draw(title=f"packed, {n} replicas", devices=D[:n]))
        count = sum(op.type == "AddN" for op in seen)
        expect(count == 1, f"{count} AddN ran; expected one, of all gradients packed")
        strategy.run(replica, args=given)  # step by step: now each shape is known
        most, least = max(added, default=0), sum(map(math.prod, shapes))
        expect(most <= least, f"AddN added {most} numbers; the gradients of a replica have {least}")

# %% [markdown]
# ## What do four devices gain?
# **Strong scaling** keeps the global batch, **weak scaling** the batch per replica. A
# step costs the examples of a replica, and the ring of chapter 10:


# %% covers=["S63"]
def model_seconds(
    n, examples, example=0.004, size=8e6, latency=0.002, rate=200e6
):  # of one replica; bytes, bytes a second
    return example * examples + 2 * (n - 1) * (latency + size / n / rate)


# %% [markdown]
# Your devices may share two cores, and have no network. So both costs are naps here.


# %% tags=["folded"]
def nap(seconds):
    time.sleep(float(seconds))
    return np.float32(0)


def napping(seconds, after):
    return tf.numpy_function(nap, [seconds + 0 * after], tf.float32, stateful=False)


def measured(n, examples, repeats=5):  # -> seconds of a step, `repeats` times
    strategy = in_step(D[:n])
    ring = model_seconds(n, 0)

    @tf.function
    def step(work, send):
        def replica(work, send):
            done = tf.ensure_shape(napping(work, tf.constant(0.0)), [])
            total = tf.distribute.get_replica_context().all_reduce("sum", done)
            return napping(send, total)

        return strategy.experimental_local_results(strategy.run(replica, args=(work, send)))

    found = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        [each.numpy() for each in step(tf.constant(model_seconds(1, examples)), tf.constant(ring))]
        found.append(time.perf_counter() - start)
    return found[1:]  # the first one traces


# %% [markdown]
# ### Exercise: `guesses` (1 point)
# With one replica, the global batch is 64. How many times as many examples a second do 2 and 4 replicas train, strong (64 in
# all) and weak (64 each)? Any four numbers
# from 0 to 100 earn the point.

# %% answer="guesses" covers=["S54", "S63"]
### BEGIN SOLUTION
guesses = {"strong, 2": 1.5, "strong, 4": 1.9, "weak, 2": 1.7, "weak, 4": 3.1}
#: guesses = {"strong, 2": None, "strong, 4": None, "weak, 2": None, "weak, 4": None}
### END SOLUTION


# %% tags=["folded"]
def scaling_picture(found):  # {(kind, n): [speed-up of each repeat]}
    figure, axes = pictures.plot(title="Speed-up over one replica", x="replicas", y="examples a second, times")
    words = []
    for colour, marker, kind in ((pictures.PALETTE[5], "o", "strong"), (pictures.ALERT, "s", "weak")):
        each = [64 / n if kind == "strong" else 64 for n in (1, 2, 4)]
        model = [n * e / 64 * model_seconds(1, 64) / model_seconds(n, e) for n, e in zip((1, 2, 4), each, strict=True)]
        axes.plot([1, 2, 4], model, "--", color=colour, label=f"{kind}: MODEL")
        for n in (2, 4):
            axes.plot([n] * len(found[kind, n]), found[kind, n], marker, color=colour, markerfacecolor="none")
            spread = f"{min(found[kind, n]):.2f} to {max(found[kind, n]):.2f}"
            words.append(f"{kind}, {n} replicas: model {model[n // 2]:.2f}, measured {spread}")
        axes.plot([], [], marker, color=colour, markerfacecolor="none", label=f"{kind}: each of 5 runs")
    axes.set_xticks([1, 2, 4])
    axes.legend(frameon=False, labelcolor=pictures.INK)
    return pictures.render(figure, f"Speed-up over one replica. {'; '.join(words)}.")


# %% check="guesses" points=1
with attempt("guesses", done="recorded before it was measured"):
    if isinstance(guesses, dict) and all(guess is None for guess in guesses.values()):
        raise NotAttempted("guesses: not attempted yet. Replace each None by a number.")
    names = ("strong, 2", "strong, 4", "weak, 2", "weak, 4")
    said = read(guesses, "`guesses` is", expecting.entries(dict.fromkeys(names, expecting.between(0, 100))))
    alone, found = float(np.median(measured(1, 64))), {}
    for name, guess in said.items():
        kind, n = name.split(", ")
        each = 64 / int(n) if kind == "strong" else 64
        found[kind, int(n)] = [int(n) * each / 64 * alone / seconds for seconds in measured(int(n), each)]
        it_is = float(np.median(found[kind, int(n)]))
        print(
            f"{name}: you said {guess:g}, it is {it_is:.2f}{'' if abs(guess - it_is) < 0.15 * it_is else '  <- a surprise'}"
        )
    display(scaling_picture(found))

# %% [markdown]
# <details><summary>What was measured</summary>
#
# Strong scaling gains less and less: a replica's share shrinks, the ring does not. Weak scaling gains more, and pays with a larger batch.
# </details>

# %% [markdown]
# ## Then and now
# In TensorFlow 1, a mirrored variable is two variables of one graph:

# %% tags=["show"] covers=["S56"]
v1 = tf.compat.v1
with tf.Graph().as_default() as graph, in_step(D[:2]).scope():
    v1.get_variable("w", initializer=1.0)
    print([op.name for op in graph.get_operations() if op.type == "VarHandleOp"])

# %% [markdown]
# Three things of the guide do not run in today's API:

# %% tags=["show"] covers=["S54", "S55"]
gone = {
    "ParameterServerStrategy()": tf.distribute.experimental.ParameterServerStrategy,
    # the guide prints "make_experimental_numpy_dataset"; the strategies of tf.compat.v1 still have it
    "experimental_make_numpy_dataset": lambda: tf.distribute.get_strategy().experimental_make_numpy_dataset,
    "tf.estimator": lambda: tf.estimator,
}
for name, try_it in gone.items():
    try:
        try_it()
    except (TypeError, AttributeError) as error:
        print(f"{name}: {error}")

# %% [markdown]
# ## Explain it to a colleague
# She has four GPUs, and 1,003 examples. Her program built and compiled its model outside the scope. Repaired, batches of 10 raised an error in `AddN`. With 32 it ran, but the weights were not those of one GPU.

# %% [markdown]
# ### Exercise: `explain` (3 points, read by a person)
# In four to six sentences: what belongs in the scope, and why? Why does 10 fail, and why does 32 change the weights? What
# would you do about batch and learning rate, and how would you test it?

# %% [markdown] answer="explain" points=3 covers=["S54", "S61", "S62", "S63"]
# ### BEGIN SOLUTION
# The model must be built, and compiled, in the scope: only there do its variables become mirrored, one copy for each GPU;
# `fit` finds the strategy by the model. A batch of 10 over 4 replicas is 3, 3, 3 and 1, and Keras 3 averages the first batch
# over the replicas to learn shapes, which cannot be added. 1,003 in batches of 32 leave a last one of 11: 3, 3, 3 and 2.
# Each replica takes the mean of its own examples, and the mean of these means weighs the 2 examples like 3. So batches
# should be multiples of 4, the last one, too: 3 examples are left out. If each GPU keeps its batch, the global one is four
# times as large, and the rate may be scaled with it. Then weights and loss are compared with OneDeviceStrategy after a few
# steps of SGD.
#
# **Rubric.** One point for each, half a point where the reason is missing.
#
# - *Scope* (1): building and compiling in the scope, because variables become mirrored there. Earns: "A variable made
#   outside has no copy on the other GPUs." Does not: "Put everything in the scope."
# - *10 and 32* (1): 3, 3, 3, 1 cannot be added; the last batch of 11 is uneven, and means of means weigh examples unequally.
#   Earns: "The last 2 count as much as 3." Does not: "Rounding."
# - *Batch, rate, test* (1): multiples of the replicas, global batch and rate scaled together, comparison of weights *and*
#   loss with one device. Earns: "even batches, then OneDeviceStrategy". Does not: "Look whether it runs."
# ### END SOLUTION

# %% [markdown]
# ## Recipe
# ```python
# strategy = tf.distribute.MirroredStrategy()
# n = strategy.num_replicas_in_sync
# with strategy.scope():
#     model = build()
#     model.compile(tf.keras.optimizers.SGD(rate * n), loss)
# model.fit(data.take(len(data) // n * n).batch(per_replica * n))
# model.predict(images)                                # in order
# # test: an epoch, last batch too; weights and loss
# # against tf.distribute.OneDeviceStrategy("/gpu:0");
# # the same global batch and rate; before each build
# # tf.keras.utils.set_random_seed(0); no clipping,
# # Dropout or noise; BatchNormalization only with
# # synchronized=True
# ```

# %% [markdown]
# ## Optional: who sits where on a TPU
# **Nothing here ran on a TPU**. What runs is its plan. A
# TPU's chips are a mesh. A core's place is (x, y, z) of its chip, and its number in the chip. A `Topology` has the place of each
# task's devices. A `DeviceAssignment` gives each replica its cores.

# %% tags=["show"] covers=["S69"]
places = [[[x, y, 0, core] for y in range(2) for x in range(2) for core in range(2)]]  # one task, eight devices
topology = tf.tpu.experimental.Topology(mesh_shape=[2, 2, 1, 2], device_coordinates=places)
plan = tf.tpu.experimental.DeviceAssignment.build(topology, computation_shape=[1, 1, 1, 2], num_replicas=4)
for replica in range(4):
    print(replica, *map(int, plan.coordinates(replica, 0)[:2]), [plan.tpu_device(replica, core) for core in range(2)])

# %% [markdown]
# These replicas go round a ring, one link to the next. But two devices at one place are accepted:

# %% tags=["show"] covers=["S69"]
slip = tf.tpu.experimental.Topology(mesh_shape=[2, 2, 1, 2], device_coordinates=[[[0, 0, 0, 0]] * 8])
print(tf.tpu.experimental.DeviceAssignment.build(slip, computation_shape=[1, 1, 1, 2], num_replicas=1).tpu_device(0))

# %% [markdown]
# ### Exercise: `assigned` (1 point)
# Return for each replica the list of its devices, as `DeviceAssignment.build` plans them. A replica takes `cores` cores of one
# chip; `cores` divides their number. There are as many replicas as fit on the mesh. Raise `ValueError` if two devices have one place, or a place of the mesh has no device. Roughly 7 lines.


# %% answer="assigned" covers=["S69"]
def assigned(mesh, places, cores):  # [2, 2, 1, 2], a list of places for each task, 2 -> [[device, ...], ...]
    ### BEGIN SOLUTION
    taken = [tuple(place) for task in places for place in task]
    if len(set(taken)) != len(taken) or len(taken) != math.prod(mesh):
        raise ValueError("each place of the mesh needs one device")
    topology = tf.tpu.experimental.Topology(mesh_shape=mesh, device_coordinates=places)
    count = len(taken) // cores
    plan = tf.tpu.experimental.DeviceAssignment.build(topology, computation_shape=[1, 1, 1, cores], num_replicas=count)
    return [[plan.tpu_device(replica, core) for core in range(cores)] for replica in range(count)]
    ### END SOLUTION


# %% check="assigned" points=1
with attempt("assigned"):
    rows = expecting.list_of(expecting.list_of(expecting.text))
    two = [[[x, y, 0, core] for y in range(2) for core in range(2)] for x in range(2)]  # two tasks, four devices each
    got = call(assigned, [2, 2, 1, 2], two, 2, returns=rows)
    print(*got, sep="\n")
    expect(len(got) == 4 and all(len(each) == 2 for each in got), f"{len(got)} replicas; 4 of 2 cores fit")
    chips = {f"/task:{t}/device:TPU:{i}": each[i][:3] for t, each in enumerate(two) for i in range(4)}
    flat = sorted(device for each in got for device in each)
    expect(flat == sorted(chips), f"the replicas have {flat}; expected each device once")
    apart = [each for each in got if chips[each[0]] != chips[each[1]]]
    expect(not apart, f"{apart[:1]}: two cores of two chips")
    tasks = [each[0][:7] for each in got]
    expect(tasks == ["/task:0", "/task:1", "/task:1", "/task:0"], f"round the ring the replicas are on {tasks}")
    eight = call(assigned, [2, 2, 1, 2], two, 1, returns=rows)
    expect(len(eight) == 8, f"with 1 core each, 8 replicas fit; you have {len(eight)}")
    for name, wrong in {
        "eight devices at one place": [[[0, 0, 0, 0]] * 8],
        "two devices with one place": [two[0], two[1][:3] + two[0][:1]],
        "two places without a device": [each[:3] for each in two],
        "ten devices for eight places": [each + each[:1] for each in two],
    }.items():
        try:
            assigned([2, 2, 1, 2], wrong, 2)
        except ValueError:
            continue
        expect(False, f"{name}: expected a ValueError")
