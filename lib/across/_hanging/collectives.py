"""Programs whose workers add up in step, by MultiWorkerMirroredStrategy, and what goes wrong between them."""

from __future__ import annotations

import errno
import socket
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from across._hanging import disk
from across._hanging.tasks import Ground, Here, Spec, Task
from across._process.addresses import HOST

STEPS = 5


def _joined(here: Here) -> Any:
    import tensorflow as tf

    here.say("makes its strategy")
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    here.say(f"is one of {strategy.num_replicas_in_sync} replicas")
    return strategy


def _adding(strategy: Any) -> Callable[..., list[Any]]:
    """A function that adds up each of its tensors over all replicas, in this order."""
    import tensorflow as tf

    def add(*parts: Any) -> list[Any]:
        return [strategy.reduce("sum", strategy.run(lambda part=part: part), axis=None) for part in parts]

    return tf.function(add, autograph=False)


def _told(value: Any) -> str:
    return str(value.numpy().tolist())


def in_step(here: Here) -> None:
    """Add ones."""
    import tensorflow as tf

    add = _adding(_joined(here))
    for step in range(STEPS):
        here.say(f"step {step}: adds")
        here.say(f"step {step}: sum {_told(add(tf.ones([2]))[0])}")


def _two(program: Callable[[Here], object], spec: Spec, *others: Spec) -> list[Task]:
    return [Task(f"worker:{index}", program, each) for index, each in enumerate([spec, *(others or [spec])])]


def copied(ground: Ground) -> Sequence[Task]:
    """One text of TF_CONFIG for two machines. Here they are one machine, so worker:1 finds the port taken."""
    spec = ground.spec(worker=2)
    return [Task("worker:0", in_step, spec), Task("worker:1", in_step, spec, {"TF_GRPC_REUSE_PORT": "0"}, index=0)]


def _logs_a_norm(here: Here) -> None:
    """Only the chief logs the norm of all gradients: one reduce more."""
    import tensorflow as tf

    strategy = _joined(here)
    add, norm = _adding(strategy), _adding(strategy)
    for step in range(STEPS):
        here.say(f"step {step}: adds gradients")
        here.say(f"step {step}: sum {_told(add(tf.ones([2]))[0])}")
        if here.index == 0 and step == 2:
            here.say(f"step {step}: adds norms, to log them")
            here.say(f"step {step}: norm {_told(norm(tf.ones([]))[0])}")


def differ(ground: Ground) -> Sequence[Task]:
    """Two workers of which one calls one collective more."""
    return _two(_logs_a_norm, ground.spec(worker=2))


def _in_its_own_order(here: Here) -> None:
    """Gradients in the order of a set of names, which is another in each process."""
    import tensorflow as tf

    add = _adding(_joined(here))
    gradients = {"kernel": tf.ones([4]), "bias": tf.ones([3])}
    names = sorted(gradients, reverse=here.index == 0)
    for step in range(STEPS):
        here.say(f"step {step}: adds {', '.join(f'{name} {gradients[name].shape}' for name in names)}")
        here.say(f"step {step}: sums {', '.join(map(_told, add(*(gradients[name] for name in names))))}")


def order(ground: Ground) -> Sequence[Task]:
    """Two workers whose collectives come in another order."""
    return _two(_in_its_own_order, ground.spec(worker=2))


def wrong_port(ground: Ground) -> Sequence[Task]:
    """worker:1 has a port for worker:0 at which nobody listens."""
    spec = ground.spec(worker=2)
    return _two(in_step, spec, {"worker": [ground.address(), spec["worker"][1]]})


def taken_port(ground: Ground) -> Sequence[Task]:
    """Another program listens at the port of worker:1."""
    other = socket.create_server((HOST, 0))
    ground.held.append(other)
    address = "{}:{}".format(*other.getsockname())
    return _two(in_step, {"worker": [ground.address(), address]})


def firewall(ground: Ground) -> Sequence[Task]:
    """worker:1 reaches the others, and nothing that is sent to its address is answered.

    A socket whose queue is full stands before its server: the system drops each new connection, as a firewall does.
    """
    spec = ground.spec(worker=2)
    host, _, port = spec["worker"][1].rpartition(":")
    wall = socket.socket()
    wall.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    wall.bind((host, int(port)))
    wall.listen(0)
    ground.held.append(wall)
    for _ in range(2):
        one = socket.socket()
        one.setblocking(False)
        if one.connect_ex((host, int(port))) in (0, errno.EINPROGRESS):
            ground.held.append(one)
    return _two(in_step, spec)


def _saves(here: Here) -> None:
    """The chief saves 1 MB after each step, on a disk of its own that has room for one."""
    import tensorflow as tf

    folder = tempfile.mkdtemp(dir=here.folder)
    if here.index == 0:
        here.say(f"checkpoints go to {folder}: {disk.small(folder, 1_500_000)}")
    add = _adding(_joined(here))
    weights = tf.Variable(tf.ones([250_000]))
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(weights=weights), folder, max_to_keep=None)
    for step in range(STEPS):
        here.say(f"step {step}: adds")
        here.say(f"step {step}: sum {_told(add(tf.ones([2]))[0])}")
        if here.index == 0:
            here.say(f"step {step}: saves")
            manager.save()


def full_disk(ground: Ground) -> Sequence[Task]:
    """A disk that is full when the chief saves."""
    return _two(_saves, ground.spec(worker=2))


def _entropy(here: Here) -> None:
    """Losses p log p of each worker's own p; worker:1 meets p = 0 in step 2."""
    import tensorflow as tf

    add = _adding(_joined(here))
    weight = 1.0
    for step in range(STEPS):
        p = 0.0 if here.index == 1 and step == 2 else 0.5 + 0.1 * here.index
        own = -tf.constant(weight * p) * tf.math.log(weight * p)
        here.say(f"step {step}: own loss {float(own):.4f}")
        loss = float(add(own)[0])
        weight -= 0.1 * loss
        here.say(f"step {step}: loss {loss:.4f}, weight {weight:.4f}")


def nan(ground: Ground) -> Sequence[Task]:
    """One replica has a NaN, and the sum gives it to all."""
    return _two(_entropy, ground.spec(worker=2))


def _epoch(here: Here) -> None:
    """An epoch of its own file: 20 examples, worker:1's has 16."""
    import tensorflow as tf

    add = _adding(_joined(here))
    examples = tf.ones([20 - 4 * here.index])
    here.say(f"has {len(examples)} examples, in batches of 4")
    for step, batch in enumerate(tf.data.Dataset.from_tensor_slices(examples).batch(4)):
        here.say(f"step {step}: adds")
        here.say(f"step {step}: sum {_told(add(tf.reduce_sum(batch))[0])}")
    here.say("the epoch is over")


def uneven(ground: Ground) -> Sequence[Task]:
    """One worker has a batch less."""
    return _two(_epoch, ground.spec(worker=2))


def _model(here: Here) -> None:
    """A model of Keras 3, of Keras 2 in worker:1."""
    import tensorflow as tf

    strategy = _joined(here)
    keras: Any = tf.keras
    if here.index == 1:
        import tf_keras as keras  # pyright: ignore[reportMissingImports]
    here.say(f"TensorFlow {tf.__version__}, Keras {keras.__version__}")
    with strategy.scope():
        here.say("makes its model")
        model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(2)])
        optimizer = keras.optimizers.Adam(0.1)
        here.say("builds its optimizer")
        optimizer.build(model.trainable_variables)

    def replica() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(tf.ones([4, 3])) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    train = tf.function(lambda: strategy.reduce("sum", strategy.run(replica), axis=None), autograph=False)
    for step in range(STEPS):
        here.say(f"step {step}: trains")
        here.say(f"step {step}: loss {float(train()):.4f}")


def versions(ground: Ground) -> Sequence[Task]:
    """Two workers of two versions."""
    return _two(_model, ground.spec(worker=2))
