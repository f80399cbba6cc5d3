"""Leases on cards, with an invented NVML: nobody shares a card unasked, and no card is handed out dirty."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fake_nvml import GIB, DriverNotLoadedError, FakeNvml, Gpu, LibraryNotFoundError, VersionMismatchError, runs
from fake_nvml import cards as invented
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from autograder.gpu import leases, ledger
from autograder.gpu.cards import Cards, CardsError
from autograder.gpu.leases import LeaseError, Leases
from autograder.gpu.ledger import Entry, Ledger, Slot, Wish
from autograder.gpu.slots import declared
from autograder.sandbox import cgroups

A, B = "GPU-a", "GPU-b"


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that does not come back in 0.3 s does not come back at all."""
    monkeypatch.setattr(leases, "SETTLE", 0.3)


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


class Room:
    """A machine with cards and a ledger of its own."""

    def __init__(self, folder: Path, *gpus: Gpu, shared: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.gpus = gpus
        self.boxes: dict[int, str] = {}  # pid -> box
        cards = invented(*gpus)
        self.slots = [Slot(c.uuid, c.total, c.uuid in shared, c.slice) for c in cards.found()]
        self.leases = Leases(cards, Ledger(folder), self.slots, box_of=lambda pid: self.boxes.get(pid, ""))

    def queue(self) -> list[Entry]:
        with self.leases._ledger.open(time.monotonic() + 5) as page:
            return page.entries()

    def quarantined(self) -> dict[str, str]:
        with self.leases._ledger.open(time.monotonic() + 5) as page:
            return {uuid: found.why for uuid, found in page.quarantined().items()}

    def serves(self, count: int = 1, memory: int = 0, deadline: float = 0.2) -> list[str]:
        """The cards of a lease that is given back at once."""
        with self.leases.lease("j9-9.", count, memory, deadline) as lease:
            return [card.uuid for card in lease.cards]


def until(true: Callable[[], object], what: str, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not in {seconds} s: {what}"
        time.sleep(0.005)


HOLDER = """
import sys
from pathlib import Path
from fake_nvml import Gpu, cards
from autograder.gpu.leases import Leases
from autograder.gpu.ledger import Ledger, Slot
folder, uuids = Path(sys.argv[1]), sys.argv[2].split(",")
gpus = [Gpu(uuid, minor=n) for n, uuid in enumerate(uuids)]
here = Leases(cards(*gpus), Ledger(folder / "ledger"), [Slot(g.uuid, g.total) for g in gpus])
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


def test_two_threads_never_have_a_card_at_once(tmp_path: Path):
    room = Room(tmp_path, Gpu(A), Gpu(B, minor=1))
    users: dict[str, int] = {A: 0, B: 0}
    most: list[int] = []

    def student(number: int) -> None:
        with room.leases.lease(f"j1-{number}.", deadline=30) as lease:
            uuid = lease.cards[0].uuid
            users[uuid] += 1
            most.append(users[uuid])
            sum(range(100_000))  # what a student does with it
            users[uuid] -= 1

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(student, range(18)))
    assert most == [1] * 18


def test_two_processes_never_have_a_card_at_once(tmp_path: Path):
    body = """
    for number in range(12):
        with here.lease(f"j{number}.", deadline=30) as lease:
            mark = folder / lease.cards[0].uuid
            mark.touch(exist_ok=False)
            mark.unlink()
    print("alone")
    """
    running = [process(tmp_path, f"{A},{B}", body) for _ in range(3)]
    assert [each.communicate(timeout=60)[0].strip() for each in running] == ["alone"] * 3


def test_a_holder_that_is_killed_lets_go(tmp_path: Path):
    body = """
    with here.lease("j1-0."):
        print("has it", flush=True)
        sys.stdin.read()
    """
    holder = process(tmp_path, A, body)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "has it\n"
        room = Room(tmp_path / "ledger", Gpu(A))
        with pytest.raises(LeaseError, match=rf"GPU-a has j1-0\. \(process {holder.pid}\)"):
            room.serves()
    finally:
        holder.kill()
        holder.communicate(timeout=20)
    assert room.serves(deadline=10) == [A]


def test_who_came_first_is_served_first(tmp_path: Path):
    room = Room(tmp_path, Gpu(A))
    order: list[int] = []

    def student(number: int) -> None:
        with room.leases.lease(f"j1-{number}.", deadline=30):
            order.append(number)

    with room.leases.lease("j0-0."):
        threads = []
        for number in range(5):
            threads.append(threading.Thread(target=student, args=(number,)))
            threads[-1].start()
            until(lambda n=number: len(room.queue()) == n + 2, "the student stands in line")
    for thread in threads:
        thread.join(30)
    assert order == [0, 1, 2, 3, 4]


def test_who_asks_for_two_is_not_starved_by_those_who_ask_for_one(tmp_path: Path):
    room = Room(tmp_path, Gpu(A), Gpu(B, minor=1))
    order: list[str] = []

    def student(count: int, name: str) -> None:
        with room.leases.lease(name, count, deadline=30):
            order.append(name)

    with room.leases.lease("j0-0."):
        two = threading.Thread(target=student, args=(2, "two"))
        two.start()
        until(lambda: len(room.queue()) == 2, "two stands in line")
        one = threading.Thread(target=student, args=(1, "one"))
        one.start()
        until(lambda: len(room.queue()) == 3, "one stands in line")
    two.join(30)
    one.join(30)
    assert order == ["two", "one"]


def test_pairs_asked_for_at_once_do_not_wait_in_a_circle(tmp_path: Path):
    body = """
    for number in range(6):
        with here.lease(f"j{number}.", 2, deadline=30) as lease:
            assert len(lease.cards) == 2
    print("done")
    """
    running = [process(tmp_path, uuids, body) for uuids in (f"{A},{B}", f"{B},{A}")]
    assert [each.communicate(timeout=60)[0].strip() for each in running] == ["done"] * 2


def test_one_that_no_healthy_card_can_serve_holds_nobody_up():
    slots = [Slot(A, GIB)]  # the second card is in quarantine
    line = [Entry(1, "two", 1, Wish(2)), Entry(2, "one", 1, Wish(1))]
    assert ledger.turn(slots, line, 2) == {A: GIB}


def test_more_cards_than_there_are_is_said_at_once(tmp_path: Path):
    room = Room(tmp_path, Gpu(A), Gpu(B, lost=True))
    with pytest.raises(LeaseError, match=r"cards asked for: 2; this machine has 1; card 1: GPU is lost"):
        room.serves(2)


def test_waiting_has_an_end_and_leaves_the_line(tmp_path: Path):
    room = Room(tmp_path, Gpu(A))
    with room.leases.lease("j0-0."), pytest.raises(LeaseError, match="no card in time"):
        room.serves(deadline=0.05)
    assert room.queue() == []


def test_a_ledger_that_others_may_write_to_is_refused(tmp_path: Path):
    tmp_path.chmod(0o777)
    with pytest.raises(LeaseError, match="ACROSS_LEASES"):
        Ledger(tmp_path)


# clean or not


def test_a_squatter_in_a_box_is_evicted_before_a_card_is_handed_out(tmp_path: Path, sleeper: Callable[[], int]):
    gpu = Gpu(A)
    room = Room(tmp_path, gpu)
    pid = sleeper()
    room.boxes[pid] = "j7-0.0"  # without a lease
    gpu.processes[pid] = 5 * GIB
    assert room.serves() == [A]
    assert not runs(pid)


def test_what_outlives_a_lease_is_evicted_when_it_ends(tmp_path: Path, sleeper: Callable[[], int]):
    gpu = Gpu(A)
    room = Room(tmp_path, gpu)
    with room.leases.lease("j7-0."):
        pid = sleeper()
        room.boxes[pid] = "j7-0.0"
        gpu.processes[pid] = 5 * GIB
    assert not runs(pid)
    assert room.quarantined() == {}


def test_a_process_of_somebody_else_is_not_killed_but_its_card_is_in_quarantine(
    tmp_path: Path, sleeper: Callable[[], int]
):
    gpu = Gpu(A)
    room = Room(tmp_path, gpu, Gpu(B, minor=1))
    pid = sleeper()
    gpu.processes[pid] = GIB
    assert room.serves() == [B]
    assert runs(pid)
    assert re.search(rf"process {pid} \(sleep of user \d+\) uses it and is in no box of ours", room.quarantined()[A])


def test_a_process_that_cannot_be_seen_from_here_keeps_its_card_from_being_handed_out(tmp_path: Path):
    gpu = Gpu(A, processes={(1 << 22) + 1: GIB})  # beyond every pid: in a container NVML may tell another's numbers
    room = Room(tmp_path, gpu)
    with pytest.raises(LeaseError, match="no such process is seen from here"):
        room.serves()


@pytest.mark.parametrize(
    ("gpu", "why"),
    [
        (Gpu(A, stuck=GIB), "1,024 MiB of its memory are in use, by no process that NVML names"),
        (Gpu(A, ecc=3), "3 uncorrected memory errors"),
        (Gpu(A, remap=(0, 1, 1, 0)), "waits to be remapped"),
        (Gpu(A, remap=(0, 1, 0, 1)), "could not be remapped"),
    ],
)
def test_a_dirty_card_is_not_handed_out(tmp_path: Path, gpu: Gpu, why: str):
    room = Room(tmp_path, gpu)
    with pytest.raises(LeaseError, match=f"GPU-a is in quarantine: .*{why}"):
        room.serves()


def test_a_card_that_is_lost_under_a_lease_is_in_quarantine_when_it_ends(tmp_path: Path):
    gpu = Gpu(A)
    room = Room(tmp_path, gpu)
    with room.leases.lease("j0-0."):
        gpu.lost = True
    assert room.quarantined() == {A: "NVML: GPU is lost"}


def test_a_card_in_quarantine_is_tried_again_and_handed_out_when_it_is_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ledger, "FIRST", 0.2)
    gpu = Gpu(A, stuck=GIB)
    room = Room(tmp_path, gpu)
    with pytest.raises(LeaseError):
        room.serves()
    gpu.stuck = 0
    assert room.serves(deadline=20) == [A]
    assert list(tmp_path.glob("*.dirty")) == []


def test_a_card_that_is_dirty_again_and_again_is_left_alone_for_longer(tmp_path: Path):
    with Ledger(tmp_path).open(time.monotonic() + 5) as page:
        page.quarantine(A, "hot")
        first = page.quarantined()[A].until
        page.quarantine(A, "hot")
        assert page.quarantined()[A].until - first > ledger.FIRST / 2


def test_memory_that_the_driver_keeps_for_itself_is_no_dirt(tmp_path: Path):
    assert Room(tmp_path, Gpu(A, stuck=100 << 20)).serves() == [A]


def test_a_number_that_changed_hands_is_not_killed(sleeper: Callable[[], int]):
    pid = sleeper()
    assert not leases.evict(pid, lambda name: name == "j7-0.0", lambda _: "")
    assert runs(pid)


@pytest.mark.skipif(not cgroups.available(), reason="no control groups here: boxes have none either")
def test_a_box_is_known_by_its_control_group(sleeper: Callable[[], int]):
    name = f"lease-{os.getpid()}-0.0"
    group = cgroups.open_group(name, 1 << 28, 16)
    assert group is not None
    try:
        pid = sleeper()
        assert leases.box_of(pid) == ""
        for folder in group.folders:
            (folder / "cgroup.procs").write_text(str(pid))
        assert leases.box_of(pid) == name
    finally:
        group.close()


# shares


def test_shares_add_up_to_a_card_at_most(tmp_path: Path):
    room = Room(tmp_path, Gpu(A, total=24 * GIB), shared=(A,))
    with room.leases.lease("j0-0.", memory=10 * GIB) as first, room.leases.lease("j0-1.", memory=10 * GIB) as second:
        assert (first.share, second.share) == (10 * GIB, 10 * GIB)
        with pytest.raises(LeaseError, match="no card in time"):
            room.serves(memory=10 * GIB)


def test_whole_and_shared_do_not_mix(tmp_path: Path):
    room = Room(tmp_path, Gpu(A), shared=(A,))
    with room.leases.lease("j0-0.", memory=2 * GIB), pytest.raises(LeaseError):
        room.serves()
    with room.leases.lease("j0-0."), pytest.raises(LeaseError):
        room.serves(memory=2 * GIB)


def test_a_neighbour_on_a_shared_card_is_no_squatter(tmp_path: Path, sleeper: Callable[[], int]):
    gpu = Gpu(A)
    room = Room(tmp_path, gpu, shared=(A,))
    with room.leases.lease("j0-0.", memory=10 * GIB):
        pid = sleeper()
        room.boxes[pid] = "j0-0.0"
        gpu.processes[pid] = 5 * GIB
        assert room.serves(memory=10 * GIB) == [A]
        assert runs(pid)


def test_who_takes_more_than_its_share_is_ended_and_its_neighbour_is_not(tmp_path: Path, sleeper: Callable[[], int]):
    gpu = Gpu(A)
    room = Room(tmp_path, gpu, shared=(A,))
    with room.leases.lease("j0-0.", memory=4 * GIB) as greedy, room.leases.lease("j0-1.", memory=4 * GIB):
        pids = [sleeper(), sleeper()]
        room.boxes |= {pids[0]: "j0-0.0", pids[1]: "j0-1.0"}
        gpu.processes |= {pids[0]: 6 * GIB, pids[1]: 4 * GIB}
        until(lambda: greedy.overdrawn, "it is seen")
        until(lambda: not runs(pids[0]), "it is ended")
        assert greedy.overdrawn[0] == "6,144 MiB of card GPU-a used, 4,096 MiB leased"
        assert runs(pids[1])


def test_a_share_tells_tensorflow_its_limit_and_a_whole_card_does_not(tmp_path: Path):
    room = Room(tmp_path, Gpu(A), shared=(A,))
    with room.leases.lease("j0-0.", memory=4 * GIB) as lease:
        assert lease.environment()["ACROSS_GPU_MEMORY"] == str(4096 - leases.CONTEXT // leases.MIB)
    with room.leases.lease("j0-0.") as lease:
        assert "ACROSS_GPU_MEMORY" not in lease.environment()


def test_a_share_too_small_for_cuda_itself_is_refused(tmp_path: Path):
    room = Room(tmp_path, Gpu(A), shared=(A,))
    with pytest.raises(LeaseError, match="ask for more"):
        room.serves(memory=100 << 20)


# what a box is told


def test_a_lease_shows_its_cards_and_no_other(tmp_path: Path):
    room = Room(tmp_path, Gpu(A), Gpu(B, minor=3))
    with room.leases.lease("j0-0."), room.leases.lease("j0-1.") as lease:
        assert lease.environment()["CUDA_VISIBLE_DEVICES"] == B
        assert lease.nodes == ("/dev/nvidia3", "/dev/nvidiactl", "/dev/nvidia-uvm")


def test_a_pair_is_visible_as_a_pair(tmp_path: Path):
    room = Room(tmp_path, Gpu(A), Gpu(B, minor=1))
    with room.leases.lease("j0-0.", 2) as lease:
        assert lease.environment()["CUDA_VISIBLE_DEVICES"] == f"{A},{B}"
        assert {"/dev/nvidia0", "/dev/nvidia1"} < set(lease.nodes)


@pytest.fixture
def sliced(tmp_path: Path) -> Cards:
    """A card cut by MIG into two slices, and the files by which the driver says how to open them."""
    for instance, minors in ((1, (12, 13)), (2, (21, 22))):
        for place, minor in zip((f"gi{instance}", f"gi{instance}/ci0"), minors, strict=True):
            file = tmp_path / "capabilities" / "gpu0" / "mig" / place / "access"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
    slices = [Gpu("MIG-1", 10 * GIB, instance=1), None, Gpu("MIG-2", 20 * GIB, instance=2)]
    return invented(Gpu(A, slices=slices), capabilities=tmp_path / "capabilities")


def test_a_slice_is_named_by_its_uuid_and_opened_by_its_own_capabilities(sliced: Cards):
    assert [(card.uuid, card.total, card.nodes[3:]) for card in sliced.found()] == [
        ("MIG-1", 10 * GIB, ("/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13")),
        ("MIG-2", 20 * GIB, ("/dev/nvidia-caps/nvidia-cap21", "/dev/nvidia-caps/nvidia-cap22")),
    ]


def test_who_needs_less_gets_the_smallest_slice_that_is_enough(sliced: Cards, tmp_path: Path):
    slots, _ = declared(tmp_path / "gpus.toml", sliced)
    here = Leases(sliced, Ledger(tmp_path / "ledger"), slots)
    with here.lease("j0-0.", memory=4 * GIB) as small, here.lease("j0-1.", memory=4 * GIB) as next_one:
        assert [card.uuid for card in (*small.cards, *next_one.cards)] == ["MIG-1", "MIG-2"]
        assert small.share == 0  # a slice is a wall: nothing is shared


def test_two_slices_are_no_pair_of_cards(sliced: Cards, tmp_path: Path):
    slots, _ = declared(tmp_path / "gpus.toml", sliced)
    with (
        pytest.raises(LeaseError, match="this machine has 0"),
        Leases(sliced, Ledger(tmp_path / "ledger"), slots).lease("j0-0.", 2),
    ):
        pass


# which cards there are


@pytest.mark.parametrize("error", [LibraryNotFoundError(), DriverNotLoadedError()])
def test_a_machine_without_a_driver_has_no_cards(error: Exception):
    assert Cards(FakeNvml(Gpu(A), starts=error)).found() == ()  # type: ignore[arg-type]


def test_a_driver_that_is_out_of_step_is_said():
    with pytest.raises(CardsError, match=r"version mismatch; .* reboot"):
        Cards(FakeNvml(Gpu(A), starts=VersionMismatchError())).found()


def test_a_card_in_mig_mode_without_a_slice_is_said_with_its_mend(tmp_path: Path):
    here = Leases(invented(Gpu(A, slices=[None, None])), Ledger(tmp_path), [])
    why = r"this machine has 0; card 0: in MIG mode and has no slice: .*-cgi.* `nvidia-smi -i 0 -mig 0`"
    with pytest.raises(LeaseError, match=why), here.lease("j0-0."):
        pass


@pytest.mark.parametrize("missing", ["/dev/nvidia1", "/dev/nvidia-uvm"])
def test_a_card_without_its_device_file_is_not_lent_and_said_with_its_mend(tmp_path: Path, missing: str):
    cards = Cards(FakeNvml(Gpu(A, minor=1)), exists=lambda node: node != missing)
    here = Leases(cards, Ledger(tmp_path), [])
    why = rf"this machine has 0; card 0: {missing} missing, .*`nvidia-modprobe -u -c 1` .*--device {missing}"
    with pytest.raises(LeaseError, match=why), here.lease("j0-0."):
        pass


def test_only_declared_cards_are_lent(tmp_path: Path):
    file = tmp_path / "gpus.toml"
    file.write_text('idle_mib = 500\n[[slot]]\nuuid = "GPU-b"\n')
    assert declared(file, invented(Gpu(A), Gpu(B))) == ([Slot(B, 24 * GIB)], 500 << 20)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[[slot]]\nuuid = "GPU-x"', r"gpus.toml, slot 1: NVML finds no card 'GPU-x'; it finds: GPU-a"),
        ('[[slot]]\nuid = "GPU-a"', "slot 1: unknown key 'uid'"),
        ('[[slot]]\nuuid = "GPU-a"\n[[slot]]\nuuid = "GPU-a"', "slot 2: card GPU-a a second time"),
        ('[[slot]]\nuuid = "GPU-a"\nshared = 1', "write true or false"),
        ("[slot]\n", "two brackets"),
        ("idle = 3", "unknown key 'idle'"),
        ("idle_mib = -1", "a number of MiB"),
        ("slot", "cannot be read"),
    ],
)
def test_a_slip_in_the_declaration_is_named(tmp_path: Path, text: str, why: str):
    file = tmp_path / "gpus.toml"
    file.write_text(text)
    with pytest.raises(LeaseError, match=why):
        declared(file, invented(Gpu(A)))


# any order of events

SLOTS = [Slot(A, 24), Slot(B, 24, shared=True), Slot("MIG-1", 10, slice=True)]


class Line(RuleBasedStateMachine):
    """Anybody may ask, look whether it is his turn, and give back, in any order; cards fall ill and get well."""

    waiting, having = Bundle("waiting"), Bundle("having")

    @initialize()
    def empty(self) -> None:
        self.entries: dict[int, Entry] = {}
        self.ill: set[str] = set()
        self.last = 0

    @rule(target=waiting, count=st.integers(1, 2), memory=st.sampled_from([0, 5, 8, 12, 24]))
    def ask(self, count: int, memory: int) -> int:
        self.last += 1
        self.entries[self.last] = Entry(self.last, f"j{self.last}.", 1, Wish(count, memory))
        return self.last

    @rule(number=waiting)
    def look(self, number: int) -> None:
        if number not in self.entries or self.entries[number].got:
            return
        got = self.turn(number)
        if got is not None:
            self.entries[number] = Entry(number, f"j{number}.", 1, self.entries[number].wish, got)

    def turn(self, number: int) -> dict[str, int] | None:
        return ledger.turn([s for s in SLOTS if s.uuid not in self.ill], list(self.entries.values()), number)

    @rule(number=consumes(waiting))
    def leave(self, number: int) -> None:
        self.entries.pop(number, None)

    @rule(uuid=st.sampled_from([A, B, "MIG-1"]))
    def fall_ill_or_get_well(self, uuid: str) -> None:
        self.ill ^= {uuid}

    @invariant()
    def nobody_has_more_than_there_is(self) -> None:
        taken = ledger.held(list(self.entries.values()))
        assert all(taken.get(slot.uuid, 0) <= slot.total for slot in SLOTS)

    @invariant()
    def only_a_shared_card_has_two(self) -> None:
        for uuid in (A, "MIG-1"):
            assert sum(uuid in entry.got for entry in self.entries.values()) <= 1

    @invariant()
    def whoever_gets_a_card_gets_all_that_he_asked_for(self) -> None:
        for entry in self.entries.values():
            if entry.got:
                assert len(entry.got) == entry.wish.count
                assert min(entry.got.values()) >= entry.wish.memory
                assert entry.wish.count == 1 or "MIG-1" not in entry.got  # no process sees a slice and a card

    @invariant()
    def the_first_that_can_be_served_when_all_is_free_is_served(self) -> None:
        if any(entry.got for entry in self.entries.values()):
            return
        well = [slot for slot in SLOTS if slot.uuid not in self.ill]
        for number in sorted(self.entries):
            if ledger.allot(well, {}, self.entries[number].wish) is not None:
                assert self.turn(number) is not None
                return


TestLine = Line.TestCase
TestLine.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
