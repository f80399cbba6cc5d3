"""A check's peers and lives: what they saw is evidence, for no student's code was ever where they are."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path

import pytest
from boxed import CAPS, DEVICES, fork_into, needs_a_box, root_only
from courses import write

from autograder.authoring import check_answer
from autograder.job import forkserver
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


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    return write(tmp_path_factory.mktemp("peers"), NAME, SOURCE, CHECKS)


def marks(course, **answers):
    rubric = forkserver.make_rubric(course, NAME)
    verdict = grade_job(Job(Submission("ada", NAME, {**solved(course), **answers}), rubric, 1), course)
    return {mark.exercise: (mark.points, mark.message) for mark in verdict.marks}, verdict


def solved(course):
    from autograder.authoring import build

    return build.solution_source(course, NAME)


@needs_a_box
def test_what_does_it_passes(course):
    assert {name: points for name, (points, _) in marks(course)[0].items()} == {"send": 2.0, "count": 2.0, "said": 2.0}


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
        forkserver.read_plan(made, NAME)


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
