# ---
# jupyter:
#   across:
#     limits: {cell_seconds: 60, notebook_seconds: 180, question_seconds: 30}
#     checker: {pids: 1024, memory_bytes: 3221225472}
#     allowed_ops: [DynamicPartition, ParallelDynamicStitch, LowerBound, UpperBound, Bucketize, TensorScatterUpdate, TensorScatterAdd, TensorScatterSub, TensorScatterMax, TensorScatterMin, Unique, SqrtGrad, ResourceScatterSub, ResourceScatterAdd, ResourceScatterUpdate]
#     rows: S39-S43 S73
# ---

# %% [markdown]
# # Sharded variables
# **Where do the parameters live when one server is too small?**
#
# ![Three parameter servers, two workers: in one forward pass the first server sends 7.85 MB to one
# worker.](pictures/08_sharded_variables.png)
#
# A parameter server sends its weights to each worker, in each step. Its network can become the slowest part. In 95 minutes
# you spread a Keras model over servers, write a rule for that, cut a table into parts, and count the bytes of a training step.

# %% tags=["folded"]
from across import balance, clusters, expecting, fresh, pictures, placement, traffic
from across.attempt import NotAttempted, attempt, call, expect, read
from across.clusters import LocalCluster

fresh.warm_up()

# %%
import time

import numpy as np
import tensorflow as tf

tf.get_logger().setLevel("WARNING")  # a strategy says much when it starts
v1 = tf.compat.v1
config = v1.ConfigProto(operation_timeout_in_ms=30_000)
config.graph_options.optimizer_options.opt_level = -1  # TensorFlow is to run the graph as written
config.graph_options.rewrite_options.disable_meta_optimizer = True

# %% [markdown]
# ## One server, a slow network
# On one machine bytes travel too fast to matter. So what a task sends to one other task is slowed to 50 MB/s, on Linux. Here
# each pair of tasks has its own cable. A real network card is shared: two workers that pull at once get about half of its
# rate each.

# %% tags=["show"] covers=["S39"]
RATE = 50e6  # bytes a second, from one task to one other
PS = [f"/job:ps/replica:0/task:{index}/device:CPU:0" for index in range(3)]
WORKER = "/job:worker/replica:0/task:1/device:CPU:0"
cluster = LocalCluster(ps=3, worker=2, card=RATE, env={"CUDA_VISIBLE_DEVICES": ""})


def mlp():
    return tf.keras.Sequential([tf.keras.layers.Dense(700, activation="relu") for _ in range(4)])


# %% [markdown]
# A Keras model for a TensorFlow 1 session: its weights are on `ps:0`, and the worker computes.

# %% tags=["show"] covers=["S39"]
with tf.Graph().as_default():
    model = mlp()
    with tf.device("/job:ps/task:0"):
        model.build([None, 700])
    with tf.device("/job:worker/task:0"):
        out = model(tf.ones([1, 700]))


# %% [markdown]
# `traffic.count` counts the bytes of the tensors that a run sends from task to task. Five more runs are timed. A Keras weight's
# `.value` is TensorFlow's own variable. The first run can take half a minute on a busy machine.


# %% tags=["show"]
def run(model, out):  # -> {(from, to): bytes}, [seconds, ...]
    with v1.Session(cluster.target("worker", 0), graph=out.graph, config=config) as session:
        session.run([weight.value.initializer for weight in model.weights])
        sent, seconds = traffic.count(session, out.op), []
        for _ in range(5):
            start = time.perf_counter()
            session.run(out.op)
            seconds.append(time.perf_counter() - start)
    return sent, seconds


# %% tags=["show"] covers=["S39"]
sent, alone = run(model, out)
cluster.draw(sent, title="One forward pass")

# %% [markdown]
# To send them takes bytes / rate seconds. Was that the time?

# %% tags=["show"] covers=["S39"]
expected = sent["ps:0", "worker:0"] / RATE
times = {"MODEL: bytes / rate": expected, "measured": alone}
pictures.bars(times, title="All weights on ps:0", unit="seconds")

# %% [markdown]
# The products take a few milliseconds. The worker waits for one server, while two others are idle.

# %% [markdown]
# ## Taking turns
# To pin each variable by hand is tedious. `replica_device_setter` does it: a function that TensorFlow asks for the device of
# each new op. A variable goes to the next ps (parameter server), in turn. What reads or writes a variable stays with it. Other
# ops go to `/job:worker`.

# %% tags=["show"] covers=["S40", "S42"]
with tf.Graph().as_default() as turns, v1.device(v1.train.replica_device_setter(ps_tasks=2)):
    a, b, c = (v1.get_variable(name, initializer=1.0) for name in "abc")
    s = tf.add(a, b, name="s")
    with tf.device("/cpu:0"):
        p1 = tf.multiply(s, 2.0, name="p1")
        with tf.device("/task:0"):
            p2 = tf.multiply(s, 3.0, name="p2")
            d = v1.get_variable("d", initializer=1.0)

# %% tags=["show"] covers=["S40", "S42"]
for op in [v.handle.op for v in (a, b, c)] + [s.op, p1.op, p2.op, d.handle.op]:
    print(f"{op.name:3} {op.device}")

# %% [markdown]
# An inner block overrides the parts that it names, for variables, too: `d`, whose turn was `task:1`, is on `task:0`. `s` and
# `p1` have no task. The textbook says that they run on `task:0`. Chapter 07 says: on the master's task. The master is
# `worker:1` now:

# %% tags=["show"] covers=["S40", "S42"]
with v1.Session(cluster.target("worker", 1), graph=turns, config=config) as session:
    session.run([v.initializer for v in (a, b, c, d)])
    seen = placement.trace_graph(turns, [p1, p2], session=session)
seen.draw(title="The master is worker:1")

# %% [markdown]
# With `cluster=`, in place of `ps_tasks=`, TensorFlow counts the ps of a cluster itself. `worker_device=` says where the other
# ops go.

# %% [markdown]
# ### Exercise: `on_worker` (2 points)
# `model` has no variables yet: they are made when it is called. Call it so that its variables take turns over *all* ps of
# `spec`, and everything else runs on worker `index`, whoever is the master. Roughly 3 lines.


# %% answer="on_worker" covers=["S40", "S41", "S42"]
def on_worker(model, x, spec, index):  # a Keras model, a batch, {"ps": [address, ...], ...}, 1 -> model(x)
    ### BEGIN SOLUTION
    worker = f"/job:worker/task:{index}"
    with v1.device(v1.train.replica_device_setter(cluster=spec, worker_device=worker)):
        return model(x)
    ### END SOLUTION


# %% check="on_worker" points=2 covers=["S40", "S41"]
def _check_on_worker(ps, index, master):
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [1, 4], name="x")
        layers = tf.keras.Sequential([tf.keras.layers.Dense(4), tf.keras.layers.Dense(2)])
        call_ = f"`on_worker(model, x, spec, {index})` of {ps} ps"
        got = on_worker(layers, x, {**cluster.spec, "ps": cluster.spec["ps"][:ps]}, index)
        expect(tf.is_tensor(got) and got.shape == (1, 2), f"{call_} returned {got}; wanted model(x)")
        with v1.Session(cluster.target("worker", master), graph=graph, config=config) as session:
            session.run([weight.value.initializer for weight in layers.weights])
            ran = placement.trace_graph(graph, got, {x: np.ones([1, 4])}, session=session)
    display(ran.draw(title=f"{ps} ps, index {index}; the master is worker:{master}"))
    for place, weight in enumerate(layers.weights):
        at, turn = weight.value.device or "no device", f"ps:{place % ps}"
        there = tf.DeviceSpec.from_string(weight.value.device)
        right = f"{there.job}:{there.task}" == turn
        expect(right, f"{call_}: variable {place}, {weight.name}, is on {at}; its turn is {turn}")
    for op in ran.of_type("MatMul"):
        expect(op.device == f"worker:{index} CPU:0", f"{call_}: {op.name} ran on {op.device}; wanted worker:{index}")


with attempt("on_worker"):
    _check_on_worker(ps=3, index=1, master=0)
    _check_on_worker(ps=2, index=0, master=1)

# %% [markdown]
# ### Exercise: `guesses` (1 point)
# The model `mlp()`, all on one server, took the seconds above. Its variables now take turns over two servers, then over
# three. A `Dense` layer makes a kernel, then a bias. How many seconds does a forward pass take? Any complete guess earns the
# point. Then run the check, which measures.

# %% answer="guesses" covers=["S39", "S40"]
### BEGIN SOLUTION
guesses = {2: 0.157, 3: 0.078}
#: guesses = {2: None, 3: None}  # number of servers -> seconds
### END SOLUTION


# %% tags=["show"]
def spread(setter):  # a device function -> bytes, seconds
    with tf.Graph().as_default(), v1.device(setter):
        model = mlp()
        return run(model, model(tf.ones([1, 700])))


# %% check="guesses" points=1 covers=["S39", "S40"]
def _check_guesses():
    if isinstance(guesses, dict) and all(guess is None for guess in guesses.values()):
        raise NotAttempted("guesses: not attempted yet. Replace each None by a number of seconds.")
    kind = expecting.between(0, 1000).named("a number of seconds, from 0 to 1000")
    bytes_of, seconds_of, kinds = {}, {"1 server": alone}, {2: kind, 3: kind}
    for ps, guess in read(guesses, "`guesses` is", expecting.entries(kinds)).items():
        sent, seconds = spread(v1.train.replica_device_setter(ps_tasks=ps))
        bytes_of |= {f"{ps} servers: {who}": size / 1e6 for who, size in traffic.sent_by(sent).items()}
        seconds_of[f"{ps} servers"] = seconds
        it_took = np.median(seconds)
        near = abs(guess - it_took) < 0.25 * it_took
        print(f"{ps} servers: you said {guess} s, it took {it_took:.3f} s{'' if near else '  <- a surprise'}")
    display(pictures.bars(seconds_of, title="One forward pass", unit="seconds"))
    display(pictures.bars(bytes_of, title="What each server sent", unit="MB"))
    print("Kernel, bias, kernel, bias: with two servers, each kernel's turn is ps:0.")
    print("With three, the kernels happen to meet different servers.")
    print("Turns count variables; the network counts bytes.")


with attempt("guesses", done="recorded before it was measured"):
    _check_guesses()

# %% [markdown]
# ## A model of the bytes
# Before you rent servers, you want to know how much each will send through its one real card. In a training step of our
# models, each worker pulls each variable once, and sends a gradient of the same size back.

# %% [markdown]
# ### Exercise: `sends` (2 points)
# How many bytes does each ps send in a step? `variables` have a `.device`, a `.shape` and a `.dtype`; some may be on a
# worker, and do not count. There are `ps` servers and `workers` workers. Roughly 5 lines.
#
# <details><summary>Hint</summary>
#
# `tf.DeviceSpec.from_string(variable.device)` has `job` and `task`; a dtype has `size`, the bytes of one number.
# </details>


# %% answer="sends" covers=["S39"]
def sends(variables, ps, workers):  # [variable, ...], 3, 2 -> [bytes from ps:0, from ps:1, ...]
    ### BEGIN SOLUTION
    total = [0] * ps
    for variable in variables:
        home = tf.DeviceSpec.from_string(variable.device)
        if home.job == "ps":
            total[home.task] += workers * variable.shape.num_elements() * variable.dtype.size
    return total
    ### END SOLUTION


# %% [markdown]
# The check counts on the cluster: two workers, three servers, float64, a variable on a worker, and a server that has none.
# A device is written in part, or in full.


# %% check="sends" points=2 covers=["S39"]
def _check_sends():
    homes = ["/job:ps/task:0", PS[1], "/job:ps/replica:0/task:0", "/job:ps/task:1", "/job:ps/task:1/cpu:0"]
    homes.append("/job:worker/task:1")
    shapes = [[5, 9], [5, 2], [5, 4], [5, 5], [], [3]]
    pulled, variables = [], []
    with tf.Graph().as_default() as graph:
        for n, (home, shape) in enumerate(zip(homes, shapes, strict=True)):
            with tf.device(home):
                variables.append(v1.get_variable(f"w{n}", shape, tf.float64 if n == 1 else tf.float32))
        for index in (0, 1):
            with tf.device(f"/job:worker/task:{index}"):
                pulled += [tf.identity(variable).op for variable in variables[:5]]
        with v1.Session(cluster.target("worker", 0), graph=graph, config=config) as session:
            session.run([variable.initializer for variable in variables])
            counted = traffic.sent_by(traffic.count(session, pulled))
        answer = sends(list(variables), 3, 2)
    got = read(answer, "`sends(variables, 3, 2)` returned", expecting.list_of(expecting.whole, 3))
    counted = [counted.get(f"ps:{task}", 0) for task in range(3)]
    both = {
        f"ps:{task}: {who}": size[task] for task in range(3) for who, size in (("yours", got), ("counted", counted))
    }
    display(pictures.bars(both, title="Sent in one step", unit="bytes"))
    for task in range(3):
        expect(got[task] == counted[task], f"ps:{task} sent {counted[task]} bytes; `sends` says {got[task]}")
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:10"):
            far = v1.get_variable("far", [7])
        got = read(sends([far], 11, 2), "`sends([far], 11, 2)` returned", expecting.list_of(expecting.whole, 11))
    expect(got == [0] * 10 + [56], f"`far`, 28 bytes on ps:10, is all that 2 workers read; `sends` says {got}")


with attempt("sends"):
    _check_sends()

# %% [markdown]
# ## Balance
# `ps_strategy=` replaces the turns: a function that gets the op of each new variable, and returns the number of a ps. It can
# ask the op for its shape and its dtype:


# %% tags=["show"] covers=["S39"]
def first(op):
    print(op.name, tf.TensorShape(op.get_attr("shape")), op.get_attr("dtype"))
    return 0


with tf.Graph().as_default(), v1.device(v1.train.replica_device_setter(ps_tasks=2, ps_strategy=first)):
    mlp().build([None, 700])

# %% [markdown]
# ### Exercise: `balancing` (3 points)
# Return such a function for `ps` servers. A variable goes to the server that has the fewest bytes so far; of equal ones, any.
# Two functions that you return know nothing of each other. Roughly 8 lines.


# %% answer="balancing" covers=["S39"]
def balancing(ps):  # number of servers -> a function from the op of a variable to the number of its ps
    ### BEGIN SOLUTION
    held = [0] * ps

    def strategy(op):
        task = held.index(min(held))
        held[task] += tf.TensorShape(op.get_attr("shape")).num_elements() * op.get_attr("dtype").size
        return task

    return strategy
    ### END SOLUTION


# %% [markdown]
# The check measures with two servers, and draws 40 random models. The red line is a limit that Graham proved in 1966.


# %% check="balancing" points=3 covers=["S39"]
def _check_balancing():
    double = [tf.float64, tf.float32, tf.float32]
    cases = [([[9], [4], [4], [3], [1]], None), ([[1]] * 8, None), ([[5, 5], [11], [2], [4]], None)]
    kind = expecting.between(0, 1, expecting.whole).named("the number of a ps, 0 or 1")
    for shapes, dtypes in [*cases, ([[3], [4], [1]], double)]:
        had, yours = [0, 0], balancing(2)
        setter = v1.train.replica_device_setter(
            ps_tasks=2, ps_strategy=lambda op, yours=yours: read(yours(op), "your function returned", kind)
        )
        went = balance.tasks_of(setter, shapes, dtypes)
        kinds = dtypes or [tf.float32] * len(shapes)
        for shape, dtype, task in zip(shapes, kinds, went, strict=True):
            what = f"of {shapes}{' with dtypes float64, float32, float32' * bool(dtypes)}, {shape}"
            expect(had[task] == min(had), f"{what} went to ps:{task}, when the servers had {had} bytes")
            had[task] += dtype.size * int(np.prod(shape))
    bytes_of, seconds_of = {}, {}
    for name, strategy in {"turns": None, "yours": balancing(2)}.items():
        sent, seconds_of[name] = spread(v1.train.replica_device_setter(ps_tasks=2, ps_strategy=strategy))
        bytes_of |= {f"{name}: {who}": size / 1e6 for who, size in traffic.sent_by(sent).items()}
    display(pictures.bars(bytes_of, title="What each of two servers sent", unit="MB"))
    display(pictures.bars(seconds_of, title="One forward pass, two servers", unit="seconds"))
    display(balance.against_bound({"turns": lambda ps: None, "yours": balancing}, ps=4))


with attempt("balancing"):
    _check_balancing()

# %% [markdown]
# A rule that takes the emptiest server is **greedy**. Graham's limit, for m servers: the fullest holds at most the mean, plus
# 1 − 1/m times the largest variable. TensorFlow had such a strategy in `tf.contrib`, which is gone.
#
# The largest variable is still whole. A `ps_strategy` does not cut it.

# %% [markdown]
# *A good place to stop: variables are placed, their bytes counted and balanced. Tables and gradients follow.*

# %% [markdown]
# ## A table in parts
# The largest variable is often an **embedding table**: a row of numbers for each word or product. A **partitioner** cuts it
# into parts, each a variable of its own:


# %% tags=["show"] covers=["S39"]
def numbered(shape, dtype, partition_info):  # row i holds the number i, 16 times
    rows = partition_info.var_offset[0] + tf.range(shape[0])
    return tf.cast(rows[:, None], dtype) * tf.ones(shape)


with tf.Graph().as_default() as whole, v1.device(v1.train.replica_device_setter(cluster=cluster.spec)):
    cut = v1.fixed_size_partitioner(3)
    table = v1.get_variable("table", [1000, 16], initializer=numbered, partitioner=cut)

parts = list(table)
for part in parts:
    print(part.name, part.shape, part.device)

# %% [markdown]
# Rows 0 to 333 are in the first part. A worker wants rows 900, 1, 2 and 3. This is how one asked in 2017:

# %% tags=["show"] covers=["S39"]
wanted = [900, 1, 2, 3]
with whole.as_default(), tf.device("/job:worker/task:0"):
    ids = v1.placeholder(tf.int64, [4], name="ids")
    then = v1.nn.embedding_lookup(table, ids)

# %% tags=["show"] covers=["S39"]
with v1.Session(cluster.target("worker", 0), graph=whole, config=config) as session:
    session.run([part.initializer for part in parts])
    print("wanted", wanted, "got", session.run(then, {ids: wanted})[:, 0].astype(int))

# %% [markdown]
# Other rows, and no error. That function looks for row i in part i mod 3. The partitioner put rows in blocks. A model that is
# trained *and* used with that function is not harmed, as long as the number of parts stays. A table from a file is.

# %% [markdown]
# ### Exercise: `lookup` (3 points)
# Return the rows `ids` of a table that a partitioner cut into `parts`: equal blocks, the first ones a row longer. **Budget: a
# server sends only the rows asked of it.** A block around you pins to the worker. Roughly 1 line.
#
# <details><summary>Hint</summary>
#
# Today's function is in `tf.nn`. By hand: here `==` compares objects, `tf.equal` numbers.
# </details>


# %% answer="lookup" covers=["S39"]
def lookup(parts, ids):  # [variable, ...], a tensor of row numbers -> the rows
    ### BEGIN SOLUTION
    return tf.nn.embedding_lookup(parts, ids)
    ### END SOLUTION


# %% check="lookup" points=3 covers=["S39"]
def _check_lookup(length, wanted):
    with tf.Graph().as_default() as graph:
        with v1.device(v1.train.replica_device_setter(cluster=cluster.spec)):
            cut = v1.fixed_size_partitioner(3)
            pieces = list(v1.get_variable("table", [length, 16], initializer=numbered, partitioner=cut))
        with tf.device("/job:worker/task:0"):
            asked = v1.placeholder(tf.int64, [len(wanted)], name="ids")
            rows = lookup(list(pieces), asked)
    says, feed = f"of a table of {length} rows, `lookup(parts, {wanted})`", {asked: wanted}
    expect(tf.is_tensor(rows), f"{says} returned {type(rows).__name__}; wanted a tensor")
    with graph.as_default(), tf.device("/job:worker/task:0"):
        there = tf.identity(rows)
    with v1.Session(cluster.target("worker", 0), graph=graph, config=config) as session:
        session.run([piece.initializer for piece in pieces])
        try:
            got, sent = session.run(there, feed), traffic.count(session, there.op, feed)
        except tf.errors.OpError as error:
            lines = [line for line in error.message.splitlines() if "indices" in line or "evice" in line]
            expect(False, f"{says} fails: {(lines or [type(error).__name__])[0][:200]}")
    expect(np.shape(got) == (len(wanted), 16), f"{says} gave shape {np.shape(got)}; wanted {len(wanted)} rows of 16")
    expect(np.array_equal(got[:, 0], wanted), f"{says} gave the rows {got[:, 0].astype(int).tolist()}")
    display(cluster.draw(sent, title=f"{length} rows: lookup(parts, {wanted})"))
    first = np.cumsum([0, *(piece.shape[0] for piece in pieces)])
    for ps in range(3):
        size = traffic.sent_by(sent).get(f"ps:{ps}", 0)
        most = 64 * sum(first[ps] <= row < first[ps + 1] for row in wanted)
        expect(size <= most, f"{says}: ps:{ps} sent {size} bytes; the rows asked of it have {most}")


with attempt("lookup"):
    _check_lookup(1000, [900, 1, 2, 3])
    _check_lookup(7, [6, 0, 5, 2, 3])

# %% [markdown]
# ## Layers on servers, work on a worker
# Today's form, from chapter 07: connect, then pin by full names. The first layer's weights are on `ps:0`, the second's on
# `ps:1`.

# %% tags=["show"] covers=["S73"]
tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec(cluster.spec))

with tf.device(PS[0]):
    hidden = tf.keras.layers.Dense(64, activation="tanh")
    hidden.build([None, 100])
with tf.device(PS[1]):
    last = tf.keras.layers.Dense(1)
    last.build([None, 64])
network = tf.keras.Sequential([hidden, last])
x, y = tf.random.stateless_normal([32, 100], [1, 2]), tf.ones([32, 1])

# %% [markdown]
# ### Exercise: `train_step` (3 points)
# A step of gradient descent, on `worker`: `loss` is the mean squared error, each of `model.trainable_variables` loses `rate`
# times its gradient, on the server where it lives. Return the loss. **Budget: each weight travels to the worker once. Then as
# many bytes travel back**, plus at most 64. No optimizer: it makes variables. Roughly 7 lines.

# %% [markdown]
# <details><summary>Hint: too many bytes from the servers?</summary>
#
# A Keras variable's own `assign_sub` reads the variable again, and sends the new value. Its `.value` is TensorFlow's variable,
# which subtracts on its server.
# </details>


# %% answer="train_step" covers=["S73"]
def train_step(model, x, y, rate, worker):  # ..., its targets, 0.1, a device's full name -> a scalar
    ### BEGIN SOLUTION
    with tf.device(worker):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x) - y))
        gradients = tape.gradient(loss, model.trainable_variables)
        for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
            variable.value.assign_sub(rate * gradient)
    return loss
    ### END SOLUTION


# %% check="train_step" points=3 covers=["S73"]
def _check_train_step():
    def stepped(rate, y=y):  # -> what was returned, what each weight lost
        got = call(train_step, network, x, y, rate, WORKER, returns=expecting.number)
        lost = [old - new for old, new in zip(before, network.get_weights(), strict=True)]
        after = float(np.mean((network(x) - y) ** 2))
        network.set_weights(before)
        return got, after, lost

    first, before = float(np.mean((network(x) - y) ** 2)), network.get_weights()
    (got, second, lost), (_, _, twice) = stepped(0.01), stepped(0.02)
    expect(np.isclose(got, first, rtol=1e-4), f"`train_step` returned {got:.6g}; the loss before was {first:.6g}")
    for weight, one, two in zip(network.weights, lost, twice, strict=True):
        expect(np.any(one), f"the {weight.name} of shape {weight.shape} did not change")
        double = np.allclose(2 * one, two, rtol=1e-2, atol=1e-5)
        expect(
            double,
            f"with rate 0.02 the {weight.name} of shape {weight.shape} did not lose twice what it lost with 0.01",
        )
    expect(second < first, f"the loss was {first:.4g} before the step, and is {second:.4g} after it")
    pull, far = 2 * float(np.mean(network(x) - 1000 * y)), stepped(0.01, 1000 * y)[2][-1].item()
    right = np.isclose(far, 0.01 * pull, rtol=1e-3)
    expect(right, f"with targets of 1000 the last bias lost {far:.4g}; 0.01 times its gradient is {0.01 * pull:.4g}")
    hidden.trainable = False
    try:
        lost = stepped(0.01)[2]
    finally:
        hidden.trainable = True
    left = not any(np.any(each) for each in lost[:2])
    expect(left, "the weights of a layer whose `trainable` is False changed; they are no `trainable_variables`")
    seen = placement.trace(tf.function(train_step), network, x, y, 0.01, WORKER)
    network.set_weights(before)
    sent = clusters.bytes_between(seen)
    display(cluster.draw(sent, title="train_step(network, x, y, 0.01, WORKER)"))
    expect(not sent.get(("worker:1", "client"), 0) > 4, "gradients or outputs came to the notebook; see the picture")
    for ps, layer in enumerate((hidden, last)):
        size = sum(4 * int(np.prod(weight.shape)) for weight in layer.weights)
        for ends in ((f"ps:{ps}", "worker:1"), ("worker:1", f"ps:{ps}")):
            expect(sent.get(ends, 0) > 0, f"{ends[0]} sent nothing to {ends[1]}: where was that computed?")
            expect(sent[ends] <= size + 64, f"{ends[0]} sent {sent[ends]} bytes to {ends[1]}; {size} are enough")
            expect(
                sent[ends] >= size, f"{ends[0]} sent {sent[ends]} bytes to {ends[1]}; all of {size} are needed there"
            )
    for (source, target), size in sent.items():
        away = size > 64 and "worker:1" not in (source, target)
        expect(not away, f"{size} bytes went from {source} to {target}: who computed there?")


with attempt("train_step"):
    _check_train_step()

# %% [markdown]
# Weights go forward, gradients come back. The activations between the layers stay on the worker.

# %% [markdown]
# ## Today: a strategy's scope
# A `ParameterServerStrategy` (chapter 09) places variables by itself. Does it count variables, or bytes? It resets the
# notebook's connection to the cluster, so it gets a process of its own: `fresh.run`.


# %% tags=["show"] covers=["S39"]
def scope_of(spec, partitioner):  # two servers of `spec` -> MB on each; a resolver says which tasks are there
    spec = tf.train.ClusterSpec({**spec, "ps": spec["ps"][:2]})
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, rpc_layer="grpc")
    strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner)
    with strategy.scope():
        model = mlp()
        model.build([None, 700])
    held = [0.0, 0.0]
    for weight in model.weights:
        for part in getattr(weight.value, "variables", [weight.value]):
            held[tf.DeviceSpec.from_string(part.device).task] += part.shape.num_elements() * 4 / 1e6
    return held


# %% tags=["show"] covers=["S39"]
in_parts = tf.distribute.experimental.partitioners.MinSizePartitioner(min_shard_bytes=256_000, max_shards=2)
megabytes = {}
for name, partitioner in {"no partitioner": None, "in parts": in_parts}.items():
    for ps, size in enumerate(fresh.run(scope_of, dict(cluster.spec), partitioner, timeout=60)):
        megabytes[f"{name}: ps:{ps}"] = size

pictures.bars(megabytes, title="What two servers hold", unit="MB")

# %% [markdown]
# Still turns, and again all kernels on one server. A partitioner makes a **`ShardedVariable`**: here each kernel is
# cut in two, and each bias, too small, is left whole.

# %% [markdown]
# ### Exercise: `sharded_step` (3 points)
# `table` is a `ShardedVariable`; its parts are `table.variables`. Make one step of gradient descent on `worker`: the
# loss is the mean squared error of the rows `ids` and `y`; each part loses `rate` times its gradient. Return the loss. **Budget:
# only the rows asked for travel, and their gradients back.** Write no `tf.function`: the check traces it. Roughly 6
# lines.
#
# <details><summary>Hint</summary>
#
# A part's gradient is a `tf.IndexedSlices`: `values`, `indices`. A variable has `scatter_sub`.
# </details>


# %% answer="sharded_step" covers=["S39"]
def sharded_step(table, ids, y, rate, worker):  # ..., row numbers, what the rows should be, 0.5, a device -> a scalar
    ### BEGIN SOLUTION
    with tf.device(worker):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.nn.embedding_lookup(table, ids) - y))
        for part, gradient in zip(table.variables, tape.gradient(loss, table.variables), strict=True):
            part.scatter_sub(tf.IndexedSlices(rate * gradient.values, gradient.indices))
    return loss
    ### END SOLUTION


# %% tags=["show", "folded"]
def in_scope(spec, step, wanted):  # a table in two parts, four steps -> losses, column 0, {(from, to): bytes} of a step
    tasks = tf.train.ClusterSpec({**spec, "ps": spec["ps"][:2]})
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(tasks, rpc_layer="grpc")
    cut = tf.distribute.experimental.partitioners.FixedShardsPartitioner(2)
    strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=cut)
    with strategy.scope():
        table = tf.Variable(tf.zeros([1000, 64]))
    ids, y, rate = tf.constant(wanted), tf.fill([len(wanted), 64], 80.0), 16.0 * len(wanted)
    program = tf.function(lambda ids, y: step(table, ids, y, rate, WORKER))
    losses = [float(program(ids, y)) for _ in range(4)]
    rows = tf.concat([part.read_value() for part in table.variables], 0).numpy()[:, 0]
    with tf.Graph().as_default() as graph:  # the same once more for a session, whose tensors can be counted
        parts = []
        for ps in (0, 1):
            with tf.device(f"/job:ps/task:{ps}"):
                parts.append(tf.Variable(tf.zeros([500, 64])))
        before, again = graph.get_operations(), type(table)(parts)
        loss = step(again, v1.placeholder(tf.int64, [len(wanted)], "ids"), tf.ones([len(wanted), 64]), rate, WORKER)
        added = [op for op in graph.get_operations() if op not in before]
        writes = [op for op in added if "Assign" in op.type or "Scatter" in op.type or "Apply" in op.type]
        with v1.Session("grpc://" + spec["worker"][1], config=config) as session:
            session.run([part.initializer for part in parts])
            sent = traffic.count(session, [loss.op, *writes], {"ids:0": wanted})
    return losses, rows, sent


# %% check="sharded_step" points=3 covers=["S39"]
def _check_sharded_step(wanted):
    losses, rows, sent = fresh.run(in_scope, dict(cluster.spec), sharded_step, wanted, timeout=60)
    says = f"rows {wanted} of zeros should be 80, and asked for once a step halves a row's error:"
    display(cluster.draw(sent, title=f"sharded_step: rows {wanted} of 1000, in two parts"))
    error, wants = np.full(1000, 80.0), []
    for _ in losses:
        wants.append(float(np.mean(error[wanted] ** 2)))
        error[:] = error - np.bincount(wanted, error[wanted], 1000) / 2
    expect(np.allclose(losses, wants, rtol=1e-3), f"{says} your losses are {losses}; four steps down have {wants}")
    expect(np.allclose(rows, 80 - error, atol=0.01), f"{says} after four steps they are {rows[wanted].tolist()}")
    for ps in (0, 1):
        asked = sum(ps * 500 <= row < 500 + ps * 500 for row in wanted)
        for ends in ((f"ps:{ps}", "worker:1"), ("worker:1", f"ps:{ps}")):
            size, most = sent.get(ends, 0), asked * (256 + 24) + 64
            expect(size <= most, f"{ends[0]} sent {size} bytes to {ends[1]}; {asked} rows of 256 bytes were asked for")
    elsewhere = [ends for ends, size in sent.items() if size > 64 and "worker:1" not in ends]
    expect(not elsewhere, f"{elsewhere} sent more than a number; only worker:1 should compute")
    print("the losses of four steps:", *(f"{loss:.4g}" for loss in losses))


with attempt("sharded_step"):
    _check_sharded_step([900, 1, 2, 2])

# %% [markdown]
# Given `table`, `embedding_lookup` puts the whole table together first, and says nothing, outside a `tf.function` or under a
# `name` of your own. Given `table.variables` it does not.

# %% [markdown]
# ## Then and now
# The textbook's chapter ends here, unfinished. Its next subject was input: **queues**. `dequeue` waits until a thread has filled
# the queue. Those threads were *queue runners*, and a *coordinator* ended them.

# %% [markdown]
# Now a `tf.data.Dataset` does it: `interleave` reads several files by turns, `prefetch` works ahead in a thread of its own.

# %% tags=["show"] covers=["S43"]
files = tf.data.Dataset.from_tensor_slices([[10, 11, 12], [20, 21, 22]])  # two "files" of three lines
lines = files.interleave(tf.data.Dataset.from_tensor_slices, cycle_length=2).prefetch(1)
print([int(line) for line in lines])

# %% [markdown]
# | then | now |
# |---|---|
# | `replica_device_setter` | the strategy's scope; still turns |
# | `ps_strategy=`, `GreedyLoadBalancingStrategy` | none: cut large variables |
# | `partitioner=`, `PartitionedVariable` | `variable_partitioner=`, `ShardedVariable` |
# | `v1.nn.embedding_lookup`, by default "mod" | `tf.nn.embedding_lookup`, blocks only |
# | queue, queue runner, coordinator | `Dataset`, its threads |
# | a reader for each kind of file | `TextLineDataset`, `TFRecordDataset`, `interleave` |

# %% [markdown]
# ## Explain it to a colleague
# Her model makes six equal `Dense` layers, then a table as large as ten kernels, all of which each step reads. Variables take
# turns over two servers. `ps:0` sends at full rate, `ps:1` next to nothing. Earlier, her program stood still in `session.run(queue.dequeue())`.

# %% [markdown]
# ### Exercise: `explain` (3 points, read by a person)
# In four to six sentences: why is `ps:1` idle? What can a greedy strategy change, what not, and what helps? What did her
# standing program wait for, and what replaces it?

# %% [markdown] answer="explain" points=3 covers=["S39", "S40", "S43"]
# ### BEGIN SOLUTION
# Turns count variables, not bytes: kernel, bias, kernel, bias, and at last the table. So with two servers all kernels and the
# table are on ps:0, and ps:1 has the biases. A greedy strategy gives three kernels to each server, but the table is one
# variable, larger than all kernels together: whoever holds it has 13 of 16 parts. So it must be cut, by a partitioner or as a
# `ShardedVariable`, and read by `tf.nn.embedding_lookup`, which has only the rows sent that a batch asks for. The program
# that stood waited for somebody to fill the queue: no queue runner, a thread, had been started. Today a `tf.data.Dataset` has its own threads.
#
# **Rubric.** One point for each, half a point where the reason is missing.
#
# - *Turns* (1): turns count variables, so kernels and table meet on ps:0 and biases on ps:1. Earns: "Every second variable is
#   a bias, and those are all on ps:1." Does not: "The servers are not balanced."
# - *Greedy and the table* (1): greedy spreads the kernels, cannot cut the table; parts, and only rows asked for travel. Earns:
#   "No strategy cuts a variable; shard the table and look its rows up." Does not: "Use more servers."
# - *Queue* (1): nobody filled it: queue runners not started; now tf.data. Earns: "dequeue waits until a thread has
#   enqueued; a Dataset brings its own." Does not: "The network was slow."
# ### END SOLUTION

# %% [markdown]
# ## Recipe
# ```python
# # then: variables over the ps of `spec`, by your strategy; the rest on this worker
# strategy = balancing(len(spec["ps"]))
# v1.device(v1.train.replica_device_setter(cluster=spec, worker_device=worker, ps_strategy=strategy))
# # now: large variables in parts
# cut = tf.distribute.experimental.partitioners.MinSizePartitioner(min_shard_bytes=256_000, max_shards=2)
# strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=cut)
# # the bytes that leave a server in a step: its dense variables, times the workers
# tf.nn.embedding_lookup(table.variables, ids)  # only the rows travel
# ```
