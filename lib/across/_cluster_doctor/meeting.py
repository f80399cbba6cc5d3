"""Machines apart: each runs `across doctor --cluster --meet` in place of its program, and they meet at their tasks' addresses.

Each listens where its task would, and asks each other one again and again, until all know that all have met, or the time is
over. What one says of itself is a card: one line of JSON, answered by the other's card. A clock's offset is the middle of the
shortest exchange, as NTP has it. Whoever reaches the port may read the card: it holds addresses and versions, no secret.
"""

from __future__ import annotations

import json
import platform
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from across import _system
from across._cluster_doctor.config import Config, host, port

LONGEST = 1 << 18  # bytes of a card
EXCHANGE = 2.0  # seconds for one
PAUSE = 0.2  # seconds between two exchanges with one task
TEXT = 200  # characters of a text in a card


@dataclass(frozen=True)
class Card:
    """What a task's machine says of itself."""

    task: str
    host: str
    versions: Mapping[str, str]
    addresses: Mapping[str, str]
    reached: tuple[str, ...] = ()  # the tasks that have answered it
    heard: tuple[str, ...] = ()  # the tasks that have come to it
    now: float = 0.0  # its clock


@dataclass(frozen=True)
class Met:
    """What one knows of another task after the meeting."""

    card: Card | None = None  # None: it was neither reached nor heard
    reached: bool = False
    heard: bool = False
    offset: float = 0.0  # seconds that its clock is ahead of ours
    round_trip: float = 0.0  # seconds: by half of it `offset` may be wrong
    error: str = ""  # of the last try to reach it


@dataclass(frozen=True)
class Meeting:
    """How a meeting went, as seen by one."""

    own: Card
    others: Mapping[str, Met] = field(default_factory=dict)  # by the task whose address it is
    twins: tuple[str, ...] = ()  # hosts of others that say they are our task


def own_card(config: Config) -> Card:
    """What this machine says of itself."""
    versions = {name: _system.version(package) or "missing" for name, package in PACKAGES.items()}
    return Card(config.task, socket.gethostname(), {**versions, "Python": platform.python_version()}, config.addresses)


PACKAGES = {"TensorFlow": "tensorflow", "Keras": "keras", "across": "across"}


def listening(config: Config) -> socket.socket | None:
    """Listen where the task of `config` would; None for an evaluator beside the cluster. Raises OSError: it is taken."""
    address = config.addresses.get(config.task)
    if address is None:
        return None
    both = socket.has_dualstack_ipv6()  # as TensorFlow does: on every interface
    family = socket.AF_INET6 if both else socket.AF_INET
    return socket.create_server(("", port(address)), family=family, dualstack_ipv6=both, backlog=128)


def meet(own: Card, listener: socket.socket | None, seconds: float, clock: Callable[[], float] = time.time) -> Meeting:
    """Meet the other tasks of `own`; return when all have met all, or after `seconds`. `listener` is closed."""
    place = _Place(own, clock)
    until = time.monotonic() + seconds
    if listener is not None:
        threading.Thread(target=place.serve, args=[listener], daemon=True).start()
    asking = [threading.Thread(target=place.ask, args=[task, until], daemon=True) for task in place.others]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join(max(0.0, until + EXCHANGE - time.monotonic()))
    if listener is not None:
        listener.close()
    return place.seen()


class _Place:
    """What one has seen so far."""

    def __init__(self, own: Card, clock: Callable[[], float]) -> None:
        self.own, self.clock = own, clock
        self.others = [task for task in own.addresses if task != own.task]
        self._met = {task: Met() for task in self.others}
        self._twins: set[str] = set()
        self._lock = threading.Lock()

    def seen(self) -> Meeting:
        with self._lock:
            return Meeting(self._card(), dict(self._met), tuple(sorted(self._twins)))

    def serve(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # closed: the meeting is over
                return
            threading.Thread(target=self._answer, args=[connection], daemon=True).start()

    def ask(self, task: str, until: float) -> None:
        """Ask a task, until it knows that we have met all and we know it of all."""
        while time.monotonic() < until:
            complete = self._complete(self.own.task)
            left = not self._exchange(task)
            if complete and all(map(self._complete, self.others)) and (left or self._complete(task)):
                return
            time.sleep(PAUSE)

    def _exchange(self, task: str) -> bool:
        """Swap cards with a task; False where it cannot be reached."""
        address = self.own.addresses[task]
        try:
            with socket.create_connection((host(address), port(address)), EXCHANGE) as connection:
                with self._lock:
                    card = self._card()
                data = _written(card)
                before, start = self.clock(), time.monotonic()
                connection.sendall(data)
                other = _read(connection)
                passed = time.monotonic() - start
        except (OSError, ValueError) as error:
            with self._lock:
                self._met[task] = replace(self._met[task], error=str(error))
            return False
        with self._lock:
            met = self._met[task]
            if not met.reached or passed < met.round_trip:
                met = replace(met, offset=other.now - (before + passed / 2), round_trip=passed)
            self._met[task] = replace(met, card=other, reached=True, error="")
        return True

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.settimeout(EXCHANGE)
                other = _read(connection)
                with self._lock:
                    card = self._card()
                    if other.task == card.task:
                        self._twins.add(other.host)
                    elif other.task in self._met:
                        self._met[other.task] = replace(self._met[other.task], card=other, heard=True)
                connection.sendall(_written(replace(card, now=self.clock())))
            except (OSError, ValueError):
                return

    def _card(self) -> Card:
        reached = tuple(task for task, met in self._met.items() if met.reached)
        return replace(self.own, reached=reached, heard=tuple(task for task, met in self._met.items() if met.heard))

    def _complete(self, task: str) -> bool:
        """Whether that task has met all others, both ways."""
        with self._lock:
            card = self._card() if task == self.own.task else self._met[task].card
        others = {other for other in self.own.addresses if other != task}
        return card is not None and others <= set(card.reached) & set(card.heard)


def _written(card: Card) -> bytes:
    return json.dumps(asdict(card)).encode() + b"\n"


def _read(connection: socket.socket) -> Card:
    """The card that comes; ValueError for what is none: anybody may write here."""
    data = b""
    while not data.endswith(b"\n"):
        more = connection.recv(1 << 16)
        if not more or len(data) > LONGEST:
            raise ValueError("no doctor answers there")
        data += more
    try:
        said = json.loads(data)
    except RecursionError as error:
        raise ValueError("no doctor answers there") from error
    if not isinstance(said, dict):
        raise ValueError("no doctor answers there")
    now = said.get("now")
    return Card(
        _text(said.get("task")),
        _text(said.get("host")),
        _texts(said.get("versions")),
        _texts(said.get("addresses")),
        tuple(map(_text, _list(said.get("reached")))),
        tuple(map(_text, _list(said.get("heard")))),
        now if isinstance(now, float) else 0.0,
    )


def _text(value: Any) -> str:
    return "".join(letter for letter in str(value)[:TEXT] if letter.isprintable())


def _texts(value: Any) -> dict[str, str]:
    return {_text(key): _text(each) for key, each in value.items()} if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
