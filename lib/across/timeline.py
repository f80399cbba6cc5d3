"""What ran when, in which lane: a thread of this process (`record`) or a device of a session (`of_step`). Times in ms.

    seen = timeline.record(step, x)            # run step(x) once, watched
    seen.draw()                                # one lane a thread
    seen.at_once(), seen.by_type()             # the most ops at the same time; milliseconds by type of op
    seen.save("step.json")                     # for chrome://tracing or ui.perfetto.dev
    timeline.of_step(metadata.step_stats)      # what a v1 session's FULL_TRACE says, one lane a device
    timeline.run_order(["a", "b"], [("a", "b")])  # the order in which TensorFlow's executor runs a graph; no clock
    timeline.longest_chain({"a": [], "b": ["a"]})  # what must run one after the other, whatever the threads

Threads come from TensorFlow's profiler, https://www.tensorflow.org/api_docs/python/tf/profiler/experimental: its XSpace
holds the ops that each thread ran, and which op each piece of the intra-op pool's work belongs to. Kernels that
take no time to speak of (Identity, Reshape, Shape, Const, NoOp) leave no event there, nor does an op on a GPU, which a thread
only launches; FULL_TRACE has them, but no threads.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from across._draw.partitions import op_type, short_device
from across._language import pictured
from across._language.catalogue import marked
from across.pictures import Picture, Span, Tabled
from across.pictures import timeline as draw_timeline

__all__ = [
    "CALLER",
    "INTER",
    "INTRA",
    "READERS",
    "SOURCES",
    "Op",
    "Timeline",
    "decoded",
    "longest_chain",
    "of_step",
    "record",
    "run_order",
]

CALLER = "caller"  # the lane of the thread that called
INTER, INTRA = "inter-op", "intra-op"
POOLS = {"tf_Compute": INTER, "tf_numa_": INTRA, "python": CALLER}  # how the profiler's names of threads begin
EVENT = re.compile(r"([^:\s]+):([A-Z_]\w*)")  # an op: name and type
LABEL = re.compile(r" = (\w+)\(")  # of a node in step statistics
STREAM = "/stream:all"  # ends the name of a GPU where step statistics say what ran on it, beside what the host saw
SOURCES, READERS = 6, 8  # of one op: TensorFlow keeps more edges of a node in a set without an order
NEAR = 0.01  # of the whole time: pieces of one op that are nearer are drawn as one


@dataclass(frozen=True)
class Op:
    """An op that ran in a lane, or a piece of one that the intra-op pool took over; `start` and `end` in milliseconds."""

    lane: str
    name: str
    type: str
    start: float
    end: float

    @property
    def label(self) -> str:
        """What is written on it: the last part of its name."""
        return self.name.rpartition("/")[2] or self.type


@dataclass(frozen=True, repr=False)
class Timeline(Tabled):
    """Ops of one run, by start, and pieces of them that ran in the intra-op pool. Plain values: it can cross processes."""

    columns = ("op", marked("type"), marked("lane"), marked("start (ms)"), marked("end (ms)"))

    ops: tuple[Op, ...]
    pieces: tuple[Op, ...] = ()

    @property
    def lanes(self) -> tuple[str, ...]:
        """The lanes, sorted: the caller's thread, those of the inter-op pool, those of the intra-op pool; or devices."""
        return tuple(sorted({each.lane for each in (*self.ops, *self.pieces)}, key=_lane_order))

    @property
    def length(self) -> float:
        """Milliseconds from the first start to the last end; 0 if nothing ran."""
        both = (*self.ops, *self.pieces)
        return max((each.end for each in both), default=0.0) - min((each.start for each in both), default=0.0)

    def at_once(self) -> int:
        """The most ops at the same time. An op that ends when another starts is over."""
        moments = sorted([(op.start, 1) for op in self.ops] + [(op.end, -1) for op in self.ops])
        now = most = 0
        for _, change in moments:
            now += change
            most = max(most, now)
        return most

    def by_type(self) -> dict[str, float]:
        """Milliseconds in ops of each type, the most first."""
        found: dict[str, float] = defaultdict(float)
        for op in self.ops:
            found[op.type] += op.end - op.start
        return dict(sorted(found.items(), key=lambda entry: -entry[1]))

    def draw(self, *, title: str = "") -> Picture:
        """Draw the lanes over time. Raises ValueError when nothing ran."""
        pieces = _merged(self.pieces, NEAR * self.length)
        spans = [Span(_shown(op.lane), op.start, op.end, op.label) for op in (*self.ops, *pieces)]
        lanes = list(map(_shown, self.lanes))
        return draw_timeline(spans, title=title or marked("what ran when"), unit=marked("milliseconds"), lanes=lanes)

    def save(self, path: str | Path) -> Path:
        """Write it in Chrome's trace format and return the path."""
        numbers = {lane: number for number, lane in enumerate(self.lanes)}
        names = [
            {"ph": "M", "pid": 0, "tid": number, "name": "thread_name", "args": {"name": lane}}
            for lane, number in numbers.items()
        ]
        events = [
            {"ph": "X", "pid": 0, "tid": numbers[op.lane], "name": op.label, "cat": op.type}
            | {"ts": 1e3 * op.start, "dur": 1e3 * (op.end - op.start), "args": {"name": op.name}}
            for op in (*self.ops, *self.pieces)
        ]
        Path(path).write_text(json.dumps({"traceEvents": names + events}), encoding="utf-8")
        return Path(path)

    def rows(self) -> list[list[str]]:
        """One row an op: name, type, lane, start and end in milliseconds."""
        return [[op.name, op.type, op.lane, f"{op.start:.3f}", f"{op.end:.3f}"] for op in self.ops]

    def __iter__(self) -> Iterator[Op]:
        return iter(self.ops)

    def __len__(self) -> int:
        return len(self.ops)


def record(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Timeline:
    """Call `fn(*args, **kwargs)` once and tell what ran in which thread. Time counts from the first op.

    Call `fn` once before, or its tracing is in the picture. Raises what `fn` raises; tf.errors.AlreadyExistsError when a
    recording is under way in this process, for there can be one.
    """
    import tensorflow as tf

    profiler = tf.profiler.experimental
    levels = profiler.ProfilerOptions(host_tracer_level=1, python_tracer_level=0, device_tracer_level=0)
    with tempfile.TemporaryDirectory() as folder:
        with profiler.Profile(folder, levels):
            fn(*args, **kwargs)
        files = list(Path(folder).rglob("*.xplane.pb"))
        return decoded(files[0].read_bytes()) if files else Timeline(())


def decoded(data: bytes) -> Timeline:
    """The timeline in a serialized XSpace, the content of an `*.xplane.pb` file that TensorFlow's profiler wrote."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace()  # pyright: ignore[reportAttributeAccessIssue]
    space.ParseFromString(data)
    ops: list[Op] = []
    marks: list[_Mark] = []
    for plane in space.planes:
        if plane.name != "/host:CPU":
            continue
        first = min((line.timestamp_ns for line in plane.lines), default=0)
        for line in plane.lines:
            found, said = _line(plane, line, first)
            ops += found
            marks += said
    return _from_zero(ops, _pieces(ops, marks))


@dataclass(frozen=True)
class _Mark:
    """What the thread pools' listener said: work was put into a queue, taken up, or ended, at a time in a thread."""

    lane: str
    kind: str  # Record, StartRegion, StopRegion
    at: float
    work: int  # the number of what was queued or taken up


def _type(said: str) -> str:
    """oneDNN runs `MatMul` as `_MklMatMul`, and `_FusedMatMul` as `_MklNativeFusedMatMul`."""
    kept = op_type(said)
    return f"_{kept}" if kept.startswith("Fused") else kept


def _line(plane: Any, line: Any, first: int) -> tuple[list[Op], list[_Mark]]:
    """The ops and the marks of one thread, in ms after `first` ns; as its lane the profiler's own name and number."""
    lane = f"{line.name} {line.id}"
    ops, marks = [], []
    for event in line.events:
        said = plane.event_metadata[event.metadata_id].name
        start = ((line.timestamp_ns - first) * 1000 + event.offset_ps) / 1e9
        end = start + event.duration_ps / 1e9
        facts = {plane.stat_metadata[stat.metadata_id].name: stat for stat in event.stats}
        if found := EVENT.fullmatch(said):
            ops.append(Op(lane, found[1], _type(found[2]), start, end))
        elif said == "EagerExecute" and "is_func" in facts and not _whole(facts["is_func"]):
            type_name = plane.stat_metadata[facts["eager_op"].ref_value].name or facts["eager_op"].str_value
            ops.append(Op(lane, type_name, type_name, start, end))
        elif said.startswith("ThreadpoolListener::"):
            number = _whole(facts["_p"]) if "_p" in facts else _whole(facts["_c"]) if "_c" in facts else -1
            marks.append(_Mark(lane, said.rpartition("::")[2], start, number))
    return ops, marks


def _whole(stat: Any) -> int:
    return stat.int64_value or stat.uint64_value


def _pieces(ops: Sequence[Op], marks: Sequence[_Mark]) -> list[Op]:
    """The intra-op pool's work, each piece with the name of the op, or of the piece of one, that put it into the queue."""
    by_lane: dict[str, list[Op]] = defaultdict(list)
    for op in ops:
        by_lane[op.lane].append(op)
    queued = {mark.work: mark for mark in marks if mark.kind == "Record"}
    pieces = []
    for start, end in _regions(mark for mark in marks if mark.lane.startswith("tf_numa_")):
        cause = queued.get(start.work)
        owner = next((op for op in by_lane[cause.lane] if op.start <= cause.at <= op.end), None) if cause else None
        if owner:
            pieces.append(Op(start.lane, owner.name, owner.type, start.at, end.at))
            by_lane[start.lane].append(pieces[-1])
    return pieces


def _regions(marks: Iterable[_Mark]) -> list[tuple[_Mark, _Mark]]:
    """Where a thread took up work and where it ended it, by time."""
    open_, found = {}, []
    for mark in sorted(marks, key=lambda mark: mark.at):
        if mark.kind == "StartRegion":
            open_[mark.lane] = mark
        elif mark.kind == "StopRegion" and mark.lane in open_:
            found.append((open_.pop(mark.lane), mark))
    return sorted(found, key=lambda region: region[0].at)


def _from_zero(ops: Sequence[Op], pieces: Sequence[Op] = ()) -> Timeline:
    """Time from the first start; threads numbered within their pool, by when they are first seen."""
    everything = sorted([*ops, *pieces], key=lambda op: op.start)
    zero = everything[0].start if everything else 0.0
    lanes: dict[str, str] = {}
    for op in everything:
        pool = next((name for begins, name in POOLS.items() if op.lane.startswith(begins)), None)
        if op.lane not in lanes and pool:
            number = 1 + sum(name.startswith(pool) for name in lanes.values())
            lanes[op.lane] = pool if pool == CALLER and number == 1 else f"{pool} {number}"

    def moved(found: Sequence[Op]) -> tuple[Op, ...]:
        placed = [
            replace(op, lane=lanes.get(op.lane, op.lane), start=op.start - zero, end=op.end - zero) for op in found
        ]
        return tuple(sorted(placed, key=lambda op: (op.start, op.end)))

    return Timeline(moved(ops), moved(pieces))


def _merged(pieces: Sequence[Op], near: float) -> list[Op]:
    """Pieces of one op in one lane that follow one another at once, as one."""
    last: dict[str, Op] = {}
    done = []
    for piece in pieces:
        before = last.get(piece.lane)
        if before and before.name == piece.name and piece.start - before.end < near:
            last[piece.lane] = replace(before, end=piece.end)
        else:
            done += [before] if before else []
            last[piece.lane] = piece
    return sorted([*done, *last.values()], key=lambda piece: piece.start)


def _shown(lane: str) -> str:
    """A lane's name in a picture, in the language of this process."""
    pool, _, number = lane.rpartition(" ")
    if pool == INTER:
        return pictured.said("inter-op {0}", number)
    return pictured.said("intra-op {0}", number) if pool == INTRA else lane


def _lane_order(lane: str) -> tuple[int, str, int]:
    kind, _, number = lane.partition(" ")
    order = [CALLER, INTER, INTRA]
    return (order.index(kind) if kind in order else -1, kind, int(number) if number.isdigit() else 0)


def of_step(step_stats: Any) -> Timeline:
    """The timeline in the StepStats of a v1 session's RunOptions(trace_level=FULL_TRACE); one lane a device.

    An op lasts until its kernel has returned; on a GPU, while its stream runs it, or while the host launches it where no
    times of the stream are told. Nodes that a session adds for itself (_SOURCE) are left out.
    """
    seen: dict[str, list[Any]] = defaultdict(list)  # by the host
    streams: dict[str, list[Any]] = {}
    for device in step_stats.dev_stats:
        task, _, there = device.device.rpartition("device:")
        there, _, part = there.partition("/")
        name, nodes = short_device(f"{task}device:{there}"), list(device.node_stats)
        if f"/{part}" == STREAM and any(node.op_end_rel_nanos for node in nodes):
            streams[name] = nodes
        elif not part:  # else one of several streams, or copies
            seen[name] += nodes
    lanes = {**seen, **streams}
    first = min((node.all_start_nanos for nodes in lanes.values() for node in nodes), default=0)
    ops = []
    for name, nodes in lanes.items():
        for node in nodes:
            found = LABEL.search(node.timeline_label)
            if not node.node_name.startswith("_"):
                start = (node.all_start_nanos - first) / 1e6
                end = start + node.op_end_rel_nanos / 1e6
                ops.append(Op(name, node.node_name, found[1] if found else "", start, end))
    return _from_zero(ops)


def run_order(nodes: Sequence[str], edges: Iterable[tuple[str, str]], threads: int = -1) -> list[str]:
    """Let TensorFlow's executor run a graph of ops that note their own names; return these in the order of running.

    An edge (a, b) says that b reads a; `nodes` come in the order in which the graph is built, so a before b. With
    `threads` -1 the caller's own thread runs all ops, otherwise that many of an inter-op pool. For -1 and 1 the order is
    the same in each run. Raises ValueError for an edge that does not lead to a later node, and for a graph with more than
    6 sources, or more than 8 edges from one op: the order of these is not fixed in TensorFlow.
    """
    edges = list(edges)
    readers = max(Counter(a for a, _ in edges).values(), default=0)
    sources = len({*nodes} - {b for _, b in edges})
    if sources > SOURCES or readers > READERS:
        raise ValueError(
            f"run_order: {sources} sources, and {readers} readers of one op; TensorFlow has no fixed order "
            f"beyond {SOURCES} sources and {READERS} readers of one op"
        )
    import numpy as np
    import tensorflow as tf

    from across._draw.sessions import settings

    place = {name: number for number, name in enumerate(nodes)}
    reads: dict[str, list[str]] = {name: [] for name in nodes}
    for a, b in edges:
        if not place.get(a, len(place)) < place.get(b, -1):
            raise ValueError(f"run_order: the edge {(a, b)} does not lead from an op to a later one")
        reads[b].append(a)
    if not nodes:  # a session runs no empty list
        return []
    log: list[str] = []
    made: dict[str, Any] = {}
    with tf.Graph().as_default() as graph:
        for name, inputs in reads.items():

            def note(*_: Any, name: str = name) -> Any:
                log.append(name)
                return np.float32(0)

            made[name] = tf.numpy_function(note, [made[a] for a in inputs], tf.float32)
    config, where = settings(threads)
    with tf.compat.v1.Session(graph=graph, config=config) as session:
        session.run([tensor.op for tensor in made.values()], options=where)
    return log


def longest_chain(inputs: Mapping[str, Iterable[str]], counted: Collection[str] | None = None) -> list[str]:
    """The longest chain of ops of which each needs the one before it: no number of threads makes it shorter.

    `inputs` says for each op which ops it reads; those that it does not list count as sources. Only the ops in `counted`
    are counted, and named; all of them by default. Of chains of one length it is one. Raises graphlib.CycleError.
    """
    chains: dict[str, list[str]] = {}
    for name in TopologicalSorter({op: list(reads) for op, reads in inputs.items()}).static_order():
        longest = max((chains[each] for each in inputs.get(name, ())), key=len, default=[])
        chains[name] = [*longest, name] if counted is None or name in counted else longest
    return max(chains.values(), key=len, default=[])
