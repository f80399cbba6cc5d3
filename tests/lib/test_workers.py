"""What chapter 13's programs use: notes that are read back, an end together, a coordinator and a life that are pretended."""

from __future__ import annotations

import math
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


def test_the_picture_of_a_text_names_every_task_and_marks_this_one():
    text = '{"cluster": {"chief": ["a:1"], "worker": ["b:1", "c:1"]}, "task": {"type": "worker", "index": 1}}'
    alt = workers.draw_config(text).alt
    assert "worker:1 at c:1 has this program" in alt
    assert "chief:0 at a:1 has another machine" in alt


def test_the_picture_of_places_has_each_variable_in_its_task():
    places = {"w": "/job:ps/replica:0/task:1", "done": "/job:ps/replica:0/task:0"}
    alt = workers.draw_places({"ps": ["a:1", "b:1"]}, places).alt
    assert "ps:0 at a:1 has done; ps:1 at b:1 has w" in alt


def test_the_picture_of_deaths_tells_who_ends_and_when():
    alt = workers.draw_deaths({"ps:1 dies; the chief": 0.5, "worker:1 dies; the chief": math.inf}).alt
    assert "1. the chief: ends" in alt
    assert "to 0.5" in alt
    assert "2. the chief: goes on" in alt


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
