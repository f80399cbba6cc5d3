"""Real handwritten digits that are always here: what chapters 10 to 12 train on.

    train, test = digits.load()                        # 1,500 and 297 images of 8 x 8
    path = digits.write_records(train, folder)         # as TFRecords

They are the test set of "Optical Recognition of Handwritten Digits" (Alpaydin and Kaynak, 1998; UCI), shipped with this
package; its licence is in digits_8x8.NOTICE.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

_HERE = Path(__file__).with_name("digits_8x8.npz")
_TRAIN = 1_500  # of 1,797


class Digits(NamedTuple):
    """Images [n, size, size, 1], float32 from 0 to 1, and their labels [n], int64 from 0 to 9."""

    images: np.ndarray
    labels: np.ndarray

    def some(self, start: int, stop: int) -> Digits:
        """Those from `start` to before `stop`."""
        return Digits(self.images[start:stop], self.labels[start:stop])


def load(size: int = 8) -> tuple[Digits, Digits]:
    """Return the digits to train on and those to test with, in the same order every time.

    `size` 8: as they are. `size` 28: each pixel drawn as 3 x 3, with a margin of 2. Raises ValueError for another size.
    """
    if size not in (8, 28):
        raise ValueError(f"digits.load({size}): there are digits of 8 x 8 and of 28 x 28 pixels")
    images, labels = _shipped()
    if size == 28:
        images = np.pad(np.kron(images, np.ones((3, 3, 1), np.float32)), ((0, 0), (2, 2), (2, 2), (0, 0)))
    return Digits(images[:_TRAIN], labels[:_TRAIN]), Digits(images[_TRAIN:], labels[_TRAIN:])


def write_records(digits: Digits, folder: str | Path) -> str:
    """Write digits of any size into a new TFRecord file in `folder`; return its path.

    Each record is a `tf.train.Example` with `image_raw`, one byte a pixel from 0 to 255, and `label`. Follows
    tf.io.TFRecordWriter. Raises OSError where nothing can be written.
    """
    import tensorflow as tf

    path = str(Path(folder) / "digits.tfrecords")
    with tf.io.TFRecordWriter(path) as writer:
        for image, label in zip(digits.images, digits.labels, strict=True):
            pixels = np.rint(image * 255).astype(np.uint8).tobytes()
            features = {
                "image_raw": tf.train.Feature(bytes_list=tf.train.BytesList(value=[pixels])),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(label)])),
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())
    return path


@cache
def _shipped() -> tuple[np.ndarray, np.ndarray]:
    """All 1,797, shuffled once: in the file, one writer's digits follow another's."""
    with np.load(_HERE) as file:
        images, labels = file["images"], file["labels"]
    order = np.random.default_rng(0).permutation(len(labels))
    return (images[order, :, :, None] / np.float32(16)).astype(np.float32), labels[order].astype(np.int64)
