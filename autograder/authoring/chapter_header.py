"""A chapter's own header, checked against its course as the chapter is built: see `headers.Header` and `build`."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from autograder.model import headers
from autograder.model.course import Course, CourseError, near

WHY = re.compile(r"^# +# house: (\w+): (.+)$", re.MULTILINE)  # a figure of the house that a chapter is outside of: why


def read(course: Course, name: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The header in the metadata of a chapter's source, as plain values for those of its notebook. Raises CourseError."""
    where = f"solutions/{name}.py, header"
    header = headers.header(where, metadata.get("across", {}))
    if header.allowed_ops:
        _known(course, f"{where}: allowed_ops", header.allowed_ops)
    return msgspec.to_builtins(header)


def _known(course: Course, where: str, operations: Iterable[str]) -> None:
    """Raise CourseError for an operation that TensorFlow does not have."""
    if "tensorflow" not in course.preload:
        raise CourseError(f"{where}: graphs are TensorFlow's; add it to preload in {course.file}")
    importlib.import_module("across")  # first: it keeps TensorFlow's start-up log out of sight
    import tensorflow as tf
    from tensorflow.python.framework import op_def_registry  # pyright: ignore[reportAttributeAccessIssue]

    for operation in operations:
        if op_def_registry.get(operation) is None:
            raise CourseError(f"{where}: TensorFlow has no operation {operation!r}; {near(operation, dir(tf.raw_ops))}")
