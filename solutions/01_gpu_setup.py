# ---
# jupyter:
#   across:
#     devices: 2
#     gpus: 2
#     rows: S1-S8
#     # house: words: GPUs that are seen, split and hidden, and the layers below them, stand in one chapter
# ---

# %% [markdown]
# # GPU setup
# **What does TensorFlow see on this machine, and why?**
#
# ![Six layers from a program down to the GPU, and what a machine without a GPU says of each.](pictures/01_gpu_setup.png)
#
# Between `tf.matmul` and a GPU lie several layers. A layer can fail without an exception. In about 70 minutes you see GPUs,
# split them, hide them, and learn to tell which layer failed.

# %% [markdown]
# ## Two GPUs on any machine
# `D` names two devices: two real GPUs if you have them. If not, `across` makes *simulated* GPUs of this machine's memory.
# TensorFlow's own code places, splits and refuses on them. Their speed says nothing. Where they cannot be had, logical CPUs
# stand in.

# %% tags=["folded"]
from across import devices, diagnosis, doctor, expecting, fresh, invented, layers, memory, pictures, placement, smi
from across.attempt import NotAttempted, attempt, call, expect, read

# %%
D = devices.gpus_or_cpus(2)
devices.here()

# %%
import os
import sys
import textwrap
from typing import NamedTuple

import tensorflow as tf

KIND = tf.DeviceSpec.from_string(D[0]).device_type
print("Python", sys.version.split()[0], "| TensorFlow", tf.__version__, "| these devices are of the kind", KIND)

# %% [markdown]
# ## Why several GPUs?
# The book behind this course, a textbook of 2017, claims: 8 GPUs in
# one machine are often as fast as 16 in many machines, because a network is slow.

# %% [markdown]
# In a training step each GPU computes gradients for a batch of its own, then all wait until these are added up. Take ResNet-50 with figures of the
# book's time, a MODEL: calculated, not measured. A step computes for 150 ms. Inside one machine it then waits for 15 ms,
# over a network of 10 Gbit/s for 155 ms.

# %% [markdown]
# ### Exercise: `prediction` (1 point)
# How many CPUs will TensorFlow list here? A variable, `CUDA_VISIBLE_DEVICES`, chooses GPUs by their numbers: how many of two
# GPUs are seen with `"1,-1,0"`? Was this TensorFlow built with CUDA, NVIDIA's platform for computing? How many times as fast
# as one GPU are 16 GPUs over the network? Replace each `None`. A complete guess earns the point.

# %% answer="prediction" covers=["S1", "S3", "S8"]
### BEGIN SOLUTION
prediction = {"CPUs": 1, "GPUs of 1,-1,0": 1, "built with CUDA": True, "16 over a network": 8}
#: prediction = {
#:     "CPUs": None,
#:     "GPUs of 1,-1,0": None,
#:     "built with CUDA": None,
#:     "16 over a network": None,
#: }
### END SOLUTION

# %% check="prediction" points=1 covers=["S1"]
with attempt("prediction", done="recorded before it was measured"):
    if all(guess is None for guess in read(prediction, "`prediction` is", expecting.dict_of()).values()):
        raise NotAttempted("prediction: not attempted yet. Replace each None by a guess.")
    count, amount = (expecting.between(0, float("inf"), kind) for kind in (expecting.whole, expecting.number))
    kinds = {"CPUs": count, "GPUs of 1,-1,0": count, "built with CUDA": expecting.truth, "16 over a network": amount}
    guesses = read(prediction, "`prediction` is", expecting.entries(kinds))
    step, box, network = 150, 15, 155  # ms: computing, waiting here, there
    times = {
        "1 GPU": 1.0,
        "8 in one machine": 8 * step / (step + box),
        "16 over a network": 16 * step / (step + network),
    }
    truth_of = {
        "CPUs": len(tf.config.list_physical_devices("CPU")),
        "GPUs of 1,-1,0": len(memory.seen("1,-1,0", 2)),
        "built with CUDA": tf.test.is_built_with_cuda(),
        "16 over a network": round(times["16 over a network"], 1),
    }
    for what, guess in guesses.items():
        truly = truth_of[what]
        near = abs(guess - truly) <= 0.1 * truly
        print(f"{what:18} you said {guess}, it is {truly}{'' if near else '  <- a surprise'}")
    display(pictures.bars(times, title="MODEL: ResNet-50, images a second", unit="times one GPU"))

# %% [markdown]
# <details><summary>Does the claim hold?</summary>
#
# With these figures the claim holds. Chapter 11 measures.
# </details>

# %% [markdown]
# ## Physical and logical devices
# What the machine has are *physical* devices. What a program may name are *logical* devices. `list_physical_devices` does not
# start TensorFlow. `list_logical_devices`, the first op or the first `tf.device` block starts it. From then on the process
# cannot split a device any more.

# %% tags=["show"] covers=["S8"]
for found in tf.config.list_physical_devices():
    print(found.name, tf.config.experimental.get_device_details(found))

print(os.cpu_count(), "processors behind that one CPU")

# %% [markdown]
# TensorFlow counts all processors as one CPU. A real GPU tells its `device_name` and its `compute_capability`, a simulated
# one its name alone. One device has several spellings:
#
# | spelling | where |
# |---|---|
# | `/physical_device:GPU:0` | list of physical devices |
# | `/device:GPU:0` | list of logical devices |
# | `/job:localhost/replica:0/task:0/device:GPU:0` | `tensor.device` |
# | `/GPU:0` | `tf.device`, and this course |

# %% [markdown]
# A *logical GPU* is a piece of a GPU, with a limit of memory of its own. To a program it is a GPU like any other.

# %% [markdown]
# ### Exercise: `split` (2 points)
# Split the first physical device of a `kind` into one piece for each of `limits`, in MiB. Return the names of all logical
# devices of that kind, as TensorFlow lists them. Your function runs in a fresh process. 3 lines.
#
# <details><summary>Hint</summary>
#
# `tf.config.set_logical_device_configuration(device, pieces)` takes one physical device and a list. Each piece is a
# `tf.config.LogicalDeviceConfiguration(memory_limit=...)`. A piece of a CPU has no limit: `None`. Listing logical devices
# comes last.
# </details>


# %% answer="split" covers=["S8"]
def split(
    kind, limits
):  # "GPU", [100, 300] -> ["/device:GPU:0", "/device:GPU:1", "/device:GPU:2"] if there were two GPUs
    ### BEGIN SOLUTION
    device = tf.config.list_physical_devices(kind)[0]
    pieces = [tf.config.LogicalDeviceConfiguration(memory_limit=limit) for limit in limits]
    tf.config.set_logical_device_configuration(device, pieces)
    return [piece.name for piece in tf.config.list_logical_devices(kind)]
    ### END SOLUTION


# %%
def after_split(answer, kind, limits):  # what the answer returned, and the devices that are there afterwards
    return answer(kind, limits), devices.here()


# %% check="split" points=2
with attempt("split"):
    for kind, limits in {KIND: [512, 256, 768] if KIND == "GPU" else [None] * 3, "CPU": [None] * 3}.items():
        names, there = fresh.run(after_split, split, kind, limits)
        asked, whole = f"`split({kind!r}, {limits})`", len(tf.config.list_physical_devices(kind))
        own = [device for device in there.devices if device.type == kind]
        display(there)
        expect(len(own) == whole + 2, f"after {asked} there are {len(own)} logical {kind}s; expected {whole + 2}")
        found = [device.memory // 2**20 for device in own[:3]] if kind == "GPU" else limits
        expect(found == limits, f"after {asked} the first pieces have {found} MiB; expected {limits}")
        got = read(names, f"{asked} returned", expecting.list_of(expecting.device))
        wanted = sorted(device.name.strip("/") for device in own)
        expect(sorted(got) == wanted, f"{asked} returned {got}; TensorFlow lists {wanted}")

# %% [markdown]
# The second GPU keeps its own memory and gets a new number. Whoever names `/GPU:1` now means a piece of the first.

# %% [markdown]
# ## Where does a Keras model run?
# `trace` tells where each operation, *op* for short, ran. A model is built under `tf.device(D[1])`, and called without a
# block. The batch lies on the CPU. Guess: where are the matrices multiplied?


# %%
def build():
    return tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(4), tf.keras.layers.Dense(1)])


def called_with_a_batch(forward):
    with tf.device("/CPU:0"):
        batch = tf.ones((2, 3))
    out = []
    return placement.trace(lambda batch: out.append(forward(batch)), batch), out[0]  # in no block


def watch(device):
    with tf.device(device):
        model = build()
    return called_with_a_batch(model)[0]


HOW = {"gpus": 2} if KIND == "GPU" else {"cpus": 2}  # what a fresh process gets
LANES = list(dict.fromkeys(["/CPU:0", *D]))

# %% tags=["show"] covers=["S8"]
fresh.run(watch, D[0], **HOW).draw(title=f"Built under {D[0]}, called without a block", devices=LANES)

# %% tags=["show"] covers=["S8"]
fresh.run(watch, D[1], **HOW).draw(title=f"Built under {D[1]}, called without a block", devices=LANES)

# %% [markdown]
# `kernel` and `bias` are the weights. The block decided where the weights live, not where the products (`MatMul`) run:
# without a block TensorFlow takes the first GPU. A dashed arrow is a copy between devices: every call copies all four weights.

# %% [markdown]
# ### Exercise: `forward_on` (3 points)
# Build a model with `build()`. Return a function that takes a batch and gives the tensor `model(batch)`, inside a
# `tf.function`, too. The batch comes from `/CPU:0`. All ops shall run on `device`. Budget: one copy a call, the batch.
# Roughly 6 lines.
#
# <details><summary>Hint</summary>
#
# A function that you return runs later, outside your block.
# </details>


# %% answer="forward_on" covers=["S8"]
def forward_on(device, build):  # "/GPU:1", a function that builds a model -> a function: batch -> output
    ### BEGIN SOLUTION
    with tf.device(device):
        model = build()

    def forward(batch):
        with tf.device(device):
            return model(batch)

    return forward
    ### END SOLUTION


# %%
def seen(answer, device):
    built = []
    forward = answer(device, lambda: built.append(build()) or built[-1])
    (ran, out), _ = called_with_a_batch(forward), called_with_a_batch(forward)
    count, wanted = len(built), built[0](tf.ones((2, 3))) if built else None
    same = tf.is_tensor(out) and out.shape == getattr(wanted, "shape", None)
    got = None if same and tf.reduce_all(abs(out - wanted) < 1e-4) else repr(out)
    try:
        tf.function(lambda batch: forward(batch), autograph=False).get_concrete_function(tf.TensorSpec((2, 3)))
        refused = None
    except Exception as error:
        refused = str(error).partition("\n")[0]
    return ran, count, got, refused


# %% check="forward_on" points=3
with attempt("forward_on"):
    for device in reversed(D):
        ran, built, got, refused = fresh.run(seen, forward_on, device, **HOW)
        if device == D[1]:
            display(ran.draw(title=f"Your call, asked for on {device}", devices=LANES))
        ops = [(op.type, f"/{op.device}") for op in ran.from_inputs() if op.type != "Identity"]
        elsewhere = [f"{kind} ran on {there}" for kind, there in ops if there != device]
        expect(built == 1, f"build() was called {built} times for two calls; expected once")
        expect(
            got is None, f"for a batch your function returned {got}; expected the tensor model(batch), of shape (2, 1)"
        )
        expect(ops, "no op computed with the batch; expected the model to be called there")
        expect(not elsewhere, f"asked for {device}, {', '.join(elsewhere)}")
        expect(refused is None, f"your function must also work inside a `tf.function`; there: {refused}")
        expect(len(ran.copies()) < 2, f"{len(ran.copies())} copies, of {[name for name, _ in ran.copies()]}; budget: 1")

# %% [markdown]
# ## The driver and its table
# The *driver* is the part of the operating system that speaks to the GPU. It brings the library `libcuda` and the program
# `nvidia-smi`, which shows the GPUs. Without a driver you see a recorded table.

# %% tags=["show"] covers=["S6"]
smi.read()

# %% [markdown]
# Each GPU has two lines: number and name, then memory, used and in all. Below stand the programs that hold memory.
#
# By default CUDA numbers the fastest GPU first. With `CUDA_DEVICE_ORDER=PCI_BUS_ID` CUDA's numbers are the table's (NVIDIA's
# CUDA guide).

# %% [markdown]
# ### What changed
# The book runs `nvidia-smi` to check that CUDA is installed. The table cannot tell: its "CUDA Version" is the newest that the
# driver supports.

# %% [markdown]
# ### Which GPUs may a process see?
# The environment variable `CUDA_VISIBLE_DEVICES` lists numbers of GPUs. CUDA reads it when it starts: in a running program it
# is often too late to set it. A fresh process gets it in time.

# %% [markdown]
# ### Exercise: `seen_with` (2 points)
# Start a process by `fresh.run`: no other has the simulated GPUs. Its `CUDA_VISIBLE_DEVICES` is `value`. Call `look()`
# *there*, and return what it returned. Leave your own process as it is. 1 line.
#
# <details><summary>Hint</summary>
#
# `fresh.run(look, env={"NAME": "value"})` returns what `look` returns in a fresh process.
# </details>


# %% answer="seen_with" covers=["S4", "S8"]
def seen_with(value, look):  # "-1", a function -> what the function returns in a fresh process
    ### BEGIN SOLUTION
    return fresh.run(look, env={"CUDA_VISIBLE_DEVICES": value})
    ### END SOLUTION


# %%
def look():
    return os.getpid(), os.environ.get("CUDA_VISIBLE_DEVICES"), len(tf.config.list_physical_devices("GPU"))


# %% check="seen_with" points=2
with attempt("seen_with"):
    processes, before = [os.getpid()], os.environ.get("CUDA_VISIBLE_DEVICES")
    for value in ("-1", "1,0", "1,-1,0", ""):
        kind = expecting.row(expecting.whole, expecting.anything, expecting.whole)
        process, variable, gpus = read(seen_with(value, look), f"`seen_with({value!r}, look)` returned", kind)
        print(f"CUDA_VISIBLE_DEVICES={value:7} process {process}, GPUs listed: {gpus}")
        expect(process not in processes, f"process {process} again; expected a fresh process at each call")
        expect(variable == value, f"the variable was {variable!r} there; expected {value!r}")
        wanted = len(memory.seen(value, len(tf.config.list_physical_devices("GPU"))))
        expect(
            gpus == wanted, f"{gpus} GPUs were listed there; {value!r} shows {wanted}: it is read before anything else"
        )
        processes.append(process)
    expect(
        os.environ.get("CUDA_VISIBLE_DEVICES") == before,
        "the variable of this process has changed; expected it as it was",
    )

# %% [markdown]
# CUDA reads the variable up to the first entry that is no GPU. `"0,-1"` shows GPU 0. `"-1,0"` and the empty text show none.
# A variable that is not set hides nothing. For such lists simulated GPUs follow the same rule.

# %% [markdown]
# ## From the program down to the GPU
# For work on a real GPU each layer needs those below it. The driver belongs to the operating system, the layers above it to
# your environment. A dashed layer is missing here. A simulated GPU needs none of them.

# %% tags=["show"] covers=["S5"]
layers.draw(diagnosis.gather(), title="This machine, layer by layer")

# %% [markdown]
# **CUDA** starts work on the GPU and moves memory. **cuDNN** computes for neural networks: convolutions, pooling, recurrent
# cells. TensorFlow's *wheel*, the package that you installed, knows the versions it was built for:

# %% covers=["S3", "S5"]
build_info = tf.sysconfig.get_build_info()
{key: build_info.get(key) for key in ("is_cuda_build", "cuda_version", "cudnn_version")}

# %% [markdown]
# The libraries come by `pip install "tensorflow[and-cuda]"`. A TensorFlow with CUDA asks for these:

# %% tags=["show"] covers=["S3", "S5", "S7"]
for package in diagnosis.wanted():
    print(package.name, package.specifier)
print("\nmissing here, or of another version:", ", ".join(diagnosis.unmet()) or "none")

# %% [markdown]
# A program without convolutions needs cuDNN, too. Where there is a driver, TensorFlow opens seven libraries before it
# registers a GPU: CUDA's runtime, cuBLAS, cuBLASLt, cuFFT, cuSOLVER, cuSPARSE and cuDNN. If one is missing, the log says
# `Cannot dlopen some GPU libraries`, and there is no GPU.

# %% [markdown]
# ### Environments
# A package belongs to an environment, a folder with a Python of its own. Packages of another environment do not help. This
# one is:

# %% tags=["show"] covers=["S7"]
kind = "conda" if os.path.isdir(os.path.join(sys.prefix, "conda-meta")) else "venv"
isolated = kind == "conda" or sys.prefix != sys.base_prefix
print(f"environment: {kind if isolated else 'none, the Python of the system'}, in {sys.prefix}")
print("TensorFlow", tf.__version__, "is in", os.path.dirname(tf.__file__))

# %% [markdown]
# ## Compute capability
# The *compute capability* of a GPU, two numbers such as 8.6, says which code it runs. The wheel has code for some of them:

# %% covers=["S3"]
names = build_info.get("cuda_compute_capabilities", invented.LINUX_WHEEL)
print("in this wheel:" if tf.test.is_built_with_cuda() else "recorded from the Linux wheel of 2.21:", names)
[diagnosis.architecture(name) for name in names]

# %% [markdown]
# Each name brings **machine code**. It runs on GPUs of the *same* first number, if the second one is the same or higher.
# Code for 8.0 runs on 8.6. A name with `compute` also brings **intermediate code**, which the driver compiles for higher
# capabilities (NVIDIA's CUDA guide; TensorFlow's `configure.py`).

# %% [markdown]
# ### Exercise: `code_for_gpus` (4 points)
# Return a list with one word for each GPU that TensorFlow lists. `"machine"`: the wheel has machine code for it.
# `"compiled"`: only intermediate code. `"none"`: no code. Roughly 10 lines. Simulated GPUs have no
# capability: try it inside `with invented.machine(invented.GPUS, ["sm_80"]):`.
#
# <details><summary>Hint</summary>
#
# `tf.sysconfig.get_build_info()` has no `"cuda_compute_capabilities"` in a wheel without CUDA. Details of a GPU:
# `tf.config.experimental.get_device_details`. Tuples compare as you wish: `(8, 6) >= (8, 0)`.
# </details>


# %% answer="code_for_gpus" covers=["S3", "S8"]
def code_for_gpus():  # -> ["machine", "none"] on a machine with two GPUs
    ### BEGIN SOLUTION
    built = tf.sysconfig.get_build_info().get("cuda_compute_capabilities", [])
    codes = [diagnosis.architecture(name) for name in built]
    words = []
    for gpu in tf.config.list_physical_devices("GPU"):
        has = tf.config.experimental.get_device_details(gpu)["compute_capability"]
        fits = [(kind, version) for kind, version in codes if version <= has]
        if any(version[0] == has[0] for _, version in fits):
            words.append("machine")
        else:
            words.append("compiled" if any(kind == "compute" for kind, _ in fits) else "none")
    return words
    ### END SOLUTION


# %% check="code_for_gpus" points=4
with attempt("code_for_gpus"):
    words = expecting.list_of(expecting.one_of(["machine", "compiled", "none"]))
    gpus = {**invented.GPUS, "NVIDIA A100": (8, 0)}
    for built, rights in {"sm_60 sm_86 compute_90": "nnmmmcn", "sm_86 compute_75 sm_120": "nmmmcmc"}.items():
        with invented.machine(gpus, built.split()):
            got = call(code_for_gpus, returns=words)
        print("in the wheel:", built)
        expect(len(got) == len(gpus), f"{len(gpus)} GPUs are listed, and you return {len(got)} words")
        for (model, capability), word, right in zip(gpus.items(), got, rights, strict=True):
            print(f"{model:18} {capability}: {word}")
            expect(word[0] == right, f"{model} has {capability}, the wheel {built.split()}; to you that is {word!r}")
    with invented.machine({"NVIDIA L4": (8, 9)}, built=[]):
        expect(call(code_for_gpus, returns=words) == ["none"], "a wheel without CUDA has code for no GPU")

# %% [markdown]
# ### What changed
# The book asks for capability 3.0 and shows a GRID K520. Your function knows what this wheel says to that GPU:

# %% tags=["show"] covers=["S3"]
try:
    with invented.machine({"GRID K520": (3, 0), "GeForce RTX 5090": (12, 0)}, names):
        print("GRID K520, GeForce RTX 5090:", code_for_gpus())
except NotImplementedError:
    print("write code_for_gpus first")

# %% [markdown]
# "Compiled" is no promise. TensorFlow's log says that it "could take 30 minutes or longer". Owners of an RTX 50 report that
# it failed (TensorFlow's issues 89272 and 101746).

# %% [markdown]
# ## The start-up log
# `across` hides TensorFlow's log. A new Python with the log on:


# %% tags=["show"]
def start():
    import tensorflow as tf

    return len(tf.config.list_logical_devices())


# %% tags=["show"] covers=["S8"]
cold = fresh.call(start, cold=True, env={"TF_CPP_MIN_LOG_LEVEL": "0"})
lines = [line.split(maxsplit=3)[-1] for line in cold.stderr.splitlines() if ".cc:" in line]
for line in dict.fromkeys(lines):  # each once; without severity, time and thread
    print(textwrap.shorten(line, 96, placeholder=" ..."))

# %% [markdown]
# A line begins with its source file. **cudart_stub.cc** looked for CUDA's runtime, `libcudart`, and did not find it. Its words
# "cuda drivers" mislead: the package may be missing, not the driver. **cuda_platform.cc** asked the driver's `libcuda` to
# start CUDA. On a machine whose GPU works, **gpu_device.cc** says `Created device` (read in the source).

# %% [markdown]
# ### Then and now
# The book opened a *session*, the object that ran a TensorFlow 1 program. Each session chose how many CPUs it had:


# %% tags=["show"] covers=["S8"]
def then():
    v1, counted = tf.compat.v1, []
    for cpus in (3, 2):
        with v1.Session(config=v1.ConfigProto(device_count={"CPU": cpus})) as session:
            counted.append([found.device_type for found in session.list_devices()].count("CPU"))
    return counted


fresh.run(then)

# %% [markdown]
# Today a process chooses once, as in `split`. The book's package `tensorflow-gpu` is retired: on Linux (x86) one wheel
# serves CPU and GPU.

# %% [markdown]
# ## "TensorFlow does not see my GPU"
# TensorFlow answers the first two questions below. The facts for the others come as a `Machine`. Each number in `visible`
# names a GPU that is there, but for -1.


# %%
class Machine(NamedTuple):
    gpus: int = 1  # how many the machine has
    driver: int | None = 570  # the host's, its major version: a container sees it, too; None: there is no driver
    handed_in: int = 1  # GPUs that this process may open: a container gets none by itself
    visible: str | None = None  # CUDA_VISIBLE_DEVICES; None: not set
    missing: tuple = ()  # which of the seven libraries are missing


# %%
FINDINGS = {
    "fine": "does TensorFlow list a GPU?",
    "wheel": "is TensorFlow built without CUDA?",
    "no GPU": "has the machine no GPU?",
    "no driver": "is there no driver?",
    "not handed in": "is no GPU handed in to this process?",
    "hidden": "does CUDA_VISIBLE_DEVICES hide all GPUs?",
    "driver": "is the driver older than 525, the oldest for CUDA 12?",
    "libraries": "is one of the seven libraries missing?",
    "read the log": "none of these?",
}

# %% [markdown]
# ### Exercise: `diagnose` (3 points)
# Return the key of the first question that is answered yes. Ask TensorFlow for `"fine"`, and for `"wheel"` by
# `tf.test.is_built_with_cuda`. Roughly 17 short lines.
#
# <details><summary>Hint</summary>
#
# `not machine.visible` is true of `None` *and* of `""`, which mean opposite things. `"-1,0".startswith("-")`.
# </details>


# %% answer="diagnose" covers=["S3", "S4", "S5", "S7", "S8"]
def diagnose(machine):  # a Machine -> a key of FINDINGS
    ### BEGIN SOLUTION
    if tf.config.list_physical_devices("GPU"):
        return "fine"
    if not tf.test.is_built_with_cuda():
        return "wheel"
    if not machine.gpus:
        return "no GPU"
    if machine.driver is None:
        return "no driver"
    if not machine.handed_in:
        return "not handed in"
    if machine.visible is not None and (machine.visible == "" or machine.visible.startswith("-")):
        return "hidden"
    if machine.driver < 525:
        return "driver"
    return "libraries" if machine.missing else "read the log"
    ### END SOLUTION


# %% check="diagnose" points=3
PATIENTS = {
    "a laptop": (Machine(gpus=0, driver=None, handed_in=0), "no GPU"),
    "new GPU, fresh Linux": (Machine(driver=None, handed_in=0), "no driver"),
    "docker run, nothing else": (Machine(handed_in=0, visible="-1", missing=("cuDNN",)), "not handed in"),
    "one of four GPUs": (Machine(gpus=4, handed_in=1, missing=("cuDNN",)), "libraries"),
    "-1 in a start-up file": (Machine(driver=470, visible="-1"), "hidden"),
    "empty in that file": (Machine(visible=""), "hidden"),
    "none of two": (Machine(gpus=2, handed_in=2, visible="-1,0"), "hidden"),
    "first of two": (Machine(gpus=2, handed_in=2, visible="0,-1"), "read the log"),
    "set to 0": (Machine(visible="0", missing=("cuDNN",)), "libraries"),
    "never updated": (Machine(driver=470, missing=("cuFFT",)), "driver"),
    "just new enough": (Machine(driver=525, missing=("cuFFT",)), "libraries"),
    "all in place": (Machine(), "read the log"),
}
with attempt("diagnose"):
    key = expecting.one_of(FINDINGS).named("a key of FINDINGS")
    with invented.machine({"NVIDIA L4": (8, 9)}, built=[]):
        got = call(diagnose, Machine(gpus=2), returns=key)
        expect(got == "fine", f"TensorFlow lists a GPU, and you say {got!r}")
    with invented.machine(built=[]):
        got = call(diagnose, Machine(), returns=key)
        expect(got == "wheel", f"TensorFlow is built without CUDA, and you say {got!r}")
    with invented.machine():
        said = {name: call(diagnose, machine, returns=key) for name, (machine, _) in PATIENTS.items()}
    print("\n".join(f"{name:26} {finding!s}" for name, finding in said.items()))
    for name, (machine, truly) in PATIENTS.items():
        expect(said[name] == truly, f'{name}: you say {said[name]!r} of {machine}; which question is first with "yes"?')

# %% [markdown]
# Here the questions, and one about compute capability, are asked of the real hardware. Simulated GPUs are left out.

# %% tags=["show"] covers=["S3", "S8"]
facts = diagnosis.gather()
diagnosis.ladder(facts, title="This machine")

# %% tags=["show"]
finding = diagnosis.diagnose(facts)
print(finding.says, finding.mend)

# %% [markdown]
# ### A rented machine
# A rented machine may be a *container*: your files and packages on a host's operating system. CUDA, cuDNN and TensorFlow are
# yours. Driver, GPU and some limits are the host's. `os.cpu_count()` does not know these limits:

# %% tags=["show"] covers=["S4"]
limits = doctor.facts()["limits"]
print("processors of the machine:", os.cpu_count(), "| this process may use:", limits["cores"])
print("processors' time allowed:", limits["cpus"] or "no limit", "| driver:", facts.driver or "none")

# %% [markdown]
# ## Explain it to a colleague
# ### Exercise: `explain` (3 points, read by a person)
# A colleague works in a rented container. `nvidia-smi` shows the GPU, with "CUDA Version: 12.8".
# `list_physical_devices("GPU")` is empty. In four to six sentences: what does the table prove, and what not? What would you
# check next? What can your colleague fix, and what only the host?

# %% [markdown] answer="explain" points=3 covers=["S4", "S5", "S6"]
# ### BEGIN SOLUTION
# The table proves that the host has a driver, that the GPU is handed to the container, and that this driver supports CUDA
# up to 12.8. It does not prove that any CUDA library or cuDNN is installed. I would ask `tf.test.is_built_with_cuda()`, then
# whether the packages of `tensorflow[and-cuda]` are in this very environment, then what CUDA_VISIBLE_DEVICES says, and
# then read the log of a new Python at level 0. My colleague can install packages and set the variable in the container.
# Only the host can change the driver.
#
# Rubric, one point each:
# 1. The table speaks for driver and GPU, and its CUDA version is only what the driver supports. Earns: "12.8 is the newest
#    CUDA this driver can serve." Does not: "CUDA 12.8 is installed."
# 2. Two checks above the driver: wheel with CUDA, packages in this environment, CUDA_VISIBLE_DEVICES, log. Earns: "I look
#    whether cuDNN is in the environment that runs the notebook." Does not: "I run nvidia-smi again."
# 3. Who fixes what: packages and variable inside, driver on the host. Earns: "She runs pip install in the container; a new
#    driver is the provider's work." Does not: "She installs a driver in the container."
# ### END SOLUTION

# %% [markdown]
# ## What you take with you
# - Ask in this order: wheel, driver, container, variable, libraries.
# - `nvidia-smi` speaks for driver and GPU only.
# - `tf.device` acts while its block runs: put the weights *and* the call into one.

# %% [markdown]
# ### Recipe: no GPU?
# ```python
# import os, tensorflow as tf
# from importlib.metadata import distributions
# print(tf.config.list_physical_devices("GPU"))   # empty: go on
# print(tf.test.is_built_with_cuda())             # False: another wheel
# # in a terminal: nvidia-smi                     # none: no driver; a table without GPUs: none handed in
# print(os.environ.get("CUDA_VISIBLE_DEVICES"))   # "", or -1 first: unset it
# print(tf.sysconfig.get_build_info())            # for which CUDA, cuDNN, capabilities
# print([each.name for each in distributions() if "nvidia" in each.name])  # libraries by pip
# ```
