"""Chapter 01 where there is a card: the diagnosis, the tables and the log are the machine's own."""

from __future__ import annotations

import re
from typing import Any

import on_cards
import pytest

from across import devices, diagnosis, fresh, smi
from autograder.authoring import build
from autograder.model.course import find

pytestmark = pytest.mark.gpu

CHAPTER = "01_gpu_setup"


@pytest.fixture(scope="module")
def cards() -> list[list[str]]:
    """Number, name and total memory in MiB of each card, as the driver tells."""
    found = smi.query("index", "name", "memory.total")
    if not found or not devices.here().gpus:
        pytest.skip("TensorFlow sees no GPU on this machine")
    return found


def started() -> int:
    import tensorflow as tf

    return len(tf.config.list_logical_devices("GPU"))


def test_the_diagnosis_of_a_working_machine_is_fine(cards: list[list[str]]):
    assert diagnosis.diagnose(diagnosis.gather()).key == "fine"


def test_a_hidden_card_is_diagnosed_as_hidden(cards: list[list[str]]):
    found = fresh.run(diagnosis.gather, env={"CUDA_VISIBLE_DEVICES": "-1"}, cold=True, timeout=300)
    assert diagnosis.diagnose(found).key == "hidden"


def test_the_driver_and_the_capabilities_are_gathered(cards: list[list[str]]):
    facts = diagnosis.gather()
    assert re.fullmatch(r"\d{3}\.[\d.]+", facts.driver)
    assert len(facts.capabilities) == len(cards)
    assert all(diagnosis.has_code_for(each, facts.built_for) for each in facts.capabilities)


def test_the_reference_finds_code_for_every_card(cards: list[list[str]]):
    names: dict[str, Any] = {}
    exec(
        "import tensorflow as tf\nfrom across import diagnosis\n"
        + build.solution_source(find(), CHAPTER)["code_for_gpus"],
        names,
    )
    facts = diagnosis.gather()
    fits = [diagnosis.has_code_for(each, facts.built_for) for each in facts.capabilities]
    assert [word != "none" for word in names["code_for_gpus"]()] == fits


def test_a_fresh_process_sees_what_the_variable_shows(cards: list[list[str]]):
    names: dict[str, Any] = {}
    exec(
        "import os\nimport tensorflow as tf\nfrom across import fresh\n" + on_cards.cells(CHAPTER, "seen_with", "look"),
        names,
    )
    assert [names["seen_with"](value, names["look"])[2] for value in ("-1", "0", "0,-1", "-1,0", "")] == [0, 1, 1, 0, 0]


def test_the_log_names_the_card_that_was_created(cards: list[list[str]]):
    said = fresh.call(started, cold=True, env={"TF_CPP_MIN_LOG_LEVEL": "0"}, timeout=300)
    assert "Created device" in said.stderr
    assert cards[0][1] in said.stderr
