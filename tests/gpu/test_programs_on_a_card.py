"""Cards say of docs/gpu_programs.md's programs what simulated GPUs say, but where the page tells that they differ."""

from __future__ import annotations

import pytest

import gpu_programs

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("card")]
OF_2_GIB = "a fraction of a GPU's memory"
PROGRAMS = {each.name: each for each in gpu_programs.read() if not each.differs and each.name != OF_2_GIB}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_on_cards_what_is_written(name, count):
    if count < PROGRAMS[name].cards:
        pytest.skip("fewer than two cards on this machine: not shown here what two cards show")
    assert gpu_programs.printed(PROGRAMS[name]) == PROGRAMS[name].prints.strip()
