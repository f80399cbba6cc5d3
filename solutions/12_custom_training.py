# ---
# jupyter:
#   across:
#     devices: 4
#     limits: {cell_seconds: 60, notebook_seconds: 180, question_seconds: 45}
#     allowed_ops: [CheckNumerics, IteratorGetNext, IteratorGetNextAsOptional,
#       OptionalFromValue, OptionalGetValue, OptionalHasValue, OptionalNone, ConcatOffset]
#     rows: S64-S66
#     # house: median_cell: what the loop is compared with, five ways and a GAN, are whole programs
#     # house: lines: what an empty replica does to BatchNormalization is measured, and each idea is drawn
# ---

# %% [markdown]
# # Your own training loop
# **How do I write the loop myself and get the same numbers?**
#
# ![Ten made digits in three rows: noise at step 0, blurred strokes at step 50, clear ones at step
# 400.](pictures/12_custom_training.png)
#
# You write the training loop yourself when the order of its steps is your own, as for two networks that compete. In about
# 150 minutes, and 25 for an optional section, you write one for any number of replicas, scale its loss, stop it and go on.

# %% tags=["folded"]
from across import devices, digits, expecting, parts, pictures, placement
from across.attempt import NotAttempted, attempt, expect, read

# %%
D = devices.gpus_or_cpus(4)

# %%
import itertools
import os
import shutil
import tempfile

import numpy as np
import tensorflow as tf

train, test = digits.load()
tf.get_logger().setLevel("ERROR")  # no advice on tracing: we make many small graphs

# %% [markdown]
# `mirrored(n)` gives a strategy with n replicas (chapter 11):


# %% covers=["S64"]
def mirrored(n):  # the gradients are added on one device
    return tf.distribute.MirroredStrategy(D[:n], tf.distribute.ReductionToOneDevice())


pair = mirrored(2)


# %% [markdown]
# One small network. Its optimizer is *built* at once: then its own variables, the momentum, exist as well. In
# a mirrored strategy's `scope()`, each variable gets a copy for each replica:


# %% covers=["S64"]
def build(seed=1):  # -> a model, its optimizer
    tf.keras.utils.set_random_seed(seed)
    layers = [tf.keras.Input((8, 8, 1)), tf.keras.layers.Flatten()]
    layers += [tf.keras.layers.Dense(32, activation="tanh"), tf.keras.layers.Dense(10)]
    model = tf.keras.Sequential(layers)
    optimizer = tf.keras.optimizers.SGD(0.1, momentum=0.9)
    optimizer.build(model.trainable_variables)
    return model, optimizer


# %% tags=["show"] covers=["S64"]
with pair.scope():
    model, _ = build()
for each in pair.experimental_local_results(model.weights[-1].value):
    print(each.device[-5:], each.shape, "one copy of the last bias")

# %% [markdown]
# ## Deal out the data
# `experimental_distribute_dataset` cuts each batch into a part for each replica. `experimental_local_results` lists the
# parts:

# %% tags=["show"] covers=["S64", "S66"]
nine = tf.data.Dataset.range(9).batch(8)
dealt = [pair.experimental_local_results(batch) for batch in pair.experimental_distribute_dataset(nine)]
parts.draw({"0 to 8, in batches of 8": [[len(part) for part in batch] for batch in dealt]}, title="Who gets which")

# %% [markdown]
# You batch by 8, and each replica gets 4: `batch` sets the *global* batch size. In the last step, the second replica has
# an empty tensor.

# %% [markdown]
# ### Exercise: `shares` (2 points)
# How many examples does each replica get? The dataset holds batches of (images, labels). Return a list for each batch. Roughly
# 4 lines.


# %% answer="shares" covers=["S64", "S66"]
def shares(strategy, dataset):  # -> [[4, 4], [1, 0]]: a list for each batch
    ### BEGIN SOLUTION
    found = []
    for _, labels in strategy.experimental_distribute_dataset(dataset):
        found.append([len(part) for part in strategy.experimental_local_results(labels)])
    return found
    ### END SOLUTION


# %%
def some(count, size):  # the first digits, in batches
    return tf.data.Dataset.from_tensor_slices(tuple(train.some(0, count))).batch(size)


# %% check="shares" points=2
with attempt("shares"):
    whole_lists = expecting.list_of(expecting.list_of(expecting.whole))
    asked = (
        (2, 9, 8, [[4, 4], [1, 0]]),
        (1, 7, 5, [[5], [2]]),
        (4, 9, 9, [[3, 3, 3, 0]]),
        (4, 18, 12, [[3, 3, 3, 3], [2, 2, 2, 0]]),
    )
    for n, many, size, wanted in asked:
        got = read(shares(mirrored(n), some(many, size)), f"{many} digits in batches of {size}:", whole_lists)
        says = f"{many} digits in batches of {size}, replicas: {n}; you say {got}"
        expect(len(got) == len(wanted), f"{says}; there are {len(wanted)} batches")
        expect(all(len(each) == n for each in got), f"{says}; expected a number for each replica")
        expect(got == wanted, f"{says}; count the examples of each part")
    drawn = {f"{many} in batches of {size}, replicas: {n}": wanted for n, many, size, wanted in asked}
    display(parts.draw(drawn, title="As you say, and as TensorFlow deals"))

# %% [markdown]
# ## Run in each replica, reduce to one
# `run` calls a function once in each replica, with its part. `reduce` makes one tensor of the results. Here one replica has
# the numbers 0, 1, 2, the other 3 and 4. (`axis=None` reduces over replicas only.) What is the mean of all five?


# %% tags=["show"] covers=["S64"]
def numbers(context):
    replica = context.replica_id_in_sync_group
    with tf.device(D[replica]):
        return tf.constant([[0.0, 1.0, 2.0], [3.0, 4.0]][replica])


five = pair.experimental_distribute_values_from_function(numbers)
means = pair.run(tf.reduce_mean, args=(five,))
each = pair.experimental_local_results(means)
print("in the replicas:", *[mean.numpy() for mean in each])
print("reduced:", pair.reduce("MEAN", means, axis=None).numpy())

# %% [markdown]
# The mean of 0 to 4 is 2. The mean of the means is not: one replica has three numbers, the other two. So add the parts'
# *sums*, and divide by the count *in all*. The program for the sum; a `Const` holds a replica's numbers:


# %% tags=["show"] covers=["S64"]
@tf.function
def total(batch):
    return pair.reduce("SUM", pair.run(tf.reduce_sum, args=(batch,)), axis=None)


seen = placement.trace(total, five)
seen.draw(title="`run`: a Sum in each replica. `reduce`: one AddN", devices=["/CPU:0", *D[:2]])

# %% [markdown]
# Inside a replica, `optimizer.apply` **adds** the gradients of all replicas. Then all replicas
# make the same update. So a replica's loss is the sum over *its* examples, divided by the examples of *all*.

# %% [markdown]
# ### Exercise: `in_replica` (3 points)
# The part of a training step that runs in each replica. Compute that loss from the cross-entropy of each example, then its
# gradients, and apply them. Return the loss, a tensor with one number, of an empty part, too. `examples`, a float32 tensor, says
# how many all replicas have together. Roughly 6 lines.
#
# <details><summary>Hint</summary>
#
# `tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)` gives one number for each example. The model returns
# logits. `optimizer.apply(gradients, variables)` wants two lists.
# </details>


# %% answer="in_replica" covers=["S64", "S65"]
def in_replica(model, optimizer, images, labels, examples):  # -> this replica's loss
    ### BEGIN SOLUTION
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(images))
        loss = tf.reduce_sum(losses) / examples
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply(gradients, model.trainable_variables)
    return loss
    ### END SOLUTION


# %%
def flat(model):  # all weights in one vector
    return np.concatenate([each.ravel() for each in model.get_weights()])


def first_step(n, count, examples):  # -> losses, weights before, after
    strategy = mirrored(n)
    with strategy.scope():
        model, _ = build()
        optimizer = tf.keras.optimizers.SGD(0.1)
        optimizer.build(model.trainable_variables)
    before = flat(model)
    (batch,) = strategy.experimental_distribute_dataset(some(count, count))

    def inside(images, labels):
        return in_replica(model, optimizer, images, labels, examples(labels))

    parts = tf.function(lambda batch: strategy.run(inside, args=batch))(batch)
    one = all(tf.is_tensor(each) and each.shape == () for each in strategy.experimental_local_results(parts))
    says = f"digits: {count}, replicas: {n}; `in_replica` did not return a tensor with one number"
    expect(one, f"{says}{' for a part without digits' if n > count else ''}")
    losses = [float(each) for each in strategy.experimental_local_results(parts)]
    return losses, before, flat(model)


# %% check="in_replica" points=3 answers=["in_replica"]
with attempt("in_replica"):
    for many in (5, 3, 1):
        chances = tf.nn.softmax(build()[0](train.images[:many])).numpy()
        wanted = -np.log(chances[range(many), train.labels[:many]]).mean()
        move = -0.1 * (chances - np.eye(10)[train.labels[:many]]).mean(axis=0)  # of the last bias
        for n in (1, 2):
            losses, before, after = first_step(n, many, lambda labels, many=many: tf.constant(float(many)))
            says = f"digits: {many}, replicas: {n};"
            print(says, "losses", *np.round(losses, 3), "add up to", round(sum(losses), 3))
            expect(not np.array_equal(after, before), f"{says} no weight has changed")
            times = float(np.linalg.norm(after[-10:] - before[-10:]) / np.linalg.norm(move))
            right = np.allclose(after[-10:] - before[-10:], move, atol=1e-5)
            expect(right, f"{says} the last bias moves {times:.2f} times as far as expected, or in another direction")
            right = np.isclose(sum(losses), wanted, rtol=1e-4)
            expect(right, f"{says} the losses add up to {sum(losses):.3f}; the mean over all digits is {wanted:.3f}")

# %% [markdown]
# ### Exercise: `guesses` (1 point)
# Four replicas train on 8 digits, 2 each. By mistake, each gets another number as `examples`. How many times as far as it
# should does SGD's first step go,
#
# - if each gets its own 2? If each gets 1? If each gets 8 × 4?
# - And four replicas train on *one* digit, each with its own number: what percentage of the weights is not NaN?
#
# A complete guess earns the point.

# %% answer="guesses" covers=["S65"]
### BEGIN SOLUTION
guesses = {"its own": 4, "1": 8, "8 x replicas": 0.25, "its own, one digit": 100}
#: guesses = {"its own": None, "1": None, "8 x replicas": None, "its own, one digit": None}
### END SOLUTION

# %% check="guesses" points=1 answers=["guesses", "in_replica"]
with attempt("guesses", after=["in_replica"], done="recorded before it was measured"):
    if all(guess is None for guess in guesses.values()):
        raise NotAttempted("guesses: not attempted yet. Replace each None by a number.")
    names = ("its own", "1", "8 x replicas", "its own, one digit")
    said = read(guesses, "`guesses` is", expecting.entries(dict.fromkeys(names, expecting.number)))
    given = {
        "right": lambda labels: tf.constant(8.0),
        "its own": lambda labels: tf.cast(tf.shape(labels)[0], tf.float32),
        "1": lambda labels: tf.constant(1.0),
        "8 x replicas": lambda labels: tf.constant(32.0),
    }
    far = {name: np.linalg.norm(np.subtract(*first_step(4, 8, rule)[:0:-1])) for name, rule in given.items()}
    truly = {name: float(each / far["right"]) for name, each in far.items() if name != "right"}
    display(pictures.bars(truly, title="Too far, or not far enough: SGD's first step on 4 replicas", unit="times"))
    losses, _, after = first_step(4, 1, given["its own"])
    truly["its own, one digit"] = 100 * float(np.mean(np.isfinite(after)))
    print("four replicas, one digit, each with its own number: losses", *np.round(losses, 3))
    for name, guess in said.items():
        near = abs(guess - truly[name]) <= 0.25 * abs(truly[name])
        print(f"{name:20} you said {guess:g}, it is {truly[name]:.3g}{'' if near else '  <- a surprise'}")

# %% [markdown]
# <details><summary>What was measured</summary>
#
# If all have as many examples, own means make the step as many times too long as there are replicas. And a replica without
# examples divides 0 by 0: its *loss* is NaN. Its gradient is not: it is a sum over no examples.
# </details>

# %% [markdown]
# The loss of a weight's regularizer, in `model.losses`, is the same in each replica: divide it by the number of replicas. And a
# layer may take a *mean* over its part. The right divisor, 9 digits in batches of 8, and `BatchNormalization`:

# %% tags=["show"] covers=["S64", "S65"]
with pair.scope():
    layers = [tf.keras.Input((8, 8, 1)), tf.keras.layers.Flatten(), tf.keras.layers.BatchNormalization()]
    normal = tf.keras.Sequential([*layers, tf.keras.layers.Dense(10)])
    plain = tf.keras.optimizers.SGD(0.1)
    plain.build(normal.trainable_variables)


def normalized(images, labels, examples):
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, normal(images, training=True))
        loss = tf.reduce_sum(losses) / examples
    plain.apply(tape.gradient(loss, normal.trainable_variables), normal.trainable_variables)
    return loss


# %% tags=["show"] covers=["S64", "S65"]
for (images, labels), examples in zip(pair.experimental_distribute_dataset(some(9, 8)), (8.0, 1.0), strict=True):
    losses = pair.experimental_local_results(pair.run(normalized, args=(images, labels, examples)))
    print("losses", *[f"{loss:.2f}" for loss in losses])
    for w in normal.weights:
        finite = [bool(np.isfinite(copy).all()) for copy in pair.experimental_local_results(w.value)]
        print(f"  {w.name:16} finite in the replicas: {finite}")
print("finite predictions:", f"{np.isfinite(normal(test.images)).mean():.0%}")

# %% [markdown]
# No loss says so, and the model is lost: `gamma` is trained, so its NaN was added in all replicas. Deal evenly (chapter 11,
# `even`), or leave out a batch with an empty part.
#
# One thing no divisor repairs. Below, gradients of 6 in all are clipped at 1:


# %% tags=["show"] covers=["S65"]
def clipped(n):
    strategy = mirrored(n)
    with strategy.scope():
        v, optimizer = tf.Variable(0.0), tf.keras.optimizers.SGD(1.0, clipvalue=1.0)
        optimizer.build([v])
    strategy.run(lambda: optimizer.apply([tf.constant(6.0 / n)], [v]))
    return float(v.numpy())


far = {f"{n} replica{'s' * (n > 1)}": abs(clipped(n)) for n in (1, 2, 4)}
pictures.bars(far, title="Gradients of 6 in all, clipped at 1", unit="moved by")

# %% [markdown]
# Each replica clips its own part, *before* the sum.

# %% [markdown]
# ### Exercise: `step` (3 points)
# One training step, for any strategy: call `in_replica` in each replica, and return the mean loss of the batch. A batch of a
# distributed dataset may be small: count its examples. It must work in a `tf.function`. Roughly 5 lines.
#
# <details><summary>Hint</summary>
#
# In a `tf.function` the number of examples is known only when it runs: `tf.shape(labels)[0]`, in each replica. One way: two of
# `run`, two of `reduce`.
# </details>


# %% answer="step" covers=["S64", "S65"]
def step(strategy, model, optimizer, batch):  # images, labels -> the mean loss
    ### BEGIN SOLUTION
    images, labels = batch
    counts = strategy.run(lambda part: tf.cast(tf.shape(part)[0], tf.float32), args=(labels,))
    examples = strategy.reduce("SUM", counts, axis=None)
    losses = strategy.run(in_replica, args=(model, optimizer, images, labels, examples))
    return strategy.reduce("SUM", losses, axis=None)
    ### END SOLUTION


# %%
def epoch(strategy, count=445, size=100):  # one pass in your loop -> losses, weights
    with strategy.scope():
        model, optimizer = build()
    traced = tf.function(lambda batch: step(strategy, model, optimizer, batch))
    batches = strategy.experimental_distribute_dataset(some(count, size))
    losses = [float(traced(batch)) for batch in batches]
    return losses, model.get_weights()


# %%
def for_keras():  # the same model, to be trained by Keras on one device
    model, optimizer = build()
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, jit_compile=False)
    return model


# %%
def apart(one, other):  # the largest difference of two lists of weights
    return max(float(np.abs(a - b).max()) for a, b in zip(one, other, strict=True))


# %% check="step" points=3 answers=["step", "in_replica"]
with attempt("step", after=["in_replica"]):
    alone = for_keras()
    wanted = [float(alone.train_on_batch(*batch)) for batch in some(445, 100)]
    for n in (1, 2):
        losses, weights = epoch(mirrored(n))
        print(f"replicas: {n}; losses", *np.round(losses, 3))
        for number, (loss, right) in enumerate(zip(losses, wanted, strict=True)):
            sentence = f"replicas: {n}, step {number}; your loss is {loss:.4f}; Keras on one device says {right:.4f}"
            expect(np.isclose(loss, right, atol=1e-4), sentence)
        far = apart(weights, alone.get_weights())
        expect(far < 1e-5, f"replicas: {n}; a weight differs by {far:.1g} from Keras's on one device")

# %% [markdown]
# *A good place to stop: your step trains on several replicas.*

# %% [markdown]
# ## Five ways, the same numbers
# Your step knows nothing of its strategy. Here it runs on others. `towers` is chapter 10 in short.


# %% tags=["show", "folded"] covers=["S64", "S65"]
def towers(count=445, size=100):
    model, optimizer = build()
    for images, labels in some(count, size):
        halves = [slice(None, len(labels) // 2), slice(len(labels) // 2, None)]
        found = []
        for half, device in zip(halves, D, strict=False):
            with tf.device(device), tf.GradientTape() as tape:
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels[half], model(images[half]))
                loss = tf.reduce_sum(losses) / len(labels)
            found.append(tape.gradient(loss, model.trainable_variables))
        optimizer.apply([tf.add_n(each) for each in zip(*found, strict=True)], model.trainable_variables)
    return model.get_weights()


# %% tags=["folded"]
def how_far(found):  # {way: largest difference from `fit`}
    figure, axes = pictures.plot(
        7.0, 2.4, title="Four ways against `fit`", x="a weight differs by, at most (0: as 1e-9)", y=""
    )
    axes.plot([max(each, 1e-9) for each in found.values()], list(found), "o", color=pictures.PALETTE[0])
    axes.axvline(1e-5, color=pictures.ALERT, linestyle="--")
    axes.annotate(" what we allow", (1e-5, 0), color=pictures.INK, fontsize=pictures.FONT)
    axes.set_xscale("log")
    return pictures.render(figure, f"Largest difference of a weight from `fit`: {found}; 1e-05 is allowed.")


# %% tags=["show"] covers=["S64", "S65"]
try:
    central = tf.distribute.experimental.CentralStorageStrategy(D[:2], parameter_device="/CPU:0")
    one = tf.distribute.OneDeviceStrategy(D[1])
    ways = {"4 replicas": mirrored(4), "one device": one, "central": central}
    found = {name: epoch(each)[1] for name, each in ways.items()} | {"towers": towers()}
    alone = for_keras()
    alone.fit(some(445, 100), shuffle=False, verbose=0)
    display(how_far({name: apart(weights, alone.get_weights()) for name, weights in found.items()}))
except NotImplementedError:
    print("write `in_replica` and `step` first")

# %% [markdown]
# Equal up to rounding: float32 keeps about 7 digits, and who splits a batch adds in another order. Test with SGD: Adam divides
# by the gradients' size, and so nearly hides a constant wrong divisor.

# %% [markdown]
# ## Then: a loss of 0.0
# TensorFlow's guide to `tf.distribute` of 2019 shows such a loop. It trains a model with one output, and prints a loss of 0.0
# at every step:


# %% tags=["show"] covers=["S64"]
def then(strategy, model, optimizer, batch):
    def in_each(x, y):
        with tf.GradientTape() as tape:
            losses = tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=model(x))
            loss = tf.reduce_sum(losses) / 4
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        return losses

    return strategy.reduce("MEAN", strategy.run(in_each, args=batch), axis=0)


# %% tags=["show"] covers=["S64"]
with pair.scope():
    tiny = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
    plain = tf.keras.optimizers.SGD(0.1)
    plain.build(tiny.trainable_variables)
before = tiny.get_weights()
ones = tf.data.Dataset.from_tensors(([1.0], [1.0])).repeat(16).batch(4)
batches = pair.experimental_distribute_dataset(ones)
print(*[then(pair, tiny, plain, batch).numpy() for batch in batches])
print("the weights moved by", apart(before, tiny.get_weights()))

# %% [markdown]
# ### What changed
# The guide makes a dataset of NumPy arrays by a method of the strategy. It says that loops like ours run on
# `MirroredStrategy` and `TPUStrategy` only; the table below that sentence adds `OneDeviceStrategy`:

# %% tags=["show"] covers=["S66"]
for name in ("make_experimental_numpy_dataset", "experimental_make_numpy_dataset"):
    print(f"{name}:", "there" if hasattr(pair, name) else "not there")

# %% [markdown]
# TensorFlow 2's strategies have lost the method: `tf.data.Dataset.from_tensor_slices` takes arrays. And above,
# `OneDeviceStrategy` and `CentralStorageStrategy` ran our step.

# %% [markdown]
# ## Three ways to iterate
# A `for` ends with the data. With `next(iterator)` you count the steps yourself; at the end it raises an error. The third form
# is for loops that are part of a graph, where nobody catches errors: `iterator.get_next_as_optional()` gives an *optional*, a
# value that may be absent. `has_value()` tells.

# %% tags=["show"] covers=["S66"]
spread = pair.experimental_distribute_dataset(nine)
print("for:", sum(1 for _ in spread), "batches")
iterator = iter(spread)
first = next(iterator)
for _ in range(2):
    optional = iterator.get_next_as_optional()
    print("optional:", optional.has_value().numpy(), "- has a value")

# %% [markdown]
# ### Exercise: `up_to` (3 points)
# Make `most` steps, or fewer if the data ends; `step_of(batch)` returns a loss. Return how many, and the sum of the losses.
# **It is called in a `tf.function`; `most` is a tensor. The loop is part of the graph: Python calls `step_of` once.**
# Roughly 8 lines.
#
# <details><summary>Hint</summary>
#
# `for _ in tf.range(most):` and `if optional.has_value():` become parts of the graph. Before the loop, give the sum its type:
# `tf.constant(0.0)`.
# </details>


# %% answer="up_to" covers=["S66"]
def up_to(most, iterator, step_of):  # -> how many steps, the sum of losses
    ### BEGIN SOLUTION
    done, total = tf.constant(0), tf.constant(0.0)
    for _ in tf.range(most):
        optional = iterator.get_next_as_optional()
        if optional.has_value():
            total += step_of(optional.get_value())
            done += 1
    return done, total
    ### END SOLUTION


# %% check="up_to" points=3
with attempt("up_to"):
    calls = []

    def added(batch):
        calls.append(1)
        return tf.cast(pair.reduce("SUM", batch, axis=0), tf.float32)

    iterator = iter(pair.experimental_distribute_dataset(tf.data.Dataset.range(9).batch(2)))
    left, traced = 5, tf.function(lambda most, it: up_to(most, it, added))
    for most, wanted in ((2, (2, 6.0)), (5, (3, 30.0)), (4, (0, 0.0))):
        got = traced(tf.constant(most), iterator)
        two = isinstance(got, tuple | list) and len(got) == 2
        expect(two, f"`up_to` returned {got}; expected a pair: how many steps, and the sum")
        steps, total = (float(each) for each in got)
        says = f"0 to 8 in batches of 2; `up_to({most}, ...)` returned {steps:g} and {total:g}"
        expect(len(calls) <= 1, f"{says}; Python called `step_of` {len(calls)} times: expected it in the graph, once")
        expect((steps, total) == wanted, f"{says}; expected steps and their sum; batches left: {left}")
        left -= int(steps)
        print(says)

# %% [markdown]
# ## Metrics
# `Mean` counts in two variables, a sum and a count. Here it takes the numbers 0 to 8, in batches of 8. Their mean is 4:


# %% tags=["show"] covers=["S64"]
def update(strategy, mean, batch):
    strategy.run(lambda part: mean.update_state(tf.cast(part, tf.float32)), args=(batch,))


def mean_by_metric(strategy, inside):
    with strategy.scope() if inside else tf.name_scope("outside"):
        mean = tf.keras.metrics.Mean()
    for batch in strategy.experimental_distribute_dataset(nine):
        update(strategy, mean, batch)
    return float(mean.result())


# %% tags=["show"] covers=["S64"]
central = tf.distribute.experimental.CentralStorageStrategy(D[:2], parameter_device="/CPU:0")
means = {
    f"{name}, made {'in' if inside else 'outside'} the scope": mean_by_metric(strategy, inside)
    for name, strategy in (("mirrored", pair), ("central storage", central))
    for inside in (True, False)
}
pictures.bars(means, title="The mean of 0 to 8, by a metric", unit="mean (4 is right)")

# %% [markdown]
# Mirrored replicas have a sum each. Central storage has *one*. Keras 3 assigns "old + mine" in each replica, and the strategy
# adds both: the old value counts twice. After 0 + ... + 7 = 28, the second step makes (28 + 8) + (28 + 0) = 64 of the sum,
# and (8 + 1) + (8 + 0) = 17 of the count. Made outside, they are plain variables: the replicas add one after the other.

# %% [markdown]
# ## Stop, and go on
# A *checkpoint* saves variables. To go on as if nothing had happened, it needs all of
# them: weights, momentum, and how many batches have been used; the random state, too, where there is a shuffle or a dropout.

# %% [markdown]
# ### Exercise: `train_to` (4 points)
# Train until `stop` steps are done *in all*; if they are, train none. Go on from the newest checkpoint in `folder` if there is
# one, and save one at the end. `make()` gives a model and its built optimizer, `train(model, optimizer, batch)` does a step.
# `batches(start)` begins with batch `start`, counted from 0. Return the model. Roughly 10 lines.

# %% [markdown]
# <details><summary>Hint</summary>
#
# `tf.train.Checkpoint(model=..., ...)` takes a `tf.Variable`, too. `tf.train.CheckpointManager(checkpoint, folder, 1)` has
# `latest_checkpoint` and `save()`; `checkpoint.restore(None)` does nothing.
# </details>


# %% answer="train_to" covers=["S64"]
def train_to(stop, folder, make, train, batches):  # -> the model
    ### BEGIN SOLUTION
    model, optimizer = make()
    done = tf.Variable(0)
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, done=done)
    manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=1)
    checkpoint.restore(manager.latest_checkpoint)
    for batch in batches(int(done)):
        if int(done) >= stop:
            break
        train(model, optimizer, batch)
        done.assign_add(1)
    manager.save()
    return model
    ### END SOLUTION


# %%
class Run:  # what `train_to` trains with, on two replicas; each model begins otherwise
    def __init__(self):
        self.losses, self.seeds, self.traced = [], itertools.count(), None

    def make(self):
        self.traced = None  # a new model is a new graph
        with pair.scope():
            return build(next(self.seeds))

    def train(self, model, optimizer, batch):
        one = tf.function(lambda batch: step(pair, model, optimizer, batch))
        self.traced = self.traced or one
        self.losses.append(float(self.traced(batch)))

    def batches(self, start):
        data = some(320, 40).repeat().skip(start)
        return pair.experimental_distribute_dataset(data)


# %% check="train_to" points=4 answers=["train_to", "step", "in_replica"]
with attempt("train_to", after=["step"]), tempfile.TemporaryDirectory() as parent:
    straight, broken = Run(), Run()
    whole = train_to(20, tempfile.mkdtemp(dir=parent), straight.make, straight.train, straight.batches)
    expect(
        len(straight.losses) == 20,
        f"`train_to(20, ...)` in an empty folder should make 20 steps; it made {len(straight.losses)}",
    )
    folder, other = tempfile.mkdtemp(dir=parent), Run()
    train_to(5, folder, broken.make, broken.train, broken.batches)
    shutil.move(folder, f"{folder}-kept")  # another run, in an empty folder of the same name
    os.mkdir(folder)
    train_to(2, folder, other.make, other.train, other.batches)
    expect(
        len(other.losses) == 2,
        f"`train_to(2, ...)` in an emptied folder should make 2 steps; it made {len(other.losses)}",
    )
    shutil.rmtree(folder)
    shutil.move(f"{folder}-kept", folder)  # only what is in the folder is left of the first
    for stop in (20, 20):
        twice = train_to(stop, folder, broken.make, broken.train, broken.batches)
    figure, axes = pictures.plot(title="One run of 20 steps, and one that stops after 5", x="step", y="loss")
    axes.plot(straight.losses, "-", color=pictures.PALETTE[0], linewidth=4, label="straight on")
    axes.plot(broken.losses, "o--", color=pictures.ALERT, markersize=4, label="stopped, and on")
    axes.set_xticks(range(0, 20, 4))
    axes.legend(frameon=False, labelcolor=pictures.INK)
    same = sum(abs(a - b) <= 1e-5 for a, b in zip(straight.losses, broken.losses, strict=False))
    alt = f"Loss by step. Straight on: {straight.losses[0]:.2f} at first, {straight.losses[-1]:.2f} after 20 steps. "
    alt += f"Stopped after 5, and on: the same loss at {same} of 20 steps."
    display(pictures.render(figure, alt))
    expect(len(broken.losses) == 20, f"to 5, to 20, and to 20 again: together {len(broken.losses)} steps; expected 20")
    allowed = 0.0 if all("CPU" in each for each in D) else 1e-5  # a GPU's kernels may add in another order
    wrong = [i for i, (a, b) in enumerate(zip(straight.losses, broken.losses, strict=True)) if abs(a - b) > allowed]
    expect(not wrong, f"the losses differ from step {[*wrong, 0][0]} on; what did the second part not know?")
    same_end = apart(whole.get_weights(), twice.get_weights()) <= allowed
    expect(same_end, "the weights differ from those of the run straight on")

# %% [markdown]
# Where the same operations ran in the same order, the losses are *equal*, to the last bit. A GPU may add in another order: there
# the check allows 1e-5.

# %% [markdown]
# ## Explain it to a colleague
# ### Exercise: `explain` (3 points, read by a person)
# She copied the loop of 2019. Her model has one output, labels are 0 or 1, the loss is 0.0 from the first step. With another
# loss it learns on one GPU, but diverges on 8: each replica takes `reduce_mean`. After a crash she
# restores the model only. In four to six sentences: why 0.0? Why does it diverge? What comes
# after the crash?

# %% [markdown] answer="explain" points=3 covers=["S64", "S65", "S66"]
# ### BEGIN SOLUTION
# Softmax divides each output's exponential by the sum over all outputs. With one output that is 1, whatever the weights are,
# so the cross-entropy is -log 1 = 0, and so is its gradient: nothing is learned. One output wants a sigmoid cross-entropy
# (or two outputs). Inside a replica the optimizer adds the gradients of all 8, so means of replicas make steps 8 times as
# long; divide the sum by the examples of all replicas, and test it with plain SGD against one device. Without the optimizer's
# variables the momentum begins at zero, and without the number of steps the data starts again from the first batch: the
# loss makes a jump, and two runs cannot be compared.
#
# **Rubric.** One point for each, half a point where the reason is missing.
#
# - *0.0* (1): softmax over one number is always 1, so loss and gradient are 0; use a sigmoid. Earns: "-log(1) = 0 for any
#   weight, so nothing moves." Does not: "The labels are wrong", "It has converged."
# - *8 GPUs* (1): gradients are summed, so own means are a rate 8 times as high; divide by the global batch. Earns: "The sum of
#   8 means is 8 times the mean." Does not: "A larger batch needs a smaller rate."
# - *After the crash* (1): the optimizer's state and the position in the data are lost. Earns: "Momentum starts at 0 and the
#   first batches come again." Does not: "The weights are gone."
# ### END SOLUTION

# %% [markdown]
# ## Recipe
# ```python
# with strategy.scope():
#     model, optimizer = ...              # build the optimizer here, too
# loss = tf.reduce_sum(losses) / examples  # of all replicas; `apply` adds
# losses = strategy.run(in_replica, args=(...))
# strategy.reduce("SUM", losses, axis=None)
# tf.train.Checkpoint(model=model, optimizer=optimizer, done=done)
# # test: plain SGD without clipping, 1 replica against several, an uneven batch
# ```

# %% [markdown]
# ## Optional: two networks in one loop
# The guide's own reason for loops is the **GAN**. A *generator* makes digits of noise. A *critic* tells real digits from
# made ones.


# %%
def players():  # 16 numbers of noise -> 64 pixels; 64 pixels -> a logit, high for "real"
    tf.keras.utils.set_random_seed(2)
    given, dense = tf.keras.Input, tf.keras.layers.Dense
    made = [given((16,)), dense(128, activation="relu"), dense(64, activation="sigmoid")]
    told = [given((64,)), dense(128, activation="relu"), dense(1)]
    return tf.keras.Sequential(made), tf.keras.Sequential(told)


# %% [markdown]
# `cost` says for each example how far the critic's logit is from "real" (1.0) or "made" (0.0):


# %%
def cost(logits, real):
    labels = tf.fill(tf.shape(logits), real)
    return tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)


# %% [markdown]
# ### Exercise: `duel` (2 points)
# In a replica, in a `tf.function`:
#
# - Both losses are of the same made images.
# - The critic's loss: `cost` of the real images as real, plus that of the made ones as made.
# - The generator's loss: `cost` of the made ones as *real*.
# - Scale both as before. Compute both gradients **before** anybody's weights change. Each optimizer changes its own player.
#
# Return a pair of losses, the generator's first; `optimizers` has the same order. Roughly 12 lines.


# %% answer="duel" covers=["S64", "S65"]
def duel(generator, critic, optimizers, noise, images, examples):
    ### BEGIN SOLUTION
    with tf.GradientTape(persistent=True) as tape:
        made = critic(generator(noise))
        real = critic(images)
        losses = [
            tf.reduce_sum(cost(made, 1.0)) / examples,
            tf.reduce_sum(cost(real, 1.0) + cost(made, 0.0)) / examples,
        ]
    both = [generator.trainable_variables, critic.trainable_variables]
    gradients = [tape.gradient(loss, mine) for loss, mine in zip(losses, both, strict=True)]
    for optimizer, each, mine in zip(optimizers, gradients, both, strict=True):
        optimizer.apply(each, mine)
    return tuple(losses)
    ### END SOLUTION


# %% tags=["folded"]
def hand_made(generator, critic, noise, images):  # the right weights after one step of SGD(0.1), from finite means
    def mean(logits, real):
        return tf.reduce_mean(tf.math.softplus(logits) - real * logits)

    with tf.GradientTape() as first, tf.GradientTape() as second:
        of_made, of_real = critic(generator(noise)), critic(images)
        losses = mean(of_made, 1.0), mean(of_real, 1.0) + mean(of_made, 0.0)
    moves = first.gradient(losses[0], generator.trainable_variables)
    moves += second.gradient(losses[1], critic.trainable_variables)
    weights = generator.get_weights() + critic.get_weights()
    return [float(each) for each in losses], [w - 0.1 * g.numpy() for w, g in zip(weights, moves, strict=True)]


# %% check="duel" points=2
with attempt("duel"):
    with pair.scope():
        generator, critic = players()
        optimizers = [tf.keras.optimizers.SGD(0.1) for _ in range(2)]
        for optimizer, player in zip(optimizers, (generator, critic), strict=True):
            optimizer.build(player.trainable_variables)
    noise, images = tf.random.stateless_normal([6, 16], [1, 2]), tf.reshape(train.images[:6], [6, 64])
    wanted, weights = hand_made(generator, critic, noise, images)
    (batch,) = pair.experimental_distribute_dataset(tf.data.Dataset.from_tensors((noise, images)))

    def inside(z, x):
        return duel(generator, critic, optimizers, z, x, tf.constant(6.0))

    losses = tf.function(lambda batch: pair.run(inside, args=batch))(batch)
    expect(isinstance(losses, (tuple, list)) and len(losses) == 2, "`duel` did not return a pair of losses")
    got = [float(pair.reduce("SUM", each, axis=None)) for each in losses]
    for who, loss, right in zip(("generator", "critic"), got, wanted, strict=True):
        expect(np.isclose(loss, right, rtol=1e-4), f"the {who}'s losses add up to {loss:.4f}; expected {right:.4f}")
    ours = generator.get_weights() + critic.get_weights()
    for who, part in (("generator", slice(4)), ("critic", slice(4, None))):
        far = apart(ours[part], weights[part])
        expect(far < 1e-5, f"after a step of SGD, a weight of the {who} differs by {far:.1g} from the right one")

# %% [markdown]
# Now 400 steps of 100 digits on two replicas. We measure by the mean distance from a made digit to the nearest real one.


# %% tags=["show", "folded"] covers=["S64"]
def nearest(made):  # the mean distance of images to the nearest digit to train on
    away = np.square(made[:, None] - train.images.reshape(1, -1, 64)).sum(axis=2)
    return float(np.sqrt(away.min(axis=1)).mean())


# %% tags=["show", "folded"] covers=["S64"]
def contest(steps):
    with pair.scope():
        generator, critic = players()
        optimizers = [tf.keras.optimizers.Adam(1e-3, beta_1=0.5) for _ in range(2)]
        optimizers[0].build(generator.trainable_variables)
        optimizers[1].build(critic.trainable_variables)

    def both(images):
        noise = tf.random.normal([tf.shape(images)[0], 16])
        return duel(generator, critic, optimizers, noise, images, tf.constant(100.0))

    data = tf.data.Dataset.from_tensor_slices(train.images.reshape(-1, 64)).shuffle(1500, seed=3).repeat().batch(100)
    batches = iter(pair.experimental_distribute_dataset(data))
    traced = tf.function(lambda batch: pair.run(both, args=(batch,)))
    seeds, seen = tf.random.stateless_normal([200, 16], [4, 5]), []
    for number in range(steps + 1):
        if number in (0, 50, steps):
            seen.append((number, generator(seeds).numpy()))
        traced(next(batches))
    return seen


# %% tags=["show"] covers=["S64"]
try:
    seen = contest(400)
    figure = pictures.new_figure(7.0, 2.0)
    for row, (number, made) in enumerate(seen):
        figure.text(0.02, 0.75 - 0.26 * row, f"step {number}", color=pictures.INK, fontsize=pictures.FONT)
        for column in range(10):
            axes = figure.add_subplot(3, 10, 10 * row + column + 1)
            axes.imshow(made[column].reshape(8, 8), cmap="gray", vmin=0, vmax=1)
            axes.axis("off")
    words = ", ".join(f"after {number} steps {nearest(made):.2f}" for number, made in seen)
    display(pictures.render(figure, f"Ten made digits in each of three rows: {words} from the nearest real digit."))
    print(f"{words}; real digits to test with: {nearest(test.images.reshape(-1, 64)):.2f}")
except NotImplementedError:
    print("write `duel` first")

# %% [markdown]
# The made digits come nearer, though not as near as new real ones. The distance does not see variety: one training digit,
# repeated, would have 0. So look, too.
