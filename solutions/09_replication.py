# ---
# jupyter:
#   across:
#     limits: {cell_seconds: 90, notebook_seconds: 240, question_seconds: 60}
#     checker: {pids: 1024, memory_bytes: 3221225472}
#     allowed_ops: [ResourceApplyAdagrad, ResourceApplyAdagradV2, ApplyAdagrad, ApplyAdagradV2, ResourceApplyKerasMomentum, ResourceScatterSub, ResourceScatterAdd, ResourceScatterNdSub, ResourceScatterNdAdd, ScalarSummary]
#     rows: S45 S74-S75
# ---

# %% [markdown]
# # Replication
# **One graph or many, in step or not: what is gained, what goes stale?**
#
# ![The global step over seconds: it rises while a worker is killed and comes back, then falls to the
# start.](pictures/09_replication.png)
#
# Two workers train one model. Each has a *replica*: a copy of the computation, for its own batches. The variables exist
# once, on a parameter server. In 105 minutes you replicate a program, mend a lost update, see gradients grow old, and
# repair a trainer that outlives a dead worker.

# %% tags=["folded"]
from across import expecting, fresh, pictures, placement, replicas, trainers
from across.attempt import NotAttempted, attempt, call, expect, read
from across.clusters import LocalCluster

fresh.warm_up()

# %%
import contextlib
import inspect
import tempfile

import keras
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.logging.set_verbosity(v1.logging.ERROR)

# %% [markdown]
# One model for the whole chapter: three weights, which should become `TRUTH`. Each worker makes its own batches.

# %%
TRUTH = [1.0, -2.0, 3.0]


def loss_of(w, number, rows=1000):  # the weights, a batch's number -> its mean squared error
    x = tf.random.stateless_normal([rows, 3], [number, 0])
    return tf.reduce_mean(tf.square(tf.linalg.matvec(x, w) - tf.linalg.matvec(x, TRUTH)))


# %%
config = v1.ConfigProto(operation_timeout_in_ms=10_000)  # no session waits for ever

# %% tags=["show"] covers=["S74"]
cluster = LocalCluster(ps=1, worker=2, env={"CUDA_VISIBLE_DEVICES": ""})
cluster.draw()

# %% [markdown]
# ## One graph for all
# *In-graph replication*: one client builds one graph, with a replica for each worker. It averages their gradients, and
# changes the weights once.


# %% tags=["show"] covers=["S74"]
def in_one_graph(rate):
    with tf.device("/job:ps/task:0"):
        w = v1.get_variable("w", initializer=tf.zeros([3]))
    gradients = []
    for index in (0, 1):
        with tf.device(f"/job:worker/task:{index}"):
            gradients += tf.gradients(loss_of(w, index), w)
    with tf.device("/job:ps/task:0"):
        return w.assign_sub(rate * tf.add_n(gradients) / 2.0)


# %% tags=["show"] covers=["S74"]
with tf.Graph().as_default() as graph:
    train = in_one_graph(0.3)
    with v1.Session(cluster.target("worker", 0), config=config) as session:
        session.run(v1.global_variables_initializer())
        for _ in range(10):
            w = session.run(train)
        seen = placement.trace_graph(graph, train.op, session=session)
print("after 10 steps:", w)
cluster.draw(seen, title="One step of one graph")

# %% [markdown]
# 24 bytes of weights go out, 24 bytes of gradients come back. One `session.run` waits for *both* workers: they train *in
# step*. But for 100 workers the graph holds 100 replicas, and one client runs them all.

# %% [markdown]
# ## Many graphs
# *Between-graph replication*: each worker has its own client, with a small graph of one replica. Each graph says "the
# variable `w` on `ps:0`". A variable belongs to its server, so it is the same `w`.
#
# `v1.train.replica_device_setter(ps_tasks=1, worker_device=...)` is a function for `with v1.device(...)`: variables go to
# the ps, other ops to `worker_device`.

# %% [markdown]
# ### Exercise: `worker_step` (3 points)
# Build worker `index`'s graph: its only variable `w` on the ps, three weights that start at 0, and this worker's replica.
# Return the op of one step. It subtracts `rate` times the gradient of `loss_of(w, index)`. Roughly 5 lines.


# %% answer="worker_step" covers=["S74"]
def worker_step(index, loss_of, rate):  # 1, a function, 0.5 -> an op of the default graph
    ### BEGIN SOLUTION
    setter = v1.train.replica_device_setter(ps_tasks=1, worker_device=f"/job:worker/task:{index}")
    with v1.device(setter):
        w = v1.get_variable("w", initializer=tf.zeros([3]))
        (gradient,) = tf.gradients(loss_of(w, index), w)
        return w.assign_sub(rate * gradient)
    ### END SOLUTION


# %% [markdown]
# The check runs two clients: worker 0 pulls `w` halfway to 8, worker 1 a quarter of the way to 2.


# %% tags=["folded"]
def client_of(cluster, index, opened):  # worker `index`'s client, with your graph -> its session, its step, `w`
    rate = [0.5, 0.25][index]
    with tf.Graph().as_default() as graph:
        step = worker_step(index, lambda w, number: tf.reduce_sum(tf.square(w - [8.0, 2.0][number])) / 2.0, rate)
        wrong = replicas.why_no_step(step)
        expect(not wrong, f"`worker_step({index}, loss_of, {rate})` {wrong}")
        held = v1.global_variables()
        expect(len(held) == 1, f"the graph of worker {index} has {len(held)} variables; expected one, `w`")
        session = v1.Session(cluster.target("worker", index), config=config)
        opened.callback(session.close)
        if index == 0:
            session.run(held[0].initializer)
        try:
            with v1.Session(
                cluster.target("worker", 1 - index), config=config
            ) as abroad:  # nothing is left to a master
                seen = placement.trace_graph(graph, getattr(step, "op", step), session=abroad)
        except tf.errors.FailedPreconditionError:
            expect(False, "worker 0's client gave `w` a value; worker 1's has none: expected one variable for both")
    display(cluster.draw(seen, title=f"One step of worker {index}'s own graph"))
    home = {op.device for op in seen.of_type("VarHandleOp", "VariableV2")}
    expect(home == {"ps:0 CPU:0"}, f"`w` is on {', '.join(home)}; expected the ps")
    there = {op.device for op in seen.of_type("Sub")}
    expect(f"worker:{index} CPU:0" in there, f"the replica of worker {index} is on {', '.join(there) or 'no worker'}")
    return session, step, held[0]


# %% check="worker_step" points=3 covers=["S74"]
with attempt("worker_step"), contextlib.ExitStack() as opened:
    clients = [client_of(cluster, index, opened) for index in (0, 1)]
    clients[0][0].run(clients[0][2].initializer)
    for index, wanted in ((None, 0.0), (0, 4.0), (1, 3.5), (1, 3.125), (0, 5.5625)):
        other = clients[1 - index if index is not None else 0]
        if index is not None:
            clients[index][0].run(clients[index][1])
        got = other[0].run(other[2]).tolist()
        says = "at the start `w` is" if index is None else f"after a step of worker {index}, the other client reads"
        expect(got == [wanted] * 3, f"{says} {got}; wanted {wanted} three times")

# %% [markdown]
# ## Out of step: a lost update
# The check let one worker finish before the other began. So `w.assign(w - rate * gradient)` passes there, too. It fails once
# no client waits for another: training *out of step*, or *asynchronous*.
#
# A step reads a variable (a ring), computes, and writes (a square). `really` does such moments on our cluster, one after the
# other. Each worker adds 1 to `w`; worker 1 writes while worker 0 computes. Move the slider:


# %% tags=["show", "folded"]
def really(schedule, start, write):  # -> what the ps holds before the first moment, and after each
    with tf.Graph().as_default(), tf.device("/job:ps/task:0"), contextlib.ExitStack() as opened:
        w, copy = v1.get_variable("w", initializer=start), v1.placeholder(tf.float32, [])
        step = write(w, copy)
        sessions = [v1.Session(target, config=config) for target in cluster.targets["worker"]]
        for session in sessions:
            opened.callback(session.close)
        sessions[0].run(w.initializer)
        copies, held = {}, [start]
        for what, worker in schedule:
            if what == "read":
                copies[worker] = sessions[worker % 2].run(w)
            else:
                sessions[worker % 2].run(step, {copy: copies[worker]})
            held.append(float(sessions[0].run(w)))
    return held


# %% tags=["show"] covers=["S74"]
inside = [("read", 0), ("read", 1), ("write", 1), ("write", 0)]
held = really(inside, 10.0, lambda w, copy: w.assign(copy + 1.0))
replicas.walk(inside, held, adds=1.0, title="Each adds 1 to w, by assign")


# %% [markdown]
# Two clients count: each adds 1 to `b`, 200 times. One after the other, they reach 400. And at the same time?


# %% tags=["show"]
def count(target, index, adding):
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            b = v1.get_variable("b", initializer=0.0)
        with tf.device(f"/job:worker/task:{index}"):
            more = b.read_value() + 1.0
        step = b.assign_add(1.0) if adding else b.assign(more)
        with v1.Session(target, config=config) as session:
            for _ in range(200):
                session.run(step.op)


# %% tags=["show"]
def final(adding):  # what b is when two clients have counted
    with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
        b = v1.get_variable("b", initializer=0.0)
        with v1.Session(cluster.target("worker", 0), config=config) as session:
            session.run(b.initializer)
            targets = cluster.targets["worker"]
            fresh.side_by_side(count, [(targets[0], 0, adding), (targets[1], 1, adding)])
            return int(session.run(b))


# %% tags=["show"] covers=["S74"]
print("b.assign(b + 1), three times:  ", *(final(adding=False) for _ in range(3)))
print("b.assign_add(1), three times:  ", *(final(adding=True) for _ in range(3)))

# %% [markdown]
# `assign` writes a number that was computed from an *old* `b`. What others added meanwhile is overwritten: a *lost update*.
# `assign_add` sends only the 1. The server adds it to the `b` of that moment.

# %% [markdown]
# ### Exercise: `update` (2 points)
# A textbook's gradient descent: new `w` = `w` − `rate` × gradient. Out of step it loses updates. Change 1 line, so that
# what others write meanwhile stays.


# %% answer="update" covers=["S74"]
def update(w, gradient, rate):  # a variable, a tensor, a number -> an op
    ### BEGIN SOLUTION
    #: return w.assign(w - rate * gradient)
    return w.assign_sub(rate * gradient)
    ### END SOLUTION


# %% [markdown]
# The check stops worker 0 in the middle of its step. Worker 1 does a whole step. Then worker 0 goes on.

# %% check="update" points=2
with attempt("update"):
    for rate in (0.5, 0.25):
        with tf.Graph().as_default():
            with tf.device("/job:ps/task:0"):
                w = v1.get_variable("w", initializer=[10.0, 10.0])
            gradient = v1.placeholder(tf.float32, [2])
            got = update(w, gradient, rate)
            wrong = replicas.why_no_step(got)
            expect(not wrong, f"`update(w, gradient, {rate})` {wrong}")
            step = replicas.Halfway(got)
            targets = cluster.targets["worker"]
            with v1.Session(targets[0], config=config) as first, v1.Session(targets[1], config=config) as second:
                first.run(w.initializer)
                first.run(step.step, {gradient: [4.0, 4.0]})
                alone, wanted = first.run(w).tolist(), [10.0 - 4.0 * rate] * 2
                says = f"w is [10, 10]; after one step with gradient [4, 4] and rate {rate}"
                expect(alone == wanted, f"{says} it is {alone}; wanted {wanted}")
                kept = step.stop(first, {gradient: [4.0, 4.0]})
                second.run(step.step, {gradient: [8.0, 8.0]})
                step.go_on(first, kept, {gradient: [4.0, 4.0]})
                got = first.run(w).tolist()
        says = f"w was {wanted}. Worker 1 took {8 * rate:g} away from each, worker 0 took {4 * rate:g} away,"
        lost, both_taken = ([10.0 - gone * rate] * 2 for gone in (8.0, 16.0))
        expect(got != lost, f"{says} and w is {got}: worker 1's update is lost")
        expect(got == both_taken, f"{says} and w is {got}; expected both to be taken away")

# %% [markdown]
# ### What changed: `assign_add`
# `b.assign_add(1)` of a `tf.Variable` adds on the server. The method of a *Keras* variable has the same name:

# %% tags=["show"] covers=["S74"]
print(inspect.getsource(keras.Variable.assign_add))

# %% [markdown]
# It reads, adds, and assigns: out of step, the step counter of a Keras optimizer loses counts. And the weights? Here is what
# each optimizer does to a weight and to its own *slots*:


# %% tags=["show"] covers=["S74"]
def writes(optimizer):  # -> the op that changes each variable, by name
    weight = keras.Variable([1.0], name="weight")
    optimizer.build([weight])
    step = tf.function(lambda: optimizer.apply([tf.constant([1.0])], [weight])).get_concrete_function().graph
    held = {id(each.value.handle): each.name for each in (weight, *optimizer.variables)}
    name = {inside.name: held.get(id(outside)) for outside, inside in step.captures}
    changing = [op for op in step.get_operations() if op.type.startswith("Assign")]
    return {name[op.inputs[0].name]: op.type.removesuffix("VariableOp") for op in changing}


# %% tags=["show"] covers=["S74"]
optimizers = keras.optimizers
for optimizer in (optimizers.SGD(0.1), optimizers.SGD(0.1, momentum=0.9), optimizers.Adam(), optimizers.Ftrl()):
    print(f"{type(optimizer).__name__:5}", *(f"{name}: {op};" for name, op in writes(optimizer).items()))

# %% [markdown]
# SGD and Adam add to the weight on its server. `Ftrl` assigns it, and so does a weight's `constraint`; the momentum of SGD is
# assigned, too. Out of step, those updates can be lost.
#
# This is so for today's *resource* variables.

# %% [markdown]
# ## Stale gradients
# No update is lost now. But worker 0's gradient was computed from a `w` that is no longer there: it is *stale*. Its
# *staleness* is the number of writes between its read and its write: 1 in the picture above, and 0 for worker 1.

# %% [markdown]
# ### Exercise: `replay` (3 points)
# Say what a schedule does, without a cluster. The loss is w²/2, so the gradient is the `w` that the worker *has read* last. A
# write subtracts `rate` × gradient from the `w` of that moment. Return `(w after it, its staleness)` for each write. There may
# be more than two workers. Roughly 6 lines are missing.


# %% answer="replay" covers=["S74"]
def replay(schedule, w, rate):  # [("read", 0), ("write", 0), ...], 8.0, 0.5 -> [(4.0, 0), ...]
    ### BEGIN SOLUTION
    #: copies, writes = {}, []  # what each worker has read; what to return
    #: for what, worker in schedule:
    #:     raise NotImplementedError("your turn")
    #: return writes
    copies, writes = {}, []
    for what, worker in schedule:
        if what == "read":
            copies[worker] = w, len(writes)
        else:
            copy, seen = copies[worker]
            w = w - rate * copy
            writes.append((w, len(writes) - seen))
    return writes
    ### END SOLUTION


# %% check="replay" points=3
with attempt("replay"):
    one_after_the_other = [("read", 0), ("write", 0), ("read", 1), ("write", 1)]
    three_inside = [("read", 0), *[("read", 1), ("write", 1)] * 3, ("write", 0)]
    read_again = [("read", 0), ("read", 1), ("write", 1), ("read", 0), ("write", 0)]
    crossed = [("read", 0), ("read", 2), ("write", 0), ("write", 2)]
    rows = expecting.list_of(expecting.row(expecting.number, expecting.whole))
    rows = rows.named("a list of pairs: w after the write, its staleness")
    for schedule, rate in ((one_after_the_other, 0.5), (crossed, 0.75), (read_again, 0.625), (three_inside, 0.75)):
        got = call(replay, list(schedule), 8.0, rate, returns=rows)
        display(replicas.draw(schedule, title=f"replay(..., 8.0, {rate}) is {got}"))
        moments = really(schedule, 8.0, lambda w, copy, rate=rate: w.assign_sub(rate * copy))[1:]
        held = [w for (what, _), w in zip(schedule, moments, strict=True) if what == "write"]
        expect([w for w, _ in got] == held, f"`w` after each write: you say {[w for w, _ in got]}, the ps held {held}")
        steps = replicas.steps_of(schedule)
        stale = [sum(start < other < end for _, _, other in steps) for _, start, end in steps]
        for number, ((_, each), right) in enumerate(zip(got, stale, strict=True), start=1):
            expect(each == right, f"the staleness of write {number} is not {each}")

# %% [markdown]
# In the last picture, `w` jumps beyond 0, its best value. Stale gradients act like a rate that is too large.

# %% [markdown]
# ## How stale is too stale?
# With n workers of one speed, the staleness is up to about n − 1: while one computes, each other one may write once. One
# process can imitate that: a gradient stays *under way* for `delay` steps before it is applied.

# %% [markdown]
# ### Exercise: `late_steps` (3 points)
# For each batch, compute the loss (the mean squared error) and its gradients at the weights of now. They are then under
# way. Once more than `delay` are, subtract `rate` times the oldest from the weights. What is under way at the end stays
# there. Return the losses. Roughly 7 lines are missing.
#
# <details><summary>Hint</summary>
#
# `tape.gradient(loss, model.trainable_variables)` is a list, in the order of these variables. `under_way.pop(0)` takes the
# oldest.
# </details>


# %% answer="late_steps" covers=["S74"]
def late_steps(model, batches, rate, delay):  # a Keras model, [(x, y), ...], 0.1, 3 -> [loss, ...]
    ### BEGIN SOLUTION
    #: under_way, losses = [], []
    #: for x, y in batches:
    #:     raise NotImplementedError("your turn")
    #: return losses
    under_way, losses = [], []
    for x, y in batches:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x) - y))
        losses.append(float(loss))
        under_way.append(tape.gradient(loss, model.trainable_variables))
        if len(under_way) > delay:
            for variable, gradient in zip(model.trainable_variables, under_way.pop(0), strict=True):
                variable.assign_sub(rate * gradient)
    return losses
    ### END SOLUTION


# %%
def regression(seed, steps=30):  # a Keras model with one layer, and batches of what it should learn
    tf.keras.utils.set_random_seed(seed)
    model = tf.keras.Sequential([tf.keras.layers.Input([3]), tf.keras.layers.Dense(1)])
    xs = tf.random.stateless_normal([steps, 32, 3], [seed, 1])
    return model, [(x, tf.linalg.matvec(x, TRUTH)[:, None]) for x in xs]


# %% check="late_steps" points=3 covers=["S45"]
with attempt("late_steps"):
    model = tf.keras.Sequential([tf.keras.layers.Input([1]), tf.keras.layers.Dense(1)])
    batches = [(tf.constant([[1.0], [1.0], [-2.0]]), tf.constant([[3.0], [3.0], [0.0]]))] * 4
    cases = (0, [48, 4, 1, 0.25], [1, 2.25]), (1, [48, 48, 4, 32], [-3, 1]), (2, [48, 48, 48, 4], [-3, 2])
    for delay, wanted, last in cases:
        model.set_weights([np.array([[5.0]]), np.array([6.0])])
        says = f"with w = 5, b = 6, a loss of 2(w - 1)² + (b - 2)², rate 0.25 and delay {delay}"
        losses = read(
            late_steps(model, list(batches), 0.25, delay), f"{says} you return", expecting.list_of(expecting.number)
        )
        expect(
            np.allclose(losses, wanted) if len(losses) == 4 else False,
            f"{says} your losses are {losses}; wanted {wanted}",
        )
        ends = [float(np.ravel(each)[0]) for each in model.get_weights()]
        expect(np.allclose(ends, last), f"{says} w and b end at {ends}; wanted {last}")
    layers = [tf.keras.layers.Dense(4, "tanh"), tf.keras.layers.Dense(2)]
    model = tf.keras.Sequential([tf.keras.layers.Input([3]), *layers])
    x, y = (tf.random.stateless_normal([5, size], [size, 1]) for size in (3, 2))
    start, says = model.get_weights(), "with two layers, two outputs, five rows in a batch, rate 0.125 and delay 0"
    losses = read(
        late_steps(model, [(x, y)] * 3, 0.125, 0), f"{says} you return", expecting.list_of(expecting.number, 3)
    )
    ends = model.get_weights()
    model.set_weights(start)
    model.compile(tf.keras.optimizers.SGD(0.125), "mse")
    wanted = model.fit(x, y, batch_size=5, epochs=3, verbose=0).history["loss"]
    seen, of_keras = (np.round(each, 3).tolist() for each in (losses, wanted))
    expect(np.allclose(losses, wanted, rtol=1e-3), f"{says} your losses are {seen}; those of Keras are {of_keras}")
    alike = [
        np.allclose(one, other, rtol=1e-3, atol=1e-4) for one, other in zip(ends, model.get_weights(), strict=True)
    ]
    expect(all(alike), f"{says} your weights do not end where those of Keras do")
    figure, axes = pictures.plot(7.5, 3.2, title="Five seeds for each delay", x="step", y="loss (logarithmic)")
    for number, delay in enumerate((0, 1, 3, 7)):
        for seed in range(5):
            losses = late_steps(*regression(seed), 0.15, delay)
            line = {"color": pictures.PALETTE[number], "linestyle": ("-", "--", "-.", ":")[number], "linewidth": 1.1}
            axes.semilogy(losses, label=f"delay {delay}" if seed == 0 else None, **line)
    axes.legend(frameon=False, labelcolor=pictures.INK)
    display(pictures.render(figure, "Loss by step, five seeds each, for delays of 0, 1, 3 and 7 steps."))

# %% [markdown]
# The rate and the batches are the same. A delay of 1 helps here, as a larger rate would. A long delay makes training
# unsteady, or lets it run away. Then a smaller rate helps.

# %% [markdown]
# *A good place to stop.*

# %% [markdown]
# ## Who waits for a slow worker?
# `replicas.slow` makes a worker slow: it sleeps after it has read `w`, before its gradient is there. The worker notes when
# it began and ended, by its own clock, and how many steps it saw.


# %% tags=["show"]
def replica(index, w, steps, pause):  # -> its gradient, what it notes
    with tf.device(f"/job:worker/task:{index}"):
        began, seen = tf.timestamp(), steps.read_value()
        (gradient,) = tf.gradients(loss_of(w, seen), w)
        gradient = replicas.slow(gradient, pause if index == 1 else 0.0)  # seconds
        with tf.control_dependencies([gradient]):
            return gradient, [began, tf.timestamp(), seen]


# %% [markdown]
# In step, one client has both replicas. Out of step, two clients have one each. They begin together, and train for a second.


# %% tags=["show"]
def client(target, indices, pause):
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            w = v1.get_variable("w", initializer=tf.zeros([3]))
            steps, ready = (v1.get_variable(name, initializer=0) for name in ("steps", "ready"))
        gradients, notes = zip(*(replica(index, w, steps, pause) for index in indices), strict=True)
        train = w.assign_sub(0.1 * tf.add_n(gradients) / len(indices))
        with tf.device("/job:ps/task:0"), tf.control_dependencies([train]):
            after = steps.assign_add(1)
        with v1.Session(target, config=config) as session:
            return replicas.timed(session, [after, *notes], 1.0, ready, clients=2 // len(indices))


# %% tags=["show", "folded"]
def both(in_step, pause):  # when all have begun; {"worker:0": [(from, to, staleness), ...], "worker:1": ...}
    with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
        held = [v1.get_variable("w", initializer=tf.zeros([3]))]
        held += [v1.get_variable(name, initializer=0) for name in ("steps", "ready")]
        with v1.Session(cluster.target("ps", 0), config=config) as session:
            session.run([each.initializer for each in held])
    targets = cluster.targets["worker"]
    asked = [(targets[0], [0, 1], pause)] if in_step else [(targets[i], [i], pause) for i in (0, 1)]
    runs = fresh.side_by_side(client, asked)
    steps = {}
    for index in (0, 1):
        noted = [(after, notes[index if in_step else 0]) for after, *notes in runs[0 if in_step else index].values]
        steps[f"worker:{index}"] = [(began, ended, int(after - 1 - seen)) for after, (began, ended, seen) in noted]
    return max(run.start for run in runs), steps


# %% [markdown]
# ### Exercise: `guesses` (1 point)
# `worker:1` sleeps 0.2 seconds in each step. Does `worker:0` do several steps meanwhile? Write `"goes on"` or `"waits"`.
# Are the gradients of `worker:1` `"fresh"`, or is one of them `"stale"`? Any complete guess earns the point. Then run the
# check, which measures.

# %% answer="guesses" covers=["S45"]
### BEGIN SOLUTION
guesses = {
    "in step: worker:0": "waits",
    "in step: worker:1's gradients": "fresh",
    "out of step: worker:0": "goes on",
    "out of step: worker:1's gradients": "stale",
}
#: guesses = {
#:     "in step: worker:0": None,
#:     "in step: worker:1's gradients": None,
#:     "out of step: worker:0": None,
#:     "out of step: worker:1's gradients": None,
#: }
### END SOLUTION

# %% check="guesses" points=1 covers=["S45"]
with attempt("guesses", done="recorded before it was measured"):
    if isinstance(guesses, dict) and not any(guesses.values()):
        raise NotAttempted("guesses: not attempted yet. Replace each None by a word.")
    words = {"worker:0": ["goes on", "waits"], "worker:1's gradients": ["fresh", "stale"]}
    kinds = {f"{mode}: {of}": expecting.one_of(words[of]) for mode in ("in step", "out of step") for of in words}
    said = read(guesses, "`guesses` is", expecting.entries(kinds))
    for mode in ("in step", "out of step"):
        (_, before), (start, now) = (both(mode == "in step", pause) for pause in (0.0, 0.2))
        display(replicas.draw_steps(now, title=f"Training {mode}: each step's staleness", start=start, seconds=0.7))
        meanwhile = [sum(a <= begin and end <= b for begin, end, _ in now["worker:0"]) for a, b, _ in now["worker:1"]]
        oldest = max(stale for _, _, stale in now["worker:1"])
        measured = {"worker:0": "goes on" if max(meanwhile) > 1 else "waits"}
        measured["worker:1's gradients"] = "stale" if oldest else "fresh"
        for of, seen in measured.items():
            guess = said[f"{mode}: {of}"]
            print(f"{mode}: {of}: you said {guess}, it was {seen}{'' if guess == seen else '  <- a surprise'}")
        for worker in now:
            print(f"   {worker}: {len(before[worker])} steps in a second; {len(now[worker])} when worker:1 is slow")

# %% [markdown]
# <details><summary>What was measured</summary>
#
# In step, the slowest worker sets the pace of all. Out of step nobody waits. While `worker:1` sleeps, `worker:0` writes: each
# gradient of the slow worker is old.
# </details>

# %% [markdown]
# ## Then: in step, between graphs
# Can separate clients train in step? In 2017 by `SyncReplicasOptimizer`: the ps collects gradients, and applies them when
# there are enough, here two. We start *one* worker of two, the chief, which also applies them. Does it wait?


# %% tags=["show"] covers=["S74"]
def alone(target):
    v1.Session.reset(target)  # the queues of an earlier run stay on the servers, closed
    v1.logging.set_verbosity(v1.logging.ERROR)
    with tf.Graph().as_default():
        with v1.device(v1.train.replica_device_setter(ps_tasks=1)):
            w = v1.get_variable("w", initializer=tf.zeros([3]))
            step = v1.train.get_or_create_global_step()
            plain = v1.train.GradientDescentOptimizer(0.3)
            in_step = v1.train.SyncReplicasOptimizer(plain, 2, 2)  # gradients, workers
            train = in_step.minimize(loss_of(w, 0), global_step=step)
        soon = v1.ConfigProto(operation_timeout_in_ms=1_500)
        creator = v1.train.ChiefSessionCreator(master=target, config=soon)
        hooks = [in_step.make_session_run_hook(is_chief=True)]
        with v1.train.MonitoredSession(creator, hooks) as session:
            return [int(session.run([train, step])[1]) for _ in range(12)]


print("the global step at each step:", *fresh.run(alone, cluster.target("worker", 0)))

# %% [markdown]
# It does not: it gave both gradients itself. The optimizer counts *gradients*, not workers. A fast worker can fill in for a
# slow one.

# %% [markdown]
# ## The trainer of 2017
# A page of that year holds a worker's usual program: asynchronous, between-graph, with flags. Each task is started with its
# own command line:

# %% tags=["show"] covers=["S75"]
hosts = {"ps": ["a:2222", "b:2222"], "worker": ["c:2222", "d:2222"]}
for job, index in (("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1)):
    print("trainer.py", *trainers.command(hosts, job, index, "/logs", 200)[:4], "...")

# %% [markdown]
# A *supervisor* makes the session. Worker 0 is the *chief*: its supervisor initialises the variables, or restores them from
# a checkpoint, and saves them now and then. The others wait for it.


# %%
def model():  # in the trainer's graph -> the global step, the op of one training step
    step = v1.train.get_or_create_global_step()
    w = v1.get_variable("w", initializer=tf.zeros([3]))
    loss = loss_of(w, tf.cast(step, tf.int32), rows=20_000)
    return step, v1.train.AdagradOptimizer(0.1).minimize(loss, global_step=step)


# %%
def supervised(step, logdir, is_chief):
    patience = {"save_model_secs": 60, "recovery_wait_secs": 1}  # seconds
    return v1.train.Supervisor(is_chief=is_chief, logdir=logdir, global_step=step, **patience)


# %%
def patient(task):  # a session waits 10 seconds, and for nobody but the ps and its own task
    return v1.ConfigProto(operation_timeout_in_ms=10_000, device_filters=["/job:ps", task])


# %% [markdown]
# ### Exercise: `trainer` (4 points)
# A machine has damaged the page: `worker_hosts(",")`. Repair the hosts, and fill in three `...`. A ps only waits. Worker 0
# is the chief. A worker's session is on its own server.
#
# It trains until the *global* step, which counts the steps of all workers, has reached `last_step`. A step that another
# worker is in then still counts. A worker that comes later does one step at most. Leave the rest as it is.


# %% answer="trainer" covers=["S75"]
def trainer(flags):
    ### BEGIN SOLUTION
    #: spec = {"ps": flags.ps_hosts.split(","), "worker": flags.worker_hosts(",")}
    #: server = tf.distribute.Server(spec, flags.job_name, flags.task_index)
    #: if ...:
    #:     server.join()
    #: task = f"/job:worker/task:{flags.task_index}"
    #: setter = v1.train.replica_device_setter(worker_device=task, cluster=spec)
    #: with tf.Graph().as_default(), v1.device(setter):
    #:     step, train = model()
    #:     supervisor = supervised(step, flags.logdir, is_chief=...)
    #:     done = 0
    #:     with supervisor.managed_session(..., config=patient(task)) as session:
    #:         while not supervisor.should_stop() and done < flags.last_step:
    #:             _, done = session.run([train, step])
    #:     supervisor.stop()
    #: return int(done)
    spec = {"ps": flags.ps_hosts.split(","), "worker": flags.worker_hosts.split(",")}
    server = tf.distribute.Server(spec, flags.job_name, flags.task_index)
    if flags.job_name == "ps":
        server.join()
    task = f"/job:worker/task:{flags.task_index}"
    setter = v1.train.replica_device_setter(worker_device=task, cluster=spec)
    with tf.Graph().as_default(), v1.device(setter):
        step, train = model()
        supervisor = supervised(step, flags.logdir, is_chief=flags.task_index == 0)
        done = 0
        with supervisor.managed_session(server.target, config=patient(task)) as session:
            while not supervisor.should_stop() and done < flags.last_step:
                _, done = session.run([train, step])
        supervisor.stop()
    return int(done)
    ### END SOLUTION


# %% [markdown]
# The check tries your program as three tasks. Then four processes run it. At step 100 `worker:1` is killed, at step 300 the
# chief. Each is started again, at least 50 steps later.

# %% check="trainer" points=4 covers=["S75"]
with attempt("trainer"), tempfile.TemporaryDirectory() as logs:
    if ... in getattr(getattr(trainer, "__code__", None), "co_consts", ()):
        raise NotAttempted("trainer: not attempted yet. Repair the hosts, and replace each `...`.")

    def program(spec, job, index, last_step=1000):
        v1.disable_eager_execution()  # as in 2017: the supervisor's threads expect it
        return trainer(trainers.flags_of(trainers.command(spec, job, index, logs, last_step)))

    lasts = {("ps", 1): 4, ("worker", 0): 6, ("worker", 1): 4}  # the second worker comes too late
    found = trainers.rehearse(
        lambda *task: program(*task, last_step=lasts[task[1:]]), {"ps": 2, "worker": 3}, list(lasts)
    )
    for (task, last), tried in zip(lasts.items(), found, strict=True):
        (job, index), says = task, f"as {task[0]}:{task[1]}, `trainer`"
        expect(not tried.unsplit, f"{says} did not split all hosts: a server wants a list of them")
        expect(
            tried.made == [(True, job, index)], f"{says} did not make one server, its own, of the cluster in its flags"
        )
        expect(
            tried.joined == (job == "ps"),
            f"{says} {'waits' if tried.joined else 'did not wait'} in `join`: only a ps does",
        )
        if job == "ps":
            continue
        expect(tried.masters[-1:] == [f"worker:{index}"], f"{says} has its session on another server than its own")
        expect(tried.led == (index == 0), f"{says} was {'the' if tried.led else 'no'} chief; the chief is task 0")
        late, reached = (tried.before or 0) > last, max(last, tried.before or 0)
        words = f"the global step was {tried.before}, `last_step` {last}: {says}"
        expect(tried.step in (reached, reached + 1), f"{words} stopped when it was {tried.step}")
        expect(tried.returned in (reached, reached + late), f"{words} returned {tried.returned}; expected {reached}")
    with (
        LocalCluster(program, ps=2, worker=2, env={"CUDA_VISIBLE_DEVICES": ""}) as four,
        replicas.watching(four) as watch,
    ):
        for index, at in ((1, 100), (0, 300)):
            watch.reach(at)
            four.kill("worker", index)
            watch.mark(f"worker:{index} killed")
            watch.reach(at + 50)
            four.restart("worker", index)
            watch.mark(f"worker:{index} back")
        ends = [four.result("worker", index, 60.0) for index in (0, 1)]
    display(replicas.draw_progress(watch.seen, watch.marks, title="Four processes, one trainer"))
    print("the two workers ended at the global steps", *ends)

# %% [markdown]
# Without `worker:1` the run went on: the variables are on the ps. Without the chief, too. A worker that comes back joins
# as soon as its process is up. But the chief began with its last checkpoint, here that of the start, and wrote it over the living
# variables: the global step fell.

# %% [markdown]
# ## Now: a coordinator
# Today one program, the *coordinator*, holds the loop. Its strategy puts the variables on the ps. It hands each step to a
# worker that is free, out of step.


# %% tags=["show"]
def descend(w, done):  # one step of one worker
    with tf.GradientTape() as tape:
        loss = loss_of(w, done.read_value())
    w.assign_sub(0.1 * tape.gradient(loss, w))
    done.assign_add(1)


# %% tags=["show"] covers=["S75"]
def coordinated(spec, job, index):
    v1.logging.set_verbosity(v1.logging.FATAL)
    if job != "chief":
        threads = v1.ConfigProto(inter_op_parallelism_threads=4)  # with 1, a worker waits for itself
        tf.distribute.Server(spec, job, index, config=threads).join()
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer="grpc")
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    with strategy.scope():
        w, done = tf.Variable(tf.zeros([3])), tf.Variable(0)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    step = tf.function(lambda: strategy.run(descend, (w, done)), autograph=False)
    for number in range(1, 6):
        for _ in range(40):
            coordinator.schedule(step)
        coordinator.join()  # waits for all that was handed out
        print(f"round {number}: {int(done)} steps", flush=True)
    return int(done), w.numpy()


# %% [markdown]
# After round 2 we kill a worker. Nobody tells the coordinator.


# %% tags=["show"] covers=["S74", "S75"]
tasks = {"chief": 1, "ps": 2, "worker": 2}
with LocalCluster(coordinated, **tasks, env={"CUDA_VISIBLE_DEVICES": ""}) as coordinating:
    replicas.wait_for(coordinating, "chief", "round 2")
    coordinating.kill("worker", 1)
    replicas.wait_for(coordinating, "chief", "round 4")
    coordinating.restart("worker", 1)
    done, weights = coordinating.result("chief", 0, 30.0)
    display(coordinating.logs("chief"))
print(f"steps: {done}; the weights: {weights}")

# %% [markdown]
# The run goes on. A dead worker's step is done again, so there may be one more than 200.

# %% [markdown]
# ## Then and now
#
# | | then | now |
# |---|---|---|
# | in-graph | one client, `tf.device` for each replica | the same; `MirroredStrategy` on one machine |
# | between-graph, out of step | `replica_device_setter`, a client on each worker | `ParameterServerStrategy`, one coordinator |
# | between-graph, in step | `SyncReplicasOptimizer` | `MultiWorkerMirroredStrategy`, in chapter 13 |
# | a worker dies | supervisor, checkpoints | another worker does its step |

# %% [markdown]
# ### Exercise: `explain` (3 points, read by a person)
# A colleague trains with plain SGD, out of step, on 4 workers, and it works. With 32, the loss jumps about and grows. "Some updates get
# lost", he says, and wants to train in step. One of his machines is slow. In four to six sentences: Is he right about lost
# updates? What else happens with 32? What would training in step cost?

# %% [markdown] answer="explain" points=3 covers=["S45", "S74"]
# ### BEGIN SOLUTION
# Plain SGD subtracts from the variable on its server, in one operation there, so no update is lost just because another worker
# writes in between. What grows is the staleness. With 32 workers about 31 others write between a worker's read and its write,
# and a gradient for weights of 31 steps ago acts like a rate that is far too large. A smaller rate, or fewer workers, would
# help. In step each gradient is fresh, but each step waits for the slowest machine, so that all 32 go at its pace; he could
# leave it out, or collect fewer gradients than there are workers.
#
# **Rubric.** One point for each, half a point where the reason is missing.
#
# - *No lost updates* (1): the server itself subtracts; only a program that assigns what it computed from an old value loses
#   updates. Earns: "assign_sub adds up whatever others do." Does not: "TensorFlow locks the variable while a worker computes."
# - *Staleness* (1): it grows with the number of workers, and asks for a smaller rate. Earns: "Each gradient is about 31 writes
#   old." Does not: "32 workers are too many for the network."
# - *In step* (1): no stale gradients, and the slowest sets the pace of all. Earns: "All wait for the slow one at each step."
#   Does not: "In step is always better."
# ### END SOLUTION

# %% [markdown]
# ## Recipe
# ```python
# w.assign_sub(rate * gradient)  # w.assign(w - rate * gradient) loses updates, out of step
# # in step: one graph, or MultiWorkerMirroredStrategy; all wait for the slowest
# # out of step: nobody waits; more workers, older gradients, smaller rate
# strategy = tf.distribute.ParameterServerStrategy(resolver)
# coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
# coordinator.schedule(step)     # a tf.function, for a free worker; again if that one dies
# coordinator.join()             # waits for all that was handed out
# ```
