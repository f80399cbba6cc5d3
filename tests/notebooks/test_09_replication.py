"""Chapter 09: what its prose claims of TensorFlow and Keras is so; what a trainer did wrong is told in a sentence."""

from __future__ import annotations

import inspect

import pytest
from processes import forked, in_a_fresh_process

import trainer_truth
from across import graphs

pytestmark = forked


@in_a_fresh_process()
def test_keras_assigns_what_it_has_added_and_tensorflow_adds():
    import keras
    import tensorflow as tf

    plain, of_keras = tf.Variable(0.0, name="plain"), keras.Variable(0.0, name="of_keras")
    assert len(graphs.of(lambda: plain.assign_add(1.0)).of_type("AssignAddVariableOp")) == 1
    assert len(graphs.of(lambda: of_keras.assign_add(1.0)).of_type("AssignAddVariableOp")) == 0
    assert "self.assign(self + value)" in inspect.getsource(keras.Variable.assign_add)


DID = {
    "made": [(True, "worker", 1)],
    "unsplit": False,
    "joined": False,
    "led": False,
    "masters": ["worker:1"],
    "before": 4,
    "step": 8,
    "returned": 8,
}
LATE = {"before": 12, "step": 13, "returned": 13}  # told to train until 8


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({}, ""),
        ({"step": 9, "returned": 8.0}, ""),
        ({"step": 9, "returned": 9}, "returned 9; expected 8, the global step"),
        ({"made": []}, "made 0 servers"),
        ({"made": [[True, "worker", 0]]}, "made the server of worker:0"),
        ({"made": [[False, "worker", 1]]}, "another cluster"),
        ({"joined": True}, "waits in `join`"),
        ({"led": True}, "prepared the variables as a chief does"),
        ({"masters": ["worker:1", ""]}, "on no server of the cluster"),
        ({"masters": []}, "on no server;"),
        ({"step": 7}, "stopped when the global step was 7"),
        ({"returned": None}, "returned None"),
        ({"unsplit": True, "made": []}, "did not split all hosts"),
        ({"before": None}, ""),
        (LATE, ""),
        ({**LATE, "step": 12, "returned": 12}, ""),
        ({**LATE, "returned": 12}, ""),
        ({**LATE, "step": 15, "returned": 15}, "expected one step at most"),
        (
            {**LATE, "returned": 8},
            "the global step was 12 and `last_step` 8: as worker:1, `trainer` returned 8, which is `last_step`; "
            "expected 12",
        ),
    ],
)
def test_what_a_trainer_did_wrong_is_told_in_a_sentence(other, says):
    _, fault = trainer_truth.fault_of(("worker", 1), 8, **{**DID, **other})
    assert (says in fault) if says else not fault


def test_a_ps_only_waits():
    did = {**DID, "made": [(True, "ps", 0)], "masters": []}
    assert "did not wait" in trainer_truth.fault_of(("ps", 0), 8, **did)[1]
    assert trainer_truth.fault_of(("ps", 0), 8, **{**did, "joined": True}) == ("", "")
