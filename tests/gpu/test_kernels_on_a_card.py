"""Chapter 04 where there is a card: what the kernel registry says, met by a real GPU. Elsewhere these tests skip."""

from __future__ import annotations

import pytest

from across import fresh
from autograder.authoring import build, run
from autograder.model.course import find

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("card")]

CHAPTER = "04_kernels_and_soft_placement"


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


def test_an_old_float_variable_is_taken_by_a_card():
    assert fresh.run(old_variable, 3.0, timeout=300) == ""


def test_an_old_integer_variable_is_refused_for_want_of_a_kernel():
    assert "no supported kernel for GPU" in fresh.run(old_variable, 3, timeout=300)


def test_a_new_float_variable_lives_on_the_card():
    assert "GPU:0" in fresh.run(new_variable, 3.0, timeout=300)


def test_a_new_integer_variable_lands_on_the_cpu():
    assert "CPU:0" in fresh.run(new_variable, 3, timeout=300)


def test_the_chapter_runs_clean_where_there_are_cards():
    assert run.execute(CHAPTER, build.solved(find(), CHAPTER), find().chapter(CHAPTER).limits).problems == ()
