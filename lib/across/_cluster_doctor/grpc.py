"""The few frames of HTTP/2 and fields of protocol buffers that one call of gRPC needs: RFC 9113, RFC 7541, gRPC's own pages."""

from __future__ import annotations

import socket
import struct
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS = 0, 1, 4  # kinds of frames
END_STREAM, END_HEADERS, ACK = 1, 4, 1  # flags


def greet(connection: socket.socket, seconds: float) -> None:
    """Begin; TimeoutError if nothing comes back within so many seconds, ValueError if it is no greeting of HTTP/2."""
    connection.settimeout(seconds)
    connection.sendall(PREFACE + _frame(SETTINGS, 0, 0, b""))
    kind, *_ = _read(connection)
    if kind != SETTINGS:
        raise ValueError("not HTTP/2")
    connection.sendall(_frame(SETTINGS, ACK, 0, b""))


def call(connection: socket.socket, path: str, message: bytes, seconds: float) -> bytes:
    """The message that one call returns, empty for a method that is not there. Raises TimeoutError, ValueError."""
    head = b"\x83\x86" + b"\x04" + _text(path) + b"\x01" + _text("doctor")  # POST, http, :path, :authority
    head += b"\x0f\x10" + _text("application/grpc") + b"\x00" + _text("te") + _text("trailers")
    connection.sendall(_frame(HEADERS, END_HEADERS, 1, head))
    connection.sendall(_frame(DATA, END_STREAM, 1, b"\0" + struct.pack(">I", len(message)) + message))
    body, until = b"", time.monotonic() + seconds
    while time.monotonic() < until:
        kind, flags, stream, payload = _read(connection)
        if kind == DATA:
            body += payload
        if stream == 1 and kind in (DATA, HEADERS) and flags & END_STREAM:
            return body[5:]
    raise TimeoutError(path)


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def _read(connection: socket.socket) -> tuple[int, int, int, bytes]:
    """A frame: its kind, flags, stream and payload."""
    head = _exactly(connection, 9)
    size, kind, flags, stream = int.from_bytes(head[:3]), head[3], head[4], int.from_bytes(head[5:])
    if size > 1 << 16:
        raise ValueError("not HTTP/2")
    return kind, flags, stream, _exactly(connection, size)


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise ValueError("it ended")
        data += more
    return data


def _text(value: str) -> bytes:
    return bytes([len(value)]) + value.encode()


def field(number: int, value: bytes | int) -> bytes:
    """A field of a message of protocol buffers."""
    if isinstance(value, int):
        return bytes([number << 3]) + _number(value)
    return bytes([number << 3 | 2]) + _number(len(value)) + value


def _number(value: int) -> bytes:
    """A varint of protocol buffers."""
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def fields(message: bytes) -> dict[int, list[bytes | int]]:
    """The fields of a message of protocol buffers by number: varints and what has a length; ValueError for no message."""
    found: dict[int, list[bytes | int]] = {}
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            if at >= len(message):
                raise ValueError("it is cut")
            byte, at = message[at], at + 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        tag = number()
        kind = tag & 7
        if kind == 0:
            found.setdefault(tag >> 3, []).append(number())
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        elif kind == 2:
            size = number()
            found.setdefault(tag >> 3, []).append(message[at : at + size])
            at += size
        else:
            raise ValueError("no such kind of field")
    return found


def message(value: bytes | int) -> bytes:
    """A field that is a message or a text; ValueError for a number."""
    if isinstance(value, int):
        raise ValueError("a number in the place of a message")
    return value
