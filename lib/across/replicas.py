"""Replicas that share variables: who reads and writes when, a step that is stopped halfway, a slow one, a trainer's progress.

draw([("read", 0), ("read", 1), ("write", 0), ("write", 1)])      # two steps, one inside the other
halfway = Halfway(op)                                              # what a step's writes take
with v1.Session(target) as session: kept = halfway.stop(session); ...; halfway.go_on(session, kept)
gradient = slow(gradient, 0.2)                                     # it comes 0.2 seconds later
with watching(cluster) as seen: seen.reach(100); cluster.kill("worker", 1)

What is tried of a training program, and judged, is in `across.trainers`.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from across import pictures
from across._language import pictured
from across._language.catalogue import given, marked, said
from across.pictures import Picture, Stepper

if TYPE_CHECKING:
    import tensorflow as tf
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from across.clusters import LocalCluster

NAPS = 2  # a dataset of one element sleeps twice: before it, and before its end
POLL = 0.01  # seconds between two looks at a cluster
Seen = Sequence[tuple[float, int]]  # (seconds of time.monotonic, global step)
WRITES = ("Assign", "ResourceApply", "Apply", "ScatterUpdate", "ResourceScatter")


def steps_of(schedule: Sequence[tuple[str, int]]) -> list[tuple[int, int, int]]:
    """Each step of a schedule of ("read", worker) and ("write", worker): its worker, when it reads, when it writes.

    In the order of the writes. Raises ValueError for a write without a read.
    """
    began: dict[int, int] = {}
    found = []
    for moment, (what, worker) in enumerate(schedule):
        if what == "read":
            began[worker] = moment
        elif worker not in began:
            raise ValueError(f"worker {worker} writes at moment {moment} and has not read")
        else:
            found.append((worker, began.pop(worker), moment))
    return found


def draw(schedule: Sequence[tuple[str, int]], *, title: str) -> Picture:
    """Draw a schedule: a lane for each worker, and in it a line from each read to its write. Only the order counts."""
    happened = said(", ").join(
        said("worker:{0} reads", worker) if what == "read" else said("worker:{0} writes", worker)
        for what, worker in schedule
    )
    words = said("Schedule, {0}. In this order: {1}.", given(title), happened)
    return pictures.render(_drawn(schedule, title)[0], words)


def walk(schedule: Sequence[tuple[str, int]], held: Sequence[float], *, adds: float, title: str) -> Stepper:
    """Step through a schedule as it was done: `held` is the variable before the first moment and after each.

    Each write should add `adds`. Where one does not, what others wrote since its worker's read is lost, and marked so.
    """
    writes = {end: (worker, start) for worker, start, end in steps_of(schedule)}
    steps, lost = {}, dict[int, str]()  # of a lost write its moment, and the worker whose it was
    for done in range(len(schedule) + 1):
        words = said("before the first of {0} moments: w is {1:g}", len(schedule), held[0])
        if done:
            what, worker = schedule[done - 1]
            of, now = len(schedule), held[done]
            words = (
                said("{0} of {1}: worker:{2} reads {3:g}", done, of, worker, now)
                if what == "read"
                else said("{0} of {1}: worker:{2} writes {3:g}; w was {4:g}", done, of, worker, now, held[done - 1])
            )
            if what == "write" and held[done] != held[done - 1] + adds:
                came = {
                    end: f"worker:{who}" for end, (who, _) in writes.items() if writes[done - 1][1] < end < done - 1
                }
                lost |= came
                words += said(": the update of {0} is lost", ", ".join(came.values()))
        figure, axes = _drawn(schedule, title, w=held[done])
        for moment, (_, worker) in enumerate(schedule[:done]):
            row = sorted({each for _, each in schedule}).index(worker)
            says = f"{held[moment + 1]:g}"
            says = pictured.said("{0}, lost", says) if moment in lost else says
            axes.annotate(
                says, (moment, row), (9, 6), textcoords="offset points", color=pictures.INK, fontsize=pictures.FONT
            )
        if done:
            axes.axvspan(done - 1.35, done - 0.65, facecolor="none", edgecolor=pictures.ALERT, linewidth=1.2)
        steps[words] = pictures.render(figure, said("{0}. {1}.", given(title), words))
    return Stepper(steps, title)


def _drawn(schedule: Sequence[tuple[str, int]], title: str, w: float | None = None) -> tuple[Figure, Axes]:
    workers = sorted({worker for _, worker in schedule})
    label = (
        pictured.said("what happens, in this order; w is {0:g}", w)
        if w is not None
        else marked("what happens, in this order")
    )
    figure, axes = pictures.plot(7.5, 1.15 + 0.42 * len(workers), title=title, x=label, y="")
    for worker, start, end in steps_of(schedule):
        row, colour = workers.index(worker), pictures.PALETTE[workers.index(worker) % len(pictures.PALETTE)]
        axes.plot([start, end], [row, row], color=colour, linewidth=3.0)
        axes.plot([start], [row], "o", color="white", markeredgecolor=colour, markeredgewidth=2.5, markersize=10)
        axes.plot([end], [row], "s", color=colour, markeredgecolor=pictures.INK, markersize=10)
    axes.set_xlim(-0.5, len(schedule) - 0.5)
    axes.set_xticks(range(len(schedule)), [what for what, _ in schedule])
    axes.set_ylim(len(workers) - 0.4, -0.6)
    axes.set_yticks(range(len(workers)), [f"worker:{worker}" for worker in workers])
    return figure, axes


def draw_steps(
    steps: Mapping[str, Sequence[tuple[float, float, int]]], *, title: str, start: float, seconds: float
) -> Picture:
    """Draw each worker's steps, (from, to, staleness) in seconds of one clock: those of the `seconds` from `start` on.

    Raises ValueError where there is no step.
    """
    shown = {
        lane: [
            (1000 * (max(begin, start) - start), 1000 * (min(end, start + seconds) - start), stale)
            for begin, end, stale in each
            if begin < start + seconds and end > start
        ]
        for lane, each in steps.items()
    }
    if not any(shown.values()):
        raise ValueError("draw_steps: no worker made a step")
    figure, axes = pictures.plot(7.5, 1.2 + 0.55 * len(shown), title=title, x=marked("milliseconds"), y="")
    words = []
    for row, (lane, each) in enumerate(shown.items()):
        ages = [stale for _, _, stale in each]
        count, least, most = (len(each), min(ages), max(ages)) if each else (0, 0, 0)
        told = said("{0} steps, staleness {1} to {2}", count, least, most) if each else said("no step")
        words.append(said("{0}: {1}", given(lane), told))
        for begin, end, stale in each:
            fill = pictures.PALETTE[1] if stale else pictures.PALETTE[0]
            axes.barh(row, end - begin, left=begin, height=0.5, color=fill, edgecolor=pictures.INK, linewidth=0.5)
            if (
                end - begin > 50 * seconds
            ):  # a label that does not fit would cover its neighbours: the lane's line keeps it
                colour = pictures.readable_on(fill)
                middle = (begin + end) / 2
                axes.text(middle, row, f"{stale}", ha="center", va="center", fontsize=pictures.FONT, color=colour)
        style = {"va": "center", "fontsize": pictures.FONT - 1, "color": pictures.INK}
        says = pictured.said("{0} steps, staleness {1} to {2}", count, least, most) if each else marked("no step")
        axes.annotate(says, (0, row - 0.36), (4, 0), textcoords="offset points", **style)  # clear of the axis
    axes.set_xlim(0, 1000 * seconds)
    axes.set_ylim(len(shown) - 0.6, -0.6)
    axes.set_yticks(range(len(shown)), list(shown))
    told = said("; ").join(words)
    alt = said("Steps, {0}. Blue: fresh, orange: stale. In {1:g} seconds, {2}.", given(title), seconds, told)
    return pictures.render(figure, alt)


def slow(tensor: tf.Tensor, seconds: float) -> tf.Tensor:
    """The same value `seconds` later, in a graph: the process that has it sleeps, as if it computed so long."""
    import tensorflow as tf

    if not seconds:
        return tensor
    kinds = {"output_types": [tensor.dtype], "output_shapes": [tensor.shape]}
    one = tf.raw_ops.TensorDataset(components=[tensor], output_shapes=[tensor.shape])
    naps = tf.raw_ops.SleepDataset(
        input_dataset=one, sleep_microseconds=tf.constant(int(seconds * 1e6 / NAPS), tf.int64), **kinds
    )
    (late,) = tf.raw_ops.DatasetToSingleElement(dataset=naps, **kinds)
    return late


def timed(session: tf.compat.v1.Session, fetches: Any, seconds: float, ready: tf.Variable, clients: int) -> Timed:
    """Run `fetches` again and again for `seconds`, from when `clients` of us are ready: the values of each run.

    `ready` is a variable that they share, 0 at first. A run that ends later than that is not counted.
    """
    session.run(fetches)  # the first run prepares the graph
    here = ready.assign_add(1).op
    session.run(here)
    while session.run(ready) < clients:
        time.sleep(POLL / 10)
    found, start = [], time.time()
    while True:
        values = session.run(fetches)
        if time.time() > start + seconds:
            return Timed(start, found)
        found.append(values)


@dataclass(frozen=True)
class Timed:
    """What a client's runs gave, and when it began: seconds of `time.time`, and of `tf.timestamp`."""

    start: float
    values: list[Any]


class Watch:
    """The global step of a training cluster over time, as a client of ps:0 sees it: `seen` is [(time.monotonic(), step), ...].

    Nothing is noted before the variables are initialised.
    """

    def __init__(self) -> None:
        self.seen: list[tuple[float, int]] = []
        self.marks: dict[str, float] = {}
        self.over = threading.Event()

    def reach(self, step: int, seconds: float = 30.0) -> None:
        """Return when the global step is `step` or more, after `seconds` at the latest."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not (self.seen and self.seen[-1][1] >= step):
            time.sleep(POLL)

    def mark(self, words: str) -> None:
        """Note that something happens now."""
        self.marks[words] = time.monotonic()

    def look(self, target: str) -> None:
        """Note the global step until it is `over`."""
        import tensorflow as tf

        v1 = tf.compat.v1
        only_ps = v1.ConfigProto(operation_timeout_in_ms=2_000, device_filters=["/job:ps"])
        with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
            step = v1.get_variable("global_step", [], tf.int64)
            with v1.Session(target, config=only_ps) as session:
                while not self.over.is_set():
                    with contextlib.suppress(tf.errors.OpError):  # not initialised yet, or a moment of no answer
                        self.seen.append((time.monotonic(), int(session.run(step))))
                    time.sleep(POLL)


@contextlib.contextmanager
def watching(cluster: LocalCluster) -> Iterator[Watch]:
    """A block during which a thread notes the global step of a training cluster. See `Watch`."""
    watch = Watch()
    thread = threading.Thread(target=watch.look, args=(cluster.target("ps", 0),), daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        watch.over.set()
        thread.join()


def draw_progress(seen: Seen, marks: Mapping[str, float], *, title: str) -> Picture:
    """Draw the global step over time, and what happened when: `marks` are seconds of the same clock, by words."""
    figure, axes = pictures.plot(7.5, 3.6, title=title, x=marked("seconds"), y=marked("global step"))
    first, top = seen[0][0], max(1, *(step for _, step in seen))
    axes.plot([at - first for at, _ in seen], [step for _, step in seen], ".", color=pictures.PALETTE[0], markersize=4)
    axes.set_ylim(-0.03 * top, 1.5 * top)
    axes.set_yticks(range(0, top + 1, 100 if top <= 600 else 250))
    for number, (words, at) in enumerate(marks.items()):
        height = top * (1.44 - 0.11 * number)
        style = "--" if "killed" in words else "-"
        pictures.moment(axes, at - first, height, words, style)
    falls = said(", ").join(
        said("from {0} to {1}", before, after) for (_, before), (_, after) in itertools.pairwise(seen) if after < before
    )
    happened = said(", ").join(said("{0} at {1:.3g} s", given(words), at - first) for words, at in marks.items())
    alt = said("{0}: the global step over {1:.3g} s, to {2}", given(title), seen[-1][0] - first, seen[-1][1])
    alt += said(", which falls {0}", falls) if falls else said(", which does not fall")
    return pictures.render(figure, said("{0}. {1}.", alt, happened))


def wait_for(cluster: LocalCluster, job: str, words: str, seconds: float = 30.0) -> None:
    """Return when task 0 of `job` has printed `words`. Raises TimeoutError after `seconds`."""
    end = time.monotonic() + seconds
    while words not in cluster.logs(job):
        if time.monotonic() > end:
            raise TimeoutError(f"{job}:0 did not print {words!r} within {seconds:g} s")
        time.sleep(POLL)


class Halfway:
    """One step of a worker, which can be stopped between its reads and its writes: so another may come in between.

    Its writes are the ops that change a variable; what they take besides the variable is what was computed before.
    """

    def __init__(self, step: tf.Operation | tf.Tensor) -> None:
        """`step` is what a session runs for one step. Raises ValueError if it changes no variable."""
        self.step = getattr(step, "op", step)
        self.writes = _writes(self.step)
        if not self.writes:
            raise ValueError("the step changes no variable")
        self.taken = [tensor for op in self.writes for tensor in list(op.inputs)[1:] if tensor.dtype.name != "resource"]

    def stop(self, session: tf.compat.v1.Session, feed: Mapping[Any, Any] | None = None) -> dict[Any, Any]:
        """Run up to the writes, and no further: what they would take."""
        return dict(zip(self.taken, session.run(self.taken, dict(feed or {})), strict=True))

    def go_on(
        self, session: tf.compat.v1.Session, kept: Mapping[Any, Any], feed: Mapping[Any, Any] | None = None
    ) -> None:
        """Write what was `kept` by `stop`."""
        session.run(self.step, {**(feed or {}), **kept})


def why_no_step(answer: Any) -> str:
    """Why an answer cannot be a training step, in words that follow the call: "returned None; expected an op"; or ""."""
    op = getattr(answer, "op", answer)
    if not hasattr(op, "control_inputs"):
        kind = "None" if answer is None else f"a value of type {type(answer).__name__}"
        return f"returned {kind}; expected an op"
    return "" if _writes(op) else "returned a step that changes no variable"


def _writes(step: Any) -> list[Any]:
    """Of all ops that run when `step` runs, those that change a variable."""
    found, left = {}, [step]
    while left:
        op = left.pop()
        if op.name not in found:
            found[op.name] = op
            left += [*(tensor.op for tensor in op.inputs), *op.control_inputs]
    return [op for op in found.values() if op.type.startswith(WRITES)]
