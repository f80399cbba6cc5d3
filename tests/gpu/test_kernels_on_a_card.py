"""Chapter 04 where there is a card: what the kernel registry says, met by a real GPU. Elsewhere these tests skip."""

from __future__ import annotations

import pytest

from across import fresh

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("card")]


def old_variable(value: float) -> str:
    """What a hard session says of an old-style variable on a card; "" if it takes it."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default(), tf.device("/GPU:0"):
        variable = v1.Variable(value, use_resource=False)
        with v1.Session() as session:
            try:
                session.run(variable.initializer)
            except tf.errors.InvalidArgumentError as error:
                return error.message
    return ""


def new_variable(value: float) -> str:
    import tensorflow as tf

    with tf.device("/GPU:0"):
        return tf.Variable(value).device


def landing(dtype: str, pin: str | None) -> list[str]:
    """Where a product ran, and where the sum of its numbers with themselves lies."""
    import tensorflow as tf

    with tf.device("/CPU:0"):
        given = tf.ones([2, 2], dtype)
    with tf.device(pin):
        total = given + given
        return [tf.matmul(given, given).backing_device[-5:], total.device[-5:], total.backing_device[-5:]]


@pytest.mark.parametrize(("dtype", "pin", "ran"), [("float32", "/CPU:7", "GPU:0"), ("int32", "/GPU:0", "CPU:0")])
def test_a_product_runs_on_the_best_device_that_has_a_kernel(dtype, pin, ran):
    assert fresh.run(landing, dtype, pin, timeout=300)[0] == ran


def test_integers_are_added_on_a_card_by_name_only():
    assert fresh.run(landing, "int32", "/GPU:0", timeout=300)[1:] == ["GPU:0", "CPU:0"]


@pytest.mark.parametrize(("value", "says"), [(3.0, ""), (3, "no supported kernel for GPU")], ids=["float", "integer"])
def test_an_old_variable_is_taken_by_a_card_that_has_a_kernel_for_it(value, says):
    said = fresh.run(old_variable, value, timeout=300)
    assert (said == "", says in said) == (says == "", True)


@pytest.mark.parametrize(("value", "device"), [(3.0, "GPU:0"), (3, "CPU:0")], ids=["float", "integer"])
def test_a_new_variable_lands_on_the_cpu_where_a_card_has_none(value, device):
    assert device in fresh.run(new_variable, value, timeout=300)
