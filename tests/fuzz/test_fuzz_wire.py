"""The typed protocol under fire: what may cross comes back bit by bit, whatever else comes is refused within bounds."""

import contextlib
import json
import math
import socket
import threading
import time
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from fuzzing import bounded, damaged, damaged_bytes, examples
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from autograder.probe import asking, wire

CAP = 16 << 20  # bytes of a reply: course.Limits
BIG_PRIME = 2**61 - 1  # hash(n * BIG_PRIME) == 0

TEXT = st.text(st.characters() | st.characters(categories=["Cs", "Cc", "Cf"]), max_size=20)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4)
ARRAYS = st.sampled_from(sorted(wire.DTYPES)).flatmap(
    lambda name: st.builds(
        lambda data, shape: np.frombuffer(data.ljust(32 * 1024, b"\0"), name)[: math.prod(shape)].reshape(shape).copy(),
        st.binary(max_size=256).map(lambda data: bytes(b & 1 for b in data) if name == "bool" else data),
        SHAPES,
    )
)
KEYS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | TEXT
    | st.binary(max_size=8)
    | st.tuples(TEXT, st.integers())
)
VALUES = st.recursive(
    KEYS | ARRAYS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple) | st.dictionaries(KEYS, inner, max_size=4)
    ),
    max_leaves=20,
)


def opened(frame: bytes, cap: int = CAP) -> Any:
    """What a reader of `frame` gets: through a socket's own reading, without a socket."""
    magic, header, body = wire.HEAD.unpack(frame[: wire.HEAD.size].ljust(wire.HEAD.size, b"\0"))
    if magic != wire.MAGIC or header + body > cap or len(frame) != wire.HEAD.size + header + body:
        raise wire.WireError("not a frame")
    return wire.decode(frame[wire.HEAD.size :][:header], frame[wire.HEAD.size + header :])


def exactly(a: Any, b: Any) -> bool:
    """Whether two values are the same to the last bit; all NaNs of Python's are one."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, float):
        return (a != a and b != b) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(exactly, a, b))
    if isinstance(a, dict):
        return exactly(list(a), list(b)) and exactly(list(a.values()), list(b.values()))
    return a == b


def assert_plain(value: Any) -> None:
    """Nothing but the protocol's own types, none of them a subclass."""
    assert type(value) in (type(None), bool, int, float, str, bytes, list, tuple, dict, np.ndarray), type(value)
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, np.ndarray):
        assert value.dtype.name in wire.DTYPES
        assert value.dtype.isnative
        assert value.flags.owndata or value.base is not None
    elif isinstance(value, list | tuple):
        for each in value:
            assert_plain(each)


@examples(250)
@given(VALUES)
def test_every_value_comes_back_to_the_last_bit(value):
    assert exactly(opened(wire.encode(value)), value)


@pytest.mark.parametrize("text", ["\ud83d\ude00", "\ud83d", "\U0001f600", "\0", "\ufeff[", "\u2028"], ids=ascii)
def test_a_text_of_any_characters_comes_back_as_it_was(text):
    assert opened(wire.encode([text, {text: text}])) == [text, {text: text}]


@examples(200)
@given(ARRAYS, st.sampled_from("><"), st.booleans())
def test_an_array_of_any_byte_order_and_layout_comes_back_with_its_values(array, order, fortran):
    odd = array.astype(array.dtype.newbyteorder(order), order="F" if fortran else "C")
    assert exactly(opened(wire.encode(odd)), array)


@pytest.mark.parametrize(
    "odd",
    [
        np.zeros(3, dtype=[("a", "i4"), ("b", "f8")]),
        np.zeros(3, dtype="M8[s]"),
        np.zeros(3, dtype="U4"),
        np.zeros(3, dtype="S4"),
        np.zeros(3, dtype="V4"),
        np.array([{}, None]),
        np.zeros(2, dtype=np.longdouble),
    ],
    ids=lambda array: str(array.dtype),
)
def test_an_array_of_another_type_is_refused_where_it_would_leave(odd):
    with pytest.raises(TypeError, match="an array of"):
        wire.encode([odd])


@examples(500)
@given(damaged_bytes(VALUES.map(wire.encode)))
def test_a_damaged_frame_is_a_plain_value_or_a_refusal(frame):
    with contextlib.suppress(wire.WireError):
        assert_plain(opened(frame))


TAGGED = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.sampled_from(sorted(wire.DTYPES)),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.builds(lambda tag, content: {tag: content}, st.sampled_from("tdbga"), inner)
        | st.builds(
            lambda name, shape: {"a": [name, shape]}, st.sampled_from(sorted(wire.DTYPES)), st.lists(inner, max_size=3)
        )
        | st.dictionaries(TEXT, inner, max_size=2)
    ),
    max_leaves=20,
)


@examples(500)
@given(TAGGED, st.binary(max_size=64))
def test_a_header_of_any_json_is_a_plain_value_or_a_refusal(header, body):
    with contextlib.suppress(wire.WireError):
        assert_plain(wire.decode(json.dumps(header).encode(), body))


@pytest.mark.parametrize("content", ['"ab"', '{"t": 1}', "{}", "1", "null"])
@pytest.mark.parametrize("tag", ["t", "d"])
def test_what_is_not_written_as_encode_writes_it_is_refused(tag, content):
    with pytest.raises(wire.WireError):
        wire.decode(f'{{"{tag}": {content}}}'.encode(), b"")


def test_a_value_of_millions_of_lists_is_refused_where_it_would_leave():
    with pytest.raises(ValueError, match="return an array"):
        wire.encode([[]] * (wire.CONTAINERS + 1))


def test_a_truth_value_that_is_neither_is_refused():
    with pytest.raises(wire.WireError, match="neither 0 nor 1"):
        wire.decode(b'{"a": ["bool", [3]]}', b"\0\1\2")


def filled(unit: str, count: int = CAP) -> bytes:
    return b"[" + b",".join([unit.encode()] * min(count, (CAP - 256) // (len(unit) + 1))) + b"]"


LIES: dict[
    str, Callable[[], bytes]
] = {  # headers near the cap that would take hours or all memory if they were believed
    "as many lists as may come": lambda: filled("[]", wire.CONTAINERS - 1),
    "as many lists in lists as may come": lambda: filled("[" * 90 + "]" * 90, wire.CONTAINERS // 90 - 1),
    "as many arrays as may come": lambda: filled('{"a":["int8",[0]]}', wire.CONTAINERS // 3 - 1),
    "as many pairs as may come": lambda: filled('{"d":[[0,0]]}', wire.CONTAINERS // 3 - 1),
    "arrays of many dimensions": lambda: filled('{"a":["int8",[' + ",".join(["0"] * 32) + "]]}"),
    "numbers": lambda: filled("0"),
    "long numbers": lambda: filled("9" * 4000),
    "numbers longer than Python reads": lambda: filled("9" * 5000),
    "fractions": lambda: filled("1e-9"),
    "texts": lambda: filled('"\\u00e9"'),
    "one text": lambda: b'"' + b"\\ud800" * (CAP // 6 - 1) + b'"',
    "brackets only": lambda: b"[" * CAP,
    "keys that collide": lambda: json.dumps({"d": [[n * BIG_PRIME, 0] for n in range(400_000)]}).encode(),
    "dictionaries of keys that collide": lambda: json.dumps(
        [{"d": [[n * BIG_PRIME, 0] for n in range(101)]} for _ in range(5000)]
    ).encode(),
    "tuples as keys": lambda: json.dumps({"d": [[{"t": [n * BIG_PRIME, 1]}, 0] for n in range(200_000)]}).encode(),
    "a huge array": lambda: b'{"a":["float64",[4611686018427387904,4611686018427387904]]}',
    "a huge array of nothing": lambda: b'{"a":["float64",[4611686018427387904,0,4611686018427387904]]}',
    "dimensions of thousands of digits": lambda: ('{"a":["int8",[' + ",".join(["9" * 4000] * 32) + "]]}").encode(),
    "a huge length": lambda: b'{"b":99999999999999999999}',
    "arrays that overlap": lambda: filled('{"a":["int8",[1]]}'),
    "a body that nothing names": lambda: b"0",
}
BODIES = {"arrays that overlap": b"\0" * 100, "a body that nothing names": b"\0" * (CAP - 1)}


OF_EACH_KIND = (
    *("as many lists in lists as may come", "as many pairs as may come", "brackets only", "numbers", "one text"),
    *("keys that collide", "a huge array", "a huge length", "arrays that overlap", "a body that nothing names"),
)


@pytest.mark.parametrize(
    "lie", [pytest.param(each, marks=() if each in OF_EACH_KIND else pytest.mark.slow) for each in LIES]
)
@pytest.mark.whole
def test_a_frame_at_the_cap_is_answered_within_time_and_memory(lie):
    header, body = LIES[lie](), BODIES.get(lie, b"")

    def answered() -> None:
        with contextlib.suppress(wire.WireError):
            wire.decode(header, body)

    assert len(header) + len(body) <= CAP
    bounded(answered, seconds=20, mebibytes=700)


def conversation(peer: Any, seconds: float = 0.3, cap: int = 10_000, ended: threading.Event | None = None) -> Any:
    """What is received from a thread that runs `peer(socket)`; the pair is closed, `ended` is set, the thread is over."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(5)

    def run() -> None:
        with contextlib.suppress(OSError):
            peer(theirs)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        return wire.receive(ours, time.monotonic() + seconds, cap)
    finally:
        ours.close()
        if ended is not None:
            ended.set()
        thread.join(10)
        theirs.close()
        assert not thread.is_alive()


@examples(60)
@given(
    damaged_bytes(VALUES.map(wire.encode)) | st.binary(max_size=200) | VALUES.map(wire.encode),
    st.integers(0, 2**32),
    st.booleans(),
)
def test_a_peer_that_sends_anything_in_any_pieces_gets_a_value_or_a_refusal(data, seed, closes):
    rng = Random(seed)

    def peer(theirs: socket.socket) -> None:
        at = 0
        while at < len(data):
            step = rng.choice((1, 3, 17, len(data)))
            theirs.sendall(data[at : at + step])
            at += step
        if closes:
            theirs.shutdown(socket.SHUT_WR)

    with contextlib.suppress(wire.WireError):
        assert_plain(conversation(peer, seconds=0.02))


def test_a_peer_that_drips_does_not_move_the_deadline():
    frame = wire.encode(b"\0" * 100_000)
    stop = threading.Event()

    def peer(theirs: socket.socket) -> None:
        for byte in frame:
            theirs.sendall(bytes([byte]))
            if stop.wait(0.01):
                return

    with pytest.raises(wire.DeadlineError):  # not after the quarter of an hour that all of it would take
        conversation(peer, cap=200_000, ended=stop)


def test_a_peer_that_reads_nothing_does_not_move_the_deadline():
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(wire.DeadlineError):
        wire.send(ours, b"\0" * (64 << 20), time.monotonic() + 0.2)


@asking.probe
def anything(student, x):
    return student.anything(x)


ANSWERS = VALUES | st.fixed_dictionaries(
    {},
    optional={
        "value": VALUES,
        "error": VALUES | st.sampled_from(["Missing", "CannotCross"]),
        "says": VALUES,
        "line": VALUES,
    },
)


@examples(250)
@given(ANSWERS)
@example({"error": np.arange(2), "says": [1]})
def test_whatever_is_answered_a_check_gets_a_value_or_a_refusal_with_a_message(answer):
    frame = wire.encode(answer)
    student = asking.Student(lambda *_: opened(frame))
    said = "a message"
    with contextlib.suppress(wire.WireError):
        try:
            assert_plain(student.ask(anything, x=1))
        except asking.Refused as refused:
            said = str(refused)
    assert 0 < len(said) < 1000


def test_a_damaged_graph_is_read_or_refused_and_holds_only_what_may_run():
    import tensorflow as tf

    from autograder.probe import graphs

    @tf.function
    def looped(x):
        for _ in tf.range(3):
            x = tf.matmul(x, x) if tf.reduce_sum(x) > 0 else x + 1
        return x

    whole = looped.get_concrete_function(tf.TensorSpec((2, 2))).graph.as_graph_def(add_shapes=True)
    with tf.Graph().as_default() as plain, tf.device("/CPU:1"):
        tf.add(tf.constant([1.0] * 50), tf.compat.v1.placeholder(tf.float32, [50]), name="sum")
    sound = [graph.SerializeToString() for graph in (whole, plain.as_graph_def())]
    rng = Random(4)
    read = 0
    for _ in range(3000):
        with contextlib.suppress(graphs.GraphError):
            graph = graphs.read(damaged(rng.choice(sound), rng))
            functions = {function.signature.name for function in graph.library.function}
            nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
            assert {node.op for node in nodes} <= graphs.ALLOWED | functions
            read += 1
    assert read > 50, "the damage is so great that nothing was tried"
