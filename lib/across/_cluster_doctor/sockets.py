"""TCP sockets of this machine's processes, from /proc/net/tcp and their descriptors; nothing where there is no /proc."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import socket
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

STATES = {1: "ESTABLISHED", 2: "SYN_SENT", 8: "CLOSE_WAIT", 10: "LISTEN"}
INODE = re.compile(r"socket:\[(\d+)\]")


@dataclass(frozen=True)
class Socket:
    """A TCP socket."""

    ip: str
    port: int
    peer: str  # "127.0.0.1:2222"
    state: str
    inode: int


def tcp(pid: int | str = "self") -> list[Socket]:
    """The sockets of the network in which a process lives."""
    found = []
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            rows = Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]
            found += [_socket(row.split()) for row in rows]
    return found


def inodes(pid: int) -> set[int]:
    """The numbers of the sockets that a process holds; none where we may not see them."""
    return {int(named[1]) for link in descriptors(pid) if (named := INODE.fullmatch(link))}


def descriptors(pid: int) -> Iterator[str]:
    """What a process has open."""
    with contextlib.suppress(OSError):
        for number in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                yield os.readlink(f"/proc/{pid}/fd/{number}")


def holders(wanted: Iterable[int]) -> dict[int, list[int]]:
    """Which processes hold each of these sockets, as far as we may see."""
    among, found = set(wanted), {}
    for pid in pids() if among else ():
        for inode in among & inodes(pid):
            found.setdefault(inode, []).append(pid)
    return found


def pids() -> list[int]:
    """Every process that can be seen."""
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return []


def _socket(row: list[str]) -> Socket:
    (ip, number), (peer, to) = row[1].split(":"), row[2].split(":")
    state = STATES.get(int(row[3], 16), "")
    peer_ip = _ip(peer)
    shown = f"[{peer_ip}]" if ":" in peer_ip else peer_ip
    return Socket(_ip(ip), int(number, 16), f"{shown}:{int(to, 16)}", state, int(row[9]))


def _ip(digits: str) -> str:
    """An address as people write it; of IPv6 for IPv4 as IPv4. The kernel writes words of four bytes in its own order."""
    words = [bytes.fromhex(digits[at : at + 8]) for at in range(0, len(digits), 8)]
    packed = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    if len(packed) == 4:
        return socket.inet_ntoa(packed)
    address = ipaddress.IPv6Address(packed)
    return str(address.ipv4_mapped or address)
