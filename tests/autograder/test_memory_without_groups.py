"""Without control groups: what a box holds is counted once, wherever it is kept, and nothing else is."""

import ctypes
import mmap
import os
import threading
import time
from dataclasses import replace

import pytest
from boxed import CAPS, inside

from autograder.sandbox import memory_watcher

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can become an ordinary user for this test")

MIB = 1 << 20
MUCH = 4 * CAPS.memory  # what a hog stops at where nobody stops it
PIECE = 8 * MIB
ROOMY = replace(CAPS, tmp=MUCH, file=MUCH)  # of which folders could hold more than its memory


def ended(function, forks=1):
    """For `as_nobody`: whether `function` was ended in its box, and whether that was for its memory."""

    def run():
        _, code, ended = inside(function, ROOMY, forks=forks)
        return [code != 0, ended.out_of_memory]

    return run


def pieces():
    """A moment for each piece that a hog takes."""
    for _ in range(MUCH // PIECE):
        yield
        time.sleep(0.005)


def kept_for_itself():
    kept = []
    for _ in pieces():
        kept.append(b"x" * PIECE)
    time.sleep(1)


def unseen():
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: its /proc is root's from here on
    kept_for_itself()


def shared_and_let_go():
    kept = []
    for _ in pieces():
        try:
            piece = mmap.mmap(-1, PIECE)
        except OSError:
            raise MemoryError from None
        piece.write(b"x" * PIECE)
        piece.madvise(mmap.MADV_DONTNEED)  # no longer this process's, and not free either
        kept.append(piece)
    time.sleep(1)


def in_files_of_no_name():
    for _ in pieces():
        try:
            os.write(os.memfd_create("x"), b"x" * PIECE)
        except OSError:
            raise MemoryError from None
    time.sleep(1)


def in_segments():
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    for _ in pieces():
        place = libc.shmat(libc.shmget(0, PIECE, 0o600), None, 0)
        if place in (None, ctypes.c_void_p(-1).value):
            raise MemoryError
        ctypes.memset(place, 1, PIECE)
        libc.shmdt(ctypes.c_void_p(place))
    time.sleep(1)


def of_a_device():
    with open("/dev/zero", "r+b") as zero:
        for _ in pieces():
            try:
                piece = mmap.mmap(zero.fileno(), PIECE)
            except (OSError, ValueError):
                raise MemoryError from None
            piece.write(b"x" * PIECE)
            piece.madvise(mmap.MADV_DONTNEED)
    time.sleep(1)


def whose_first_thread_has_ended():
    """The process is a zombie to /proc/PID/status and smaps_rollup, and its other threads keep what they took."""
    child = os.fork()
    if not child:
        threading.Thread(target=lambda: (kept_for_itself(), os._exit(0))).start()
        ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)  # exit, of one thread
    os.waitpid(child, 0)


@pytest.mark.parametrize("hog", [kept_for_itself, unseen, whose_first_thread_has_ended])
@pytest.mark.whole
def test_memory_that_a_hog_keeps_out_of_sight_ends_its_box(as_nobody, hog):
    assert as_nobody(ended(hog)) == [True, True]


@pytest.mark.parametrize("hog", [shared_and_let_go, in_files_of_no_name, in_segments, of_a_device])
def test_memory_that_no_process_shows_is_not_to_be_had(as_nobody, hog):
    assert as_nobody(ended(hog)) == [True, False]


POOL = 24


def forked(use):
    """Children that `use` what they inherit, alive at once for a second."""
    children = []
    for _ in range(POOL):
        child = os.fork()
        if not child:
            use()
            time.sleep(1)
            os._exit(0)
        children.append(child)
    if any(os.waitpid(child, 0)[1] for child in children):
        raise RuntimeError("a child was ended")


def a_pool_of_idle_forks():
    kept = b"x" * (100 * MIB)
    forked(lambda: kept[0])


def a_pool_that_shares():
    with open("/dev/shm/x", "w+b") as file:
        file.write(b"x" * (100 * MIB))
        file.flush()
        with mmap.mmap(file.fileno(), 100 * MIB) as kept:
            forked(lambda: kept[:: mmap.PAGESIZE])


@pytest.mark.parametrize("pool", [a_pool_of_idle_forks, a_pool_that_shares])
@pytest.mark.whole
def test_what_many_processes_share_is_counted_once(as_nobody, pool):
    assert as_nobody(ended(pool, POOL + 1)) == [False, False]


def test_what_lies_in_the_boxs_folders_counts(as_nobody):
    def fill():
        with open("/dev/shm/x", "wb") as file:
            for _ in pieces():
                file.write(b"x" * PIECE)
        time.sleep(1)

    assert as_nobody(ended(fill)) == [True, True]


@pytest.mark.parametrize(("shares", "killed"), [([200, 50], False), ([200], True)])
def test_who_forks_while_it_is_looked_at_is_looked_at_again(monkeypatch, shares, killed):
    """Each look finds one process more; what they are said to share is too much at the first look, or at every one."""
    looks, said = iter(range(1, 1_000_000)), []
    found = lambda pid: memory_watcher.Used(dict.fromkeys(map(str, range(next(looks))), 1000), 1)  # noqa: E731

    def proportional(used):
        said.append(used)
        return shares[min(len(said), len(shares)) - 1]

    monkeypatch.setattr(memory_watcher, "used_by", found)
    monkeypatch.setattr(memory_watcher, "proportional", proportional)
    over = threading.Event()
    watcher = memory_watcher.MemoryWatcher(os.getpid(), 100, 10, [], over.set)
    over.wait(1.0)
    watcher.close()
    assert (watcher.killed, over.is_set()) == (killed, killed)
    assert len(said) >= 2
