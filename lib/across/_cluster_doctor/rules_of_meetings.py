"""Causes that a meeting of the cluster's machines shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from across._cluster_doctor.facts import Finding
from across._cluster_doctor.meeting import Card, Meeting
from across._cluster_doctor.rules_of_addresses import SAME

OFF = 2.0  # seconds by which a clock counts as off
COMPARED = ("TensorFlow", "Keras", "Python")


def diagnose(meeting: Meeting) -> list[Finding]:
    """What the meeting shows, the likeliest cause first."""
    found: list[Finding] = []
    for rule in (_same_task, _addresses, _versions, _clocks, _ways):
        found += rule(meeting)
    return found


def _same_task(meeting: Meeting) -> Iterator[Finding]:
    own = meeting.own
    for other in meeting.twins:
        says = f"{other} says that it is {own.task}, as {own.host} does: one TF_CONFIG was copied."
        yield Finding("same task", says, SAME, own.task)
    for task, met in meeting.others.items():
        if met.reached and met.card and met.card.task not in (task, ""):
            says = f"At the address of {task}, {own.addresses[task]}, {met.card.host} says that it is {met.card.task}."
            yield Finding("same task", says, f"One TF_CONFIG was copied. {SAME}", task)


def _addresses(meeting: Meeting) -> Iterator[Finding]:
    own = meeting.own
    for task, card in _cards(meeting):
        for named in sorted({*own.addresses, *card.addresses}):
            here, there = own.addresses.get(named, "not there"), card.addresses.get(named, "not there")
            if here != there:
                says = f"TF_CONFIG of {task} ({card.host}) has {named} at {there}; that of {own.task}: {here}."
                yield Finding("addresses differ", says, f"Mend one of them. {SAME}", task)
                break


def _versions(meeting: Meeting) -> Iterator[Finding]:
    own = meeting.own
    for what in COMPARED:
        told = {
            own.task: _short(what, own.versions),
            **{task: _short(what, card.versions) for task, card in _cards(meeting)},
        }
        values = list(told.values())
        if len(set(values)) > 1:
            odd = min(reversed(told), key=lambda task: values.count(told[task]))
            says = f"Versions of {what} differ: {', '.join(f'{task} {version}' for task, version in told.items())}."
            yield Finding("versions", says, f"Install the same {what} on all machines.", odd)


def _clocks(meeting: Meeting) -> Iterator[Finding]:
    off = {task: met for task, met in meeting.others.items() if abs(met.offset) > OFF + met.round_trip / 2}
    everybody = len(off) > 1 and len(off) == sum(met.reached for met in meeting.others.values())
    if everybody and max(met.offset for met in off.values()) - min(met.offset for met in off.values()) < OFF:
        seconds = -next(iter(off.values())).offset
        yield Finding(
            "clock",
            f"The clock of {meeting.own.task}, this machine, is {_by(seconds)} of all others.",
            _NTP,
            meeting.own.task,
        )
        return
    for task, met in off.items():
        yield Finding("clock", f"The clock of {task} is {_by(met.offset)} of ours.", _NTP, task)


def _ways(meeting: Meeting) -> Iterator[Finding]:
    """Who cannot reach whom, though both have the same address of it: who tried another one says nothing of this one."""
    own, here = meeting.own, meeting.own.addresses.get(meeting.own.task, "?")
    reached = [task for task, met in meeting.others.items() if met.reached]
    tried = [task for task in reached if _agree(meeting, task, own.task)]
    nobody = bool(tried) and not any(met.heard for met in meeting.others.values())
    if nobody:
        says = f"{own.task} reaches {', '.join(reached)}, and nobody reaches {own.task} at {here}."
        mend = f"A firewall here lets nobody in, or the address is another machine's. {_LET}"
        yield Finding("one way", says, mend, own.task)
    for task, met in meeting.others.items():
        address = own.addresses[task]
        if met.heard and not met.reached and _agree(meeting, task, task):
            says = f"{task} reaches us, and we do not reach {task} at {address} ({met.error})."
            cards = [
                (each, card) for each, card in _cards(meeting) if each != task and card.addresses.get(task) == address
            ]
            others = [each for each, card in cards if task not in card.reached]
            says += f" Nor {'do' if len(others) > 1 else 'does'} {', '.join(others)}." if others else ""
            yield Finding("one way", says, f"Its firewall lets nobody in, or its address is wrong. {_LET}", task)
        elif met.reached and not met.heard and not nobody and task in tried:
            says = f"We reach {task}, and {task} does not reach us at {here}."
            yield Finding("one way", says, _LET, own.task)
        elif not met.reached and not met.heard:
            says = f"{task} has not come, and {address} cannot be reached: {met.error or 'no answer'}."
            mend = "Run this command there, too, at the same time; end the program first."
            yield Finding("not come", says, mend, task)


def _agree(meeting: Meeting, task: str, about: str) -> bool:
    """Whether a task has been told the same address of a task as we have."""
    card = meeting.others[task].card
    return card is not None and card.addresses.get(about) == meeting.own.addresses.get(about)


_LET = "Let the port of each task in on its machine."
_NTP = "Set the clocks by NTP (`timedatectl`)."


def _cards(meeting: Meeting) -> list[tuple[str, Card]]:
    return [(task, met.card) for task, met in meeting.others.items() if met.card]


def _short(what: str, versions: Mapping[str, str]) -> str:
    version = versions.get(what, "?")
    return ".".join(version.split(".")[:2]) if what == "Python" else version


def _by(seconds: float) -> str:
    return f"{abs(seconds):.1f} s {'ahead' if seconds > 0 else 'behind'}"
