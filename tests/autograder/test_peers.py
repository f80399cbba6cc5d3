"""A check's peers and lives: what they saw is evidence, for no student's code was ever where they are."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from pathlib import Path

import pytest
from boxed import CAPS, DEVICES, fork_into, needs_a_box, root_only
from courses import write

from autograder.authoring import check_answer
from autograder.job import forkserver, peers
from autograder.job.forkserver import InfrastructureError
from autograder.job.grade import Job, grade_job
from autograder.model.course import CourseError
from autograder.sandbox import boxes
from autograder.submissions.intake import Submission

NAME = "91_peers"
SOURCE = """\
# %% [markdown]
# # Peers

# %%
import os, socket

# %% answer="send"
def send(port, word):
    ### BEGIN SOLUTION
    with socket.create_connection(("127.0.0.1", port), timeout=5) as to:
        to.sendall(word.encode())
    return "sent"
    ### END SOLUTION

# %% check="send" points=2
assert callable(send)

# %% answer="count"
def count(folder):
    ### BEGIN SOLUTION
    place = os.path.join(folder, "count")
    done = int(open(place).read()) if os.path.exists(place) else 0
    with open(place, "w") as file:
        file.write(str(done + 1))
    return done + 1
    ### END SOLUTION

# %% check="count" points=2
assert callable(count)

# %% answer="said"
def said():
    ### BEGIN SOLUTION
    return 1
    ### END SOLUTION

# %% check="said" points=2
assert callable(said)
"""
CHECKS = """\
from autograder.probe.asking import exercise, probe

@probe
def listens(peer):
    import os, socket, subprocess
    kept["server"] = socket.create_server(("127.0.0.1", 0))
    if os.path.isdir("/box"):
        for place in ("/box", "/tmp", "/dev/shm"):
            open(f"{place}/mine", "w").write("nobody sees this")
        kept["sleep"] = subprocess.Popen(["sleep", "4711.25"])
    return [kept["server"].getsockname()[1], sorted(vars(peer)["_namespace"])]

@probe
def heard(peer):
    kept["server"].settimeout(0.2)
    try:
        return kept["server"].accept()[0].recv(100).decode()
    except TimeoutError:
        return ""

@probe
def sends(student, port, word):
    return student.send(port, word)

@probe
def looks(student):
    return student.looked()

@probe
def counts(student, files):
    import os, tempfile
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            open(os.path.join(folder, name), "wb").write(content)
        got = student.count(folder)
        return [got, {name: open(os.path.join(folder, name), "rb").read() for name in os.listdir(folder)}]

@exercise("send")
def test_the_word_arrives(student, peer, rng):
    port, names = peer.ask(listens)
    assert names == [], names
    word = str(rng.integers(1 << 30))
    if student.ask(sends, port=port, word=word) == "and looked":
        looked = student.ask(looks)
        assert not looked, f"Your code saw {looked}."
    assert peer.ask(heard) == word, "Nobody heard the word."

@exercise("count")
def test_a_death_is_survived_by_the_folder_alone(lives):
    files = {}
    for number in (1, 2, 3):
        got, files = lives().ask(counts, files=files)
        assert got == number, f"Life {number} counted {got}."

@exercise("said")
def test_it_is_one(student):
    assert student.ask(says) == 1, "It is not one."

@exercise("said", weak=True)
def test_it_says_so(student):
    assert student.ask(says) == 1, "It is not one."

@probe
def says(student):
    return student.said()
"""
LOOKS = """
def looked():
    seen = [place for place in ("/box", "/tmp", "/dev/shm") if os.path.exists(place + "/mine")]
    for each in os.listdir("/proc"):
        if each.isdigit() and b"4711.25" in open("/proc/" + each + "/cmdline", "rb").read():
            seen.append(each)
    return seen

def send(port, word):
    with socket.create_connection(("127.0.0.1", port), timeout=5) as to:
        to.sendall(word.encode())
    return "and looked"
"""
REMEMBERS = "import builtins\n_lives = []\n\ndef count(folder):\n    _lives.append(1)\n    return len(_lives)\n"
LEAVES = """
import glob
def count(folder):
    for place in ("/tmp/count", "/dev/shm/count", "/box/count"):
        with open(place, "a") as file:
            file.write("x")
    return max(len(open(place).read()) for place in ("/tmp/count", "/dev/shm/count", "/box/count"))
"""
SLOW_TO_SEND = """
def send(port, word):
    import time
    time.sleep(0.5)
    with socket.create_connection(("127.0.0.1", port), timeout=5) as to:
        to.sendall(word.encode())
"""
KILLS_ALL_OTHERS = """
def send(port, word):
    import signal
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        pass
    with socket.create_connection(("127.0.0.1", port), timeout=5) as to:
        to.sendall(word.encode())
"""
KILLS_ITSELF = "def count(folder):\n    import signal\n    os.kill(os.getpid(), signal.SIGKILL)\n"
TAKES_ALL_MEMORY = "def count(folder):\n    return len(bytearray(os.urandom(1 << 20)) * 4096)\n"
TAKES_ALL_THREADS = """
import threading, time
try:
    while True:
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
except RuntimeError:
    pass

def send(port, word):
    return "sent"
"""
FULL = {"send": 2.0, "count": 2.0, "said": 2.0}


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    return write(tmp_path_factory.mktemp("peers"), NAME, SOURCE, CHECKS)


def marks(course, limits=None, **answers):
    rubric = forkserver.make_rubric(course, NAME, limits=limits)
    verdict = grade_job(Job(Submission("ada", NAME, {**solved(course), **answers}), rubric, 1), course)
    return {mark.exercise: (mark.points, mark.message) for mark in verdict.marks}, verdict


def points(found):
    return {name: points for name, (points, _) in found.items()}


def solved(course):
    from autograder.authoring import build

    return build.solution_source(course, NAME)


@needs_a_box
def test_what_does_it_passes(course):
    assert points(marks(course)[0]) == FULL


@needs_a_box
def test_what_only_says_so_does_not(course):
    found, _ = marks(course, send='def send(port, word):\n    return "sent"\n', count=REMEMBERS)
    assert found["send"] == (0.0, "Nobody heard the word.")
    assert found["count"] == (0.0, "Life 2 counted 1.")


@needs_a_box
def test_a_peer_is_out_of_sight_of_who_shares_its_network(course):
    assert marks(course, send=LOOKS)[0]["send"] == (2.0, "Passed.")


@needs_a_box
def test_a_life_finds_nothing_in_the_places_where_another_left_it(course):
    assert marks(course, count=LEAVES)[0]["count"] == (0.0, "Life 2 counted 1.")


@pytest.fixture
def made(monkeypatch):
    """Has `after(child)` called for the first process of a kind that is made, or for each; `request` changes what is asked."""
    real = peers.warm.request

    def disturb(kind, after=lambda child: None, request=lambda asked: asked, times=1):
        left = [times]

        def disturbed(server, asked, descriptors=()):
            if asked.get("as") != kind or not left[0]:
                return real(server, asked, descriptors)
            left[0] -= 1
            child = real(server, request(asked), descriptors)
            after(child)
            return child

        monkeypatch.setattr(peers.warm, "request", disturbed)

    return disturb


def kill(child):
    os.kill(child.pid, signal.SIGKILL)


@needs_a_box
@pytest.mark.parametrize("kind", [peers.PEER, peers.LIFE])
def test_one_that_is_killed_from_outside_costs_no_mark(course, made, kind):
    made(kind, kill)
    assert points(marks(course)[0]) == FULL


@needs_a_box
def test_a_peer_that_is_killed_while_the_answer_needs_it_costs_no_mark(course, made):
    def when_it_listens(child):
        def wait():
            time.sleep(0.3)
            kill(child)

        threading.Thread(target=wait).start()

    made(peers.PEER, when_it_listens)
    assert points(marks(course, send=SLOW_TO_SEND)[0]) == FULL


@needs_a_box
def test_an_answer_cannot_kill_a_peer(course):
    found, verdict = marks(course, send=KILLS_ALL_OTHERS)
    assert found["send"] == (2.0, "Passed.")
    assert verdict.evidence.lives == 1


@needs_a_box
def test_a_life_that_kills_itself_is_believed_once_and_earns_nothing(course):
    found, verdict = marks(course, count=KILLS_ITSELF)
    assert points(found) == {**FULL, "count": 0.0}
    assert "ended its kernel" in found["count"][1]
    assert verdict.evidence.lives == 3  # two are asked about `count`, and one about what is left


@needs_a_box
def test_a_life_without_memory_has_reached_its_limit(course):
    found, verdict = marks(course, {"memory_bytes": 512 << 20}, count=TAKES_ALL_MEMORY)
    assert found["count"][1].endswith("your code used more memory than there is for it.")
    assert verdict.evidence.lives == 2


@needs_a_box
@pytest.mark.parametrize("kind", [peers.PEER, peers.LIFE])
def test_one_that_cannot_begin_is_this_machines_fault(course, made, kind):
    made(kind, request=lambda asked: {**asked, "groups": ["/no/such/group"]})
    with pytest.raises(
        InfrastructureError, match=f"a {kind} ended with code 1 before it had begun: (?s:.*)/no/such/group"
    ):
        marks(course)


@needs_a_box
def test_one_that_is_killed_again_before_it_has_begun_is_this_machines_fault(course, made, tmp_path):
    os.mkfifo(tmp_path / "cgroup.procs")  # to open it waits until somebody reads: it stands before its box
    made(peers.PEER, kill, lambda asked: {**asked, "groups": [str(tmp_path)]}, times=2)
    with pytest.raises(InfrastructureError, match="a peer ended with code -9 before it had begun"):
        marks(course)


@needs_a_box
def test_a_peer_for_which_the_answer_leaves_no_process_is_the_students_fault(course):
    assert marks(course, {"pids": 64}, send=TAKES_ALL_THREADS)[0]["send"][0] == 0.0


@needs_a_box
def test_a_test_that_trusts_the_students_process_is_said_to_be_weak(course):
    _, verdict = marks(course)
    assert {each.test: each.weak for each in verdict.evidence.outcomes if each.exercise == "said"} == {
        "test_it_is_one": False,
        "test_it_says_so": True,
    }


def test_more_than_half_of_an_exercises_points_cannot_rest_on_that(tmp_path):
    checks = CHECKS.replace('@exercise("said", weak=True)', '@exercise("said", 1.5, weak=True)')
    made = write(tmp_path, NAME, SOURCE, checks)
    with pytest.raises(CourseError, match='exercise "said": weak tests have 60% of its points, and may have half'):
        forkserver.make_rubric(made, NAME)


@pytest.mark.whole
def test_an_author_at_work_has_peers_and_lives_without_a_box(course):
    for exercise in ("send", "count"):
        assert [each.says for each in check_answer.check(course, NAME, exercise, seeds=(1,)) if not each.passed] == []


def one_in_a_box_and_one_apart():
    """What who stands apart sees of who is in the box, whom it can talk to: see the assertion."""
    listens, tell = os.pipe()

    def stays():
        with socket.create_server(("127.0.0.1", 4711)) as listener:
            Path("/tmp/theirs").write_text("x")
            os.write(tell, b"\n")
            listener.accept()[0].sendall(b"heard")
            signal.pause()

    def looks():
        os.chdir("/box")
        with socket.create_connection(("127.0.0.1", 4711), timeout=20) as to:
            heard = to.recv(10).decode()
        Path("/box/own").write_text("can be written")
        processes = [each for each in os.listdir("/proc") if each.isdigit()]
        status = Path("/proc/self/status").read_text().splitlines()
        rights = [line.split()[1] for line in status if line.startswith(("CapEff", "NoNewPrivs", "Seccomp:"))]
        cards = [each for each in DEVICES if os.stat(each).st_rdev != os.stat("/dev/null").st_rdev]
        return [os.getpid(), processes, os.listdir("/tmp"), heard, cards, *rights]

    with boxes.Box(f"apart-{os.getpid()}", CAPS, devices=DEVICES) as box:
        fork_into(box, stays, apart=False)
        assert os.read(listens, 1) == b"\n"
        told, said = os.pipe()
        os.waitpid(fork_into(box, looks, said, apart=True), 0)
        os.close(said)
        with open(told) as answer:
            return json.loads(answer.read())


APART = [1, ["1"], [], "heard", [], "0000000000000000", "1", "2"]


@needs_a_box
def test_who_stands_apart_shares_the_network_and_nothing_else():
    assert one_in_a_box_and_one_apart() == APART


@needs_a_box
@root_only
def test_beside_an_ordinary_users_box_as_well(as_nobody):
    assert as_nobody(one_in_a_box_and_one_apart) == APART
