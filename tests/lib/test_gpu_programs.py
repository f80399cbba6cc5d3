"""Programs that name a GPU print what docs/gpu_programs.md says: on simulated GPUs here, on two cards where they are."""

from __future__ import annotations

import pytest

import gpu_programs
from across._gpu import building

PROGRAMS = {each.name: each for each in gpu_programs.read()}
needs = pytest.mark.skipif(bool(building.problem()), reason=f"no simulated GPU here: {building.problem()}")


@needs
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.whole
def test_a_program_prints_what_is_written(built, name):
    assert gpu_programs.printed(PROGRAMS[name]) == PROGRAMS[name].prints.strip()


def test_there_are_sixty_of_them_and_the_page_is_made_of_them():
    assert len(PROGRAMS) >= 60
    written = gpu_programs.PAGE.read_text(encoding="utf-8")
    assert written == gpu_programs.page(list(PROGRAMS.values())), "stale: uv run python tools/gpu_programs.py --write"
