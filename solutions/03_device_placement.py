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
# ![Devices as lanes: three products run on GPU 1, 2 and 3; dashed arrows copy tensors between
# them.](pictures/03_device_placement.png)
#
# A program is made of small operations, called *ops*: a product, a sum. Each op runs on one device, and nobody asked you which.
# In 75 minutes you find out who decides, see TensorFlow overrule you, and place a Keras model by hand. Two optional parts
# follow.

# %% [markdown]
# ## Four devices on any machine
# `D` names four GPUs. Without four cards they are *simulated*: TensorFlow's own GPU devices, made of this machine's memory.
# Where these cannot be had, four *logical CPUs* stand in.

# %% tags=["folded"]
from across import devices, expecting, fresh, gpu_traffic, pictures, placement
from across.attempt import NotAttempted, attempt, call, expect, read

# %%
D = devices.gpus_or_cpus(4)
D

# %%
import itertools

import numpy as np
import tensorflow as tf

# %% [markdown]
# `@tf.function` makes a *graph* of a function: ops, and the tensors between them. `tf.device` opens a block. What is created
# inside is *pinned* there.


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
# `trace` runs the function and draws what ran. A lane is a device. A filled box is an op. A dashed arrow is a *copy*:
# TensorFlow cut the graph there and put in a *send* and a *receive*. Copies are the price of a placement.

# %% [markdown]
# ### What a simulated GPU is, and is not
# To TensorFlow it is a GPU: placement, copies and errors are real. Speed is not, since its ops run on your processor. It has
# memory of its own. What crosses is copied, and counted:

# %% tags=["show"] covers=["S16"]
with tf.device(D[1]):
    here = tf.constant([1.0, 2.0, 3.0])
with gpu_traffic.counting() as counted, tf.device(D[2]):
    tf.identity(here)

counted.traffic

# %% [markdown]
# `/CPU:0` is the whole processor; one core has no name. Logical CPUs are more names for the same cores and memory. Is a
# tensor copied from one to another? Guess first.


# %% tags=["show"] covers=["S16"]
def same_bytes():
    with tf.device("/CPU:1"):
        here = tf.constant([1.0, 2.0, 3.0])
    with tf.device("/CPU:2"):
        there = tf.identity(here)
    return np.shares_memory(np.asarray(here), np.asarray(there))


fresh.run(same_bytes, cpus=3)

# %% [markdown]
# <details><summary>What was measured</summary>
#
# `True`: there the "copy" hands over a pointer.
# </details>

# %% [markdown]
# ## Where did that run?
# A tensor has two devices. A `tf.function` shows the difference.


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
# `.device` says where `doubled` was *called*. The product inside ran elsewhere: `.backing_device` names the device whose
# memory holds the number.

# %% [markdown]
# ### Exercise: `where` (2 points)
# Return the name of the device that holds a tensor's numbers, spelled as in `D`: `"/GPU:2"`, or `"/CPU:0"`. Roughly 2 lines.
#
# <details><summary>Hint</summary>
#
# `tf.DeviceSpec.from_string(name)` has a `device_type` and a `device_index`.
# </details>


# %% answer="where" covers=["S17"]
def where(tensor):  # a tensor -> "/GPU:2"
    ### BEGIN SOLUTION
    spec = tf.DeviceSpec.from_string(tensor.backing_device)
    return f"/{spec.device_type}:{spec.device_index}"
    ### END SOLUTION


# %% check="where" points=2
with attempt("where"):
    with tf.device(D[1]):
        made = tf.constant(1.0)
    with tf.device("/CPU:0"):
        beside = tf.constant(1.0)
    for tensor, home in ((made, D[1]), (doubled(made), D[2]), (beside, "/CPU:0")):
        got = call(where, tensor, returns=expecting.text.named("a device's name, as in D"))
        expect("job:" not in got, f"`where` returned the whole name {got!r}; expected only its end, spelled as in D")
        found = read(got, "`where` returned", expecting.device)
        expect(found == home[1:], f"`where` returned {got!r} for a tensor in the memory of {home}")

# %% [markdown]
# ## You say, TensorFlow obeys
# ### Exercise: `split` (3 points)
# Return `a @ b + b @ a`. Compute `a @ b` on the first device of the list, `b @ a` on the second, the sum on the third.
# Roughly 6 lines.
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
with attempt("split"):
    a, b = tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([[0.0, 1.0], [2.0, 1.0]])
    seen = placement.trace(tf.function(split), a, b, D[1:])
    display(seen.draw(devices=D))
    for three in (D[1:], [D[1]] * 3):
        got = np.array(split(a, b, three)).tolist()
        expect(got == [[7.0, 7.0], [13.0, 15.0]], f"`split(a, b, {three})` returned {got}; wanted [[7, 7], [13, 15]]")
    idle = [name for name in D[1:] if all(op.type == "Identity" for op in seen.on(name))]
    expect(not idle, f"`split(a, b, {D[1:]})` computed nothing on {', '.join(idle)}; see the picture")
    lost = [op.type for op in seen.of_type("MatMul", "Einsum", "AddV2", "AddN") if op in seen.on(D[0])]
    expect(not lost, f"`split(a, b, {D[1:]})` ran {', '.join(lost)} on {D[0]}; see the picture")
    given = tuple(op.name for op in seen.everything if op.kind == "input")
    swapped = [op for op in seen.of_type("MatMul") if op in seen.on(D[1]) and op.inputs == given[::-1]]
    turned = seen.of_type("Transpose")  # a @ b is a product of b and a, transposed
    expect(turned or not swapped, f"`split(a, b, {D[1:]})` ran b @ a on {D[1]}; that is the home of a @ b")
    one = placement.trace(tf.function(split), a, b, [D[1]] * 3)
    away = [
        f"{op.type} on {op.device}" for op in one.of_type("MatMul", "Einsum", "AddV2", "AddN") if op not in one.on(D[1])
    ]
    expect(not away, f"`split(a, b, {[D[1]] * 3})` ran {', '.join(away)}")

# %% [markdown]
# ## The three rules
# You have TensorFlow's **simple placer**. Its rules, by a textbook of 2017; the first that fits wins:
#
# 1. An op that an earlier run placed **stays**.
# 2. An op that you **pinned** goes where you said.
# 3. Any other op goes to the **default** device.
#
# If there is no such device, or no kernel for the op there, another is taken, silently: chapter 04.

# %%
default = "/GPU:0" if tf.config.list_logical_devices("GPU") else "/CPU:0"
default

# %% tags=["show"] covers=["S15"]
with tf.device(D[1]):
    a = tf.Variable(3.0)
    b = tf.constant(4.0)

placement.trace(lambda: a * b).draw(devices=D)

# %% [markdown]
# Rule 2 put `a` and `b` on one device. Rule 3 sent their product to another, so both were copied. The placer did not ask
# where the inputs are.

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
# Replace each `None` by `D[1]`, `D[2]`, `D[3]` or `default`. Then run the check, which measures. Right or wrong, the point
# is yours.

# %% answer="prediction" covers=["S15", "S14"]
### BEGIN SOLUTION
prediction = {"ReadVariableOp": D[1], "Mul": D[2], "AddV2": default, "AssignAddVariableOp": D[1]}
#: prediction = {"ReadVariableOp": None, "Mul": None, "AddV2": None, "AssignAddVariableOp": None}
### END SOLUTION

# %% check="prediction" points=1
with attempt("prediction", done="recorded before it was measured"):
    ops = ("ReadVariableOp", "Mul", "AddV2", "AssignAddVariableOp")
    if prediction == dict.fromkeys(ops):
        raise NotAttempted("prediction: not attempted yet. Replace each None by a device.")
    kinds = dict.fromkeys(ops, expecting.device_in(f"{kind}:{i}" for kind in ("CPU", "GPU") for i in range(4)))
    guesses = read(prediction, "`prediction` is", expecting.entries(kinds))
    measured = placement.trace(step, tf.constant(1.0))
    display(measured.walk(title="TensorFlow's decisions", devices=D))
    for op, guess in guesses.items():
        ran = measured.of_type(op)[0].device
        print(f"{op:20} you said {guess}, it ran on {ran}{'' if guess == ran else '  <- a surprise'}")

# %% [markdown]
# ### Rule 0
# <details><summary>What was measured</summary>
#
# Move the slider: both ops that touch `v` ignored their blocks. A variable is memory on one device. **An op that touches a
# variable runs where the variable is.** The textbook lacks this rule. It beats your pin, without a warning.
# </details>

# %% [markdown]
# ### Two ops that look at their neighbours
# Rule 3 has exceptions. Nobody pins `five`, `Shape` or `Neg` here:


# %% tags=["show"]
@tf.function
def unpinned(n):
    five = tf.constant(5.0)
    with tf.device(D[2]):
        y = tf.range(0.0, n, 1.0)
    with tf.device(D[3]):
        z = y * five
    return z, tf.shape(y), -y


placement.trace(unpinned, tf.constant(3.0)).draw(devices=D)

# %% [markdown]
# The constant went to its only reader. `Shape` went to its input: it needs the size, not the numbers. `Neg` obeyed rule 3.

# %% [markdown]
# ## A Keras model
# Two layers of two weights: the first's are on `D[1]`, the second's on `D[2]`. The call is in no block.

# %%
x = tf.ones([2, 4])
model = tf.keras.Sequential([tf.keras.layers.Dense(4, activation="tanh") for _ in range(2)])
for layer, home in zip(model.layers, D[1:3], strict=True):
    with tf.device(home):
        layer.build([None, 4])

# %% tags=["show"]
from across import hands

hands.draw_placement(model, x, title="A Keras model", devices=D)

# %% [markdown]
# Each weight is read where it is: rule 0. The rest runs on the default device: rule 3. Each call
# copies four weights. Drag ops to copy less.

# %% [markdown]
# ### Exercise: `forward` (3 points)
# Return what `model(x)` returns, in a `tf.function`, too. Run each layer on the device of its weights. **Budget: copy no
# weight, and `x` or a result only if the next layer is elsewhere.** A Keras weight wraps TensorFlow's variable:
# `layer.kernel.value.device`. Roughly 4 lines.


# %% answer="forward" covers=["S2", "S15"]
def forward(model, x):  # a model of Dense layers, a batch -> the output of its last layer
    ### BEGIN SOLUTION
    for layer in model.layers:
        with tf.device(layer.kernel.value.device):
            x = layer(x)
    return x
    ### END SOLUTION


# %% check="forward" points=3
with attempt("forward"):
    seen = placement.trace(tf.function(forward), model, x)
    display(seen.draw(devices=D))
    got = np.array(forward(model, x))
    expect(np.allclose(got, model(x)), f"`forward(model, x)` returned {got.tolist()}; `model(x)` gives something else")
    copied = [f"{name} to {to}" for name, to in seen.copies()]
    expect(len(copied) <= 2, f"`forward(model, x)` made {len(copied)} copies; 2 are enough: {', '.join(copied)}")
    layers = [tf.keras.layers.Dense(3, kind, bias_initializer="ones") for kind in (None, "tanh", "relu")]
    for layer, home in zip(layers, (D[2], D[1], D[2]), strict=True):
        with tf.device(home):
            layer.build([None, 3])
    other, three = tf.keras.Sequential(layers[::-1]), tf.constant([[1.0, -2.0, 3.0]])
    of = f"of three layers with weights on {D[2]}, {D[1]}, {D[2]} `forward`"
    copied = [f"{name} to {to}" for name, to in placement.trace(tf.function(forward), other, three).copies()]
    got = np.array(forward(other, three))
    expect(np.allclose(got, other(three)), f"{of} returned {got.tolist()}; the model itself gives something else")
    expect(len(copied) <= 3, f"{of} made {len(copied)} copies; 3 are enough: {', '.join(copied)}")

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
# Return a dictionary from name to device, by rules 0 to 3; the first that fits wins. `before` is what an earlier run
# placed. A variable is in the list before the ops that touch it, or in `before`. No op is a constant or a `Shape`.
# Roughly 7 lines.
#
# <details><summary>Hint</summary>
#
# Start with `placed = dict(before)`. Of each op ask: does it touch a variable? is it in `placed`? has it a pin?
# </details>


# %% answer="place" covers=["S14", "S18"]
def place(ops, default, before):  # [Op, ...], device, {name: device} -> {name: device}
    ### BEGIN SOLUTION
    placed = dict(before)
    for op in ops:
        if op.variable:
            placed[op.name] = placed[op.variable]
        elif op.name not in placed:
            placed[op.name] = op.pin or default
    return placed
    ### END SOLUTION


# %% [markdown]
# `step`, as ops:

# %%
step_ops = [
    Op("v", D[1]),
    Op("ReadVariableOp", D[2], "v"),
    Op("Mul", D[2]),
    Op("AddV2"),
    Op("AssignAddVariableOp", D[3], "v"),
]

# %% check="place" points=3
with attempt("place"):
    got = call(place, step_ops, default, {}, returns=expecting.dict_of(expecting.device))
    measured = placement.trace(step, tf.constant(1.0))
    display(measured.moved(got).draw(title="Your rules", devices=D))
    display(measured.draw(title="TensorFlow", devices=D))
    for op in step_ops[1:]:
        ran = measured.of_type(op.name)[0].device
        expect(got.get(op.name) == ran, f"you place {op.name} on {got.get(op.name)}, TensorFlow ran it on {ran}")
    before = {"late": D[1], "free": D[1], "u": D[2], "w": D[2]}
    later = [Op("late", D[2]), Op("free"), Op("new"), Op("v"), Op("w", D[1])]
    later += [Op("read v", D[1], "v"), Op("read u", D[1], "u"), Op("read w", D[1], "w")]
    homes = [D[1], D[1], D[3], D[3], D[2], D[3], D[2], D[2]]
    got = call(place, later, D[3], before, returns=expecting.dict_of(expecting.device))
    for op, home in zip(later, homes, strict=True):
        there = got.get(op.name, "no device at all")
        says = f"with the default {D[3]}, and {before} from an earlier run, you place {op} on {there}"
        expect(there == home[1:], f"{says}; TensorFlow runs it on {home}")

# %% [markdown]
# ## When is it decided?
# Outside a `tf.function` ops are *eager*: each is placed when it runs. The Python of a `tf.function` runs at the first call and
# leaves a graph. Later calls with tensors of these types and shapes run the graph. What does a block around a *call* do?

# %% tags=["show"] covers=["S18"]
built = []


@tf.function
def mixed(x):
    built.append("a graph")
    free = x @ x
    with tf.device(D[1]):
        pinned = x @ x
    return free, pinned


# %% tags=["show"] covers=["S18"]
for device in D:
    with tf.device(device):
        free, pinned = mixed(tf.ones([2, 2]))
    print(f"called under {device}:", free.backing_device[-5:], "and", pinned.backing_device[-5:])
print("graphs:", len(built))


# %% tags=["show"] covers=["S18"]
def under_a_block(x):
    with tf.device(D[3]):
        return mixed(x)


placement.trace(under_a_block, tf.ones([2, 2])).draw()

# %% [markdown]
# One graph, four placements. A block around a call is a **soft default**: what is pinned inside stays, and what nobody
# pinned follows the call. The graph fixes the pins, not the devices.

# %% [markdown]
# ## The placer's own log
# TensorFlow prints its decisions, if you ask before the first op. If you ask later, it stays silent. So we ask in a fresh
# process.


# %% tags=["show"] covers=["S17"]
def talk(device):
    tf.debugging.set_log_device_placement(True)
    with tf.device(device):
        two = tf.constant(2.0)
    two * 3.0


fresh.run(talk, D[2], cpus=4)

# %% [markdown]
# `_Arg` comes in, `_Retval` goes out. `trace` gives such facts as data:

# %% tags=["show"] covers=["S17"]
placement.trace(step, tf.constant(1.0))

# %% [markdown]
# ## Then and now
# In 2017 a *session* ran a graph built first. The textbook's program, for today's TensorFlow:


# %% tags=["show"] covers=["S14", "S15", "S17"]
def then(device):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        with tf.device(device):
            a = v1.Variable(3.0, name="a", use_resource=False)
            b = tf.constant(4.0, name="b")
        c = tf.multiply(a, b, name="c")
        config = v1.ConfigProto(device_count={"CPU": 4}, log_device_placement=True)
        with v1.Session(config=config) as session:
            session.run(a.initializer)
            print("now c, for the first time:", session.run(c))


fresh.run(then, "/cpu:0" if default == "/GPU:0" else "/cpu:1")

# %% [markdown]
# As in the textbook `a` and `b` are on a CPU, and `c`, which nobody pinned, is on the default device. `a.initializer` is the op
# that gives `a` its value. We ran nothing else, and the log has a line for `c` already: the first run placed the *whole* graph.

# %% [markdown]
# Now rule 1. We run `c`, pin it too late, and run it again: in the same session, then in a new one.


# %% tags=["show"] covers=["S14", "S18"]
def late_pin(device):
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, name="x")
        c = tf.multiply(x, x, name="c")
    session = v1.Session(graph=graph, config=v1.ConfigProto(device_count={"CPU": 4}))
    session.run(c, {x: 3.0})
    c.op._set_device(device)
    old = placement.trace_graph(graph, c, {x: 3.0}, session=session)
    return old, placement.trace_graph(graph, c, {x: 3.0}, cpus=4)


# %% tags=["show"] covers=["S14", "S18"]
outcome = fresh.call(late_pin, D[3], env={"TF_CPP_MIN_LOG_LEVEL": "1"}, cold=True)
warnings = [line for line in outcome.output.splitlines() if "was changed" in line]
print(*(line[line.index("Operation") :] for line in warnings))

lanes = [*dict.fromkeys(["/CPU:0", *D])]
old_session, new_session = outcome.result()
display(old_session.draw(title="The old session", devices=lanes))
display(new_session.draw(title="A new session", devices=lanes))

# %% [markdown]
# "This mutation will have no effect": rule 1 in TensorFlow's own words. In eager code every run is a first one: you do
# not meet rule 1.

# %% [markdown]
# ## Explain it to a colleague
# ### Exercise: `explain` (3 points, read by a person)
# Her variables were made under `tf.device("/CPU:1")`. Her training step has no pins. She *calls* it under
# `tf.device("/CPU:3")` and hopes for another core. In four to six sentences: where do reading, multiplying and updating
# run now, what is copied, does she get her core, and how can she *see* it?

# %% [markdown] answer="explain" points=3 covers=["S16", "S17", "S18"]
# ### BEGIN SOLUTION
# The block around the call is a soft default, so the products, which nobody pinned, moved to CPU:3. Reading and
# updating stayed on CPU:1, because an op that touches a variable runs where the variable is. So at every step the values
# of all variables are copied from CPU:1 to CPU:3 and the gradients are copied back. She gets no core: logical CPUs are
# names for the same processor, and no name stands for one core. She can see all this with
# `placement.trace(step, batch).draw()`, in the placer's log, or by `.backing_device` of the results.
#
# **Rubric.** One point for each, half a point where the reason is missing.
#
# - *Where* (1): products on CPU:3, reads and updates on CPU:1. Earns: "The variable's ops stay with the variable, the rest
#   follows the call." Does not: "Everything runs on CPU:3 now."
# - *Copies* (1): values of variables go to CPU:3, gradients or updates come back. Earns: "Each step copies the weights over
#   and the updates back." Does not: "There are some copies."
# - *Core and proof* (1): no core, since logical CPUs are names for one processor; and one way to see it. Earns: "A logical
#   CPU is a name, not a core; trace(...).draw() shows the lanes." Does not: "It will be faster; look at the speed."
# ### END SOLUTION

# %% [markdown]
# ## Recipe
# ```python
# with tf.device("/GPU:1"): ...                 # a pin; around a call: a soft default
# tensor.backing_device                         # whose memory holds the numbers
# layer.kernel.value.device                     # where a Keras weight is read: rule 0
# placement.trace(model, x).draw()              # what ran where; dashed: copied
# placement.trace(model, x).copies()            # the copies, to hold against a budget
# tf.debugging.set_log_device_placement(True)   # the placer's log; before the first op
# ```

# %% [markdown]
# ## Optional: a function instead of a name
# Another 15 minutes. The textbook gives `device` a *device function*, which gets a new op and returns a device. Today's
# `tf.device` refuses functions:

# %% tags=["show"] covers=["S19"]
try:
    tf.device(lambda op: "/cpu:1")
except RuntimeError as error:
    print(error)

# %% [markdown]
# `tf.compat.v1.device` still takes one, for a graph. This one prints the ops that it gets:


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
# Today's variable is a `VarHandleOp`, one in the old style (`use_resource=False`) a `VariableV2`. The textbook's function
# tests for the type `"Variable"`. That is neither of them, and no error says so.

# %% [markdown]
# ### Exercise: `variables_on` (2 points)
# The textbook's function, with its broken test: every op goes to `rest`. Repair it: variables of both kinds belong on
# `first`. Change 1 line.
#
# <details><summary>Hint</summary>
#
# `op.type in (...)`, with the type of the op that *is* `w`, and of the one that *is* `old`.
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
    with tf.Graph().as_default() as graph, tf.compat.v1.device(variables_on(D[2], D[3])):
        new = tf.compat.v1.Variable(3.0, name="new")
        old = tf.compat.v1.Variable(4.0, name="old", use_resource=False)
        product = tf.multiply(new, old, name="product")
        same, two = tf.identity(product, name="same"), tf.constant(2.0, name="two")
        root = tf.multiply(same, two, name="root")
    seen = placement.trace_graph(graph, root, cpus=4)
    display(seen.draw(devices=lanes))
    ran = {name: seen[name].device for name in ("new", "old", "product", "same", "two", "root")}
    if set(ran.values()) == {D[3][1:]}:
        raise NotAttempted("variables_on: not repaired yet. All goes to `rest`, as in the textbook.")
    for name, wanted in {**dict.fromkeys(ran, D[3][1:]), "new": D[2][1:], "old": D[2][1:]}.items():
        expect(ran[name] == wanted, f"{name}, a {seen[name].type}, went to {ran[name]}; wanted {wanted}")

# %% [markdown]
# ### Exercise: `round_robin` (3 points)
# Return a device function. Variables of both kinds take turns over the list, from its start. For any other op return
# `op.device`, the pin that it has. Roughly 7 lines.

# %% [markdown]
# <details><summary>Hint: taking turns</summary>
#
# `turns = itertools.cycle(devices)`, then `next(turns)` for each variable.
# </details>
#
# <details><summary>Hint: why not return None, or ""?</summary>
#
# `None` raises an error. An empty string removes the pin of a `tf.device` block inside yours.
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
with attempt("round_robin"):
    three = [D[1], D[3], "/cpu:0"]
    with tf.Graph().as_default() as graph, tf.compat.v1.device(round_robin(three)):
        weights = [tf.compat.v1.Variable(1.0, name=f"w{i}", use_resource=not i) for i in range(6)]
        with tf.device(D[2]):
            weights.append(tf.compat.v1.Variable(1.0, name="w6", use_resource=True))
            total = tf.add_n(weights, name="total")
        root = tf.multiply(total, total, name="root")
    seen = placement.trace_graph(graph, root, cpus=4)
    display(seen.draw(devices=lanes))
    went = [seen[f"w{i}"].device for i in range(7)]
    turns = [D[1][1:], D[3][1:], "CPU:0"]
    expect(went == turns * 2 + turns[:1], f"w0 to w6 went to {', '.join(went)}; wanted {', '.join(turns)} by turns")
    expect(seen["total"].device == D[2][1:], f"total, pinned to {D[2]}, ran on {seen['total'].device}")
    expect(not root.device, f"root, which nobody had pinned, is pinned to {placement.short_device(root.device)}")
    with tf.Graph().as_default(), tf.compat.v1.device(round_robin(three)):
        first = placement.short_device(tf.compat.v1.Variable(1.0).device)
    expect(first == D[1][1:], f"the first variable under another function of the same list went to {first}")

# %% [markdown]
# ## Optional: the placer that stayed at Google
# Another 15 minutes. TensorFlow's whitepaper has a clever placer, which stayed inside Google. Its heart: take the tasks
# in order, work out for every device when the task would *end* there, copies included, and take the soonest.


# %%
class Task(NamedTuple):
    name: str
    seconds: float
    inputs: tuple = ()  # names of tasks that come earlier in the list


def schedule(tasks, placed, copy):  # -> {name: (device, start, end)}; copy: seconds between devices
    spans, free = {}, {}
    for name, seconds, inputs in tasks:
        home = placed[name]
        arrivals = [spans[i][2] + copy * (spans[i][0] != home) for i in inputs]
        start = max([free.get(home, 0.0), *arrivals])
        spans[name] = (home, start, start + seconds)
        free[home] = start + seconds
    return spans


# %%
def draw(tasks, placed, copy, title):
    spans = schedule(tasks, placed, copy).items()
    spans = [pictures.Span(home, start, end, name) for name, (home, start, end) in spans]
    axis = {"unit": "seconds (MODEL)", "lanes": ["CPU:0", "CPU:1"], "until": 6.0}
    return pictures.timeline(spans, title=title, **axis)


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


# %%
diamond = [Task("load", 1.0), Task("left", 2.0, ("load",)), Task("right", 2.0, ("load",))]
diamond.append(Task("join", 1.0, ("left", "right")))

# %% check="soonest" points=3
with attempt("soonest"):
    homes = expecting.entries({task.name: expecting.device_in(["CPU:0", "CPU:1"]) for task in diamond})
    for copy, on_both in ((0.5, True), (9.0, False)):
        got = call(soonest, diamond, ["/CPU:0", "/CPU:1"], copy, returns=homes)
        display(draw(diamond, got, copy, f"Your placement, a copy takes {copy:g} s"))
        expect(got["load"] == "CPU:0", f"you place load on {got['load']}; both devices are free, CPU:0 is listed first")
        what = "left and right side by side" if on_both else "all four tasks on one device"
        expect((got["left"] != got["right"]) == on_both, f"with copies of {copy:g} s you place {got}; wanted {what}")
    one, two, three = given = [D[2], D[0], D[1]]
    waits = [Task("short", 1.0), Task("long", 5.0)]
    waits += [Task("both", 0.5, ("short", "long")), Task("again", 1.0, ("long", "short"))]
    ties = [Task("long", 5.0), Task("short", 1.0), Task("third", 1.0), Task("more", 4.0)]
    ties += [Task("most", 2.0, ("more",)), Task("last", 1.0, ("more",))]
    for tasks, wanted in ((waits, [one, two, two, two]), (ties, [one, two, three, two, two, one])):
        got = call(soonest, tasks, given, 2.0, returns=expecting.dict_of(expecting.device))
        for task, home in zip(tasks, wanted, strict=True):
            told = [f"{name} {s:g} s" + f" after {' and '.join(inputs)}" * bool(inputs) for name, s, inputs in tasks]
            says = f"for {', '.join(told)}, with {given} and copies of 2 s, you put {task.name}"
            there = got.get(task.name, "no device")
            expect(there == home[1:], f"{says} on {there}; it ends as soon, or sooner, on {home}")

# %% [markdown]
# Can the clever placer be *slower* than one device? Guess first.

# %% tags=["show"] covers=["S13"]
race = [Task("images", 1.0), Task("weights", 1.0), Task("product", 1.0, ("images", "weights"))]
clever = {"images": "CPU:0", "weights": "CPU:1", "product": "CPU:0"}  # each as soon as it can
single = dict.fromkeys(clever, "CPU:0")

for name, placed in (("clever", clever), ("one device", single)):
    end = schedule(race, placed, copy=2.0)["product"][2]
    display(draw(race, placed, 2.0, f"{name}: ends after {end:g} s"))

# %% [markdown]
# <details><summary>What was measured</summary>
#
# It can: 4 s against 3 s. `weights` ends a second sooner on `CPU:1`, so it goes there. The clever placer looks at one task at a
# time: it does not see that `product` will wait two seconds for the copy.
# </details>
