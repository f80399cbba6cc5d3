"""Replicas that share variables: who reads and writes when, a step that is stopped halfway, a training program tried out.

draw([("read", 0), ("read", 1), ("write", 0), ("write", 1)])      # two steps, one inside the other
halfway = Halfway(op)                                              # what a step's writes take
with v1.Session(target) as session: kept = halfway.stop(session); ...; halfway.go_on(session, kept)
tried = rehearse(program, {"ps": 2, "worker": 2}, [("worker", 0)])
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from across import fresh, pictures
from across._process import training_task
from across._process.cluster_task import Program
from across._process.training_task import Tried
from across.expecting import shown
from across.pictures import Picture, Span, timeline

if TYPE_CHECKING:
    import tensorflow as tf

    from across.clusters import LocalCluster

__all__ = [
    "Halfway",
    "Tried",
    "draw",
    "draw_progress",
    "draw_steps",
    "fault_of",
    "rehearse",
    "steps_of",
    "wait_for",
    "watch",
    "why_no_step",
]

STARTS = 120.0  # seconds for the fork server's own start, where there is none yet
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
    """Draw a schedule: a lane for each worker, a span from each read to its write."""
    lanes = [f"worker:{i}" for i in sorted({worker for _, worker in schedule})]
    spans = [Span(f"worker:{worker}", start, end + 1.0, "read … write") for worker, start, end in steps_of(schedule)]
    return timeline(spans, title=title, unit="moment", lanes=lanes)


def draw_steps(
    steps: Mapping[str, Sequence[tuple[float, float, int]]],
    idle: Sequence[tuple[str, float, float]] = (),
    *,
    title: str,
) -> Picture:
    """Draw the steps of each worker, (start, end, staleness) in seconds of one clock, and below them when who stood `idle`.

    The first step begins at 0. Raises ValueError where there is no step.
    """
    if not any(steps.values()):
        raise ValueError("draw_steps: no worker made a step")
    first = min(start for each in steps.values() for start, _, _ in each)
    last = max(end for each in steps.values() for _, end, _ in each)
    spans = [(lane, start, end, f"{stale}") for lane, each in steps.items() for start, end, stale in each]
    spans += [
        (lane, max(start, first), min(end, last), "") for lane, start, end in idle if first < end and start < last
    ]
    made = [Span(lane, 1000 * (start - first), 1000 * (end - first), label) for lane, start, end, label in spans]
    return timeline(made, title=title, unit="milliseconds", lanes=list(steps))


def watch(cluster: LocalCluster, seconds: float, until: Callable[[int], bool]) -> list[tuple[float, int]]:
    """The global step of a training cluster over time, as a client of ps:0 sees it: [(time.monotonic(), step), ...].

    Ends when `until(step)`, after `seconds` at the latest. Nothing is noted before the variables are initialised.
    """
    import tensorflow as tf

    v1 = tf.compat.v1
    found: list[tuple[float, int]] = []
    end = time.monotonic() + seconds
    only_ps = v1.ConfigProto(operation_timeout_in_ms=2_000, device_filters=["/job:ps"])
    with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
        step = v1.get_variable("global_step", [], tf.int64)
        with v1.Session(cluster.target("ps", 0), config=only_ps) as session:
            while time.monotonic() < end and not (found and until(found[-1][1])):
                with contextlib.suppress(tf.errors.FailedPreconditionError):  # not initialised yet
                    found.append((time.monotonic(), int(session.run(step))))
                time.sleep(POLL)
    return found


def draw_progress(seen: Seen, marks: Mapping[str, float], *, title: str) -> Picture:
    """Draw the global step over time, and what happened when: `marks` are seconds of the same clock, by words."""
    figure, axes = pictures.plot(7.5, 3.6, title=title, x="seconds", y="global step")
    first, top = seen[0][0], max(1, *(step for _, step in seen))
    axes.plot([at - first for at, _ in seen], [step for _, step in seen], ".", color=pictures.PALETTE[0], markersize=4)
    axes.set_ylim(-0.03 * top, 1.5 * top)
    axes.set_yticks(range(0, top + 1, 100))
    for number, (words, at) in enumerate(marks.items()):
        height = top * (1.44 - 0.11 * number)
        style = "--" if "killed" in words else "-"
        axes.plot([at - first] * 2, [0, height], color=pictures.ALERT, linestyle=style, linewidth=1.0)
        axes.text(at - first, height, f" {words}", color=pictures.INK, fontsize=pictures.FONT, va="center")
    falls = [f"from {before} to {after}" for (_, before), (_, after) in itertools.pairwise(seen) if after < before]
    happened = ", ".join(f"{words} at {at - first:.3g} s" for words, at in marks.items())
    alt = f"{title}: the global step over {seen[-1][0] - first:.3g} s, to {seen[-1][1]}"
    alt += f", which falls {', '.join(falls)}" if falls else ", which does not fall"
    return pictures.render(figure, f"{alt}. {happened}.")


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
    return [op for op in _needed(step) if op.type.startswith(WRITES)]


def _needed(step: Any) -> list[Any]:
    """Every op that runs when `step` runs."""
    found, left = {}, [step]
    while left:
        op = left.pop()
        if op.name not in found:
            found[op.name] = op
            left += [*(tensor.op for tensor in op.inputs), *op.control_inputs]
    return list(found.values())


def rehearse(program: Program, jobs: Mapping[str, int], tasks: Sequence[tuple[str, int]]) -> list[Tried]:
    """Try a training program `(spec, job, index)` as each of `tasks`, one after the other, in one fresh process.

    The servers are real, and all in that process. Raises what the program raises, TimeoutError after 20 seconds.
    """
    fresh.server_path(time.monotonic() + STARTS, cold=False)  # its start is not the program's time
    return fresh.call(training_task.tried, program, jobs, tasks, timeout=20.0).result()


def fault_of(
    task: tuple[str, int],
    last: int,
    *,
    made: Sequence[tuple[bool, str, int]],
    joined: bool,
    led: bool,
    masters: Sequence[str],
    step: int | None,
    returned: object,
) -> tuple[str, str]:
    """What is wrong with what a trainer did as `task`, see `Tried`: what it is called, or "", and a sentence; ("", "").

    It was told to train until the global step is `last`; a run may read that before or after its own addition.
    """
    job, index = task
    says = f"as {job}:{index}, `trainer`"
    if len(made) != 1:
        return "", f"{says} made {len(made)} servers; expected one"
    ((same, *server),) = made
    if tuple(server) != (job, index):
        return "", f"{says} made the server of {server[0]}:{server[1]}"
    if not same:
        return "hosts_unsplit", f"{says} gave its server another cluster than its flags name"
    if job == "ps":
        return ("", "") if joined else ("", f"{says} did not wait in `join`: a ps only serves")
    if joined:
        return "worker_waits", f"{says} waits in `join`: only a ps does; a worker trains"
    on = masters[-1] or "no server of the cluster" if masters else "no server"
    if on != f"worker:{index}":
        return "", f"{says} has its session on {on}; expected its own"
    if led != (index == 0):
        words = "prepared the variables as a chief does" if led else "waited for a chief"
        return "everyone_chief" if led else "last_is_chief", f"{says} {words}; the chief is task 0"
    if step not in (last, last + 1):
        words = f"{says} stopped when the global step was {step}; `last_step` was {last}"
        return "", f"{words}, and the global step counts the steps of all"
    if returned not in (last, last + 1):
        return "", f"{says} returned {shown(returned)}; expected {last}, the global step"
    return "", ""
