# /// script
# requires-python = "==3.11.*"
# dependencies = ["tensorflow-cpu==2.15.1", "tensorflow-estimator==2.15.0"]
# ///
"""A linear model by an Estimator: `train_and_evaluate` in four processes; then epochs on one and two replicas, and by Keras.

uv run --script estimator.py
"""

import json
import multiprocessing
import os
import socket
import tempfile
import time
import warnings

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
warnings.simplefilter("ignore")

import tensorflow as tf  # noqa: E402 - what it reads is set above

v1 = tf.compat.v1
v1.logging.set_verbosity(v1.logging.ERROR)
COLUMNS = [tf.feature_column.numeric_column("x")]


def data(count):
    """Batches of 10 of `count` examples."""
    x = [[i / count] for i in range(count)]
    return tf.data.Dataset.from_tensor_slices(({"x": x}, x)).batch(10)


class Own(v1.train.SessionRunHook):
    """Counts the steps that this process does, and makes each last 5 ms."""

    steps = 0

    def after_run(self, run_context, run_values):
        """After each step."""
        self.steps += 1
        time.sleep(0.005)


class Note(tf.estimator.Exporter):
    """Notes what each evaluation found."""

    name = "note"

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        """After each evaluation."""
        steps, loss = eval_result["global_step"], eval_result["average_loss"]
        print(f"evaluator: after {steps} steps the loss is {loss:.4f}", flush=True)


def role(cluster, job, index, folder):
    """What each process runs; only TF_CONFIG tells who it is."""
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})
    config = tf.estimator.RunConfig(folder, save_checkpoints_steps=100, experimental_max_worker_delay_secs=0)
    regressor = tf.estimator.LinearRegressor(COLUMNS, optimizer="SGD", config=config)
    own = Own()
    training = tf.estimator.TrainSpec(lambda: data(200).repeat(), max_steps=400, hooks=[own])
    evaluation = tf.estimator.EvalSpec(
        lambda: data(50), steps=None, start_delay_secs=0, throttle_secs=0, exporters=[Note()]
    )
    tf.estimator.train_and_evaluate(regressor, training, evaluation)
    if own.steps:
        print(f"{job}: did {own.steps} of 400 steps", flush=True)


def appears(file, seconds):
    """Wait for a file."""
    until = time.monotonic() + seconds
    while not os.path.exists(file) and time.monotonic() < until:
        time.sleep(0.05)


def four_roles(seconds=60):
    """Run a chief, a worker, a ps and an evaluator; print what they say."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    cluster = {job: [address] for job, address in zip(("chief", "worker", "ps"), addresses, strict=True)}
    forking = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        jobs = ("ps", "chief", "worker", "evaluator")
        processes = {job: forking.Process(target=role, args=(cluster, job, 0, folder)) for job in jobs}
        try:
            for job in jobs:
                if job == "worker":  # one that comes before the chief's variables looks again after 30 s
                    appears(os.path.join(folder, "model.ckpt-0.index"), seconds)
                processes[job].start()
            for job in ("chief", "worker", "evaluator"):
                processes[job].join(seconds)
            print("ps:", "serves, until it is killed" if processes["ps"].is_alive() else "has ended", flush=True)
        finally:
            for each in processes.values():
                if each.pid:
                    each.kill()
                    each.join()


def by_estimator(strategy, count):
    """Steps of an epoch."""
    threads = v1.ConfigProto(device_count={"CPU": 2}, inter_op_parallelism_threads=8, allow_soft_placement=True)
    with tempfile.TemporaryDirectory() as folder:
        config = tf.estimator.RunConfig(
            folder, train_distribute=strategy, eval_distribute=strategy, session_config=threads
        )
        regressor = tf.estimator.LinearRegressor(COLUMNS, optimizer="SGD", config=config)
        regressor.train(lambda: data(count))
        return int(regressor.get_variable_value("global_step"))


def by_keras(strategy, count):
    """Steps of an epoch."""
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    model.fit(data(count).map(lambda x, y: (x["x"], y)), verbose=0)
    return int(model.optimizer.iterations.numpy())


def one_epoch():
    """Print the steps of an epoch."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    for count in (200, 70):
        for replicas in (1, 2):
            ways = tf.distribute.ReductionToOneDevice()
            strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"][:replicas], cross_device_ops=ways)
            steps = f"Estimator {by_estimator(strategy, count)} steps, Keras {by_keras(strategy, count)} steps"
            print(f"{count} examples, batches of 10, {replicas} replicas: {steps}", flush=True)


if __name__ == "__main__":
    print("TensorFlow", tf.__version__, flush=True)
    four_roles()
    one_epoch()
