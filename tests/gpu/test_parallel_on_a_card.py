"""Chapter 05 where there is a card: launches on it stand in a timeline of threads. Elsewhere these tests skip."""

from __future__ import annotations

import pytest

from across import fresh, timeline
from autograder.authoring import build, run
from autograder.model.course import find

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("card")]

CHAPTER = "05_parallel_execution"


def on_a_card() -> tuple[timeline.Timeline, timeline.Timeline]:
    """A product on the card as the profiler tells it, and as a session's step statistics tell it."""
    import tensorflow as tf

    v1 = tf.compat.v1

    @tf.function
    def product(x):
        with tf.device("/GPU:0"):
            return tf.matmul(x, x, name="P")

    x = tf.ones([200, 200])
    product(x)
    with tf.Graph().as_default() as graph, tf.device("/GPU:0"):
        twice = tf.matmul(tf.ones([200, 200]), tf.random.uniform([200, 200]), name="P")
    metadata, full = v1.RunMetadata(), v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
    with v1.Session(graph=graph) as session:
        session.run(twice, options=full, run_metadata=metadata)
    return timeline.record(product, x), timeline.of_step(metadata.step_stats)


def test_a_launch_on_a_card_is_recorded_in_a_thread_of_this_process():
    seen, _ = fresh.run(on_a_card, timeout=300)
    assert "P" in {op.name for op in seen}
    assert all(op.lane.startswith((timeline.INTER, timeline.CALLER)) for op in seen)


def test_a_card_has_a_lane_in_step_statistics():
    _, stats = fresh.run(on_a_card, timeout=300)
    assert "P" in {op.name for op in stats if op.lane == "GPU:0"}


def test_the_order_of_the_callers_thread_is_the_same_beside_a_card():
    edges = [("C", "D"), ("C", "E")]
    assert fresh.run(timeline.run_order, list("ABCDE"), edges, timeout=300) == list("ABCDE")


def test_the_chapter_runs_clean_where_there_are_cards():
    assert run.execute(CHAPTER, build.solved(find(), CHAPTER), find().chapter(CHAPTER).limits).problems == ()
