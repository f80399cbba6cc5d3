"""The layers tell what is there, and nothing that is not."""

from __future__ import annotations

from across import layers
from across.diagnosis import Facts

COMPLETE = Facts(cards=1, driver="570.86.15", open=1, libcuda=True)


def missing(facts: Facts) -> list[str]:
    return [layer.name for layer in layers.layers(facts) if not layer.there]


def test_on_a_complete_machine_nothing_is_missing():
    assert missing(COMPLETE) == []


def test_a_machine_without_a_card_lacks_driver_and_card():
    assert missing(Facts()) == ["driver", "GPU"]


def test_an_unmet_package_is_missing_from_its_layer_only():
    unmet = ("nvidia-cudnn-cu12",)
    assert missing(Facts(cards=1, driver="570.1", open=1, libcuda=True, unmet=unmet)) == ["cuDNN, cuBLAS"]


def test_the_picture_tells_in_words_what_is_missing():
    assert "driver: none (missing)" in layers.draw(Facts()).alt
