"""The chapters of the course for tests that take minutes with all of them: one of each kind is `whole`, the others nightly."""

from __future__ import annotations

import pytest

from autograder.model.course import find

OF_EACH_KIND = (
    "03_device_placement",  # values of calls
    "06_control_dependencies",  # graphs that are run here
    "11_strategies",  # training
)
chapters = pytest.mark.parametrize(
    "chapter",
    [
        pytest.param(name, marks=pytest.mark.whole if name in OF_EACH_KIND else pytest.mark.slow)
        for name in find().chapters
    ],
)
