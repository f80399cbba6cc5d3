# ---
# jupyter:
#   across:
#     rows: S1-S8
# ---

# %% [markdown]
# # What does TensorFlow see on this machine, and why?
# You installed TensorFlow; it imports, it computes. On your card? Between `tf.matmul` and a GPU lie several layers, and
# any of them may say no without raising an error. In 50 minutes you can tell which one did.

# %%
import os
import re
import sys
from importlib import metadata
from typing import NamedTuple

from across import devices, diagnosis, doctor, fresh, layers, link, pictures, smi
from across.attempt import NotAttempted, attempt, expect

sys.version

# %%
import numpy as np
import tensorflow as tf
from packaging.requirements import Requirement

# %% [markdown]
# ## Four guesses
# ### Exercise: `prediction` (1 point)
# Before you look: how many CPUs will TensorFlow list here, how many GPUs? Was it built with CUDA? How many of CUDA's
# packages are installed? Replace each `None` by a number, or `True`/`False`; the check measures. The point is for
# committing yourself.

# %% answer="prediction" covers=["S8", "S3"]
### BEGIN SOLUTION
prediction = {"CPUs": 1, "GPUs": 0, "built with CUDA": True, "CUDA packages": 0}
#: prediction = {"CPUs": None, "GPUs": None, "built with CUDA": None, "CUDA packages": None}
### END SOLUTION

# %% check="prediction" points=1
with attempt("prediction", done="recorded before it was measured"):
    if all(guess is None for guess in prediction.values()):
        raise NotAttempted("prediction: not attempted yet. Replace each None by a guess.")
    for what, guess in prediction.items():
        expect(isinstance(guess, int), f"{what} is {guess!r}; expected a number, or True or False")
    measured = {
        "CPUs": len(tf.config.list_physical_devices("CPU")),
        "GPUs": len(tf.config.list_physical_devices("GPU")),
        "built with CUDA": tf.test.is_built_with_cuda(),
        "CUDA packages": sum(str(d.name).startswith("nvidia-") for d in metadata.distributions()),
    }
    for what, guess in prediction.items():
        surprise = "" if guess == measured[what] else "  <- a surprise"
        print(f"{what:16} you said {guess}, it is {measured[what]}{surprise}")

# %% [markdown]
# <details><summary>Once you have measured</summary>
#
# However many cores: *one* CPU. And on Linux the ordinary wheel is built with CUDA, card or no card: its GPU code
# sleeps on every laptop. What it does not bring are CUDA's own libraries.
# </details>

# %% [markdown]
# ## Physical and logical devices
# TensorFlow lists what the machine has (*physical*), and what you may name in a program (*logical*). The first list
# costs nothing. The second starts TensorFlow, and from then on nothing can be changed.

# %% tags=["show"] covers=["S8"]
for device in tf.config.list_physical_devices():
    print(device.name, tf.config.experimental.get_device_details(device))

print(os.cpu_count(), "processors behind that one CPU")

# %% [markdown]
# A CPU has no details. A GPU tells its `device_name` and its `compute_capability`, which will matter soon.

# %% [markdown]
# One physical device can be cut into several logical ones. We do it in a fresh process, which is allowed to:


# %% tags=["show"] covers=["S8"]
def cut():
    cpu = tf.config.list_physical_devices("CPU")[0]
    pieces = [tf.config.LogicalDeviceConfiguration()] * 3
    tf.config.set_logical_device_configuration(cpu, pieces)
    print(len(tf.config.list_physical_devices("CPU")), "physical,", end=" ")
    print(len(tf.config.list_logical_devices("CPU")), "logical")
    return devices.here()


fresh.run(cut)

# %% [markdown]
# ## From the program down to the card
# Each layer calls the next. The **driver** lives in the operating system's kernel; all above it are libraries, which live
# in your environment. A dashed layer is missing here.

# %% tags=["show"] covers=["S5"]
layers.draw(diagnosis.gather(), title="This machine, layer by layer")

# %% [markdown]
# **CUDA** is the platform: compiler, runtime, mathematics. **cuDNN** is one library on top, for neural networks only, with
# a version of its own. The wheel knows which it was built for:

# %% covers=["S3", "S5"]
build = tf.sysconfig.get_build_info()
{key: build.get(key) for key in ("is_cuda_build", "cuda_version", "cudnn_version")}

# %% [markdown]
# It wants them as packages. `pip install "tensorflow[and-cuda]"` adds these, and nothing else:

# %% covers=["S3", "S5", "S7"]
wanted = [line.split(";")[0] for line in metadata.requires("tensorflow") if '"and-cuda"' in line]
wanted

# %% [markdown]
# What some of them are for, and whether this environment has them:

# %% tags=["show"] covers=["S5"]
jobs = {
    "nvidia-cuda-runtime-cu12": "starts kernels, moves memory",
    "nvidia-cublas-cu12": "matrix products",
    "nvidia-cudnn-cu12": "convolutions, pooling, recurrent cells",
    "nvidia-cufft-cu12": "Fourier transforms",
    "nvidia-nccl-cu12": "sums over several cards",
    "nvidia-cuda-nvcc-cu12": "compiles for the card, for XLA",
}
for name, job in jobs.items():
    found = [d.version for d in metadata.distributions(name=name)] or ["not here"]
    print(f"{name:26} {job:40} {found[0]}")

# %% [markdown]
# Can a program without convolutions do without cuDNN? No: with a driver there, TensorFlow tries to open *all* libraries.
# If one is missing its log says `Cannot dlopen some GPU libraries`, and no GPU is registered.

# %% [markdown]
# ### Environments
# Packages belong to an environment, a folder with a Python of its own. "But I installed it!" is true, and usually in
# another folder. Two lines tell:

# %% tags=["show"] covers=["S7"]
print("isolated environment:", sys.prefix != sys.base_prefix)
print("TensorFlow", metadata.version("tensorflow"), "comes from it:", tf.__file__.startswith(sys.prefix))

# %% [markdown]
# ### Exercise: `unmet` (2 points)
# Given requirement lines and what is installed (name to version), return the list of names that are missing *or* have
# a version that the line does not allow. Roughly 5 lines.
#
# <details><summary>Hint</summary>
#
# `Requirement(line)` has a `.name` and a `.specifier`; `specifier.contains("9.10.1")` compares versions as versions.
# As strings, 9.10 comes before 9.3.
# </details>


# %% answer="unmet" covers=["S3", "S5", "S7"]
def unmet(requirements, installed):  # ["nvidia-cudnn-cu12<10.0,>=9.3", ...], {name: version} -> [name]
    ### BEGIN SOLUTION
    names = []
    for line in requirements:
        want = Requirement(line)
        if want.name not in installed or not want.specifier.contains(installed[want.name]):
            names.append(want.name)
    return names
    ### END SOLUTION


# %% check="unmet" points=2
with attempt("unmet"):
    lines = ["nvidia-cudnn-cu12<10.0,>=9.3.0.75", "nvidia-cublas-cu12<13.0,>=12.5.3.2"]
    got = unmet(lines, {"nvidia-cudnn-cu12": "9.10.1.4"})
    expect(isinstance(got, list), f"you return a {type(got).__name__}; expected a list of names")
    expect("nvidia-cudnn-cu12" not in got, "cuDNN 9.10.1.4 is 9.3.0.75 or later, and you list it")
    expect(got == ["nvidia-cublas-cu12"], f"only cuBLAS is missing, and you return {got}")
    got = unmet(lines, {"nvidia-cudnn-cu12": "8.9.7.29", "nvidia-cublas-cu12": "12.9.1.4"})
    expect(got == ["nvidia-cudnn-cu12"], f"cuDNN 8.9 is there but too old, and you return {got}")
    here = {d.metadata["Name"]: d.version for d in metadata.distributions()}
    print(f"in this environment {len(unmet(wanted, here))} of {len(wanted)} are unmet")

# %% [markdown]
# ## Compute capability
# A card's *compute capability*, two numbers such as 8.6, says which machine code it runs. The wheel holds code for a
# few:

# %% covers=["S3"]
LINUX = ["sm_60", "sm_70", "sm_80", "sm_89", "compute_90"]  # the wheel of TensorFlow 2.21 for Linux
built = build.get("cuda_compute_capabilities", LINUX)
print(built, "in this wheel" if build["is_cuda_build"] else "in the Linux wheel; this one has none")

# %% [markdown]
# The last digit is the minor number: `sm_86` is 8.6, `sm_120` is 12.0.
#
# - `sm_86` is **machine code**: it runs on 8.6 and later cards of the *same* major number.
# - `compute_90` is **also intermediate code**: the driver compiles it for any card from 9.0 on, whatever its major
#   number.

# %% [markdown]
# ### Exercise: `runs_on` (3 points)
# Return `True` if a wheel built for these names runs on a card of this capability. Roughly 6 lines.
#
# <details><summary>Hint</summary>
#
# `kind, digits = name.split("_")`; then `(int(digits[:-1]), int(digits[-1]))`. Tuples compare as you wish:
# `(8, 6) >= (8, 0)`.
# </details>


# %% answer="runs_on" covers=["S3"]
def runs_on(capability, built):  # (8, 6), ["sm_80", "compute_90"] -> True or False
    ### BEGIN SOLUTION
    for name in built:
        kind, digits = name.split("_")
        code = int(digits[:-1]), int(digits[-1])
        if capability >= code and (kind == "compute" or capability[0] == code[0]):
            return True
    return False
    ### END SOLUTION


# %%
CARDS = {
    "GRID K520 (the book's)": (3, 0),
    "Tesla V100": (7, 0),
    "T4": (7, 5),
    "GeForce RTX 3090": (8, 6),
    "L4": (8, 9),
    "H200": (9, 0),
    "GeForce RTX 5090": (12, 0),
}


# %% tags=["show"]
def draw_cards(answer, built):
    figure, axes = pictures.plot(
        7, 3.4, title="Which code runs on which card (your answer)", x="code in the wheel", y=""
    )
    said = {card: [name for name in built if answer(CARDS[card], [name])] for card in CARDS}
    for row, names in enumerate(said.values()):
        for column, name in enumerate(built):
            runs = name in names
            colour = pictures.PALETTE[2] if runs else pictures.INK
            axes.plot(column, row, "o" if runs else "x", color=colour, ms=10)
    axes.set_xticks(range(len(built)), built)
    axes.set_yticks(range(len(CARDS)), [f"{card}, {a}.{b}" for card, (a, b) in CARDS.items()])
    axes.margins(0.08, 0.12)
    axes.invert_yaxis()
    told = "; ".join(f"{card} runs {', '.join(names) or 'nothing'}" for card, names in said.items())
    return pictures.render(figure, f"Dots where the code runs, crosses where not: {told}.")


# %% check="runs_on" points=3
with attempt("runs_on"):
    runs_on((8, 0), ["sm_80"])
    display(draw_cards(runs_on, built))
    for capability, names, wanted_answer, why in (
        ((8, 6), ["sm_80"], True, "machine code for 8.0 runs on later cards of major 8"),
        ((8, 0), ["sm_86"], False, "8.0 is older than the code"),
        ((9, 0), ["sm_80"], False, "machine code does not cross to another major number"),
        ((12, 0), ["sm_80", "compute_90"], True, "intermediate code is compiled for later cards"),
        ((7, 5), ["sm_120"], False, "sm_120 is 12.0"),
    ):
        got = runs_on(capability, names)
        expect(got is wanted_answer, f"{capability} with {names}: you say {got!r}; but {why}")

# %% [markdown]
# ### What changed
# The book asks for capability 3.0 and shows a K520. Ask your own function about *its* card and *this* wheel:

# %% tags=["show"] covers=["S3"]
try:
    print("runs on the book's card:", runs_on(CARDS["GRID K520 (the book's)"], built))
except NotImplementedError:
    print("write runs_on first")

# %% [markdown]
# Versions of TensorFlow drop old cards and learn new ones. A requirement copied from a book is a date, not a fact: ask
# the wheel.

# %% [markdown]
# ## Reading `nvidia-smi`
# The driver brings a program that shows the cards. Where there is no driver you see an invented sample, and it says so.

# %% tags=["show"] covers=["S6"]
shown = smi.read()
shown

# %% [markdown]
# A card takes two lines of interest: number and name, then memory used and in all. Below come the programs that hold
# memory. The head names the driver, and a *CUDA version*.

# %% [markdown]
# ### What changed
# The book runs `nvidia-smi` to check that CUDA is installed. It cannot tell: it comes with the *driver*, and its "CUDA
# Version" is the newest that this driver could serve. CUDA itself may be another version, or missing.

# %% [markdown]
# ### Exercise: `cards` (3 points)
# Return a list of tuples, one a card: number, name, MiB used, MiB in all. Roughly 3 lines.
#
# <details><summary>Hint</summary>
#
# `re.findall(pattern, text, re.MULTILINE)` with four groups. A pattern may span two lines: `.*\n.*?`. After the name
# comes `On` or `Off`, then a bar. Rows of programs have no `/` between two MiB.
# </details>


# %% answer="cards" covers=["S6"]
def cards(text):  # what nvidia-smi printed -> [(0, "NVIDIA L4", 21358, 23034), ...]
    ### BEGIN SOLUTION
    row = r"^\|\s+(\d+)\s+(.+?)\s+(?:On|Off)\s+\|.*\n.*?(\d+)MiB\s*/\s*(\d+)MiB"
    found = re.findall(row, text, re.MULTILINE)
    return [(int(number), name, int(used), int(total)) for number, name, used, total in found]
    ### END SOLUTION


# %% check="cards" points=3
with attempt("cards"):
    got = cards(smi.sample())
    expect(isinstance(got, list), f"you return a {type(got).__name__}; expected a list")
    expect(len(got) == 2, f"you find {len(got)} cards in the sample; it has two")
    used = {f"{number}: {name}": used / 1024 for number, name, used, _total in got}
    display(pictures.bars(used, title="Memory in use on the invented cards", unit="GiB"))
    first, name = got[0], got[1][1]
    expect(first == (0, "NVIDIA L4", 21358, 23034), f"to you the first card is {first!r}")
    expect(name == "NVIDIA H100 80GB HBM3", f"the second card is called {name!r}; expected its whole name")
    if live := smi.query("index", "memory.total"):
        expect(len(cards(smi.read().text)) == len(live), "on this machine's own table you miss cards")

# %% [markdown]
# That table is for eyes: a long name is cut off by `...`, and the layout has changed with drivers. Programs should ask for
# fields, as in `nvidia-smi --query-gpu=name,memory.used --format=csv`.

# %% [markdown]
# ## The start-up log
# TensorFlow talks while it is imported and when it first looks for devices. `across` keeps that out of sight. A cold
# process, with the log on:


# %% tags=["show"]
def look():
    import tensorflow as tf

    return len(tf.config.list_logical_devices())


# %% tags=["show"] covers=["S8"]
cold = fresh.call(look, cold=True, env={"TF_CPP_MIN_LOG_LEVEL": "0"})
for line in cold.stderr.splitlines():
    if line[:1] in "IWE" and ".cc:" in line:  # without a preamble, and the rest of long messages
        print(line[:96])

# %% [markdown]
# Line by line: severity (`I`nformation, `W`arning, `E`rror) with the date; time; thread; source file and line; `]`;
# the message. **port.cc** announces oneDNN, which may add in another order. **cpu_feature_guard.cc** says which
# instructions were compiled in. Neither matters for GPUs.

# %% [markdown]
# **cudart_stub.cc** does: it looked for the driver's library `libcuda`. With a card and everything in place,
# **gpu_device.cc** says `Created device ... GPU:0 with ... MB memory`, the name of the card and its compute
# capability.

# %% [markdown]
# ### Exercise: `log_lines` (2 points)
# Return a list of tuples: severity letter, file, message. Lines of another form are left out. Roughly 2 lines.
#
# <details><summary>Hint</summary>
#
# `re.findall` again, anchored by `^`. A message may hold `]` and `:` itself, so match only up to the *first* `] `.
# </details>


# %% answer="log_lines" covers=["S8"]
def log_lines(text):  # the log -> [("I", "port.cc", "oneDNN custom operations are on. ..."), ...]
    ### BEGIN SOLUTION
    return re.findall(r"^([IWEF])\d{4} \S+\s+\d+ (\S+?):\d+\] (.*)$", text, re.MULTILINE)
    ### END SOLUTION


# %% check="log_lines" points=2
with attempt("log_lines"):
    text = """WARNING: All log messages before absl::InitializeLog() is called are written to STDERR
I0000 00:00:1732791932.070665    6665 gpu_device.cc:2022] Created device [GPU:0] with 5748 MB memory
To enable the following instructions: AVX2 FMA, rebuild TensorFlow.
E0000 00:00:1732791933.107000   16665 cuda_platform.cc:52] failed call to cuInit: UNKNOWN ERROR (303)"""
    got = log_lines(text)
    expect(len(got) == 2, f"you find {len(got)} lines; two have a severity, a file and a message")
    letter, file, message = got[0]
    expect((letter, file) == ("I", "gpu_device.cc"), f"the first begins {letter!r}, {file!r}")
    expect(message.endswith("5748 MB memory"), f"its message is {message!r}; expected all of it")
    expect(message.startswith("Created device [GPU:0]"), f"its message is {message!r}; expected all of it")
    for severity, file, message in log_lines(cold.stderr):
        print(f"{severity} {file:22} {message[:80]}")

# %% [markdown]
# ### Turning it down
# `TF_CPP_MIN_LOG_LEVEL` hides severities: 1 hides `I`, 2 also `W`, 3 also `E`. Most people set it to be left in peace.
# Guess what a machine *without* a card still says at level 1:

# %% tags=["show"] covers=["S8"]
quieter = fresh.call(look, cold=True, env={"TF_CPP_MIN_LOG_LEVEL": "1"})
left = [line[:96] for line in quieter.stderr.splitlines() if ".cc:" in line]
print("\n".join(left) or "nothing at all")

# %% [markdown]
# The reason, "could not find cuda drivers", is mere *information* and goes first. What may stay is an error with a number
# that explains nothing. Looking for a GPU? Level 0.

# %% [markdown]
# ## Then and now
# The book opened a session and read the log, where each CUDA library was "successfully opened". Success is silent today.
# The session still lists its devices:


# %% tags=["show"] covers=["S8"]
def then():
    v1 = tf.compat.v1
    config = v1.ConfigProto(device_count={"CPU": 3})
    with v1.Session(config=config) as session:
        return [device.name for device in session.list_devices()]


fresh.run(then)

# %% [markdown]
# Every session chose its own devices. Today a process has one choice. The book's package has gone as well:
# `tensorflow-gpu` was retired in 2022, and its name now installs nothing but an error. One wheel serves both.

# %% [markdown]
# ## "TensorFlow does not see my GPU"
# Now put it together. Facts of a machine:


# %%
class Machine(NamedTuple):
    seen: int = 0  # GPUs that TensorFlow lists
    cuda_build: bool = True  # was the wheel built with CUDA?
    cards: int = 1  # on the PCI bus
    driver: int | None = 570  # its major version; None: there is no driver
    handed_in: int = 1  # cards that this process may open: a container gets none by itself
    visible: str | None = None  # CUDA_VISIBLE_DEVICES; None: not set
    missing: tuple = ()  # what `unmet` returned
    supported: bool = True  # what `runs_on` returned


# %% [markdown]
# The questions, from the program down to the card. The first "yes" is the finding; whatever is wrong further down can
# wait.

# %%
FINDINGS = {
    "fine": "does TensorFlow see a GPU?",
    "wheel": "was it built without CUDA?",
    "no card": "is there no card?",
    "no driver": "is there no driver?",
    "not handed in": "may this process open no card?",
    "hidden": "does CUDA_VISIBLE_DEVICES hide all cards?",
    "driver": "is the driver older than 525, the oldest for CUDA 12?",
    "libraries": "is a CUDA package missing?",
    "card": "has the wheel no code for the card?",
    "read the log": "none of these?",
}

# %% [markdown]
# `CUDA_VISIBLE_DEVICES` lists card numbers. It is read up to the first entry that is no card: `"0,-1"` shows card 0,
# `"-1,0"` nothing, an empty string nothing either. Not set, it hides nothing.

# %% [markdown]
# ### Exercise: `diagnose` (4 points)
# Return the finding: the key of the first question that is answered yes. Roughly 20 short lines.
#
# <details><summary>Hint</summary>
#
# A chain of `if ...: return ...`. `not machine.visible` is true of `None` *and* of `""`, which mean opposite things.
# `"-1,0".startswith("-")`.
# </details>


# %% answer="diagnose" covers=["S3", "S4", "S5", "S7", "S8"]
def diagnose(machine):  # a Machine -> a key of FINDINGS
    ### BEGIN SOLUTION
    if machine.seen:
        return "fine"
    if not machine.cuda_build:
        return "wheel"
    if not machine.cards:
        return "no card"
    if machine.driver is None:
        return "no driver"
    if not machine.handed_in:
        return "not handed in"
    if machine.visible is not None and (machine.visible == "" or machine.visible.startswith("-")):
        return "hidden"
    if machine.driver < 525:
        return "driver"
    if machine.missing:
        return "libraries"
    return "read the log" if machine.supported else "card"
    ### END SOLUTION


# %% check="diagnose" points=4
PATIENTS = {
    "works": (Machine(seen=2, cards=2), "fine"),
    "a laptop without a card": (Machine(cards=0, driver=None, handed_in=0), "no card"),
    "new card, fresh Linux": (Machine(driver=None, handed_in=0), "no driver"),
    "docker run, nothing else": (Machine(handed_in=0, missing=("nvidia-cudnn-cu12",)), "not handed in"),
    "-1 in a start-up file": (Machine(visible="-1"), "hidden"),
    "set to 0": (Machine(visible="0", missing=("nvidia-nccl-cu12",)), "libraries"),
    "never updated": (Machine(driver=470, missing=("nvidia-cudnn-cu12",)), "driver"),
    "the book's card": (Machine(supported=False), "card"),
}
with attempt("diagnose"):
    diagnose(Machine(seen=1))
    said = {name: diagnose(machine) for name, (machine, _) in PATIENTS.items()}
    print("\n".join(f"{name:30} {finding!s}" for name, finding in said.items()))
    for name, (_machine, truth) in PATIENTS.items():
        expect(said[name] in FINDINGS, f"{name}: you return {said[name]!r}; expected a key of FINDINGS")
        expect(said[name] == truth, f'{name}: you say {said[name]!r}; which question gets its first "yes"?')

# %% [markdown]
# `across doctor` walks the same ladder with the facts of your machine:

# %% tags=["show"] covers=["S3", "S8"]
facts = diagnosis.gather()
diagnosis.ladder(facts, title="This machine")

# %% tags=["show"]
finding = diagnosis.diagnose(facts)
print(finding.says, finding.mend)

# %% [markdown]
# ### A rented machine
# On a machine by the hour you usually sit in a *container*: your files, your packages, somebody else's kernel. So the
# stack is cut in two. CUDA, cuDNN and TensorFlow are yours. Driver and card are the host's, and so are limits that
# `os.cpu_count()` does not know:

# %% tags=["show"] covers=["S4"]
limits = doctor.facts()["limits"]
print("in a container:", os.path.exists("/.dockerenv") or "container" in os.environ)
print("processors of the machine:", os.cpu_count(), "| mine by affinity:", limits["cores"])
print("processors' time allowed:", limits["cpus"] or "no limit", "| driver:", facts.driver or "none")

# %% [markdown]
# ## Is one big box better than many small ones?
# Why all this? Training that takes weeks should take hours, and whoever waits less tries more. The book says that 8
# cards in one box are often as fast as 16 spread over machines, since networks are slow. Let us test it.

# %% [markdown]
# ### What a link costs
# Sending `size` bytes takes about `latency + size / bandwidth`. Two processes of this machine send each other bytes over
# TCP; two numbers are read off, from the quickest and the largest message.

# %% tags=["show"] covers=["S1"]
runs = link.measure([1000 * 4**i for i in range(8)], repeats=9)
best = {size: min(seconds) for size, seconds in runs.items()}
latency = min(best.values())
bandwidth = max(best) / best[max(best)]
print(f"latency {latency * 1e6:.0f} microseconds, bandwidth {bandwidth / 1e9:.1f} GB/s, best of 9")

# %% tags=["show"] covers=["S1"]
figure, axes = pictures.plot(title="One machine, two processes, TCP (measured)", x="bytes", y="seconds")
for size, seconds in runs.items():
    axes.plot([size] * len(seconds), seconds, "o", color=pictures.PALETTE[0], ms=4)
axes.plot(list(best), [latency + size / bandwidth for size in best], color=pictures.ALERT, label="model")
axes.set(xscale="log", yscale="log")
axes.legend(labelcolor=pictures.INK, frameon=False)
worst = max(max(t / (latency + s / bandwidth), (latency + s / bandwidth) / t) for s, t in best.items())
alt = f"Seconds over bytes, 9 runs of {len(runs)} sizes; the best are within {worst:.1f}x of the line."
pictures.render(figure, alt)

# %% tags=["show"]
print(f"eight sizes, two numbers: the best runs are within a factor of {worst:.1f} of the model")

# %% [markdown]
# ### How cards add up their gradients
# In a **ring**, `n` cards cut their gradients into `n` pieces. In each step everyone sends one piece to the right. After
# n - 1 steps each piece is summed up somewhere; after n - 1 more, everywhere.


# %% tags=["show"] covers=["S1"]
def ring(held):  # held[card][piece]: changed in place
    n = len(held)
    for step in range(2 * (n - 1)):
        moving = [(card, (card - step) % n) for card in range(n)]
        values = [held[card][piece] for card, piece in moving]
        for (card, piece), value in zip(moving, values, strict=True):
            right = held[(card + 1) % n]
            right[piece] = value + right[piece] if step < n - 1 else value


# %% tags=["show"] covers=["S1"]
four = np.arange(16.0).reshape(4, 4)
print("wanted", four.sum(axis=0))
ring(four)
print(four)

# %% [markdown]
# ### Exercise: `ring_seconds` (2 points)
# How long does a ring of `n` cards take to add up `size` bytes? All cards send at once, so count one card's messages.
# Roughly 1 line.
#
# <details><summary>Hint</summary>
#
# How many steps; how many bytes in one message? Each message pays the latency.
# </details>


# %% answer="ring_seconds" covers=["S1"]
def ring_seconds(n, size, latency, bandwidth):  # cards, bytes, seconds, bytes a second -> seconds
    ### BEGIN SOLUTION
    return 2 * (n - 1) * (latency + size / n / bandwidth)
    ### END SOLUTION


# %% check="ring_seconds" points=2
with attempt("ring_seconds"):
    totals = {f"{n} cards": ring_seconds(n, 1e8, 50e-6, 1.25e9) for n in (2, 4, 8, 16, 32, 64)}
    display(pictures.bars(totals, title="Model: 100 MB over 10 Gbit/s, by your formula", unit="seconds"))
    got = ring_seconds(2, 1000.0, 0.0, 500.0)
    expect(abs(got - 2) < 1e-9, f"2 cards, 1000 bytes, 500 bytes/s: {got:g} s? How big is a piece?")
    got = ring_seconds(4, 0.0, 1.0, 500.0)
    expect(abs(got - 6) < 1e-9, f"4 cards, 0 bytes, latency 1 s: {got:g} s? Count the steps of the ring above")
    expect(ring_seconds(1, 1e6, 1.0, 1.0) == 0, "a single card has nobody to wait for")

# %% [markdown]
# Look at your bars: from 8 cards to 64 they hardly grow. A ring moves nearly twice `size` past every card, however many
# there are. What a network charges is *bandwidth*.

# %% [markdown]
# ### Exercise: `speed_up` (2 points)
# Each of `n` cards works on a batch of its own for `compute` seconds, then all wait `waiting` seconds for the sum. How
# many times as many images a second as one card alone, which never waits? Roughly 1 line.


# %% answer="speed_up" covers=["S1"]
def speed_up(n, compute, waiting):  # cards, seconds, seconds -> how many times one card
    ### BEGIN SOLUTION
    return n * compute / (compute + waiting)
    ### END SOLUTION


# %% check="speed_up" points=2
with attempt("speed_up"):
    got = speed_up(8, 0.1, 0.0)
    expect(abs(got - 8) < 1e-9, f"8 cards that never wait: you say {got:g}; expected 8 times")
    got = speed_up(8, 0.1, 0.1)
    expect(abs(got - 4) < 1e-9, f"8 cards that wait as long as they work: you say {got:g}; expected less")

# %% [markdown]
# ### The claim, as a model
# ResNet-50's gradients, on links of the book's time: PCI Express in the box, 10 Gbit/s between boxes. Round figures of
# that kind of hardware, not measured here.


# %%
class Link(NamedTuple):
    latency: float  # seconds
    bandwidth: float  # bytes a second


BOX, NETWORK = Link(5e-6, 12e9), Link(50e-6, 1.25e9)
SIZE = 4 * 25_636_712  # bytes: ResNet-50's parameters in float32

# %% tags=["show"] covers=["S1"]
print(tf.keras.applications.ResNet50(weights=None).count_params(), "parameters")

# %% [markdown]
# ### Exercise: `tie` (3 points)
# How long must a step compute so that 8 cards on the link `box` train exactly as fast as 16 on the link `network`?
# Roughly 3 lines.
#
# <details><summary>Hint</summary>
#
# Call the waits `w8` and `w16`. Set `8 * c / (c + w8)` equal to `16 * c / (c + w16)` and solve for `c`.
# </details>


# %% answer="tie" covers=["S1"]
def tie(size, box, network):  # bytes, Link, Link -> seconds of computing a step
    ### BEGIN SOLUTION
    return ring_seconds(16, size, *network) - 2 * ring_seconds(8, size, *box)
    ### END SOLUTION


# %% tags=["show"]
def draw_claim(seconds, box, network, title):
    computing = np.geomspace(seconds / 20, seconds * 20, 60)
    figure, axes = pictures.plot(title=title, x="seconds of computing a step", y="times one card")
    for n, where, style in ((8, box, "-"), (16, network, "--")):
        times = [speed_up(n, c, ring_seconds(n, SIZE, *where)) for c in computing]
        axes.plot(computing, times, style, color=pictures.PALETTE[0 if n == 8 else 1], label=f"{n} cards")
    axes.axvline(seconds, color=pictures.ALERT, label=f"your tie, {seconds:.3g} s")
    axes.set_xscale("log")
    axes.legend(labelcolor=pictures.INK, frameon=False)
    alt = f"{title}: times one card over computing time; your tie at {seconds:.3g} s."
    return pictures.render(figure, alt)


# %% check="tie" points=3
with attempt("tie", after=["ring_seconds", "speed_up"]):
    got = tie(SIZE, BOX, NETWORK)
    expect(isinstance(got, float) and got > 0, f"you return {got!r}; expected seconds, more than 0")
    display(draw_claim(got, BOX, NETWORK, "Model: 8 in a box (solid) against 16 on a network (dashed)"))
    eight = speed_up(8, got, ring_seconds(8, SIZE, *BOX))
    sixteen = speed_up(16, got, ring_seconds(16, SIZE, *NETWORK))
    close = abs(eight - sixteen) < 0.01
    expect(close, f"at your tie 8 cards give {eight:.2f} and 16 give {sixteen:.2f} times; expected as much")

# %% [markdown]
# Left of the tie the box wins, right of it the network. A fast card of 2016 was said to need some 0.15 s for 32 images:
# near the tie, so the book was about right *for its day*. And today's links?

# %% tags=["show"] covers=["S1"]
now = {"NVLink, 400 GB/s": Link(3e-6, 400e9), "InfiniBand, 400 Gbit/s": Link(5e-6, 50e9)}
try:
    print(f"then: a tie at {1000 * tie(SIZE, BOX, NETWORK):.0f} ms of computing a step")
    print(f"now:  a tie at {1000 * tie(SIZE, *now.values()):.1f} ms")
except NotImplementedError:
    print("write tie first")

# %% [markdown]
# Both links grew some thirty- to fortyfold. The claim is about a *ratio*, of computing to bytes: no count of cards
# settles it.

# %% [markdown]
# ### Weeks to hours, and money
# Two weeks on one card; 150 ms a step; the network above:

# %% tags=["show"] covers=["S1", "S4"]
try:
    for n in (1, 8, 16, 64, 256):
        times = speed_up(n, 0.15, ring_seconds(n, SIZE, *NETWORK))
        print(f"{n:4} cards: {336 / times:6.1f} hours, {336 / times * n:6.0f} card-hours to pay")
except NotImplementedError:
    print("write ring_seconds and speed_up first")

# %% [markdown]
# More cards are faster; they are not cheaper. Rented, you pay for the waiting too.

# %% [markdown]
# ## Explain it to a colleague
# ### Exercise: `explain` (3 points, read by a person)
# He rents a machine with a card and works in a container. `nvidia-smi` shows it, with "CUDA Version: 12.8", and still
# `list_physical_devices("GPU")` is empty. In four to six sentences: what does that table prove, what not, what would
# you check next, and which mends are in his hands?

# %% [markdown] answer="explain" points=3 covers=["S4", "S5", "S6"]
# ### BEGIN SOLUTION
# The table proves that the host's driver works, that the card is handed to his container, and that CUDA up to 12.8
# *could* run. It does not prove that any CUDA library or cuDNN is installed, nor which version. Next I would ask whether
# TensorFlow in this very environment is built with CUDA (`tf.sysconfig.get_build_info()`), whether the packages of
# `tensorflow[and-cuda]` are installed in the versions it wants, and what CUDA_VISIBLE_DEVICES says; then read the log of
# a cold process at level 0. The packages and the variable are his to mend inside the container; driver and card
# belong to the host, so a driver too old is the provider's to update, or his reason to choose another image.
# ### END SOLUTION

# %% [markdown]
# ## What you take with you
# - A wheel built with CUDA is not a machine with CUDA. Ask from the program down.
# - `nvidia-smi` speaks for the driver only.
# - Physical devices are the machine's; logical ones your program's.
# - The reason is in the log at level 0.
# - Whether more cards help depends on a ratio: computing to bytes sent.
