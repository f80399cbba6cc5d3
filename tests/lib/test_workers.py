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


def pretended(epoch, steps=3):
    coordinator = workers.Pretended([1.0, 2.0, 6.0], step=print, batches=iter([]))
    return epoch(coordinator, print, coordinator.batches, steps), workers.fault_of(coordinator.events, 3)


def test_an_epoch_that_hands_all_out_first_has_no_fault():
    def epoch(coordinator, step, batches, steps):
        handed = [coordinator.schedule(step, args=(batches,)) for _ in range(steps)]
        coordinator.join()
        return coordinator.fetch(handed)

    assert pretended(epoch) == ([1.0, 2.0, 6.0], ("", ""))


def test_an_epoch_that_waits_after_each_part_has_one():
    def epoch(coordinator, step, batches, steps):
        for _ in range(2):  # it hands out too many, too; what it must learn is the wait
            found = coordinator.fetch([coordinator.schedule(step, args=(batches,)) for _ in range(2)])
        return found

    _, (name, says) = pretended(epoch)
    assert name == "one_by_one"
    assert "when 2 of them" in says


def test_an_epoch_that_waits_in_between_has_one():
    def epoch(coordinator, step, batches, steps):
        return [coordinator.schedule(step, args=(batches,)).fetch() for _ in range(steps)]

    losses, (name, says) = pretended(epoch)
    assert losses == [1.0, 2.0, 6.0]
    assert name == "one_by_one"
    assert "when 1 of them" in says


@pytest.mark.parametrize(
    ("name", "hand_out"),
    [
        ("too_few", lambda coordinator, batches: coordinator.schedule(print, args=(batches,))),
        ("without_batches", lambda coordinator, batches: [coordinator.schedule(print) for _ in range(3)]),
        ("another_function", lambda coordinator, batches: [coordinator.schedule(len, (batches,)) for _ in range(3)]),
        ("no_wait", lambda coordinator, batches: [coordinator.schedule(print, (batches,)) for _ in range(3)]),
    ],
)
def test_each_fault_of_an_epoch_has_its_name(name, hand_out):
    _, (found, _) = pretended(lambda coordinator, step, batches, steps: hand_out(coordinator, batches))
    assert found == name


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


def lived(first, last):
    life = workers.Life(dies=99)
    return life, [loss for _, loss in zip(range(first, last), life.train(first), strict=False)]


def test_a_life_that_does_all_steps_and_saves_within_its_budget_has_no_fault(tmp_path):
    life, losses = lived(0, 10)
    assert workers.fault_of_lives([life], losses, 0, 10, 2) == ""
    saved(life, tmp_path, 3)
    assert "made 3 checkpoints; expected 2" in workers.fault_of_lives([life], losses, 0, 10, 2)


@pytest.mark.parametrize(
    ("first", "last", "kept", "says"),
    [
        (5, 10, 5, "began with step 5; expected 0"),
        (0, 15, 15, "did step 10, and more; expected step 9"),
        (0, 10, 0, "returned 0 losses; expected 10"),
    ],
)
def test_each_fault_of_a_life_is_told(first, last, kept, says):
    life, losses = lived(first, last)
    assert says in workers.fault_of_lives([life], losses[:kept], 0, 10, 2)


def goes_on(state, train, last, folder, chief):
    """Two steps a life; who is chief notes it in a file."""
    if chief:
        (Path(folder) / f"life-{len(list(Path(folder).iterdir()))}").touch()
    return [loss for _, loss in zip(range(2), train(3), strict=False)]


def test_a_second_life_has_the_folder_of_the_first_and_its_own_return():
    (first, second), got, files = workers.two_lives(goes_on, 4, True, True, 20)
    assert (first.did, second.did) == ([3], [3, 4])
    assert (len(got), files) == (2, 2)
    assert workers.two_lives(goes_on, 4, False, False, 20)[2] == 0


def test_a_life_that_never_ends_returns_nothing():
    lives, got, _ = workers.two_lives(lambda state, train, *_: list(train(0)), 4, True, True, 20)
    assert got == []
    assert "did step 20, and more" in workers.fault_of_lives(lives, got, 0, 20, 0)


def test_a_life_that_did_not_restore_has_other_losses():
    life, losses = lived(5, 10)
    assert "step 5 has another loss" in workers.fault_of_lives([life], losses, 5, 10, 1)


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
