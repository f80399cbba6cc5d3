"""Nothing is lost, doubled or half-written, whatever is killed and whenever; nobody is marked down for it."""

import os
import random
import shutil
import signal
import time

import chaos
import courses
import pytest
from boxed import needs_a_box
from small_course import CHECKS, NAME, RIGHT, SOURCE
from test_full_disk import MAY

from autograder.store import files

pytestmark = [pytest.mark.classes, needs_a_box]

MOMENTS = int(os.environ.get("ACROSS_CHAOS_MOMENTS", "50"))
SEED = int(os.environ.get("ACROSS_CHAOS_SEED", "4"))
INNER = ("checker server", "driver server", "driver", "checker", "kernel", "bwrap", "process 1")
CLASS = {
    "ada": RIGHT,
    "bob": RIGHT | {"double": "def double(x):\n    return x * x"},
    "cem": {},
    "dan": RIGHT | {"shift": "def shift(x, by):\n    raise ValueError('no')"},
    "eve": RIGHT | {"double": "import os; os._exit(3)"},
    "fay": RIGHT | {"shift": "def shift(x, by):\n    import os, signal; os.kill(os.getpid(), signal.SIGKILL)"},
    "gil": RIGHT | {"why": "Because I say so."},
}


class Class:
    """A course, eight submissions, and what an undisturbed run makes of them."""

    def __init__(self, folder):
        self.folder, self.root = folder, folder / "course"
        course = courses.write(self.root, NAME, SOURCE, CHECKS)
        self.submissions = courses.handed_in(course, folder / "submissions", NAME, CLASS)
        courses.hand_in(self.submissions, "hal", NAME, b"{")  # what was handed in is no notebook
        for student in ("ada", "fay"):
            (self.submissions / student / NAME / "timestamp.txt").write_text("2026-03-01 10:00:00 UTC")
        self.runs = 0
        calm = self.grade(folder / "calm")
        assert calm.end() == 0, calm.said
        self.seconds = time.monotonic() - calm.began
        self.wanted = chaos.meaning(folder / "calm")
        assert chaos.leftovers(calm.mark, [calm.process.pid]) == []

    def grade(self, out, prefix=(), **environment):
        """Start the command on `out`; the class's secret is the same in every OUT, so that marks can be compared."""
        out.mkdir(exist_ok=True)
        if (seed := self.folder / "calm" / ".seed").exists() and not (out / ".seed").exists():
            shutil.copy(seed, out)
        self.runs += 1
        mark = self.folder / f"mark{self.runs}-"
        return chaos.Run(self.root, self.submissions, out, mark, NAME, prefix, **environment)

    def disturbed(self, kind, delay=0.0, after=""):
        """One run in which a `kind` is killed, gone on with if it was the grader; what was killed, and when."""
        out = self.folder / f"out{self.runs}"
        runs = [run := self.grade(out)]
        try:
            struck = run.strike(kind, delay, out / after)
            code = run.end()
            if struck and kind == "grader":
                assert code == -signal.SIGKILL, run.said
                runs.append(run := self.grade(out))
                code = run.end()
            assert code == 0, f"{struck}: {run.said}"
            assert "Traceback" not in run.said, f"{struck}: {run.said}"
            got = chaos.meaning(out)
            assert got.keys() == self.wanted.keys(), struck
            assert [name for name in got if got[name] != self.wanted[name]] == [], f"{struck}; see {out}"
            for run in runs:
                assert chaos.leftovers(run.mark, [each.process.pid for each in runs]) == [], struck
            shutil.rmtree(out)
            return struck
        finally:
            for run in runs:
                run.close()


@pytest.fixture(scope="module")
def eight(tmp_path_factory):
    """A class of eight, graded once undisturbed."""
    return Class(tmp_path_factory.mktemp("chaos"))


def test_the_grader_killed_in_the_middle_goes_on_where_it_was(eight):
    assert eight.disturbed("grader", after=f"autograded/bob/{NAME}/{NAME}.ipynb")


@pytest.mark.parametrize("victim", ["student server", *(pytest.param(v, marks=pytest.mark.slow) for v in INNER)])
def test_what_is_killed_from_outside_costs_nobody_a_mark(eight, victim):
    assert eight.disturbed(victim, after="gradebook.db")  # the reference is done, the class is not


@pytest.mark.slow
def test_any_victim_at_any_moment(eight):
    dice, seconds, struck = random.Random(SEED), eight.seconds, 0
    print(f"ACROSS_CHAOS_SEED={SEED} ACROSS_CHAOS_MOMENTS={MOMENTS}; undisturbed: {seconds:.1f} s")
    for moment in range(2 * MOMENTS):
        kind, delay = chaos.VICTIMS[moment % len(chaos.VICTIMS)], dice.uniform(0, seconds)
        hit = eight.disturbed(kind, delay)
        print(f"{moment}: {hit or f'no {kind} after {delay:.2f} s'}", flush=True)
        struck += bool(hit)
        seconds *= 1.0 if hit else 0.95  # the run had ended by then: the machine has less to do than it had
        if struck == MOMENTS:
            return
    pytest.fail(f"only {struck} of {2 * MOMENTS} were met alive")


@pytest.mark.skipif(not MAY, reason="a small /dev/shm needs a mount namespace, and this user may not make one")
def test_a_dev_shm_that_others_have_filled_costs_nobody_anything(eight):
    out = eight.folder / "crowded"
    fill = "mount -t tmpfs -o size=16m tmpfs /dev/shm; head -c 100M /dev/zero >/dev/shm/fill; exec "
    crowded = eight.grade(out, prefix=["unshare", "-m", "sh", "-c", fill + '"$@"', "sh"])
    try:
        assert crowded.end() == 0, crowded.said
        assert chaos.meaning(out) == eight.wanted
        assert chaos.leftovers(crowded.mark, [crowded.process.pid]) == []
    finally:
        crowded.close()


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interrupt_ends_all_that_was_started_and_keeps_what_was_graded(eight, number):
    out = eight.folder / f"interrupted-{number}"
    run = eight.grade(out)
    try:
        until = time.monotonic() + chaos.PATIENCE
        while not list(out.glob("autograded/*/*/*.ipynb")) and time.monotonic() < until:  # the first one is recorded
            time.sleep(0.005)
        os.killpg(run.process.pid, number)  # as a terminal does: all of them
        assert run.end() == 128 + number, run.said
        assert "run the same command again" in run.said
        assert "Traceback" not in run.said
        assert chaos.leftovers(run.mark, [run.process.pid], deadline=10.0) == []
    finally:
        run.close()
    again = eight.grade(out)
    try:
        assert again.end() == 0, again.said
        assert " 0 unchanged" not in again.said
        assert chaos.meaning(out) == eight.wanted
    finally:
        again.close()


def test_a_second_grader_on_the_same_out_waits_and_writes_nothing_meanwhile(eight):
    out = eight.folder / "shared"
    with files.only_writer(out):
        second = eight.grade(out)
        told = second.process.stdout.readline()
        assert f"another grader (process {os.getpid()}) writes there; this goes on after it" in told
        assert sorted(path.name for path in out.iterdir()) == [".lock", ".seed"]
    assert second.end() == 0, second.said
    assert chaos.meaning(out) == eight.wanted
