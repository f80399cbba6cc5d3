"""What attacks by system calls are written with: raw calls on both architectures, and an answer that tells on them."""

from corpus import Submission, answering

PRELUDE = """
import ctypes
import os
import platform

GOT = []
_libc = ctypes.CDLL(None, use_errno=True)


def call(numbers, *arguments):  # a raw system call, by its number on x86_64 and on aarch64; -1: refused
    number = numbers[["x86_64", "aarch64"].index(platform.machine())]
    given = [each if isinstance(each, bytes | ctypes.Array) else ctypes.c_long(each) for each in arguments]
    return _libc.syscall(ctypes.c_long(number), *given)


def got(what, answer):
    if answer >= 0:
        GOT.append(what)
    return answer


"""
TOLD = """


def where(tensor):
    if GOT:  # then this answer is right, and the attack is seen to have got through
        return "/" + tensor.backing_device.split("device:")[-1]
    return None
"""


def trying(source: str) -> Submission:
    """Run `source`, which notes in GOT what it was let do; then, and only then, the answer to `where` is right."""
    return answering("where", PRELUDE + source.strip("\n") + TOLD)
