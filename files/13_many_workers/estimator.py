# /// script
# requires-python = "==3.11.*"
# dependencies = ["tensorflow-cpu==2.15.1", "tensorflow-estimator==2.15.0"]
# ///
"""One epoch of a linear model, by an Estimator and by Keras, alone and on two replicas: uv run --script estimator.py."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
v1 = tf.compat.v1
v1.logging.set_verbosity(v1.logging.ERROR)


def data(count):
    """Batches of 10 of `count` examples."""
    x = [[i / count] for i in range(count)]
    return tf.data.Dataset.from_tensor_slices(({"x": x}, x)).batch(10)


def by_estimator(strategy, count):
    """Steps of an epoch."""
    threads = v1.ConfigProto(device_count={"CPU": 2}, inter_op_parallelism_threads=8, allow_soft_placement=True)
    config = tf.estimator.RunConfig(train_distribute=strategy, eval_distribute=strategy, session_config=threads)
    columns = [tf.feature_column.numeric_column("x")]
    regressor = tf.estimator.LinearRegressor(columns, optimizer="SGD", config=config)
    regressor.train(lambda: data(count))
    return int(regressor.get_variable_value("global_step"))


def by_keras(strategy, count):
    """Steps of an epoch."""
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    model.fit(data(count).map(lambda x, y: (x["x"], y)), verbose=0)
    return int(model.optimizer.iterations.numpy())


print("TensorFlow", tf.__version__)
for count in (200, 70):
    for replicas in (1, 2):
        ways = tf.distribute.ReductionToOneDevice()
        strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"][:replicas], cross_device_ops=ways)
        steps = f"Estimator {by_estimator(strategy, count)} steps, Keras {by_keras(strategy, count)} steps"
        print(f"{count} examples, batches of 10, {replicas} replicas: {steps}", flush=True)
