"""Programs whose workers add up in step, by MultiWorkerMirroredStrategy, and what goes wrong between them.

In each the last worker is the odd one, but where the chief is: `differ`.
"""

from __future__ import annotations

import errno
import socket
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from across._hanging import disk
from across._hanging.tasks import Ground, Here, Task
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


def _workers(ground: Ground, count: int, program: Callable[[Here], object], odd: int = -1) -> list[Task]:
    """Workers of one program, which may ask whether it is the odd one."""
    spec = ground.spec(worker=count)
    return [Task(f"worker:{index}", program, spec, odd=index == odd % count) for index in range(count)]


def copied(ground: Ground, count: int = 2, odd: int = -1) -> Sequence[Task]:
    """One text of TF_CONFIG for two machines. Here they are one machine, so one of them finds the port taken.

    The odd one has that of worker:0; where it is worker:0 itself, that of the last.
    """
    tasks = _workers(ground, count, in_step)
    alone, told = tasks[odd], 0 if odd % count else count - 1
    tasks[odd] = Task(alone.name, in_step, alone.spec, {"TF_GRPC_REUSE_PORT": "0"}, index=told)
    return tasks


def _logs_a_norm(here: Here) -> None:
    """The chief alone logs the norm of all gradients: one sum more."""
    import tensorflow as tf

    strategy = _joined(here)
    add, norm = _adding(strategy), _adding(strategy)
    for step in range(STEPS):
        here.say(f"step {step}: adds gradients")
        here.say(f"step {step}: sum {_told(add(tf.ones([2]))[0])}")
        if here.odd and step == 2:
            here.say(f"step {step}: adds norms, to log them")
            here.say(f"step {step}: norm {_told(norm(tf.ones([]))[0])}")


def differ(ground: Ground) -> Sequence[Task]:
    """Workers of which one calls one collective more."""
    return _workers(ground, 2, _logs_a_norm, odd=0)


def _in_its_own_order(here: Here) -> None:
    """Gradients in the order of a set of names, which is another in each process."""
    import tensorflow as tf

    add = _adding(_joined(here))
    gradients = {"kernel": tf.ones([4]), "bias": tf.ones([3])}
    names = sorted(gradients, reverse=not here.odd)
    for step in range(STEPS):
        here.say(f"step {step}: adds {', '.join(f'{name} {gradients[name].shape}' for name in names)}")
        here.say(f"step {step}: sums {', '.join(map(_told, add(*(gradients[name] for name in names))))}")


def order(ground: Ground) -> Sequence[Task]:
    """Workers of which one calls its collectives in another order."""
    return _workers(ground, 3, _in_its_own_order)


def wrong_port(ground: Ground, count: int = 2, odd: int = -1) -> Sequence[Task]:
    """The odd one has another port for worker:0 than all others; where it is worker:0 itself, it listens there."""
    tasks = _workers(ground, count, in_step)
    alone = tasks[odd]
    tasks[odd] = Task(alone.name, in_step, {"worker": [ground.address(), *alone.spec["worker"][1:]]})
    return tasks


def taken_port(ground: Ground, count: int = 2, odd: int = -1) -> Sequence[Task]:
    """Another program listens at the port of the odd one."""
    other = socket.create_server((HOST, 0))
    ground.held.append(other)
    spec = ground.spec(worker=count)
    spec["worker"][odd] = "{}:{}".format(*other.getsockname())
    return [Task(f"worker:{index}", in_step, spec) for index in range(count)]


def firewall(ground: Ground) -> Sequence[Task]:
    """The last reaches the others, and nothing that is sent to its address is answered.

    A socket whose queue is full stands before its server: the system drops each new connection, as a firewall does.
    """
    tasks = _workers(ground, 2, in_step)
    host, _, port = tasks[-1].spec["worker"][-1].rpartition(":")
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
    return tasks


def _saves(here: Here) -> None:
    """Each saves 1 MB after each step, on its own disk. The odd one's has room for one."""
    import tensorflow as tf

    folder = tempfile.mkdtemp(dir=here.folder)
    if here.odd:
        disk.small(folder, 1_500_000)
    here.say(f"saves to {folder}")
    add = _adding(_joined(here))
    checkpoint = tf.train.Checkpoint(weights=tf.Variable(tf.ones([250_000])))
    manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=None)
    for step in range(STEPS):
        here.say(f"step {step}: adds")
        here.say(f"step {step}: sum {_told(add(tf.ones([2]))[0])}")
        manager.save()
        here.say(f"step {step}: saved")


def full_disk(ground: Ground, count: int = 2, odd: int = -1) -> Sequence[Task]:
    """One worker's disk is full when it saves."""
    return _workers(ground, count, _saves, odd)


def _entropy(here: Here) -> None:
    """Losses p log p of each worker's own p; the odd one meets p = 0 in step 2."""
    import tensorflow as tf

    add = _adding(_joined(here))
    weight = 1.0
    for step in range(STEPS):
        p = 0.0 if here.odd and step == 2 else 0.5 + 0.1 * here.index
        own = -tf.constant(weight * p) * tf.math.log(weight * p)
        here.say(f"step {step}: own loss {float(own):.4f}")
        loss = float(add(own)[0])
        weight -= 0.1 * loss
        here.say(f"step {step}: loss {loss:.4f}, weight {weight:.4f}")


def nan(ground: Ground, count: int = 2, odd: int = -1) -> Sequence[Task]:
    """One replica has a NaN, and the sum gives it to all."""
    return _workers(ground, count, _entropy, odd)


def _epoch(here: Here) -> None:
    """An epoch of its own file: 20 examples, the odd one's has 16."""
    import tensorflow as tf

    add = _adding(_joined(here))
    examples = tf.ones([16 if here.odd else 20])
    here.say(f"has {len(examples)} examples, in batches of 4")
    for step, batch in enumerate(tf.data.Dataset.from_tensor_slices(examples).batch(4)):
        here.say(f"step {step}: adds")
        here.say(f"step {step}: sum {_told(add(tf.reduce_sum(batch))[0])}")
    here.say("the epoch is over")


def uneven(ground: Ground, count: int = 2, odd: int = -1) -> Sequence[Task]:
    """One worker has a batch less."""
    return _workers(ground, count, _epoch, odd)


def _model(here: Here) -> None:
    """A model of Keras 3, of Keras 2 in the odd one."""
    import tensorflow as tf

    strategy = _joined(here)
    keras: Any = tf.keras
    if here.odd:
        import tf_keras as keras  # pyright: ignore[reportMissingImports]
    here.say(f"TensorFlow {tf.__version__}, Keras {keras.__version__}")
    with strategy.scope():
        here.say("makes its model")
        model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(2)])
    here.say(f"has {len(model.weights)} weights")


def versions(ground: Ground) -> Sequence[Task]:
    """Workers of which one has another version."""
    return _workers(ground, 2, _model)
