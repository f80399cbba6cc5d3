"""The typed protocol: every value that may cross comes back exactly, and no byte string does anything but be refused."""

import json
import socket
import threading
import time

import numpy as np
import pytest

from autograder.probe import wire


@pytest.mark.parametrize("value", [object(), {1, 2}, np.array([None]), np.array(["a"]), slice(1), len, 1j])
def test_what_is_not_plain_cannot_cross(value):
    with pytest.raises(TypeError, match=r"(a value of type|an array of) .*; return numbers"):
        wire.encode([value])


def test_a_subclass_of_a_plain_type_cannot_cross():
    class Equal(str):
        def __eq__(self, other):
            return True

        __hash__ = str.__hash__

    with pytest.raises(TypeError, match="type Equal;"):
        wire.encode(Equal("x"))


def test_what_refers_to_itself_is_refused():
    value = []
    value.append(value)
    with pytest.raises(TypeError, match="nested"):
        wire.encode(value)


@pytest.mark.parametrize(
    "header",
    [
        {"a": ["object", [1]]},
        {"a": ["int8", [-1]]},
        {"a": ["int8", [True]]},
        {"a": ["int8", [2**62, 2**62]]},
        {"a": ["int8", [0, 2**70]]},
        {"a": ["int8", [1] * 40]},
        {"b": 10**9},
        {"b": 1.0},
        {"d": [[[], 1]]},
        {"pickle": "x"},
        {"t": 1},
    ],
)
def test_a_forged_header_is_refused(header):
    with pytest.raises(wire.WireError):
        wire.decode(json.dumps(header).encode(), b"")


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_a_frame_over_the_cap_is_refused_before_it_is_read(pair):
    ours, theirs = pair
    theirs.sendall(wire.HEAD.pack(wire.MAGIC, 2**31, 2**31))
    with pytest.raises(wire.TooBigError, match="the cap is 1000"):
        wire.receive(ours, time.monotonic() + 5, 1000)


def test_a_closed_channel_is_a_death(pair):
    ours, theirs = pair
    theirs.close()
    with pytest.raises(wire.DiedError):
        wire.receive(ours, time.monotonic() + 5, 1000)


def test_a_large_value_crosses_a_socket_whole(pair):
    ours, theirs = pair
    array = np.arange(3_000_000, dtype=np.float32)
    until = time.monotonic() + 30
    sender = threading.Thread(target=wire.send, args=(theirs, wire.encode(array), until))
    sender.start()
    got = wire.receive(ours, until, 1 << 26)
    sender.join(30)
    np.testing.assert_array_equal(got, array)


def test_other_bytes_than_a_frame_are_refused(pair):
    ours, theirs = pair
    theirs.sendall(b"\x80\x04\x95cposix\nsystem\n")
    with pytest.raises(wire.WireError, match="not a frame"):
        wire.receive(ours, time.monotonic() + 5, 1000)
