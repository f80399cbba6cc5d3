"""What is written in a serialized GraphDef, counted before it is parsed: the bytes of an empty function are two, the
memory that it takes is five hundred times as much.

See "Encoding" in the manual of Protocol Buffers: a message is fields, each a tag (number and wire type) and a value.
"""

from __future__ import annotations

from functools import cache
from typing import Any

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5  # wire types; 3 and 4, groups, are in no GraphDef
NESTED = 60  # messages in messages; a function's name in an attribute is the seventh

Message = dict[int, Any]  # the number of a field that holds messages -> that message


class MalformedError(ValueError):
    """These bytes are no GraphDef."""


def fields(data: bytes, most: int) -> int:
    """The number of fields in a serialized GraphDef, in all its messages, or `most` + 1 where there are more.

    A microsecond a field, and no memory. Raises MalformedError.
    """
    count, at = 0, 0
    ends: list[tuple[int, Message]] = [(len(data), _graph_def())]  # the messages that we are in: where each ends
    try:
        while ends:
            end, message = ends[-1]
            if at >= end:
                if at > end:
                    raise MalformedError("a field is longer than its message")
                ends.pop()
                continue
            count += 1
            if count > most:
                return count
            tag, at = _varint(data, at)
            kind, number = tag & 7, tag >> 3
            if kind == VARINT:
                _, at = _varint(data, at)
            elif kind == LENGTH:
                length, at = _varint(data, at)
                if number in message:
                    if len(ends) > NESTED:
                        raise MalformedError("messages nested too deeply")
                    if at + length > end:
                        raise MalformedError("a message is longer than the one that it is in")
                    ends.append((at + length, message[number]))
                else:
                    at += length
            elif kind in (FIXED32, FIXED64):
                at += 4 if kind == FIXED32 else 8
            else:
                raise MalformedError("a field of no known kind")
    except IndexError:
        raise MalformedError("a field has no end") from None
    return count


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at `at` in base 128, least significant digits first, and where it ends."""
    byte = data[at]
    at += 1
    if byte < 128:
        return byte, at
    value, shift = byte & 127, 7
    while byte >= 128:
        if shift > 63:
            raise MalformedError("a number of more than 64 bits")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
    return value, at


@cache
def _graph_def() -> Message:
    """GraphDef as a table of tables, from its own descriptor; a message that holds itself is one table."""
    from tensorflow.core.framework import graph_pb2

    made: dict[str, Message] = {}

    def table(descriptor: Any) -> Message:
        if descriptor.full_name not in made:
            made[descriptor.full_name] = {}
            for field in descriptor.fields:
                if field.message_type is not None:
                    made[descriptor.full_name][field.number] = table(field.message_type)
        return made[descriptor.full_name]

    return table(graph_pb2.GraphDef.DESCRIPTOR)  # pyright: ignore[reportAttributeAccessIssue]
