"""Chapter 09: what its prose claims of TensorFlow and Keras is so."""

from __future__ import annotations

import inspect

import pytest

from across import fresh
from across._process import warm

pytestmark = pytest.mark.skipif(
    not warm.available(), reason="without warm forking a task costs an import of TensorFlow"
)


def additions() -> dict[str, int]:
    """How many ops that add on the server are in the graph of `assign_add`, of TensorFlow's variable and of Keras's."""
    import keras
    import tensorflow as tf

    from across import graphs

    plain, of_keras = tf.Variable(0.0, name="plain"), keras.Variable(0.0, name="of_keras")
    by = {"plain": lambda: plain.assign_add(1.0), "of_keras": lambda: of_keras.assign_add(1.0)}
    return {name: len(graphs.of(add).of_type("AssignAddVariableOp")) for name, add in by.items()}


def test_keras_assigns_what_it_has_added_and_tensorflow_adds():
    assert fresh.run(additions) == {"plain": 1, "of_keras": 0}


def test_keras_says_so_in_its_source():
    import keras

    assert "self.assign(self + value)" in inspect.getsource(keras.Variable.assign_add)
