"""What chapter 13's programs on many workers need besides TensorFlow: an early notice of a death, an end together, notes.

workers.heartbeat(count, 2.0)                       # in a worker, before its strategy: a silent peer is dead after 2 s
workers.leave_together(folder, index, count)        # in a worker, last: nobody leaves while another still receives
workers.note(step, loss)                            # printed with the time; read back by `notes(cluster)`
workers.silence(cluster, "worker", 1)               # it lives, and says nothing, like a machine without power
seconds, error = workers.ended(cluster, "worker", 0)   # when a task's program ended, and how
"""

from __future__ import annotations

import json
import math
import os
import re
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from across import pictures
from across._language import pictured
from across._language.catalogue import given, marked, said
from across._process.addresses import free_address
from across.attempt import NotYet
from across.pictures import Picture, Span

if TYPE_CHECKING:
    from across.clusters import LocalCluster

__all__ = [
    "Pretended",
    "addresses",
    "draw_config",
    "draw_deaths",
    "draw_losses",
    "draw_places",
    "ended",
    "heartbeat",
    "leave_together",
    "note",
    "notes",
    "resolved",
    "silence",
    "start_again",
    "wait_for_step",
]

POLL = 0.01  # seconds between two looks
NOTED = re.compile(r"^step (\d+) (\S+) (\d+\.\d{4})$", re.MULTILINE)  # a line that is a note
DEATHS = (marked("in step"), marked("coordinator"), marked("the chief"))  # words of deaths that are drawn
Notes = list[tuple[float, int, float]]  # (seconds of time.time, step, loss)


def addresses(count: int) -> list[str]:
    """Addresses of this machine on which nobody listens now."""
    held: list[socket.socket] = []
    found = [free_address(held) for _ in range(count)]
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
    """Print that a step is done, on a line of its own, whatever was printed before."""
    print("\nstep", step, f"{loss:.6f}", f"{time.time():.4f}", flush=True)


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


def draw_config(text: str) -> Picture:
    """Draw the cluster of a TF_CONFIG, a row for each job; the task that it tells is marked."""
    from across._draw import cluster

    config = json.loads(text)
    task = "{type}:{index}".format(**config["task"])
    boxes = [
        cluster.Box(
            f"{job}:{index}",
            address,
            (marked("this program"),) if task == f"{job}:{index}" else (marked("another machine"),),
        )
        for job, addresses in config["cluster"].items()
        for index, address in enumerate(addresses)
    ]
    return cluster.draw(boxes, {}, pictured.said("TF_CONFIG of {0}", task))


def draw_places(spec: Mapping[str, Sequence[str]], places: Mapping[str, str]) -> Picture:
    """Draw a cluster, in each task what is there: name -> device, "/job:ps/replica:0/task:0"."""
    from across._draw import cluster

    boxes = []
    for job, addresses in spec.items():
        for index, address in enumerate(addresses):
            end = f"/job:{job}/replica:0/task:{index}"
            here = tuple(name for name, device in places.items() if device == end)
            boxes.append(cluster.Box(f"{job}:{index}", address, here or (marked("no variable"),)))
    return cluster.draw(boxes, {}, marked("Where the variables are"))


def draw_deaths(ends: Mapping[str, float]) -> Picture:
    """Draw of each case, "who dies; who survives", how many seconds after the other's death a task ended; infinite: never."""
    shown = 1.25 * max((end for end in ends.values() if end != math.inf), default=1.0)
    before, spans = -shown / 8, []
    for number, (words, end) in enumerate(ends.items(), 1):
        victim, survivor = words.split("; ")
        goes_on = end == math.inf
        spans.append(Span(f"{number}. {_death(victim)}", before, 0.0))
        becomes = marked("goes on") if goes_on else marked("ends")
        spans.append(Span(f"{number}. {pictured.word(survivor)}", before, shown if goes_on else end, becomes))
    return pictures.timeline(spans, title=marked("Who outlives whom"), unit=marked("seconds after the kill"))


def _death(words: str) -> str:
    """The words of a death, "in step, worker:1 dies", in the language of a picture."""
    kind, _, who = words.removesuffix(" dies").rpartition(", ")
    if kind not in DEATHS:
        return pictured.word(words)
    return pictured.said("{0}, {1} dies", pictured.word(kind), pictured.word(who))


def draw_losses(seen: Notes, marks: Mapping[str, float], *, title: str) -> Picture:
    """Draw each noted loss over time, its step beside some of them; `marks` are seconds of the same clock, by words."""
    figure, axes = pictures.plot(7.5, 3.4, title=title, x=marked("seconds"), y=marked("loss"))
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
            axes.text(
                at - first, loss + (0.06 if side == "left" else -0.12) * top, pictured.said("step {0}", step), **words
            )
    for number, (words, at) in enumerate(marks.items()):
        height = top * (1.42 - 0.1 * number)
        pictures.moment(axes, at - first, height, words, "--")
    axes.set_ylim(0, 1.5 * top)
    told = said("; then ").join(
        said("steps {0} to {1}, loss {2:.2f} to {3:.2f}", life[0][1], life[-1][1], life[0][2], life[-1][2])
        for life in lives
    )
    happened = said(", ").join(said("{0} at {1:.2g} s", given(words), at - first) for words, at in marks.items())
    return pictures.render(figure, said("{0}: {1}. {2}.", given(title), told, happened))


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
