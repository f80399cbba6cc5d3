"""The layers tell what is there, and nothing that is not."""

from __future__ import annotations

from dataclasses import replace

from across import layers
from across.diagnosis import Facts

COMPLETE = Facts(cards=1, driver="570.86.15", open=1, libcuda=True)


def missing(facts: Facts) -> list[str]:
    return [layer.name for layer in layers.layers(facts) if not layer.there]


def test_what_is_missing_is_missing_from_its_layer_only():
    assert missing(COMPLETE) == []
    assert missing(Facts()) == ["driver", "GPU"]
    assert missing(replace(COMPLETE, unmet=("nvidia-cudnn-cu12",))) == ["cuDNN, cuBLAS"]


def test_the_picture_tells_in_words_what_is_missing():
    assert "driver: none (missing)" in layers.draw(Facts()).alt
