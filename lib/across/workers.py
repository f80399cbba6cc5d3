"""What chapter 13's programs on many workers need besides TensorFlow: an early notice of a death, an end together, notes.

workers.heartbeat(count, 2.0)                       # in a worker, before its strategy: a silent peer is dead after 2 s
workers.leave_together(folder, index, count)        # in a worker, last: nobody leaves while another still receives
workers.note(step, loss)                            # printed with the time; read back by `notes(cluster)`
workers.silence(cluster, "worker", 1)               # it lives, and says nothing, like a machine without power
seconds, error = workers.ended(cluster, "worker", 0)   # when a task's program ended, and how
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from across import fresh, pictures
from across.attempt import NotYet
from across.pictures import Picture

if TYPE_CHECKING:
    from across.clusters import LocalCluster

__all__ = [
    "Life",
    "Lived",
    "Pretended",
    "addresses",
    "draw_losses",
    "ended",
    "heartbeat",
    "leave_together",
    "losses_of_steps",
    "note",
    "notes",
    "resolved",
    "silence",
    "start_again",
    "two_lives",
    "wait_for_step",
]

POLL = 0.01  # seconds between two looks
NOTED = re.compile(r"^step (\d+) (\S+) (\d+\.\d{4})$", re.MULTILINE)  # a line that is a note
Notes = list[tuple[float, int, float]]  # (seconds of time.time, step, loss)


def addresses(count: int) -> list[str]:
    """Addresses of this machine on which nobody listens now."""
    held = [socket.socket() for _ in range(count)]
    for each in held:
        each.bind(("127.0.0.1", 0))
    found = [f"127.0.0.1:{each.getsockname()[1]}" for each in held]
    for each in held:
        each.close()
    return found


def resolved(resolver: Any, says: str) -> tuple[tuple[Any, Any], dict[str, list[str]]]:
    """The task, (job, index), and the cluster that a `ClusterResolver` tells. NotYet, begun by `says`, of others."""
    if not all(hasattr(resolver, name) for name in ("cluster_spec", "task_type", "task_id")):
        raise NotYet(f"{says} returned {type(resolver).__name__}; expected a ClusterResolver")
    if isinstance(resolver.task_id, str):
        raise NotYet(f"{says} has the index {resolver.task_id!r}, a text; expected an integer")
    return (resolver.task_type, resolver.task_id), resolver.cluster_spec().as_dict()


def heartbeat(count: int, seconds: float) -> None:
    """Have each of `count` workers count as dead when it was silent for so many seconds; before a strategy is made.

    TensorFlow has no public call for this; the strategy keeps what it finds.
    """
    from tensorflow.compiler.xla.tsl.protobuf import coordination_config_pb2
    from tensorflow.python.eager import context

    messages: Any = coordination_config_pb2
    ours: Any = context.context()
    job = messages.CoordinatedJob(name="worker", num_tasks=count)
    ours.configure_coordination_service(
        "standalone",
        service_leader="/job:worker/replica:0/task:0",
        heartbeat_timeout_in_ms=int(1000 * seconds),
        coordinated_jobs=[job],
    )


def leave_together(folder: str, index: int, count: int, seconds: float = 20.0) -> None:
    """Return when `count` tasks are here: a task that ends cuts off who still receives from it. TimeoutError."""
    until = time.monotonic() + seconds
    Path(folder, f"leaves-{index}").touch()
    while missing := [each for each in range(count) if not Path(folder, f"leaves-{each}").exists()]:
        if time.monotonic() > until:
            who = ", ".join(map(str, missing))
            raise TimeoutError(f"task {index} waited {seconds:g} s: task {who} did not end as it did; did it restore?")
        time.sleep(POLL)


def note(step: int, loss: float) -> None:
    """Print that a step is done."""
    print("step", step, f"{loss:.6f}", f"{time.time():.4f}", flush=True)


def notes(cluster: LocalCluster, job: str = "worker", index: int = 0) -> Notes:
    """What a task has noted so far, in all its lives."""
    found = NOTED.findall(cluster.logs(job, index))
    return [(float(at), int(step), float(loss)) for step, loss, at in found]


def wait_for_step(cluster: LocalCluster, step: int, job: str = "worker", index: int = 0, seconds: float = 30.0) -> None:
    """Return when a task has noted `step` or a later one; at once when it has ended. Raises TimeoutError."""
    until = time.monotonic() + seconds
    while not any(done >= step for _, done, _ in notes(cluster, job, index)) and cluster.alive(job, index):
        if time.monotonic() > until:
            raise TimeoutError(f"{job}:{index} did not reach step {step} within {seconds:g} s")
        time.sleep(POLL)


def ended(cluster: LocalCluster, job: str, index: int, seconds: float = 20.0) -> tuple[float, BaseException | None]:
    """After how many seconds from now a task's program has ended, and what it raised. Raises TimeoutError."""
    start = time.monotonic()
    try:
        cluster.result(job, index, seconds)
    except TimeoutError:
        raise
    except Exception as error:
        return time.monotonic() - start, error
    return time.monotonic() - start, None


def silence(cluster: LocalCluster, job: str, index: int) -> bool:
    """Stop a task where it is: its connections stay open, and it says nothing. False where that cannot be (Windows)."""
    stop = getattr(signal, "SIGSTOP", None)
    if stop is not None:
        os.kill(cluster.pid(job, index), stop)
    return stop is not None


def start_again(cluster: LocalCluster, tasks: Sequence[tuple[str, int]]) -> None:
    """End these tasks and start them anew, in this order, as a machine that watches over them would."""
    for job, index in tasks:
        cluster.kill(job, index)
    for job, index in tasks:
        cluster.restart(job, index)


def draw_losses(seen: Notes, marks: Mapping[str, float], *, title: str) -> Picture:
    """Draw each noted loss over time, its step beside some of them; `marks` are seconds of the same clock, by words."""
    figure, axes = pictures.plot(7.5, 3.4, title=title, x="seconds", y="loss")
    first, top = seen[0][0], max(loss for *_, loss in seen)
    lives: list[Notes] = []
    for row in seen:
        if not lives or row[1] <= lives[-1][-1][1]:
            lives.append([])
        lives[-1].append(row)
    for number, life in enumerate(lives):
        colour = pictures.PALETTE[number % len(pictures.PALETTE)]
        axes.plot([at - first for at, *_ in life], [loss for *_, loss in life], ".-", color=colour, markersize=5)
        for (at, step, loss), side in ((life[0], "left"), (life[-1], "right")):
            words = {"color": pictures.INK, "fontsize": pictures.FONT, "ha": side}
            axes.text(at - first, loss + (0.06 if side == "left" else -0.12) * top, f"step {step}", **words)
    for number, (words, at) in enumerate(marks.items()):
        height = top * (1.42 - 0.1 * number)
        axes.plot([at - first] * 2, [0, height], color=pictures.ALERT, linestyle="--", linewidth=1.0)
        axes.text(at - first, height, f" {words}", color=pictures.INK, fontsize=pictures.FONT, va="center")
    axes.set_ylim(0, 1.5 * top)
    told = "; then ".join(
        f"steps {life[0][1]} to {life[-1][1]}, loss {life[0][2]:.2f} to {life[-1][2]:.2f}" for life in lives
    )
    happened = ", ".join(f"{words} at {at - first:.2g} s" for words, at in marks.items())
    return pictures.render(figure, f"{title}: {told}. {happened}.")


class Pretended:
    """A coordinator that runs nothing: each step that is handed out has one of `losses`, in their order.

    `events` has ("schedule", is it `step`, is its argument `batches`) for what was handed out, and ("wait", ...) for a wait.
    """

    def __init__(self, losses: Sequence[float], step: object, batches: object) -> None:
        self.losses, self.step, self.batches = list(losses), step, batches
        self.events: list[tuple[str, bool, bool]] = []

    def schedule(self, fn: object, args: Sequence[object] | None = None, kwargs: object = None) -> _Remote:
        """Hand a step out, as `ClusterCoordinator.schedule` does."""
        given = [*(args or ()), *(kwargs.values() if isinstance(kwargs, dict) else ())]
        number = sum(what == "schedule" for what, *_ in self.events)
        self.events.append(("schedule", fn is self.step, len(given) == 1 and given[0] is self.batches))
        return _Remote(self, self.losses[number] if number < len(self.losses) else 0.0)

    def join(self) -> None:
        """Wait for all."""
        self.events.append(("wait", False, False))

    def done(self) -> bool:
        """Whether all has run, without a wait."""
        return True

    def fetch(self, values: object) -> object:
        """Wait for some `RemoteValue`, or any structure of them."""
        import tensorflow as tf

        self.events.append(("wait", False, False))
        return tf.nest.map_structure(lambda each: each.loss if isinstance(each, _Remote) else each, values)


class _Remote:
    """A `RemoteValue` of a `Pretended` coordinator."""

    def __init__(self, coordinator: Pretended, loss: float) -> None:
        self._coordinator, self.loss = coordinator, loss

    def fetch(self) -> float:
        """Wait for it."""
        self._coordinator.events.append(("wait", False, False))
        return self.loss

    get = fetch


class Life:
    """A training run in this process, which may die in a step: `train(n)` is an endless iterator of losses from step n on.

    `state` is a model and an optimizer, each of one variable, which a step changes. `begun` has the n of each call of
    `train`, `did` each step, `saves` how often TensorFlow saved the model.
    """

    def __init__(self, dies: int) -> None:
        import tensorflow as tf

        self.dies, self.begun, self.did = dies, list[int](), list[int]()
        self.state: dict[str, Any] = {"model": tf.Module(), "optimizer": tf.Module()}
        self._held = [tf.Variable(tf.constant(each)) for each in (1.0, 0.0)]
        for part, variable in zip(self.state.values(), self._held, strict=True):
            part.w = variable
        self._saved = self.state["model"].saved = _counted()

    @property
    def saves(self) -> int:
        """How many checkpoints the model is in, of this life."""
        return self._saved.count

    def train(self, first: int) -> Iterator[float]:
        """Losses, from step `first` on."""
        self.begun.append(int(first))
        return self._steps(int(first))

    def _steps(self, first: int) -> Iterator[float]:
        for step in itertools.count(first):
            if step == self.dies:
                raise _DiedError
            weight, speed = self._held
            speed.assign(0.5 * speed + step)
            weight.assign_sub(0.01 * speed)
            self.did.append(step)
            yield float(weight)

    @contextlib.contextmanager
    def survived(self) -> Iterator[None]:
        """A block that ends where this life does."""
        with contextlib.suppress(_DiedError):
            yield


class _DiedError(Exception):
    """The end of a `Life`."""


def _counted() -> Any:
    """A part of a model that counts how often it is saved."""
    import tensorflow as tf

    class Counted(tf.train.experimental.PythonState):
        count = 0

        def serialize(self) -> str:
            self.count += 1
            return ""

        def deserialize(self, _value: str) -> None:
            pass

    return Counted()


@dataclass(frozen=True)
class Lived:
    """What a `Life` did, and what it returned."""

    begun: list[int]
    did: list[int]
    saves: int
    returned: Any


def two_lives(resume: Any, dies: int, chief: bool, then: bool, last: int) -> tuple[list[Lived], int]:
    """Let `resume(state, train, last, folder, chief)` die in step `dies`, and live again, `then` the chief or not.

    Both lives, each a fresh process (one that died, or went on and on, returned an empty list), and how many files are in
    the folder.
    """
    ends = (dies, last + 50)
    with tempfile.TemporaryDirectory() as folder:
        lives = [
            fresh.run(_lived, resume, end, last, folder, who) for end, who in zip(ends, (chief, then), strict=True)
        ]
        return lives, len(os.listdir(folder))


def _lived(resume: Any, dies: int, last: int, folder: str, chief: bool) -> Lived:
    """Live in this process."""
    life, returned = Life(dies), []
    with life.survived():
        returned = resume(life.state, life.train, last, folder, chief)
    if life.did and life.did[-1] >= dies - 1:
        returned = []
    return Lived(life.begun, life.did, life.saves, returned)


def losses_of_steps(last: int) -> list[float]:
    """The losses of the first `last` steps of a `Life`, which nothing interrupts."""
    return list(itertools.islice(Life(last).train(0), last))
