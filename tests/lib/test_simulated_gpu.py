"""GPUs that are made of host memory: what TensorFlow itself says and does of them. Each program is in a fresh process."""

from __future__ import annotations

from across import devices, fresh, gpu_traffic


def in_two(program, **how):
    """What `program` returns in a process with two simulated GPUs."""
    return fresh.run(program, gpus=2, timeout=300, **how)


def test_tensorflow_lists_them_and_they_are_called_simulated():
    def listed():
        import tensorflow as tf

        physical = tf.config.list_physical_devices("GPU")
        details = [tf.config.experimental.get_device_details(gpu) for gpu in physical]
        before = repr(devices.here())
        logical = [device.name for device in tf.config.list_logical_devices("GPU")]
        return [gpu.name for gpu in physical], details, before, logical, devices.simulated_gpus(), devices.best(2)

    names, details, table, logical, sentence, best = in_two(listed)
    assert names == [f"/physical_device:GPU:{i}" for i in range(2)]
    assert details == [{"device_name": "simulated GPU (host memory)"}] * 2
    assert "2 simulated GPUs here." in table
    assert table.count("8.0 GiB") == 2
    assert logical == ["/device:GPU:0", "/device:GPU:1"]
    assert sentence.startswith("2 simulated GPUs of 8 GiB each")
    assert best == ["/GPU:0", "/GPU:1"]


def test_a_tensor_used_on_the_other_gpu_is_one_copy_of_its_bytes():
    def copied():
        import tensorflow as tf

        with tf.device("/GPU:0"):
            here = tf.ones([512, 512])  # 1 MiB
        with gpu_traffic.counting() as counted, tf.device("/GPU:1"):
            there = tf.identity(here)
        with gpu_traffic.counting() as read:
            there.numpy()
        return there.device, dict(counted.traffic), dict(read.traffic)

    device, counted, read = in_two(copied)
    assert device.endswith("GPU:1")
    assert counted == {("GPU:0", "GPU:1"): gpu_traffic.Copied(1, 1_048_576)}
    assert read == {("GPU:1", "CPU:0"): gpu_traffic.Copied(1, 1_048_576)}
