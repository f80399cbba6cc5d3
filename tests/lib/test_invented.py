"""On an invented machine TensorFlow lists what was invented, and nothing of it stays."""

from __future__ import annotations

import tensorflow as tf

from across import invented

ask = tf.config.experimental.get_device_details


def test_invented_gpus_are_listed_with_their_details():
    with invented.machine([("NVIDIA L4", (8, 9))] * 2):  # two of one model
        assert len(tf.config.list_physical_devices("GPU")) == 2
    with invented.machine({"NVIDIA L4": (8, 9), "Tesla T4": (7, 5)}):
        gpus = tf.config.list_physical_devices("GPU")
        assert [gpu.name for gpu in gpus] == ["/physical_device:GPU:0", "/physical_device:GPU:1"]
        assert ask(gpus[1]) == {"device_name": "Tesla T4", "compute_capability": (7, 5)}
        assert len(tf.config.list_logical_devices("GPU")) == 2
        assert tf.config.get_visible_devices("GPU") == gpus
        assert ask(tf.config.list_physical_devices("CPU")[0]) == {}


def test_the_questions_of_tf_test_are_about_invented_gpus():
    with invented.machine({"NVIDIA L4": (8, 9)}):
        assert (tf.test.gpu_device_name(), tf.test.is_gpu_available()) == ("/device:GPU:0", True)
        assert not tf.test.is_gpu_available(min_cuda_compute_capability=(9, 0))
    with invented.machine():
        assert (tf.test.gpu_device_name(), tf.test.is_gpu_available()) == ("", False)


def test_the_wheel_is_invented_too():
    with invented.machine(built=["sm_80"]):
        assert tf.test.is_built_with_cuda()
        assert tf.sysconfig.get_build_info()["cuda_compute_capabilities"] == ["sm_80"]
    with invented.machine(built=[]):
        assert not tf.test.is_built_with_cuda()
        assert "cuda_version" not in tf.sysconfig.get_build_info()


def test_afterwards_the_machine_is_as_it_was():
    def answers():
        return tf.config.list_physical_devices(), dict(tf.sysconfig.get_build_info()), tf.test.is_built_with_cuda()

    before = answers()
    with invented.machine(invented.GPUS, built=[]):
        assert answers() != before
    assert answers() == before
