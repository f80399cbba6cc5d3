"""What a box takes of the machine: its own room for bytes and files, bounded, and nothing that a neighbour would miss."""

import os
import resource
import secrets
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from boxed import CAPS, fork_into, inherited, inside, needs_a_box, needs_groups, root_only, tried
from test_full_disk import MAY

from autograder.sandbox import boxes, bubblewrap

HERE = Path(__file__).parent
pytestmark = needs_a_box
PLACES = ("/box", "/tmp", "/dev/shm")


def fill():
    """Write as much as there is room for, in each place; bytes written."""
    written = {}
    for place in PLACES:
        written[place] = 0
        for number in range(1000):
            try:
                with open(f"{place}/{number}", "wb", buffering=0) as file:
                    written[place] += file.write(bytes(1 << 20))
            except OSError:
                break
    return written


def name_files():
    """Make as many empty files as there may be, in each place; how many."""
    made = {}
    for place in PLACES:
        made[place] = 0
        while made[place] < 100_000:
            try:
                os.mknod(f"{place}/{made[place]}")
            except OSError:
                break
            made[place] += 1
    return made


def test_it_has_room_for_so_many_bytes_and_no_more(in_each_box):
    written, _ = in_each_box(fill)
    assert all(CAPS.tmp - (1 << 20) <= size <= CAPS.tmp for size in written.values()), written


def test_it_has_room_for_so_many_files_and_no_more(in_each_box):
    made, _ = in_each_box(name_files)
    most = bubblewrap.files(CAPS.tmp)
    assert all(most[place] - 8 <= count <= most[place] for place, count in made.items()), made


def elsewhere():
    """Folders outside of `PLACES` in which a file can be made."""
    found = []
    for folder, folders, _ in os.walk("/"):
        if folder in PLACES or folder == "/proc":
            folders.clear()
        elif tried(lambda folder=folder: os.close(os.open(f"{folder}/x", os.O_CREAT))) == ["done"]:
            found.append(folder)
    return found


@pytest.mark.whole
def test_nowhere_else_can_a_file_be_made(in_each_box):
    assert in_each_box(elsewhere) == [[], 0]


def environments():
    """What can be read of the environments of the processes in a box but our own."""
    text = ""
    for process in Path("/proc").glob("[0-9]*"):
        if process.name != str(os.getpid()):
            try:
                text += (process / "environ").read_text()
            except OSError:
                continue
    return text


@root_only
def test_the_graders_environment_cannot_be_read_in_an_ordinary_users_box(as_nobody, monkeypatch):
    secret = secrets.token_hex(8)
    monkeypatch.setenv("SECRET", secret)
    assert secret not in as_nobody(lambda: inside(environments)[0])


def taken_over():
    """What is got of process 1, which is of the same user: memory, descriptors, limits; and how it is seen that it runs."""
    ways = {
        "memory": lambda: os.close(os.open("/proc/1/mem", os.O_RDWR)),
        "map": lambda: Path("/proc/1/maps").read_bytes(),
        "environment": lambda: Path("/proc/1/environ").read_bytes(),
        "descriptors": lambda: os.listdir("/proc/1/fd"),
        "program": lambda: Path(bubblewrap.SLEEP).read_bytes(),
        "another program": lambda: os.chmod(bubblewrap.SLEEP, 0o755),
        "one more": lambda: Path("/sleeps").write_bytes(b""),
        "limits": lambda: resource.prlimit(1, resource.RLIMIT_CPU, (0, 0)),
        "life": lambda: os.kill(1, signal.SIGKILL),
    }
    got = []
    for way, take in ways.items():
        try:
            take()
        except OSError:
            continue
        got.append(way)
    time.sleep(0.2)
    return [got, Path("/proc/1/cmdline").read_bytes().split(b"\0")[0].decode()]


@root_only
def test_process_1_of_an_ordinary_users_box_cannot_be_taken_over(as_nobody):
    got, runs = as_nobody(lambda: inside(taken_over)[0])
    # who sleeps uses no processor, and to the first process of a namespace no signal from there does anything
    assert got == ["limits", "life"]
    assert runs == bubblewrap.SLEEP


TAKEN = """
import sys
sys.path[:0] = sys.argv[1:]
from boxed import inside
import os
assert os.statvfs("/dev/shm").f_bavail == 0
print(inside(lambda: [open("/box/x", "w").write("x"), open("/dev/shm/x", "w").write("x")])[:2])
"""


@pytest.mark.skipif(not MAY, reason="a small /dev/shm needs a mount namespace, and this user may not make one")
@pytest.mark.parametrize(
    "taken", ["head -c 100M /dev/zero >/dev/shm/fill", "i=0; while : >/dev/shm/$i; do i=$((i+1)); done"]
)
def test_a_neighbour_that_took_all_of_the_machines_dev_shm_takes_nothing_from_a_box(taken):
    small = f"mount -t tmpfs -o size=1m,nr_inodes=500 tmpfs /dev/shm; ({taken}) 2>/dev/null; "
    small += "head -c 2M /dev/zero >>/dev/shm/0 2>/dev/null; "
    command = ["unshare", "-m", "sh", "-c", small + 'exec "$@"', "sh", sys.executable, "-c", TAKEN, str(HERE)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.stdout.strip() == "([1, 1], 0)", ran.stderr


def bomb():
    """Have as many processes as there may be, and try for more."""
    while True:
        try:
            if os.fork() == 0:
                while True:
                    signal.pause()
        except BlockingIOError:
            time.sleep(0.001)


def refusals(function, enough):
    """How many forks were refused to `function`, asked until it is done or that is `enough`."""
    # each is a fork of pytest: its tables of pages alone may fill a small box
    with boxes.Box(f"forks-{os.getpid()}", replace(CAPS, memory=(8 << 30) + CAPS.pids * inherited())) as box:
        child = fork_into(box, function)
        until = time.monotonic() + 20.0
        while box.forks_refused() < enough and os.waitpid(child, os.WNOHANG)[0] == 0 and time.monotonic() < until:
            time.sleep(0.01)
        return box.forks_refused()


@needs_groups
@pytest.mark.whole
def test_it_tells_that_forks_were_refused():
    assert refusals(bomb, 5) >= 5
    assert refusals(lambda: None, 1) == 0


@root_only
@pytest.mark.whole
def test_an_ordinary_users_box_tells_that_forks_were_refused(as_nobody):
    assert as_nobody(lambda: refusals(bomb, 1)) == 1
    assert as_nobody(lambda: refusals(lambda: time.sleep(0.5), 1)) == 0


def store():
    """Fill the folders, and live on."""
    fill()
    time.sleep(60)


@root_only
@pytest.mark.parametrize(("function", "outcome"), [(store, True), (lambda: time.sleep(0.5), False)])
def test_without_control_groups_memory_that_is_a_files_counts_as_well(as_nobody, function, outcome):
    caps = replace(CAPS, memory=400 << 20, tmp=300 << 20)  # no one place holds too much, and all of them do
    assert as_nobody(lambda: inside(function, caps)[2].out_of_memory) is outcome


def test_a_folder_inside_is_opened_and_nothing_that_only_leads_away():
    def makes():
        os.mkdir("/box/run")
        os.symlink("/etc", "/box/away")
        Path("/box/run/x").write_text("here")

    with boxes.Box(f"folders-{os.getpid()}", CAPS) as box:
        os.waitpid(fork_into(box, makes), 0)
        folder = box.open_inside("run")
        with open(os.open("x", os.O_RDONLY, dir_fd=folder)) as file:
            assert file.read() == "here"
        os.close(folder)
        for name in ("away", "nothing"):
            with pytest.raises(OSError, match=r"No such file|Not a directory|Too many levels"):
                box.open_inside(name)
        for name in ("..", ".", "", "run/..", "/etc"):
            with pytest.raises(ValueError, match="no name of a folder"):
                box.open_inside(name)
