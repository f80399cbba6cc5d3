# ---
# jupyter:
#   across:
#     limits: {cell_seconds: 60, notebook_seconds: 180, question_seconds: 20}
#     rows: S27-S28
# ---

# %% [markdown]
# # Control dependencies
# **How do I force an order, and what does it cost or save?**
#
# ![Five ops: dotted control edges make x and y wait for a and b, though no tensor goes
# there.](pictures/06_control_dependencies.png)
#
# TensorFlow runs an op when its inputs are there. Sometimes that is too early: a log line shows an old value, eight batches
# fill the memory. In 85 minutes you put ops in order by hand, and see which edges are needed, which ones TensorFlow adds
# itself, and what an order saves.

# %% tags=["folded"]
from across import expecting, fresh, graphs, pictures, tracing
from across.attempt import NotAttempted, attempt, call, expect, read, without
from across.shared_link import SharedLink

# %%
MIB = 1 << 20  # bytes

# %%
import threading
import time

import numpy as np
import tensorflow as tf

# %% [markdown]
# This chapter is about the *graph*: the ops of a function, and the edges between them. They are the same on a CPU and on a
# GPU. Memory is measured on the CPU here.

# %% [markdown]
# ## Half an order
# Five ops. `z` needs `x` and `y`, and `b` needs `a`. Nothing else is said.


# %% covers=["S28"]
def free():
    a = tf.constant(1.0, name="a")
    b = tf.add(a, 2.0, name="b")
    x = tf.constant(3.0, name="x")
    y = tf.constant(4.0, name="y")
    return b, tf.add(x, y, name="z")


# %% tags=["show"] covers=["S28"]
graphs.of(free).draw()

# %% [markdown]
# `graphs.of` traces a function and reads its graph; `draw` draws it. An arrow is a tensor. It is also an order: what is at
# its head waits for what is at its tail. In how many orders may one thread run these five ops?

# %% tags=["show"] covers=["S28"]
allowed = graphs.of(free).orders()
print(f"{len(allowed)} orders, for example", *allowed[:3], sep="\n")

# %% [markdown]
# Now `x` and `y` shall wait for `a` and `b`. No tensor goes there, so we say it with a *control dependency*, an edge
# without a tensor:


# %% covers=["S28"]
def late():
    a = tf.constant(1.0, name="a")
    b = tf.add(a, 2.0, name="b")
    with tf.control_dependencies([a, b]):
        x = tf.constant(3.0, name="x")
        y = tf.constant(4.0, name="y")
    return tf.add(x, y, name="z")


# %% tags=["show"] covers=["S28"]
print(len(graphs.of(late).orders()), "orders are left")
graphs.of(late).draw()

# %% [markdown]
# A control edge is dotted. `z` stands outside of the block and has none. Still it waits for `a` and `b`: it needs `x` and
# `y`, which wait.

# %% [markdown]
# ### A block delays what is *created* in it


# %% tags=["show"] covers=["S28"]
def too_late(n):
    a = tf.add(n, 1.0, name="a")
    x = tf.multiply(n, 3.0, name="x")
    with tf.control_dependencies([a]):
        result = x
    return result


graphs.of(too_late, tf.constant(1.0)).draw(title="No dotted edge")

# %% [markdown]
# The block gave `x` a second Python name. It created no op, so it made no edge. A block gives its edges to an op when the op is
# created, and never later; one that reads another op of the block waits already, and gets none. Outside of a graph a block
# makes no edges.

# %% [markdown]
# ### Exercise: `wait_for` (2 points)
# Return a tensor with the same numbers, type and shape as `tensor`, which is there only after all of `ops` have run. `tensor`
# exists already. Roughly 2 lines.
#
# <details><summary>Hint</summary>
#
# Which op returns its input unchanged? Create one inside of the block.
# </details>


# %% answer="wait_for" covers=["S28"]
def wait_for(tensor, ops):  # a tensor, a list of tensors or ops -> a tensor
    ### BEGIN SOLUTION
    with tf.control_dependencies(ops):
        return tf.identity(tensor)
    ### END SOLUTION


# %% check="wait_for" points=2
with attempt("wait_for"):

    def trial(n):
        x = tf.expand_dims(n, 0, name="x")
        ops = [tf.add(n, 1, name="a"), tf.square(n, name="b").op, tf.negative(n, name="c")]
        later = wait_for(x, ops)
        expect(tf.is_tensor(later), f"wait_for(x, [a, b, c]) returned {type(later).__name__}; expected a tensor")
        return tf.identity(later, name="reader")

    display(graphs.of_answer(trial, tf.constant([2.0, -2.0])).draw())
    for n in (tf.constant([2.0, -2.0]), tf.constant([16777217, -2])):  # float32 has no 16777217
        seen = graphs.of_answer(trial, n)
        python = seen.of_type("PyFunc", "PyFuncStateless", "EagerPyFunc")
        expect(not python, "wait_for(x, [a, b, c]) calls Python in the graph; expected ops of TensorFlow alone")
        x, got = (f"{each.numpy().tolist()} of {each.dtype.name}" for each in (n[None], tracing.concrete(trial, n)(n)))
        expect(got == x, f"x is {x}, but wait_for(x, [a, b, c]) is {got}")
        for op in ("a", "b", "c"):
            says = f"who reads wait_for(x, [a, b, c]) does not wait for {op}; see the picture"
            expect(seen.ordered(op, "reader"), says)

# %% [markdown]
# ## `[b]` is enough
# `b` reads `a`. Who waits for `b` has waited for `a`. Leave `a` out of the list, and compare all orders:


# %% tags=["show"] covers=["S28"]
def shorter():
    a = tf.constant(1.0, name="a")
    b = tf.add(a, 2.0, name="b")
    with tf.control_dependencies([b]):
        x = tf.constant(3.0, name="x")
        y = tf.constant(4.0, name="y")
    return tf.add(x, y, name="z")


same = set(graphs.of(shorter).orders()) == set(graphs.of(late).orders())
print("the same orders with [b] as with [a, b]:", same)
graphs.of(shorter).draw()

# %% [markdown]
# A control edge from `u` to `v` is *needless* if another way leads from `u` to `v`: over one tensor, or over several edges of
# any kind. Leaving the needless ones out is a *transitive reduction*. What is left allows exactly the same orders, in a picture
# with fewer edges to read.

# %% [markdown]
# ### Exercise: `needed` (3 points)
# Edges are pairs: `("u", "v")` says that `v` waits for `u`. Return the list of the control edges that are needed. Tensors
# stay as they are. Given or returned twice, a pair counts once. Work without `graphs` and without TensorFlow. Roughly 10 lines.
#
# <details><summary>Hint</summary>
#
# For each control edge: start at `u`, follow all other edges, and see whether you reach `v`. The same pair may be in
# `data` and in `control`.
# </details>


# %% answer="needed" covers=["S28"]
def needed(data, control):  # lists of pairs -> a list of pairs
    ### BEGIN SOLUTION
    def reaches(start, end, edges):
        nexts = [b for a, b in edges if a == start]
        return any(each == end or reaches(each, end, edges) for each in nexts)

    kept = []
    for u, v in control:
        others = [edge for edge in control if edge != (u, v)]
        if not reaches(u, v, list(data) + others):
            kept.append((u, v))
    return kept
    ### END SOLUTION


# %%
data = [("e", "f"), ("a", "b"), ("b", "c"), ("x", "y"), ("b", "y"), ("z", "d")]
control = [("a", "c"), ("a", "x"), ("c", "x"), ("c", "y"), ("a", "b"), ("y", "z"), ("x", "z"), ("c", "x")]
control += [("d", "e"), ("a", "f")]

# %% tags=["show"] covers=["S28"]
graphs.from_edges(data, control).draw(title="Given")

# %% [markdown]
# The check draws the answer of *Grappler* below yours, the part of TensorFlow that optimizes a graph before it runs.

# %% check="needed" points=3
with attempt("needed"):
    pair = expecting.row(expecting.text, expecting.text)
    optimized = graphs.simplified(graphs.from_edges(data, control))
    with without(graphs.from_edges, graphs.simplified, says="this exercise is done without `graphs`"):
        got = call(needed, [*data], [*control], returns=expecting.list_of(pair))
    display(graphs.from_edges(data, got).draw(title="Yours"))
    display(optimized.draw(title="Grappler's"))
    more, fewer = set(got) - set(optimized.control), set(optimized.control) - set(got)
    expect(not more, f"you keep {sorted(more)}; for each of them another way is there")
    expect(not fewer, f"you drop {sorted(fewer)}; without it, orders are allowed that were not")

# %% [markdown]
# Grappler removes needless edges before the run. So a short list helps those who read your code.

# %% [markdown]
# ## Edges that `tf.function` adds
# A `tf.function` has control edges that you never wrote, *automatic control dependencies*. If ops change one variable,
# they keep the order of your lines:

# %% covers=["S28"]
v = tf.Variable(0.0, name="v")
w = tf.Variable(0.0, name="w")


# %% tags=["show"] covers=["S28"]
@tf.function
def twice(x):
    v.assign(x)
    v.assign_add(1.0)
    return v + 1.0


graphs.of(twice, tf.constant(1.0)).draw()

# %% [markdown]
# The read waits for the addition, and the addition for the assignment. And ops without a common variable? Five effects, and a read:


# %%
@tf.function
def step(x):
    v.assign(x, name="v_assign")
    w.assign(x, name="w_assign")
    tf.print("first")
    v.assign_add(1.0, name="v_assign_add")
    tf.print("second")
    return v * 2.0


# %% [markdown]
# ### Exercise: `guess` (1 point)
# For each pair: must the second wait for the first? Replace `None` by `True` or `False`. Then run the check, which measures.

# %% answer="guess" covers=["S28"]
### BEGIN SOLUTION
guess = {
    "v.assign, v.assign_add": True,
    "v.assign, w.assign": False,
    "print first, print second": True,
    "v.assign, print first": False,
    "v.assign_add, print second": False,
}
#: guess = {
#:     "v.assign, v.assign_add": None,
#:     "v.assign, w.assign": None,
#:     "print first, print second": None,
#:     "v.assign, print first": None,
#:     "v.assign_add, print second": None,
#: }
### END SOLUTION

# %% check="guess" points=1
with attempt("guess", done="recorded before it was measured"):
    ops = {"v.assign": "v_assign", "w.assign": "w_assign", "v.assign_add": "v_assign_add"}
    ops |= {"print first": "PrintV2", "print second": "PrintV2_1"}
    pairs = ["v.assign, v.assign_add", "v.assign, w.assign", "print first, print second"]
    pairs += ["v.assign, print first", "v.assign_add, print second"]
    if guess == dict.fromkeys(pairs):
        raise NotAttempted("guess: not attempted yet. Replace each None by True or False.")
    guesses = read(guess, "`guess` is", expecting.entries(dict.fromkeys(pairs, expecting.truth)))
    measured = graphs.of(step, tf.constant(1.0)).without("StringFormat")
    display(measured.draw())
    for each, said in guesses.items():
        first, second = each.split(", ")
        waits = measured.ordered(ops[first], ops[second])
        print(f"{each:27} you said {said}, it is {waits}{'' if said == waits else '  <- a surprise'}")

# %% [markdown]
# ### One chain, or several?
# <details><summary>What was measured</summary>
#
# TensorFlow makes one chain for each variable. Its writes keep the order of your lines. A read stands between its two writes;
# several reads between the same two run in any order. Prints, calls of `py_function`, asserts and `check_numerics` make one
# more chain.
# </details>

# %% [markdown]
# That holds for ops that stand directly in one function. A branch, or a called function, that touches a variable is in that
# variable's chain only. Who waits for a called `tf.function` may wait for its effects
# only; wait for `tf.identity(result)`.

# %% [markdown]
# <details><summary>And two chains?</summary>
#
# **By itself, TensorFlow orders no two chains.** A print may come before an assignment that stands above it. Two chains are
# ordered by an op that is in both, or by a tensor from one to the other. `tf.print("value", v)` reads `v`: that print waits for
# the assignment.
# </details>

# %% [markdown]
# ### What nobody needs is dropped
# In a function, TensorFlow drops an op without effects if nobody reads its result, and its error with it. A control edge need
# not save the op. This text is no number. Nobody reads the result; somebody waits for it; it is returned. Last, a check that
# nobody waits for:


# %% tags=["show"] covers=["S28"]
def waited(text):
    with tf.control_dependencies([tf.strings.to_number(text)]):
        return tf.identity(text)


def unread(text):
    return (tf.strings.to_number(text), text)[1]


def checked(text):
    tf.debugging.assert_equal(text, "7")
    return text


for function in (unread, waited, tf.strings.to_number, checked):
    try:
        print(f"{function.__name__}: returned", tf.function(function, autograph=False)(tf.constant("many")).numpy())
    except tf.errors.InvalidArgumentError as error:
        print(f"{function.__name__}: raised {type(error).__name__}")

# %% [markdown]
# An op of `tf.debugging` counts as an effect, `check_numerics` too: in a function it needs no edge.

# %% [markdown]
# ## Where the edges end
# A `py_function` runs Python inside of a graph. `look` reads `v` there, below the line that assigns to it. We call the step
# ten times, in a fresh process with four threads. The new value takes a while to compute.


# %%
def watch(publish):
    tf.config.threading.set_inter_op_parallelism_threads(4)
    v, seen = tf.Variable(0.0), []

    def look():
        return tf.py_function(lambda: seen.append(int(v)), [], [])

    @tf.function
    def step(x):
        slow = tf.reduce_sum(tf.random.normal([600, 600]) @ tf.random.normal([600, 600]))
        return publish(v, x + 0.0 * slow, look)

    for i in range(1, 11):
        step(tf.constant(float(i)))
    return seen


# %% tags=["show"] covers=["S28"]
def as_written(v, value, look):
    v.assign(value)
    look()
    return value


print("assigned:", *range(1, 11))
print("seen:    ", *fresh.run(watch, as_written))

# %% [markdown]
# TensorFlow does not know that `look` reads `v`. The assignment is in one chain, the `py_function` in another. `look` needs
# nothing and may start at once. Which value it sees is a race.

# %% [markdown]
# ### Exercise: `publish` (2 points)
# The same program. Mend it by one edge: `look()` runs once, after every write to `v`. Change 2 lines.


# %% answer="publish" covers=["S28"]
def publish(v, value, look):  # a variable, a tensor, a function that looks at v -> value
    ### BEGIN SOLUTION
    #: v.assign(value)
    #: look()
    with tf.control_dependencies([v.assign(value)]):
        look()
    ### END SOLUTION
    return value


# %% check="publish" points=2
with attempt("publish"):
    looks, x, target = [], tf.constant(1.0), tf.Variable(0.0, name="v")

    def look():
        looks.append(1)
        return tf.py_function(lambda: None, [], [])

    def looking(x):
        value = publish(target, x * 2.0, look)
        expect(tf.is_tensor(value), f"`publish` returned {type(value).__name__}; expected a tensor, `value`")
        return value

    seen = graphs.of_answer(looking, x)
    display(seen.draw())
    expect(seen.of_type("AssignVariableOp"), "`publish` assigns nothing to v; it should")
    expect(len(looks) == 1, f"`publish` called look {len(looks)} times; expected it once")

    def released(v, value, look):
        v.assign(value)
        look()
        return value

    codes = [getattr(each, "__code__", looking.__code__) for each in (publish, released)]
    if len({(code.co_code, code.co_names) for code in codes}) == 1:
        raise NotAttempted("publish: not mended yet. The picture has no control edge.")
    says = "the picture has no control edge: does your block name the op that assigns, and create something?"
    expect(seen.control, says)
    sees = {op.name for op in seen if op.type == "EagerPyFunc" or "PartitionedCall" in op.type}
    writes = seen.of_type("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")
    ways = [op for op in writes if any(seen.ordered(op.name, name) for name in sees)]
    expect({op.type for op in ways} & {"AssignVariableOp"}, "no way leads from the assignment to look; see the picture")
    expect(ways == writes, f"v is written {len(writes)} times, and look does not wait for each; see the picture")
    returned = float(tracing.concrete(looking, x)(x))
    expect(returned == 2.0, f"value is 2.0, but `publish` returned {returned}")
    expect(float(target) == 2.0, f"value is 2.0, but v is {float(target)} at the end")
    print("seen:", *fresh.run(watch, publish))

# %% [markdown]
# ## What an order saves: memory
# A result is kept until its last reader has run. Here a Keras model computes on eight batches in one function. All
# may start at once.

# %%
model = tf.keras.Sequential(
    [tf.keras.layers.Input([64]), tf.keras.layers.Dense(4096, activation="relu"), tf.keras.layers.Dense(2)]
)
batches = [tf.random.stateless_normal([64, 64], [i, 0]) for i in range(8)]


# %%
def eager_to_start(model, batches, at_most):  # which does not look at `at_most`; your function will
    return tf.add_n([tf.reduce_mean(model(batch)) for batch in batches])


# %% [markdown]
# The wide layer's result is a megabyte for each batch. How many are there at the peak? TensorFlow's statistics of a
# run tell. We run the same graph, not optimized, with pools of 1, 2 and 4 threads, three times each:

# %% tags=["show"] covers=["S27"]
for threads in (1, 2, 4):
    runs = [graphs.peak(eager_to_start, model, batches, 8, threads=threads) / MIB for _ in range(3)]
    print(f"pool of {threads}:", *(f"{peak:.1f} MiB" for peak in runs))

# %% [markdown]
# Anything from 1 to 8 MiB may stand there: without edges, the scheduler decides. Count on the worst order that the
# graph allows. `uses` finds each call of the model by its first weight, and what is made of it until a single number is left:
# the mean. `at_once` counts the calls whose results can wait for a reader at the same time:


# %%
def calls_of_the_model(function, at_most):
    graph = graphs.of_answer(function, model, batches, at_most)
    return graph, graph.uses(model.weights[0].path).values()


def in_progress(function, at_most):
    graph, calls = calls_of_the_model(function, at_most)
    return graph.at_once(*calls)


# %% tags=["show"] covers=["S27"]
in_progress(eager_to_start, 8)

# %% [markdown]
# ### Exercise: `total` (4 points)
# Return the same sum. **Budget: in the worst order, `at_most` batches are in progress at the same time**, not fewer, and at
# most `len(batches) / at_most`, rounded up, wait in a row. So threads have work. A batch is in progress until its mean is
# there. Call the model once for each batch, in a Python loop. Roughly 6 lines.
#
# <details><summary>Hint</summary>
#
# Collect the means. Batch `i` may start when mean `i - at_most` is there.
# </details>


# %% answer="total" covers=["S27"]
def total(model, batches, at_most):  # a Keras model, a list of batches, 1 or more -> a scalar
    ### BEGIN SOLUTION
    means = []
    for i, batch in enumerate(batches):
        first = [means[i - at_most]] if i >= at_most else []
        with tf.control_dependencies(first):
            means.append(tf.reduce_mean(model(batch)))
    return tf.add_n(means)
    ### END SOLUTION


# %% check="total" points=4
with attempt("total"):
    wanted = float(eager_to_start(model, batches, 8))
    result = total(model, batches, 3)
    expect(tf.is_tensor(result), f"`total(model, batches, 3)` returned {type(result).__name__}; expected a tensor")
    got = float(result)
    expect(np.isclose(got, wanted, atol=1e-4), f"`total(model, batches, 3)` is {got}; the sum of the means is {wanted}")
    calls = len(calls_of_the_model(total, 3)[1])
    expect(
        calls == 8, f"the graph for 8 batches has {calls} calls of the model; call it once for each, in a Python loop"
    )
    small = ("ReadVariableOp", "Variable", "BiasAdd", "Relu", "AddV2")
    three = graphs.simplified(graphs.of(total, model, batches[:3], 1).without(*small))
    display(three.draw(title="Three batches, at most 1; small ops, needless edges left out"))
    peaks = {f"at most {n}": graphs.peak(total, model, batches, n) / MIB for n in (1, 2, 4, 8)}
    display(pictures.bars(peaks, title="Peak memory of one run", unit="MiB"))
    for n in (1, 2, 3, 4, 8):
        found = in_progress(total, n)
        expect(found, f"with at_most={n}, no large result was found; call the model in `total` itself")
        kinds = ("PartitionedCall", "StatefulPartitionedCall")
        called = found > n and graphs.of(total, model, batches, n).of_type(*kinds)
        hint = "; who waits for a called tf.function may wait for its effects only" if called else ""
        expect(found == n, f"with at_most={n}, the worst order has {found} in progress at the same time{hint}")
        graph, calls = calls_of_the_model(total, n)
        row, least = graph.in_a_row(*calls), -(-8 // n)
        expect(row <= least, f"with at_most={n}, {row} of 8 batches wait in a row; {least} are enough")
    for n in (1, 2, 4, 8):
        print(f"at most {n}: {len(graphs.of(total, model, batches, n).critical_path())} ops on the critical path")

# %% [markdown]
# ### What it costs
# An order takes freedom from the threads. The *critical path* is the longest way through the graph as traced: with any number
# of threads, running that graph takes at least that long. Once passed, the check prints it: the
# smaller the budget, the longer.

# %% [markdown]
# ## What an order saves: the link
# Four parts come over one link. Each is computed on when it is there. One transfer alone takes a time `t`, and so does
# computing on one. There is one processor.
#
# - All at once: four transfers share the link and arrive at `4t`. Then the processor starts. It ends at `8t`.
# - In turn: the first part arrives at `t`. The processor works beside the next transfer. It ends at `5t`.

# %% [markdown]
# Here the link is simulated, and computing is a `time.sleep`. A call of Python in the graph stands for each, and notes when
# it ran:


# %%
def day(plan, t=0.04, parts=4):
    tf.config.threading.set_inter_op_parallelism_threads(2 * parts)
    link, processor, spans = SharedLink(1 / t), threading.Lock(), []

    def timed(lane, work):
        def run(x):
            with processor if lane == "processor" else threading.Lock():
                start = time.perf_counter()
                work()
                spans.append((lane, start, time.perf_counter(), str(int(x))))
            return x

        return lambda x: tf.numpy_function(run, [x], tf.float32, stateful=False)

    send, compute = timed("link", lambda: link.send(1)), timed("processor", lambda: time.sleep(t))
    program = tf.function(lambda x: list(plan(tf.unstack(x, num=parts), send, compute)), autograph=False)
    program(tf.range(float(parts)))  # the first call traces
    spans.clear()
    program(tf.range(float(parts)))
    begin = min(start for _, start, _, _ in spans)
    return [(lane, 1000 * (start - begin), 1000 * (end - begin), name) for lane, start, end, name in spans]


# %%
def all_at_once(parts, send, compute):
    return [compute(send(part)) for part in parts]


def show(plan, title):
    spans = [pictures.Span(*each) for each in fresh.run(day, plan)]
    axis = {"unit": "milliseconds", "lanes": ["link", "processor"], "until": 350.0}
    return pictures.timeline(spans, title=title, **axis)


# %% tags=["show"] covers=["S27"]
show(all_at_once, "All at once: t is 40 ms")

# %% [markdown]
# ### Exercise: `in_turn` (3 points)
# Send one part after the other, and compute on a part as soon as it is there. **Budget: no two transfers at the same time, and
# no transfer waits for computing.** Return a list of the results, in the order of the parts. Roughly 6
# lines.


# %% answer="in_turn" covers=["S27"]
def in_turn(parts, send, compute):  # tensors, two functions of a tensor -> a list of tensors
    ### BEGIN SOLUTION
    before, results = [], []
    for part in parts:
        with tf.control_dependencies(before):
            arrived = send(part)
        before = [arrived]
        results.append(compute(arrived))
    return results
    ### END SOLUTION


# %% check="in_turn" points=3
with attempt("in_turn"):
    import pickle

    # of a copy, so that no tensor is left in a name beside the answer: `day` could not be sent with it
    plan = pickle.loads(fresh.pickled_call("in_turn", in_turn))

    def named(x):
        def send(part):
            return tf.square(part, name="send")

        results = plan(tf.unstack(x), send, lambda part: tf.negative(part, name="compute"))
        expect(not tf.is_tensor(results), "`in_turn` returned one tensor; expected a list of tensors")
        return list(results)

    four, three = tf.range(1.0, 5.0), tf.range(1.0, 4.0)
    display(graphs.of_answer(named, four).without("Unpack", "Identity").draw(critical=True))
    for x in (four, three):
        seen = graphs.of_answer(named, x).without("Unpack", "Identity")
        parts, wanted = [int(each) for each in x], [-(float(each) ** 2) for each in x]
        got = [float(each) for each in tracing.concrete(named, x)(x)]
        here = f"send squares and compute negates: for the parts {parts}"
        expect(got == wanted, f"{here} the results should be {wanted}, not {got}")
        sends, computes = ([op.name for op in seen.of_type(kind)] for kind in ("Square", "Neg"))
        says = f"for {len(x)} parts, {len(sends)} were sent and {len(computes)} computed on; expected each once"
        expect(len(sends) == len(computes) == len(x), says)
        loose = [(a, b) for a in sends for b in sends if a < b and not (seen.ordered(a, b) or seen.ordered(b, a))]
        expect(not loose, f"{len(loose)} pairs of transfers may run at the same time, such as {loose[:1]}")
        late_ones = [name for name in sends if seen.before(name) & {*computes}]
        expect(not late_ones, f"sent after a computation: {', '.join(late_ones)}; see the picture")
        waits = sorted(len(seen.before(name) & {*sends}) for name in computes)
        says = f"the {len(x)} computations wait for {waits} transfers; one waits longer than for its own part"
        expect(waits == [*range(1, len(x) + 1)], says)
    display(show(in_turn, "In turn: t is 40 ms"))

# %% [markdown]
# The thick way is the critical path: four transfers and one computation, `5t`. More edges, a longer critical path, and yet an
# earlier end: the link was the bottleneck, and the graph did not say so.

# %% [markdown]
# ## Then and now
# Control dependencies are older than `tf.function`. In 2017 a program built a graph, and a *session* ran it later. `late`,
# above, is rewritten from a textbook of that year, which says that `x` and `y` are evaluated only after `a` and `b`:


# %% tags=["show"] covers=["S28"]
def then(optimized):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        z = late()
        config, seen = v1.ConfigProto(device_count={"GPU": 0}), v1.RunMetadata()
        config.graph_options.rewrite_options.disable_meta_optimizer = not optimized
        config.graph_options.optimizer_options.opt_level = 0 if optimized else -1  # 0 is the default, L1
        options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
        with v1.Session(config=config) as session:
            print("z is", session.run(z, options=options, run_metadata=seen), end="; ran: ")
    nodes = sorted(seen.step_stats.dev_stats[0].node_stats, key=lambda node: node.all_start_nanos)
    print(*(node.node_name for node in nodes if node.node_name in "abxyz"))


then(optimized=False)
then(optimized=True)

# %% [markdown]
# ### What changed
# The first line has the optimizer off, and an order that the textbook promises. The second is the default of today's sessions, and of
# `tf.function`: Grappler computed `z` from constants before the run, and `a`, `b`, `x`, `y` did not run at all. A control
# edge orders ops that run. It need not keep the optimizer from removing them.

# %% [markdown]
# ## Recipe
# ```python
# # what waits is created inside
# with tf.control_dependencies([op]): y = tf.identity(x)
# # look sees the new value
# with tf.control_dependencies([v.assign(x)]): look()
# # the i-th of many, for i >= k: at most k in progress
# with tf.control_dependencies([done[i - k]]): ...
# # is there a way (ops by name)? thick: the longest one; bytes at once, in one run
# graphs.of(step, x).ordered("AssignVariableOp", "PrintV2")
# graphs.of(step, x).draw(critical=True)
# graphs.peak(step, x)
# ```
