# ---
# jupyter:
#   across:
#     limits: {cell_seconds: 90, notebook_seconds: 240, question_seconds: 60}
#     rows: S58-S59 S67-S68
#   # house: lines: six programs, each of which real processes run
#   # house: median_cell: what a process runs is one function in one cell
# ---

# %% [markdown]
# # Many workers
# **How do I train on many machines and survive losing one?**
#
# Every machine starts the same program. In about 80 minutes you tell each who it is, train in step and out of step, kill
# machines, and go on. Here a machine is a process.

# %%
from across import digits, expecting, fresh, replicas, scripts, workers
from across.attempt import NotAttempted, attempt, call, expect, read
from across.clusters import LocalCluster

fresh.warm_up()

# %%
import itertools
import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
train, test = digits.load()
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}

# %% [markdown]
# ## Who am I?
# Each program reads `TF_CONFIG`, a JSON text in its environment: `"cluster"` lists everybody's address, `"task"` says who of
# them this program is. There are four roles:
#
# | role | what it does |
# |---|---|
# | `worker` | computes |
# | `ps` | parameter server: holds variables |
# | `chief` | a worker that also saves checkpoints; with ps the *coordinator*, which hands out steps |
# | `evaluator` | tests checkpoints, beside the cluster |
#
# Where no chief is, `worker:0` does its work.

# %% tags=["show"] covers=["S68"]
os.environ["TF_CONFIG"] = """{
    "cluster": {"worker": ["a:2222", "b:2222"]},
    "task": {"type": "worker", "index": 1}}"""
told_me = tf.distribute.cluster_resolver.TFConfigClusterResolver()
print("I am", told_me.task_type, told_me.task_id, "of", told_me.cluster_spec().as_dict())
del os.environ["TF_CONFIG"]

# %% [markdown]
# ### Exercise: `tf_config` (2 points)
# Write the text for one task. An evaluator is no part of the cluster, not even in its own text: leave it out of `"cluster"`.
# Roughly 3 lines.


# %% answer="tf_config" covers=["S68"]
def tf_config(jobs, job, index):  # {"worker": ["a:1", ...], "evaluator": [...]}, "worker", 1 -> JSON text
    ### BEGIN SOLUTION
    cluster = {each: addresses for each, addresses in jobs.items() if each != "evaluator"}
    return json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})
    ### END SOLUTION


# %% check="tf_config" points=2
with attempt("tf_config"):
    pair = {"worker": ["b:2", "a:2"]}
    inside = {"chief": ["a:1"], **pair, "ps": ["c:1"]}
    everyone = {**inside, "evaluator": ["d:1"]}
    asked = (everyone, inside, "worker", 1), (everyone, inside, "chief", 0), (everyone, inside, "evaluator", 0)
    for jobs, wanted, job, index in (*asked, (pair, pair, "worker", 0)):
        got = call(tf_config, jobs, job, index, returns=expecting.text)
        os.environ["TF_CONFIG"] = got
        try:
            resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
            me, spec = f"{resolver.task_type}:{resolver.task_id}", resolver.cluster_spec().as_dict()
        except ValueError:
            expect(False, f"TensorFlow cannot read {got} as JSON")
        finally:
            del os.environ["TF_CONFIG"]
        expect(me == f"{job}:{index}", f"from your text for {job}:{index}, TensorFlow reads that this is {me}")
        kind = type(json.loads(got)["task"]["index"])
        expect(kind is int, f"for {job}:{index} the index is of type {kind.__name__}; expected an integer")
        expect("evaluator" not in spec, f"for {job}:{index} the cluster has an evaluator")
        expect(spec == wanted, f"for {job}:{index} TensorFlow reads the cluster {spec}; expected {wanted}")
        print(f"{job}:{index}", got)

# %% [markdown]
# ## What TensorFlow says of wrong texts
# Eight texts are wrong, the last is right. Each goes to a fresh process, which has 3 seconds to make a strategy:

# %% tags=["folded"]
here = workers.addresses(2)
two = {"worker": here}


def said(cluster, job="worker", index=0):
    return json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})


wrong = {
    "worker:2 of two": said(two, index=2),
    "index -1": said(two, index=-1),
    "a job `trainer`": said({"trainer": here[:1]}, "trainer"),
    "no port": said({"worker": ["127.0.0.1"]}),
    "no cluster": json.dumps({"task": {"type": "worker", "index": 0}}),
    'index "0"': said({"worker": here[:1]}, index="0"),
    "one address twice": said({"worker": here[:1] * 2}),
    "a ps, no chief": said({"worker": here[:1], "ps": here[1:]}),
    "a right text": said(two),
}


# %% tags=["show"] covers=["S58", "S68"]
def start(text):
    os.environ["TF_CONFIG"] = text
    v1.logging.set_verbosity(v1.logging.ERROR)
    return tf.distribute.MultiWorkerMirroredStrategy().num_replicas_in_sync


fresh.run(int)
for which, its_text in wrong.items():
    tried = fresh.call(start, its_text, env=NO_GPU, timeout=3)
    says_no = f"{type(tried.error).__name__}: {str(tried.error)[:60]}"
    print(f"{which:18}", says_no if tried.error else f"ACCEPTED, it trains with {tried.value} replica")

# %% [markdown]
# `no cluster` and `index "0"` are accepted. Without a cluster, a machine trains alone, with no error. The last three wait for
# others: the right text, too. So check the text *before* you start a hundred machines.

# %% [markdown]
# | word | when |
# |---|---|
# | `"job"` | a job is none of the four |
# | `"chief"` | more than one chief; or a `ps` and no chief |
# | `"port"` | an address does not end with `:` and a whole number |
# | `"twice"` | two tasks have one address |
# | `"task"` | the task's job is not in the cluster; an evaluator need not be |
# | `"index"` | the job is in the cluster, but has no task of that number, or the number is text |

# %% [markdown]
# ### Exercise: `faults` (4 points)
# Return all faults of a text, as a list of these words, in any order. Roughly 10 lines are missing.


# %% answer="faults" covers=["S68"]
def faults(text):  # the text of TF_CONFIG -> ["port", ...]; [] if there is none
    try:
        config = json.loads(text)
    except ValueError:
        return ["json"]
    cluster, task = config.get("cluster"), config.get("task", {})
    if not cluster:
        return ["no cluster"]
    addresses = [address for job in cluster.values() for address in job]
    found = []
    ### BEGIN SOLUTION
    #: raise NotImplementedError("your turn")
    if not set(cluster) <= {"chief", "worker", "ps", "evaluator"}:
        found.append("job")
    chiefs = len(cluster.get("chief", []))
    if chiefs > 1 or ("ps" in cluster and not chiefs):
        found.append("chief")
    if not all(address.rpartition(":")[1] and address.rpartition(":")[2].isdigit() for address in addresses):
        found.append("port")
    if len(set(addresses)) < len(addresses):
        found.append("twice")
    job, index = task.get("type"), task.get("index")
    if job not in cluster and job != "evaluator":
        found.append("task")
    elif type(index) is not int or not 0 <= index < len(cluster.get(job, [0])):
        found.append("index")
    ### END SOLUTION
    return found


# %% check="faults" points=4
with attempt("faults"):
    words = ["json", "no cluster", "job", "chief", "port", "twice", "task", "index"]
    good = {"chief": ["a:1"], "worker": ["a:2", "b:2"], "ps": ["c:1"]}
    odd = {"trainer": ["t:1"], "ps": ["p:1"]}
    told = {"worker:2 of two": "index", "index -1": "index", 'index "0"': "index", "a job `trainer`": "job"}
    told |= {"no port": "port", "a ps, no chief": "chief", "a right text": ""}
    cases = {name: (wrong[name], {word} - {""}) for name, word in told.items()} | {
        "an evaluator, beside the cluster": (said(good, "evaluator"), set()),
        "no task": (json.dumps({"cluster": two}), {"task"}),
        "no index": (json.dumps({"cluster": two, "task": {"type": "worker"}}), {"index"}),
        "chief:1 of one": (said(good, "chief", 1), {"index"}),
        "no number for a port": (said({"worker": ["a:http", "b:2"]}), {"port"}),
        "a letter after the port": (said({"worker": ["a:2x", "b:2"]}), {"port"}),
        "an address of IPv6": (said({"worker": ["[::1]:2222"]}), set()),
        "worker:0 and ps:0 at one address": (said({**good, "ps": ["a:2"]}), {"twice"}),
        "two chiefs": (said({"chief": ["a:1", "a:2"]}, "chief"), {"chief"}),
        "ps:0, where no ps is": (said(two, "ps"), {"task"}),
        "two faults": (said({"worker": ["a", "a"]}), {"port", "twice"}),
        "a trainer, no chief, ps:1 of one": (said(odd, "ps", 1), {"job", "chief", "index"}),
        "a trainer, no chief, task `boss`": (said(odd, "boss"), {"job", "chief", "task"}),
    }
    kind = expecting.list_of(expecting.one_of(words))
    for name, (text, wanted) in cases.items():
        got = read(faults(text), f"{name}: `faults` returned", kind)
        print(f"{name:34}", *got or ["none"])
        expect(set(got) == wanted, f"{name}: `faults('{text}')` is {got}; expected {sorted(wanted)}")

# %% [markdown]
# ## Two workers, in step
# With `MultiWorkerMirroredStrategy` each worker has a copy of each variable. All make one step together: each takes its part of
# the global batch, and the gradients are added over the network. The program is your own loop of chapter 12.

# %%
BATCH = 60  # digits of a global batch


def prepared(strategy):
    with strategy.scope():
        tf.keras.utils.set_random_seed(1)
        layers = tf.keras.layers
        first = [tf.keras.Input((8, 8, 1)), layers.Flatten(), layers.Dense(32, "tanh")]
        model = tf.keras.Sequential([*first, layers.Dense(10)])
        optimizer = tf.keras.optimizers.SGD(0.1, momentum=0.9)
        optimizer.build(model.trainable_variables)
    return model, optimizer


# %% covers=["S58"]
def steps_of(strategy, model, optimizer, pipeline, first=0):  # -> endless: each `next` is a step, and its loss
    def replica(images, labels):
        with tf.GradientTape() as tape:
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(images))
            loss = tf.reduce_sum(each) / BATCH
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function
    def step(images, labels):
        return strategy.reduce("sum", strategy.run(replica, args=(images, labels)), axis=None)

    def mine(context):  # a worker with two replicas takes two batches in a step
        own = context.num_replicas_in_sync // context.num_input_pipelines
        return pipeline(context, *train, BATCH).skip(first * own)

    for batch in strategy.distribute_datasets_from_function(mine):
        yield float(step(*batch))


# %% [markdown]
# `distribute_datasets_from_function` calls your `pipeline` on each worker, with an `InputContext`. What is it told?

# %% tags=["show"] covers=["S58"]
shown = tf.distribute.InputContext(num_input_pipelines=2, input_pipeline_id=1, num_replicas_in_sync=2)
print(shown.input_pipeline_id, "of", shown.num_input_pipelines, "pipelines;", end=" ")
print("a replica's part of 60:", shown.get_per_replica_batch_size(60))

# %% [markdown]
# ### Exercise: `pipeline` (3 points)
# Return this worker's dataset of (images, labels): endless, not shuffled, in batches for *one replica*. In each step all
# replicas together get the next `batch` digits, each once. Then two workers equal one device. Roughly 3 lines.
#
# <details><summary>Hint</summary>
#
# `data.shard(n, i)` takes the elements i, i + n, i + 2n, ...
# </details>


# %% answer="pipeline" covers=["S58"]
def pipeline(context, images, labels, batch):  # an InputContext, arrays, 60 -> tf.data.Dataset
    ### BEGIN SOLUTION
    data = tf.data.Dataset.from_tensor_slices((images, labels)).repeat()
    mine = data.shard(context.num_input_pipelines, context.input_pipeline_id)
    return mine.batch(context.get_per_replica_batch_size(batch))
    ### END SOLUTION


# %% covers=["S58"]
def whole(context, images, labels, batch):  # for one device
    return tf.data.Dataset.from_tensor_slices((images, labels)).repeat().batch(batch)


def alone(steps):
    strategy = tf.distribute.get_strategy()
    return list(itertools.islice(steps_of(strategy, *prepared(strategy), whole), steps))


# %% covers=["S58"]
def in_step(folder, pipeline, steps, pause=0.0):  # a program for LocalCluster
    def program(spec, job, index):
        v1.logging.set_verbosity(v1.logging.ERROR)
        workers.heartbeat(len(spec["worker"]), 4.0)  # who is silent for 4 seconds counts as dead
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        losses = []
        for loss in itertools.islice(steps_of(strategy, *prepared(strategy), pipeline), steps):
            workers.note(len(losses), loss)
            losses.append(loss)
            time.sleep(pause)
        workers.leave_together(folder, index, len(spec["worker"]))  # who ends early cuts the others off
        return losses

    return program


# %% check="pipeline" points=3 covers=["S58"]
with attempt("pipeline"), tempfile.TemporaryDirectory() as folder:
    for n, of_all, count in ((1, 1, 12), (2, 2, 13), (3, 3, 13), (2, 4, 12)):
        given, numbers = [tf.distribute.InputContext(n, i, of_all) for i in range(n)], np.arange(count)
        size, own = 8 if n < 3 else 6, of_all // n
        for step in (0, 1, 2, 50):  # the second epoch begins within step 1
            made = [pipeline(c, numbers, numbers, size) for c in given]
            odd = [type(each).__name__ for each in made if not isinstance(each, tf.data.Dataset)]
            expect(not odd, f"`pipeline` returned {''.join(odd[:1])}; expected a tf.data.Dataset")
            batches = [list(each.skip(step * own).take(own)) for each in made]
            got = [[x.numpy().tolist() for x, _ in each] for each in batches]
            same = all(x.numpy().tolist() == y.numpy().tolist() for each in batches for x, y in each)
            expect(same, "each label was the same number as its image; now some are not")
            flat = sorted(number for each in got for row in each for number in row)
            wanted = sorted(int(number % count) for number in range(step * size, (step + 1) * size))
            says = f"digits 0 to {count - 1}, batch {size}, {n} workers, {of_all} replicas: step {step} has {got}"
            expect(flat == wanted, f"{says}; wanted {wanted}, each once")
            expect(
                all(len(row) == size // of_all for each in got for row in each), f"{says}; one replica's part is off"
            )
    one = fresh.run(alone, 20, env=NO_GPU)
    with LocalCluster(in_step(folder, pipeline, 20), worker=2, env=NO_GPU) as both:
        losses = [both.result("worker", index) for index in (0, 1)]
    for name, each in zip(("one device", "worker:0", "worker:1"), (one, *losses), strict=True):
        print(f"{name:10}", *(f"{loss:.5f}" for loss in each[::5]), f"{each[-1]:.5f}")
    expect(np.allclose(losses, one, atol=1e-4), "two workers and one device have different losses")

# %% [markdown]
# Two processes, one loss, to five digits. Now the same with `fit`, which needs no loop:


# %% tags=["show"] covers=["S58"]
def by_fit(spec, job, index):
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    model, _ = prepared(strategy)
    with strategy.scope():
        model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(*train, batch_size=BATCH, verbose=0)


with LocalCluster(by_fit, worker=2, env=NO_GPU) as fitting:
    for who in (0, 1):
        why_not = workers.ended(fitting, "worker", who)[1]
        print(f"worker:{who}", type(why_not).__name__, " ".join(str(why_not).split())[:76], "...")

# %% [markdown]
# Keras 3 cannot. Your own loop can, and so can Keras 2, the package `tf_keras`: see below.

# %% [markdown]
# ## What goes over the network
# A *collective op*, `CollectiveReduceV2`, adds the gradients: each worker calls it, all get the sum. Each call costs a latency,
# so small gradients are *packed* into one. `CommunicationOptions` says how, and who adds: `RING` over gRPC, `NCCL` for GPUs, or
# `AUTO`.

# %%
SIZES = [8192, 128, 1280, 40]  # bytes of our model's gradients, in the order of its weights
ways = tf.distribute.experimental.CommunicationImplementation


# %% covers=["S58"]
def reducing(bytes_per_pack, way, sizes=SIZES):  # a program -> the bytes of each collective, its hint, the sum
    def program(spec, job, index):
        options = tf.distribute.experimental.CommunicationOptions(bytes_per_pack=bytes_per_pack, implementation=way)
        strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)

        def replica():
            gradients = [tf.ones([size // 4]) for size in sizes]
            return tf.distribute.get_replica_context().all_reduce("sum", gradients)

        step = tf.function(strategy.run)
        ops = step.get_concrete_function(replica).graph.get_operations()
        ops = [op for op in ops if op.type == "CollectiveReduceV2"]
        sums = step(replica)
        hints = {op.get_attr("communication_hint").decode() for op in ops}
        return [4 * op.inputs[0].shape.num_elements() for op in ops], *hints, float(sums[0][0])

    return program


# %%
def reduced(*arguments):  # what worker:0 says
    with LocalCluster(reducing(*arguments), worker=2, env=NO_GPU) as both:
        return both.result("worker", 0)


# %% tags=["show"] covers=["S58"]
for most, adds in ((0, ways.RING), (1000, ways.RING), (1, ways.AUTO), (0, ways.NCCL)):
    sent, its_hint, its_sum = reduced(most, adds)
    print(f"bytes_per_pack {most:4}, {adds.value:4}: hint {its_hint}, collectives of {sent} bytes, 1 + 1 = {its_sum:g}")

# %% [markdown]
# On CPUs, `NCCL` is only a hint.

# %% [markdown]
# ### Exercise: `packs` (3 points)
# Return the packs that TensorFlow makes, each a list of its gradients' bytes. It begins with the last gradient, which is
# computed first. A pack is full as soon as it has *more* than `bytes_per_pack`. With 0 there is one pack. Roughly 6 lines.


# %% answer="packs" covers=["S58"]
def packs(sizes, bytes_per_pack):  # [8192, 128, 1280, 40], 1000 -> [[40, 1280], [128, 8192]]
    ### BEGIN SOLUTION
    found = [[]]
    for size in reversed(sizes):
        if bytes_per_pack and sum(found[-1]) > bytes_per_pack:
            found.append([])
        found[-1].append(size)
    return found
    ### END SOLUTION


# %% check="packs" points=3 covers=["S58"]
with attempt("packs"):
    rows = expecting.list_of(expecting.list_of(expecting.whole)).named("a list of packs, each a list of bytes")
    asked = ([8192, 128, 1280, 40], 1000), ([400, 400, 400, 400, 400], 800), ([4, 4000, 4, 4], 8), ([4, 8], 0)
    for sizes, limit in asked:
        got = call(packs, list(sizes), limit, returns=rows)
        real, *_ = reduced(limit, ways.RING, sizes)
        print(f"{sizes}, {limit} bytes: you {[sum(pack) for pack in got]}, TensorFlow {real}")
        says = f"`packs({sizes}, {limit})` is {got}"
        expect([sum(pack) for pack in got] == real, f"{says}; TensorFlow's have {real} bytes")
        expect(
            list(itertools.chain(*got))[::-1] == sizes,
            f"{says}; expected each gradient once, from the last to the first",
        )

# %% [markdown]
# ## A coordinator and its workers, out of step
# `ParameterServerStrategy` keeps the variables on ps. One program, the coordinator, holds the loop (chapter 09). A
# *partitioner* spreads each variable that has two rows or more over the ps.


# %% covers=["S59"]
def spread(spec):  # in the coordinator: -> its strategy, its ClusterCoordinator, two variables
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer="grpc")
    halves = tf.distribute.experimental.partitioners.FixedShardsPartitioner(2)
    strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=halves)
    with strategy.scope():
        w, done = tf.Variable(tf.zeros([64, 10]), name="w"), tf.Variable(0)
    return strategy, tf.distribute.coordinator.ClusterCoordinator(strategy), w, done


# %% covers=["S59"]
def step_on(strategy, w, done):
    @tf.function
    def step(batches):
        def replica(x, y):
            with tf.GradientTape() as tape:
                logits = replicas.slow(x, 0.01) @ tf.convert_to_tensor(w)  # it sleeps, as if it computed
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
            for part, gradient in zip(w.variables, tape.gradient(loss, w.variables), strict=True):
                part.assign_sub(0.5 * gradient)
            done.assign_add(1)
            return loss

        return strategy.run(replica, args=next(batches))

    return step


def shuffled():  # each worker makes its own
    images = tf.reshape(train.images, [-1, 64])
    return tf.data.Dataset.from_tensor_slices((images, train.labels)).shuffle(1500).repeat().batch(50)


# %% [markdown]
# `schedule` hands a step out to a worker that is free, and returns a `RemoteValue` at once. `fetch` waits for its number.
# `join()` waits for all that was handed out. A first version of an epoch:


# %% covers=["S59"]
def one_by_one(coordinator, step, batches, steps):
    losses = []
    for _ in range(steps):
        loss = coordinator.schedule(step, args=(batches,))
        losses.append(coordinator.fetch(loss))
    return float(np.mean(losses))


# %% covers=["S59"]
def coordinated(folder, epoch, epochs, steps=20):  # a program for LocalCluster
    def program(spec, job, index):
        v1.logging.set_verbosity(v1.logging.FATAL)
        if job != "chief":
            threads = v1.ConfigProto(inter_op_parallelism_threads=4)  # with 1, a worker waits for itself
            tf.distribute.Server(spec, job, index, config=threads).join()
        strategy, coordinator, w, done = spread(spec)
        manager = tf.train.CheckpointManager(tf.train.Checkpoint(w=w, done=done), folder, max_to_keep=2)
        manager.checkpoint.restore(manager.latest_checkpoint)
        places = [each.device.rpartition("/device")[0] for each in (*w.variables, done)]
        print("w is on", *places[:-1], "and done on", places[-1], flush=True)
        batches, step = iter(coordinator.create_per_worker_dataset(shuffled)), step_on(strategy, w, done)
        while int(done) < epochs * steps:
            start = time.time()
            loss = epoch(coordinator, step, batches, steps)
            manager.save()
            workers.note(int(done), loss)
        return int(done), 1000 * (time.time() - start) / steps

    return program


# %% [markdown]
# ### Exercise: `epoch` (3 points)
# `one_by_one` keeps only one worker busy at a time. Write it anew: the same steps, the same mean, a plain number.
# **Budget: it waits for nothing before all steps are handed out.** Roughly 3 lines.


# %% answer="epoch" covers=["S59"]
def epoch(coordinator, step, batches, steps):  # a ClusterCoordinator, a tf.function, its argument, 20 -> mean loss
    ### BEGIN SOLUTION
    handed = [coordinator.schedule(step, args=(batches,)) for _ in range(steps)]
    coordinator.join()
    return float(tf.reduce_mean(coordinator.fetch(handed)))
    ### END SOLUTION


# %%
TASKS = {"chief": 1, "ps": 2, "worker": 2}

# %% check="epoch" points=3 covers=["S59"]
with attempt("epoch"):
    losses = [3.0, 1.0, 2.0, 6.0, 8.0, 4.0, 5.0, 3.0]
    noting = workers.Pretended(losses, step=print, batches=iter([]))
    got = read(epoch(noting, noting.step, noting.batches, 8), "`epoch` of 8 steps returned", expecting.number)
    kinds = [kind for kind, *_ in noting.events]
    early = [*kinds, "wait"].index("wait")
    handed = f"`epoch` of 8 steps waited when {early} of them were handed out"
    expect(early == kinds.count("schedule"), f"{handed}; expected all before")
    expect(early == 8, f"`epoch` of 8 steps handed out {early}")
    told = all(is_step and has_batches for _, is_step, has_batches in noting.events[:8])
    expect(told, "`epoch` handed out something else than `step` with its one argument, `args=(batches,)`")
    expect("wait" in kinds, "`epoch` waited for nothing: the steps may still run")
    expect(abs(got - 4) < 1e-6, f"the losses were {losses}; `epoch` returned {got}, expected 4")
    for each in (one_by_one, epoch):
        with (
            tempfile.TemporaryDirectory() as folder,
            LocalCluster(coordinated(folder, each, 2), **TASKS, env=NO_GPU) as cluster,
        ):
            done, milliseconds = cluster.result("chief", 0)
            print(f"{each.__name__:10} {done} steps, in the last epoch {milliseconds:.1f} ms a step")
    print(cluster.logs("chief").splitlines()[0])

# %% [markdown]
# Both workers sleep at the same time: their steps overlap. Each half of `w` is on another ps; `done` is whole.

# %% [markdown]
# ## Losing one
# We kill processes by `SIGKILL`. Like a program that crashed, they cannot say goodbye.

# %% [markdown]
# ### Exercise: `guesses` (1 point)
# What does the survivor do: `"goes on"` or `"ends"`? Where are the variables, and who waits for whom? Any complete guess earns
# the point. Then run the check, which kills.

# %% answer="guesses" covers=["S58", "S59"]
### BEGIN SOLUTION
guesses = {
    "in step, worker:1 dies; worker:0": "ends",
    "in step, worker:0 dies; worker:1": "ends",
    "coordinator, worker:1 dies; the chief": "goes on",
    "coordinator, ps:1 dies; the chief": "ends",
    "coordinator, the chief dies; ps:1": "goes on",
}
#: guesses = {
#:     "in step, worker:1 dies; worker:0": None,
#:     "in step, worker:0 dies; worker:1": None,
#:     "coordinator, worker:1 dies; the chief": None,
#:     "coordinator, ps:1 dies; the chief": None,
#:     "coordinator, the chief dies; ps:1": None,
#: }
### END SOLUTION


# %% tags=["folded"]
def said_by(end):  # (seconds, error) -> what a survivor did, and how
    seconds, error = end
    return "ends", f"{type(error).__name__} after {seconds:.2f} s"


def deaths_in_step():
    for victim in (1, 0):
        with (
            tempfile.TemporaryDirectory() as folder,
            LocalCluster(in_step(folder, whole, 1000, 0.02), worker=2, env=NO_GPU) as both,
        ):
            workers.wait_for_step(both, 10, index=1 - victim)
            both.kill("worker", victim)
            end = workers.ended(both, "worker", 1 - victim)
            yield f"in step, worker:{victim} dies; worker:{1 - victim}", *said_by(end)


# %% tags=["folded"]
def deaths_beside_a_coordinator(folder):
    with LocalCluster(coordinated(folder, one_by_one, 1000), **TASKS, env=NO_GPU) as cluster:
        workers.wait_for_step(cluster, 40, "chief")
        cluster.kill("worker", 1)
        done = workers.notes(cluster, "chief")[-1][1]
        workers.wait_for_step(cluster, done + 40, "chief")
        later = workers.notes(cluster, "chief")[-1][1]
        how = f"step {done}, then {later}; at least once: {later - later % 20} handed out, {later} counted"
        yield "coordinator, worker:1 dies; the chief", "goes on" if cluster.alive("chief", 0) else "ends", how
        cluster.restart("worker", 1)
        cluster.kill("ps", 1)
        yield "coordinator, ps:1 dies; the chief", *said_by(workers.ended(cluster, "chief", 0))
        workers.start_again(cluster, [("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1), ("chief", 0)])
        workers.wait_for_step(cluster, workers.notes(cluster, "chief")[-1][1] + 1, "chief")
        cluster.kill("chief", 0)
        here = cluster.alive("ps", 1) and cluster.alive("worker", 0)
        done = workers.notes(cluster, "chief")[-1][1]
        cluster.restart("chief", 0)
        workers.wait_for_step(cluster, done + 20, "chief")
        how = f"the chief, started again: step {done}, then {workers.notes(cluster, 'chief')[-1][1]}"
        yield "coordinator, the chief dies; ps:1", "goes on" if here else "ends", how


# %% check="guesses" points=1 covers=["S58", "S59"]
with attempt("guesses", done="recorded before it was measured"), tempfile.TemporaryDirectory() as folder:
    if isinstance(guesses, dict) and not any(guesses.values()):
        raise NotAttempted("guesses: not attempted yet. Replace each None by a word.")
    keys = [f"in step, worker:{i} dies; worker:{1 - i}" for i in (1, 0)]
    keys += [
        f"coordinator, {who}" for who in ("worker:1 dies; the chief", "ps:1 dies; the chief", "the chief dies; ps:1")
    ]
    kind = expecting.one_of(["goes on", "ends"])
    guessed = read(guesses, "`guesses` is", expecting.entries(dict.fromkeys(keys, kind)))
    for key, seen, how in itertools.chain(deaths_in_step(), deaths_beside_a_coordinator(folder)):
        print(f"{key}: you said {guessed[key]}, it {seen} ({how}){'' if guessed[key] == seen else '  <- a surprise'}")

# %% [markdown]
# In step, one death ends all: nobody can add up without it. A coordinator gives a dead worker's step to another one. So a
# step runs *at least once*: if the dead one had counted it, but not answered, it is counted twice. A dead ps takes variables
# with it. A chief that is started again goes on from its checkpoint.

# %% [markdown]
# A dead process's connections close. A machine without power is only silent. `SIGSTOP` makes a process silent:

# %% tags=["show"] covers=["S58"]
with (
    tempfile.TemporaryDirectory() as lent,
    LocalCluster(in_step(lent, whole, 1000, 0.02), worker=2, env=NO_GPU) as silent,
):
    workers.wait_for_step(silent, 10)
    if workers.silence(silent, "worker", 1):
        print("worker:1 is silent; worker:0", *said_by(workers.ended(silent, "worker", 0)))
    else:
        print("NOT SHOWN HERE: this system cannot stop a process")

# %% [markdown]
# Only the *heartbeat* tells: who is silent for 4 seconds counts as dead. So both strategies need a checkpoint, and somebody who
# starts programs again.

# %% [markdown]
# A *life* is one run of a program, until it is killed. The program is given a `state` to save, `{"model": ..., "optimizer":
# ...}`. `train(n)` is an endless iterator: each `next` does a step, the first with batch n, and gives its loss.

# %% [markdown]
# ### Exercise: `resume` (4 points)
# Train until `last` steps are done, in all lives together. Return the losses of this life. After every 5 steps, save the state
# and the number of steps done. All restore; only the chief saves. **Budget: at most one checkpoint in 5 steps.** Roughly 9
# lines are missing.


# %% answer="resume" covers=["S58"]
def resume(state, train, last, folder, chief):  # ..., 30, "/checkpoints", True -> [loss, ...]
    done = tf.Variable(0)
    losses = []
    ### BEGIN SOLUTION
    #: raise NotImplementedError("your turn")
    checkpoint = tf.train.Checkpoint(**state, done=done)
    manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=2)
    checkpoint.restore(manager.latest_checkpoint)
    steps = train(int(done))
    while int(done) < last:
        losses.append(float(next(steps)))
        done.assign_add(1)
        if chief and int(done) % 5 == 0:
            manager.save()
    ### END SOLUTION
    return losses


# %% [markdown]
# The check lets a small program die. Then two workers train, `worker:1` is killed, and both are started again.


# %%
def lasting(folder, last):  # a program for LocalCluster
    def program(spec, job, index):
        v1.logging.set_verbosity(v1.logging.ERROR)
        workers.heartbeat(len(spec["worker"]), 4.0)
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        model, optimizer = prepared(strategy)

        def train(first):
            for step, loss in enumerate(steps_of(strategy, model, optimizer, pipeline, first), first):
                workers.note(step, loss)
                time.sleep(0.03)
                yield loss

        losses = resume({"model": model, "optimizer": optimizer}, train, last, folder, index == 0)
        workers.leave_together(folder, index, len(spec["worker"]))
        return losses

    return program


# %% check="resume" points=4 answers=["resume", "pipeline"] covers=["S58"]
with attempt("resume", after=["pipeline"]), tempfile.TemporaryDirectory() as folder:
    kind = expecting.list_of(expecting.number)
    cases = ((17, True, True, 15, 4), (17, True, False, 15, 3), (99, True, True, 20, 4), (3, False, False, 0, 0))
    for dies, chief, then, begins, saves in cases:
        lives, files = workers.two_lives(resume, dies, chief, then, 20)
        life = lives[1]
        got = read(life.returned, "`resume` returned", kind)
        says = f"`last` is 20, died in step {dies}" if dies < 20 else "all 20 steps done, started again"
        says += "" if then else ", the second life is not the chief" if chief else ", nobody is the chief"
        begun = life.begun[0] if life.begun else 20
        expect(begun == begins, f"{says}: the second life began with step {begun}; expected {begins}")
        expect(max(life.did, default=0) <= 20, f"{says}: it did step 20, and more; expected step 19 to be the last")
        wanted = workers.losses_of_steps(20)[begins:]
        expect(
            len(got) == len(wanted), f"{says}: it returned {len(got)} losses; expected {len(wanted)}, those of its own"
        )
        alike = np.allclose(got, wanted, atol=1e-4)
        expect(alike, f"{says}: its losses are others than in a run without a death; what did you not restore?")
        made = sum(each.saves for each in lives)
        expect(made <= saves, f"{says}: both lives made {made} checkpoints; expected {saves} at most")
        expect(chief or not files, f"{says}: {files} files in the folder; expected none")
    one = fresh.run(alone, 30, env=NO_GPU)
    with LocalCluster(lasting(folder, 30), worker=2, env=NO_GPU) as both:
        workers.wait_for_step(both, 12)
        both.kill("worker", 1)
        marks = {"worker:1 killed": time.time()}
        seconds, error = workers.ended(both, "worker", 0)
        print(f"worker:0 noticed after {seconds:.2f} s: {type(error).__name__}")
        workers.start_again(both, [("worker", 0), ("worker", 1)])
        marks["both started again"] = time.time()
        losses = both.result("worker", 0)
        seen = workers.notes(both)
    display(workers.draw_losses(seen, marks, title="Two workers, one death"))
    expect(seen[-1][1] == 29, f"`last` is 30, and the last step was {seen[-1][1]}; expected 29, the first being 0")
    off = [step for _, step, loss in seen if abs(loss - one[step]) > 1e-3]
    expect(not off, f"step {off[:1]} has another loss than one device that never died; what did you not save?")
    print(f"30 steps; {len(seen) - 30} were done twice. The losses are those of a run without a death")

# %% [markdown]
# The curve goes back to the checkpoint, and on from there. The chief can read model and SGD alone. With Keras metrics in the
# state, *all* must call `save`, the others into folders of their own.

# %% [markdown]
# ## The same by `fit`
# The callback `BackupAndRestore` of Keras 2 saves after each epoch, and goes on with the next. But the data begin anew. So the
# losses are others than without a death:


# %% covers=["S58"]
def by_keras_2(folder):
    def program(spec, job, index):
        import tf_keras

        v1.logging.set_verbosity(v1.logging.ERROR)
        workers.heartbeat(len(spec["worker"]), 4.0)
        tf_keras.utils.set_random_seed(1)
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        with strategy.scope():
            model = tf_keras.Sequential([tf_keras.layers.Flatten(), tf_keras.layers.Dense(10)])
            model.compile("sgd", tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        data = tf.data.Dataset.from_tensor_slices(tuple(train)).repeat().batch(BATCH)
        callbacks = [tf_keras.callbacks.BackupAndRestore(folder)]
        callbacks += [tf_keras.callbacks.LambdaCallback(on_epoch_end=lambda n, logs: workers.note(n, logs["loss"]))]
        model.fit(data, epochs=5, steps_per_epoch=5, verbose=0, callbacks=callbacks)
        workers.leave_together(folder, index, len(spec["worker"]))

    return program


# %% tags=["show"] covers=["S58"]
with tempfile.TemporaryDirectory() as lent, LocalCluster(by_keras_2(lent), worker=1, env=NO_GPU) as unbroken:
    unbroken.result("worker", 0)
with tempfile.TemporaryDirectory() as lent, LocalCluster(by_keras_2(lent), worker=2, env=NO_GPU) as broken:
    workers.wait_for_step(broken, 1, seconds=60)
    broken.kill("worker", 1)
    print("worker:1 dies; worker:0", *said_by(workers.ended(broken, "worker", 0)))
    workers.start_again(broken, [("worker", 0), ("worker", 1)])
    broken.result("worker", 0)
for life, lived in (("without a death", unbroken), ("in both lives", broken)):
    print(f"{life:15}", *(f"epoch {epoch}: {loss:.4f} " for _, epoch, loss in workers.notes(lived)))

# %% [markdown]
# ## Somebody who starts it again
# On real machines that is Kubernetes or Slurm. Each tells a program in another way who it is. In Kubernetes a program runs in a
# *pod*; a *StatefulSet* starts some, with lasting names. These files, beside this notebook, were **not run**: there is neither
# here.

# %% tags=["show"] covers=["S68"]
for file in ("trainer.yaml", "trainer.sbatch"):
    lines = Path(file).read_text().splitlines()
    print(f"from {file}:", *lines[10:28] if file.endswith("yaml") else lines[-3:], sep="\n    ")

# %% [markdown]
# ### Exercise: `from_pod` (2 points)
# Pod number 2 of the StatefulSet `trainer` has the host name `trainer-2`. The others find it at `trainer-2.SERVICE`. All pods
# are workers. Return a `tf.distribute.cluster_resolver.SimpleClusterResolver(spec, task_type=..., task_id=...)`; `spec` is a
# `tf.train.ClusterSpec`. Roughly 4 lines.


# %% answer="from_pod" covers=["S68"]
def from_pod(hostname, service, count, port):  # "trainer-2", "train", 4, 2222 -> a ClusterResolver
    ### BEGIN SOLUTION
    name, _, index = hostname.rpartition("-")
    spec = tf.train.ClusterSpec({"worker": [f"{name}-{i}.{service}:{port}" for i in range(count)]})
    resolvers = tf.distribute.cluster_resolver
    return resolvers.SimpleClusterResolver(spec, task_type="worker", task_id=int(index))
    ### END SOLUTION


# %% check="from_pod" points=2 covers=["S68"]
with attempt("from_pod"):
    asked = ("trainer", 10, "train", 11, 2222), ("trainer", 2, "train", 11, 2222), ("digits-10-x", 0, "s", 2, 80)
    for name, number, service, count, port in asked:
        hostname = f"{name}-{number}"
        says = f"`from_pod('{hostname}', '{service}', {count}, {port})`"
        me, spec = workers.resolved(from_pod(hostname, service, count, port), says)
        expect(me == ("worker", number), f"{says} says that this is {me[0]}:{me[1]}; expected worker:{number}")
        expect(set(spec) == {"worker"} and len(spec["worker"]) == count, f"{says} has the cluster {spec}")
        mine = spec["worker"][me[1]]
        expect(mine == f"{hostname}.{service}:{port}", f"{says} says that I am at {mine}")
        names = [each.partition(".")[0] for each in spec["worker"]]
        off = [f"worker:{i} the name {each}" for i, each in enumerate(names) if each != f"{name}-{i}"]
        expect(not off, f"{says} gives {', '.join(off[:2])}")
        print(hostname, "is at", mine, "among", *spec["worker"][:2], "...")

# %% [markdown]
# For Slurm's variables TensorFlow has a resolver. A *rank* is Slurm's number of a task. With `--distribution=block`
# Slurm fills its first node with tasks, then the next. So rank 0 runs on the first:

# %%
SLURM = {"SLURM_STEP_NUM_TASKS": "3", "SLURM_STEP_NODELIST": "n[2,10]", "SLURM_STEP_TASKS_PER_NODE": "2,1"}


# %% tags=["show"] covers=["S68"]
def its_place(rank, gpus):
    os.environ["SLURM_PROCID"] = str(rank)
    told = tf.distribute.cluster_resolver.SlurmClusterResolver(gpus_per_node=gpus, auto_set_gpu=False)
    return told.cluster_spec().as_dict()["worker"][rank]


for listed, cards in (("n[1,2]", 2), ("n[2,10]", 2), ("n[1,2]", 0)):
    place = fresh.call(its_place, 0, cards, env={**SLURM, "SLURM_STEP_NODELIST": listed})
    print(f"{listed}, {cards} GPUs a node: rank 0 is resolved to", place.value or repr(place.error))

# %% [markdown]
# ### The resolver's order
# With `n[2,10]`, rank 0 runs on n2, and believes it is on n10: TensorFlow sorts the names as text. Names like `n02` hide the
# fault. Without GPUs this resolver raises an error: hence the 2.

# %% [markdown]
# ### Exercise: `from_slurm` (2 points)
# Write it right. `nodes` are in Slurm's order; `counts` has the number of tasks of each. The tasks of a node have the ports
# `port`, `port` + 1, ... Return a `SimpleClusterResolver`. Roughly 4 lines.


# %% answer="from_slurm" covers=["S68"]
def from_slurm(nodes, counts, rank, port):  # ["n2", "n10"], [2, 1], 0, 8888 -> a ClusterResolver
    ### BEGIN SOLUTION
    each = zip(nodes, counts, strict=True)
    spec = tf.train.ClusterSpec({"worker": [f"{node}:{port + i}" for node, count in each for i in range(count)]})
    resolvers = tf.distribute.cluster_resolver
    return resolvers.SimpleClusterResolver(spec, task_type="worker", task_id=rank)
    ### END SOLUTION


# %% check="from_slurm" points=2 covers=["S68"]
with attempt("from_slurm"):
    from tensorflow.python.distribute.cluster_resolver import slurm_cluster_resolver as slurm

    nodes = slurm.expand_hostlist(SLURM["SLURM_STEP_NODELIST"])
    counts = slurm.expand_tasks_per_node(SLURM["SLURM_STEP_TASKS_PER_NODE"])
    cases = [(nodes, counts, ["n2:8888", "n2:8889", "n10:8888"])]
    cases += [(["n1", "n2"], [1, 2], ["n1:8888", "n2:8888", "n2:8889"])]
    cases += [(["n10", "n2"], [2, 1], ["n10:8888", "n10:8889", "n2:8888"])]
    for nodes, counts, places in cases:
        for rank, wanted in enumerate(places):
            says = f"`from_slurm({nodes}, {counts}, {rank}, 8888)`"
            me, spec = workers.resolved(from_slurm(nodes, counts, rank, 8888), says)
            expect(me == ("worker", rank), f"{says} says that this is {me[0]}:{me[1]}; rank {rank} is worker:{rank}")
            addresses = spec.get("worker", [])
            expect(len(addresses) == 3, f"{says} has {addresses}; there are 3 tasks")
            expect(addresses[rank] == wanted, f"{says} says that I am at {addresses[rank]}; rank {rank} is at {wanted}")
        print(*nodes, "are filled in this order:", *addresses)

# %% [markdown]
# ## In 2019: the Estimator
# An *Estimator* took a strategy, and trained in one call. TensorFlow has removed it.
# ```python
# config = tf.estimator.RunConfig(folder, train_distribute=strategy, eval_distribute=strategy)
# regressor = tf.estimator.LinearRegressor(columns, optimizer="SGD", config=config)
# regressor.train(data)
# ```
# `estimator.py`, beside this notebook, runs it with TensorFlow 2.15: first `train_and_evaluate` in four processes, each with
# another `TF_CONFIG`; then epochs.

# %% tags=["show"] covers=["S67"]
print(scripts.output("estimator.py", "estimator_recorded.txt"))

# %% [markdown]
# Chief and worker share 400 steps; the evaluator tests checkpoints.
#
# Keras divides a batch over the replicas. An Estimator gave *each replica a batch*: two replicas take two in a step. Batches
# that are left at the end, too few for all replicas, make no step.

# %% [markdown]
# ### Exercise: `epoch_steps` (2 points)
# You port such a program. How many steps has an epoch, by the Estimator and by Keras, both with the old `batch`? Which batch
# must Keras get, so that each replica has as many examples as before? Roughly 3 lines.


# %% answer="epoch_steps" covers=["S67"]
def epoch_steps(count, batch, replicas):  # 70, 10, 2 -> (3, 7, 20)
    ### BEGIN SOLUTION
    batches = -(-count // batch)
    return batches // replicas, batches, batch * replicas
    ### END SOLUTION


# %% check="epoch_steps" points=2 covers=["S67"]
with attempt("epoch_steps"):
    kinds = expecting.row(expecting.whole, expecting.whole, expecting.whole)
    cases = ((200, 10, 2), (10, 20, 20)), ((70, 10, 2), (3, 7, 20)), ((75, 10, 3), (2, 8, 30))
    cases += ((75, 10, 2), (4, 8, 20)), ((72, 10, 2), (4, 8, 20)), ((72, 10, 3), (2, 8, 30))
    for asked, wanted in cases:
        got = call(epoch_steps, *asked, returns=kinds)
        print(f"{asked}: {got}")
        parts = zip(("the Estimator's steps", "Keras's steps", "Keras's batch"), got, wanted, strict=True)
        off = [part for part, mine, right in parts if mine != right]
        expect(not off, f"`epoch_steps{asked}` is {got}; not right: {' and '.join(off)}; look at the recorded run")

# %% [markdown]
# ## Explain it to a colleague
# She trains in step on 16 pods. Once a day one dies; then all 16 are started again, and the training begins at step 0. With
# parameter servers, she has heard, nothing is lost. One pod has a `TF_CONFIG` without `"cluster"`, and reports no error.

# %% [markdown]
# ### Exercise: `explain` (3 points, read by a person)
# In four to six sentences: why do all 16 end? What must she save and restore, and where? Is she right about parameter
# servers? What does the one pod do?

# %% [markdown] answer="explain" points=3 covers=["S58", "S59", "S68"]
# ### BEGIN SOLUTION
# In step every gradient is a sum over all 16 workers, so a step cannot end without the dead one, and all others get an
# UnavailableError. That is fine if each program restores the newest checkpoint when it starts: model, optimizer, and the
# number of steps done, so that the data goes on there as well. The checkpoint must be on a disk that all pods see; the chief
# writes it, and what is done since the last one is done again. With parameter servers a worker may die, and its step is given
# to another one, maybe twice. But the variables live on the ps, so a dead ps ends the run, and it needs checkpoints, too. The
# pod without a cluster trains a model of its own, alone, and nobody misses it only if the others' cluster does not list it;
# a check of TF_CONFIG before the start would have told.
#
# **Rubric.** One point for each, half a point where the reason is missing.
#
# - *In step* (1): the sum needs all; all end and are started again. Earns: "Nobody can finish the all-reduce." Does not:
#   "Kubernetes stops them."
# - *Checkpoint* (1): model, optimizer and step (or data position), on a shared disk, restored at each start. Earns: "Adam's
#   moments and the step counter, too." Does not: "Save the weights at the end."
# - *Parameter servers and the lone pod* (1): a worker's death costs nothing, a ps's does; the pod trains alone. Earns: "The
#   variables die with their ps." Does not: "With ps nothing can be lost."
# ### END SOLUTION

# %% [markdown]
# ## Recipe
# ```python
# assert not faults(os.environ["TF_CONFIG"])
# strategy = tf.distribute.MultiWorkerMirroredStrategy()   # in step; one death ends all
# checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, done=done)
# manager = tf.train.CheckpointManager(checkpoint, shared_folder, max_to_keep=2)
# checkpoint.restore(manager.latest_checkpoint)            # all; then data from step `done` on
# if chief and int(done) % 100 == 0: manager.save()        # with metrics, all save
# # out of step: ParameterServerStrategy; hand out all, then join; a dead ps ends it
# ```
