# ---
# jupyter:
#   across:
#     devices: 2
#     rows: S24-S26
# ---

# %% [markdown]
# # Parallel execution
# **What runs at the same time, on which threads?**
#
# ![One run of five ops: A is at work on four threads at once, while B, C, D and E take turns on three
# others.](pictures/05_parallel_execution.png)
#
# A graph says what depends on what. It does not say what runs first, or on how many threads. In 85 minutes you write the rule
# for what runs first, see threads at work, and learn what more threads cannot do.

# %% tags=["folded"]
from across import devices, fresh, pictures, placement, timeline, tracing
from across.attempt import NotAttempted, attempt, call, expect, read, without
from across.expecting import array, between, entries, list_of, number, one_of, text, truth, whole

SECONDS = between(0, 10, number)

# %%
import random
import time
from collections import Counter, deque

import numpy as np
import tensorflow as tf

tf.config.threading.set_inter_op_parallelism_threads(4)
tf.config.threading.set_intra_op_parallelism_threads(3)

# %% [markdown]
# The last two lines decide how many threads TensorFlow has. They must stand before the first tensor.

# %%
D = devices.gpus_or_cpus(2)
D

# %% [markdown]
# ## Five ops on many threads
# To see threads we need ops that take a while. `nap` makes an op that waits and returns its input. It needs a thread, but
# no core. With `stateful=False` naps may run in any order.


# %%
def wait(seconds):
    time.sleep(float(seconds))
    return seconds


def nap(seconds, name):
    return tf.numpy_function(wait, [seconds], tf.float32, stateful=False, name=name)


# %% [markdown]
# The textbook's example has five ops, A to E. A multiplies large matrices. D and E read the result of C.


# %% tags=["show"] covers=["S24", "S25"]
@tf.function
def five(x, seconds):
    with tf.device("/CPU:0"):
        a = tf.matmul(x, x, name="A")
        b, c = nap(seconds, "B"), nap(seconds, "C")
        d, e = nap(c, "D"), nap(c, "E")
    return a, b, d, e


# %% tags=["show"] covers=["S24", "S25"]
x, seconds = tf.random.normal([1000, 1000]), tf.constant(0.03)
five(x, seconds)  # traces
seen = timeline.record(five, x, seconds)
seen.draw(title="One run of five ops")

# %% [markdown]
# A lane is a thread. Threads of the **inter-op pool** take whole ops: D and E wait until C is done, A and B wait for
# nobody. The code of A cuts its product into pieces, which threads of the **intra-op pool** compute. Neighbouring pieces are
# drawn as one block. A nap has no pieces.

# %% tags=["show"] covers=["S25"]
print("ops at the same time, at most:", seen.at_once())
print("pieces in the intra-op pool:", dict(Counter(piece.name for piece in seen.pieces)))
print("whole ops:", {op.name: op.lane for op in seen.ops if op.name in list("ABCDE")})
print(seen.save("five.json"), "opens in chrome://tracing or ui.perfetto.dev")

# %% [markdown]
# The textbook's Chinese translation sends D and E to the *intra-op* pool (操作内线程池). The list says where they were.

# %% [markdown]
# ### Exercise: `walk` (2 points)
# The textbook puts its five ops on two devices. On the first: A is `x @ x`, B is the sine of `x`. On the second: C is the
# cosine of `x`, D is the exponential of C, E is the hyperbolic tangent of C. Return A, B, D and E. **Budget: five ops.**
# Roughly 7 lines.


# %% answer="walk" covers=["S24", "S25"]
def walk(x, devices):  # a square matrix, two device names -> [A, B, D, E]
    ### BEGIN SOLUTION
    with tf.device(devices[0]):
        a = tf.matmul(x, x)
        b = tf.sin(x)
    with tf.device(devices[1]):
        c = tf.cos(x)
        d = tf.exp(c)
        e = tf.tanh(c)
    return [a, b, d, e]
    ### END SOLUTION


# %% tags=["show"]
small = tf.constant([[1.0, 2.0], [3.0, 4.0]])
results = {  # of `small`, rounded
    "A": ([[7.00, 10.0], [15.0, 22.0]], "the matrix product of x and x"),
    "B": ([[0.84, 0.91], [0.14, -0.76]], "the sine of x"),
    "D": ([[1.72, 0.66], [0.37, 0.52]], "the exponential of C"),
    "E": ([[0.49, -0.39], [-0.76, -0.57]], "the hyperbolic tangent of C"),
}
four_matrices = list_of(array([2, 2]), 4).named("a list of four matrices: A, B, D and E")

# %% check="walk" points=2
with attempt("walk"):
    got = read(walk(small, D), "`walk(small, D)` returned", four_matrices)
    ran = placement.trace(tf.function(walk), small, D)
    display(ran.draw(devices=D))
    for value, (name, (wanted, what)) in zip(got, results.items(), strict=True):
        expect(np.allclose(value, wanted, atol=0.01), f"{name} is {value.round(2).tolist()}: not {what}")
    expect(len(ran) == 5, f"{len(ran)} ops ran; wanted five, so D and E must read one C")
    turned = placement.trace(tf.function(walk), small, D[::-1])
    for seen, names in ((ran, D), (turned, D[::-1])):
        first, second = ([op.type for op in seen.on(device)] for device in names)
        says = f"`walk(small, {names})` ran {first} on {names[0]} and {second} on {names[1]}"
        astray = {"Cos", "Exp", "Tanh"}.intersection(first) or "Sin" in second
        expect(not astray and (len(first), len(second)) == (2, 3), f"{says}; the text puts A and B on the first")
    graph = tracing.program(lambda x: walk(x, D), tf.TensorSpec([2, 2])).graph_def
    waits = [
        op.name for op in graph.node if op.op not in ("Identity", "NoOp") and any(each[0] == "^" for each in op.input)
    ]
    expect(not waits, f"{waits[:1]} waits for an op that it does not read")
    program, large, cpu = tf.function(walk), tf.random.normal([1000, 1000]), ["/CPU:0", "/CPU:0"]
    program(large, cpu)  # traces
    display(timeline.record(program, large, cpu).draw(title="The same ops on threads of the CPU, with a large matrix"))

# %% [markdown]
# Ops in one row of the first picture *may* run at the same time. Whether they do is decided by threads: see the second.

# %% [markdown]
# ## Dependency counters
# TensorFlow keeps a **counter** for each op: how many of its inputs are missing. An op with nothing missing is *ready*, and
# enters the **ready queue**. An op without inputs is a *source*: it is ready at once. When an op ends, the counters of its
# readers go down by one for each input.

# %% tags=["show"] covers=["S24"]
nodes = ["A", "B", "C", "D", "E"]
edges = [("C", "D"), ("C", "E")]  # (C, D): D reads C
timeline.run_order(nodes, edges)

# %% [markdown]
# `run_order` builds a graph whose ops note their names when they run, and runs it without a pool: in the thread that
# calls. There a graph of at most 6 sources, and 8 readers of one op, runs in the same order each time: the queue is *first
# in, first out*. In larger graphs TensorFlow fixes no order.

# %% [markdown]
# ### Exercise: `order` (4 points)
# Return the names in the order in which TensorFlow runs them without a pool. Write it without `timeline` or
# TensorFlow. Each edge stands once, and leads to a later name in `nodes`. Sources enter the queue in the order of `nodes`.
# If one op makes several readers ready, they too enter in the order of `nodes`. Roughly 10 lines.

# %% [markdown]
# <details><summary>Hint</summary>
#
# `missing = Counter(b for _, b in edges)` counts inputs. Start with `ready = deque(...)` of the sources. Take from the left
# with `ready.popleft()`, add on the right.
# </details>


# %% answer="order" covers=["S24"]
def order(nodes, edges):  # ["A", "B"], [("A", "B")] -> ["A", "B"]
    ### BEGIN SOLUTION
    missing = Counter(b for _, b in edges)
    ready = deque(name for name in nodes if missing[name] == 0)
    done = []
    while ready:
        done.append(ready.popleft())
        for name in nodes:
            if (done[-1], name) in edges:
                missing[name] -= 1
                if missing[name] == 0:
                    ready.append(name)
    return done
    ### END SOLUTION


# %% tags=["show"]
def steps(**orders):  # orders of names, one lane each
    spans = [pictures.Span(lane, i, i + 1, name) for lane, names in orders.items() for i, name in enumerate(names)]
    return pictures.timeline(spans, title="The order of the ops", unit="ops done", lanes=list(orders))


# %% check="order" points=4
with attempt("order"):
    diamond = (
        ["B", "A", "D", "C", "F", "E", "H", "G"],
        [tuple(edge) for edge in ("AC", "AD", "DE", "CH", "BF", "FH", "BG", "BE")],
    )
    late = (nodes, [("A", "B"), ("B", "D"), ("B", "E"), ("C", "D")])
    for graph in ((nodes, edges), diamond, late):
        with without(timeline.run_order, says="`order` is to be written without `timeline`"):
            got = call(order, *map(list, graph), returns=list_of(text))
        ran = timeline.run_order(*graph)
        display(steps(you=got, TensorFlow=ran))
        expect(got == ran, f"`order` and TensorFlow differ for nodes {graph[0]}, edges {graph[1]}")

# %% [markdown]
# ### Exercise: `quiz` (1 point)
# Now `run_order(nodes, edges, threads=1)`: a pool with one thread. On this graph it takes the op that became ready *last*.
# The sources A, B, C become ready in this order. What runs first, second, and so on? Any complete
# guess earns the point.

# %% answer="quiz" covers=["S24"]
### BEGIN SOLUTION
quiz = {1: "C", 2: "E", 3: "D", 4: "B", 5: "A"}
#: quiz = {1: None, 2: None, 3: None, 4: None, 5: None}
### END SOLUTION

# %% check="quiz" points=1
with attempt("quiz", done="recorded before it was run"):
    if quiz == dict.fromkeys(range(1, 6)):
        raise NotAttempted("quiz: not attempted yet. Replace each None by the name of an op.")
    guess = read(quiz, "`quiz` is", entries(dict.fromkeys(range(1, 6), one_of("ABCDE"))))
    ran = timeline.run_order(nodes, edges, threads=1)
    display(steps(you=[guess[i] for i in range(1, 6)], TensorFlow=ran))

# %% [markdown]
# <details><summary>What was measured</summary>
#
# Same graph, another order: the queue of this pool is a *stack*. With two threads it need not stay the same. So
# rely on edges, never on an order you saw.
# </details>

# %% [markdown]
# ## How many threads?
# The number of threads is fixed when TensorFlow starts, so each experiment gets a fresh process. Four naps of 0.1 s do not
# wait for one another. `cpus` says how many logical CPUs share them.


# %% tags=["show"]
def on(device, op, *inputs):
    with tf.device(device):
        return op(*inputs)


def timed(program, x, repeats):  # -> seconds of each call; the first call traces, and does not count
    marks = []
    for _ in range(repeats + 2):
        marks.append(time.perf_counter())
        [each.numpy() for each in program(x)]
    return list(np.diff(marks)[1:])


# %% tags=["show"] covers=["S25", "S26"]
def four_naps(inter, intra, cpus):  # -> seconds, three times
    tf.config.threading.set_inter_op_parallelism_threads(inter)
    tf.config.threading.set_intra_op_parallelism_threads(intra)

    @tf.function
    def program(seconds):
        return [on(f"/CPU:{i % cpus}", nap, seconds, f"nap{i}") for i in range(4)]

    return timed(program, tf.constant(0.1), 3)


# %% [markdown]
# ### Exercise: `guesses` (1 point)
# How many seconds do the four naps take? Replace each `None` by a number. Any complete guess earns the point.

# %% answer="guesses" covers=["S25", "S26"]
### BEGIN SOLUTION
guesses = {"inter 1": 0.4, "inter 2": 0.2, "inter 4": 0.1, "inter 1, intra 4": 0.4, "inter 1, four CPUs": 0.4}
#: guesses = {
#:     "inter 1": None,
#:     "inter 2": None,
#:     "inter 4": None,
#:     "inter 1, intra 4": None,
#:     "inter 1, four CPUs": None,
#: }
### END SOLUTION

# %% tags=["show"]
settings = {  # inter, intra, cpus
    "inter 1": (1, 1, 1),
    "inter 2": (2, 1, 1),
    "inter 4": (4, 1, 1),
    "inter 1, intra 4": (1, 4, 1),
    "inter 1, four CPUs": (1, 1, 4),
}

# %% check="guesses" points=1
with attempt("guesses", done="recorded before they were measured"):
    if guesses == dict.fromkeys(settings):
        raise NotAttempted("guesses: not attempted yet. Replace each None by a number of seconds.")
    said = read(guesses, "`guesses` is", entries(dict.fromkeys(settings, SECONDS)))
    took = {name: fresh.run(four_naps, *each, cpus=4) for name, each in settings.items()}
    for name, guess in said.items():
        print(f"{name:18} you said {guess:.2f} s, it took {min(took[name]):.2f} s")
    display(pictures.bars(took, title="Four naps of 0.1 s", unit="seconds"))

# %% [markdown]
# <details><summary>What was measured</summary>
#
# One inter-op thread takes one op at a time. Intra-op threads do not help: a nap has no pieces. Four logical CPUs do not
# help either. The textbook gives each device an inter-op pool of its own; these four CPUs share one. A logical CPU is a
# name, not a core.
# </details>

# %% [markdown]
# ## Reading step statistics
# A `v1.Session` runs a graph that was built before; this one has four threads. A `placeholder` is an input of the graph;
# `session.run` gets its value, the *feed*, in a dictionary. The session can write down when each op ran. In the result,
# `dev_stats` has an entry for each CPU, and its `node_stats` one for each run of an op:

# %%
v1 = tf.compat.v1

# %% tags=["show"] covers=["S25"]
with tf.Graph().as_default() as graph, tf.device("/CPU:0"):
    length = v1.placeholder(tf.float32, [])
    first = [nap(length, f"nap{i}") for i in range(3)]
    last = [nap(first[0], "after0"), nap(tf.add_n(first), "after_all")]  # the second naps for the sum of three

four = v1.ConfigProto(inter_op_parallelism_threads=4, use_per_session_threads=True)
options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
metadata = v1.RunMetadata()
with v1.Session(graph=graph, config=four) as session:
    session.run(last, {length: 0.02}, options=options, run_metadata=metadata)

# %% tags=["show"] covers=["S25"]
node = next(node for node in metadata.step_stats.dev_stats[0].node_stats if node.node_name == "nap0")
print(node.node_name, node.all_start_nanos, node.op_end_rel_nanos)
timeline.of_step(metadata.step_stats).draw()

# %% [markdown]
# `all_start_nanos` is a time in nanoseconds. `op_end_rel_nanos` is *relative*: nanoseconds from that start to the end.
# Here a lane is a device, and ops that overlap are stacked.

# %% [markdown]
# ## On a GPU
# TensorFlow gives a GPU one **compute stream**, in which ops wait in line. In `dev_stats` a GPU has several entries; that of
# the stream ends in `/stream:all`, and the picture shows it. Four products on the CPU and on `D[0]`, a GPU if you have one:


# %% tags=["show"] covers=["S25"]
def products(device):  # -> step statistics
    with tf.Graph().as_default() as graph, tf.device(device):
        a = v1.placeholder(tf.float32, [600, 600])
        ops = [
            tf.matmul(a, a, i % 2 == 1, i > 1, name=f"product{i}").op for i in range(4)
        ]  # each transposed in its way
    seen, value = v1.RunMetadata(), np.ones([600, 600])
    with v1.Session(graph=graph, config=four) as session:
        session.run(ops, {a: value})  # starts threads
        session.run(ops, {a: value}, options=options, run_metadata=seen)
    return seen.step_stats


# %% tags=["show"] covers=["S25"]
for device in ("/CPU:0", D[0]):
    display(timeline.of_step(products(device)).draw(title=f"Four products on {device}"))

# %% [markdown]
# In a GPU's stream two ops do not compute at the same time.

# %% [markdown]
# ### Exercise: `at_once` (3 points)
# `stats` are of CPUs. Return the largest number of ops that ran at the same time, on all of them together. An op that ends
# when another starts does not overlap it. Leave out names that begin with `_`: the session made those. Write it without
# `timeline`. Roughly 8 lines.
#
# <details><summary>Hint</summary>
#
# The largest number is reached when some op starts. For each start, count the ops that have started and not yet ended.
# </details>


# %% answer="at_once" covers=["S25"]
def at_once(stats):  # metadata.step_stats -> 2
    ### BEGIN SOLUTION
    spans = []
    for each in stats.dev_stats:
        for node in each.node_stats:
            if not node.node_name.startswith("_"):
                start = node.all_start_nanos
                spans.append((start, start + node.op_end_rel_nanos))
    return max(sum(start <= now < end for start, end in spans) for now, _ in spans)
    ### END SOLUTION


# %% check="at_once" points=3
with attempt("at_once"):
    invented, since = v1.RunMetadata().step_stats, 10**9 * random.randrange(10**6)
    for name, nodes in (
        ("CPU:0", (("one", 10, 3), ("two_1", 5, 6), ("one", 10, 6), ("three", 10, 3), ("_own", 6, 6))),
        ("CPU:1", (("four", 1, 4), ("five", 9, 6), ("six", 1, 4), ("seven", 1, 4), ("_SOURCE", 0, 16))),
        ("CPU:2", (("eight", 5, 6), ("nine", 3, 3), ("ten", 4, 2))),
    ):
        device = invented.dev_stats.add(device=f"/job:localhost/replica:0/task:0/device:{name}")
        for op, start, length in random.sample(nodes, len(nodes)):
            node = device.node_stats.add(node_name=op, all_start_nanos=since + 15625 * start)
            node.op_start_rel_nanos, node.op_end_rel_nanos = 15625 * (length - 1), 15625 * length
    taken = (timeline.of_step, timeline.Timeline.at_once)
    for stats in (metadata.step_stats, invented):
        with without(*taken, says="`at_once` is to be written without `timeline`"):
            got = read(at_once(stats), "`at_once(stats)` returned", whole)
        seen = timeline.of_step(stats)
        display(seen.draw(title=f"`at_once` says {got}"))
        expect(got == seen.at_once(), f"`at_once` returned {got}; {seen.at_once()} ops overlap: see the picture")

# %% [markdown]
# ## Setting the pools, in time
# The pools are made when TensorFlow starts: at its first *eager* tensor, for example. Here it has started: a new value is
# refused, the present one is accepted.

# %% tags=["show"] covers=["S26"]
for threads in (4, 8):
    try:
        tf.config.threading.set_inter_op_parallelism_threads(threads)
        print(threads, "accepted")
    except RuntimeError as error:
        print(threads, "refused:", error)


# %% tags=["show"] covers=["S26"]
def late(action):  # do something, then set: is it accepted?
    try:
        action()
        tf.config.threading.set_inter_op_parallelism_threads(2)
    except RuntimeError:
        return "refused"
    return "accepted"


for what, action in {
    "a tensor": lambda: tf.constant(1.0),
    "list_logical_devices": tf.config.list_logical_devices,
    "list_physical_devices": tf.config.list_physical_devices,
    "a Dataset": lambda: tf.data.Dataset.range(3),
    "a Keras model": lambda: tf.keras.Sequential([tf.keras.layers.Dense(1)]),
    "the same with an Input": lambda: tf.keras.Sequential([tf.keras.Input([1]), tf.keras.layers.Dense(1)]),
}.items():
    print(f"{what:22} then a setting: {fresh.run(late, action)}")

# %% [markdown]
# With an `Input` Keras makes the weights at once, and these are tensors.

# %% [markdown]
# ### Exercise: `sized` (3 points)
# Set the size of both pools. Return `True` if both now have the sizes asked for. Return `False` where TensorFlow has
# started with other sizes. `sized` itself must not start TensorFlow. Roughly 6 lines.


# %% answer="sized" covers=["S26"]
def sized(inter, intra):  # 2, 1 -> True or False
    ### BEGIN SOLUTION
    try:
        tf.config.threading.set_inter_op_parallelism_threads(inter)
        tf.config.threading.set_intra_op_parallelism_threads(intra)
    except RuntimeError:
        return False
    return True
    ### END SOLUTION


# %% tags=["show"]
def asked(before, start, inter, intra):  # sized(inter, intra) where TensorFlow started, or after sized(*before)
    if start:
        tf.config.threading.set_inter_op_parallelism_threads(before[0])
        tf.config.threading.set_intra_op_parallelism_threads(before[1])
        tf.constant(1.0)
    elif before != (0, 0):
        sized(*before)
    answer, pools = sized(inter, intra), tf.config.threading
    sizes = pools.get_inter_op_parallelism_threads(), pools.get_intra_op_parallelism_threads()
    return answer, sizes, late(lambda: None)


# %% check="sized" points=3
with attempt("sized"):
    for before, start, asks, wanted in (
        ((0, 0), False, (5, 2), True),
        ((2, 1), False, (5, 2), True),
        ((2, 1), True, (5, 2), False),
        ((2, 1), True, (2, 5), False),
        ((2, 1), True, (1, 1), False),
        ((2, 1), True, (1, 2), False),
        ((2, 1), True, (2, 1), True),
        ((0, 0), True, (5, 2), False),
    ):
        answer, pools, more = fresh.run(asked, before, start, *asks)
        when = (
            f"where TensorFlow started with {before[0]} and {before[1]}"
            if start
            else f"after `sized{before}`, in time,"
        )
        when = "in time" if (before, start) == ((0, 0), False) else when
        got = read(answer, f"`sized{asks}` {when} returned", truth)
        expect(got == wanted, f"`sized{asks}` {when} returned {got}; the pools are {pools}")
        expect(pools == asks or not wanted, f"`sized{asks}` {when}: the pools are {pools}; inter-op comes first")
        expect(start or more == "accepted", f"`sized{asks}` {when} started TensorFlow itself")

# %% [markdown]
# ## Then and now
# In 2017 a session got its threads from a `ConfigProto`. Two sessions of one process, each with six naps: how many
# does each run at the same time?


# %% tags=["show"] covers=["S26"]
def then(*configs):  # for one session after the other: the most naps at the same time
    most = []
    for config in configs:
        with tf.Graph().as_default() as graph, tf.device("/CPU:0"):
            length = v1.placeholder(tf.float32, [])
            naps = [nap(length, f"nap{i}") for i in range(6)]
        metadata = v1.RunMetadata()
        with v1.Session(graph=graph, config=config) as session:
            session.run(naps, {length: 0.1}, options=options, run_metadata=metadata)
        most.append(timeline.of_step(metadata.step_stats).at_once())
    return most


# %% tags=["show"] covers=["S26"]
one, shared = (v1.ConfigProto(inter_op_parallelism_threads=n) for n in (1, 4))
print("one thread, then four:           ", fresh.run(then, one, shared))
print("one thread, then four of its own:", fresh.run(then, one, four))  # the config with use_per_session_threads

# %% [markdown]
# The first session makes the pool of all sessions, which later ones share: the four threads were never made. With
# `use_per_session_threads` a session gets a pool of its own, which ends with the session.

# %% [markdown]
# ### Exercise: `own_pool` (2 points)
# Return a `v1.ConfigProto`. A session with it has its own pool, and runs `threads` ops at the same time if that many
# are ready, and never more, also where other sessions ran before. Roughly 1 line.


# %% answer="own_pool" covers=["S26"]
def own_pool(threads):  # 3 -> a v1.ConfigProto
    ### BEGIN SOLUTION
    return v1.ConfigProto(inter_op_parallelism_threads=threads, use_per_session_threads=True)
    ### END SOLUTION


# %% check="own_pool" points=2
with attempt("own_pool"):
    configs = {threads: own_pool(threads) for threads in (5, 3, 1)}
    for threads, config in configs.items():
        wanted = isinstance(config, v1.ConfigProto)
        expect(wanted, f"`own_pool({threads})` returned {config!r}; expected a v1.ConfigProto")
        named = any(pool.global_name for pool in config.session_inter_op_thread_pool)
        expect(not named, f"`own_pool({threads})` names its pool: sessions with a pool of that name share it")
        pooled = config.inter_op_parallelism_threads >= 0
        expect(pooled, f"a session with `own_pool({threads})` has no pool: the thread that calls runs its ops")
    for threads, most in zip(configs, fresh.run(then, shared, *configs.values())[1:], strict=True):
        says = f"a session with `own_pool({threads})` ran {most} of six naps at once, after a session with four threads"
        expect(most == threads, says)

# %% [markdown]
# ### What changed
# The textbook sizes the intra-op pool in the same way. We run a large product in two sessions. How many threads compute its pieces?


# %% tags=["show"] covers=["S25", "S26"]
def lanes(*threads):  # how many intra-op threads work in one session after the other
    found = []
    for intra in threads:
        config = v1.ConfigProto(intra_op_parallelism_threads=intra, use_per_session_threads=True)
        with tf.Graph().as_default() as graph, tf.device("/CPU:0"):
            product = tf.matmul(*[tf.random.uniform([900, 900]) for _ in range(2)])
        with v1.Session(graph=graph, config=config) as session:
            seen = timeline.record(session.run, product)
        found.append(sum(lane.startswith("intra") for lane in seen.lanes))
    return found


for threads in ((1, 4), (4, 1)):
    print("two sessions that ask for", threads, "get", fresh.run(lanes, *threads), "threads with pieces")

# %% [markdown]
# With one thread a product is not cut. The first session decides, even for a session with threads of its own: those are
# inter-op threads only.

# %% [markdown]
# ## A Keras training step
# Your own model has a timeline, too, here on the CPU. The lane `caller` is the thread that called `train_on_batch`:

# %% tags=["show"] covers=["S24", "S25"]
dense = tf.keras.layers.Dense
with tf.device("/CPU:0"):
    model = tf.keras.Sequential([dense(512, activation="relu"), dense(512, activation="relu"), dense(10)])
    model.compile("sgd", loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
    images, labels = tf.random.normal([256, 512]), tf.zeros([256], tf.int32)
    model.train_on_batch(images, labels)

# %% tags=["show"] covers=["S25"]
with tf.device("/CPU:0"):
    step = timeline.record(model.train_on_batch, images, labels)
step.draw(title="One training step")

# %% tags=["show"] covers=["S25"]
spent = step.by_type()
share = sum(spent[name] for name in spent if "MatMul" in name) / sum(spent.values())
print(f"products take {share:.0%} of the time in ops")
pictures.bars(dict(list(spent.items())[:5]), title="Five types of op with the most time", unit="milliseconds")

# %% [markdown]
# `_FusedMatMul` is a product that TensorFlow joined with its bias, and with an activation if there is one. In the timeline
# it is called `Relu` or `BiasAdd`. Could products run at the same time? The timeline shows one run. The graph shows what can happen:


# %% tags=["show"] covers=["S24"]
@tf.function
def gradients(images, labels):
    with tf.GradientTape() as tape:
        loss = model.compute_loss(images, labels, model(images))
    return tape.gradient(loss, model.trainable_variables)


ran = placement.trace(gradients, images, labels)
products = [op.name for op in ran.of_type("MatMul")]
chain = timeline.longest_chain({op.name: op.inputs for op in ran.everything}, products)
print(len(products), "products;", len(chain), "of them one after the other")

# %% [markdown]
# With any number of inter-op threads, the chain stays. To go faster you need quicker products, such as those cut into pieces,
# or another graph.

# %% [markdown]
# ### Exercise: `collapse` (3 points)
# Dense layers without activation and bias are one product: `x @ K1 @ K2 @ ...`. Return the one matrix `K1 @ K2 @ ...`, by
# TensorFlow, which traces `collapse`. **Budget: n layers, n - 1 products, and no chain longer than log2(n), rounded up.**
# Eight kernels: a chain of three. A kernel is `layer.kernel`; for a model of one layer return its kernel. Roughly 6 lines.

# %% [markdown]
# <details><summary>Hint</summary>
#
# `(K1 @ K2) @ (K3 @ K4)`: the two products in brackets do not wait for each other. Multiply neighbours, then neighbours of
# the results, until one is left. A matrix without a neighbour waits for the next round.
# </details>


# %% answer="collapse" covers=["S24"]
def collapse(model):  # a model of Dense layers -> one matrix
    ### BEGIN SOLUTION
    matrices = [tf.convert_to_tensor(layer.kernel) for layer in model.layers]
    while len(matrices) > 1:
        alone = matrices[len(matrices) // 2 * 2 :]
        pairs = zip(matrices[0::2], matrices[1::2], strict=False)
        matrices = [tf.matmul(a, b) for a, b in pairs] + alone
    return matrices[0]
    ### END SOLUTION


# %% tags=["show"]
def linear(*units):  # Dense layers without activation and bias
    return tf.keras.Sequential([tf.keras.Input([3]), *(dense(n, use_bias=False) for n in units)])


# %% check="collapse" points=3
with attempt("collapse"):
    for units, rounds in (((2, 4, 3, 5, 2, 3, 4), 3), ((2, 3) * 16, 5), ((4,), 0)):
        layers, n = linear(*units), len(units)
        ran = placement.trace(tf.function(collapse), layers)
        if n == 7:
            display(ran.draw(devices=D[:1]))
        got, right = np.array(call(collapse, layers)), np.array(layers(np.eye(3)))
        what = f"of {n} kernel{'s' * (n > 1)}"
        equal = got.shape == right.shape and np.allclose(got, right, atol=1e-5)
        expect(equal, f"{what} `collapse` makes another matrix than the layers make of `np.eye(3)`")
        products = [op.name for op in ran.of_type("MatMul", "BatchMatMulV2", "Einsum")]
        chain = timeline.longest_chain({op.name: op.inputs for op in ran.everything}, products)
        expect(len(products) == n - 1, f"{what}: {len(products)} products; expected {n - 1}, each of two matrices")
        expect(
            len(chain) <= rounds, f"{what}: {len(chain)} products wait for one another in a row; {rounds} are enough"
        )

# %% [markdown]
# A shorter chain can cost arithmetic. Kernels of shapes `[100, 1]`, `[1, 100]`, `[100, 1]`, `[1, 100]` take 30,000
# multiplications from left to right. The last product of `(K1 @ K2) @ (K3 @ K4)` alone takes 1,000,000.

# %% [markdown]
# ## When threads do not help
# Products need a core. We run 200 products of tiny matrices, with one thread and with eight, and count *processor* time:


# %% tags=["show"] covers=["S25", "S26"]
def tiny(inter):  # -> processor seconds of all threads, five times
    tf.config.threading.set_inter_op_parallelism_threads(inter)

    @tf.function
    def program(x):
        return tf.add_n([tf.matmul(x, x + float(i)) for i in range(200)])

    x, marks = tf.ones([16, 16]), []
    for _ in range(7):
        marks.append(time.process_time())
        [program(x).numpy() for _ in range(10)]
    return list(np.diff(marks)[1:])


burnt = {f"inter-op {n}": fresh.run(tiny, n) for n in (1, 8)}
pictures.bars(burnt, title="200 tiny products, 10 times", unit="seconds of processor time")

# %% tags=["show"] covers=["S25"]
ratio = np.median(burnt["inter-op 8"]) / np.median(burnt["inter-op 1"])
print(f"8 threads used {ratio:.1f} times the processor time of one, for the same numbers")

# %% [markdown]
# In our runs it was 0.8 to 3.2 times. Handing an op to another thread has a price, and a tiny op can cost less. Start with the
# defaults, and change them only for a program that you have measured.

# %% [markdown]
# ## Recipe
# ```python
# # before the first tensor: ops at the same time, pieces of one op at the same time
# tf.config.threading.set_inter_op_parallelism_threads(2)
# tf.config.threading.set_intra_op_parallelism_threads(4)
# # what ran on which thread; run it once before
# seen = timeline.record(model.train_on_batch, x, y)
# seen.draw(), seen.at_once(), seen.by_type(), seen.save("step.json")
# # a session: a pool of its own, and step statistics by device
# v1.ConfigProto(inter_op_parallelism_threads=2, use_per_session_threads=True)
# v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
# ```
