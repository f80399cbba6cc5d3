"""`across doctor --cluster --logs`: causes by logs alone, where all have ended or no address answers, and what is none."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from across import hangs
from across._cluster_doctor import config, logs, rules, words
from across._cluster_doctor.facts import GRPC, NO_ANSWER, REFUSED, Endpoint, Facts, Finding

KEYS = {
    "a copied TF_CONFIG": "same task",
    "a wrong port": "addresses differ",
    "a taken port": "taken port",
    "a full disk at a checkpoint": "full disk",
    "NaN from one replica": "NaN",
    "an uneven last batch": "uneven data",
}
ADDRESSES = ["10.0.0.1:2222", "10.0.0.2:2222", "10.0.0.3:2222"]
Diagnose = Callable[..., list[Finding]]


@pytest.fixture
def diagnosed(tmp_path: Path) -> Diagnose:
    """What is found by logs, of the cluster of `told`; every address gives one answer, but those in `alive`."""

    def diagnose(texts: Mapping[str, str], told: str = "", answer: str = REFUSED, alive: tuple[str, ...] = ()):
        for path in tmp_path.iterdir():
            path.unlink()
        for task, text in texts.items():
            path = tmp_path / f"{task.replace(':', '-')}.log"
            path.write_text(text)
            os.utime(path, (2e9, 2e9))  # after all times in it
        asked = config.read(told or tf_config(0, len(texts)))
        endpoints = [
            Endpoint(task, address, GRPC, task) if task in alive else Endpoint(task, address, answer)
            for task, address in asked.addresses.items()
        ]
        facts = Facts(asked, "this environment", (), tuple(endpoints), tuple(logs.in_folder(tmp_path, [])))
        return rules.diagnose(facts)

    return diagnose


def tf_config(index: int, count: int = 2) -> str:
    return json.dumps({"cluster": {"worker": ADDRESSES[:count]}, "task": {"type": "worker", "index": index}})


def keys(found: list[Finding]) -> list[str]:
    return [f"{each.key} {each.task}".strip() for each in found]


def test_there_is_a_key_of_each_recorded_failure():
    assert set(KEYS) == set(hangs.causes())


@pytest.mark.parametrize("answer", [REFUSED, NO_ANSWER, GRPC])  # the last as a proxy does
@pytest.mark.parametrize("cause", KEYS)
def test_each_recorded_failure_is_named_by_its_logs_alone(cause: str, answer: str, diagnosed: Diagnose):
    for seed in range(8):
        job = hangs.drawn(np.random.default_rng(seed), cause)
        other = next(log for task, log in job.evidence.items() if task != job.guilty)
        found = diagnosed(job.evidence, other.split("TF_CONFIG: ")[1].partition("\n")[0], answer)
        assert keys(found) == [f"{KEYS[cause]} {job.guilty}"], (seed, found)


STARTS = "09:00:00 worker:{index} starts; TF_CONFIG: {told}\n"
CAUSES = {  # the logs of two workers -> what is found first
    "ended worker:1": ("dataset: column age has 3 nan, filled\nstep 3\n", "ValueError: could not parse record 7\n"),
    "ended worker:1, and not a NaN": ("step 3 loss: nan\nstep 4\n", "step 3 loss: nan\nValueError: could not parse\n"),
    "nothing runs": ("dataset: column age has 3 nan, filled\n", "dataset: column age has 3 nan, filled\nstep 3\n"),
    "nothing runs, of a metric": ("step 3 loss: 0.25 - val_auc: nan\n", "step 3 loss: 0.25 - val_auc: 0.5\n"),
    "nothing runs, of two that are done": (
        "".join(f"step {step} loss 0.5\n" for step in range(10)) + "done\n",
        "step 0 loss 0.5\nstep 5 loss 0.5\ndone\n",
    ),
    "nothing runs, of a warning": (
        "step 1\nstep 2\ndone\n",
        "step 1\nWARNING: 5% space left on /data, No space left on device soon\nstep 2\ndone\n",
    ),
    "full disk worker:1": ("step 1\n", "step 1\nOSError: [Errno 28] No space left on device: '/data/ckpt'\n"),
    "NaN worker:1": ("step 1 own loss 0.5\nstep 1 loss nan\n", "step 1 own loss nan\nstep 1 loss nan\n"),
    "clock worker:1": ("", "I0000 00:00:2000000100.5 9 x.cc:1] ahead of its file\n"),
    "NaN": ("step 1 loss nan\n", "step 1 loss nan\n"),
    "gone worker:1": ("step 1\nUnavailableError: Socket closed\n", "step 1\n"),
    "ended worker:1, killed": (
        "step 1\nstep 2\nstep 3\nUnavailableError: Socket closed\n",
        "step 1\nstep 2\nI0000 00:00:1.5 9 x.cc:1] written by a thread of TensorFlow\n",
    ),
    "uneven data worker:1": ("step 1\nstep 2\nstep 3\nUnavailableError: Socket closed\n", "step 1\nstep 2\nbye\n"),
    "uneven data worker:1, of the first epoch": (
        "epoch 1\nstep 0\nstep 1\nepoch 2\nstep 0\nUnavailableError: Socket closed\n",
        "epoch 1\nstep 0\nstep 1\nbye\n",
    ),
}


@pytest.mark.parametrize("answer", [REFUSED, NO_ANSWER, GRPC])  # the last as a proxy does
@pytest.mark.parametrize("case", CAUSES)
def test_logs_of_what_is_over_have_one_cause(case: str, answer: str, diagnosed: Diagnose):
    texts = {
        f"worker:{index}": STARTS.format(index=index, told=tf_config(index)) + CAUSES[case][index] for index in (0, 1)
    }
    assert keys(diagnosed(texts, answer=answer))[0] == case.partition(",")[0]


def test_what_is_asked_last_names_the_logs_that_were_read(diagnosed: Diagnose):
    (found,) = diagnosed({"worker:0": "step 1\n", "worker:1": "step 1\n"})
    assert "logs (2) show no cause" in found.says
    assert "--logs" not in found.mend


COULD_NOT = (
    "E0000 00:00:1.5 9 add_port.cc:83] Failed to add port to server\nUnknownError: Could not start gRPC server\n"
)


def test_a_port_that_was_taken_is_no_copy_though_it_is_free_now(diagnosed: Diagnose):
    texts = {f"worker:{index}": STARTS.format(index=index, told=tf_config(index, 3)) for index in range(3)}
    (found,) = diagnosed({**texts, "worker:2": texts["worker:2"] + COULD_NOT}, alive=("worker:0", "worker:1"))
    assert (found.key, found.task) == ("taken port", "worker:2")
    assert "another program had that port then." in found.says


def test_who_has_a_copy_is_named_with_the_task_to_be_started_as(diagnosed: Diagnose):
    texts = {f"worker:{index}": STARTS.format(index=index, told=tf_config(index % 2, 3)) for index in range(3)}
    for alive in ((), ("worker:0", "worker:1")):
        (found,) = diagnosed({**texts, "worker:2": texts["worker:2"] + COULD_NOT}, alive=alive)
        assert (found.key, found.task) == ("same task", "worker:2")
        assert "worker:2 was told to be worker:0" in found.says
        assert "Start that one as worker:2" in found.mend


def test_logs_that_are_numbered_from_one_on_are_no_copies(diagnosed: Diagnose):
    texts = {f"worker:{index + 1}": f"TF_CONFIG={tf_config(index)}\nstep 1\n" for index in (0, 1)}
    assert keys(diagnosed(texts)) == ["nothing runs"]


def test_a_log_of_an_older_cluster_has_no_say_and_the_newest_of_a_task_has(diagnosed: Diagnose):
    old = tf_config(0).replace("10.0.0.", "10.9.9.")
    assert keys(diagnosed({"worker:0": f"TF_CONFIG={old}\n", "worker:1": f"TF_CONFIG={tf_config(1)}\n"})) == [
        "nothing runs"
    ]


@pytest.mark.parametrize("odd", [0, 1, 2])
def test_whose_cluster_differs_is_who_stands_alone_be_it_the_first(odd: int, diagnosed: Diagnose):
    told = [tf_config(index, 3) for index in range(3)]
    told[odd] = told[odd].replace(ADDRESSES[0], "10.0.0.1:2223")
    found = diagnosed({f"worker:{index}": f"TF_CONFIG={each}\nstep 1\n" for index, each in enumerate(told)}, told[2])
    assert keys(found)[0] == f"addresses differ worker:{odd}"
    assert "10.0.0.1:2223; others have 10.0.0.1:2222" in found[0].says


@pytest.mark.parametrize(
    "line",
    [
        "loss: nan",
        "Epoch 2 - loss=NaN - accuracy: 0.5",
        "{'loss': nan, 'grad_norm': 0.5}",
        "train_loss nan",
        "gradient norm: nan",
        "loss tf.Tensor(nan, shape=(), dtype=float32)",
        "loss is nan",
        "Batch 12: Invalid loss, terminating training",
        "InvalidArgumentError: x : Tensor had NaN values",
    ],
)
def test_a_loss_that_is_no_number_is_seen(line: str):
    assert words.no_number(line)


@pytest.mark.parametrize(
    "line",
    [
        "3 nan, filled",
        "val_auc: nan",
        "val_loss: nan - loss: 0.5",
        "loss: 0.5 (nan skipped)",
        "loss is not nan",
        "loss_nan.png",
        "nan_to_num",
        "accuracy: nan, loss: 1.0",
    ],
)
def test_what_is_no_loss_of_training_is_none(line: str):
    assert not words.no_number(line)
