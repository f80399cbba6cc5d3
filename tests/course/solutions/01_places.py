# ---
# jupyter:
#   across:
#     limits:
#       cell_seconds: 15
#       notebook_seconds: 90
#       question_seconds: 10
#       memory_bytes: 1610612736
#       tmp_bytes: 134217728
# ---

# %% [markdown]
# # Places
# The fixture course's chapter: small, quick, and shaped like a real one. Its exercises have the names and the calls of
# chapter 03, so that an attack tries the same on both.

# %%
import itertools
from typing import NamedTuple

import numpy as np
import tensorflow as tf

D = ["/CPU:0", "/CPU:1", "/CPU:2", "/CPU:3"]
default = D[0]


# %%
class Held(NamedTuple):  # a tensor, as far as it matters here
    device: str  # to which the call was handed
    backing_device: str  # that holds the numbers
    numbers: np.ndarray


# %% [markdown]
# ## Exercise: `where` (2 points)


# %% answer="where"
def where(tensor):  # a tensor -> "/CPU:2"
    ### BEGIN SOLUTION
    return "/" + tensor.backing_device.split("device:")[-1]
    ### END SOLUTION


# %% check="where" points=2
host = "/job:localhost/replica:0/task:0/device:"
got = where(Held(host + "CPU:0", host + "CPU:2", np.ones(1)))
assert got == "/CPU:2", f"held by {host}CPU:2, said to be at {got!r}"

# %% [markdown]
# ## Exercise: `prediction` (1 point)

# %% answer="prediction"
### BEGIN SOLUTION
prediction = {"ReadVariableOp": D[1], "Mul": D[2], "AddV2": default, "AssignAddVariableOp": D[1]}
#: prediction = {"ReadVariableOp": None, "Mul": None, "AddV2": None, "AssignAddVariableOp": None}
### END SOLUTION

# %% check="prediction" points=1
assert all(prediction.values()), "replace each None by a device"


# %%
class Op(NamedTuple):
    name: str
    pin: str | None = None
    variable: str | None = None
    type: str = "Mul"


# %% [markdown]
# ## Exercise: `place` (3 points)


# %% answer="place"
def place(ops, default, before):  # [Op, ...], device, {name: device} -> {name: device}
    ### BEGIN SOLUTION
    placed = dict(before)
    for op in ops:
        if op.name not in placed:
            placed[op.name] = placed[op.variable] if op.variable else op.pin or default
    return placed
    ### END SOLUTION


# %% check="place" points=3
got = place([Op("v", D[1]), Op("read", D[2], "v"), Op("free")], default, {})
assert got == {"v": D[1], "read": D[1], "free": default}, f"you place {got}"

# %% [markdown]
# ## Exercise: `split` (3 points)


# %% answer="split"
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
a, b = tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([[0.0, 1.0], [1.0, 1.0]])
got = np.array(split(a, b, [D[0]] * 3)).tolist()
assert got == np.array(a @ b + b @ a).tolist(), f"you return {got}"

# %% [markdown]
# ## Exercise: `variables_on` (2 points)


# %% answer="variables_on"
def variables_on(first, rest):  # two device names -> a function from an op to a device
    def device_of(op):
        ### BEGIN SOLUTION
        #: if op.type == "Variable":
        if op.type in ("VarHandleOp", "VariableV2"):
            ### END SOLUTION
            return first
        return rest

    return device_of


# %% check="variables_on" points=2
got = [variables_on(D[1], D[2])(Op("x", type=kind)) for kind in ("VarHandleOp", "VariableV2", "Mul")]
assert got == [D[1], D[1], D[2]], f"a new variable, an old one and a product went to {got}"

# %% [markdown]
# ## Exercise: `round_robin` (3 points)


# %% answer="round_robin"
def round_robin(devices):  # device names -> a function from an op to a device
    ### BEGIN SOLUTION
    turns = itertools.cycle(devices)

    def device_of(op):
        if op.type in ("VarHandleOp", "VariableV2"):
            return next(turns)
        return op.device

    return device_of
    ### END SOLUTION


# %% check="round_robin" points=3
with tf.Graph().as_default() as graph, tf.compat.v1.device(round_robin(D[1:3])):
    made = [tf.compat.v1.Variable(0.0, name=f"w{i}").op.device[-5:] for i in range(3)]
assert made == ["CPU:1", "CPU:2", "CPU:1"], f"three variables went to {made}"


# %%
class Task(NamedTuple):
    name: str
    seconds: float
    inputs: tuple = ()


def schedule(tasks, placed, copy):  # -> {name: (device, start, end)}; copy: seconds between devices
    spans, free = {}, {}
    for name, seconds, inputs in tasks:
        device = placed[name]
        arrivals = [spans[i][2] + copy * (spans[i][0] != device) for i in inputs]
        start = max([free.get(device, 0.0), *arrivals])
        spans[name] = (device, start, start + seconds)
        free[device] = start + seconds
    return spans


# %% [markdown]
# ## Exercise: `soonest` (3 points)


# %% answer="soonest"
def soonest(tasks, devices, copy):  # [Task, ...], device names, seconds -> {name: device}
    ### BEGIN SOLUTION
    placed = {}
    for i, task in enumerate(tasks):

        def finish(device, i=i, name=task.name):
            return schedule(tasks[: i + 1], {**placed, name: device}, copy)[name][2]

        placed[task.name] = min(devices, key=finish)
    return placed
    ### END SOLUTION


# %% check="soonest" points=3
got = soonest([Task("load", 1.0), Task("left", 2.0, ("load",)), Task("right", 2.0, ("load",))], D[:2], copy=0.1)
assert got == {"load": D[0], "left": D[0], "right": D[1]}, f"you place {got}"

# %% [markdown]
# ## Exercise: `explain` (3 points, read by a person)

# %% [markdown] answer="explain" points=3
# ### BEGIN SOLUTION
# What touches a variable runs where its memory is; the rest follows the block around the call.
# ### END SOLUTION
