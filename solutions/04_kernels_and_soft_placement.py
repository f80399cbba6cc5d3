# ---
# jupyter:
#   across:
#     devices: 2
#     rows: S21-S23
# ---

# %% [markdown]
# # Kernels and soft placement
# **Why can this op not run there, and what happens then?**
#
# You pinned an op to a device, and it ran somewhere else. Or it refused to run at all, with a message a page long. In
# 50 minutes you look up who can run where, predict where an op lands, and read those messages.

# %% [markdown]
# ## Two kinds of device on any machine
# The question needs devices of different *kinds*. Besides its CPUs, TensorFlow has an odd one for everybody: `XLA_CPU`,
# the compiler XLA posing as a device. Same processor, but its own memory and its own kernels. One flag brings it out:

# %%
import itertools
import os
import time

os.environ["TF_XLA_FLAGS"] = "--tf_xla_enable_xla_devices"

# %%
from across import devices, kernels, pictures, placement
from across.attempt import NotAttempted, attempt, expect

devices.simulate(2)

# %%
import numpy as np
import tensorflow as tf

tf.get_logger().setLevel("ERROR")

# %% [markdown]
# ## An op is a promise, a kernel is code
# `MatMul` is an **op**: a name, its inputs, its outputs. What runs is a **kernel**: code for one op, on one kind of
# device, for some dtypes. TensorFlow keeps a list of them all, and it can be read:

# %% tags=["show"] covers=["S21"]
from tensorflow.python.framework import kernels as registry

everything = registry.get_all_registered_kernels().kernel
print(f"{len(everything):,} kernels for {len({kernel.op for kernel in everything}):,} ops; one of them:")
print(next(kernel for kernel in everything if kernel.op == "MatMul"))

# %% [markdown]
# `T` is the dtype. `across.kernels` reads the same list for one op, as a table:

# %% tags=["show"] covers=["S21"]
kernels.of("MatMul")

# %% tags=["show"] covers=["S21"]
kernels.of("MatMul").draw()

# %% [markdown]
# The GPU's row is there even on a machine without one: kernels come with the package, cards do not. And look at
# `int32`: matrices of whole numbers are multiplied on a CPU, never on a GPU.

# %% [markdown]
# ### Ops without a kernel
# The op allows `uint8`, and no row has it. An op may promise what nobody has written:

# %% tags=["show"] covers=["S21"]
try:
    tf.matmul(tf.ones([2, 2], tf.uint8), tf.ones([2, 2], tf.uint8))
except tf.errors.NotFoundError as error:
    print(error.message.splitlines()[0])

# %% [markdown]
# And how many have a kernel on one kind of device and not on the other? Count. (A `DEFAULT` kernel serves both.)

# %% tags=["show"] covers=["S21"]
where = kernels.ops().values()
on_cpu = [types for types in where if types & {"CPU", "DEFAULT"}]
on_gpu = [types for types in where if types & {"GPU", "DEFAULT"}]
both = sum("DEFAULT" in types or {"CPU", "GPU"} <= types for types in where)
kinds = {"both": both, "only the CPU": len(on_cpu) - both, "only the GPU": len(on_gpu) - both}
pictures.bars(kinds, title="Where ops have kernels", unit="ops")

# %% [markdown]
# Nearly half of all ops have no kernel for a GPU. Strings, files, queues and datasets are work for a CPU; nobody misses
# them on a card, until one is pinned there.

# %% [markdown]
# ## Your turn to predict
# ### Exercise: `guesses` (1 point)
# Ten questions of the form "has this op a kernel for this dtype on this device?" Replace each `None` by `True` or
# `False`, then run the check, which looks them up. The point is for committing yourself first.

# %% answer="guesses" covers=["S21"]
### BEGIN SOLUTION
guesses = {
    ("MatMul", "float32", "GPU"): True,
    ("MatMul", "int32", "CPU"): True,
    ("MatMul", "int32", "GPU"): False,
    ("AddV2", "int32", "GPU"): True,
    ("Sqrt", "int32", "CPU"): False,
    ("Add", "string", "CPU"): True,
    ("Add", "string", "GPU"): False,
    ("FresnelCos", "float32", "XLA_CPU"): False,
    ("SegmentSumV2", "float32", "CPU"): False,
    ("NcclAllReduce", "float32", "CPU"): False,
}
#: guesses = {
#:     ("MatMul", "float32", "GPU"): None,
#:     ("MatMul", "int32", "CPU"): None,
#:     ("MatMul", "int32", "GPU"): None,
#:     ("AddV2", "int32", "GPU"): None,
#:     ("Sqrt", "int32", "CPU"): None,
#:     ("Add", "string", "CPU"): None,
#:     ("Add", "string", "GPU"): None,
#:     ("FresnelCos", "float32", "XLA_CPU"): None,
#:     ("SegmentSumV2", "float32", "CPU"): None,
#:     ("NcclAllReduce", "float32", "CPU"): None,
#: }
### END SOLUTION

# %% check="guesses" points=1
with attempt("guesses", done="recorded before they were looked up"):
    if all(guess is None for guess in guesses.values()):
        raise NotAttempted("guesses: not attempted yet. Replace each None by True or False.")
    for (op, dtype, device), guess in guesses.items():
        expect(guess in (True, False), f"{op} of {dtype} on {device} is {guess!r}; expected True or False")
        listed = [k for k in kernels.of(op) if k.device == device]
        truth = any(dtype in allowed for k in listed for allowed in (k.dtypes or {"": [dtype]}).values())
        surprise = "" if guess == truth else "  <- a surprise"
        print(f"{op:14} {dtype:8} {device:8} you said {guess!s:5}  it is {truth!s:5}{surprise}")

# %% [markdown]
# <details><summary>Once you have looked</summary>
#
# A CPU adds strings (it joins them). `NcclAllReduce` talks between cards, so no CPU needs it. And a GPU adds `int32`
# but does not multiply matrices of it? Look closer.
# </details>

# %% tags=["show"] covers=["S21"]
kernels.of("AddV2").draw()

# %% [markdown]
# Rings, not dots: that kernel is registered *for* the GPU, and its numbers stay in the *CPU's* memory. Whole numbers
# are mostly sizes and indices, and the CPU wants those at hand.

# %% [markdown]
# ## Look it up yourself
# A kernel in `kernels.of(op)` has a `device` and its `dtypes`: for each attribute, what it may be. No attribute named
# means any dtype will do. `DEFAULT` stands in where a CPU or a GPU has no fitting kernel of its own.

# %% tags=["show"] covers=["S21"]
for op in ("Sqrt", "VariableV2", "NcclAllReduce"):
    for kernel in list(kernels.of(op))[:2]:
        print(f"{op:14} {kernel.device:8} {kernel.dtypes}")

# %% [markdown]
# ### Exercise: `has_kernel` (3 points)
# Say whether some kernel of `op` runs on `device` with `dtype`. Roughly 4 lines.
#
# <details><summary>Hint</summary>
#
# For each kernel ask two things: is its device this one, or `"DEFAULT"`? Is the dtype in *every* list of
# `kernel.dtypes.values()`? `all` of nothing is `True`, which is what you want here.
# </details>


# %% answer="has_kernel" covers=["S21"]
def has_kernel(op, dtype, device):  # "MatMul", "int32", "GPU" -> True or False
    ### BEGIN SOLUTION
    for kernel in kernels.of(op):
        if kernel.device in (device, "DEFAULT") and all(dtype in allowed for allowed in kernel.dtypes.values()):
            return True
    return False
    ### END SOLUTION


# %% check="has_kernel" points=3
with attempt("has_kernel"):
    known = {("MatMul", "int32", "CPU"): True, ("MatMul", "int32", "GPU"): False}
    known |= {("NcclAllReduce", "float32", "GPU"): True, ("NcclAllReduce", "float32", "CPU"): False}
    known |= {("VariableV2", "string", "CPU"): True, ("VariableV2", "string", "GPU"): False}
    known |= {("VarHandleOp", "float32", "GPU"): True, ("VarHandleOp", "int32", "GPU"): False}
    for question, truth in known.items():
        got = has_kernel(*question)
        expect(isinstance(got, bool), f"{question}: you return {got!r}; expected True or False")
        expect(got == truth, f"{question}: you say {got}; look at kernels.of({question[0]!r})")

# %% [markdown]
# ## 3 is not 3.0
# You rarely write a dtype. TensorFlow infers one from the value, and with it you have chosen the kernels.

# %% tags=["show"] covers=["S22"]
for value in (3, 3.0, [1, 2.5], True, 3j, 2**40, np.arange(3), np.ones(3)):
    print(f"{value!s:14} {tf.constant(value).dtype.name}")

# %% [markdown]
# A Python integer is `int32` while it fits, a float is `float32`, and one float in a list makes all of it float. NumPy's
# arrays keep their own. So a 3 in place of a 3.0 can move a variable off its card:

# %% tags=["show"] covers=["S21", "S22"]
kernels.of("VariableV2").draw(title="Variables in 2017: VariableV2")

# %% tags=["show"] covers=["S21", "S22"]
kernels.of("VarHandleOp").draw(title="Variables now: VarHandleOp")

# %% [markdown]
# A textbook of 2017 pinned `tf.Variable(3)` to a GPU and got an exception; with 3.0 all was well. Compare the columns
# `int32` and `float32`. Now `DEFAULT` stands in for the GPU, and the gap is where it was: nobody has filled it in all
# these years.

# %% [markdown]
# ### Exercise: `fit` (2 points)
# Make a tensor of `values` that `op` can take on `device`: of the dtype that TensorFlow infers if there is a kernel for
# it, else of `float32`. Roughly 4 lines.
#
# <details><summary>Hint</summary>
#
# `tf.constant(values).dtype.name` is a dtype for `has_kernel`; `tf.cast` makes another one.
# </details>


# %% answer="fit" covers=["S22"]
def fit(values, op, device):  # [1, 2], "MatMul", "GPU" -> a tensor
    ### BEGIN SOLUTION
    tensor = tf.constant(values)
    if has_kernel(op, tensor.dtype.name, device):
        return tensor
    return tf.cast(tensor, tf.float32)
    ### END SOLUTION


# %% check="fit" points=2
with attempt("fit", after=["has_kernel"]):
    for values, device, dtype in (([1, 2], "CPU", "int32"), ([1, 2], "GPU", "float32"), ([1.5], "GPU", "float32")):
        got = fit(values, "MatMul", device)
        expect(tf.is_tensor(got), f"fit({values}, ...) returns {got!r}; expected a tensor")
        said = f"{values} for MatMul on a {device} becomes {got.dtype.name}"
        expect(got.dtype.name == dtype, f"{said}: is there a kernel for it, and is a change needed?")
        expect(np.allclose(got, values), f"{said} of value {np.array(got)}; expected the numbers kept")

# %% [markdown]
# ## What happens then?
# Now some of it runs. These are the devices, best first: where nothing is pinned, the first that can is taken.


# %% tags=["show"]
def preferred(name):
    return "XLA" in name, "GPU" not in name


found = [placement.short_device(device.name) for device in tf.config.list_logical_devices()]
here = sorted(found, key=preferred)
missing = f"GPU:{sum(name.startswith('GPU') for name in here)}"
print("here:", here, "   not here:", missing)

# %% [markdown]
# `FresnelCos` describes light at an edge. XLA never learned it. We pin it to `XLA_CPU` all the same, between two ops
# that can run there.


# %% tags=["show"] covers=["S21", "S23"]
@tf.function
def edge(x):
    with tf.device("/device:XLA_CPU:0"):
        y = tf.sqrt(x)
        z = tf.raw_ops.FresnelCos(x=y)
        return tf.square(z)


placement.trace(edge, tf.ones([3])).draw()

# %% [markdown]
# One op left the block, without a word, and two copies were made for it. This is **soft placement**: a pin is a wish,
# and when there is no kernel, or no such device, TensorFlow drops it.

# %% [markdown]
# ### What changed: "falls back to the CPU"
# So says the textbook, and so do many tutorials. Pin an op to the CPU that only XLA can run:


# %% tags=["show"] covers=["S23"]
@tf.function
def sums(x):
    with tf.device("/CPU:1"):
        return tf.raw_ops.SegmentSumV2(data=x, segment_ids=[0, 0, 1], num_segments=2)


placement.trace(sums, tf.ones([3])).draw(title="Pinned to CPU:1")

# %% [markdown]
# It fell *away from* the CPU. There is no "back to the CPU" in the rule: TensorFlow takes the best device that has a
# kernel, whatever it is. On most days that happens to be a CPU.

# %% [markdown]
# ## The placer's rule
# ### Exercise: `landing` (3 points)
# Say where an op runs: `wish` is its pin or `None`; `types` are the device types it has kernels on; `here` is the list
# of devices, best first. Return `None` where TensorFlow would raise. Roughly 6 lines.
#
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


# %% [markdown]
# The check asks TensorFlow itself. Four ops with different kernels, and a function that runs one and looks:

# %% tags=["show"]
OPS = {
    "Sqrt": lambda x: tf.raw_ops.Sqrt(x=x),
    "FresnelCos": lambda x: tf.raw_ops.FresnelCos(x=x),
    "SegmentSumV2": lambda x: tf.raw_ops.SegmentSumV2(data=x, segment_ids=[0, 1, 2], num_segments=3),
    "FFTND": lambda x: tf.raw_ops.FFTND(input=tf.complex(x, x), fft_length=[3], axes=[0]),
}
registered = kernels.ops()
TYPES = {op: registered[op] for op in OPS}


# %% tags=["show"] covers=["S23"]
def really(op, wish, soft):  # "Sqrt", "CPU:1", True -> "CPU:1", or None if TensorFlow raises
    tf.config.set_soft_device_placement(soft)
    try:
        with tf.device(wish and f"/device:{wish}"):
            return placement.short_device(OPS[op](tf.ones([3])).backing_device)
    except tf.errors.OpError:
        return None
    finally:
        tf.config.set_soft_device_placement(True)


# %% check="landing" points=3
with attempt("landing"):
    missed = 0
    for op, wish in itertools.product(OPS, (None, "CPU:1", "XLA_CPU:0", missing)):
        said = [landing(wish, TYPES[op], here, soft) for soft in (True, False)]
        ran = [really(op, wish, soft) for soft in (True, False)]
        missed += said != ran
        mark = "" if said == ran else f"  <- you said {said[0]}, {said[1]}"
        print(f"{op:13} pinned to {wish!s:10} soft: {ran[0]!s:10} hard: {ran[1]!s:10}{mark}")
    expect(not missed, f"{missed} of the lines above are not as you say; look for a pattern in them")

# %% [markdown]
# `FFTND`, a Fourier transform, is one of the few ops that only a GPU has. Without one it raises whatever you wish:
# soft placement finds another device, it cannot write a kernel.

# %% [markdown]
# ## Make it complain
# A wish is dropped in silence. `tf.config.set_soft_device_placement(False)` makes it an order.


# %% tags=["show"] covers=["S23"]
def complaint(run, *args):  # what TensorFlow says when it must obey; "" if it can
    tf.config.set_soft_device_placement(False)
    try:
        run(*args)
        return ""
    except tf.errors.OpError as error:
        return error.message
    finally:
        tf.config.set_soft_device_placement(True)


# %% [markdown]
# The same disobedience can be met in three ways: op by op, in a `tf.function`, and in an old session.


# %% tags=["show"] covers=["S23"]
def eagerly(device):
    with tf.device(f"/device:{device}"):
        return tf.raw_ops.FresnelCos(x=[1.0])


def in_function(device):
    return tf.function(eagerly)(device)


def in_session(device):
    with tf.Graph().as_default():
        y = eagerly(device)
        with tf.compat.v1.Session(config=tf.compat.v1.ConfigProto(device_count={"CPU": 2})) as session:
            return session.run(y)


WAYS = {"eager": eagerly, "tf.function": in_function, "session": in_session}

# %% [markdown]
# First a device that is not here. Of each message, the line that matters:


# %% tags=["show"]
def gist(message):
    words = ("satisfy", "Cannot assign", "Unable to find", "OpKernel")
    line = next((line for line in message.splitlines() if any(w in line for w in words)), message)
    return line.replace("/job:localhost/replica:0/task:0", "")[:230]


# %% tags=["show"] covers=["S23"]
for way, run in WAYS.items():
    print(f"{way}: {gist(complaint(run, missing))}\n")

# %% [markdown]
# One mistake, three messages. Now a device that is here, but has no kernel:

# %% tags=["show"] covers=["S23", "S21"]
for way, run in WAYS.items():
    print(f"{way}: {gist(complaint(run, 'XLA_CPU:0'))}\n")

# %% [markdown]
# Compare the two eager messages: the same sentence. Only the lists at its end tell a missing *card* from a missing
# *kernel*, and the mends are quite different.

# %% [markdown]
# ### The error nobody can soften
# NCCL is NVIDIA's library by which cards talk to each other. Ask for it on two CPUs:


# %% tags=["show"] covers=["S21", "S23"]
def add_up(by):  # one and one, each on its device
    strategy = tf.distribute.MirroredStrategy(["/CPU:0", "/CPU:1"], cross_device_ops=by)

    def replica():
        return tf.distribute.get_replica_context().all_reduce("sum", tf.constant([1.0]))

    return tf.function(strategy.run, autograph=False)(replica)


# %% tags=["show"] covers=["S21", "S23"]
nccl = tf.distribute.NcclAllReduce()
try:
    add_up(nccl)
except tf.errors.InvalidArgumentError as error:
    print(error.message.partition("[[")[0].strip())

# %% [markdown]
# "Registered devices" are the kinds that are here, "registered kernels" the kinds that would do. Nothing is in both
# lists, so softness, which is on, has nowhere to go. The mend is to use other ops:

# %% tags=["show"] covers=["S21", "S23"]
add_up(tf.distribute.HierarchicalCopyAllReduce())

# %% [markdown]
# ### Exercise: `culprit` (3 points)
# Read a message and say what is wrong: `"no such device"`, `"no kernel there"` (another device here has one) or
# `"no kernel anywhere"` (on this machine). Roughly 8 lines.

# %% [markdown]
# <details><summary>Hint: phrases to look for</summary>
#
# `No OpKernel was registered` and `Could not find device for node`: nobody here can. `no supported kernel`: that device
# cannot.
# </details>
#
# <details><summary>Hint: the eager message</summary>
#
# `message.split("'")[1]` is the device asked for. Is it in what follows `All available devices`?
# </details>


# %% answer="culprit" covers=["S23"]
def culprit(message):  # an error's message -> one of the three
    ### BEGIN SOLUTION
    if "No OpKernel was registered" in message or "Could not find device for node" in message:
        return "no kernel anywhere"
    if "no supported kernel" in message:
        return "no kernel there"
    wished, _, available = message.partition("All available devices")
    if available and wished.split("'")[1] in available:
        return "no kernel there"
    return "no such device"
    ### END SOLUTION


# %% check="culprit" points=3
with attempt("culprit"):
    for way, run in WAYS.items():
        for device, wanted in ((missing, "no such device"), ("XLA_CPU:0", "no kernel there")):
            message = complaint(run, device)
            got = culprit(message)
            expect(got == wanted, f"{way}, {device}: you say {got!r} of: {gist(message)}")
    message = complaint(add_up, nccl)
    got = culprit(message)
    expect(got == "no kernel anywhere", f"you say {got!r} of: {gist(message)}")

# %% [markdown]
# ## What softness costs
# An op that lands elsewhere needs its inputs there. How long does a copy take? We make a tensor on each device, wait
# until it is computed, and time its way to `CPU:0`.


# %% tags=["show"] covers=["S23"]
def copy_ms(device, mib):  # milliseconds for one copy to CPU:0
    with tf.device(f"/device:{device}"):
        x = tf.ones([mib << 18]) + 1.0  # 2**18 floats of 4 bytes are 1 MiB
        float(x[0])
    start = time.perf_counter()
    with tf.device("/CPU:0"):
        tf.identity(x)[0].numpy()
    return 1000 * (time.perf_counter() - start)


# %% tags=["show"] covers=["S23"]
copies = {
    f"{device}, {mib} MiB": [copy_ms(device, mib) for _ in range(8)][1:]
    for device in here
    if device != "CPU:0"
    for mib in (4, 16, 64)
}
pictures.bars(copies, title="One copy to CPU:0, 7 runs each", unit="milliseconds")

# %% [markdown]
# From one logical CPU to another a pointer is handed over. From `XLA_CPU`, which has memory of its own, bytes move, and
# the time grows with them. To a card they take a bus.

# %% [markdown]
# ### Exercise: `crossings` (2 points)
# A tensor goes through a chain of ops, all pinned to `wish`, placement soft. How often must it change its device between
# ops? `chain` has each op's `types`. Roughly 2 lines.
#
# <details><summary>Hint</summary>
#
# First a list of landings; then `itertools.pairwise(places)` gives each with its neighbour.
# </details>


# %% answer="crossings" covers=["S23"]
def crossings(chain, wish, here):  # [{"CPU"}, {"CPU", "GPU"}], "GPU:0", devices -> a number
    ### BEGIN SOLUTION
    places = [landing(wish, types, here, True) for types in chain]
    return sum(one != other for one, other in itertools.pairwise(places))
    ### END SOLUTION


# %% tags=["show"] covers=["S23"]
CHAIN = ["Sqrt", "FresnelCos", "FresnelCos", "Sqrt", "SegmentSumV2", "FresnelCos"]


@tf.function
def through(x, device):
    with tf.device(f"/device:{device}"):
        for op in CHAIN:
            x = OPS[op](x)
    return x


# %% check="crossings" points=2
with attempt("crossings", after=["landing"]):
    for wish in ("XLA_CPU:0", "CPU:1"):
        seen = placement.trace(through, tf.ones([3]), wish)
        display(seen.draw(title=f"All pinned to {wish}"))
        ran = [op.device for op in seen.of_type(*OPS)]
        moved = sum(one != other for one, other in itertools.pairwise(ran))
        got = crossings([TYPES[op] for op in CHAIN], wish, here)
        expect(got == moved, f"{wish}: you count {got!r}; the tensor was at {', '.join(ran)}")

# %% [markdown]
# Every pin is the same, and still the chain zigzags. Each dashed arrow is a copy that no pin asked for.

# %% [markdown]
# ## Then and now
# The textbook's program: an integer variable on a GPU, in a session. It runs as it did, on your machine as it is.


# %% tags=["show"] covers=["S21", "S22", "S23"]
def book(value, soft):
    v1 = tf.compat.v1
    with tf.Graph().as_default(), tf.device("/GPU:0"):
        i = v1.Variable(value, use_resource=False, name="i")
        with v1.Session(config=v1.ConfigProto(allow_soft_placement=soft)) as session:
            session.run(i.initializer)
    return "ran"


# %% tags=["show"] covers=["S21", "S22", "S23"]
for value in (3, 3.0):
    print(f"{value}, soft: {book(value, soft=True)}")
    try:
        print(f"{value}, hard: {book(value, soft=False)}")
    except tf.errors.InvalidArgumentError as error:
        print(f"{value}, hard: {gist(error.message)}")

# %% [markdown]
# By the registry, a card takes the 3.0 and refuses the 3. Without a card both fail, and the book's advice, "write 3.0",
# mends nothing: the message speaks of a device, not of a kernel. Read it before you change your dtypes.

# %% [markdown]
# ### What changed
# Not the kernels, as you saw. The *default* did: a session still is hard unless you say so, TensorFlow 2 is soft.

# %% tags=["show"] covers=["S22", "S23"]
print("soft in TensorFlow 2:", tf.config.get_soft_device_placement())
print("soft in a session:   ", tf.compat.v1.ConfigProto().allow_soft_placement)
with tf.device("/GPU:0"):
    print("tf.Variable(3) is at ", placement.short_device(tf.Variable(3).device))

# %% [markdown]
# The integer variable that once stopped the program now goes to a CPU, and all ops that touch it follow (rule 0 of
# chapter 03). An exception became a silent move.

# %% [markdown]
# ## What you take with you
# - An op runs where there is a kernel for its dtype: `kernels.of(op)` tells, even without the card.
# - `3` is `int32`, and few GPU kernels want it; `3.0` is `float32`.
# - Soft placement takes the best device that *can*, not "the CPU", and says nothing.
# - To find out, make it hard, and read which is missing: the device, or the kernel.
# - Every landing elsewhere is a copy there and a copy back.
