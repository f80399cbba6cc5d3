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
# ![The loss of two workers: it ends at step 12, when one is killed, and goes on from step 10 once both are
# back.](pictures/13_many_workers.png)
#
# Every machine starts the same program. In about 130 minutes you tell each who it is, write that program, train in step and
# out of step, kill machines, and go on. Here a machine is a process.

# %% tags=["folded"]
from across import digits, expecting, fresh, hangs, pictures, replicas, scripts, workers
from across.attempt import NotAttempted, attempt, call, expect, read
from across.clusters import LocalCluster, Logs

fresh.warm_up()

# %%
import itertools
import json
import math
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
text = """{
    "cluster": {"chief": ["a:2222"], "worker": ["b:2222", "c:2222"], "ps": ["d:2222", "e:2222"]},
    "task": {"type": "worker", "index": 1}}"""
workers.draw_config(text)

# %% tags=["show"] covers=["S68"]
os.environ["TF_CONFIG"] = text
told_me = tf.distribute.cluster_resolver.TFConfigClusterResolver()
print("I am", told_me.task_type, told_me.task_id, "of", told_me.cluster_spec().as_dict())
del os.environ["TF_CONFIG"]

# %% [markdown]
# ### Exercise: `tf_config` (2 points)
# Write the text for one task. An evaluator is not part of the cluster, not even in its own text: leave it out of `"cluster"`.
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
        expect("evaluator" not in spec, f"for {job}:{index} the cluster has an evaluator")
        expect(spec == wanted, f"for {job}:{index} TensorFlow reads the cluster {spec}; expected {wanted}")
        print(f"{job}:{index}", got)

# %% [markdown]
# ## What TensorFlow says of wrong texts
# Eight texts are wrong, the last is right. Each goes to a fresh process, for 3 seconds:

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
    "two evaluators": said({"worker": here[:1], "evaluator": ["e:1", "f:1"]}),
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
# `no cluster` is accepted: such a machine trains alone. The last three wait for others: the right text, too. So check the text
# *before* you start a hundred machines.

# %% [markdown]
# | word | when | whose rule |
# |---|---|---|
# | `"job"` | a job is none of the four | TensorFlow's |
# | `"chief"` | more than one chief | TensorFlow's |
# | | a `ps` and no chief | ours |
# | `"evaluator"` | more than one evaluator | TensorFlow's |
# | `"port"` | an address does not end with `:` and a whole number | both |
# | `"twice"` | two tasks have one address | ours |
# | `"task"` | the task's job, if no evaluator, is not in the cluster | TensorFlow's |
# | `"index"` | the job is there, but has no task of that number; `"0"` is 0 | TensorFlow's |

# %% [markdown]
# ### Exercise: `faults` (3 points)
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
    if len(cluster.get("evaluator", [])) > 1:
        found.append("evaluator")
    job, index = task.get("type"), task.get("index")
    if job not in cluster and job != "evaluator":
        found.append("task")
    elif str(index) not in map(str, range(len(cluster.get(job, [0])))):
        found.append("index")
    ### END SOLUTION
    return found


# %% check="faults" points=3
with attempt("faults"):
    words = ["json", "no cluster", "job", "chief", "evaluator", "port", "twice", "task", "index"]
    good = {"chief": ["a:1"], "worker": ["a:2", "b:2"], "ps": ["c:1"]}
    odd = {"trainer": ["t:1"], "ps": ["p:1"]}
    told = {"worker:2 of two": "index", "index -1": "index", "two evaluators": "evaluator", "a job `trainer`": "job"}
    told |= {"no port": "port", "a ps, no chief": "chief", "a right text": ""}
    cases = {name: (wrong[name], {word} - {""}) for name, word in told.items()} | {
        "an evaluator, beside the cluster": (said(good, "evaluator"), set()),
        "one evaluator, in the cluster": (said({**two, "evaluator": ["e:1"]}, "evaluator"), set()),
        'index "1", as text': (said(two, index="1"), set()),
        'index "2" of two, as text': (said(two, index="2"), {"index"}),
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
# the global batch, and the gradients are added over the network. On one device, the program is this:

# %%
BATCH = 60  # digits of a global batch


def made():  # -> a model and an optimizer, the same in each process
    tf.keras.utils.set_random_seed(1)
    layers = tf.keras.layers
    first = [tf.keras.Input((8, 8, 1)), layers.Flatten(), layers.Dense(32, "tanh")]
    model = tf.keras.Sequential([*first, layers.Dense(10)])
    optimizer = tf.keras.optimizers.SGD(0.1, momentum=0.9)
    optimizer.build(model.trainable_variables)
    return model, optimizer


# %% covers=["S58"]
def alone(steps):  # on one device -> the loss of each step
    model, optimizer = made()

    @tf.function
    def step(images, labels):
        with tf.GradientTape() as tape:
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(images))
            loss = tf.reduce_sum(each) / BATCH
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    data = tf.data.Dataset.from_tensor_slices(tuple(train)).repeat().batch(BATCH)
    return [float(step(*batch)) for batch in data.take(steps)]


# %% [markdown]
# Each worker makes its own dataset. `strategy.distribute_datasets_from_function(f)` calls `f` with an `InputContext`:

# %% tags=["show"] covers=["S58"]
shown = tf.distribute.InputContext(num_input_pipelines=2, input_pipeline_id=1, num_replicas_in_sync=2)
print(shown.input_pipeline_id, "of", shown.num_input_pipelines, "pipelines;", end=" ")
print("a replica's part of 60:", shown.get_per_replica_batch_size(60))

# %% [markdown]
# ### Exercise: `pipeline` (3 points)
# Return this worker's dataset of (images, labels): endless, not shuffled, in batches for *one replica*. In each step all
# replicas together get the next `batch` digits, each once. Roughly 3 lines.
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


# %% check="pipeline" points=3 covers=["S58"]
with attempt("pipeline"):
    for n, of_all, count in ((1, 1, 12), (2, 2, 13), (3, 3, 13), (2, 4, 12)):
        given, numbers = [tf.distribute.InputContext(n, i, of_all) for i in range(n)], np.arange(count)
        size, own = 8 if n < 3 else 6, of_all // n
        for step in (0, 1, 2, 50):  # the second epoch begins within step 1
            dealt = [pipeline(c, numbers, numbers, size) for c in given]
            odd = [type(each).__name__ for each in dealt if not isinstance(each, tf.data.Dataset)]
            expect(not odd, f"`pipeline` returned {''.join(odd[:1])}; expected a tf.data.Dataset")
            ends = [size for size in (int(each.cardinality()) for each in dealt) if 0 <= size < 1_000_000]
            expect(not ends, f"your dataset has {''.join(map(str, ends[:1]))} batches; expected it to be endless")
            batches = [list(each.skip(step * own).take(own)) for each in dealt]
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
        print(f"{n} workers, {of_all} replicas, step 50:", *got)

# %% [markdown]
# ## The program of one worker
# Each machine gets the same program, again after a crash. A *life* is one run.
#
# 1. It makes a `MultiWorkerMirroredStrategy`, and in its scope `made()`. Count steps outside: `int()` of a
#    mirrored variable fails.
# 2. A replica's part of the loss: the sum over its digits, divided by `batch`. `optimizer` adds the gradients.
# 3. After every 5 steps the chief, `worker:0`, saves model, optimizer and number of steps. All start from the newest.

# %% [markdown]
# ### Exercise: `worker` (7 points)
# Write it, from `alone`. `data(context)` is this worker's dataset from step 0 on. Train until `last` steps are done in all lives
# together; after each, call `workers.note(step, loss)`, from step 0 on, with the loss of *all* replicas. Return this life's
# losses. Roughly 22 lines are missing.
#
# <details><summary>Hint</summary>
#
# `strategy.reduce("sum", strategy.run(...), axis=None)`; `strategy.cluster_resolver.task_id`; `tf.train.CheckpointManager`.
# </details>


# %% answer="worker" covers=["S58"]
def worker(made, data, batch, last, folder):  # ..., 60, 30, "/checkpoints" -> [loss, ...]
    losses = []
    ### BEGIN SOLUTION
    #: raise NotImplementedError("your turn")
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model, optimizer = made()

    def replica(images, labels):
        with tf.GradientTape() as tape:
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(images))
            loss = tf.reduce_sum(each) / batch
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function
    def step(images, labels):
        return strategy.reduce("sum", strategy.run(replica, args=(images, labels)), axis=None)

    done = tf.Variable(0)
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, done=done)
    manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=2)
    checkpoint.restore(manager.latest_checkpoint)
    batches = iter(strategy.distribute_datasets_from_function(lambda context: data(context).skip(int(done))))
    while int(done) < last:
        losses.append(float(step(*next(batches))))
        workers.note(int(done), losses[-1])
        done.assign_add(1)
        if strategy.cluster_resolver.task_id == 0 and int(done) % 5 == 0:
            manager.save()
    ### END SOLUTION
    return losses


# %% covers=["S58"]
def started(folder, last):  # a program for LocalCluster
    def mine(context):
        return pipeline(context, *train, BATCH).map(lambda x, y: (replicas.slow(x, 0.06), y))  # so that one can watch

    def program(spec, job, index):
        v1.logging.set_verbosity(v1.logging.ERROR)
        workers.heartbeat(len(spec["worker"]), 4.0)
        losses = worker(made, mine, BATCH, last, folder)
        workers.leave_together(folder, index, len(spec["worker"]))  # who ends early cuts the others off
        return losses

    return program


# %% [markdown]
# The check starts two, kills `worker:1`, and starts both again:

# %% check="worker" points=7 answers=["worker", "pipeline"] covers=["S58"]
with attempt("worker", after=["pipeline"]), tempfile.TemporaryDirectory() as folder:
    kind = expecting.list_of(expecting.number)
    one = fresh.run(alone, 30, env=NO_GPU)
    with LocalCluster(started(folder, 30), worker=2, env=NO_GPU) as both:
        workers.wait_for_step(both, 12)
        if not both.alive("worker", 0):
            both.result("worker", 0)
            expect(False, f"`last` is 30; `worker:0` ended after noting {len(workers.notes(both))} steps")
        both.kill("worker", 1)
        marks = {"worker:1 killed": time.time()}
        before = workers.notes(both)
        workers.ended(both, "worker", 0)
        workers.start_again(both, [("worker", 0), ("worker", 1)])
        marks["both started again"] = time.time()
        losses = [read(both.result("worker", index), "`worker` returned", kind) for index in (0, 1)]
        seen = workers.notes(both)
    display(workers.draw_losses(seen, marks, title="Two workers, one death"))
    steps = [step for _, step, _ in seen]
    wrong = [step for _, step, loss in seen if not abs(loss - one[min(step, 29)]) < 1e-3]
    expect(
        not wrong, f"step {wrong[:1]} has another loss than one device that never died; what is not added, or restored?"
    )
    second = steps[len(before) :]
    second = second[second.index(min(second)) :] if second else []
    expect(second == list(range(second[0] if second else 0, 30)), f"the second life noted steps {second}")
    expect(second[0] in (10, 15), f"the second life began with step {second[0]}; expected the newest checkpoint's")
    for index, got in enumerate(losses):
        expect(len(got) == len(second), f"worker:{index} returned {len(got)} losses; expected those of its own life")
    print(f"30 steps; {len(seen) - 30} were done twice. The losses are those of one device, and of no death")

# %% [markdown]
# The curve goes back to the checkpoint. With `ON_READ` variables, *all* must call
# `save`, the others into own folders.

# %% [markdown]
# The same with `fit`:


# %% tags=["show"] covers=["S58"]
def by_fit(spec, job, index):
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model, _ = made()
        model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(*train, batch_size=BATCH, verbose=0)


with LocalCluster(by_fit, worker=2, env=NO_GPU) as fitting:
    for who in (0, 1):
        why_not = workers.ended(fitting, "worker", who)[1]
        print(f"worker:{who}", type(why_not).__name__, " ".join(str(why_not).split())[:76], "...")

# %% [markdown]
# Keras 3's `fit` cannot; Keras 2's can, see below.

# %% [markdown]
# ## What goes over the network
# A *collective op*, `CollectiveReduceV2`, adds the gradients: each worker calls it, all get the sum. Small gradients are *packed*.
# `CommunicationOptions` says how, and who adds: `RING` over gRPC, `NCCL` for GPUs (on CPUs only a hint), or `AUTO`.

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
# ## A coordinator and its workers, out of step
# `ParameterServerStrategy` keeps the variables on ps. One program, the coordinator, holds the loop (chapter 09). This
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
                logits = replicas.slow(x, 0.03) @ tf.convert_to_tensor(w)  # it sleeps, as if it computed
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
# `schedule` hands a step out to a worker that is free, and returns a `RemoteValue` at once. `fetch` waits for its value.
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
        parts = {f"w, part {number}": each for number, each in enumerate(w.variables)} | {"done": done}
        places = {name: each.device.rpartition("/device")[0] for name, each in parts.items()}
        batches, step = iter(coordinator.create_per_worker_dataset(shuffled)), step_on(strategy, w, done)
        while int(done) < epochs * steps:
            start = time.time()
            loss = epoch(coordinator, step, batches, steps)
            manager.save()
            workers.note(int(done), loss)
        return int(done), 1000 * (time.time() - start) / steps, places

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
    took = {}
    for each in (one_by_one, epoch):
        with (
            tempfile.TemporaryDirectory() as folder,
            LocalCluster(coordinated(folder, each, 2), **TASKS, env=NO_GPU) as cluster,
        ):
            done, took[each.__name__], places = cluster.result("chief", 0)
    display(pictures.bars(took, title=f"{done} steps, the last epoch's", unit="milliseconds a step"))
    display(workers.draw_places(cluster.spec, places))

# %% [markdown]
# Both workers sleep at once. The parts of `w` are on different ps; `done` is whole.

# %% [markdown]
# ## Losing one
# We kill processes by `SIGKILL`. In step, each adds a one:


# %% covers=["S58"]
def in_step(spec, job, index):  # a program for LocalCluster, which does not end
    v1.logging.set_verbosity(v1.logging.ERROR)
    workers.heartbeat(len(spec["worker"]), 4.0)  # who is silent for 4 seconds counts as dead
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    add = tf.function(lambda: strategy.reduce("sum", strategy.run(lambda: tf.ones([])), axis=None))
    for step in itertools.count():
        workers.note(step, float(add()))
        time.sleep(0.02)


# %% [markdown]
# ### Exercise: `guesses` (1 point)
# What does the survivor do: `"goes on"` or `"ends"`? Where are the variables, and who waits for whom? Any complete guess earns
# the point.

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
def said_by(end):  # (seconds, error) -> what a survivor did, how, and after how many seconds
    seconds, error = end
    return "ends", f"{type(error).__name__} after {seconds:.2f} s", seconds


def deaths_in_step():
    for victim in (1, 0):
        with LocalCluster(in_step, worker=2, env=NO_GPU) as both:
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
        here = "goes on" if cluster.alive("chief", 0) else "ends"
        yield "coordinator, worker:1 dies; the chief", here, how, math.inf
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
        yield "coordinator, the chief dies; ps:1", "goes on" if here else "ends", how, math.inf


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
    times = {}
    for key, seen, how, times[key] in itertools.chain(deaths_in_step(), deaths_beside_a_coordinator(folder)):
        print(f"{key}: you said {guessed[key]}, it {seen} ({how}){'' if guessed[key] == seen else '  <- a surprise'}")
    display(workers.draw_deaths(times))

# %% [markdown]
# <details><summary>What was measured</summary>
#
# In step, one death ends all: nobody can add up without it. A coordinator gives a dead worker's step to another one: it runs
# *at least once*, and is counted twice if the dead one had counted it. A dead ps takes variables with it. A chief that is
# started again goes on from its checkpoint.
# </details>

# %% [markdown]
# Who waits on a connection to a dead process sees it close. All others miss its *heartbeat*, after a while. A machine without
# power is only silent. `SIGSTOP` makes a process silent:

# %% tags=["show"] covers=["S58"]
with LocalCluster(in_step, worker=2, env=NO_GPU) as silent:
    workers.wait_for_step(silent, 10)
    if workers.silence(silent, "worker", 1):
        print("worker:1 is silent; worker:0", *said_by(workers.ended(silent, "worker", 0))[:2])
    else:
        print("NOT SHOWN HERE: this system cannot stop a process")

# %% [markdown]
# The 4 seconds are this course's: `workers.heartbeat` sets them in TensorFlow's private context.
# `CommunicationOptions(timeout_seconds=)` is public, and of collectives alone. So both strategies need a checkpoint, and somebody
# who starts programs again.

# %% [markdown]
# ## Why does it hang?
# Five recorded jobs that hang, or failed. Who is guilty, and of what? Often not who complains:

# %%
CAUSES = [
    "a copied TF_CONFIG",
    "a wrong port",
    "a full disk at a checkpoint",
    "NaN from one replica",
    "an uneven last batch",
]


def config_of(log):  # -> {"cluster": {...}, "task": {"type": "worker", "index": 1}}
    return json.loads(log.split("TF_CONFIG: ")[1].splitlines()[0])


# %% tags=["show"] covers=["S58", "S68"]
draw = np.random.default_rng(3)
for number, cause in enumerate(draw.permutation(CAUSES)):
    print("job", number)
    display(Logs(hangs.drawn(draw, str(cause)).evidence))

# %% [markdown]
# ### Exercise: `culprit` (2 points)
# Return the guilty task and the cause, one of `CAUSES`. Roughly 9 lines.


# %% answer="culprit" covers=["S58", "S68"]
def culprit(logs):  # {"worker:0": "12:40:19 worker:0 starts, ...", ...} -> ("worker:2", "a wrong port")
    ### BEGIN SOLUTION
    told = {task: config_of(log) for task, log in logs.items()}
    clusters = [each["cluster"] for each in told.values()]
    for task, log in logs.items():
        if "{type}:{index}".format(**told[task]["task"]) != task:
            return task, "a copied TF_CONFIG"
        if clusters.count(told[task]["cluster"]) == 1:
            return task, "a wrong port"
        if "No space left on device" in log:
            return task, "a full disk at a checkpoint"
    nans = {task: log.count("own loss nan") for task, log in logs.items()}
    if any(nans.values()):
        return max(nans, key=nans.get), "NaN from one replica"
    return min(logs, key=lambda task: logs[task].count(": adds")), "an uneven last batch"
    ### END SOLUTION


# %% check="culprit" points=2 covers=["S58", "S68"]
with attempt("culprit"):
    for seed, cause in itertools.product(range(6), CAUSES):
        job = hangs.drawn(np.random.default_rng(seed), cause)
        who, why = call(culprit, job.evidence, returns=expecting.row(expecting.text, expecting.text))
        if (who, why) != (job.guilty, job.cause):
            display(Logs(job.evidence))
        wrong = "the cause is another" if who == job.guilty else f"{who} is not guilty"
        expect((who, why) == (job.guilty, job.cause), f"of the logs shown, `culprit` returned {who}, {why}; {wrong}")

# %% [markdown]
# `hangs.show` makes these and others for real; `across doctor --cluster` looks at your job.

# %% [markdown]
# ## The same by `fit`
# The callback `BackupAndRestore` of Keras 2 saves after each epoch. But the data begin anew, so the losses are others than
# without a death:


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
    print("worker:1 dies; worker:0", *said_by(workers.ended(broken, "worker", 0))[:2])
    workers.start_again(broken, [("worker", 0), ("worker", 1)])
    broken.result("worker", 0)
for life, lived in (("without a death", unbroken), ("in both lives", broken)):
    print(f"{life:15}", *(f"epoch {epoch}: {loss:.4f} " for _, epoch, loss in workers.notes(lived)))

# %% [markdown]
# ## Somebody who starts it again
# On real machines that is Kubernetes or Slurm. In Kubernetes a program runs in a *pod*; an *Indexed Job* starts some, with
# lasting names, again after a failure, and ends when all are done. Both files limit how many failures. They stand beside this notebook,
# and were **not run**: there is neither here.

# %% tags=["show"] covers=["S68"]
for file in ("trainer.yaml", "trainer.sbatch"):
    lines = Path(file).read_text().splitlines()
    print(f"from {file}:", *lines[10:31] if file.endswith("yaml") else lines[-4:], sep="\n    ")

# %% [markdown]
# ### Exercise: `from_pod` (2 points)
# Pod number 2 of the Job `trainer` has the host name `trainer-2`. The others find it at `trainer-2.SERVICE`. All pods
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
# With `n[2,10]`, rank 0 runs on n2, and believes it is on n10: TensorFlow sorts the names as text.
# With fewer GPUs than tasks it raises an error: hence the 2.

# %% [markdown]
# ### Exercise: `from_slurm` (2 points)
# Write it right. `nodes` are in Slurm's order; `counts` has the number of tasks of each. The tasks of a node have the ports
# `port`, `port` + 1, ... All tasks are workers. Return a `SimpleClusterResolver`. Roughly 4 lines.


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
# `estimator.py`, beside this notebook, runs it with TensorFlow 2.15: first in four processes, each with another `TF_CONFIG`.

# %% tags=["show"] covers=["S67"]
print(scripts.output("estimator.py", "estimator_recorded.txt"))

# %% [markdown]
# 401: chief and worker count in one variable, and a step under way at 400 counts, too.
#
# Keras divides a batch over the replicas. An Estimator gave *each replica a batch*; batches that are left, too few for all
# replicas, make no step.

# %% [markdown]
# ### Exercise: `epoch_steps` (1 point)
# 75 examples, batches of 10, three replicas: how many steps has an epoch by the Estimator, how many by Keras? Which batch
# size must Keras get, so that each replica has as many examples as before? Any complete guess earns the point.

# %% answer="epoch_steps" covers=["S67"]
### BEGIN SOLUTION
epoch_steps = {"Estimator": 2, "Keras": 8, "batch for Keras": 30}
#: epoch_steps = {"Estimator": None, "Keras": None, "batch for Keras": None}
### END SOLUTION

# %% check="epoch_steps" points=1 covers=["S67"]
with attempt("epoch_steps", done="recorded"):
    if isinstance(epoch_steps, dict) and not any(epoch_steps.values()):
        raise NotAttempted("epoch_steps: not attempted yet. Replace each None by a number.")
    kinds = dict.fromkeys(("Estimator", "Keras", "batch for Keras"), expecting.between(1, 1000, expecting.whole))
    guessed = read(epoch_steps, "`epoch_steps` is", expecting.entries(kinds))
    batches = -(-75 // 10)  # the last one may be smaller
    for key, right in {"Estimator": batches // 3, "Keras": batches, "batch for Keras": 10 * 3}.items():
        print(
            f"{key}: you said {guessed[key]}, by the rule {right}{'' if guessed[key] == right else '  <- a surprise'}"
        )

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
# if chief and int(done) % 100 == 0: manager.save()        # with ON_READ variables, all save
# # out of step: ParameterServerStrategy; hand out all, then join; a dead ps ends it
# ```
