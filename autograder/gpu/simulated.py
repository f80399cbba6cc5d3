"""GPUs for a submission where there is no card: made of host memory by the library, see docs/gpu.md.

Whoever witnesses (a checker, peers, lives) has simulated ones wherever it runs: what decides a mark is the same on a machine
with cards. The kernel has its cards, where some are leased for it.
"""

from __future__ import annotations

from across._gpu import building, loading
from autograder.model.course import CourseError

SIMULATED = "simulated"  # what an instructor says who wants no card leased
PRELOADED = "across._gpu"  # asks the students' server for it, among what a course preloads


def asked(says: str) -> int | str | None:
    """What `--gpus` says: a number of cards, "simulated", or nothing. Raises CourseError."""
    if says in ("", SIMULATED):
        return says or None
    if not says.isdecimal():
        raise CourseError(f"--gpus {says}: write a number of cards, or {SIMULATED}")
    return int(says)


def environment(count: int) -> dict[str, str]:
    """For a process that is to have `count` GPUs: how many, and where the library lies, which its box shows."""
    return {building.GPUS: str(count), building.VARIABLE: str(building.folder().parent)} if count else {}


def prepare() -> str:
    """Build the library if it was not, and open it for the forks of this process; why it cannot be had, in a sentence."""
    try:
        building.build()
        loading.open_if_built()
    except building.NoGpu as error:
        return f"{error} A chapter whose header says `gpus` is graded with it, also where cards are leased."
    return ""
