# ---
# jupyter:
#   across:
#     gpus: 2
#     rows: S21-S23
#     allowed_ops: [MatrixSquareRoot, SelfAdjointEigV2]
# ---

# %% [markdown]
# # Kernels and soft placement
# **Why can this op not run there, and what happens then?**
#
# ![Three ops pinned to GPU 1: the two squares run there, the matrix root between them on the
# CPU.](pictures/04_kernels_and_soft_placement.png)
#
# You pinned an op to a device, and it ran somewhere else. Or it refused to run, with a message a page long. In 95 minutes you
# look up which devices can run an op, predict where it lands, and repair a program.

# %% tags=["folded"]
from across import devices, kernels, placement
from across.attempt import attempt, call, expect, read
from across.expecting import device, entries, list_of, maybe, text, truth

# %%
D = devices.gpus_or_cpus(2)
D

# %%
import keras
import numpy as np
import tensorflow as tf

# %% [markdown]
# Three ops, all of them pinned to the second GPU. `sqrtm` is the root of a matrix:

# %%
with tf.device("/CPU:0"):
    x = tf.constant([[2.0, 1.0], [1.0, 3.0]])


# %% tags=["show"] covers=["S21", "S23"]
def edge(x):
    with tf.device(D[1]):
        y = tf.square(x)
        z = tf.linalg.sqrtm(y)
        return tf.square(z)


placement.trace(edge, x).draw()

# %% [markdown]
# One op ran elsewhere. No error came, and the dashed arrows are copies that nobody asked for.
#
# Without a card these GPUs are simulated: who may run what, and each error, is TensorFlow's own. Where they cannot be had,
# two logical CPUs stand in, which have a kernel for all three ops: nothing leaves its pin, and the text says what GPUs show.

# %% [markdown]
# ## An op is a name, a kernel is code
# `MatMul` is an **op**: a name, its inputs, its outputs. What runs is a **kernel**: code for one op, on one kind of
# device, for some dtypes. TensorFlow keeps a list of all kernels, the **registry**. Here is one entry of it:

# %% tags=["show"] covers=["S21"]
from tensorflow.python.framework import kernels as registry

listed = registry.get_registered_kernels_for_op("MatMul").kernel
print(next(kernel for kernel in listed if kernel.device_type == "CPU"))

# %% [markdown]
# `T` is an **attribute** of the op: the dtype of its inputs. `across.kernels` shows all entries of one op. Here is the op
# that left:

# %% tags=["show"] covers=["S21"]
print("This list is", kernels.source())
kernels.of("MatrixSquareRoot")

# %% [markdown]
# A GPU has no kernel for it. For `MatMul` the answer depends on the dtype. Before you run it: which dtypes have
# a kernel on a CPU only?

# %% tags=["show"] covers=["S21"]
kernels.of("MatMul").draw()

# %% [markdown]
# A CPU has a kernel for `int32`, a GPU has none. And the op allows `uint8`, which no row has:

# %% tags=["show"] covers=["S21"]
try:
    tf.matmul(tf.ones([2, 2], tf.uint8), tf.ones([2, 2], tf.uint8))
except tf.errors.NotFoundError as error:
    print(error.message.splitlines()[0])

# %% [markdown]
# ### What changed: "`tf.cast` only has a CPU kernel"
# TensorFlow's own GPU guide says so:

# %% tags=["show"] covers=["S21"]
kernels.of("Cast").draw()

# %% [markdown]
# A GPU casts from every dtype drawn here but `string`. The kernel for CPUs names no attribute in its entry: it is found for any
# dtype, and refuses a string when it runs.

# %% [markdown]
# ## 3 is not 3.0
# You rarely write a dtype. TensorFlow infers it from the value, and so the value chooses the kernel:

# %% tags=["show"] covers=["S22"]
for value in (3, 3.0, [1, 2.5], True, 3j, np.arange(3), np.ones(3)):
    print(f"{value!s:14} {tf.constant(value).dtype.name}")

# %% [markdown]
# A Python integer becomes `int32` if it fits, else `int64`, a Python float `float32`. NumPy's arrays keep their own dtype:
# `int64` and `float64` here. Now the kernels of a variable: those of the op of 2017, and of today's
# op. `DEFAULT` stands in on a device type that has no fitting kernel of its own:

# %% tags=["show"] covers=["S21", "S22"]
kernels.of("VariableV2").draw(title="The op of 2017, as registered today: VariableV2", devices=kernels.TYPES)

# %% tags=["show"] covers=["S21", "S22"]
kernels.of("VarHandleOp").draw(title="Variables now: VarHandleOp", devices=kernels.TYPES)

# %% [markdown]
# `DEFAULT` of today's op fills gaps that the old op has on a GPU: `int8`, `int16`, `uint8`, `uint16`, `uint64`. The gap at
# `int32` is still there, and 3 is an `int32`.

# %% [markdown]
# ### Exercise: `has_kernel` (3 points)
# Would TensorFlow find a kernel of `op` for this `value` on this type of device? A kernel in `kernels.of(op)` has a `device`
# and its `dtypes`: an attribute such as `T`, and what it may be. A kernel that names no attribute is found for any dtype, as
# the one of `Cast` on a CPU. An array of NumPy's keeps its dtype. You are asked about ops with one dtype attribute. Roughly 5
# lines.

# %% [markdown]
# <details><summary>Hint</summary>
#
# First the dtype's name, as in the table of values above. Then ask of each kernel: does its device serve? Is the dtype
# among those of its attribute, in `kernel.dtypes.values()`? `all` of an empty list is `True`.
# </details>


# %% answer="has_kernel" covers=["S21", "S22"]
def has_kernel(op, value, device):  # "MatMul", [1, 2], "GPU" -> True or False
    ### BEGIN SOLUTION
    dtype = tf.constant(value).dtype.name
    for kernel in kernels.of(op):
        if kernel.device in (device, "DEFAULT") and all(dtype in allowed for allowed in kernel.dtypes.values()):
            return True
    return False
    ### END SOLUTION


# %% check="has_kernel" points=3
with attempt("has_kernel"):
    whole = np.arange(3)
    yes = [("MatMul", 3, "CPU"), ("MatMul", 3.0, "GPU"), ("VarHandleOp", whole, "GPU"), ("NcclAllReduce", 3, "GPU")]
    yes += [("Acos", [1, 2.5], "GPU"), ("Assign", 2**40, "GPU"), ("NextIteration", 3, "CPU")]
    no = [("MatMul", 3, "GPU"), ("VarHandleOp", 3, "GPU"), ("VarHandleOp", "a", "GPU"), ("NcclAllReduce", 3, "CPU")]
    no += [("Abs", True, "CPU")]
    for question, wanted in [(each, True) for each in yes] + [(each, False) for each in no]:
        got = call(has_kernel, *question, returns=truth)
        expect(got == wanted, f"`has_kernel{question}` returned {got}; look at kernels.of({question[0]!r})")

# %% [markdown]
# ## What happens then?
# In the first picture one op left its pin. This is **soft placement**: a pin is a wish. Under **hard placement** a pin is an
# order, and TensorFlow raises an error if there is no such device, or no kernel there. (An op on a variable leaves a device
# that is there for the variable's, and says nothing.) TensorFlow 2 starts soft, a `v1.Session` starts hard:

# %% tags=["show"] covers=["S23"]
print(tf.config.get_soft_device_placement(), tf.compat.v1.ConfigProto().allow_soft_placement)

# %% [markdown]
# ### Exercise: `guesses` (1 point)
# Where does each product run when placement is soft? All five run. Below are the device types that have a kernel for a
# dtype, and the devices that are here, best first. Any complete guess earns the point.

# %% tags=["show"] covers=["S21"]
MATRICES = {dtype: tf.cast(x, dtype) for dtype in ("float32", "int32", "uint8")}
TYPES = {dtype: {each.device for each in kernels.of("MatMul") if dtype in each.dtypes["T"]} for dtype in MATRICES}
here = sorted(map(placement.short_device, placement.trace(edge, x).available), key=lambda name: "GPU" not in name)
print(TYPES, here, sep="\n")

# %% answer="guesses" covers=["S23"]
### BEGIN SOLUTION
guesses = {
    ("float32", "GPU:1"): "GPU:1",
    ("float32", "GPU:7"): "GPU:0",
    ("float32", "CPU:7"): "GPU:0",
    ("int32", "GPU:1"): "CPU:0",
    ("int32", "CPU:7"): "CPU:0",
}
#: guesses = {  # dtype of the product, pin -> the device that runs it
#:     ("float32", "GPU:1"): None,
#:     ("float32", "GPU:7"): None,
#:     ("float32", "CPU:7"): None,
#:     ("int32", "GPU:1"): None,
#:     ("int32", "CPU:7"): None,
#: }
### END SOLUTION


# %% tags=["show"] covers=["S23"]
def really(dtype, wish, soft):  # "int32", "GPU:1", True -> "CPU:0", or None if TensorFlow raises
    tf.config.set_soft_device_placement(soft)
    try:
        with tf.device(wish and f"/{wish}"):
            return placement.short_device(tf.matmul(MATRICES[dtype], MATRICES[dtype]).backing_device)
    except tf.errors.OpError:
        return None
    finally:
        tf.config.set_soft_device_placement(True)


# %% check="guesses" points=1
with attempt("guesses", done="recorded before they were looked up"):
    asked = [("float32", "GPU:1"), ("float32", "GPU:7"), ("float32", "CPU:7"), ("int32", "GPU:1"), ("int32", "CPU:7")]
    for (dtype, wish), guess in read(guesses, "`guesses` is", entries(dict.fromkeys(asked, device))).items():
        ran = really(dtype, wish, True)
        print(f"{dtype:8} pinned to {wish:6} you: {guess:6} it: {ran:6}{'' if guess == ran else ' <- a surprise'}")

# %% [markdown]
# <details><summary>What was measured</summary>
#
# Textbooks call this "falling back to the CPU". The third product was pinned to a *CPU* that is not here, and ran
# on a GPU. TensorFlow takes the best device that has a kernel, whatever type the pin named.
# </details>

# %% [markdown]
# ### Exercise: `landing` (3 points)
# Write the rule. `wish` is the pin, or `None`. `types` are the device types with a kernel. `here` lists the devices,
# best first. Return `None` where TensorFlow would raise. Roughly 6 lines.

# %% [markdown]
# <details><summary>Hint</summary>
#
# First `able`: the devices of `here` whose type is in `types`. `"CPU:1".split(":")[0]` is a type. Then: is the wish among
# them? Was there a wish at all? Is placement soft?
# </details>


# %% answer="landing" covers=["S23", "S21"]
def landing(wish, types, here, soft):  # "GPU:0", {"CPU"}, ["CPU:0", ...], True -> "CPU:0"
    ### BEGIN SOLUTION
    able = [device for device in here if device.split(":")[0] in types]
    if wish in able:
        return wish
    if able and (soft or wish is None):
        return able[0]
    return None
    ### END SOLUTION


# %% check="landing" points=3
with attempt("landing"):
    missed = 0
    for dtype, wish in [(dtype, wish) for dtype in TYPES for wish in (None, "CPU:0", "GPU:1", "CPU:7")]:
        said = [call(landing, wish, TYPES[dtype], here, soft, returns=maybe(device)) for soft in (True, False)]
        ran = [really(dtype, wish, soft) for soft in (True, False)]
        missed += said != ran
        mark = "" if said == ran else f" <- you: {said[0]}, {said[1]}"
        print(f"{dtype:8} pinned to {wish!s:6} soft: {ran[0]!s:6} hard: {ran[1]!s:6}{mark}")
    expect(not missed, f"{missed} of these lines are not as you say; look for what they have in common")
    for there, runs in ((["CPU:1", "GPU:0"], "CPU:1"), (["GPU:1", "GPU:0", "CPU:0"], "GPU:1"), (["GPU:0"], "GPU:0")):
        got = call(landing, "GPU:7", TYPES["float32"], there, True, returns=maybe(device))
        expect(got == runs, f"a machine with {there}, best first: you say {got}; look for what decides it")

# %% [markdown]
# `uint8` raises in every line: soft placement can find another device, but it cannot write a kernel.

# %% [markdown]
# ## Make it complain
# Which pins are dropped? Make placement hard: `tf.config.set_soft_device_placement(False)`. First a device that is not
# here, then one that is here and has no kernel:

# %% tags=["show"] covers=["S23"]
tf.config.set_soft_device_placement(False)
for name, op in (("/GPU:7", tf.square), (D[1], tf.linalg.sqrtm)):
    try:
        with tf.device(name):
            op(x)
    except tf.errors.InvalidArgumentError as error:
        print(error.message.replace("/job:localhost/replica:0/task:0", ""), "\n")
tf.config.set_soft_device_placement(True)

# %% [markdown]
# Both begin with the same sentence. Is the device asked for among `All available devices`? Then a *kernel* is missing, else
# at least the *device*.

# %% [markdown]
# ### Exercise: `strictly` (2 points)
# Call `run()` once, under hard placement. Return TensorFlow's whole message, or `""` if it ran. An error of Python's own goes on to who
# called. Afterwards the setting is what it was before, whatever it was, and whatever error `run` raised. Roughly 8 lines.
#
# <details><summary>Hint</summary>
#
# `tf.config.get_soft_device_placement()` is the setting. What stands in `finally:` happens also after an error.
# </details>


# %% answer="strictly" covers=["S23"]
def strictly(run):  # a function without arguments -> the message of the tf.errors.OpError that it raised, or ""
    ### BEGIN SOLUTION
    before = tf.config.get_soft_device_placement()
    tf.config.set_soft_device_placement(False)
    try:
        run()
        return ""
    except tf.errors.OpError as error:
        return error.message
    finally:
        tf.config.set_soft_device_placement(before)
    ### END SOLUTION


# %% check="strictly" points=2
with attempt("strictly"):

    def fine():
        return tf.sqrt([4.0])

    def off():
        with tf.device("/GPU:7"):
            return tf.sqrt([4.0])

    def nowhere():
        return tf.matmul(MATRICES["uint8"], MATRICES["uint8"])

    def raised(error):
        raise error

    try:
        expect(call(strictly, fine, returns=text) == "", "tf.sqrt can run everywhere here; expected an empty text")
        expect("GPU:7" in call(strictly, off, returns=text), "GPU:7 is not here; expected TensorFlow's message")
        expect(tf.config.get_soft_device_placement(), "placement was soft before, and is hard now")
        expect("UINT8" in call(strictly, nowhere, returns=text), "no kernel takes uint8; expected TensorFlow's message")
        ran = []
        of_text = call(strictly, lambda: (ran.append(1), tf.cast(tf.constant("a"), tf.float32)), returns=text)
        expect("Cast string" in of_text, f"a text cannot be cast; expected that message, got {of_text!r}")
        expect(len(ran) == 1, f"`run` was called {len(ran)} times; expected one call")
        for error in (ZeroDivisionError("1 / 0"), RuntimeError("no"), KeyError("a key")):
            arrived = None
            try:
                strictly(lambda error=error: raised(error))
            except Exception as found:
                arrived = found
            expect(tf.config.get_soft_device_placement(), f"`run` raised {error!r}, and placement stayed hard")
            expect(
                arrived is error, f"`run` raised {error!r}, an error of Python's; expected it to go on to who called"
            )
        tf.config.set_soft_device_placement(False)
        expect(
            "GPU:7" in call(strictly, off, returns=text), "placement was hard; expected TensorFlow's message as before"
        )
        expect(not tf.config.get_soft_device_placement(), "placement was hard before, and is soft now")
    finally:
        tf.config.set_soft_device_placement(True)  # for the cells below

# %% [markdown]
# ## Then and now
# A textbook of 2017 pinned an integer variable to a GPU and got an exception; with 3.0 all was well. Here is its experiment,
# in a session, which runs a graph built before:


# %% tags=["show"] covers=["S21", "S22", "S23"]
def book(value, soft):  # where the variable of 2017 lives
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, tf.device("/gpu:0"):
        i = v1.Variable(value, use_resource=False, name="i")
    with v1.Session(graph=graph, config=v1.ConfigProto(allow_soft_placement=soft)) as session:
        return placement.trace_graph(graph, i.initializer, session=session)["i"].device


# %% tags=["show"] covers=["S21", "S22", "S23"]
for value in (3.0, 3):
    for soft in (True, False):
        try:
            print(value, "soft" if soft else "hard", book(value, soft))
        except tf.errors.InvalidArgumentError as error:
            print(value, "hard", "refused")
            refusal = error.message

# %% [markdown]
# 3.0 stays on its pin both times. 3 is moved under soft placement and refused under hard placement. Its
# message, without traceback and list of kernels, holds the textbook's words:

# %% tags=["show"] covers=["S21", "S23"]
print(refusal[refusal.index("Cannot assign") :].partition("\n\nOp:")[0])

# %% [markdown]
# *Colocation* means: on one device. A variable of 2017, the op that assigns it and the op that reads it must be together. A
# GPU can do the reading (`Identity`), and not the other two.

# %% [markdown]
# ### What changed
# Today's variable: 3 and 3.0, pinned and not pinned. Guess first: where does each live?

# %% tags=["show"] covers=["S22", "S23"]
for value in (3, 3.0):
    for pin in (None, D[1]):
        with tf.device(pin):
            print(f"{value!s:4} pinned to {pin!s:7} {placement.short_device(tf.Variable(value).device)}")

# %% [markdown]
# On a GPU, no kernel for `VarHandleOp` takes `int32`. So under soft placement `tf.Variable(3)` lives on a CPU, pinned or not;
# hard placement still refuses the pin. The ops that read or assign it run there, too.

# %% [markdown]
# ### On the GPU by name
# Some other ops have a kernel for `int32` on GPUs. Guess first: who adds 3 and 1, who 3.0 and 1?

# %% tags=["show"] covers=["S21", "S22"]
for value in (3, 3.0):
    with tf.device(D[1]):
        total = tf.constant(value) + 1
    print(value, "placed on", total.device[-5:], "and its number is in the memory of", total.backing_device[-5:])
kernels.of("AddV2").draw()

# %% [markdown]
# The ring: this kernel is registered for GPUs, and its numbers stay in the CPU's memory, where the CPU adds them.

# %% [markdown]
# ### Three things can be missing
# A `tf.function` runs as a graph, and complains in other words. It cannot obey these three orders. Guess first:
# what is missing in each?

# %% tags=["show"] covers=["S21", "S23"]
orders = {"/GPU:7": "float32", D[1]: "int32", "/CPU:0": "uint8"}  # pin -> dtype of a product


@tf.function(autograph=False)
def obey(pin):
    with tf.device(pin):
        return tf.matmul(MATRICES[orders[pin]], MATRICES[orders[pin]])


# %% tags=["show"] covers=["S21", "S23"]
tf.config.set_soft_device_placement(False)
for pin in orders:
    try:
        obey(pin)
    except tf.errors.InvalidArgumentError as error:
        print(error.message.splitlines()[0], "\n")
tf.config.set_soft_device_placement(True)

# %% [markdown]
# 1. The *device* is missing: look at its name and its visibility.
# 2. A kernel *there* is missing: take another dtype or another pin.
# 3. A kernel *anywhere* here is missing: take another dtype or another op. Soft placement raises, too. A single op says
#    `Could not find device for node`.

# %% [markdown]
# ## A Keras model off its pin
# The first layer of this model resizes images. The whole call is pinned to the second GPU, the variables are not. Guess
# first: which ops leave the pin?

# %% tags=["show"] covers=["S23"]
layers = keras.layers
model = keras.Sequential([layers.Resizing(2, 2, "bicubic"), layers.Flatten(), layers.Dense(2)])
with tf.device("/CPU:0"):
    images = tf.ones([1, 8, 8, 1])
model(images)  # makes the variables, where nothing is pinned
with tf.device(D[1]):
    picture = placement.trace(model, images).draw(title=f"The call is pinned to {D[1]}")
picture

# %% [markdown]
# Two things pull ops off the pin. `ResizeBicubic` has kernels for CPUs only. And an op that reads a variable runs where the
# variable lives, as in chapter 03.

# %% [markdown]
# ### Exercise: `strays` (2 points)
# Trace `model` on `x`, with the whole call pinned to `device`. Return the types of the ops that ran elsewhere, as a list
# in the trace's order. An op of a trace has a `type` and a `device`. Roughly 3 lines.


# %% answer="strays" covers=["S23"]
def strays(model, x, device):  # model, images, "GPU:1" -> ["ResizeBicubic", ...]
    ### BEGIN SOLUTION
    with tf.device(f"/{device}"):
        seen = placement.trace(model, x)
    return [op.type for op in seen if op.device != device]
    ### END SOLUTION


# %% check="strays" points=2
with attempt("strays"):
    pin = placement.short_device(D[1])
    got = call(strays, model, images, pin, returns=list_of(text))
    got = [op for op in got if op != "Const"]  # the images, where a function of yours captures them
    print(", ".join(got))
    away = 3 if "GPU" in pin else 2  # on logical CPUs nothing but reads
    expect(len(got) == away, f"you list {len(got)} ops; the picture has {away} outside the lane of {pin}")
    expect("ReadVariableOp" in got and "ReadVariableOp_1" not in got, "expected types of ops, not names")
    expect(got[-1] == "ReadVariableOp", "the last one in the trace's order is a read")
    other = [op for op in call(strays, model, images, here[0], returns=list_of(text)) if op != "Const"]
    expect(
        len(other) == away - 2, f"no read strays from {here[0]}, where the variables are; you list {', '.join(other)}"
    )

# %% [markdown]
# ## A budget of one copy
# This chain is pinned to a GPU, and soft placement lets it run. Guess first: how many copies?


# %% tags=["show"] covers=["S23"]
def chain(x, device):
    with tf.device(device):
        x = tf.square(x)
        x = tf.linalg.sqrtm(x)
        x = tf.square(x)
        x = tf.linalg.sqrtm(x)
        return tf.square(x)


before = placement.trace(chain, x, D[1])
display(before.draw(title="Pinned without looking"))
print(len(before.copies()), "copies")

# %% [markdown]
# ### Exercise: `route` (3 points)
# Write the same chain with **one** copy. `x`, symmetric, comes from `CPU:0`. The last op is still a `tf.square` on `device`, and the
# numbers stay the same. Roughly 7 lines.


# %% answer="route" covers=["S23"]
def route(x, device):  # a tensor on CPU:0, "/GPU:1" -> the result of chain(x, device), computed on that device
    ### BEGIN SOLUTION
    with tf.device("/CPU:0"):
        x = tf.square(x)
        x = tf.linalg.sqrtm(x)
        x = tf.square(x)
        x = tf.linalg.sqrtm(x)
    with tf.device(device):
        return tf.square(x)
    ### END SOLUTION


# %% check="route" points=3
with attempt("route"):
    seen = placement.trace(route, x, D[1])
    display(seen.draw(title="Your route"))
    expect(len(seen.copies()) == 1, f"{len(seen.copies())} copies; the budget is 1")
    squares = [op.device for op in seen if op.type == "Square"]
    result = route(x, D[1])
    there = placement.short_device(D[1])
    expect(squares[-1:] == [there], f"the last op has to be a tf.square on {D[1]}")
    expect(placement.short_device(result.backing_device) == there, f"your result is on {result.backing_device[-5:]}")
    expect(np.allclose(result, chain(x, D[1]), rtol=1e-4), "the numbers are not those of `chain`")
    y = tf.constant([[3.0, 1, 0], [1, 4, 1], [0, 1, 5]])
    result = route(y, D[0])
    expect(
        placement.short_device(result.backing_device) == placement.short_device(D[0]),
        f"asked for {D[0]}, it is not there",
    )
    expect(np.allclose(result, chain(y, D[0]), rtol=1e-4), "of another matrix the numbers are not those of `chain`")

# %% [markdown]
# ### Exercise: `explain` (3 points, read by a person)
# A colleague pins her training step to `/GPU:0`. It runs, slower than before. "Then TensorFlow fell back to the CPU", she
# says. In four to six sentences: what may have happened, what is wrong with her sentence, how does she find out, and
# what are two ways to fix it?

# %% [markdown] answer="explain" points=3 covers=["S21", "S22", "S23"]
# ### BEGIN SOLUTION
# Placement is soft, so a pin is a wish: each op without a kernel for its dtype on the GPU, say one on integers or
# strings, runs on the best device that has one, and its inputs and results are copied there and on. The step did not
# fall back as a whole, and "the CPU" is not the rule; only the ops without a kernel moved. She sees which by
# `tf.config.set_soft_device_placement(False)`, which raises at the first of them, or in a trace or the placement log,
# where copies can be counted. She can change the dtype (3.0 for 3, `tf.cast`), replace the op by one that has a GPU
# kernel, or pin neighbouring ops together on the CPU so that tensors cross once.
#
# Rubric. 1 point for the cause: some ops have no GPU kernel for their dtype, and soft placement moved them without an
# error.
# 1 point for the correction and the proof: single ops moved, to the best device able; hard placement or a trace shows
# which. 1 point for two fixes that work: dtype, other op, ops grouped on one device. "Ops without a GPU kernel were moved
# one by one, and each move copies tensors" earns the first point; "the GPU was busy, so the CPU took over" earns
# nothing, nor does "switch soft placement off" as a fix: then the step does not run at all.
# ### END SOLUTION

# %% [markdown]
# ## What you take with you
# - An op runs where a kernel takes its dtype. `3` is an `int32`, `3.0` a `float32`.
# - Where a pin cannot be met, soft placement takes the best device that *can*. Hard placement tells you, but not of ops on
#   variables.
# - In a message, find what is missing: device or kernel.
# - A tensor between two devices is copied. Count copies in a trace; group ops to save them.

# %% [markdown]
# ### Recipe
# ```python
# tf.config.set_soft_device_placement(False)        # a pin that cannot be met raises
# tf.debugging.set_log_device_placement(True)       # one line an op: where it runs
# tf.constant(value).dtype                          # what was inferred
# tf.cast(x, tf.float32)                            # the dtype with most GPU kernels
# y.backing_device                                  # where a result really is
# tf.compat.v1.ConfigProto(allow_soft_placement=True)  # old programs start hard
# ```
