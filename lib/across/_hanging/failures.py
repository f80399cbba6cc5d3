"""The failures: how each is laid out, who is guilty, and what one says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from across._hanging import collectives, servers
from across._hanging.tasks import Lay


@dataclass(frozen=True)
class Failure:
    """One way in which programs on many machines fail."""

    lay: Lay
    guilty: str  # the task
    symptom: str
    message: tuple[str, str]  # a task, or "" for any of them, and words in its log
    question: str
    cause: str
    mend: str
    waits: Mapping[str, str] = field(default_factory=dict)  # who waits, where nobody ends it -> for whom
    simulated: str = ""  # what is not as on machines of one's own


FAILURES: Mapping[str, Failure] = {
    "a copied TF_CONFIG": Failure(
        collectives.copied,
        "worker:1",
        "worker:0 waits in its strategy, for an hour; another process cannot start its server",
        ("worker:1", "Could not start gRPC server"),
        "Do two processes have the same `task` in TF_CONFIG?",
        "One text was copied to all machines. Two are worker:0, nobody is worker:1.",
        "Give each machine its own `index`; `cluster` is the same everywhere.",
        {"worker:0": "worker:1"},
        "On one machine the second finds the port taken. On two, worker:0 raises InternalError, the other waits.",
    ),
    "collectives that differ": Failure(
        collectives.differ,
        "worker:0",
        "all raise InvalidArgumentError in the same second, at different lines of the program",
        ("worker:0", "Shape mismatch in the collective instance"),
        "At which line of the program does each stand?",
        "One worker adds what the others do not, here a norm that only the chief logs. Its n-th sum meets their n-th.",
        "Let every worker call each collective. Only then let one of them print or save.",
    ),
    "collectives in another order": Failure(
        collectives.order,
        "worker:2",
        "one or two raise InvalidArgumentError, the others wait in the same step",
        ("worker:2", "step 0: adds bias (3,), kernel (4,)"),
        "Do all workers add the same tensors in the same order?",
        "The order comes from a set, a folder's listing or threads. Where shapes are equal nothing is raised: sums are wrong.",
        "Sort the names. Compare the order in the logs of all workers.",
        {"worker:0": "worker:2", "worker:1": "worker:2", "worker:2": "the others"},
    ),
    "a ps that is dead at start": Failure(
        servers.dead_at_start,
        "ps:0",
        "the chief waits in ParameterServerStrategy and prints nothing; workers serve",
        ("chief:0", "in _connect_to_cluster"),
        "Does somebody listen at each address of `cluster`?",
        "A process of ps:0 was never started, or ended at once. The chief connects to everybody first.",
        "Start it; read its own log first. Start servers before the chief.",
        {"chief:0": "ps:0"},
    ),
    "a ps that dies": Failure(
        servers.dies,
        "ps:0",
        "the chief raises UnavailableError; workers serve on",
        ("chief:0", "failed to connect to all addresses"),
        "Whose address does the first error name, and how did that process end?",
        "ps:0 was killed, as by the system when memory is out. Its variables are gone.",
        "Save checkpoints. Start ps:0 and the chief again, and restore. `dmesg` or the scheduler says who killed it.",
    ),
    "a wrong port": Failure(
        collectives.wrong_port,
        "worker:1",
        "both wait in their strategy, for an hour; worker:0 names worker:1 as a straggler",
        ("worker:0", "Waiting for 1/2 tasks to connect"),
        "Is `cluster` the same text on all machines?",
        "worker:1 has another port for worker:0. It tries again and again, and says nothing.",
        "Make the text once, and copy `cluster` alone.",
        {"worker:0": "worker:1", "worker:1": "worker:0"},
    ),
    "a taken port": Failure(
        collectives.taken_port,
        "worker:1",
        "worker:1 ends with UnknownError; worker:0 waits in its strategy, for an hour",
        ("worker:1", "Could not start gRPC server"),
        "Who listens at my port? `ss -ltnp`",
        "Another program has the port of worker:1, often an old run of this one.",
        "End the old run, or take another port in every TF_CONFIG.",
        {"worker:0": "worker:1"},
    ),
    "a full disk at a checkpoint": Failure(
        collectives.full_disk,
        "worker:1",
        "the other waits, after 10 s it raises UnavailableError (of many some at once); worker:1 alone says why",
        ("worker:1", "No space left on device"),
        "Who ended first, and what was its last error?",
        "worker:1 could not write its checkpoint, and ended. The others lost their partner.",
        "Free the disk. Let CheckpointManager keep few: `max_to_keep`. An unfinished `_temp` folder may stay.",
        {"worker:0": "worker:1"},
        "The disk is one in memory, of worker:1 alone; where this user may mount none, a limit of a file's size.",
    ),
    "NaN from one replica": Failure(
        collectives.nan,
        "worker:1",
        "the loss is nan on all workers from one step on; nothing is raised",
        ("worker:1", "step 2: own loss nan"),
        "Whose own loss was nan first, before it was added?",
        "One worker met a bad example (0 log 0). The sum gives its NaN to every replica.",
        "Log each replica's own loss. `tf.debugging.enable_check_numerics()` on that worker names the op.",
    ),
    "an uneven last batch": Failure(
        collectives.uneven,
        "worker:1",
        "one waits in its last step, the other ended well; after 10 s (of many, some at once) the error calls it crashed",
        ("worker:1", "the epoch is over"),
        "How many steps has each worker made?",
        "worker:1 has a batch less, and leaves. worker:0 waits for its part of one more sum.",
        "Give all the same number of steps: `repeat()` and count, or drop the rest.",
        {"worker:0": "worker:1"},
    ),
    "a chief that waits for an evaluator": Failure(
        servers.evaluator,
        "chief:0",
        "the chief waits in ParameterServerStrategy though every ps and worker listens",
        ("chief:0", '"evaluator"'),
        "Is there an `evaluator` in `cluster`?",
        "The chief connects to everybody whom `cluster` lists, and an evaluator runs no server.",
        "Leave the evaluator out of `cluster`, in each text; it is only a `task`.",
        {"chief:0": "evaluator:0"},
    ),
    "a firewall": Failure(
        collectives.firewall,
        "worker:1",
        "all meet, then wait in the first sum; after 20 s `failed to connect to all addresses`",
        ("worker:0", "step 0: adds"),
        "Can each machine connect to each address, in both directions? `nc -vz HOST PORT`",
        "worker:1 reaches worker:0, so the start works. Nobody reaches worker:1: its packets are dropped, not refused.",
        "Open the ports of `cluster` between all machines, both ways.",
        {"worker:0": "worker:1", "worker:1": "worker:0"},
        "A full queue before the server of worker:1 drops connections as a firewall does.",
    ),
    "two versions": Failure(
        collectives.versions,
        "worker:1",
        "one raises InternalError while its model is made, the other waits there",
        # then "1 but got type 1 and data_type 9", or the other way round: who comes first has made the instance
        ("", "Collective instance 100 expected type 1 and data_type"),
        "Does each machine print the same versions?",
        "TensorFlow 2.15 brings Keras 2, 2.16 brings Keras 3. They make other variables, in another order.",
        "One image, or one lock file, for all machines. Print `tf.__version__` and `tf.keras.__version__` first.",
        {"worker:0": "worker:1"},
        "Both have one TensorFlow; worker:1 uses Keras 2 (tf_keras), as TensorFlow 2.15 would.",
    ),
    "a clock that is set back": Failure(
        servers.clock,
        "evaluator:0",
        "the chief waits for a score; the evaluator sleeps, and its log goes back in time",
        ("evaluator:0", "in checkpoints_iterator"),
        "Do the times in all logs agree?",
        "checkpoints_iterator sleeps until its clock says that `min_interval_secs` are over; it was set back by an hour.",
        "Let chrony or NTP slew the clock, not step it. Start the evaluator again. Wait with a deadline.",
        {"chief:0": "evaluator:0", "evaluator:0": "its clock"},
        "Only the evaluator's `time.time` goes back.",
    ),
}
