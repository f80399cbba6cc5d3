# ---
# jupyter:
#   across:
#     limits: {cell_seconds: 60, notebook_seconds: 180, question_seconds: 30}
#     checker: {pids: 1024, memory_bytes: 3221225472}
#     rows: S29-S38 S70-S72 S76
# ---

# %% [markdown]
# # Clusters
# **How do processes become one TensorFlow machine?**
#
# ![Five processes, two parameter servers and three workers; two of the workers sent each other 12
# bytes.](pictures/07_clusters.png)
#
# So far, one process ran everything. In about 95 minutes you write the program of a server, send work to it, find out who
# decides where an op runs, move a Keras model's work to another process, and find a closed door. All processes here are real.

# %% tags=["folded"]
from across import clusters, expecting, fresh, placement  # `expecting`: what checks read answers with
from across.attempt import NotAttempted, attempt, call, expect, read
from across.clusters import LocalCluster

fresh.warm_up()  # so that new processes start quickly

# %%
import os

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1

# %% [markdown]
# ## One server
# A **server** is a part of TensorFlow that listens at a network address and runs graphs for others. This is the
# smallest program with one. A **session** sends the server a graph. We run this in a fresh process, because a server cannot be stopped: it ends
# with its process.


# %% tags=["show"] covers=["S70"]
def hello():
    server = tf.distribute.Server.create_local_server()
    with tf.Graph().as_default():
        greeting = tf.constant("Hello, server")
        with v1.Session(server.target) as session:
            print(server.target, "says:", session.run(greeting).decode())
            print(*(device.name for device in session.list_devices()))


fresh.run(hello)

# %% [markdown]
# `grpc://` is the way in: **gRPC** calls functions of another process, and sends data as **protocol buffers**.

# %% [markdown]
# ## Cluster, job, task
# Several servers that know each other are a **cluster**. Each of them is a **task**. Tasks that do the same kind of work
# form a **job**. Two jobs are common: `ps`, the parameter servers, hold variables; `worker` computes. The plan of a cluster
# is its `ClusterSpec`. This one is for two machines:

# %% tags=["show"] covers=["S29", "S30", "S71"]
plan = tf.train.ClusterSpec({"ps": ["machine-a:2221"], "worker": ["machine-a:2222", "machine-b:2222"]})

for job in plan.jobs:
    for index in plan.task_indices(job):
        print(f"/job:{job}/task:{index} is the server at {plan.task_address(job, index)}")

# %% [markdown]
# An address is a machine and a **port**. Two servers on one machine need two ports. The place in the list is the task's
# number. So every task must be given the *same* plan, in the same order.

# %% [markdown]
# ### Exercise: `cluster_of` (2 points)
# A system administrator sends you a list of tasks, in any order; a number may be missing. Return its `ClusterSpec`, in which
# each task has its own number. Roughly 4 lines.
#
# <details><summary>Hint</summary>
#
# A job can also be a dictionary from number to address: `{"worker": {1: "machine-b:2222", 0: ...}}`.
# </details>

# %% tags=["show"]
tasks = [
    ("worker", 1, "machine-a", 2222),  # job, number, machine, port
    ("ps", 0, "machine-a", 2221),
    ("worker", 0, "machine-b", 2223),
]


# %% answer="cluster_of" covers=["S29", "S30", "S71"]
def cluster_of(tasks):  # [(job, number, machine, port), ...] -> tf.train.ClusterSpec
    ### BEGIN SOLUTION
    jobs = {}
    for job, number, machine, port in tasks:
        jobs.setdefault(job, {})[number] = f"{machine}:{port}"
    return tf.train.ClusterSpec(jobs)
    ### END SOLUTION


# %% check="cluster_of" points=2
with attempt("cluster_of"):
    away = [("worker", 2, "machine-b", 2224), ("worker", 0, "machine-a", 2222)]  # there is no worker 1
    for given in (tasks, away):
        got = tf.train.ClusterSpec(cluster_of(list(given)))
        made = {(job, number): got.task_address(job, number) for job in got.jobs for number in got.task_indices(job)}
        for job, number, *place in given:
            there, address = made.get((job, number), "nowhere"), ":".join(map(str, place))
            expect(there == address, f"/job:{job}/task:{number} is at {there}; the list says {address}")
        expect(len(made) == len(given), f"the plan has {len(made)} tasks; the list has {len(given)}")

# %% [markdown]
# ## Three processes
# Each task runs a program that makes its server. The server ends with its program. So the program calls `server.join()`,
# which waits for ever: no call stops a server.
#
# On a machine with GPUs, each process would take nearly all memory of each GPU. A ps needs none, so it should not see them.

# %% [markdown]
# ### Exercise: `serve` (3 points)
# Write the program of a task. A task of the job `ps` first sets the environment variable `CUDA_VISIBLE_DEVICES` to `""`;
# the others leave it as it is. Then make this task's `tf.distribute.Server(spec, job_name=..., task_index=...)`, and wait
# in its `join()`. Roughly 4 lines.


# %% answer="serve" covers=["S31", "S32", "S33", "S72"]
def serve(spec, job, index):  # {"ps": [address, ...], "worker": ...}, "worker", 1 -> never returns
    ### BEGIN SOLUTION
    if job == "ps":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    server = tf.distribute.Server(spec, job_name=job, task_index=index)
    server.join()
    ### END SOLUTION


# %% [markdown]
# The check first rehearses your program: what each task asks for is noted, no server is made. Then `LocalCluster` starts it in
# three processes, on free ports, and ends them.

# %% check="serve" points=3 covers=["S31", "S72", "S32", "S33"]
with attempt("serve"):
    spec = {"ps": ["localhost:2221"], "worker": ["localhost:2222", "localhost:2223"]}
    numbers = [("ps", 0), ("worker", 0), ("worker", 1)]
    for (job, index), asked in zip(numbers, clusters.rehearse(serve, spec, numbers, gpus="0,1"), strict=True):
        expect(len(asked) == 1, f"`serve(spec, {job!r}, {index})` made {len(asked)} servers; wanted one")
        named = f"{asked[0].job}:{asked[0].index}"
        expect(named == f"{job}:{index}", f"`serve(spec, {job!r}, {index})` made the server of {named}")
        known = {name: len(addresses) for name, addresses in asked[0].spec.items()}
        expect(known == {"ps": 1, "worker": 2}, f"the server of {named} knows of {known}; wanted all tasks of `spec`")
        expect(asked[0].joined, f"`serve(spec, {job!r}, {index})` never reached `server.join()`")
        seen, wanted = asked[0].visible, "" if job == "ps" else "0,1"
        says = f"CUDA_VISIBLE_DEVICES was '0,1'; when {named}'s server is made, it is {seen!r}, wanted {wanted!r}"
        expect(seen == wanted, says)
    with LocalCluster(serve, ps=1, worker=2) as mine:
        display(mine.draw(title="Three processes that run `serve`"))

# %% [markdown]
# ## A session on another process
# This cluster stays to the end of the chapter. Each task has two logical CPUs and no GPU.

# %% tags=["show"] covers=["S32", "S72"]
cluster = LocalCluster(ps=2, worker=3, cpus=2, env={"CUDA_VISIBLE_DEVICES": ""})
cluster.draw()

# %% [markdown]
# What a task printed is in its log, here the plan's address. Take care: the port is open on *every* network of its machine, and
# the server runs any graph from anyone. Use it only where you trust all who can reach it.

# %% tags=["show"] covers=["S31", "S72"]
cluster.logs("worker", 1)

# %% [markdown]
# A session can be opened on any server, from any process: that process is the **client**. Without a limit, it may wait
# for ever for a server that does not answer. So we set one. And we switch off what rewrites graphs: what runs is what we wrote.

# %%
config = v1.ConfigProto(operation_timeout_in_ms=10_000)
config.graph_options.optimizer_options.opt_level = -1  # L0: none of its optimizations
config.graph_options.rewrite_options.disable_meta_optimizer = True


# %% [markdown]
# Client 1 makes a variable on `ps:0`, gives it a value, and closes its session.

# %% tags=["show"] covers=["S34", "S37"]
with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
    a = v1.get_variable("a", initializer=1.0)
    with v1.Session(cluster.target("worker", 0), config=config) as session:
        session.run(a.initializer)

# %% [markdown]
# Is the 1.0 gone? No: a variable belongs to the *server* that holds it. A session only knows its name.

# %% [markdown]
# ### Exercise: `remote` (2 points)
# You are client 2, and want (a + 2) × 3 for the `a` of client 1. This program, after a textbook's, has two faults. Its code
# does not compute the 9.0 of its comment. Its session has no target, so it runs in the notebook's own process. Repair 2
# lines. Do not initialise `a`: that would overwrite it.


# %% answer="remote" covers=["S34", "S70"]
def remote(target):  # "grpc://..." -> (a + 2) * 3, for the `a` that is on ps:0
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            a = v1.get_variable("a", initializer=0.0)
        ### BEGIN SOLUTION
        #: b = a + 2
        #: c = a * 3  # 9.0
        #: with v1.Session(config=config) as session:
        #:     return session.run(c)
        b = a + 2
        c = b * 3
        with v1.Session(target, config=config) as session:
            return session.run(c)
        ### END SOLUTION


# %% check="remote" points=2
with attempt("remote"), LocalCluster(ps=1, worker=2) as second:
    for number, there in enumerate((cluster, second)):
        value = float(np.random.default_rng().integers(2, 50) + 50 * number)
        with tf.Graph().as_default() as graph, tf.device("/job:ps/task:0"):
            held = v1.get_variable("a", initializer=value)
        with v1.Session(there.target("worker", 0), graph=graph, config=config) as session:
            session.run(held.initializer)
            try:
                got = call(remote, there.target("worker", 1), returns=expecting.number)
            except tf.errors.InvalidArgumentError:
                expect(False, "there is no /job:ps in this process; on which server is the session?")
            except tf.errors.FailedPreconditionError:
                expect(False, "no value of `a` there; on which server, on which task does your program look?")
            left = float(session.run(held))
        expect(left == value, f"`remote` made {left} of the {value} that another client had given to `a`")
        says = f"`a` is {value} on ps:0 of {('this', 'a second')[number]} cluster, and `remote` returned {got}"
        expect(got == 3 * (value + 2), f"{says}; wanted (a + 2) × 3")

# %% [markdown]
# ## Who places, who runs?
# Several services live in every server; two of them serve a session. The **master service** takes a graph from a client,
# places its ops, cuts it into parts, and hands each part to a task. The **worker service** runs a part. The session's server
# is its *master*. Nobody pins `total` here. We run it twice, with two masters:

# %% tags=["show"]
with tf.Graph().as_default() as graph:
    x = v1.placeholder(tf.float32, [3], name="x")  # its value is given at each run
    with tf.device("/job:worker/task:1/cpu:0"):
        y = tf.square(x, name="y")
    total = tf.reduce_sum(y, name="total")

# %% tags=["show"] covers=["S36", "S37"]
workers = [f"/job:worker/task:{index}/cpu:0" for index in range(3)]
for master in (0, 2):
    with v1.Session(cluster.target("worker", master), graph=graph, config=config) as session:
        seen = placement.trace_graph(graph, total, {x: [1, 2, 3]}, session=session)
    display(seen.draw(title=f"The master is worker:{master}", devices=workers))

# %% tags=["show"] covers=["S35", "S36"]
cluster.draw(seen, title="The same run: what went from server to server")

# %% [markdown]
# `y` obeyed its pin. `total` went to the master, and `y` travelled there: 12 B are 3 floats. What client and master send
# each other is not drawn. Most ops that you do not pin run on the server that *you* called; a variable's read stays with
# the variable.

# %% [markdown]
# ## Names with gaps
# A device's full name is `/job:ps/replica:0/task:1/device:CPU:0`; the replica is always 0 in this chapter. You may leave
# parts out. A textbook fills the gaps so: without the task it is task 0, without job and task it is the master's.

# %% [markdown]
# ### Exercise: `guesses` (1 point)
# The session's master is `worker:2`. Where does each op run? Write a device as in the pictures: `"ps:1 CPU:0"`. Any complete
# guess earns the point. Then run the check, which measures.

# %% answer="guesses" covers=["S38"]
### BEGIN SOLUTION
guesses = {
    "/job:ps": "ps:0 CPU:0",
    "/job:worker": "worker:2 CPU:0",
    "/cpu:1": "worker:2 CPU:1",
    "/job:ps/cpu:1": "ps:0 CPU:1",
    "/task:1": "ps:1 CPU:0",
}
#: guesses = {  # the name in tf.device -> the device that runs the op
#:     "/job:ps": None,
#:     "/job:worker": None,
#:     "/cpu:1": None,
#:     "/job:ps/cpu:1": None,
#:     "/task:1": None,
#: }
### END SOLUTION


# %% tags=["show", "folded"]
def really(names, job, index):  # device names, the session's master -> {name: what ran an op}
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [])
        for number, name in enumerate(names):
            with tf.device(name):
                tf.negative(x, name=f"op{number}")
        ops = [f"op{number}:0" for number in range(len(names))]
        with v1.Session(cluster.target(job, index), config=config) as session:
            seen = placement.trace_graph(graph, ops, {x: 1.0}, session=session)
    return {name: seen[f"op{number}"].device for number, name in enumerate(names)}


# %% check="guesses" points=1 covers=["S38"]
with attempt("guesses", done="recorded before it was measured"):
    if not any(guesses.values()):
        raise NotAttempted("guesses: not attempted yet. Replace each None by a device.")
    there = expecting.task_in(f"{job}:{index} CPU:{cpu}" for job, index in cluster.tasks for cpu in (0, 1))
    kinds = dict.fromkeys(("/job:ps", "/job:worker", "/cpu:1", "/job:ps/cpu:1", "/task:1"), there)
    for name, guess in read(guesses, "`guesses` is", expecting.entries(kinds)).items():
        ran = really([name], "worker", 2)[name]
        print(f"{name:14} you said {guess:15} it ran on {ran}{'' if guess == ran else '  <- a surprise'}")

# %% [markdown]
# ### What changed: a name with gaps
# First run the check above. TensorFlow has another rule, here for CPUs alone. Of all devices that *fit* the name, those of the
# master's own task come first. The rest are in the order of their full names as text: `task:10` before `task:2`. The first one wins.

# %% [markdown]
# ### Exercise: `resolve` (3 points)
# Write the rule. `devices` are all, sorted by full name as text. Return one of them, or `None` if none fits, where
# TensorFlow raises an error. Roughly 7 lines.
#
# <details><summary>Hint</summary>
#
# `tf.DeviceSpec.from_string(name)` has `job`, `task`, `device_type` and `device_index`; what the name leaves out is `None`.
# </details>


# %% answer="resolve" covers=["S37", "S38"]
def resolve(name, devices, master):  # "/job:ps", [tf.DeviceSpec, ...], ("worker", 2) -> one, or None
    ### BEGIN SOLUTION
    wanted = tf.DeviceSpec.from_string(name)
    parts = ("job", "task", "device_type", "device_index")
    fits = [d for d in devices if all(getattr(wanted, part) in (None, getattr(d, part)) for part in parts)]
    own = [d for d in fits if (d.job, d.task) == master]
    return next(iter(own + fits), None)
    ### END SOLUTION


# %% tags=["show"]
devices = [
    tf.DeviceSpec.from_string(f"/job:{job}/replica:0/task:{index}/device:CPU:{cpu}")
    for job, index in sorted(cluster.tasks)
    for cpu in (0, 1)
]

# %% check="resolve" points=3
with attempt("resolve"):
    names = [
        job + task + cpu
        for job in ("", "/job:ps", "/job:worker")
        for task in ("", "/task:0", "/task:1")
        for cpu in ("", "/cpu:0", "/cpu:1")
    ]
    names.append("/job:worker/replica:0/task:1/device:CPU:0")
    for master in (("worker", 2), ("ps", 1)):
        measured = really(names, *master)
        for name in names:
            got = resolve(name, list(devices), master)
            expect(isinstance(got, tf.DeviceSpec), f"`resolve({name!r}, devices, {master})` returned {got}")
            said = placement.short_device(got.to_string())
            expect(
                said == measured[name], f"{name!r} with the master {master}: you say {said}, it ran on {measured[name]}"
            )
    uneven = [d for d in devices if not d.device_index or (d.job, d.task) in (("ps", 1), ("worker", 0))]
    got = resolve("/cpu:1", uneven, ("worker", 2))
    expect(got in uneven, f"only ps:1 and worker:0 have a second CPU: '/cpu:1' got {got}")
    expect(
        (got.job, got.task) == ("ps", 1), "only ps:1 and worker:0 have a second CPU, and jobs come first: wanted ps:1"
    )
    ten, two = (tf.DeviceSpec.from_string(f"/job:worker/replica:0/task:{i}/device:CPU:0") for i in (10, 2))
    got = resolve("/job:worker", [ten, two], ("ps", 0))
    expect(got == ten, f"'/job:worker' with the workers 10 and 2: you say {got}; by text 10 comes first")
    got = resolve("/job:worker/task:1", [ten, two], ("worker", 10))
    expect(got is None, f"'/job:worker/task:1' with the workers 10 and 2: you say {got}; wanted None")
    twin = tf.DeviceSpec.from_string("/job:ps_2/replica:0/task:0/device:CPU:0")
    got = resolve("/job:ps", sorted([*devices, twin], key=tf.DeviceSpec.to_string), ("ps_2", 0))
    expect(got != twin, "'/job:ps' got a device of a job that is called ps_2")
    for name, missing in (("/job:ps/task:7", "task 7"), ("/gpu:0", "GPU")):
        expect(resolve(name, list(devices), master) is None, f"{name!r}: there is no {missing}; wanted None")

# %% [markdown]
# *A good place to stop: your servers compute, and you know where.*

# %% [markdown]
# ## Today's form: connect, then pin
# TensorFlow 2 needs no session. One call makes every device of the cluster a device of this notebook.

# %% tags=["show"] covers=["S37"]
tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec(cluster.spec))

PS = "/job:ps/replica:0/task:0/device:CPU:0"
WORKER = "/job:worker/replica:0/task:1/device:CPU:0"
[device.name for device in tf.config.list_logical_devices()]

# %% [markdown]
# Eager ops differ in this: without the job, an op is the notebook's. The notebook has no `/cpu:1`, and soft
# placement (chapter 04) takes its `/cpu:0` without a word. So *full* names are safer:

# %% tags=["show"] covers=["S37"]
tf.config.set_soft_device_placement(True)  # the default, unless TensorFlow was first used inside a Graph
for name in ("/job:worker", "/cpu:1", WORKER):
    with tf.device(name):
        print(f"{name} -> {(tf.ones([]) + 1.0).device}")

# %% [markdown]
# A Keras model, its weights on `ps:0`. You call it in the notebook, the client:

# %% tags=["show"]
with tf.device(PS):
    model = tf.keras.Sequential([tf.keras.layers.Dense(64, activation="tanh"), tf.keras.layers.Dense(2)])
    model.build([None, 100])

images, targets = tf.random.stateless_normal([32, 100], [1, 2]), tf.ones([32, 2])

# %% tags=["show"] covers=["S37"]
cluster.draw(placement.trace(tf.function(model), images), title="model(images), called in the notebook")

# %% [markdown]
# No worker worked. All weights came to the notebook, over the network.

# %% [markdown]
# ### Exercise: `loss_on` (3 points)
# Return the mean squared error of `model(x)` against `y`, computed on `task`. **Budget: the weights, x and y travel to the
# task, each once. Nothing comes back** until somebody looks at the result. Roughly 3 lines.


# %% answer="loss_on" covers=["S37"]
def loss_on(model, x, y, task):  # a Keras model, a batch, targets, a full name -> a scalar tensor
    ### BEGIN SOLUTION
    with tf.device(task):
        return tf.reduce_mean(tf.square(model(x) - y))
    ### END SOLUTION


# %% check="loss_on" points=3 covers=["S37"]
with attempt("loss_on"):
    try:
        lazy = loss_on(model, images, targets, WORKER)
        got = read(lazy, "`loss_on` returned", expecting.number)
    except tf.errors.InvalidArgumentError as error:
        expect("device" not in str(error), "TensorFlow refuses a device that you pinned to; `task` is a full name")
        raise
    wanted = float(np.mean((model(images) - targets).numpy() ** 2))
    expect(np.isclose(got, wanted, rtol=1e-4), f"`loss_on` returned {got:.6g}; the mean squared error is {wanted:.6g}")
    expect(tf.is_tensor(lazy), f"`loss_on` returned a {type(lazy).__name__}, which comes back at once; return a tensor")
    try:
        seen = placement.trace(tf.function(loss_on), model, images, targets, WORKER.replace("task:1", "task:2"))
    except (AttributeError, NotImplementedError) as error:
        symbolic = any(word in str(error) for word in ("numpy", "SymbolicTensor"))
        expect(
            not symbolic, "the check puts `loss_on` into a tf.function, where no number is known yet; return a tensor"
        )
        raise
    display(cluster.draw(seen, title="loss_on, asked of worker:2"))
    sent = clusters.bytes_between(seen)
    expect(("ps:0", "client") not in sent, "the weights went to the client; who computed the model?")
    others = sorted({target for _, target in sent} - {"worker:2", "client"})
    expect(not others, f"something travelled to {', '.join(others)}; who computed the model?")
    expect(("worker:2", "client") not in sent, f"{sent.get(('worker:2', 'client'))} bytes came back; see the picture")
    budget = sum(4 * each.shape.num_elements() for each in [images, targets, *(each.value for each in model.weights)])
    expect(sum(sent.values()) <= budget, f"{sum(sent.values())} bytes travelled; {budget} are enough")
    expect(
        any(sent.get((who, "worker:2")) for who in ("ps:0", "client")), "nothing travelled to worker:2: who computed?"
    )

# %% [markdown]
# ## Doors in the firewall
# Any server may call any other, so each port must be open to each machine of the cluster. What if one is closed? In a
# second cluster we end the ps, which this graph does not use:

# %% tags=["show"] covers=["S35"]
with LocalCluster(ps=1, worker=2) as second:
    second.kill("ps", 0)
    patience = v1.ConfigProto(operation_timeout_in_ms=2_000)
    try:
        with v1.Session(second.target("worker", 0), graph=graph, config=patience) as session:
            print(session.run(total, {"x:0": [1, 2, 3]}))
    except tf.errors.DeadlineExceededError as error:
        print(type(error).__name__)

# %% [markdown]
# The master of a *new* session wants to hear from *every* task of the plan before it runs anything. Without our limit of 2
# seconds it would wait on: the first thing to suspect when a cluster "hangs". (Today the first op waits.)
#
# `device_filters`, a *list* even of one, names the tasks that a session needs. With `device_filters=["/job:worker/task:1"]` in
# its `ConfigProto`, the master asks that task alone.

# %% [markdown]
# ### Exercise: `silent` (2 points)
# Which doors are closed? Return the names in `others` of the tasks that the session's master cannot reach: one, several or
# none. Write the session's `config`: it gives up after `patience` milliseconds, and asks one task. Roughly 2 lines.


# %% answer="silent" covers=["S35", "S36"]
def silent(target, others, patience):  # "grpc://...", ["/job:ps/task:0", ...], 2000 -> ["/job:ps/task:0"]
    found = []
    for task in others:
        ### BEGIN SOLUTION
        config = v1.ConfigProto(operation_timeout_in_ms=patience)
        config.device_filters.append(task)
        ### END SOLUTION
        try:
            with tf.Graph().as_default(), v1.Session(target, config=config) as session:
                session.run(tf.constant(1.0))
        except tf.errors.DeadlineExceededError:
            found.append(task)
    return found


# %% check="silent" points=2
with attempt("silent"), LocalCluster(ps=1, worker=3) as second:
    others = ["/job:ps/task:0", "/job:worker/task:1", "/job:worker/task:2"]
    closed = []
    for _ in range(3):
        try:  # in a fresh process, which can be ended: a session without patience waits on
            got = fresh.run(silent, second.target("worker", 0), list(others), 2_000, timeout=30)
        except TimeoutError:
            expect(False, "after 30 s `silent` still waits; has its `config` the patience?")
        got = read(got, "`silent` returned", expecting.list_of(expecting.text))
        display(second.draw(title=f"`silent` says: {', '.join(got) or 'none is closed'}"))
        expect(second.alive("worker", 0), "worker:0, the master, has ended; is `device_filters` a list of names?")
        doors = f"closed: {', '.join(closed) or 'none'}"
        for task in others:
            expect(task in got or task not in closed, f"{doors}; `silent` leaves out {task}")
            expect(task not in got or task in closed, f"{doors}; {task} is not, and `silent` names it")
        closed.append(str(np.random.default_rng().choice([task for task in others if task not in closed])))
        end = tf.DeviceSpec.from_string(closed[-1])
        second.kill(end.job, end.task)

# %% [markdown]
# ### What changed: whom a client asks
# gRPC can write down every call that it makes. Two programs compute `a + 2` on `worker:1`, for an `a` on `ps:0`: a session on
# `worker:0`, and today's form.


# %% tags=["show"] covers=["S36", "S76"]
def then(spec):
    with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
        a = v1.get_variable("a", initializer=1.0)
        with tf.device("/job:worker/task:1"):
            b = a + 2
        with v1.Session("grpc://" + spec["worker"][0], config=config) as session:
            session.run(a.initializer)
            return session.run(b)


def now(spec):
    tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec(spec))
    with tf.device(PS):
        a = tf.Variable(1.0)
    with tf.device(WORKER):
        return tf.function(lambda: a + 2)().numpy()


# %% tags=["show"] covers=["S36", "S76"]
log = {"GRPC_TRACE": "http", "GRPC_VERBOSITY": "DEBUG"}
with LocalCluster(ps=1, worker=2, env=log) as third:
    for program in (then, now):
        before = [clusters.calls(third.logs("worker", index)) for index in (0, 1)]
        made = {"the client": clusters.calls(fresh.call(program, third.spec, env=log).output)}
        made |= {f"worker:{index}": clusters.calls(third.logs("worker", index)) - before[index] for index in (0, 1)}
        for who, calls in made.items():
            lines = [f"{count:5} x {name}" for name, count in calls.items()] or ["      nobody"]
            print(f"{program.__name__}: {who} calls", *lines, sep="\n")

# %% [markdown]
# Then, the client called one server, and that master called the others. Today the client calls *every* task itself, and
# no master service: the **eager service** runs ops and functions, the worker service sends tensors. If the notebook
# runs a function of which a part is pinned to a task, that task calls the *client*, for tensors: your machine needs an open door, too.

# %% [markdown]
# ## Then and now
# | word | then | now |
# |---|---|---|
# | client | builds a graph, opens a session | connects, and calls every task |
# | cluster, job, task | `tf.train.ClusterSpec` | the same |
# | server | `tf.train.Server` | `tf.distribute.Server` |
# | master service | places a session's graph | only for sessions; whoever runs a `tf.function` places it |
# | worker service | runs a part of a graph | sends tensors; runs parts for sessions |
# | eager service | not there | runs ops, functions and parts of functions |

# %% tags=["show"] covers=["S31", "S76"]
print("the same class:", v1.train.Server is tf.distribute.Server)

# %% [markdown]
# ## Explain it to a colleague
# ### Exercise: `explain` (3 points, read by a person)
# Her client opens a session on `worker:0`, on machine B. Its graph is pinned to `worker:0` alone, and still the program
# waits, without an error. The ps is on machine A, and its terminal stands still in `server.join()`. In four to six
# sentences: is the ps broken? Which service waits for whom? What may be closed? How does she find out, or do without?

# %% [markdown] answer="explain" points=3 covers=["S33", "S35", "S36", "S76"]
# ### BEGIN SOLUTION
# The ps is not broken by that: `join` waits until the server stops, which never happens, and the server works in other
# threads. Her session's master is the server of worker:0. Its master service waits until every task of the cluster spec has
# answered, also tasks that the graph does not use. So perhaps machine B cannot reach the ps's port on machine A: a firewall
# that is closed, or a wrong address in the spec. With `operation_timeout_in_ms` she gets an error in place of the silence,
# and with `device_filters=["/job:worker"]` the session does without the ps.
#
# **Rubric.** One point for each, half a point where the reason is missing.
#
# - *Join* (1): standing still in `join` is normal; the server works in other threads. Earns: "`join` never returns, that is
#   its job." Does not: "Restart the ps."
# - *Who waits* (1): the master service of worker:0 waits for all tasks of the spec, used or not. Earns: "The master wants an
#   answer from every task first." Does not: "The client waits for the ps", without the master.
# - *Cause and mend* (1): port or address of the ps from machine B; a timeout, or device filters. Earns: "B cannot reach A's
#   port; a timeout makes it an error." Does not: "It is a network problem."
# ### END SOLUTION

# %% [markdown]
# ## Recipe
# ```python
# # the plan, the same for every task
# spec = {"ps": ["machine-a:2221"], "worker": ["machine-a:2222"]}
# # the program of a task
# tf.distribute.Server(spec, job_name="worker", task_index=0).join()
# # the client today; a full name has no gaps
# tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec(spec))
# with tf.device("/job:worker/replica:0/task:0/device:CPU:0"): ...
# # the client then; `config` has a timeout
# v1.Session("grpc://machine-a:2222", config=config)
# ```
