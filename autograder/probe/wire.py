"""The typed protocol between a student's kernel and a checker. Nothing is pickled; only plain values cross.

A frame is ``ASK1``, two big-endian lengths (header, body), a JSON header and raw bytes. In the header None, bool, int,
float and str are JSON, a list is an array, and everything else is an object with one tag:

    {"t": [..]} tuple            {"d": [[key, value], ..]} dict      {"b": n} the next n bytes of the body
    {"a": [dtype, shape]} array  {"g": n} serialized GraphDef, n bytes, where one was asked for

Raw bytes lie in the body in the order in which the header names them. The decoder builds exact plain types only and
raises nothing but `WireError`; both lengths are checked against the cap before anything is read.
"""

from __future__ import annotations

import contextlib
import json
import math
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from across import plain

HEAD = struct.Struct("!4sII")
MAGIC = b"ASK1"
DTYPES = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()
)
CONTAINERS = 1_000_000  # lists and objects of one header: an empty list is 2 bytes on the wire and 80 in memory
COLLIDING = 100  # keys of one dictionary whose hashes are another's; honest ones have one: hash(-1) == hash(-2)


class WireError(Exception):
    """The other side broke the protocol."""


class RefusedError(Exception):
    """The frame is sound, but its graph may not come in; the message is for the student."""


class TooBigError(WireError):
    """The frame is said to have more bytes than may come in; the message tells both numbers."""


class DiedError(WireError):
    """The other side is gone."""


class DeadlineError(WireError):
    """No whole frame within the deadline."""


def encode(value: object, graphs: int = 0, plainer: Callable[[Any], Any] = lambda item: item) -> bytes:
    """Return `value` as one frame, with at most so many `graphs` in it.

    `plainer` may give something plainer for what is of no plain type; by default only plain types cross. Raises
    `plain.NotPlainError`, ValueError for too many lists.
    """
    blobs: list[bytes] = []
    graphs_left = graphs

    def put(item: Any, depth: int) -> Any:
        nonlocal graphs_left
        if depth > plain.DEPTH:
            raise plain.too_deep()
        kind = type(item)
        if item is None or kind in (bool, int, float, str):
            return item
        if kind is list:
            return [put(each, depth + 1) for each in item]
        if kind is tuple:
            return {"t": [put(each, depth + 1) for each in item]}
        if kind is dict:
            return {"d": [[put(key, depth + 1), put(each, depth + 1)] for key, each in item.items()]}
        if kind is bytes:
            blobs.append(item)
            return {"b": len(item)}
        if (found := plainer(item)) is not item:
            return put(found, depth + 1)
        if isinstance(item, np.ndarray | np.generic):
            array = np.asarray(item)
            if array.dtype.name not in DTYPES:
                raise plain.refused(array)
            blobs.append(array.astype(array.dtype.newbyteorder("="), copy=False).tobytes())
            return {"a": [array.dtype.name, list(array.shape)]}
        if kind.__name__ == "GraphDef" and graphs_left > 0:
            graphs_left -= 1
            blobs.append(item.SerializeToString())
            return {"g": len(blobs[-1])}
        raise plain.refused(item)

    # not as ASCII: two halves of a surrogate pair would come back as one character
    header = json.dumps(put(value, 0), ensure_ascii=False).encode("utf-8", "surrogatepass")
    if _containers(header) > CONTAINERS:
        raise ValueError(f"a value of more than {CONTAINERS} lists and pairs; return an array")
    body = b"".join(blobs)
    return HEAD.pack(MAGIC, len(header), len(body)) + header + body


def decode(header: bytes, body: bytes, graphs: int = 0, graph: Callable[[bytes], Any] = bytes) -> Any:
    """Return the value of a frame's header and body.

    It may hold as many `graphs` as were asked for, which `graph` reads; one more is never looked at. Raises WireError, and
    RefusedError for a graph that may not come in.
    """
    at, graphs_left = 0, graphs

    def take(count: object) -> bytes:
        nonlocal at
        if type(count) is not int or count < 0 or at + count > len(body):
            raise WireError("a length is wrong")
        at += count
        return body[at - count : at]

    def array(name: object, shape: object) -> np.ndarray:
        if name not in DTYPES or type(shape) is not list or len(shape) > 32:
            raise WireError("an array's header is wrong")
        if not all(type(size) is int and size >= 0 for size in shape):
            raise WireError("an array's shape is wrong")
        dtype = np.dtype(str(name))
        data = take(math.prod(shape) * dtype.itemsize)
        if name == "bool" and data.strip(b"\0\1"):  # NumPy counts such a value as neither true nor false
            raise WireError("a truth value is neither 0 nor 1")
        return np.frombuffer(data, dtype).reshape(shape).copy()

    def pairs(content: Any, depth: int) -> dict[Any, Any]:
        made = [(get(key, depth + 1), get(each, depth + 1)) for key, each in content]
        if len(made) - len({hash(key) for key, _ in made}) > COLLIDING:  # a dictionary of them takes minutes to make
            raise WireError("a dictionary of keys that collide, or are the same")
        return dict(made)

    def get(item: Any, depth: int) -> Any:
        nonlocal graphs_left
        if depth > plain.DEPTH:
            raise WireError("nested too deeply")
        kind = type(item)
        if item is None or kind in (bool, int, float, str):
            return item
        if kind is list:
            return [get(each, depth + 1) for each in item]
        if kind is not dict or len(item) != 1:
            raise WireError("an unknown tag")
        ((tag, content),) = item.items()
        if tag in ("t", "d") and type(content) is not list:
            raise WireError("a tuple or dictionary is not written as a list")
        if tag == "t":
            return tuple(get(each, depth + 1) for each in content)
        if tag == "d":
            return pairs(content, depth)
        if tag == "b":
            return take(content)
        if tag == "g":
            graphs_left -= 1
            if graphs_left < 0:
                raise WireError("a graph that nobody asked for")
            return graph(take(content))
        if tag == "a":
            name, shape = content
            return array(name, shape)
        raise WireError("an unknown tag")

    if _containers(header) > CONTAINERS:
        raise WireError(f"more than {CONTAINERS} lists and pairs")
    try:
        value = get(json.loads(header), 0)
    except (WireError, RefusedError):
        raise
    except Exception as error:  # ValueError, TypeError, RecursionError, MemoryError: whatever the bytes provoke
        raise WireError(f"{type(error).__name__}: {error}"[:300]) from None
    if at != len(body):
        raise WireError("bytes that nothing names")
    return value


def _containers(header: bytes) -> int:
    """How many lists and objects a header holds at most: brackets in texts count, too."""
    return header.count(b"[") + header.count(b"{")


def send(channel: socket.socket, frame: bytes, until: float) -> None:
    """Send one frame before `until` (time.monotonic). Raises DeadlineError or DiedError."""
    with lost():
        channel.settimeout(max(0.001, until - time.monotonic()))
        channel.sendall(frame)


@contextlib.contextmanager
def lost() -> Iterator[None]:
    """A block in which a socket's errors are those of the protocol: DeadlineError, DiedError."""
    try:
        yield
    except TimeoutError:
        raise DeadlineError("no answer in time") from None
    except OSError as error:
        raise DiedError(str(error)) from None


def receive(
    channel: socket.socket, until: float, cap: int, graphs: int = 0, graph: Callable[[bytes], Any] = bytes
) -> Any:
    """Return the next value from `channel`: at most `cap` bytes, received and decoded before `until` (time.monotonic).

    Raises WireError; for `graphs` and `graph` see `decode`.
    """
    magic, header, body = HEAD.unpack(_exactly(channel, HEAD.size, until))
    if magic != MAGIC:
        raise WireError("not a frame")
    if header + body > cap:
        raise TooBigError(f"a reply of {header + body} bytes; the cap is {cap}")
    value = decode(_exactly(channel, header, until), _exactly(channel, body, until), graphs, graph)
    if time.monotonic() > until:  # what is costly to read is no answer in time
        raise DeadlineError("no answer that could be read in time")
    return value


def _exactly(channel: socket.socket, count: int, until: float) -> bytes:
    out = bytearray()
    while len(out) < count:
        left = until - time.monotonic()
        if left <= 0:
            raise DeadlineError("no answer in time")
        with lost():
            channel.settimeout(left)
            part = channel.recv(min(count - len(out), 1 << 20))
        if not part:
            raise DiedError("closed")
        out += part
    return bytes(out)
