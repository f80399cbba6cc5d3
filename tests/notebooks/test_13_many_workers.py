"""Chapter 13: what its prose and its checks claim of TensorFlow is so; its files are what they say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import kubernetes_validate
import numpy as np
import pytest
import yaml

from across import fresh, workers
from across._process import warm
from across.clusters import LocalCluster
from autograder.checks import many_workers_truth as many

FILES = Path(__file__).parents[2] / "files" / "13_many_workers"
forked = pytest.mark.skipif(not warm.available(), reason="without warm forking a task costs an import of TensorFlow")


def test_packs_are_those_of_tensorflow():
    import tensorflow as tf
    from tensorflow.python.distribute import cross_device_utils

    rng = np.random.default_rng(5)
    for _ in range(200):
        counts, limit = rng.integers(1, 6, size=rng.integers(1, 9)).tolist(), int(rng.choice([0, 1, 4, 8, 12, 20, 40]))
        tensors = [tf.TensorSpec([count], tf.float32) for count in counts][::-1]
        groups = cross_device_utils.group_by_size(tensors, limit)
        right = [[4 * each.shape.num_elements() for each in group] for group in groups]
        assert many.packed([4 * count for count in counts], limit) == right


def believes_to_be(nodes: str) -> str:
    import tensorflow as tf

    variables = {"STEP_NODELIST": nodes, "STEP_TASKS_PER_NODE": "2,1", "STEP_NUM_TASKS": "3", "PROCID": "0"}
    os.environ.update({f"SLURM_{name}": value for name, value in variables.items()})
    resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(gpus_per_node=2, auto_set_gpu=False)
    return resolver.cluster_spec().task_address("worker", 0)


def test_tensorflow_sorts_the_names_of_nodes_as_text():
    assert fresh.run(believes_to_be, "n[1,2]", timeout=120) == "n1:8888"
    assert fresh.run(believes_to_be, "n[2,10]") == "n10:8888"


def alone(text: str) -> int:
    import tensorflow as tf

    os.environ["TF_CONFIG"] = text
    return tf.distribute.MultiWorkerMirroredStrategy().num_replicas_in_sync


def test_without_a_cluster_a_worker_trains_alone():
    assert fresh.run(alone, '{"task": {"type": "worker", "index": 3}}', timeout=120) == 1


@forked
def test_a_strategy_takes_a_simple_resolver_in_place_of_tf_config(tmp_path):
    def program(spec, job, index):
        import tensorflow as tf

        del os.environ["TF_CONFIG"]
        resolvers = tf.distribute.cluster_resolver
        mine = resolvers.SimpleClusterResolver(tf.train.ClusterSpec(spec), task_type=job, task_id=index)
        strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=mine)
        found = float(strategy.reduce("sum", strategy.run(lambda: tf.constant(index + 1.0)), axis=None))
        workers.leave_together(str(tmp_path), index, 2)
        return found

    with LocalCluster(program, worker=2, env={"CUDA_VISIBLE_DEVICES": ""}) as both:
        assert [both.result("worker", index) for index in (0, 1)] == [3.0, 3.0]


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_the_batch_script_is_one():
    script = FILES / "trainer.sbatch"
    assert subprocess.run(["bash", "-n", script], capture_output=True).returncode == 0
    options = dict(re.findall(r"^#SBATCH --([\w-]+)(?:=(\S+))?$", script.read_text(), re.MULTILINE))
    assert options["distribution"] == "block"
    assert int(options["nodes"]) * int(options["ntasks-per-node"]) > 1
    assert re.search(r"^srun .*python trainer.py", script.read_text(), re.MULTILINE)


def test_kubernetes_would_take_the_manifest():
    for each in yaml.safe_load_all((FILES / "trainer.yaml").read_text()):
        kubernetes_validate.validate(each, kubernetes_validate.latest_version(), strict=True)
        each["spec"]["replicaz"] = 3
        with pytest.raises(kubernetes_validate.ValidationError, match="replicaz"):
            kubernetes_validate.validate(each, kubernetes_validate.latest_version(), strict=True)


def test_the_manifest_is_a_stateful_set_whose_pods_find_each_other():
    service, pods = yaml.safe_load_all((FILES / "trainer.yaml").read_text())
    assert (service["apiVersion"], service["kind"]) == ("v1", "Service")
    assert (pods["apiVersion"], pods["kind"]) == ("apps/v1", "StatefulSet")
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert pods["spec"]["serviceName"] == service["metadata"]["name"]
    assert pods["spec"]["podManagementPolicy"] == "Parallel"
    labels = pods["spec"]["template"]["metadata"]["labels"]
    assert pods["spec"]["selector"]["matchLabels"] == service["spec"]["selector"] == labels
    (container,) = pods["spec"]["template"]["spec"]["containers"]
    told = {each["name"]: each["value"] for each in container["env"]}
    assert told == {"SERVICE": service["metadata"]["name"], "WORKERS": str(pods["spec"]["replicas"])}
    volumes = {each["name"] for each in pods["spec"]["template"]["spec"]["volumes"]}
    assert {each["name"] for each in container["volumeMounts"]} <= volumes


def test_the_estimator_s_script_says_what_it_needs():
    header = re.match(r"# /// script\n((?:# .*\n)+)# ///\n", (FILES / "estimator.py").read_text())
    assert header
    told = tomllib.loads("".join(line[2:] for line in header[1].splitlines(keepends=True)))
    assert told["requires-python"] == "==3.11.*"
    assert "tensorflow-cpu==2.15.1" in told["dependencies"]
    compile((FILES / "estimator.py").read_text(), "estimator.py", "exec")
