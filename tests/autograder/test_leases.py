"""Leases on cards, with an invented NVML: nobody shares a card, none is lent that is ill, and no cards have their reason."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_nvml import GIB, FakeNvml, Gpu, VersionMismatchError, runs
from fake_nvml import cards as invented

from autograder.gpu.cards import Cards
from autograder.gpu.leases import LeaseError, Leases

A, B = "GPU-a", "GPU-b"


@pytest.fixture
def sleeper() -> Iterator[Callable[[], int]]:
    """Starts processes that do nothing for a minute, and ends them."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> int:
        started.append(subprocess.Popen(["sleep", "60"]))
        return started[-1].pid

    yield start
    for process in started:
        process.kill()
        process.wait()


def machine(folder: Path, *gpus: Gpu) -> Leases:
    return Leases(invented(*gpus), folder)


def serves(leases: Leases, count: int = 1, deadline: float = 0.0) -> list[str]:
    """The cards of a lease that is given back at once."""
    with leases.lease(count, deadline) as cards:
        return cards["environment"]["CUDA_VISIBLE_DEVICES"].split(",")


HOLDER = """
import sys
from pathlib import Path
from fake_nvml import Gpu, cards
from autograder.gpu.leases import Leases
folder, uuids = Path(sys.argv[1]), sys.argv[2].split(",")
here = Leases(cards(*(Gpu(uuid, minor=n) for n, uuid in enumerate(uuids))), folder / "locks")
"""


def process(folder: Path, uuids: str, body: str) -> subprocess.Popen[str]:
    """Another grader on this machine."""
    tests = Path(__file__).parent
    path = os.pathsep.join([str(tests), str(tests.parent.parent), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER + textwrap.dedent(body), str(folder), uuids],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


# who has what


def test_neither_two_processes_nor_their_threads_ever_have_a_card_at_once(tmp_path: Path):
    body = """
    from concurrent.futures import ThreadPoolExecutor

    def student(number):
        with here.lease(deadline=30) as cards:
            mark = folder / cards["environment"]["CUDA_VISIBLE_DEVICES"]
            mark.touch(exist_ok=False)
            mark.unlink()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(student, range(12)))
    print("alone")
    """
    running = [process(tmp_path, f"{A},{B}", body) for _ in range(3)]
    assert [each.communicate(timeout=60)[0].strip() for each in running] == ["alone"] * 3


def test_a_holder_that_is_killed_lets_go(tmp_path: Path):
    body = """
    with here.lease():
        print("has it", flush=True)
        sys.stdin.read()
    """
    here = machine(tmp_path / "locks", Gpu(A))
    holder = process(tmp_path, A, body)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "has it\n"
        with pytest.raises(LeaseError, match=rf"no card in time: 1 asked for; GPU-a: process {holder.pid} has it"):
            serves(here)
    finally:
        holder.kill()
        holder.communicate(timeout=20)
    assert serves(here) == [A]


def test_pairs_asked_for_at_once_do_not_wait_in_a_circle(tmp_path: Path):
    body = """
    for number in range(6):
        with here.lease(2, deadline=30) as cards:
            assert cards["environment"]["CUDA_VISIBLE_DEVICES"].count(",") == 1
    print("done")
    """
    running = [process(tmp_path, uuids, body) for uuids in (f"{A},{B}", f"{B},{A}")]
    assert [each.communicate(timeout=60)[0].strip() for each in running] == ["done"] * 2


def test_who_waits_for_two_keeps_none(tmp_path: Path):
    here = machine(tmp_path, Gpu(A), Gpu(B, minor=1))
    with here.lease():
        with pytest.raises(LeaseError, match=rf"2 asked for; GPU-a: process {os.getpid()} has it$"):
            serves(here, 2)
        assert serves(here) == [B]


def test_a_grader_that_stopped_while_it_chose_holds_nobody_up_for_ever(tmp_path: Path):
    body = """
    import contextlib, os
    with contextlib.ExitStack() as stack:
        here._lock("picking", stack)
        print("chooses", flush=True)
        sys.stdin.read()
    """
    with process(tmp_path, A, body) as stopped:
        assert stopped.stdout is not None
        assert stopped.stdout.readline() == "chooses\n"
        with pytest.raises(LeaseError, match=f"process {stopped.pid} is choosing one; is it stopped"):
            serves(machine(tmp_path / "locks", Gpu(A)))
        stopped.communicate(timeout=20)


def test_more_cards_than_there_are_is_said_at_once(tmp_path: Path):
    here = machine(tmp_path, Gpu(A), Gpu(B, lost=True))
    started = time.monotonic()
    with pytest.raises(LeaseError, match=r"asked for: 2; this machine has 1; card 1: NVML: GPU is lost.*; grade on"):
        serves(here, 2, deadline=600)
    assert time.monotonic() - started < 60


def test_a_folder_that_others_may_write_to_keeps_no_locks(tmp_path: Path):
    tmp_path.chmod(0o777)
    with pytest.raises(LeaseError, match=r"others may write there.*; remove it"):
        machine(tmp_path)


# well and free


@pytest.mark.parametrize(
    ("gpu", "why"),
    [
        (Gpu(A, ecc=3), "3 uncorrected memory errors .*`nvidia-smi -q -d ECC`"),
        (Gpu(A, remap=(0, 1, 1, 0)), "waits to be remapped; reset the card or reboot"),
        (Gpu(A, remap=(0, 1, 0, 1)), "could not be remapped; replace the card"),
    ],
)
def test_an_ill_card_is_not_lent_and_said_with_its_mend_at_once(tmp_path: Path, gpu: Gpu, why: str):
    with pytest.raises(LeaseError, match=f"this machine has 0; GPU-a: .*{why}; grade on"):
        serves(machine(tmp_path, gpu), deadline=600)


def test_a_well_card_is_lent_beside_an_ill_one(tmp_path: Path):
    assert serves(machine(tmp_path, Gpu(A, ecc=1), Gpu(B, minor=1))) == [B]


def test_a_card_that_somebody_uses_is_not_lent_and_he_is_left_alone(tmp_path: Path, sleeper: Callable[[], int]):
    gpu, pid = Gpu(A), sleeper()
    here = machine(tmp_path, gpu, Gpu(B, minor=1))
    gpu.processes[pid] = GIB
    assert serves(here) == [B]
    with pytest.raises(LeaseError, match=rf"GPU-a: process {pid} uses it$"):
        serves(here, 2)
    assert runs(pid)


def test_a_card_is_waited_for_until_who_used_it_has_ended(tmp_path: Path, sleeper: Callable[[], int]):
    gpu, pid, got = Gpu(A), sleeper(), []
    gpu.processes[pid] = GIB
    here = machine(tmp_path, gpu)
    waiting = threading.Thread(target=lambda: got.extend(serves(here, deadline=30)))
    waiting.start()
    os.kill(pid, 9)
    waiting.join(30)
    assert got == [A]


def test_a_process_that_cannot_be_seen_from_here_keeps_its_card_from_being_lent(tmp_path: Path):
    gpu = Gpu(A, processes={(1 << 22) + 1: GIB})  # beyond every pid: in a container NVML may tell another's numbers
    with pytest.raises(LeaseError, match="uses it, and is not seen from here; give a container --pid=host"):
        serves(machine(tmp_path, gpu))


def test_memory_that_nobody_has_keeps_a_card_from_being_lent(tmp_path: Path):
    with pytest.raises(LeaseError, match="1,024 MiB of its memory are in use, by no process that NVML names"):
        serves(machine(tmp_path, Gpu(A, stuck=GIB)))


def test_memory_that_the_driver_keeps_for_itself_keeps_no_card(tmp_path: Path):
    assert serves(machine(tmp_path, Gpu(A, stuck=100 << 20))) == [A]


# what a box is told


def test_a_lease_shows_its_cards_and_no_other(tmp_path: Path):
    here = machine(tmp_path, Gpu(A), Gpu(B, minor=3))
    with here.lease(), here.lease() as cards:
        assert cards["environment"]["CUDA_VISIBLE_DEVICES"] == B
        assert cards["nodes"] == ("/dev/nvidia3", "/dev/nvidiactl", "/dev/nvidia-uvm")
    with here.lease(2) as cards:
        assert cards["environment"]["CUDA_VISIBLE_DEVICES"] == f"{A},{B}"
        assert {"/dev/nvidia0", "/dev/nvidia3"} < set(cards["nodes"])


# why there are none


@pytest.mark.parametrize(
    ("nvml", "why"),
    [
        (
            FakeNvml(Gpu(A), starts=VersionMismatchError()),
            "NVML does not start: Driver/library .* install NVIDIA's driver, reboot .*--gpus all; `nvidia-smi` as root",
        ),
        (FakeNvml(Gpu(A), counts=VersionMismatchError()), "NVML does not count the cards: .* does `nvidia-smi` work"),
        (FakeNvml(), "NVML finds no card; does `nvidia-smi -L` list one"),
        (
            FakeNvml(Gpu(A, mig=True)),
            "card 0: in MIG mode, and cards are lent whole: .*-i 0 -dci.*-dgi.* `nvidia-smi -i 0 -mig 0`",
        ),
    ],
)
def test_no_cards_always_have_their_reason_and_its_mend(tmp_path: Path, nvml: FakeNvml, why: str):
    here = Leases(Cards(nvml, exists=lambda _node: True), tmp_path)
    with pytest.raises(LeaseError, match=f"this machine has 0; {why}.*; grade on another one, or with --gpus 0"):
        serves(here)


def test_without_the_module_that_asks_nvml_it_is_said_how_to_have_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(LeaseError, match=r"this machine has 0; nvidia-ml-py, .* not installed: `uv sync --extra gpu`"):
        serves(Leases(Cards(), tmp_path))


@pytest.mark.parametrize("missing", ["/dev/nvidia1", "/dev/nvidia-uvm"])
def test_a_card_without_its_device_file_is_not_lent_and_said_with_its_mend(tmp_path: Path, missing: str):
    here = Leases(Cards(FakeNvml(Gpu(A, minor=1)), exists=lambda node: node != missing), tmp_path)
    why = rf"this machine has 0; card 0: {missing} missing, .*`nvidia-modprobe -u -c 1` .*--device {missing}"
    with pytest.raises(LeaseError, match=why):
        serves(here)
