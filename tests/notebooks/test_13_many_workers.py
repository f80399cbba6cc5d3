"""Chapter 13: what its prose and its checks claim of TensorFlow is so; its files are what they say."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from processes import forked

from across import fresh, workers
from across.clusters import LocalCluster

CHAPTER = "13_many_workers"
FILES = Path(__file__).parents[2] / "files" / CHAPTER


def resolved(nodes: str, gpus: int) -> str:
    import tensorflow as tf

    variables = {"STEP_NODELIST": nodes, "STEP_TASKS_PER_NODE": "2,1", "STEP_NUM_TASKS": "3", "PROCID": "0"}
    os.environ.update({f"SLURM_{name}": value for name, value in variables.items()})
    resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(gpus_per_node=gpus, auto_set_gpu=False)
    return resolver.cluster_spec().task_address("worker", 0)


def test_tensorflow_sorts_the_names_of_nodes_as_text():
    asked = ("n[1,2]", "n[2,10]", "n[02,10]")
    found = fresh.run(lambda: [resolved(nodes, 2) for nodes in asked], timeout=120)
    assert found == ["n1:8888", "n10:8888", "n02:8888"]


def test_the_resolver_of_slurm_wants_gpus():
    with pytest.raises(ValueError, match="must not be zero"):
        fresh.run(resolved, "n[1,2]", 0, timeout=120)


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


def saving(folder: str, who: tuple[int, ...], *, metric: bool):
    """Two workers, of which those in `who` save, each into a folder of its own: a Keras metric, or model and SGD."""

    def program(spec, job, index):
        import tensorflow as tf

        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        with strategy.scope():
            if metric:
                kept = {str(i): each.value for i, each in enumerate(tf.keras.metrics.Mean().variables)}
            else:
                model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(2)])
                optimizer = tf.keras.optimizers.SGD(0.1, momentum=0.9)
                optimizer.build(model.trainable_variables)
                kept = {"model": model, "optimizer": optimizer}
        if index in who:
            tf.train.Checkpoint(**kept).save(os.path.join(folder, str(index), "state"))
        workers.leave_together(folder, index, 2, seconds=60)
        return True

    return LocalCluster(program, worker=2, env={"CUDA_VISIBLE_DEVICES": ""})


@forked
def test_model_and_optimizer_are_saved_by_the_chief_alone(tmp_path):
    with saving(str(tmp_path), (0,), metric=False) as both:
        assert both.result("worker", 0, 30)


@forked
@pytest.mark.whole
def test_a_metric_is_saved_by_all_or_the_chief_waits_for_the_others(tmp_path):
    for each in ("all", "one"):
        (tmp_path / each).mkdir()
    with saving(str(tmp_path / "all"), (0, 1), metric=True) as both:
        assert both.result("worker", 0, 30)
    with saving(str(tmp_path / "one"), (0,), metric=True) as both, pytest.raises(TimeoutError, match="did not return"):
        both.result("worker", 0, 5)


def epochs_of_keras_2(parts: list[int], folder: str) -> list[float]:
    """The loss of each epoch of 5 steps, where `fit` is called anew, and the data begin anew, before each of `parts`."""
    import tensorflow as tf
    import tf_keras

    from across import digits

    tf_keras.utils.set_random_seed(1)
    model = tf_keras.Sequential([tf_keras.layers.Flatten(), tf_keras.layers.Dense(10)])
    model.compile("sgd", tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    data, found = tf.data.Dataset.from_tensor_slices(tuple(digits.load()[0])).repeat().batch(60), []
    for first, last in itertools.pairwise(parts):
        callbacks = [tf_keras.callbacks.BackupAndRestore(folder, delete_checkpoint=False)]
        told = {"initial_epoch": first, "epochs": last, "callbacks": callbacks}
        found += model.fit(data, steps_per_epoch=5, verbose=0, **told).history["loss"]
    return found


def test_backup_and_restore_begins_the_data_anew(tmp_path):
    """The epochs of the chapter's two lives, killed after epoch 1, and those without a death."""
    lives = {"one": [0, 5], "two": [0, 2, 5]}
    losses, again = fresh.run(
        lambda: [epochs_of_keras_2(parts, str(tmp_path / name)) for name, parts in lives.items()], timeout=120
    )
    assert losses == pytest.approx([2.4714, 2.4594, 2.4416, 2.4404, 2.4042], abs=2e-4)
    assert again == pytest.approx([2.4714, 2.4594, 2.4348, 2.4262, 2.4077], abs=2e-4)


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_the_batch_script_is_one():
    script = FILES / "trainer.sbatch"
    assert subprocess.run(["bash", "-n", script], capture_output=True).returncode == 0
    options = dict(re.findall(r"^#SBATCH --([\w-]+)(?:=(\S+))?$", script.read_text(), re.MULTILINE))
    assert options["distribution"] == "block"
    assert int(options["nodes"]) * int(options["ntasks-per-node"]) > 1
    assert re.search(r"^srun .*python trainer.py", script.read_text(), re.MULTILINE)


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
@pytest.mark.parametrize(("code", "count", "again"), [(0, "", False), (1, "", True), (1, "4", True), (1, "5", False)])
def test_a_job_that_fails_is_started_again_five_times_at_most(tmp_path, code, count, again):
    for name, does in (("srun", f"exit {code}"), ("scontrol", f"touch {tmp_path}/again")):
        (tmp_path / name).write_text(f"#!/bin/bash\n{does}\n")
        (tmp_path / name).chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "7"} | (
        {"SLURM_RESTART_COUNT": count} if count else {}
    )
    assert subprocess.run(["bash", FILES / "trainer.sbatch"], env=env, capture_output=True).returncode == code
    assert (tmp_path / "again").exists() is again


def test_kubernetes_would_take_the_manifest():
    kubernetes_validate = pytest.importorskip(
        "kubernetes_validate", reason="kubernetes_validate is not installed: uv sync --group ci"
    )
    for each in yaml.safe_load_all((FILES / "trainer.yaml").read_text()):
        kubernetes_validate.validate(each, kubernetes_validate.latest_version(), strict=True)
        each["spec"]["completionz"] = 3
        with pytest.raises(kubernetes_validate.ValidationError, match="completionz"):
            kubernetes_validate.validate(each, kubernetes_validate.latest_version(), strict=True)


def test_the_manifest_is_an_indexed_job_that_ends_and_whose_pods_find_each_other():
    service, job = yaml.safe_load_all((FILES / "trainer.yaml").read_text())
    assert (service["apiVersion"], service["kind"]) == ("v1", "Service")
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    assert service["spec"]["clusterIP"] == "None"
    assert job["spec"]["completionMode"] == "Indexed"
    assert job["spec"]["completions"] == job["spec"]["parallelism"]
    assert job["spec"]["backoffLimit"] > 0
    pod = job["spec"]["template"]
    assert pod["spec"]["restartPolicy"] == "OnFailure"
    assert pod["spec"]["subdomain"] == service["metadata"]["name"] == job["metadata"]["name"]
    assert service["spec"]["selector"] == pod["metadata"]["labels"]
    (container,) = pod["spec"]["containers"]
    told = {each["name"]: each["value"] for each in container["env"]}
    assert told == {"SERVICE": service["metadata"]["name"], "WORKERS": str(job["spec"]["completions"])}
    volumes = {each["name"] for each in pod["spec"]["volumes"]}
    assert {each["name"] for each in container["volumeMounts"]} <= volumes


def evaluators(count: int) -> int:
    cluster = {"worker": workers.addresses(1), "evaluator": [f"e{number}:1" for number in range(count)]}
    return alone(json.dumps({"cluster": cluster, "task": {"type": "worker", "index": "0"}}))


def test_tensorflow_takes_one_evaluator_and_an_index_as_text():
    assert fresh.run(evaluators, 1, timeout=120) == 1
    with pytest.raises(ValueError, match="at most one 'evaluator' job"):
        fresh.run(evaluators, 2, timeout=120)


def test_the_estimator_s_script_says_what_it_needs():
    header = re.match(r"# /// script\n((?:# .*\n)+)# ///\n", (FILES / "estimator.py").read_text())
    assert header
    told = tomllib.loads("".join(line[2:] for line in header[1].splitlines(keepends=True)))
    assert told["requires-python"] == "==3.11.*"
    assert "tensorflow-cpu==2.15.1" in told["dependencies"]
    compile((FILES / "estimator.py").read_text(), "estimator.py", "exec")
