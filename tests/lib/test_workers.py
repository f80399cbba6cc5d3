"""What chapter 13's programs use: notes that are read back, an end together, a coordinator and a life that are pretended."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import pytest

from across import workers
from across.clusters import LocalCluster


class Logged:
    """A cluster of which only what a task printed, and its end, is known."""

    def __init__(self, printed="", raises=None):
        self.printed, self.raises = printed, raises

    def logs(self, job, index):
        return self.printed

    def alive(self, job, index):
        return False

    def result(self, job, index, timeout):
        if self.raises:
            raise self.raises


def test_addresses_are_different_ones_of_this_machine():
    found = workers.addresses(5)
    assert len(set(found)) == 5
    assert all(each.startswith("127.0.0.1:") for each in found)


def test_what_is_noted_is_read_back_and_other_lines_are_not(capsys):
    workers.note(3, 1.25)
    printed = "step on it\n" + capsys.readouterr().out + "step 4 of 5\n"
    ((at, step, loss),) = workers.notes(Logged(printed))
    assert (step, loss) == (3, 1.25)
    assert at > 1e9


def test_waiting_for_a_step_ends_when_the_task_has_ended():
    workers.wait_for_step(Logged("step 1 0.5 100.0\n"), 7, seconds=5)


def test_how_a_task_ended_is_told():
    error = ValueError("no")
    assert workers.ended(Logged(raises=error), "worker", 0)[1] is error
    assert workers.ended(Logged(), "worker", 0)[1] is None
    with pytest.raises(TimeoutError):
        workers.ended(Logged(raises=TimeoutError()), "worker", 0)


def test_nobody_leaves_before_all_are_there(tmp_path):
    first = threading.Thread(target=workers.leave_together, args=(str(tmp_path), 0, 2))
    first.start()
    first.join(0.1)
    assert first.is_alive()
    workers.leave_together(str(tmp_path), 1, 2)
    first.join(10)
    assert not first.is_alive()


def test_who_waits_in_vain_says_for_whom(tmp_path):
    with pytest.raises(TimeoutError, match=r"task 0 waited 0\.05 s: task 1 did not end"):
        workers.leave_together(str(tmp_path), 0, 2, seconds=0.05)


def test_a_pretended_coordinator_notes_what_was_handed_out_and_each_wait():
    coordinator = workers.Pretended([1.0, 2.0, 6.0], step=print, batches=iter([]))
    handed = [coordinator.schedule(print, args=(coordinator.batches,)), coordinator.schedule(len)]
    coordinator.join()
    assert coordinator.fetch(handed) == [1.0, 2.0]
    assert handed[1].fetch() == 2.0
    noted = [("schedule", True, True), ("schedule", False, False), *[("wait", False, False)] * 3]
    assert coordinator.events == noted


def test_a_life_ends_in_its_step_and_notes_where_it_began():
    life = workers.Life(dies=5)
    losses = []
    with life.survived():
        losses.extend(life.train(3))
    assert len(losses) == 2
    assert life.begun == [3]


def saved(life, folder, times):
    import tensorflow as tf

    for _ in range(times):
        tf.train.Checkpoint(**life.state).save(str(folder / "state"))


def test_a_life_counts_how_often_its_model_is_saved(tmp_path):
    life, other = workers.Life(dies=5), workers.Life(dies=5)
    saved(life, tmp_path, 3)
    assert (life.saves, other.saves) == (3, 0)


def test_the_losses_of_a_life_that_nothing_interrupts():
    life = workers.Life(dies=99)
    losses = [loss for _, loss in zip(range(10), life.train(0), strict=False)]
    assert workers.losses_of_steps(10) == losses


def goes_on(state, train, last, folder, chief):
    """Two steps a life; who is chief notes it in a file."""
    if chief:
        (Path(folder) / f"life-{len(list(Path(folder).iterdir()))}").touch()
    return [loss for _, loss in zip(range(2), train(3), strict=False)]


def test_a_second_life_has_the_folder_of_the_first_and_its_own_return():
    (first, second), files = workers.two_lives(goes_on, 4, True, True, 20)
    assert (first.did, second.did) == ([3], [3, 4])
    assert (len(first.returned), len(second.returned), files) == (0, 2, 2)
    assert workers.two_lives(goes_on, 4, False, False, 20)[1] == 0


def test_a_second_life_has_nothing_that_the_first_remembered():
    remembered = []

    def remembers(state, train, last, folder, chief):
        remembered.append(len(remembered))
        return remembered

    assert [life.returned for life in workers.two_lives(remembers, 4, True, True, 20)[0]] == [[0], [0]]


def test_a_life_that_never_ends_returns_nothing():
    lives, _ = workers.two_lives(lambda state, train, *_: list(train(0)), 4, True, True, 20)
    assert lives[1].returned == []
    assert lives[1].did[-1] > 20


def test_a_picture_of_losses_tells_each_life():
    seen = [(100.0, 0, 2.0), (100.5, 1, 1.5), (103.0, 1, 1.5), (104.0, 2, 1.0)]
    drawn = workers.draw_losses(seen, {"worker:1 killed": 100.6}, title="Two lives")
    assert "steps 0 to 1" in drawn.alt
    assert "then steps 1 to 2" in drawn.alt
    assert "worker:1 killed at 0.6 s" in drawn.alt


def test_a_resolver_is_told_from_what_is_none():
    import tensorflow as tf

    spec = tf.train.ClusterSpec({"worker": ["a:1", "b:1"]})
    made = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, task_type="worker", task_id=1)
    assert workers.resolved(made, "it") == (("worker", 1), {"worker": ["a:1", "b:1"]})
    with pytest.raises(AssertionError, match="it returned ClusterSpec; expected a ClusterResolver"):
        workers.resolved(spec, "it")
    made = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, task_type="worker", task_id="1")
    with pytest.raises(AssertionError, match="it has the index '1', a text; expected an integer"):
        workers.resolved(made, "it")


def waits(spec, job, index):
    server = socket.create_server(("127.0.0.1", int(spec[job][index].rpartition(":")[2])), reuse_port=True)
    time.sleep(60)
    server.close()


def state_of(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_silent_task_lives_and_ends_with_its_cluster():
    with LocalCluster(waits, worker=1) as cluster:
        pid, until = cluster.pid("worker", 0), time.monotonic() + 10
        workers.silence(cluster, "worker", 0)
        while state_of(pid) != "T" and time.monotonic() < until:
            time.sleep(0.01)
        assert state_of(pid) == "T"
        assert cluster.alive("worker", 0)
    assert not Path(f"/proc/{pid}").exists() or state_of(pid) == "Z"
