# ---
# jupyter:
#   across:
#     limits: {cell_seconds: 90, notebook_seconds: 240, question_seconds: 60}
#     checker: {pids: 1024, memory_bytes: 3221225472}
#     allowed_ops: [ResourceApplyAdagrad, ResourceApplyAdagradV2, ApplyAdagrad, ApplyAdagradV2, ResourceApplyKerasMomentum, ResourceScatterSub, ResourceScatterAdd, ResourceScatterNdSub, ResourceScatterNdAdd]
#     rows: S45 S74-S75
# ---

# %% [markdown]
# # Replication
# **One graph or many, in step or not: what is gained, what goes stale?**
#
# Two workers train one model. Each has a *replica*: a copy of the computation, for its own batches. The variables exist
# once, on a parameter server. In 85 minutes you replicate a program, mend a lost update, see gradients grow old, and repair
# a trainer that outlives a dead worker.

# %%
from across import expecting, fresh, pictures, placement, replicas
from across.attempt import NotAttempted, attempt, call, expect, read
from across.clusters import LocalCluster

fresh.warm_up()

# %%
import argparse
import contextlib
import inspect
import tempfile
import time

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
# Build worker `index`'s graph: `w` on the ps, three weights that start at 0, and this worker's replica. Return the op of
# one step. It subtracts `rate` times the gradient of `loss_of(w, index)`. Roughly 5 lines.


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
# The check runs two clients. Each step pulls `w` halfway to the worker's own number: 8 for worker 0, 2 for worker 1.

# %% check="worker_step" points=3 covers=["S74"]
with attempt("worker_step"), contextlib.ExitStack() as opened:
    clients = []
    for index in (0, 1):
        with tf.Graph().as_default() as graph:
            step = worker_step(index, lambda w, number: tf.reduce_sum(tf.square(w - [8.0, 2.0][number])) / 2.0, 0.5)
            wrong = replicas.why_no_step(step)
            expect(not wrong, f"`worker_step({index}, loss_of, 0.5)` {wrong}")
            held = v1.global_variables()
            expect(len(held) == 1, f"the graph of worker {index} has {len(held)} variables; expected one, `w`")
            session = v1.Session(cluster.target("worker", index), config=config)
            opened.callback(session.close)
            clients.append((session, step, held[0]))
            if index == 0:
                session.run(held[0].initializer)
            try:
                seen = placement.trace_graph(graph, getattr(step, "op", step), session=session)
            except tf.errors.FailedPreconditionError:
                expect(False, "worker 0's client gave `w` a value; worker 1's has none: expected one variable for both")
        display(cluster.draw(seen, title=f"One step of worker {index}'s own graph"))
        home = {op.device for op in seen.of_type("VarHandleOp", "VariableV2")}
        expect(home == {"ps:0 CPU:0"}, f"`w` is on {', '.join(home)}; expected the ps")
        there = {op.device for op in seen.of_type("Sub")}
        expect(
            f"worker:{index} CPU:0" in there, f"the replica of worker {index} is on {', '.join(there) or 'no worker'}"
        )
    clients[0][0].run(clients[0][2].initializer)
    for index, wanted in ((None, 0.0), (0, 4.0), (1, 3.0), (1, 2.5), (0, 5.25)):
        other = clients[1 - index if index is not None else 0]
        if index is not None:
            clients[index][0].run(clients[index][1])
        got = other[0].run(other[2]).tolist()
        says = "at the start `w` is" if index is None else f"after a step of worker {index}, the other client reads"
        expect(got == [wanted] * 3, f"{says} {got}; wanted {wanted} three times")

# %% [markdown]
# ## Out of step: a lost update
# Now no client waits for another: training *out of step*, or *asynchronous*. A step reads a variable, computes, and writes.
# Here another worker writes in between:

# %% tags=["show"] covers=["S74"]
inside = [("read", 0), ("read", 1), ("write", 1), ("write", 0)]
replicas.draw(inside, title="Worker 1 writes while worker 0 computes")


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
with attempt("update"), tf.Graph().as_default():
    with tf.device("/job:ps/task:0"):
        w = v1.get_variable("w", initializer=[10.0, 10.0])
    gradient = v1.placeholder(tf.float32, [2])
    got = update(w, gradient, 0.5)
    wrong = replicas.why_no_step(got)
    expect(not wrong, f"`update(w, gradient, 0.5)` {wrong}")
    step = replicas.Halfway(got)
    targets = cluster.targets["worker"]
    with v1.Session(targets[0], config=config) as first, v1.Session(targets[1], config=config) as second:
        first.run(w.initializer)
        first.run(step.step, {gradient: [4.0, 4.0]})
        alone = first.run(w).tolist()
        says = "w is [10, 10]; after one step with gradient [4, 4] and rate 0.5"
        expect(alone == [8.0, 8.0], f"{says} it is {alone}; wanted [8, 8]")
        kept = step.stop(first, {gradient: [4.0, 4.0]})
        second.run(step.step, {gradient: [6.0, 6.0]})
        step.go_on(first, kept, {gradient: [4.0, 4.0]})
        got = first.run(w).tolist()
    says = "w was [8, 8]. Worker 1 took 3 away from each, worker 0 took 2 away,"
    expect(got != [6.0, 6.0], f"{says} and w is {got}: worker 1's update is lost")
    expect(got == [3.0, 3.0], f"{says} and w is {got}; expected both to be taken away")

# %% [markdown]
# ## Stale gradients
# No update is lost now. But worker 0's gradient was computed from a `w` that is no longer there: it is *stale*. Its
# *staleness* is the number of writes between its read and its write: 1 in the picture above, and 0 for worker 1.

# %% [markdown]
# ### Exercise: `replay` (3 points)
# Say what a schedule does, without a cluster. The loss is w²/2, so the gradient is the `w` that the worker *has read*. A
# write subtracts `rate` × gradient from the `w` of that moment. Return `(w after it, its staleness)` for each write. There may
# be more than two workers. Roughly 8 lines.


# %% answer="replay" covers=["S74"]
def replay(schedule, w, rate):  # [("read", 0), ("write", 0), ...], 8.0, 0.5 -> [(4.0, 0), ...]
    ### BEGIN SOLUTION
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


# %% tags=["show", "folded"]
def really(schedule, start, rate):  # the same on the cluster: w after each write, as the ps holds it
    with tf.Graph().as_default(), tf.device("/job:ps/task:0"), contextlib.ExitStack() as opened:
        w, copy = v1.get_variable("w", initializer=start), v1.placeholder(tf.float32, [])
        step = w.assign_sub(rate * copy)
        sessions = [v1.Session(target, config=config) for target in cluster.targets["worker"]]
        for session in sessions:
            opened.callback(session.close)
        sessions[0].run(w.initializer)
        copies, found = {}, []
        for what, worker in schedule:
            if what == "read":
                copies[worker] = sessions[worker % 2].run(w)
            else:
                found.append(float(sessions[worker % 2].run(step, {copy: copies[worker]})))
    return found


# %% check="replay" points=3
with attempt("replay"):
    one_after_the_other = [("read", 0), ("write", 0), ("read", 1), ("write", 1)]
    two_inside = [("read", 0), ("read", 1), ("write", 1), ("read", 1), ("write", 1), ("write", 0)]
    crossed = [("read", 0), ("read", 2), ("write", 0), ("write", 2)]
    rows = expecting.list_of(expecting.row(expecting.number, expecting.whole))
    rows = rows.named("a list of pairs: w after the write, its staleness")
    for schedule in (one_after_the_other, crossed, two_inside):
        got = call(replay, schedule, 8.0, 0.75, returns=rows)
        display(replicas.draw(schedule, title=f"replay(..., 8.0, 0.75) is {got}"))
        held = really(schedule, 8.0, 0.75)
        expect([w for w, _ in got] == held, f"`w` after each write: you say {[w for w, _ in got]}, the ps held {held}")
        steps = replicas.steps_of(schedule)
        stale = [sum(start < other < end for _, _, other in steps) for _, start, end in steps]
        for number, ((_, each), right) in enumerate(zip(got, stale, strict=True), start=1):
            expect(each == right, f"the staleness of write {number} is not {each}")

# %% [markdown]
# In the last picture, `w` jumps beyond 0, its best value. Stale gradients act like a rate that is too large.

# %% [markdown]
# ## How stale is too stale?
# With n workers of one speed, the staleness is about n − 1: while one computes, each other one writes once. One process can
# imitate that: a gradient stays *under way* for `delay` steps before it is applied.

# %% [markdown]
# ### Exercise: `late_steps` (3 points)
# For each batch, compute the loss (the mean squared error) and its gradients at the weights of now. They are then under
# way. Once more than `delay` are, subtract `rate` times the oldest from the weights. What is under way at the end stays
# there. Return the losses. Roughly 9 lines.


# %% answer="late_steps" covers=["S74"]
def late_steps(model, batches, rate, delay):  # a Keras model, [(x, y), ...], 0.1, 3 -> [loss, ...]
    ### BEGIN SOLUTION
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
            late_steps(model, batches, 0.25, delay), f"{says} you return", expecting.list_of(expecting.number)
        )
        expect(
            np.allclose(losses, wanted) if len(losses) == 4 else False,
            f"{says} your losses are {losses}; wanted {wanted}",
        )
        ends = [float(np.ravel(each)[0]) for each in model.get_weights()]
        expect(np.allclose(ends, last), f"{says} w and b end at {ends}; wanted {last}")
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
# ## Who waits for a slow worker?
# `paced` is one client, which steps until `until`. With `towers=[0, 1]` its graph has both replicas; with `[0]`, one. It
# notes start, end and staleness of each step.


# %% tags=["show"]
def paced(target, towers, until):  # -> [(start, end, staleness), ...]
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            w = v1.get_variable("w", initializer=tf.zeros([3]))
            steps = v1.get_variable("steps", initializer=0)
        gradients = []
        for index in towers:
            with tf.device(f"/job:worker/task:{index}"):
                before = steps.read_value()
                gradients += tf.gradients(loss_of(w, before, rows=100_000), w)
        train = w.assign_sub(0.1 * tf.add_n(gradients))
        with tf.device("/job:ps/task:0"), tf.control_dependencies([train]):
            after = steps.assign_add(1)
        with v1.Session(target, config=config) as session:
            return timed(session, [before, after], until)


# %% tags=["show"]
def timed(session, fetches, until):
    found = []
    while time.monotonic() < until or len(found) < 4:
        start = time.monotonic()
        before, after = session.run(fetches)
        found.append((start, time.monotonic(), int(after) - int(before) - 1))
    return found[1:]  # the first run prepares the graph


# %% tags=["show", "folded"]
def both(in_step):  # {"worker:0": its steps, "worker:1": its steps}, from when both have begun
    with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
        held = [v1.get_variable("w", initializer=tf.zeros([3])), v1.get_variable("steps", initializer=0)]
        with v1.Session(cluster.target("ps", 0), config=config) as session:
            session.run([each.initializer for each in held])
    targets, until = cluster.targets["worker"], time.monotonic() + 2.2
    asked = [(targets[0], [0, 1], until)] if in_step else [(targets[i], [i], until) for i in (0, 1)]
    found = fresh.side_by_side(paced, asked)
    begin = max([steps[0][0] for steps in found if steps], default=0.0)
    found = [[each for each in steps if each[0] >= begin] or steps for steps in found]
    return {"worker:0": found[0], "worker:1": found[-1]}


def pace(steps):  # steps per second
    return f"{len(steps) / (steps[-1][1] - steps[0][0]):.0f}"


# %% [markdown]
# `cluster.slowed("worker", 1, 0.3, 0.4)` stops the process of `worker:1` for 0.3 of every 0.4 seconds, as if others used
# its machine.

# %% [markdown]
# ### Exercise: `guesses` (1 point)
# While `worker:1` stands still, does `worker:0` finish steps? Write `"goes on"` or `"waits"`. Are gradients of `worker:1`
# `"fresh"`, or is one of them `"stale"`? Any complete guess earns the point. Then run the check, which measures.

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
        before = both(mode == "in step")
        with cluster.slowed("worker", 1, 0.3, 0.4) as still:
            now = both(mode == "in step")
        idle = [("worker:1 stands still", begin, end) for begin, end in still]
        display(replicas.draw_steps(now, idle, title=f"Steps {mode}, and the staleness of each"))
        meanwhile = sum(a <= start and end <= b for start, end, _ in now["worker:0"] for a, b in still)
        oldest = max((stale for _, _, stale in now["worker:1"]), default=0)
        measured = {"worker:0": "goes on" if meanwhile else "waits"}
        measured["worker:1's gradients"] = "stale" if oldest else "fresh"
        for of, seen in measured.items():
            guess = said[f"{mode}: {of}"]
            print(f"{mode}: {of}: you said {guess}, it was {seen}{'' if guess == seen else '  <- a surprise'}")
        for worker in now:
            print(f"   {worker}: {pace(before[worker])} steps per second, and {pace(now[worker])} with worker:1 slowed")

# %% [markdown]
# In step, the slowest worker sets the pace of all. Out of step nobody waits. A pause between read and write makes a gradient
# old; a pause before the read does not.

# %% [markdown]
# ## Then: in step, between graphs
# Can separate clients train in step? In 2017 by `SyncReplicasOptimizer`: the ps collects gradients, and applies them when
# there are enough, here two. We start *one* worker of two. Does it wait?


# %% tags=["show"] covers=["S74"]
def alone(target):
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
# A page of that year holds a worker's usual program: asynchronous, between-graph, with flags. A machine has copied and
# damaged it. Which of these lines does Python refuse?

# %% tags=["show"] covers=["S75"]
page = """worker_hosts = FLAGS.worker_hosts(",")
if FLAGS.job_name = "ps": server.join()
sv = Supervisor(is_chief=(FLAGS.task_index = 0))
with sv.managed_session(server.tar get) as sess: pass"""

# %% tags=["show"] covers=["S75"]
for line in page.splitlines():
    try:
        compile(line, "page", "exec")
        print(f"{line:54}compiles")
    except SyntaxError as error:
        print(f"{line:54}{error.msg.partition('.')[0]}")

# %% [markdown]
# Three of the four. The first one compiles, and fails when it runs.
#
# Each task gets its flags from its command line:


# %% tags=["show"]
def command(spec, job, index, logdir, last_step):
    hosts = {f"{each}_hosts": ",".join(spec[each]) for each in ("ps", "worker")}
    others = {"job_name": job, "task_index": index, "logdir": logdir, "last_step": last_step}
    return [f"--{name}={value}" for name, value in {**hosts, **others}.items()]


# %% tags=["show"]
def flags_of(arguments):
    parser = argparse.ArgumentParser()
    for name in ("ps_hosts", "worker_hosts", "job_name", "logdir"):
        parser.add_argument(f"--{name}")
    for name in ("task_index", "last_step"):
        parser.add_argument(f"--{name}", type=int)
    return parser.parse_args(arguments)


# %% tags=["show"] covers=["S75"]
hosts = {"ps": ["a:2222", "b:2222"], "worker": ["c:2222", "d:2222"]}
for job, index in (("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1)):
    print("trainer.py", *command(hosts, job, index, "/logs", 200)[:4], "...")

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


def patient(task):  # a session waits 10 seconds, and for nobody but the ps and its own task
    return v1.ConfigProto(operation_timeout_in_ms=10_000, device_filters=["/job:ps", task])


# %% [markdown]
# ### Exercise: `trainer` (4 points)
# Repair the program: the hosts, and three `...`. A ps only waits. Task 0 of the workers is the chief. A worker's session is
# on its own server. It trains until the *global* step, which counts the steps of all workers, is `last_step`. Leave the rest
# as it is.


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
# The check tries your program as each task. Then four processes run it. At step 100 `worker:1` is killed, at step 300 the
# chief. Each is started again at least 50 steps later.

# %% check="trainer" points=4 covers=["S75"]
with attempt("trainer"), tempfile.TemporaryDirectory() as logs:

    def program(spec, job, index, last_step=500):
        v1.disable_eager_execution()  # as in 2017: the supervisor's threads expect it
        return trainer(flags_of(command(spec, job, index, logs, last_step)))

    tasks = [("ps", 1), ("worker", 0), ("worker", 1)]
    found = replicas.rehearse(lambda *task: program(*task, last_step=4 + 4 * task[2]), {"ps": 2, "worker": 2}, tasks)
    for (job, index), tried in zip(tasks, found, strict=True):
        last = 4 + 4 * index
        of = {name: getattr(tried, name) for name in ("made", "joined", "led", "masters", "step", "returned")}
        _, fault = replicas.fault_of((job, index), last, **of)
        expect(not fault, fault)
    with LocalCluster(program, ps=2, worker=2, env={"CUDA_VISIBLE_DEVICES": ""}) as four:
        seen, marks = [], {}
        for index, at in ((1, 100), (0, 300)):
            seen += replicas.watch(four, 20.0, lambda step, at=at: step >= at)
            four.kill("worker", index)
            marks[f"worker:{index} killed"] = time.monotonic()
            seen += replicas.watch(four, 5.0, lambda step, at=at: step >= at + 50)
            four.restart("worker", index)
            marks[f"worker:{index} back"] = time.monotonic()
        seen += replicas.watch(four, 20.0, lambda step, last=seen[-1][1]: step < last)
        seen += replicas.watch(four, 20.0, lambda step: step >= 500)
        ends = [four.result("worker", index, 30.0) for index in (0, 1)]
    display(replicas.draw_progress(seen, marks, title="Four processes, one trainer"))
    print("the two workers ended at the global steps", *ends)

# %% [markdown]
# Without `worker:1` the run went on: the variables are on the ps. Without the chief, too. A worker that comes back joins
# after a second. But the chief began with its last checkpoint, here that of the start, and wrote it over the living
# variables: the global step fell.

# %% [markdown]
# ## Now: a coordinator
# Today one program, the *coordinator*, holds the loop. Its strategy puts the variables on the ps. It hands each step to a
# worker that is free, out of step.


# %% tags=["show"]
def variables(strategy):
    with strategy.scope():
        model, _ = regression(0)
        optimizer = tf.keras.optimizers.SGD(0.02)
        optimizer.build(model.trainable_variables)
        return model, optimizer, tf.Variable(0)


# %% tags=["show"]
def step_of(strategy, model, optimizer, done):
    def replica():
        x = tf.random.normal([32, 3])
        with tf.GradientTape() as tape:
            y = tf.linalg.matvec(x, TRUTH)[:, None]
            loss = tf.reduce_mean(tf.square(model(x) - y))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        done.assign_add(1)

    return tf.function(lambda: strategy.run(replica), autograph=False)


# %% [markdown]
# Five rounds of 40 steps:


# %% tags=["show"]
def coordinated(spec, job, index):
    v1.logging.set_verbosity(v1.logging.FATAL)
    if job != "chief":
        threads = v1.ConfigProto(inter_op_parallelism_threads=4)  # with 1, a worker waits for itself
        tf.distribute.Server(spec, job, index, config=threads).join()
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer="grpc")
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    model, optimizer, done = variables(strategy)
    step = step_of(strategy, model, optimizer, done)

    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    for number in range(1, 6):
        for _ in range(40):
            coordinator.schedule(step)
        coordinator.join()  # waits for all that was handed out
        print(f"round {number}: {int(done)} steps", flush=True)
    return int(done), int(optimizer.iterations), model.get_weights()[0].ravel()


# %% [markdown]
# After round 2 we kill a worker. Nobody tells the coordinator.


# %% tags=["show"] covers=["S74", "S75"]
tasks = {"chief": 1, "ps": 2, "worker": 2}
with LocalCluster(coordinated, **tasks, env={"CUDA_VISIBLE_DEVICES": ""}) as coordinating:
    replicas.wait_for(coordinating, "chief", "round 2")
    coordinating.kill("worker", 1)
    replicas.wait_for(coordinating, "chief", "round 4")
    coordinating.restart("worker", 1)
    done, iterations, weights = coordinating.result("chief", 0, 30.0)
    display(coordinating.logs("chief"))
print(f"steps: {done}; the optimizer counted {iterations}; the weights: {weights}")

# %% [markdown]
# The run goes on. A dead worker's step is done again, so there may be one more than 200.
#
# ### What changed: `assign_add`
# But the optimizer's count may be smaller. Both numbers grow by 1 at each step, by a call of `assign_add`. `done` is a
# `tf.Variable`. The optimizer's counter is a *Keras* variable:

# %% tags=["show"] covers=["S74"]
print(inspect.getsource(keras.Variable.assign_add))

# %% [markdown]
# This `assign_add` reads, adds, and assigns: the lost update from above. The weights are safe here: the optimizer subtracts
# from the `tf.Variable` inside. But a learning rate that follows the counter comes late.

# %% [markdown]
# ## Then and now
#
# | | then | now |
# |---|---|---|
# | in-graph | one client, `tf.device` for each replica | the same; `MirroredStrategy` on one machine |
# | between-graph, out of step | `replica_device_setter`, a client on each worker | `ParameterServerStrategy`, one coordinator |
# | between-graph, in step | `SyncReplicasOptimizer` | `MultiWorkerMirroredStrategy` |
# | a worker dies | supervisor, checkpoints | another worker does its step |

# %% [markdown]
# ### Exercise: `explain` (3 points, read by a person)
# A colleague trains out of step on 4 workers, and it works. With 32, the loss jumps about and grows. "Some updates get
# lost", he says, and wants to train in step. One of his machines is slow. In four to six sentences: Is he right about lost
# updates? What else happens with 32? What would training in step cost?

# %% [markdown] answer="explain" points=3 covers=["S45", "S74"]
# ### BEGIN SOLUTION
# Optimizers subtract from the variable on its server, in one operation there, so no update is lost just because another worker
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
