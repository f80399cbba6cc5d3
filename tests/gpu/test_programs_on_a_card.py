"""Two cards say of docs/gpu_programs.md's programs what simulated GPUs say, but where the page tells that they differ."""

from __future__ import annotations

import pytest

import gpu_programs
from across import fresh

pytestmark = pytest.mark.gpu
OF_2_GIB = "a fraction of a GPU's memory"
PROGRAMS = {each.name: each for each in gpu_programs.read() if not each.differs and each.name != OF_2_GIB}


@pytest.fixture(scope="module")
def _two_cards(card: None) -> None:
    def cards():
        import tensorflow as tf

        return len(tf.config.list_physical_devices("GPU"))

    if fresh.run(cards, timeout=300) < gpu_programs.GPUS:
        pytest.skip("fewer than two cards on this machine: not shown here what two cards print")


@pytest.mark.usefixtures("_two_cards")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_on_cards_what_is_written(name):
    assert gpu_programs.printed(PROGRAMS[name]) == PROGRAMS[name].prints.strip()
