"""What runs in the fresh process of one cell of `across.strategies`: a strategy trains a linear model by one way of training.

Every program trains on the same data, from the same weights, and returns its weights and the mean loss of its steps, so that
they can be compared with one device, for which `alone` computes both by NumPy.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

STEPS, BATCH, WIDTH, RATE = 4, 8, 3, 0.1
Trained = tuple[list[float], float]  # kernel and bias in one list; mean loss of the steps


def data() -> tuple[np.ndarray, np.ndarray]:
    """Examples and targets, the same every time; no two batches are alike."""
    grid = np.arange(STEPS * BATCH * WIDTH, dtype=np.float32).reshape(-1, WIDTH)
    x = np.sin(grid * grid).astype(np.float32)
    return x, (x @ np.array([[1.0], [-2.0], [3.0]], np.float32) + 0.5).astype(np.float32)


def alone() -> Trained:
    """What one device computes: gradient descent on the mean squared error of each batch, by NumPy in float64."""
    x, y = (each.astype(np.float64) for each in data())
    kernel, bias, losses = np.full((WIDTH, 1), 0.5), np.zeros(1), []
    for at in range(0, STEPS * BATCH, BATCH):
        batch = x[at : at + BATCH]
        error = batch @ kernel + bias - y[at : at + BATCH]
        losses.append(float(np.mean(error**2)))
        kernel = kernel - RATE * 2 * batch.T @ error / BATCH
        bias = bias - RATE * 2 * error.mean(axis=0)
    return [*map(float, kernel.ravel()), *map(float, bias)], float(np.mean(losses))


def trained(strategy: str, way: str, index: int = 0, addresses: Sequence[str] = ()) -> Trained:
    """Train in this process, which is worker `index` where there are several. Raises whatever TensorFlow does."""
    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")
    if way == "Estimator":  # the table's third row: the module is asked for, as the source's program does
        return tf.estimator.RunConfig(train_distribute=STRATEGIES[strategy](index, addresses))
    made = STRATEGIES[strategy](index, addresses)
    if way == "Keras fit":
        return _fit(made, tf.keras)
    if way == "Keras 2 fit":
        import tf_keras

        return _fit(made, tf_keras)
    return _coordinated(made) if strategy == "ParameterServer" else _loop(made)


def _mirrored(index: int, addresses: Sequence[str]) -> Any:
    import tensorflow as tf

    return tf.distribute.MirroredStrategy(["/CPU:0", "/CPU:1"])


def _central(index: int, addresses: Sequence[str]) -> Any:
    import tensorflow as tf

    return tf.distribute.experimental.CentralStorageStrategy(["/CPU:0", "/CPU:1"], parameter_device="/CPU:0")


def _one(index: int, addresses: Sequence[str]) -> Any:
    import tensorflow as tf

    return tf.distribute.OneDeviceStrategy("/CPU:0")


def _tpu(index: int, addresses: Sequence[str]) -> Any:
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TPUClusterResolver()  # finds the TPU that this machine has, if it has one
    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    return tf.distribute.TPUStrategy(resolver)


def _workers(index: int, addresses: Sequence[str]) -> Any:
    import tensorflow as tf

    cluster = {"worker": addresses}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
    return tf.distribute.MultiWorkerMirroredStrategy()


def _servers(index: int, addresses: Sequence[str]) -> Any:
    import tensorflow as tf

    spec = tf.train.ClusterSpec({"ps": addresses[:1], "worker": addresses[1:2]})
    for job in ("ps", "worker"):  # in this process: what they use is seen by who watches it
        tf.distribute.Server(spec, job_name=job, task_index=0, protocol="grpc")
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, rpc_layer="grpc")
    return tf.distribute.ParameterServerStrategy(resolver)


STRATEGIES: dict[str, Callable[[int, Sequence[str]], Any]] = {
    "Mirrored": _mirrored,
    "TPU": _tpu,
    "MultiWorkerMirrored": _workers,
    "CentralStorage": _central,
    "ParameterServer": _servers,
    "OneDevice": _one,
}


def _model(keras: Any) -> Any:
    layer = keras.layers.Dense(1, kernel_initializer=keras.initializers.Constant(0.5))
    return keras.Sequential([keras.Input((WIDTH,)), layer])


def _batches() -> Any:
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(data()).batch(BATCH)


def _weights(model: Any) -> list[float]:
    return [float(each) for weight in model.get_weights() for each in np.ravel(weight)]


def _fit(strategy: Any, keras: Any) -> Trained:
    with strategy.scope():
        model = _model(keras)
        model.compile(keras.optimizers.SGD(RATE), "mse")
    history = model.fit(_batches().repeat(), steps_per_epoch=STEPS, verbose=0, shuffle=False)
    return _weights(model), float(history.history["loss"][-1])


def _step(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
    """The replica's share of the mean over the global batch: shares add up."""
    import tensorflow as tf

    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(model(x) - y)) / BATCH
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


def _loop(strategy: Any) -> Trained:
    import tensorflow as tf

    with strategy.scope():
        model, optimizer = _model(tf.keras), tf.keras.optimizers.SGD(RATE)
        optimizer.build(model.trainable_variables)
    given = iter(strategy.experimental_distribute_dataset(_batches().repeat()))  # endless: the end of one may hang

    @tf.function
    def once(x: Any, y: Any) -> Any:
        shares = strategy.run(lambda x, y: _step(model, optimizer, x, y), args=(x, y))
        return strategy.reduce("sum", shares, axis=None)

    losses = [float(once(*next(given))) for _ in range(STEPS)]
    return _weights(model), float(np.mean(losses))


def _coordinated(strategy: Any) -> Trained:
    import tensorflow as tf

    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model, optimizer = _model(tf.keras), tf.keras.optimizers.SGD(RATE)
        optimizer.build(model.trainable_variables)

    @tf.function
    def once(given: Any) -> Any:
        x, y = next(given)
        return strategy.run(lambda x, y: _step(model, optimizer, x, y), args=(x, y))

    given = iter(coordinator.create_per_worker_dataset(lambda: _batches().repeat()))
    results = [coordinator.schedule(once, args=(given,)) for _ in range(STEPS)]
    coordinator.join()
    return _weights(model), float(np.mean([float(each.fetch()) for each in results]))
