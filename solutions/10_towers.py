# ---
# jupyter:
#   across:
#     devices: 4
#     limits: {cell_seconds: 60, notebook_seconds: 180, question_seconds: 30}
#     rows: S44-S53
#     allowed_ops: [ResourceApplyMomentum, ApplyMomentum, TruncatedNormal]
#     # house: lines: the program of 2016 and its network run beside the new ones
# ---

# %% [markdown]
# # Towers
# **How do I build data parallelism by hand, and is it right?**
#
# ![The loss over 60 updates: the dots of one device lie on the line of four towers.](pictures/10_towers.png)
#
# Several devices train one model. Each device is a **tower**: it computes the whole model, on a batch of its own. In about 180
# minutes you build a program of towers, prove it equal to one device, measure its speed, and take the CPU out of its middle.
# *The source* is the program of 2016 that is repaired here.

# %% tags=["folded"]
from across import devices, digits, expecting, fresh, pictures, placement, ring, tower_runs
from across.attempt import NotAttempted, attempt, call, expect, read

# %%
D = devices.gpus_or_cpus(4)
CPU = "/CPU:0"
fresh.warm_up()

# %%
import itertools
import tempfile
import threading
import time

import numpy as np
import tensorflow as tf

# %%
v1 = tf.compat.v1
tf.config.threading.set_inter_op_parallelism_threads(8)  # 8 ops at once

# %% [markdown]
# `D` names four devices (chapter 03). Simulated ones prove *what* runs where, not how fast.

# %% [markdown]
# ## The input
# We train on real handwritten digits. They stand in a **TFRecord** file: records of bytes. Each is a protocol buffer `tf.train.Example`.

# %% covers=["S46"]
train, test = digits.load()
path = digits.write_records(train, tempfile.mkdtemp())
record = next(iter(tf.data.TFRecordDataset(path)))
first = tf.train.Example.FromString(record.numpy()).features.feature
print(len(train.labels), "records; in the first one: label", *first["label"].int64_list.value, end=", ")
print(len(first["image_raw"].bytes_list.value[0]), "bytes of image")


# %% covers=["S46"]
def parse(record):  # bytes -> [8, 8, 1] from 0 to 1, and a label
    kinds = {"image_raw": tf.string, "label": tf.int64}
    features = {name: tf.io.FixedLenFeature([], kind) for name, kind in kinds.items()}
    found = tf.io.parse_single_example(record, features)
    pixels = tf.reshape(tf.io.decode_raw(found["image_raw"], tf.uint8), [8, 8, 1])
    return tf.cast(pixels, tf.float32) / 255, found["label"]


# %% [markdown]
# ### Exercise: `batches` (2 points)
# Return the `tf.data.Dataset` of tower `k` of `n`. In one pass, the towers together see
# each record once. Their shares differ by one record at most. Each pass mixes the whole share anew. The last batch may be
# smaller. Roughly 3 lines.
#
# <details><summary>Hint</summary>
#
# A dataset has `shard(n, k)`, `map`, `shuffle(1000)` and `batch`. Their order matters: two towers that shuffle first shuffle differently.
# </details>


# %% answer="batches" covers=["S46", "S52"]
def batches(path, n, k, size):  # file, towers, this one, examples a batch -> a Dataset of (images, labels)
    ### BEGIN SOLUTION
    mine = tf.data.TFRecordDataset(path).shard(n, k).map(parse)
    return mine.shuffle(1000).batch(size)
    ### END SOLUTION


# %% check="batches" points=2
with attempt("batches"):
    numbered = digits.Digits(train.images[:22], np.arange(22))
    small = digits.write_records(numbered, tempfile.mkdtemp())
    passes = [[labels.numpy().tolist() for _, labels in batches(small, 3, k, 4)] for k in (0, 1, 2, 0)]
    display(tower_runs.draw_shares(passes[:3], title="batches(small, 3, k, 4): one pass"))
    shares = [[*itertools.chain(*seen)] for seen in passes[:3]]
    together = sorted(itertools.chain(*shares))
    expect(together == list(range(22)), f"22 records, 3 towers: together they see {together}")
    lengths = [len(share) for share in shares]
    expect(max(lengths) - min(lengths) <= 1, f"their shares are {lengths} records")
    for k, seen in enumerate(passes):
        sizes = [*map(len, seen)]
        right = set(sizes[:-1]) == {4} and sizes[-1] <= 4
        expect(right, f"`batches(small, 3, {k % 3}, 4)` has batches of {sizes}")
    again = batches(small, 3, 0, 4)
    mixed = [[labels.numpy().tolist() for _, labels in again] for _ in range(40)]
    counts = {sum(map(len, each)) for each in mixed}
    expect(counts == {lengths[0]}, f"tower 0 has {lengths[0]} records; 40 passes of one dataset have {sorted(counts)}")
    groups = [{*map(frozenset, each)} for each in mixed]
    expect(any(each != groups[0] for each in groups), "in each pass of tower 0 the same examples stand together")
    many = digits.write_records(digits.Digits(train.images, np.arange(1500)), tempfile.mkdtemp())
    third = batches(many, 3, 0, 50)
    passes = [np.concatenate([labels.numpy() for _, labels in third]) for _ in range(3)]
    last = np.sort(passes[0])[-100:]
    soon = np.isin([each[:100] for each in passes], last).any()
    expect(
        soon,
        "in 3 passes, none of tower 0's last 100 records of 500 is among the first 100: what does the buffer hold?",
    )

# %% [markdown]
# ### Then
# In 2016 a file *name* went into a queue; a reader put its examples into a second one. Threads
# filled both; a **coordinator** ended them.


# %% tags=["show"] covers=["S46"]
def inputs(path, epochs):
    names = v1.train.string_input_producer([path], num_epochs=epochs)
    _, record = v1.TFRecordReader().read(names)
    example = [*parse(record)]
    return v1.train.shuffle_batch(example, 32, num_threads=2, capacity=1096, min_after_dequeue=1000)


# %% tags=["show"] covers=["S46", "S51"]
def then(path):
    v1.logging.set_verbosity(v1.logging.ERROR)  # or each line tells that it is deprecated
    losses = []
    with tf.Graph().as_default():
        images, labels = inputs(path, epochs=2)
        with tf.device(CPU):
            weights = v1.get_variable("weights", [64, 10], initializer=v1.zeros_initializer())
        logits = tf.reshape(images, [-1, 64]) @ weights
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        update = v1.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True).minimize(loss)
        with v1.Session() as session:
            session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
            coordinator = v1.train.Coordinator()
            threads = v1.train.start_queue_runners(session, coordinator)
            try:
                while not coordinator.should_stop():
                    losses.append(session.run([loss, update])[0])
            except tf.errors.OutOfRangeError:  # the queue of names is closed and empty
                coordinator.request_stop()
            coordinator.join(threads)
    return losses


# %% tags=["show"] covers=["S46", "S51"]
queued = fresh.run(then, path, timeout=50)
print(f"{len(queued)} steps, loss {queued[0]:.2f} -> {queued[-1]:.2f}")

# %% [markdown]
# Two epochs of 1,500 are 93 full batches; the last 24 examples were left out.

# %% [markdown]
# ## One tower
# The CPU keeps the variables and averages; the devices compute. Today's `CentralStorageStrategy` does so, too (chapter 11).


# %% covers=["S47", "S48"]
def build(size, convolutions, hidden):
    layers = [tf.keras.Input((size, size, 1))]
    for filters in convolutions:
        layers += [tf.keras.layers.Conv2D(filters, 5, padding="same", activation="relu")]
        layers += [tf.keras.layers.MaxPooling2D()]
    layers += [tf.keras.layers.Flatten(), tf.keras.layers.Dense(hidden, activation="relu")]
    with tf.device(CPU):  # the variables
        return tf.keras.Sequential([*layers, tf.keras.layers.Dense(10)])


# %% covers=["S47", "S48"]
tf.keras.utils.set_random_seed(1)
model, source = build(8, [8, 16], 64), build(28, [32, 64], 1024)
places = {each.value.device[-5:] for each in model.weights}
print(f"ours: {model.count_params():,} weights, all on {', '.join(places)};", end=" ")
print(f"the source's: {source.count_params():,}")

# %% [markdown]
# In 2016 names told the towers apart. A **scope** is a prefix of names; with `reuse`, a known name returns its weight.
# A **collection** is a named list of the graph; a scope picks one tower's losses from it.

# %% tags=["show"] covers=["S49"]
with tf.Graph().as_default():
    for turn in range(2):
        with v1.name_scope(f"tower_{turn}") as scope, v1.variable_scope("net", reuse=turn > 0):
            weight = v1.get_variable("weight", initializer=1.0)
            v1.add_to_collection("losses", tf.square(weight, name="loss"))
        print(weight.name, [loss.name for loss in v1.get_collection("losses", scope)], end="; ")
    print("in all:", len(v1.global_variables()), "weight,", len(v1.get_collection("losses")), "losses")

# %% [markdown]
# ### Exercise: `tower` (3 points)
# Compute the mean cross-entropy of the model's output (logits) and the labels, and its gradients. **Forward and backward
# run on `device`; the variables stay where they are.** Roughly 6 lines.
#
# <details><summary>Hint</summary>
#
# `tf.nn.sparse_softmax_cross_entropy_with_logits` gives one number an example. `tape.gradient` creates ops, too.
# </details>


# %% answer="tower" covers=["S44", "S47", "S48", "S49"]
def tower(model, images, labels, device):  # -> loss, [gradient of each of model.trainable_variables]
    ### BEGIN SOLUTION
    with tf.device(device):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(images))
            loss = tf.reduce_mean(losses)
        return loss, tape.gradient(loss, model.trainable_variables)
    ### END SOLUTION


# %% tags=["show", "folded"]
def where(fn, *given):  # -> {device: ops of the model and its loss that ran there}
    found = {}
    for op in placement.trace(tf.function(lambda *each: fn(*each)), *given).everything:
        if any(part in op.type for part in ("Conv2D", "MatMul", "Softmax", "Mean", "Sum")):
            found[op.device] = found.get(op.device, 0) + 1
    return found


# %% check="tower" points=3
with attempt("tower"):
    few = train.some(0, 6)
    loss, gradients = tower(model, few.images, few.labels, D[2])
    chances = tf.nn.softmax(model(few.images)).numpy()
    wanted = -np.log(chances[range(6), few.labels]).mean()
    got = read(np.asarray(loss).tolist(), "the loss is", expecting.number)
    expect(
        np.isclose(got, wanted, rtol=1e-4),
        f"the loss of 6 digits is {got:.5f}; -log of their chances, on average, {wanted:.5f}",
    )
    shapes = [tuple(v.shape) for v in model.trainable_variables]
    expect([tuple(g.shape) for g in gradients] == shapes, "expected one gradient for each trainable variable")
    right = np.allclose(gradients[-1], (chances - np.eye(10)[few.labels]).mean(axis=0), atol=1e-5)
    expect(right, "the gradient of the last layer's bias is not that of the mean loss")
    frozen = build(8, [2], 2)
    frozen.layers[0].trainable = False
    many = len(tower(frozen, few.images, few.labels, D[2])[1])
    expect(many == 4, f"a model with 6 weights, 2 of them frozen: {many} gradients")
    for device in D[1:3]:
        ran = where(tower, model, few.images, few.labels, device)
        print(f"tower on {device}: ops of the model and its loss:", ran)
        away = {name: count for name, count in ran.items() if f"/{name}" != device}
        expect(not away, f"tower on {device}: {away} ran elsewhere; expected all there: forward, loss and backward")

# %% [markdown]
# ## Averaging
# Four towers with batches of 8, 8, 8 and 3 shall do what one device does with all 27 examples: the mean over
# *examples*. So a tower counts as much as it has examples.
#
# Three kinds of gradients come from a tape: a tensor; `tf.IndexedSlices`, the rows of a table that were used, some twice; and `None`,
# for a weight that the loss does not use.

# %% [markdown]
# ### Exercise: `average_gradients` (4 points)
# Average each weight's gradients over the towers, for batches of any sizes. A `None` counts as zeros; if all are `None`, the
# average is `None`. It must work in a `tf.function`. Roughly 7 lines.
#
# <details><summary>Hint</summary>
#
# `tf.convert_to_tensor` makes a tensor of slices, and `tf.add_n` adds a list of tensors.
# </details>


# %% answer="average_gradients" covers=["S44", "S50"]
def average_gradients(towers, sizes):  # [[a gradient for each weight], ...], [8, 3] -> a list of averages
    ### BEGIN SOLUTION
    averages = []
    for gradients in zip(*towers, strict=True):
        parts = [
            tf.convert_to_tensor(gradient) * (size / sum(sizes))
            for gradient, size in zip(gradients, sizes, strict=True)
            if gradient is not None
        ]
        averages.append(tf.add_n(parts) if parts else None)
    return averages
    ### END SOLUTION


# %% tags=["folded"]
def in_a_graph(towers, sizes):
    def averages():
        found = average_gradients(towers, sizes)
        expect(isinstance(found, list | tuple), f"you return a {type(found).__name__}; expected a list of averages")
        return found

    return tf.function(averages, autograph=False).get_concrete_function()()


# %% check="average_gradients" points=4
with attempt("average_gradients"):
    a, b = tf.constant([4.0, 8.0]), tf.constant([8.0, 0.0])
    rows = tf.IndexedSlices(values=tf.constant([2.0, 4.0]), indices=tf.constant([1, 1]), dense_shape=tf.constant([2]))
    asked = {
        "[a], [b]; 4 and 4 examples": ([[a], [b]], [4, 4], [[6, 4]]),
        "[a], [b]; 3 and 1 examples": ([[a], [b]], [3, 1], [[5, 6]]),
        "[a], [rows]; 2 and 1 examples": ([[a], [rows]], [2, 1], [[8 / 3, 22 / 3]]),
        "[None, a], [None, b]; 1 and 1": ([[None, a], [None, b]], [1, 1], [None, [6, 4]]),
        "[a], [None]; 1 and 1": ([[a], [None]], [1, 1], [[2, 4]]),
    }
    for name, (gradients, sizes, wanted) in asked.items():
        made = in_a_graph(gradients, sizes)
        shown = [one if one is None else tf.convert_to_tensor(one).numpy().tolist() for one in made]
        right = len(shown) == len(wanted) and all(
            (one is None) == (other is None) and (one is None or np.allclose(one, other))
            for one, other in zip(shown, wanted, strict=True)
        )
        expect(right, f"a is [4, 8], b is [8, 0], rows is 2 and 4, both in row 1; {name}: you return {shown}")

# %% [markdown]
# ## A step
# `copy` makes a second model with the same weights, to compare with:


# %%
def copy(model, device=CPU):
    with tf.device(device):
        twin = tf.keras.models.clone_model(model)
    twin.set_weights(model.get_weights())
    return twin


# %% [markdown]
# ### Exercise: `step` (3 points)
# Each tower works on its device, with its own batch. Then the CPU averages (pin it: else a GPU would), and
# `optimizer` applies. Return the mean loss over all examples. Use `tower` and `average_gradients`. Roughly 7 lines.
#
# <details><summary>Hint</summary>
#
# A batch has `labels.shape[0]` examples. `optimizer.apply_gradients` takes pairs of gradient and variable.
# </details>


# %% answer="step" covers=["S44", "S47", "S51"]
def step(model, optimizer, given, devices):  # given: [(images, labels), ...], one a tower -> mean loss
    ### BEGIN SOLUTION
    sizes = [labels.shape[0] for _, labels in given]
    towers = [tower(model, *batch, device) for batch, device in zip(given, devices, strict=True)]
    with tf.device(CPU):
        gradients = average_gradients([each for _, each in towers], sizes)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return tf.add_n([loss * size for (loss, _), size in zip(towers, sizes, strict=True)]) / sum(sizes)
    ### END SOLUTION


# %%
def cut(sizes):  # [8, 8, 8, 3] -> a batch for each tower, from the first digits
    ends = np.cumsum([0, *sizes])
    with tf.device(CPU):
        return [tuple(map(tf.constant, train.some(*each))) for each in itertools.pairwise(ends)]


# %% tags=["folded"]
made_on = set()  # where the gradients were made that the optimizer was given


class Watched(tf.keras.optimizers.SGD):
    def apply(self, grads, trainable_variables=None):
        grads = [*grads]
        made_on.update(each.device.split("device:")[-1] for each in grads if each is not None)
        return super().apply(grads, trainable_variables)


# %% check="step" points=3 answers=["step", "tower", "average_gradients"]
with attempt("step", after=["tower", "average_gradients"]):
    ours, alone = copy(model), copy(model)
    cross_entropy = tf.keras.losses.SparseCategoricalCrossentropy(True)
    alone.compile(tf.keras.optimizers.SGD(0.05, momentum=0.9), cross_entropy, jit_compile=False)
    optimizer = Watched(0.05, momentum=0.9)
    optimizer.build(ours.trainable_variables)
    for number in range(5):
        loss = np.asarray(step(ours, optimizer, cut([8, 8, 8, 3]), D)).tolist()
        loss = read(loss, "the loss is", expecting.number)
        wanted = float(alone.train_on_batch(*train.some(0, 27)))
        says = f"step {number}: your loss is {loss:.6f}; one device, 27 examples: {wanted:.6f}"
        expect(np.isclose(loss, wanted, atol=1e-5), says)
    apart = max(np.abs(a - b).max() for a, b in zip(ours.get_weights(), alone.get_weights(), strict=True))
    print(f"after 5 steps, the weights differ by {apart:.0e} at most")
    expect(apart < 1e-6, f"after 5 steps, a weight differs by {apart:.0e}")
    ran = where(step, ours, optimizer, cut([8, 8, 8, 3]), D)
    expect(set(ran) >= {name.strip("/") for name in D}, f"ops of the model ran on {ran}; expected all of {D}")
    made_on.clear()
    with tf.device(D[1]):  # as where a GPU is the default
        where(step, ours, optimizer, cut([8, 8, 8, 3]), D)
    expect(made_on == {"CPU:0"}, f"in a block of {D[1]}, the averages are made on {made_on}; not CPU:0")

# %% [markdown]
# Equal, but not to the last bit: a sum in another order rounds otherwise. We allow 1e-6.

# %% [markdown]
# *A good place to stop: your towers equal one device.*

# %% [markdown]
# ## How fast?
# Below, the source measures its steps. Three things are wrong: the first step also traces the function. The last tower's batch may be
# smaller. And `num_gpus` batches were computed *at the same time*.

# %% [markdown]
# ### Exercise: `rates` (2 points)
# Repair the 3 lines. How many examples a second (examples of all counted steps / their seconds), and how many seconds from
# one update to the next?


# %% answer="rates" covers=["S51"]
def rates(durations, sizes):  # seconds of each step; examples of each tower -> examples/s, s/batch
    ### BEGIN SOLUTION
    #: duration = sum(durations) / len(durations)
    #: examples_per_sec = sizes[0] * len(sizes) / duration
    #: sec_per_batch = duration / len(sizes)
    duration = sum(durations[1:]) / len(durations[1:])
    examples_per_sec = sum(sizes) / duration
    sec_per_batch = duration
    ### END SOLUTION
    return examples_per_sec, sec_per_batch


# %% check="rates" points=2
with attempt("rates"):
    pair = expecting.row(expecting.number, expecting.number)
    speed, wait = call(rates, [3.0, 0.5, 1.0, 4.5], [10, 10, 6], returns=pair)
    print(f"3 s, 0.5 s, 1 s, 4.5 s; batches of 10, 10 and 6: {speed:g} examples/s, {wait:g} s/batch")
    expect(speed == 13, f"{speed:g} examples/s? How many are in one step, and which steps count?")
    expect(wait == 2, f"{wait:g} s/batch? How long does the model wait for its next update?")

# %% [markdown]
# Now train: 60 steps of 4 towers with 25 digits each, then one device with all 100.


# %% covers=["S51"]
def trained(model, given, devices, rate=0.05):  # a step for each of `given` -> losses, seconds
    optimizer = tf.keras.optimizers.SGD(rate, momentum=0.9, nesterov=True)
    optimizer.build(model.trainable_variables)
    graph = tf.function(lambda *towers: step(model, optimizer, towers, devices))
    losses, at = [], [time.perf_counter()]
    for towers in given:
        losses.append(float(graph(*towers)))
        at.append(time.perf_counter())
    return losses, np.diff(at).tolist()


# %% tags=["show"] covers=["S51", "S52"]
try:
    pulled = zip(*[batches(path, 4, k, 25).repeat() for k in range(4)], strict=True)
    pulled, by_four, by_one = [*itertools.islice(pulled, 60)], copy(model), copy(model)
    fell, took = trained(by_four, pulled, D)
    one_fell, lone = trained(
        by_one, [[[tf.concat(part, 0) for part in zip(*each, strict=True)]] for each in pulled], D[:1]
    )
    hits = np.mean(np.argmax(by_four(test.images), axis=1) == test.labels)
    print(f"{hits:.0%} of {len(test.labels)} new digits; first step {took[0]:.1f} s;", end=" ")
    print("then {:,.0f} examples/s, {:.3f} s/batch;".format(*rates(took, [25] * 4)), end=" ")
    print(f"one device with all: {rates(lone, [100])[0]:,.0f} examples/s")
    drift = max(np.abs(a - b).max() for a, b in zip(by_four.get_weights(), by_one.get_weights(), strict=True))
    print(f"after 60 steps, the weights differ from one device's by {drift:.0e} at most")
    chart, area = pictures.plot(height=2.4, title="The same training", x="updates", y="loss")
    area.plot(one_fell, "o", color=pictures.PALETTE[1], markersize=5, label="one device")
    area.plot(fell, "-", color=pictures.PALETTE[5], label="four towers")
    area.legend(frameon=False, labelcolor=pictures.INK)
    display(
        pictures.render(
            chart, f"Loss in 60 updates: four towers {fell[0]:.2f} to {fell[-1]:.2f}, one device to {one_fell[-1]:.2f}."
        )
    )
except NotImplementedError as error:
    print("write the exercises above first" if "your turn" in str(error) else error)

# %% [markdown]
# On one processor four towers are no faster than one device. Large steps may make both losses rise.
#
# The source's network, on 28 × 28 pixels:

# %% tags=["show"] covers=["S48", "S51"]
try:
    large = digits.load(28)[0]
    cuts = [tuple(map(tf.constant, large.some(16 * k, 16 * k + 16))) for k in range(64)]
    falling, lasted = trained(copy(source), [cuts[k : k + 4] for k in range(0, 64, 4)], D, rate=0.01)
    print(f"{len(falling)} steps, loss {falling[0]:.2f} -> {falling[-1]:.2f};", end=" ")
    print("{:,.0f} examples/s, {:.3f} s/batch".format(*rates(lasted, [16] * 4)))
except NotImplementedError as error:
    print("write the exercises above first" if "your turn" in str(error) else error)

# %% [markdown]
# ## The program of 2016, repaired
# Its graph, shortened. `dense` is a layer with variables on the CPU.


# %% covers=["S47", "S50"]
def dense(x, name, units):
    with v1.variable_scope(name), tf.device(CPU):
        kernel = v1.get_variable("weights", [x.shape[-1], units], initializer=v1.truncated_normal_initializer(0, 0.1))
        bias = v1.get_variable("biases", [units], initializer=v1.zeros_initializer())
    return x @ kernel + bias


def mean_of(towers):  # [[(gradient, variable), ...] of each tower] -> [(mean, variable), ...]
    return [(tf.add_n([g for g, _ in pairs]) / len(pairs), pairs[0][1]) for pairs in zip(*towers, strict=True)]


# %% [markdown]
# ### Exercise: `source_step` (4 points)
# Its words promise more than it does. Four repairs:
#
# 1. `local4` is a second output layer, a bottleneck of 10. Take it out.
# 2. "Cross entropy plus all weight decay terms": there are none. Add `decay` × `tf.nn.l2_loss` of each trainable variable to
# each tower's loss.
# 3. It returns the last tower's loss. Return the mean, with decay.
# 4. "The number of batches processed * num_gpus": it counts steps. Return the batches of all towers.


# %% answer="source_step" covers=["S47", "S49", "S51"]
def source_step(given, decay, devices):  # [(images, labels), ...], 0.01, ... -> train op, loss, batches so far
    ### BEGIN SOLUTION
    #: step, towers = v1.train.get_or_create_global_step(), []
    #: optimizer = v1.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True, use_locking=True)
    #: for (images, labels), device in zip(given, devices):
    #:     with tf.device(device), v1.variable_scope("net", reuse=len(towers) > 0):
    #:         local3 = tf.nn.relu(dense(images, "local3", 32))
    #:         local4 = tf.nn.relu(dense(local3, "local4", 10))
    #:         logits = dense(local4, "softmax_linear", 10)  # v1.trainable_variables() lists all variables from here on
    #:         loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    #:         towers.append(optimizer.compute_gradients(loss, gate_gradients=0))
    #: with tf.device(CPU):
    #:     train = optimizer.apply_gradients(mean_of(towers), global_step=step)
    #:     return train, loss, step
    step, towers, losses = v1.train.get_or_create_global_step(), [], []
    optimizer = v1.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True, use_locking=True)
    for (images, labels), device in zip(given, devices):  # noqa: B905
        with tf.device(device), v1.variable_scope("net", reuse=len(towers) > 0):
            local3 = tf.nn.relu(dense(images, "local3", 32))
            logits = dense(local3, "softmax_linear", 10)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
            loss += decay * tf.add_n([tf.nn.l2_loss(each) for each in v1.trainable_variables()])
            losses.append(loss)
            towers.append(optimizer.compute_gradients(loss, gate_gradients=0))
    with tf.device(CPU):
        train = optimizer.apply_gradients(mean_of(towers), global_step=step)
        return train, tf.add_n(losses) / len(losses), step * len(towers)
    ### END SOLUTION


# %% check="source_step" points=4 covers=["S51"]
with attempt("source_step"):
    given = [(np.reshape(x, [-1, 64]), y.numpy()) for x, y in cut([6] * 4)]
    for decay in (0.0, 0.1):
        found = tower_runs.run(source_step, given, decay, D)
        if decay:
            display(tower_runs.draw_losses(found, title=f"source_step(given, {decay}, D): losses before a step"))
        for right, says in tower_runs.promises(found):
            expect(right, f"source_step(given, {decay}, D) of {len(given)} towers: {says}")

# %% [markdown]
# `use_locking=True` keeps apart two updates of one variable that meet; here is one a step. `gate_gradients=0` lets each
# gradient be used as soon as it is there. `allow_soft_placement=True` lets an op without a GPU kernel run on the CPU (chapter
# 04).

# %% [markdown]
# ## A tower naps
# Towers nap for 0.2 s in each step: a GPU that is too warm.

# %% [markdown]
# ### Exercise: `guesses` (1 point)
# How many seconds longer is a step if one tower naps, and if all four nap? Then gradients
# are *added* over 4 towers: how many times as far does plain SGD move a weight in its first step? And Adam? A complete
# guess earns the point.

# %% answer="guesses" covers=["S44", "S45", "S50"]
### BEGIN SOLUTION
guesses = {"one naps": 0.2, "all four nap": 0.2, "added, SGD": 4, "added, Adam": 1}
#: guesses = {"one naps": None, "all four nap": None, "added, SGD": None, "added, Adam": None}
### END SOLUTION


# %% tags=["folded"]
def nap(images):
    time.sleep(0.2)
    return images


# %% tags=["folded"]
def paces(napping):  # the towers that nap -> seconds of five steps
    ours, optimizer = copy(model), tf.keras.optimizers.SGD(0.05)
    optimizer.build(ours.trainable_variables)

    @tf.function
    def once(*given):
        late = [tf.ensure_shape(tf.numpy_function(nap, [x], tf.float32, stateful=False), x.shape) for x, _ in given]
        mixed = [(late[k] if k in napping else x, y) for k, (x, y) in enumerate(given)]
        return step(ours, optimizer, mixed, D)

    seconds = []
    for _ in range(7):
        start = time.perf_counter()
        once(*cut([8] * 4)).numpy()
        seconds.append(time.perf_counter() - start)
    return seconds[2:]


# %% tags=["folded"]
def moved(make):  # how far a first step goes: four times the gradient, over once
    far = []
    for gradient in (4.0, 1.0):
        weight = tf.Variable(0.0)
        make(0.1).apply_gradients([(tf.constant(gradient), weight)])
        far.append(float(weight))
    return far[0] / far[1]


# %% check="guesses" points=1 covers=["S44", "S45", "S50"] answers=["guesses", "step", "tower", "average_gradients"]
with attempt("guesses", after=["step"], done="recorded before it was measured"):
    given = read(guesses, "`guesses` is", expecting.dict_of())
    if all(guess is None for guess in given.values()):
        raise NotAttempted("guesses: not attempted yet. Replace each None by a number.")
    kinds = dict.fromkeys(("one naps", "all four nap", "added, SGD", "added, Adam"), expecting.number)
    said = read(guesses, "`guesses` is", expecting.entries(kinds))
    runs = {"nobody naps": paces([]), "tower 2 naps": paces([2]), "all four nap": paces([0, 1, 2, 3])}
    display(pictures.bars(runs, title="A step of four towers", unit="seconds"))
    none, one, every = (float(np.median(each)) for each in runs.values())
    truly = {"one naps": one - none, "all four nap": every - none}
    truly |= {"added, SGD": moved(tf.keras.optimizers.SGD), "added, Adam": moved(tf.keras.optimizers.Adam)}
    for name, guess in said.items():
        near = abs(guess - truly[name]) <= 0.25 * abs(truly[name])
        print(f"{name:13} you said {guess:g}, it is {truly[name]:.2g}{'' if near else '  <- a surprise'}")

# %% [markdown]
# <details><summary>What was measured</summary>
#
# Averaging waits for all towers, so one slow tower costs as much as four. And Adam hides a sum in place of a mean: it divides
# by the size of the gradients, unless they are tiny. With SGD a sum over four towers is a mean at four times the rate: some want
# it, as the batch of a step is four times as large.
# </details>

# %% [markdown]
# ## Without the middle
# Each step, the CPU receives the gradients of all `n` towers, and sends weights to all. If all are other devices, its
# link carries `2 n` times their size. An **all-reduce** gives every device the sum; the word does not say how. A *ring* does it
# without a middle. Each device then keeps its own weights, equal at the start by a **broadcast**.
#
# First with a middle; move the slider:

# %%
NUMBERS = [[3, 1, -2, 5], [0, 4, 7, -1], [2, 2, 1, 6], [-3, 8, 0, 1]]  # of four devices, four pieces of gradients

# %% tags=["show"] covers=["S53"]
others = [(i, piece) for i in (1, 2, 3) for piece in range(4)]
middle = [[(i, 0, piece) for i, piece in others], [(0, i, piece) for i, piece in others]]  # sender, receiver, piece
ring.walk(middle, NUMBERS, adds=1, title="Device 0 in the middle")

# %% [markdown]
# ### The ring
# Each device cuts its gradients into `n` pieces, and sends only to its right-hand neighbour: device `i` to `i + 1`, the last
# one to 0. In each step every device sends *one* piece.
#
# 1. In the first `n − 1` steps, the receiver *adds* the piece to its own. Then each piece is whole on one device (a
#    **reduce-scatter**).
# 2. In `n − 1` more steps, whole pieces go round: the receiver *replaces* its own (an **all-gather**).

# %% [markdown]
# ### Exercise: `schedule` (4 points)
# Who sends which piece to whom, in each of the `2 (n − 1)` steps? All messages of a step leave before any arrives. In the
# picture, whole pieces are green; an orange frame marks what has just come. Roughly 4 lines.
#
# <details><summary>Hint</summary>
#
# In step 0, device `i` sends piece `i`. In the next step, it sends on what it has just received.
# </details>


# %% answer="schedule" covers=["S53"]
def schedule(n):  # 2 -> [[(0, 1, 0), (1, 0, 1)], [(0, 1, 1), (1, 0, 0)]]: (sender, receiver, piece)
    ### BEGIN SOLUTION
    steps = []
    for number in range(2 * (n - 1)):
        steps.append([(i, (i + 1) % n, (i - number) % n) for i in range(n)])
    return steps
    ### END SOLUTION


# %% [markdown]
# This runs any schedule with TensorFlow:


# %% covers=["S53"]
def all_reduce(values, devices, steps):  # a tensor for each device, a schedule -> their sums
    held = []
    for value, device in zip(values, devices, strict=True):
        with tf.device(device):
            held.append(tf.split(value, len(devices)))
    for number, messages in enumerate(steps):
        moving = [(receiver, piece, held[sender][piece]) for sender, receiver, piece in messages]
        for receiver, piece, came in moving:
            with tf.device(devices[receiver]):
                add = number < len(devices) - 1
                held[receiver][piece] = held[receiver][piece] + came if add else tf.identity(came)
    return held


# %% tags=["folded"]
def library(rows):  # the same sum by tf.distribute, on as many logical CPUs
    strategy = tf.distribute.MirroredStrategy([f"/CPU:{i}" for i in range(len(rows))])
    given = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(rows[context.replica_id_in_sync_group])
    )

    @tf.function
    def total(value):
        return tf.distribute.get_replica_context().all_reduce("sum", value)

    return [each.numpy() for each in strategy.experimental_local_results(strategy.run(total, args=(given,)))]


# %% tags=["folded"]
def played(n):  # your schedule, once each piece goes where it must
    message = expecting.row(*[expecting.between(0, n - 1, expecting.whole)] * 3)
    steps, says = call(schedule, n, returns=expecting.list_of(expecting.list_of(message))), f"`schedule({n})`"
    display(ring.draw(steps, n, title=f"{says}: how many towers' shares are in each piece"))
    expect(len(steps) == 2 * (n - 1), f"{says} has {len(steps)} steps; {n} devices need {2 * (n - 1)}")
    for number, messages in enumerate(steps):
        senders = sorted(sender for sender, _, _ in messages)
        expect(senders == [*range(n)], f"{says}, step {number}: {senders} send; expected each device once")
        astray = [each for each in messages if each[1] != (each[0] + 1) % n]
        expect(not astray, f"{says}, step {number} has {astray[:1]}; expected a message to the right-hand neighbour")
    half, end = ring.play(steps, n)[n - 1 :: n - 1]
    for piece in range(n):
        whole = any(set(held[piece]) == {1} for held in half)
        expect(whole, f"{says}: after {n - 1} steps, piece {piece} is whole nowhere: see the picture")
        everywhere = all(set(held[piece]) == {1} for held in end)
        expect(everywhere, f"{says}: at the end, not every device holds piece {piece} whole")
    return steps


# %% check="schedule" points=4
with attempt("schedule"):
    played(3)
    steps = played(4)
    rows = np.random.default_rng(0).integers(-9, 10, size=(4, 12)).astype("float32")
    mine = [tf.concat(held, 0) for held in all_reduce([tf.constant(row) for row in rows], D, steps)]
    same = all(np.array_equal(a, b) for a, b in zip(mine, fresh.run(library, [*rows], cpus=4, timeout=50), strict=True))
    expect(same, "on whole numbers, your ring and `tf.distribute` differ")
    display(ring.walk(steps, NUMBERS, title="Your ring, with numbers"))
    print("your ring and tf.distribute: the same sums on each device")

# %% [markdown]
# ### Your step, without the middle
# `flat` lays a tower's gradients in one row, with zeros at its end; `unflat` makes gradients of a device's pieces again.


# %% covers=["S53"]
def flat(gradients, share, n):  # -> a row of `share` times all gradients, as long as n equal pieces
    row = tf.concat([tf.reshape(each, [-1]) * share for each in gradients], 0)
    return tf.pad(row, [[0, -row.shape[0] % n]])


def unflat(pieces, variables):  # -> [a gradient for each variable]
    sizes = [int(np.prod(v.shape)) for v in variables]
    row = tf.concat(pieces, 0)[: sum(sizes)]
    return [tf.reshape(part, v.shape) for part, v in zip(tf.split(row, sizes), variables, strict=True)]


# %% [markdown]
# ### Exercise: `ring_step` (4 points)
# Your `step`, by `all_reduce` and your `schedule`: `optimizers[k]` updates `models[k]` on `devices[k]`. **Budget: gradients leave their
# device by the ring alone.** Return the mean loss over all examples. Roughly 11 lines.


# %% answer="ring_step" covers=["S44", "S53"]
def ring_step(models, optimizers, given, devices):  # a model, an optimizer, a batch for each device -> mean loss
    ### BEGIN SOLUTION
    n, losses, rows = len(devices), [], []
    total = sum(labels.shape[0] for _, labels in given)
    for model, (images, labels), device in zip(models, given, devices, strict=True):
        share = labels.shape[0] / total
        loss, gradients = tower(model, images, labels, device)
        with tf.device(device):
            losses.append(loss * share)
            rows.append(flat(gradients, share, n))
    sums = all_reduce(rows, devices, schedule(n))
    for model, optimizer, pieces, device in zip(models, optimizers, sums, devices, strict=True):
        with tf.device(device):
            mine = model.trainable_variables
            optimizer.apply_gradients(zip(unflat(pieces, mine), mine, strict=True))
    return tf.add_n(losses)
    ### END SOLUTION


# %% tags=["folded"]
def on_its_own(device, rate=0.05):  # a model and an optimizer that live on `device`
    twin, optimizer = copy(model, device), tf.keras.optimizers.SGD(rate, momentum=0.9)
    with tf.device(device):
        optimizer.build(twin.trainable_variables)
    return twin, optimizer


# %% check="ring_step" points=4 covers=["S53"] answers=["ring_step", "schedule", "tower"]
with attempt("ring_step", after=["tower", "schedule"]):
    models, optimizers = zip(*map(on_its_own, D), strict=True)
    alone, loss = copy(model), tf.keras.losses.SparseCategoricalCrossentropy(True)
    alone.compile(tf.keras.optimizers.SGD(0.05, momentum=0.9), loss, jit_compile=False)
    for number in range(3):
        got = np.asarray(ring_step(models, optimizers, cut([8, 8, 8, 3]), D)).tolist()
        got, wanted = read(got, "the loss is", expecting.number), float(alone.train_on_batch(*train.some(0, 27)))
        expect(np.isclose(got, wanted, atol=1e-5), f"step {number}: your loss is {got:.6f}; one device's: {wanted:.6f}")
    for device, each in zip(D, models, strict=True):
        apart = max(np.abs(a - b).max() for a, b in zip(each.get_weights(), alone.get_weights(), strict=True))
        expect(apart < 1e-6, f"after 3 steps, a weight on {device} differs from one device's by {apart:.0e}")
    whole = tf.function(lambda *batches: ring_step(models, optimizers, batches, D))
    sent = placement.trace(whole, *cut([8, 8, 8, 3])).sent()
    display(tower_runs.draw_sent(sent, D, title="What goes from device to device in one ring_step"))
    print("small numbers are shapes, counts and losses; the CPU hands out what it held before: the batches")
    names = [name.strip("/") for name in D]
    piece = 4 * -(-sum(int(np.prod(v.shape)) for v in model.trainable_variables) // len(D))
    for (source_, target), size in sent.items():
        ringed = source_ in names and target == names[(names.index(source_) + 1) % len(D)]
        most = 2 * (len(D) - 1) * piece if ringed else 64 if source_ in names else size
        held = 8 * (64 * 4 + 8) if source_ == "CPU:0" else 0  # bytes of a batch, which is there before
        home = source_ == target  # where a function's result goes by another device and comes back
        expect(home or size <= most + held + 64, f"{source_} sent {size:,} bytes to {target}; the ring needs {most:,}")

# %% [markdown]
# ## Optional: what it costs
# A device sends `2 (n − 1)` pieces of `size / n`: less than twice the size, for any `n`:


# %% tags=["folded"]
def on_each(devices):  # a tensor of 4,800 bytes on each device
    held = []
    for device in devices:
        with tf.device(device):
            held.append(tf.ones([1200]))
    return held


# %% tags=["show"] covers=["S53"]
try:
    for n in (2, 3, 4):
        copied = placement.trace(all_reduce, on_each(D[:n]), D[:n], schedule(n)).sent()
        print(f"rule: {2 * (n - 1) * 4800 // n:,} bytes; counted:", copied)
except NotImplementedError as error:
    print("write `schedule` first" if "your turn" in str(error) else error)

# %% [markdown]
# A MODEL of a network: each device, the CPU too, has one link. In one box each GPU has a link to the CPU. Each step of the ring
# costs one latency; the CPU, one each way. Move the sliders: from how many devices on is the ring slower, for 0.033 MB?


# %% covers=["S53"]
SIZE = 4 * source.count_params()  # bytes


def ring_seconds(n, size=SIZE, latency=50e-6, rate=1.25e9):
    return 2 * (n - 1) * (latency + size / n / rate)


def middle_seconds(n, size=SIZE, latency=50e-6, rate=1.25e9):
    return 2 * (latency + n * size / rate)


# %% tags=["show"] covers=["S53"]
from across import hands


def in_mb(seconds):  # the same rule, of MB and GB/s
    return lambda n, size, rate: seconds(n, size * 1e6, rate=rate * 1e9)


hands.draw_lines(
    {"by the CPU": in_mb(middle_seconds), "by a ring": in_mb(ring_seconds)},
    {"devices": [2, 3, 4, 8, 16, 32], "MB": [0.01, 0.033, 0.1, 1, SIZE / 1e6, 100], "GB/s": [0.125, 1.25, 12.5, 100]},
    start=(4, SIZE / 1e6, 1.25),
    title="MODEL: one sum, by the CPU and by a ring",
    y="seconds",
    log=True,
)

# %% [markdown]
# A library brings the ring (NVIDIA's NCCL) and packs small gradients: chapter 11.

# %% [markdown]
# ## Out of step
# Let each tower update as soon as it is ready. Each thread
# reads the weights, computes for 2 ms (a nap), then updates. Meanwhile, others update: its gradient is **stale**.
# A linear model, all 1,500 digits:


# %% covers=["S45"]
X, Y = tf.reshape(train.images, [-1, 64]), tf.one_hot(train.labels, 10)


def gradient(w):  # of the mean cross-entropy, [64, 10]
    return tf.matmul(X, tf.nn.softmax(X @ w) - Y, transpose_a=True) / len(X)


# %% covers=["S45"]
def out_of_step(towers, rate=2.0, steps=120):  # -> the loss after that many updates, the staleness of each
    w, lock, stale = tf.Variable(tf.zeros([64, 10])), threading.Lock(), []

    def work():
        while True:
            seen, given = len(stale), w.read_value()
            time.sleep(0.002)
            g = gradient(given)
            with lock:
                if len(stale) >= steps:
                    return
                stale.append(len(stale) - seen)
                w.assign_sub(rate * g)

    team = [threading.Thread(target=work) for _ in range(towers)]
    [each.start() for each in team]
    [each.join() for each in team]
    return float(tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(Y, X @ w))), stale


# %% tags=["show"] covers=["S45"]
chart, area = pictures.plot(title="Out of step at rate 2: five runs of each", x="updates old, on average", y="loss")
area.set_yscale("log")
area.minorticks_off()
area.set_yticks([0.1, 0.2, 0.5, 1, 2, 5], [0.1, 0.2, 0.5, 1, 2, 5])
words = []
for shape, towers in zip("osD^", (1, 2, 4, 8), strict=True):
    runs = [out_of_step(towers) for _ in range(5)]
    ages, losses = [np.mean(stale) for _, stale in runs], [loss for loss, _ in runs]
    area.plot(
        ages,
        losses,
        shape,
        color=pictures.PALETTE[0],
        markeredgecolor=pictures.INK,
        label=f"{towers} thread{'s' * (towers > 1)}",
    )
    words.append(f"{towers} threads {np.mean(ages):.1f} updates old, loss {min(losses):.2g} to {max(losses):.2g}")
area.legend(frameon=False, labelcolor=pictures.INK)
pictures.render(chart, f"Loss after 120 updates at rate 2, five runs of each: {'; '.join(words)}.")

# %% [markdown]
# Only the order of the threads differs between runs. While one tower of four computes, the others update once each on average.
# At this rate one to four threads do no harm, eight do; a smaller rate bears staler gradients (chapter 09).

# %% [markdown]
# ## Explain it to a colleague
# ### Exercise: `explain` (3 points, read by a person)
# He goes from 1 GPU to 4, each with the old batch. His program, the source's, printed 0.10 sec/batch, and
# now 0.03. One GPU runs his desktop, too. He *adds* the gradients. Out of step it is faster still, but two runs differ. In
# four to six sentences: what do his two numbers say? What does each fault do? What would you change?

# %% [markdown] answer="explain" points=3 covers=["S45", "S50", "S51", "S53"]
# ### BEGIN SOLUTION
# His program divides the duration by 4, so a step takes 0.12 s: an update takes longer than before, and the four GPUs
# compute 4 × 0.10 / 0.12 = 3.3 times as many examples a second. The step waits for the slowest GPU, probably that with the
# desktop; leave it out, or give it a smaller batch and weight the average by examples. Added gradients are a mean times
# four, which works like a learning rate four times as high; Adam would hide it. He should average, and compare a few steps
# of plain SGD with one GPU on the whole batch, up to rounding. Out of step, gradients are stale by about three updates, in
# an order that no two runs share; that needs a smaller rate, and a test cannot compare its weights.
#
# **Rubric.** One point for each, half a point where the reason is missing.
#
# - *The numbers* (1): 0.03 is a duration divided by 4; an update takes 0.12 s, and throughput is 3.3 times. Earns: "The
#   towers ran at the same time, so it must not be divided." Does not: "3.3 times faster", without the duration.
# - *Sum and test* (1): the sum is a rate four times as high; equality with one device on the whole batch, plain SGD. Earns:
#   "Compare the weights after one SGD step." Does not: "Look at the accuracy."
# - *Slowest and stale* (1): the slowest GPU sets the pace in step; out of step gradients are old, and the order is chance.
#   Earns: "Each gradient is about three updates old." Does not: "Threads are random."
# ### END SOLUTION

# %% [markdown]
# ## Recipe
# ```python
# mine = tf.data.TFRecordDataset(path).shard(n, k).map(parse).shuffle(1000).batch(size)
# with tf.device(device):  # the backward pass, too
#     with tf.GradientTape() as tape:
#         loss = ...
#     gradients = tape.gradient(loss, model.trainable_variables)
# # on the CPU: weight by examples, not by towers; then apply
# # test: a few steps of SGD against one device on the whole batch, to 1e-6
# # speed: without the first step; examples of all towers / seconds of a step
# ```
