# %% [markdown]
# # Device placement
# **Which device runs each op, and how do I decide it?**
#
# A model is a graph of small operations: a product here, a sum there. Every one of them runs on exactly one device,
# and nobody asked you which. In the next 50 minutes you find out who decides, catch TensorFlow overruling you, and
# write three placers of your own.

# %% [markdown]
# ## Four devices on any machine
# `D` holds the names of four devices: real GPUs if there are four, otherwise four *logical* CPUs, which are one
# processor under four names. The line below says which you have.

# %%
from across import devices, fresh, pictures, placement
from across.attempt import NotAttempted, attempt, expect

D = devices.best(4)
D

# %%
import itertools

import numpy as np
import tensorflow as tf

# %% [markdown]
# One function, three products, three devices. `tf.device` opens a block, and what is created inside is *pinned* there.

# %% tags=["show"] covers=["S2"]
@tf.function
def chain(x):
    with tf.device(D[1]):
        p = tf.matmul(x, x)
    with tf.device(D[2]):
        q = tf.matmul(x, p)
    with tf.device(D[3]):
        return tf.matmul(p, q)


placement.trace(chain, tf.ones([2, 2])).draw()

# %% [markdown]
# You wrote boxes; TensorFlow added arrows. Wherever an arrow crosses from one lane to another, the graph was cut and a
# *send* and a *receive* were sewn in. That is the whole price of a placement: which arrows cross, and how much they
# carry.

# %% [markdown]
# ### What four logical CPUs are, and are not
# `/CPU:0` means the whole processor. There is no name for its fifth core. Logical CPUs are further names for the same
# cores and the same memory: placement, copies and errors are real, speed is not.

# %% tags=["show"] covers=["S16"]
with tf.device(D[1]):
    here = tf.constant([1.0, 2.0, 3.0])
with tf.device(D[2]):
    there = tf.identity(here)

print("copied from", D[1], "to", D[2], "- still the same bytes?", np.shares_memory(np.asarray(here), np.asarray(there)))

# %% [markdown]
# On logical CPUs the "copy" handed over a pointer: `True`. Between real GPUs it would be `False`, and the bytes would
# have crossed a bus. Remember that whenever a picture here shows a copy.

# %% [markdown]
# ## Where did that run?
# A tensor knows its device. It knows two, in fact.

# %% tags=["show"]
@tf.function
def doubled(x):
    with tf.device(D[2]):
        return x * 2.0


# %% tags=["show"] covers=["S17"]
y = doubled(tf.constant(1.0))
print(".device         ", y.device)
print(".backing_device ", y.backing_device)

# %% [markdown]
# Seen from outside, calling `doubled` is one op, and *that call* was handed to the default device: so says `.device`.
# The product inside ran elsewhere. `.backing_device` names the device whose memory holds the number.

# %% [markdown]
# ### Exercise: `where` (2 points)
# Return the name of the device that holds a tensor's numbers, spelled as in `D`: `"/CPU:2"`. Roughly 1 line.
#
# <details><summary>Hint</summary>
#
# Everything before `device:` is the address of a process, which chapter 07 is about. `str.split` cuts it off.
# </details>

# %% answer="where" covers=["S17"]
def where(tensor):  # a tensor -> "/CPU:2"
    ### BEGIN SOLUTION
    return "/" + tensor.backing_device.split("device:")[-1]
    ### END SOLUTION


# %% check="where" points=2
with attempt("where"):
    for device in D:
        with tf.device(device):
            plain = tf.constant([1.0])
        got = where(plain)
        expect(got == device, f"a constant made on {device} is at {got!r}; expected a name spelled as in D")
    got = where(doubled(tf.constant(1.0)))
    expect(got == D[2], f"the result of doubled is said to be at {got!r}; expected the device that did the product")

# %% [markdown]
# ## The three rules
# TensorFlow's whitepaper describes a clever placer that simulates the graph, estimates sizes and copies, and picks
# devices itself. It never left Google. What shipped is the **simple placer**, with three rules, first match wins:
#
# 1. An op that an earlier run placed **stays**.
# 2. An op that you **pinned** goes where you said.
# 3. Any other op goes to the **default** device.

# %%
default = "/GPU:0" if tf.config.list_logical_devices("GPU") else "/CPU:0"
default

# %% tags=["show"] covers=["S15"]
with tf.device(D[1]):
    a = tf.Variable(3.0)
    b = tf.constant(4.0)

placement.trace(lambda: a * b).draw()

# %% [markdown]
# Rule 2 put `a` and `b` on one device; rule 3 sent the product to the default device, and both operands had to travel
# there. The product was *about* two things that live together, and that counted for nothing: the simple placer never
# looks at where the data is.

# %% [markdown]
# ## Your turn to predict
# Four ops, three blocks, one variable. Don't run `step` yet.

# %% tags=["show"]
with tf.device(D[1]):
    v = tf.Variable(2.0)


@tf.function
def step(x):
    with tf.device(D[2]):
        y = x * v  # ReadVariableOp, then Mul
    z = y + y  # AddV2
    with tf.device(D[3]):
        v.assign_add(z)  # AssignAddVariableOp
    return z


# %% [markdown]
# ### Exercise: `prediction` (1 point)
# Replace each `None` by `D[1]`, `D[2]`, `D[3]` or `default`, then run the check: it measures, and shows both. The
# point is for committing yourself before you look; right or wrong, you get it.

# %% answer="prediction" covers=["S15", "S14"]
### BEGIN SOLUTION
prediction = {"ReadVariableOp": D[1], "Mul": D[2], "AddV2": default, "AssignAddVariableOp": D[1]}
#: prediction = {"ReadVariableOp": None, "Mul": None, "AddV2": None, "AssignAddVariableOp": None}
### END SOLUTION

# %% check="prediction" points=1
with attempt("prediction"):
    if not any(prediction.values()):
        raise NotAttempted("prediction: not attempted yet. Replace each None by a device.")
    for op, guess in prediction.items():
        expect(guess in [*D, default], f"{op} is predicted at {guess!r}; expected one of D, or default")
    measured = placement.trace(step, tf.constant(1.0))
    display(measured.draw())
    for op, guess in prediction.items():
        ran = "/" + measured.of_type(op)[0].device
        print(f"{op:20} you said {guess}, it ran on {ran}", "" if guess == ran else "  <- a surprise")

# %% [markdown]
# <details><summary>Once you have measured</summary>
#
# Reading the variable and adding to it ignored both blocks. A variable is a handle to memory on its own device, and an
# op that touches the memory must run where the memory is. This is **rule 0**, which no list of three mentions, and it
# beats your pin without a warning.
# </details>

# %% [markdown]
# ## The rules, as code
# You know a rule when you can write it down so that a machine can follow it. An `Op` has a name, perhaps a pin, and
# perhaps a variable that it touches.

# %%
from typing import NamedTuple


class Op(NamedTuple):
    name: str
    pin: str | None = None  # the device of its tf.device block
    variable: str | None = None  # the name of the variable that it reads or writes


# %% [markdown]
# ### Exercise: `place` (3 points)
# Return a dictionary: name of each op to its device. `before` is what an earlier run placed. A variable stands in the
# list before the ops that touch it. Roughly 5 lines.
#
# <details><summary>Hint</summary>
#
# Start with `placed = dict(before)`. For each op, ask in this order: is it in there already? does it touch a variable?
# has it a pin?
# </details>

# %% answer="place" covers=["S14", "S18"]
def place(ops, default, before):  # [Op, ...], device, {name: device} -> {name: device}
    ### BEGIN SOLUTION
    placed = dict(before)
    for op in ops:
        if op.name not in placed:
            placed[op.name] = placed[op.variable] if op.variable else op.pin or default
    return placed
    ### END SOLUTION


# %% [markdown]
# The check holds your rules against TensorFlow's own: `step` once more.

# %% check="place" points=3
as_ops = [Op("v", D[1]), Op("ReadVariableOp", D[2], "v"), Op("Mul", D[2]), Op("AddV2")]
as_ops += [Op("AssignAddVariableOp", D[3], "v")]

with attempt("place"):
    got = place(as_ops, default, {})
    measured = placement.trace(step, tf.constant(1.0))
    for op in as_ops[1:]:
        said, ran = got.get(op.name), "/" + measured.of_type(op.name)[0].device
        expect(said == ran, f"you place {op.name} on {said!r}; TensorFlow ran it elsewhere: which rule is that?")
    kept = place([Op("AddV2", D[3])], default, {"AddV2": D[1]})
    expect(kept == {"AddV2": D[1]}, f"AddV2 ran on {D[1]} and was pinned to {D[3]} later; you said {kept}: see rule 1")

# %% [markdown]
# ## Exercise: `split` (3 points)
# Now the other way round: you say, TensorFlow obeys. Compute `a @ b` on the first device of the list and `b @ a` on
# the second; add the two on the third, and return the sum. Roughly 6 lines.
#
# <details><summary>Hint</summary>
#
# Three `with tf.device(...)` blocks. Use the names in `devices`, not those in `D`: the list will change.
# </details>

# %% answer="split" covers=["S2", "S15"]
def split(a, b, devices):  # two square matrices, three device names -> a @ b + b @ a
    ### BEGIN SOLUTION
    with tf.device(devices[0]):
        left = tf.matmul(a, b)
    with tf.device(devices[1]):
        right = tf.matmul(b, a)
    with tf.device(devices[2]):
        return left + right
    ### END SOLUTION


# %% check="split" points=3
with attempt("split", after=["where"]):
    a, b = tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([[0.0, 1.0], [1.0, 1.0]])
    total = split(a, b, [D[1], D[2], D[3]])
    seen = placement.trace(tf.function(split), a, b, [D[1], D[2], D[3]])
    display(seen.draw())
    expect(bool(tf.reduce_all(total == a @ b + b @ a)), f"the result is {total}; expected a @ b + b @ a")
    products = sorted("/" + op.device for op in seen.of_type("MatMul"))
    expect(products == [D[1], D[2]], f"the products ran on {products}; expected one on each of the first two devices")
    expect(where(total) == D[3], f"the sum is at {where(total)}; expected the third device")

# %% [markdown]
# ## When is it decided?
# Run eagerly, an op is placed at the moment it runs, each time anew. A `tf.function` is traced once. So what becomes of
# a block put around the *call*?

# %% tags=["show"] covers=["S18"]
traces = []


@tf.function
def mixed(x):
    traces.append("traced")
    free = x @ x
    with tf.device(D[1]):
        pinned = x @ x
    return free, pinned


# %% tags=["show"] covers=["S18"]
for device in D:
    with tf.device(device):
        free, pinned = mixed(tf.ones([2, 2]))
    print(f"called under {device}: free on {free.backing_device[-5:]}, pinned on {pinned.backing_device[-5:]}")
print("traced", len(traces), "time")

# %% [markdown]
# One trace, four placements. A block around a call is a **soft default**: what is pinned inside stays pinned, and
# everything that nobody pinned follows the caller. Tracing fixes the wishes; devices are settled when the function is
# first prepared for each default.

# %% [markdown]
# ### A device that is not there
# Wishes can be foolish. By default TensorFlow forgives them in silence; chapter 04 makes it complain.

# %% tags=["show"]
with tf.device("/GPU:42"):
    lost = tf.constant(1.0) + 1.0
print("asked for GPU 42, ran on", lost.backing_device[-5:])

# %% [markdown]
# ## The placer's own log
# TensorFlow will tell you every decision, if you switch that on. Once on it does not quite go off again, so we let a
# fresh process do the talking.

# %% tags=["show"] covers=["S17"]
def talk():
    tf.debugging.set_log_device_placement(True)
    with tf.device("/CPU:2"):
        two = tf.constant(2.0)
    two * 3.0


fresh.run(talk, cpus=4)

# %% [markdown]
# Three short facts per line: name, op type, device. `_Arg` and `_Retval` are the doors of the function. Fine for one
# product, hopeless for a network: for that, `trace` hands you the same facts as data.

# %% tags=["show"] covers=["S17"]
facts = placement.trace(step, tf.constant(1.0))
facts

# %% tags=["show"] covers=["S17"]
[(op.name, op.device) for op in facts if op.type == "Mul"]

# %% [markdown]
# ## Then and now
# The program that taught this in 2017 is a graph, built first and run by a session later. It still runs, and its log is
# still the best place to see rule 1.

# %% tags=["show"] covers=["S14", "S15", "S17"]
def then():
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        with tf.device("/cpu:1"):
            a = v1.Variable(3.0, name="a", use_resource=False)
            b = tf.constant(4.0, name="b")
        c = tf.multiply(a, b, name="c")
        config = v1.ConfigProto(device_count={"CPU": 4}, log_device_placement=True)
        with v1.Session(config=config) as session:
            session.run(a.initializer)
            print("now c, for the first time:", session.run(c))


fresh.run(then)

# %% [markdown]
# We ran only the initializer of `a`, and the log already has a line for `c`: the first run placed the *whole* graph, so
# running `c` adds nothing. (The book's listing initializes an `x` that its program never defines; we say `a`.)

# %% [markdown]
# Rule 1 can be caught in the act. An op cannot be pinned again after it has run, except by a private method. The old
# session shrugs; a new one, which has placed nothing yet, obeys.

# %% tags=["show"] covers=["S14", "S18"]
with tf.Graph().as_default() as old_graph:
    x = tf.compat.v1.placeholder(tf.float32)
    c = tf.multiply(x, x, name="c")

config = tf.compat.v1.ConfigProto(device_count={"CPU": 4})
session = tf.compat.v1.Session(graph=old_graph, config=config)
print("first run  ", placement.trace_graph(old_graph, c, {x: 3.0}, session=session)["c"].device)

c.op._set_device("/cpu:3")
print("old session", placement.trace_graph(old_graph, c, {x: 3.0}, session=session)["c"].device)
print("new session", placement.trace_graph(old_graph, c, {x: 3.0})["c"].device)

# %% [markdown]
# ## A function instead of a name
# The same book offers something better than a name: hand `device` a *function*, which is asked about every op as it is
# created and answers with a device. Its example keeps variables on the CPU. Today's `tf.device` wants none of it:

# %% tags=["show"] covers=["S19"]
try:
    tf.device(lambda op: "/cpu:1")
except RuntimeError as error:
    print(error)

# %% [markdown]
# `tf.compat.v1.device` still takes one, in a graph and inside a `tf.function`. Let it tell us what it is asked:

# %% tags=["show"] covers=["S19"]
def nosy(op):
    print(f"{op.type:20} {op.name}")
    return op.device


with tf.Graph().as_default(), tf.compat.v1.device(nosy):
    w = tf.compat.v1.Variable(3.0, name="w")
    old = tf.compat.v1.Variable(3.0, name="old", use_resource=False)
    w * old

# %% [markdown]
# ### What changed
# Look for an op of type `Variable`. There is none: that type was retired in 2016. A modern variable is a
# `VarHandleOp`, an old-style one a `VariableV2`. The book's test, `op.type == "Variable"`, has been false for every op of
# every program since, and no error ever said so.

# %% [markdown]
# ### Exercise: `variables_on` (2 points)
# Here is the book's device function, with two names of your choice in place of its two. It sends *everything* to
# `rest`. Repair it: variables, both kinds, belong on `first`. Change 1 line.

# %% answer="variables_on" covers=["S19"]
def variables_on(first, rest):  # two device names -> a device function
    def device_of(op):
        ### BEGIN SOLUTION
        #: if op.type == "Variable":
        #:     return first
        if op.type in ("VarHandleOp", "VariableV2"):
            return first
        ### END SOLUTION
        return rest

    return device_of


# %% check="variables_on" points=2
with attempt("variables_on"):
    with tf.Graph().as_default() as graph, tf.compat.v1.device(variables_on("/cpu:1", "/cpu:2")):
        new = tf.compat.v1.Variable(3.0, name="new")
        old = tf.compat.v1.Variable(4.0, name="old", use_resource=False)
        product = tf.multiply(new, old, name="product")
    seen = placement.trace_graph(graph, product)
    display(seen.draw())
    ran = {name: seen[name].device for name in ("new", "old", "product")}
    for name, wanted in (("new", "CPU:1"), ("old", "CPU:1"), ("product", "CPU:2")):
        kind = graph.get_operation_by_name(name).type
        expect(ran[name] == wanted, f"{name}, a {kind}, went to {ran[name]}; expected it on the other one")

# %% [markdown]
# ## Exercise: `round_robin` (3 points)
# "You can easily implement more complex algorithms", the book goes on, "such as pinning variables in a round-robin
# fashion." You can. Variables take turns over the list; any other op keeps the device it already asks for:
# `return op.device`. Roughly 7 lines.
#
# <details><summary>Hint: taking turns</summary>
#
# `itertools.cycle(devices)` gives a thing that `next(...)` can be asked of for ever.
# </details>
#
# <details><summary>Hint: why not return None, or ""?</summary>
#
# `None` raises. An empty string is taken literally: it wipes out the pin of a `tf.device` block inside yours.
# </details>

# %% answer="round_robin" covers=["S20"]
def round_robin(devices):  # device names -> a device function
    ### BEGIN SOLUTION
    turns = itertools.cycle(devices)

    def device_of(op):
        if op.type in ("VarHandleOp", "VariableV2"):
            return next(turns)
        return op.device

    return device_of
    ### END SOLUTION


# %% check="round_robin" points=3
with attempt("round_robin", after=["variables_on"]):
    with tf.Graph().as_default() as graph, tf.compat.v1.device(round_robin(["/cpu:1", "/cpu:2", "/cpu:3"])):
        weights = [tf.compat.v1.Variable(float(i), name=f"w{i}") for i in range(5)]
        with tf.device("/cpu:2"):
            total = tf.add_n(weights, name="total")
    seen = placement.trace_graph(graph, total)
    display(seen.draw())
    went = [seen[f"w{i}"].device for i in range(5)]
    turns = ["CPU:1", "CPU:2", "CPU:3", "CPU:1", "CPU:2"]
    expect(went == turns, f"five variables over three devices went to {went}; expected them to take turns in order")
    at = seen["total"].device
    expect(at == "CPU:2", f"total was pinned by its own block and ran on {at}; expected it to be left alone")

# %% [markdown]
# ## The placer that never shipped
# Back to the whitepaper's clever placer. Its heart fits in a notebook. Go through the ops in order; for each, try every
# device, work out when it would *finish* there, copies included, and take the soonest. No rule, no pin: only a clock.

# %%
class Task(NamedTuple):
    name: str
    seconds: float
    inputs: tuple = ()  # names of tasks that come earlier in the list


def schedule(tasks, placed, copy):  # -> {name: (device, start, end)}; a copy between devices takes `copy` seconds
    spans, free = {}, {}
    for name, seconds, inputs in tasks:
        device = placed[name]
        arrivals = [spans[i][2] + copy * (spans[i][0] != device) for i in inputs]
        start = max([free.get(device, 0.0), *arrivals])
        spans[name] = (device, start, start + seconds)
        free[device] = start + seconds
    return spans


# %% tags=["show"]
def draw(tasks, placed, copy, title):
    spans = schedule(tasks, placed, copy).items()
    lanes = [pictures.Span(device, start, end, name) for name, (device, start, end) in spans]
    return pictures.timeline(lanes, title=title, unit="seconds")


# %% [markdown]
# ### Exercise: `soonest` (3 points)
# Return name to device. `schedule` of the tasks *up to this one* tells when this one ends. When two devices tie, take
# the one listed first. Roughly 6 lines.
#
# <details><summary>Hint</summary>
#
# `min(devices, key=finish)` returns the first device with the smallest `finish(device)`. To try a device out:
# `schedule(tasks[: i + 1], {**placed, task.name: device}, copy)`.
# </details>

# %% answer="soonest" covers=["S13"]
def soonest(tasks, devices, copy):  # [Task, ...], device names, seconds -> {name: device}
    ### BEGIN SOLUTION
    placed = {}
    for i, task in enumerate(tasks):
        def finish(device, i=i, name=task.name):
            return schedule(tasks[: i + 1], {**placed, name: device}, copy)[name][2]

        placed[task.name] = min(devices, key=finish)
    return placed
    ### END SOLUTION


# %% tags=["show"]
network = [
    Task("load", 1.0),
    Task("left", 2.0, ("load",)),
    Task("right", 2.0, ("load",)),
    Task("join", 1.0, ("left", "right")),
]

# %% check="soonest" points=3
with attempt("soonest"):
    got = soonest(network, D[:2], copy=0.1)
    expect(sorted(got) == ["join", "left", "load", "right"], f"you placed {sorted(got)}; expected every task once")
    display(draw(network, got, 0.1, "Your placement, copies of 0.1 s"))
    expect(got["left"] != got["right"], "left and right share a device, one waiting; expected them side by side")
    got = soonest(network, D[:2], copy=9.0)
    expect(len(set(got.values())) == 1, f"with copies of 9 s you still move data: {got}; expected them to count")

# %% [markdown]
# Before you run the next cell: can the clever placer ever be *slower* than putting everything on one device, which the
# simple placer does without thinking?

# %% tags=["show"] covers=["S13"]
race = [Task("images", 1.0), Task("weights", 1.0), Task("product", 1.0, ("images", "weights"))]
greedy = {"images": D[0], "weights": D[1], "product": D[0]}  # each as soon as it can
lazy = {task.name: D[0] for task in race}

for name, placed in (("greedy", greedy), ("lazy", lazy)):
    end = schedule(race, placed, copy=2.0)["product"][2]
    display(draw(race, placed, 2.0, f"{name}: done after {end:g} s"))

# %% [markdown]
# It can. `weights` is ready a second earlier on the second device, so the clock sends it there, and only then finds
# that the product must wait for it to come back. You knew that before the first op ran. That is the finding behind the
# simple placer: a few pins by somebody who knows the program beat a clock that sees one op ahead.

# %% [markdown]
# ## Explain it to a colleague
# ### Exercise: `explain` (3 points, read by a person)
# Her model's variables were made under `tf.device("/CPU:1")`. To speed things up she wraps the call of the training
# step, a `tf.function` without pins, in `with tf.device("/CPU:3")`, and finds it slower. In four to six sentences:
# where do reading, multiplying and updating run now, which arrows cross, and how could she have *seen* it?

# %% [markdown] answer="explain" points=3
# ### BEGIN SOLUTION
# The block around the call is a soft default, so the products, which nobody pinned, moved to CPU:3. Reading and
# updating stayed on CPU:1, because an op that touches a variable runs where its memory is. So at every step the values
# of all variables cross from CPU:1 to CPU:3 and the gradients cross back. She can see it with
# `placement.trace(step, batch).draw()`, in the placer's log, or by looking at `.backing_device` of the results. Making
# the variables under the same block as the step takes the crossings away.
# ### END SOLUTION

# %% [markdown]
# ## What you take with you
# - Ops that touch a variable run where it lives: rule 0. Then: what has run stays, what is pinned goes, the rest takes
#   the default.
# - The placer never looks at data. Every arrow between lanes is yours to pay for.
# - A block inside a `tf.function` is a pin; around its call, a soft default.
# - `.backing_device` and `trace` tell the truth; your expectation does not.
# - Round robin counts variables, not bytes. What it costs when one is huge: chapter 08.
