# ---
# jupyter:
#   across:
#     rows: S9-S12 S32
# ---

# %% [markdown]
# # GPU memory
# **Who owns the memory of a card, and how do two programs share it?**
#
# A colleague starts a program on "your" card and yours dies. In 50 minutes you find out who took what, and write the
# rules that let programs live together.

# %%
from across import devices, fresh, memory, pictures, programs
from across.attempt import NotAttempted, attempt, expect

# %% tags=["show"]
devices.here()

# %% [markdown]
# With a GPU, the programs below run on it. Without one you have three honest instruments:
#
# - TensorFlow's **own GPU allocator**, put in charge of main memory: measured;
# - TensorFlow's **own settings**, asked about cards on paper;
# - a **model** of a card. Whatever comes from it says MODEL.

# %%
import time

import numpy as np
import tensorflow as tf

# %% [markdown]
# ## An allocator you can watch
# Asking a driver for memory is slow, so TensorFlow takes large *regions* and cuts tensors out of them itself. This
# allocator is called BFC. Two variables give it a process's main memory, with a limit; the third hides any GPU.

# %%
POOL = {"TF_CPU_ALLOCATOR_USE_BFC": "true", "TF_CPU_BFC_MEM_LIMIT_IN_MB": "256", "CUDA_VISIBLE_DEVICES": ""}


def tensor(mib):  # of so many MiB: a float32 has 4 bytes
    with tf.device("/CPU:0"):
        return tf.zeros([mib, 2**18])


# %% tags=["show"] covers=["S12"]
def some():
    kept = [tensor(8) for _ in range(3)]
    del kept[0]
    return tf.config.experimental.get_memory_info("CPU:0")


fresh.run(some, env=POOL)

# %% [markdown]
# `get_memory_info`, in bytes: two tensors of 8 MiB live, three did at the `peak`. It knows what *tensors* use. What the
# process took to make room for them, it does not say.

# %% [markdown]
# ### What happens at the limit?


# %% tags=["show"] covers=["S11"]
def too_much():
    kept, start = [], time.perf_counter()
    try:
        while True:
            kept.append(tensor(8))
    except tf.errors.ResourceExhaustedError as error:
        print(str(error).split("}} ")[-1])
    print(f"after {len(kept)} tensors and {time.perf_counter() - start:.1f} seconds")


fresh.run(too_much, env=POOL)

# %% [markdown]
# 256 MiB hold 32 such tensors; one place is lost to odds and ends. And the ten seconds? Before it gives up, TensorFlow
# waits that long, in case another thread frees something. A program that freezes and then dies of memory is this.

# %% [markdown]
# ## Your turn to predict
# A *growing* program starts small and takes more when it must. This one makes twelve tensors of 8 MiB, frees all, then
# makes six. Don't run it yet.


# %%
def tide():
    tensor(1)  # TensorFlow starts
    seen, kept = [memory.now()], []
    for goal in (12, 0, 6):
        while len(kept) != goal:
            kept = kept[:-1] if len(kept) > goal else [*kept, tensor(8)]
            time.sleep(0.02)
            seen.append(memory.now())
    return seen


# %% [markdown]
# ### Exercise: `prediction` (1 point)
# How many MiB has the process **taken** from the system after each part? A number for each `None`. The point is for
# committing yourself; right or wrong, you get it.

# %% answer="prediction" covers=["S12"]
### BEGIN SOLUTION
prediction = {"twelve": 128, "freed": 128, "six": 128}
#: prediction = {"twelve": None, "freed": None, "six": None}
### END SOLUTION

# %% check="prediction" points=1
with attempt("prediction", done="recorded before it was measured"):
    if all(guess is None for guess in prediction.values()):
        raise NotAttempted("prediction: not attempted yet. Replace each None by a number of MiB.")
    for part, guess in prediction.items():
        expect(isinstance(guess, int | float) and guess >= 0, f"{part}: {guess!r}; expected MiB")
    seen = fresh.run(tide, env=POOL)
    display(memory.draw(seen, title="Measured: twelve tensors, none, six"))
    for part, at in (("twelve", 12), ("freed", 24), ("six", 30)):
        taken, used = (getattr(seen[at], key) - getattr(seen[0], key) for key in ("taken", "used"))
        print(f"{part:7} you said {prediction[part]:4}, taken {taken:4.0f} MiB for {used:3.0f} in use")

# %% [markdown]
# <details><summary>Once you have measured</summary>
#
# Two surprises. 96 MiB of tensors cost about 130: regions double in size. And freeing gave *nothing* back: tensors come
# and go inside what was taken, until the process ends.
# </details>

# %% [markdown]
# ## How it grows
# When no region has room for a tensor, BFC takes another:
#
# 1. more than is `left` under the limit: refused;
# 2. `step` is the next region's size; while the tensor is larger, double `step`;
# 3. take `step`, or what is `left` if that is less;
# 4. if rule 2 had nothing to double, double `step` for next time.

# %% [markdown]
# ### Exercise: `extend` (3 points)
# Return the region's size and the `step` for next time, or `None` if refused; all in MiB. Roughly 7 lines.
#
# <details><summary>Hint</summary>
#
# `if size <= step: return min(step, left), step * 2` is one of the two ways out.
# </details>


# %% answer="extend" covers=["S12"]
def extend(size, step, left):  # MiB: of the tensor, next region, under the limit -> (region, step) or None
    ### BEGIN SOLUTION
    if size > left:
        return None
    if size <= step:
        return min(step, left), step * 2
    while step < size:
        step *= 2
    return min(step, left), step
    ### END SOLUTION


# %% [markdown]
# The check runs your rule beside the real thing.


# %%
def by_rule(size, tensors, limit):  # -> MiB taken after each tensor
    rooms, step, taken, curve = [], 4, 0, []  # the start took a region of 2
    for _ in range(tensors):
        at = next((i for i, room in enumerate(rooms) if room >= size), None)
        if at is None:
            region, step = extend(size, step, limit - 2 - taken)
            rooms.append(region)
            taken, at = taken + region, -1
        rooms[at] -= size
        curve.append(taken)
    return curve


def measured(size, tensors):
    tensor(1)
    start, kept, curve = memory.now().taken, [], []
    for _ in range(tensors):
        kept.append(tensor(size))
        curve.append(memory.now().taken - start)
    return curve


# %% tags=["show"]
def compare(rule, real, size):
    figure, axes = pictures.plot(title=f"Tensors of {size} MiB", x="tensors", y="MiB taken")
    at = range(1, len(rule) + 1)
    axes.step(at, real, where="post", color="#E69F00", linewidth=5, alpha=0.6, label="measured")
    axes.step(at, rule, where="post", color="#0072B2", linestyle="--", label="your rule")
    axes.legend(frameon=False, labelcolor=pictures.INK)
    return pictures.render(figure, f"{size} MiB tensors. Measured {np.round(real)}; your rule {rule}.")


# %% check="extend" points=3
with attempt("extend"):
    expect(extend(300, 4, 256) is None, "300 MiB with 256 left went through; expected None")
    for size, tensors in ((8, 20), (3, 30)):
        rule, real = by_rule(size, tensors, 256), fresh.run(measured, size, tensors, env=POOL)
        display(compare(rule, real, size))
        far = [i + 1 for i, (said, was) in enumerate(zip(rule, real, strict=True)) if abs(said - was) > 0.05 * was + 1]
        expect(not far, f"tensors of {size} MiB: off from tensor {far[:1]} on; expected within 5%")

# %% [markdown]
# Within 5%, because TensorFlow keeps 8 bytes of notes on every 256 bytes of a region. They are the 3% that the measured
# line lies higher.

# %% [markdown]
# ## Main memory forgives, a card does not
# Look at the first picture again: *touched* lagged behind *taken*. Linux hands out pages when they are first written.
# And processes can share pages: here are three, forked from one that had imported TensorFlow.


# %% tags=["show"] covers=["S9"]
def neighbour(meeting):
    mine = np.ones(64 * 2**17)  # 64 MiB, written
    meeting.all("full")
    read = memory.now()
    meeting.all("read")  # nobody leaves early
    return read.rss, read.pss, len(mine)


read = programs.together(neighbour, 3, env=POOL)
figures = {"RSS": [rss for rss, *_ in read], "PSS": [pss for _, pss, _ in read]}
pictures.bars(figures, title="Three processes, 64 MiB of their own each", unit="MiB a process")

# %% [markdown]
# RSS counts shared pages once a *process*, PSS divides them by the processes that share. The gap is TensorFlow itself,
# in memory once. A card has none of this between ordinary programs: what one takes is gone for the others.

# %% [markdown]
# ## All of it
# By default a GPU program takes the card whole, before its first tensor. Two want 1,500 MiB each:

# %% tags=["show"] covers=["S9"]
two = [programs.Ask("first", needs=1500), programs.Ask("second", needs=1500)]
outcome = programs.share(two)
display(outcome)
outcome.draw("two programs, no settings")

# %% [markdown]
# The first *needs* 1,500 and holds nearly all. The second is not refused: it starts, gets crumbs, and dies later, at an
# innocent tensor. That is why the message so often points at the wrong line.

# %% [markdown]
# ### Exercise: `first_come` (3 points)
# One after the other, each program needs `context` MiB for CUDA, then takes what is free less a reserve: 225 MiB if
# under 2,048 are free, else 1,536. Return what each *takes* beyond its context, 0 if that does not fit. Roughly 8 lines.
#
# <details><summary>Hint</summary>
#
# Keep one number, `free`. Whoever starts lowers it twice.
# </details>


# %% answer="first_come" covers=["S9"]
def first_come(total, context, n):  # MiB, MiB, programs -> [MiB, ...]
    ### BEGIN SOLUTION
    free, takes = total, []
    for _ in range(n):
        take = 0
        if free >= context:
            free -= context
            take = max(0, free - (225 if free < 2048 else 1536))
        free -= take
        takes.append(take)
    return takes
    ### END SOLUTION


# %% check="first_come" points=3
with attempt("first_come"):
    got = {f"{gib} GiB": first_come(gib * 1024, 450, 3) for gib in (8, 16, 80)}
    for name, takes in got.items():
        expect(isinstance(takes, list) and len(takes) == 3, f"{name}: {takes!r}; expected three numbers")
    second = {name: takes[1] for name, takes in got.items()}
    display(pictures.bars(second, title="MODEL, by your rule: what the second program takes", unit="MiB"))
    expect(got["16 GiB"][0] == 14398, f"the first takes {got['16 GiB'][0]} of 16 GiB; expected 14398")
    expect(got["16 GiB"][2] == 0, f"the third takes {got['16 GiB'][2]}; is there room for its context?")
    expect(len(set(second.values())) == 1, f"the second takes {second}: what does the first leave it?")

# %% [markdown]
# A card ten times the size, and the second program's crumbs are the same: it lives on the first one's reserve.

# %% [markdown]
# ## Own cards
# The oldest way to share is not to. `CUDA_VISIBLE_DEVICES` is read by CUDA when a program starts: the cards it may see,
# and *in which order*. A real process, with none:


# %% tags=["show"] covers=["S10", "S32"]
def sees():
    return [gpu.name for gpu in tf.config.list_physical_devices("GPU")]


for value in ("0", ""):
    print(f"{value!r:4} TensorFlow sees", fresh.run(sees, env={"CUDA_VISIBLE_DEVICES": value}))

# %% [markdown]
# (Without a GPU both end in `[]`.) CUDA reads from left to right and stops at the first number that is no card: of four,
# `"0,9,1"` is card 0 alone; `"-1"` and `""` are none. Not set: all.

# %% [markdown]
# ### Exercise: `seen_cards` (3 points)
# Return the physical numbers of the cards that a program sees, in TensorFlow's order: the first is its `GPU:0`. `value`
# is `None` if the variable is not set. Roughly 7 lines.
#
# <details><summary>Hint</summary>
#
# `"".split(",")` is `[""]`, and `"".isdigit()` is false, as is `"-1".isdigit()`.
# </details>


# %% answer="seen_cards" covers=["S10"]
def seen_cards(value, cards):  # "3,2" or None, how many cards there are -> [3, 2]
    ### BEGIN SOLUTION
    if value is None:
        return list(range(cards))
    found = []
    for text in value.split(","):
        if not text.isdigit() or int(text) >= cards:
            break
        found.append(int(text))
    return found
    ### END SOLUTION


# %% tags=["show"]
def renumbered(values, cards):
    rows = []
    for value in values:
        gpus = [f"GPU:{i} is card {card}" for i, card in enumerate(seen_cards(value, cards))]
        rows.append([repr(value), ", ".join(gpus) or "no GPU"])
    print(pictures.table_text(["CUDA_VISIBLE_DEVICES", "the program's own names"], rows))


# %% check="seen_cards" points=3
with attempt("seen_cards"):
    renumbered(["0,1", "3,2", "0,9,1", "", None], 4)
    for value, wanted in (("0,1", [0, 1]), ("3,2", [3, 2])):
        got = seen_cards(value, 4)
        expect(got == wanted, f"{value!r} of 4 cards: you see {got!r}; expected them in the order given")
    expect(seen_cards(None, 3) == [0, 1, 2], f"not set: you see {seen_cards(None, 3)!r}; expected all")
    expect(seen_cards("", 4) == [], f"an empty value: you see {seen_cards('', 4)!r}; expected none")
    expect(seen_cards("0,9,1", 4) == [0], "in '0,9,1' there is no card 9; expected the reading to stop")

# %% [markdown]
# ### The same, from inside?
# TensorFlow has a call of its own. We ask its real code about four cards on paper, what it would tell the runtime:

# %% tags=["show"] covers=["S10"]
with memory.paper(4) as paper:
    gpus = tf.config.list_physical_devices("GPU")
    tf.config.set_visible_devices([gpus[3], gpus[2]], "GPU")
    print("asked for 3, 2; would open", paper.asked.visible_device_list)

# %% [markdown]
# `2,3`. `set_visible_devices` chooses cards but forgets your order: card 2 becomes `GPU:0`. Only the environment variable
# renumbers. Nothing warns you.

# %% [markdown]
# ## Several tasks in one box
# A parameter server (chapter 07) keeps numbers and needs no card. If it sees one, it takes it all. So it is started
# with `CUDA_VISIBLE_DEVICES=""`.
#
# ### Exercise: `cards_for` (3 points)
# Return each task's `CUDA_VISIBLE_DEVICES`. Tasks `"ps:..."` see none. Tasks `"worker:..."` share the cards out: each
# card has one owner, and no worker has two more than another. Roughly 5 lines.

# %% [markdown]
# <details><summary>Hint</summary>
#
# `range(i, cards, n)` deals cards to worker `i` of `n` as one deals playing cards.
# </details>


# %% answer="cards_for" covers=["S32", "S10"]
def cards_for(tasks, cards):  # ["ps:0", "worker:0", ...], how many cards -> {"ps:0": "", ...}
    ### BEGIN SOLUTION
    workers = [task for task in tasks if task.startswith("worker")]
    chosen = dict.fromkeys(tasks, "")
    for i, worker in enumerate(workers):
        chosen[worker] = ",".join(str(card) for card in range(i, cards, len(workers)))
    return chosen
    ### END SOLUTION


# %% check="cards_for" points=3
with attempt("cards_for", after=["seen_cards"]):
    tasks = ["ps:0", "worker:0", "worker:1"]
    got = cards_for(tasks, 4)
    expect(sorted(got) == tasks, f"you speak of {sorted(got)}; expected every task")
    print(pictures.table_text(["task", "CUDA_VISIBLE_DEVICES"], [[task, repr(got[task])] for task in tasks]))
    expect(got["ps:0"] == "", f"ps:0 gets {got['ps:0']!r}; expected it to see no card")
    owned = [card for task in tasks for card in seen_cards(got[task], 4)]
    expect(sorted(owned) == [0, 1, 2, 3], f"cards {owned} are owned; expected each of 0 to 3 once")
    ps = fresh.run(sees, env={"CUDA_VISIBLE_DEVICES": got["ps:0"]})
    expect(ps == [], f"a real process started as ps:0 sees {ps}; expected none")

# %% [markdown]
# ## A piece each
# Two programs, one card: each may be told a limit. The book tells it as a *fraction* of the whole. Three times 0.4 is
# more than one:

# %% tags=["show"] covers=["S11"]
asks = [programs.Ask(name, needs=4000, fraction=0.4) for name in ("one", "two", "three")]
outcome = programs.share(asks)
display(outcome)
outcome.draw("three programs, 0.4 each")

# %% [markdown]
# Two run; the third starts with whatever is left: refused, BFC asks for 10% less, and again, until it fits. So does
# 2 × 0.5 = 1.0 fit exactly?

# %% tags=["show"] covers=["S11"]
halves = [programs.Ask(name, needs=8000, fraction=0.5) for name in ("one", "two")]
programs.share(halves)

# %% [markdown]
# Not quite: a fraction counts tensors, and each program's CUDA context comes on top.
#
# ### Exercise: `fair` (2 points)
# Return the `tf.config.LogicalDeviceConfiguration` with which each of `n` programs may start on one card: equal whole
# MiB, as large as fits, contexts counted. Roughly 2 lines.


# %% answer="fair" covers=["S11"]
def fair(total, context, n):  # MiB, MiB, programs -> a configuration with memory_limit=
    ### BEGIN SOLUTION
    return tf.config.LogicalDeviceConfiguration(memory_limit=(total - n * context) // n)
    ### END SOLUTION


# %% check="fair" points=2
with attempt("fair"):
    got = fair(16384, 450, 3)
    limit = getattr(got, "memory_limit", None)
    expect(isinstance(limit, int), f"you return {got!r}; expected a configuration with whole MiB")
    card = memory.Card(16384, context=450)
    taken = [card.start(name, limit=limit).taken for name in ("one", "two", "three")]
    display(card.draw(f"three programs, {limit} MiB each"))
    expect(taken == [limit] * 3, f"told {limit} each, they take {taken}; contexts count too")
    expect(card.free < 3, f"{card.free} MiB lie idle; expected as large as fits")

# %% [markdown]
# One program can also cut a card for itself: several configurations, several logical GPUs. A CPU refuses limits:

# %% tags=["show"] covers=["S11"]
cpu = tf.config.list_physical_devices("CPU")[0]
try:
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration(memory_limit=100)])
except ValueError as error:
    print(error)

# %% [markdown]
# ## Growth, for card and for worse
# `set_memory_growth` makes a program on a card behave like `tide`: small at first, taking more, giving nothing back.
# Polite neighbours, then? The first one needs much, once:

# %% tags=["show"] covers=["S12"]
card = memory.Card(16384)
early = card.start("early", growth=True)
early.allocate(8000)
early.free()
late = card.start("late", growth=True)

# %% tags=["show"] covers=["S12"]
try:
    for _ in range(8):
        late.allocate(1000)
except memory.OutOfMemory as error:
    print(error)
card.draw("two growing programs")

# %% [markdown]
# `early` uses nothing, and `late` dies. With growth nobody knows who will fail, or when. (From outside:
# `TF_FORCE_GPU_ALLOW_GROWTH=true`.)

# %% [markdown]
# ### Growth against limit
# They exclude each other, the manual says. In which order do we hear of it?


# %% tags=["show"] covers=["S12"]
def grow(gpu):
    tf.config.experimental.set_memory_growth(gpu, True)


def cap(gpu):
    tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=4096)])


for steps in ((cap, grow), (grow, cap)):
    with memory.paper(1) as paper:
        gpu = tf.config.list_physical_devices("GPU")[0]
        try:
            [step(gpu) for step in steps]
            print("accepted; growth is", paper.asked.allow_growth)
        except ValueError as error:
            print("refused:", error)

# %% [markdown]
# Limit first: an error. Growth first: silence, and the growth is gone. The allocator itself could do both: our `POOL`
# grew *and* had a limit. The wish is lost on the way.

# %% [markdown]
# ### Exercise: `settle` (3 points)
# Repair it. With a `limit`, every card gets that limit; without one, every card grows. Never both, and no card alone:
# growth that differs between cards is refused at the start. Roughly 6 lines.


# %% answer="settle" covers=["S11", "S12"]
def settle(cards, limit=None):  # what list_physical_devices("GPU") returns, MiB
    ### BEGIN SOLUTION
    #: piece = tf.config.LogicalDeviceConfiguration(memory_limit=limit)
    #: tf.config.set_logical_device_configuration(cards[0], [piece])
    #: tf.config.experimental.set_memory_growth(cards[0], True)
    for card in cards:
        if limit is None:
            tf.config.experimental.set_memory_growth(card, True)
        else:
            piece = tf.config.LogicalDeviceConfiguration(memory_limit=limit)
            tf.config.set_logical_device_configuration(card, [piece])
    ### END SOLUTION


# %% check="settle" points=3
with attempt("settle"):
    for limit in (None, 4096):
        with memory.paper(2) as paper:
            try:
                settle(tf.config.list_physical_devices("GPU"), limit)
                asked = paper.asked
            except ValueError as error:
                raise NotAttempted(f"settle: not repaired yet. TensorFlow says: {error}.") from None
        limits = [list(piece.memory_limit_mb) for piece in asked.experimental.virtual_devices]
        print(f"limit={limit}: growth {asked.allow_growth}, limits {limits}")
        expect(asked.allow_growth == (limit is None), f"limit={limit}: growth is {asked.allow_growth}")
        wanted = [] if limit is None else [[limit]] * 2
        expect(limits == wanted, f"limit={limit}: limits are {limits}; expected the same on each card")

# %% [markdown]
# ## Then and now
# In 2017 these were options of a session. They still are, and nobody checks them against each other, or against sense:

# %% tags=["show"] covers=["S11", "S12"]
config = tf.compat.v1.ConfigProto()
config.gpu_options.per_process_gpu_memory_fraction = 0.4
config.gpu_options.allow_growth = True
config.gpu_options.visible_device_list = "3,2"
print(config)

# %% [markdown]
# Today's calls write into the same message: `paper.asked`. A limit in MiB took the fraction's place.

# %% [markdown]
# The book's `nvidia-smi` shows two programs at 0.4 of a 4,095 MiB card, 1,677 MiB each:

# %% tags=["show"] covers=["S11"]
tensors = 0.4 * 4095
print(f"{tensors:.0f} MiB for tensors, {1677 - tensors:.0f} MiB on top")

# %% [markdown]
# That will have been the context, in print since 2017. Our model assumes 450 MiB; no card here has confirmed it.

# %% [markdown]
# ## What changed
# The manual of `get_memory_info` says that a CPU raises an error. Does it?

# %% tags=["show"] covers=["S12"]
kept = tensor(8)
tf.config.experimental.get_memory_info("CPU:0")

# %% [markdown]
# It counts. And the book's "the second program cannot start" needs care: by TensorFlow's own rules (our model follows
# those for cards of compute capability 8) it starts, on crumbs.

# %% [markdown]
# ## What you take with you
# - A process owns what it took until it ends; tensors only borrow from it.
# - Without settings the first program takes all; the second lives on its reserve.
# - Growing is by doubling, and one way.
# - Fractions and limits count tensors. Add a context for each program.
# - `CUDA_VISIBLE_DEVICES` chooses and renumbers; `set_visible_devices` only chooses.
# - A parameter server gets `""`.
