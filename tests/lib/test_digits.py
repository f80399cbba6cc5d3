"""The digits are the same ones every time, and come back from a record as they went in."""

from __future__ import annotations

import numpy as np
import pytest
from processes import in_a_fresh_process

from across import digits


def test_the_digits_are_the_same_every_time_and_none_is_in_both_parts():
    train, test = digits.load()
    again, _ = digits.load()
    assert (train.images.shape, test.images.shape) == ((1500, 8, 8, 1), (297, 8, 8, 1))
    assert (train.images.dtype, train.labels.dtype) == (np.float32, np.int64)
    assert np.array_equal(train.images, again.images)
    assert (train.images.min(), train.images.max()) == (0.0, 1.0)
    assert np.array_equal(np.unique(test.labels), np.arange(10))
    assert min(np.bincount(train.labels)) > 130  # shuffled: no digit is missing
    rows = {image.tobytes() for image in train.images}
    assert not any(image.tobytes() in rows for image in test.images)


def test_large_digits_are_the_small_ones():
    (small, _), (large, _) = digits.load(), digits.load(28)
    assert large.images.shape == (1500, 28, 28, 1)
    assert np.array_equal(large.images[:, 2:26:3, 2:26:3], small.images)
    assert large.images.sum() == pytest.approx(9 * small.images.sum(), rel=1e-4)


def test_another_size_is_refused():
    with pytest.raises(ValueError, match="8 x 8 and of 28 x 28"):
        digits.load(16)


@in_a_fresh_process()
def test_records_hold_each_image_with_its_label(tmp_path):
    import tensorflow as tf

    wanted = digits.load()[0].some(10, 15)
    records = [each.numpy() for each in tf.data.TFRecordDataset(digits.write_records(wanted, str(tmp_path)))]
    for record, image, label in zip(records, wanted.images, wanted.labels, strict=True):
        features = tf.train.Example.FromString(record).features.feature
        pixels = np.frombuffer(features["image_raw"].bytes_list.value[0], np.uint8).reshape(8, 8, 1)
        assert np.abs(pixels / 255 - image).max() <= 0.5 / 255 + 1e-6
        assert features["label"].int64_list.value[0] == label
