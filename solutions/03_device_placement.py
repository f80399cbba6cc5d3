# ---
# jupyter:
#   across:
#     devices: 4
#     limits: {cell_seconds: 60, notebook_seconds: 180, question_seconds: 15}
#     rows: S2 S13-S20
# ---

# %% [markdown]
# # Device placement
# **Which device runs each op, and how do I decide it?**
#
# A model is a graph of small operations: a product here, a sum there. Each runs on exactly one device, and nobody
# asked you which. In 50 minutes you find out who decides, catch TensorFlow overruling you, and write three placers.

# %% [markdown]
# ## Four devices on any machine
# `D` names four devices: real GPUs if you have four, otherwise four *logical* CPUs, one processor under four names.

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
# You wrote boxes; TensorFlow added arrows. Where an arrow crosses between lanes, the graph was cut and a *send* and a
# *receive* were sewn in. That is the price of a placement: which arrows cross, and how much they carry.

# %% [markdown]
# ### What four logical CPUs are, and are not
# `/CPU:0` is the whole processor; its fifth core has no name. Logical CPUs are more names for the same cores and the
# same memory: placement and errors are real, speed is not. And copies?

# %% tags=["show"] covers=["S16"]
with tf.device(D[1]):
    here = tf.constant([1.0, 2.0, 3.0])
with tf.device(D[2]):
    there = tf.identity(here)

same = np.shares_memory(np.asarray(here), np.asarray(there))
print(f"copied from {D[1]} to {D[2]}: still the same bytes? {same}")

# %% [markdown]
# `True`: on logical CPUs a "copy" hands over a pointer. Between real GPUs it is `False`, and the bytes cross a bus.

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
placement.trace(doubled, tf.constant(1.0)).draw()

# %% [markdown]
# From outside, calling `doubled` is one op, and `.device` says where *that call* was handed in. The product inside ran
# elsewhere: `.backing_device` names the device whose memory holds the number.

# %% [markdown]
# ### Exercise: `where` (2 points)
# Return the name of the device that holds a tensor's numbers, spelled as in `D`: `"/CPU:2"`. Roughly 1 line.
#
# <details><summary>Hint</summary>
#
# Everything before `device:` is the address of a process (chapter 07). `str.split` cuts it off.
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
        expect(got == device, f"made on {device}, said to be at {got!r}; expected a name as in D")
    got = where(doubled(tf.constant(1.0)))
    expect(got == D[2], f"doubled's result is at {got!r}, you say; expected where its product ran")

# %% [markdown]
# ## The three rules
# TensorFlow's whitepaper has a clever placer, which simulates the graph and chooses devices itself. It stayed inside
# Google. You have the **simple placer**; the first rule that fits wins:
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
# Rule 2 put `a` and `b` on one device; rule 3 sent their product to another, and both had to travel. That they live
# together counted for nothing: the simple placer never looks at where the data is.

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
# Replace each `None` by `D[1]`, `D[2]`, `D[3]` or `default`, then run the check, which measures. The point is for
# committing yourself first; right or wrong, you get it.

# %% answer="prediction" covers=["S15", "S14"]
### BEGIN SOLUTION
prediction = {"ReadVariableOp": D[1], "Mul": D[2], "AddV2": default, "AssignAddVariableOp": D[1]}
#: prediction = {"ReadVariableOp": None, "Mul": None, "AddV2": None, "AssignAddVariableOp": None}
### END SOLUTION

# %% check="prediction" points=1
with attempt("prediction", done="recorded before it was measured"):
    if not any(prediction.values()):
        raise NotAttempted("prediction: not attempted yet. Replace each None by a device.")
    for op, guess in prediction.items():
        expect(guess in [*D, default], f"{op} is predicted at {guess!r}; expected one of D, or default")
    measured = placement.trace(step, tf.constant(1.0))
    display(measured.draw())
    for op, guess in prediction.items():
        ran = "/" + measured.of_type(op)[0].device
        surprise = "" if guess == ran else "  <- a surprise"
        print(f"{op:20} you said {guess}, it ran on {ran}{surprise}")

# %% [markdown]
# <details><summary>Once you have measured</summary>
#
# Reading the variable and adding to it ignored both blocks. A variable is memory on one device, and what touches that
# memory runs there. This is **rule 0**: no list of three has it, and it beats your pin without a warning.
# </details>

# %% [markdown]
# ## The rules, as code
# An `Op` has a name, perhaps a pin, and perhaps a variable that it touches.

# %%
from typing import NamedTuple


class Op(NamedTuple):
    name: str
    pin: str | None = None  # the device of its tf.device block
    variable: str | None = None  # the name of the variable that it reads or writes


# %% [markdown]
# ### Exercise: `place` (3 points)
# Return a dictionary from name to device. `before` is what an earlier run placed; a variable comes in the list before
# the ops that touch it. Roughly 5 lines.
#
# <details><summary>Hint</summary>
#
# Start with `placed = dict(before)`. Of each op ask: is it in there? does it touch a variable? has it a pin?
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
# The check holds your rules against TensorFlow itself: `step` once more.

# %% check="place" points=3
as_ops = [
    Op("v", D[1]),
    Op("ReadVariableOp", D[2], "v"),
    Op("Mul", D[2]),
    Op("AddV2"),
    Op("AssignAddVariableOp", D[3], "v"),
]

with attempt("place"):
    got = place(as_ops, default, {})
    measured = placement.trace(step, tf.constant(1.0))
    display(measured.draw(title="What TensorFlow did"))
    for op in as_ops[1:]:
        said, ran = got.get(op.name), "/" + measured.of_type(op.name)[0].device
        expect(said == ran, f"you place {op.name} on {said!r}, it ran elsewhere: which rule is that?")
    kept = place([Op("late", D[3])], default, {"late": D[1]})["late"]
    expect(kept == D[1], f"an op that ran on {D[1]} goes to {kept!r} once it is pinned: see rule 1")

# %% [markdown]
# ## You say, TensorFlow obeys
# ### Exercise: `split` (3 points)
# Return `a @ b + b @ a`: the first product computed on the first device of the list, the second on the second, the sum
# on the third. Roughly 6 lines.
#
# <details><summary>Hint</summary>
#
# Three `with tf.device(...)` blocks. Use `devices`, not `D`: the list will change.
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
    got = np.array(total).tolist()
    expect(got == np.array(a @ b + b @ a).tolist(), f"you return {got}; expected a @ b + b @ a")
    ran = sorted("/" + op.device for op in seen.of_type("MatMul"))
    expect(ran == D[1:3], f"the products ran on {ran}; expected one on each of the first two")
    expect(where(total) == D[3], f"the sum is at {where(total)}; expected it on the third")

# %% [markdown]
# ## When is it decided?
# An eager op is placed when it runs, each time anew. A `tf.function` is traced once. So what does a block around the
# *call* do?

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
    print(f"called under {device}:", free.backing_device[-5:], "and", pinned.backing_device[-5:])
print("traced", len(traces), "time")


# %% tags=["show"] covers=["S18"]
def call():
    with tf.device(D[3]):
        return mixed(tf.ones([2, 2]))


placement.trace(call).draw()

# %% [markdown]
# One trace, four placements. A block around a call is a **soft default**: what is pinned inside stays, what nobody
# pinned follows the caller. Tracing fixes the wishes, not the devices.

# %% [markdown]
# ### A device that is not there
# TensorFlow forgives foolish wishes in silence; chapter 04 makes it complain.


# %% tags=["show"]
def lost():
    with tf.device("/GPU:42"):
        return tf.sqrt(2.0)


placement.trace(lost).draw(title="Asked for GPU 42")

# %% [markdown]
# ## The placer's own log
# TensorFlow tells every decision, if asked. Once asked it does not quite stop, so a fresh process does the talking.


# %% tags=["show"] covers=["S17"]
def talk():
    tf.debugging.set_log_device_placement(True)
    with tf.device("/CPU:2"):
        two = tf.constant(2.0)
    two * 3.0


fresh.run(talk, cpus=4)

# %% [markdown]
# Name, type, device; `_Arg` and `_Retval` are the doors for values. `two` was made on CPU 2, its product elsewhere. Fine
# for one `Mul`, hopeless for a network: `trace` hands you the same facts as data.

# %% tags=["show"] covers=["S17"]
facts = placement.trace(step, tf.constant(1.0))
facts

# %% tags=["show"] covers=["S17"]
[(op.name, op.device) for op in facts if op.type == "Mul"]

# %% [markdown]
# ## Then and now
# A textbook of 2017 taught the rules with a graph, built first and run by a session later. The program still runs, and
# its log shows something that eager code hides.


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
# We ran only `a`'s initializer, and the log has a line for `c` already: the first run placed the *whole* graph. Running
# `c` adds no line. (The book's listing initializes an `x`, which its program never defines.)

# %% [markdown]
# Rule 1, caught in the act: `c` runs on the default device, and is pinned only then (by a private method; there is no
# other). We run it in the same session, then in a new one.

# %% tags=["show"] covers=["S14", "S18"]
with tf.Graph().as_default() as old_graph:
    x = tf.compat.v1.placeholder(tf.float32, name="x")
    c = tf.multiply(x, x, name="c")

config = tf.compat.v1.ConfigProto(device_count={"CPU": 4})
session = tf.compat.v1.Session(graph=old_graph, config=config)
session.run(c, {x: 3.0})
c.op._set_device("/cpu:3")

# %% tags=["show"] covers=["S14", "S18"]
placement.trace_graph(old_graph, c, {x: 3.0}, session=session).draw(title="The old session")

# %% tags=["show"] covers=["S14", "S18"]
placement.trace_graph(old_graph, c, {x: 3.0}, cpus=4).draw(title="A new session")

# %% [markdown]
# The old session does not even notice. In eager code every run is a first, so there rule 1 goes unseen.

# %% [markdown]
# ## A function instead of a name
# The book can do better than a name: it gives `device` a *function*, which is asked about every op as it is created.
# Today's `tf.device` wants none of it:

# %% tags=["show"] covers=["S19"]
try:
    tf.device(lambda op: "/cpu:1")
except RuntimeError as error:
    print(error)

# %% [markdown]
# `tf.compat.v1.device` still takes one. Let it tell us what it is asked:


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
# Look for the type `Variable`. Nothing makes it any more: today's variable is a `VarHandleOp`, the old style a
# `VariableV2`. The book tests for `"Variable"`, which nothing on the list matches, and no error says so.

# %% [markdown]
# ### Exercise: `variables_on` (2 points)
# The book's idea, with its broken test: everything goes to `rest`. Repair it: variables of both kinds belong on
# `first`. Change 1 line.
#
# <details><summary>Hint</summary>
#
# `op.type in (...)`, with the types that the list gives for `w` and `old`.
# </details>


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
    seen = placement.trace_graph(graph, product, cpus=4)
    display(seen.draw())
    ran = {name: seen[name].device for name in ("new", "old", "product")}
    if set(ran.values()) == {"CPU:2"}:
        raise NotAttempted("variables_on: not repaired yet, all goes to `rest` as in the book.")
    for name, wanted in (("new", "CPU:1"), ("old", "CPU:1"), ("product", "CPU:2")):
        kind = graph.get_operation_by_name(name).type
        expect(ran[name] == wanted, f"{name}, a {kind}, went to {ran[name]}; expected the other device")

# %% [markdown]
# ## Round robin
# ### Exercise: `round_robin` (3 points)
# Return a device function: variables take turns over the list, from its start; any other op keeps what it asks for,
# `return op.device`. Roughly 7 lines.

# %% [markdown]
# <details><summary>Hint: taking turns</summary>
#
# `turns = itertools.cycle(devices)`, then `next(turns)` for ever.
# </details>
#
# <details><summary>Hint: why not return None, or ""?</summary>
#
# `None` raises. An empty string wipes out the pin of a `tf.device` block inside yours.
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


# %% check="round_robin" points=3 covers=["S20"]
with attempt("round_robin", after=["variables_on"]):
    three = ["/cpu:1", "/cpu:2", "/cpu:3"]
    with tf.Graph().as_default() as graph, tf.compat.v1.device(round_robin(three)):
        weights = [tf.compat.v1.Variable(float(i), name=f"w{i}") for i in range(5)]
        with tf.device("/cpu:2"):
            total = tf.add_n(weights, name="total")
    seen = placement.trace_graph(graph, total, cpus=4)
    display(seen.draw())
    went = [seen[f"w{i}"].device for i in range(5)]
    turns = ["CPU:1", "CPU:2", "CPU:3", "CPU:1", "CPU:2"]
    expect(went == turns, f"five variables went to {went}; expected them to take turns in order")
    at = seen["total"].device
    expect(at == "CPU:2", f"total has a block of its own and ran on {at}; expected it left alone")

# %% [markdown]
# ## The placer that never shipped
# The heart of the whitepaper's placer fits in a notebook. Go through the tasks in order; try every device, work out
# when the task would *finish* there, copies included, and take the soonest. No rules: only a clock.


# %%
class Task(NamedTuple):
    name: str
    seconds: float
    inputs: tuple = ()  # names of tasks that come earlier in the list


def schedule(tasks, placed, copy):  # -> {name: (device, start, end)}; copy: seconds between devices
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
# Return a dictionary from name to device. `schedule` of the tasks *up to this one* tells when it ends. On a tie, take
# the device listed first. Roughly 6 lines.
#
# <details><summary>Hint</summary>
#
# `min(devices, key=finish)` is the first device with the smallest `finish(device)`. To try one:
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
    expect(len(got) == 4, f"you placed {sorted(got)}; expected all four tasks")
    display(draw(network, got, 0.1, "Your placement, copies of 0.1 s"))
    expect(got["left"] != got["right"], "left and right share a device; expected them side by side")
    got = soonest(network, D[:2], copy=9.0)
    display(draw(network, got, 9.0, "Your placement, copies of 9 s"))
    expect(len(set(got.values())) == 1, f"copies take 9 s and you place {got}; expected them to count")

# %% [markdown]
# Guess before you run the next cell: can the clever placer be *slower* than everything on one device?

# %% tags=["show"] covers=["S13"]
race = [Task("images", 1.0), Task("weights", 1.0), Task("product", 1.0, ("images", "weights"))]
greedy = {"images": D[0], "weights": D[1], "product": D[0]}  # each as soon as it can
lazy = {task.name: D[0] for task in race}

for name, placed in (("greedy", greedy), ("lazy", lazy)):
    end = schedule(race, placed, copy=2.0)["product"][2]
    display(draw(race, placed, 2.0, f"{name}: done after {end:g} s"))

# %% [markdown]
# It can. `weights` is ready a second sooner on the second device, so the clock sends it there, and only then finds that
# the product must wait for it to travel. You knew. A few pins by somebody who knows the program beat a clock that sees
# one task ahead.

# %% [markdown]
# ## Explain it to a colleague
# ### Exercise: `explain` (3 points, read by a person)
# Her variables were made under `tf.device("/CPU:1")`. She wraps the *call* of a training step without pins in
# `tf.device("/CPU:3")`, hoping for another core. In four to six sentences: where do reading, multiplying and updating
# run now, which arrows cross, does she get her core, and how can she *see* it?

# %% [markdown] answer="explain" points=3 covers=["S16", "S17", "S18"]
# ### BEGIN SOLUTION
# The block around the call is a soft default, so the products, which nobody pinned, moved to CPU:3. Reading and
# updating stayed on CPU:1, because an op that touches a variable runs where its memory is. So at every step the values
# of all variables cross from CPU:1 to CPU:3 and the gradients cross back. She gets no core: logical CPUs are names for
# the same processor, and no name stands for one core. She can see all this with `placement.trace(step, batch).draw()`,
# in the placer's log, or by `.backing_device` of the results. Making the variables under the block that the step runs
# under takes the crossings away.
# ### END SOLUTION

# %% [markdown]
# ## What you take with you
# - Rule 0: what touches a variable runs where it lives. Then: what has run stays, what is pinned goes, the rest takes
#   the default.
# - The placer never looks at data. Every arrow between lanes is yours to pay for.
# - A block inside a `tf.function` pins; around its call it is a soft default.
# - `.backing_device` and `trace` say what happened.
# - Round robin counts variables, not bytes: chapter 08.
