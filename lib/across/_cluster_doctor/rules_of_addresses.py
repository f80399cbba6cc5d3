"""Causes that lie in TF_CONFIG, in ports, or between machines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from across._cluster_doctor.config import Config, port
from across._cluster_doctor.facts import NO_ANSWER, OTHER, REFUSED, SILENT, UNKNOWN, Facts, Finding, Log, Program

IN_USE = re.compile(r"could not start grpc server|failed to add port to server|address already in use", re.IGNORECASE)
CAME_AGAIN = re.compile(r"/job:(\w+)/replica:\d+/task:(\d+) unexpectedly tried to connect with a different incarnation")
LOST = re.compile(
    r"UnavailableError|Connection reset by peer|Socket closed|failed to connect to all addresses|UNAVAILABLE"
)
SAME = 'The "cluster" of TF_CONFIG is the same text for every task; only "task" differs.'


def config(facts: Facts) -> Iterator[Finding]:
    """Is TF_CONFIG wrong by itself?"""
    told = {facts.source: facts.config, **{f"{one.task} ({one.pid})": one.config for one in facts.processes}}
    said: set[str] = set()
    for who, own in told.items():
        for fault in own.faults:
            if fault not in said:
                said.add(fault)
                same = [task for task in own.addresses if list(own.addresses.values()).count(own.addresses[task]) > 1]
                yield Finding("TF_CONFIG", f"{who}: {fault}.", f"Mend TF_CONFIG. {SAME}", own.task, tuple(same))


def same_task(facts: Facts) -> Iterator[Finding]:
    """Was one TF_CONFIG copied, so that two processes are the same task?"""
    absent = [each.task for each in facts.gone]
    mend = f"One TF_CONFIG was copied. {SAME}" + (f" Start one of them as {absent[0]}." if absent else "")
    counted = Counter(one.task for one in facts.processes if one.listens or one.peers)
    for task in (task for task, count in counted.items() if count > 1):
        pids = " and ".join(str(one.pid) for one in facts.of(task))
        yield Finding("same task", f"Processes {pids} were both told to be {task}.", mend, task, tuple(absent))
    for each in facts.endpoints:
        if each.says not in ("", each.task):
            says = f"At {each.address}, the address of {each.task}, listens a server that says it is {each.says}."
            yield Finding("same task", says, mend, each.task, (each.says, *absent))
    for task in facts.twins:
        says = f"{task} runs here and at {facts.config.addresses[task]}, as two servers: this machine has a copy."
        yield Finding("same task", says, mend, task, tuple(absent))
    again = next((found for log in facts.logs for line in log.lines if (found := CAME_AGAIN.search(line))), None)
    if again:
        task = f"{again[1]}:{again[2]}"
        says = f"{task} came to the leader a second time, as another process: it was started again, or two have its TF_CONFIG."
        yield Finding("same task", says, f"Start all of them again. {SAME}", task, tuple(absent))
    for log in facts.logs:
        if not any(IN_USE.search(line) for line in log.lines) or facts.of(log.task):
            continue
        there = [one for one in facts.processes if _ports(log) & {port(facts.config.addresses.get(one.task, ""))}]
        if there and there[0].task != log.task:
            says = f"{log.task or log.path} tried to listen as {there[0].task}, which process {there[0].pid} is, and has ended."
            yield Finding("same task", says, mend, there[0].task, (log.task, *absent))
        elif log.task in absent:
            says = (
                f"{log.task} could not listen and has ended, though its port is free: it was told to be another task."
            )
            yield Finding("same task", says, mend, log.task, tuple(absent))


def taken(facts: Facts) -> Iterator[Finding]:
    """Is the port of a task another program's?"""
    own = {one.pid for one in facts.processes}
    for each in facts.endpoints:
        others = [program for program in each.listeners if program.pid not in own]
        if (others or each.answer == OTHER) and not each.says and each.answer in (OTHER, SILENT):
            who = _named(others) if others else "a program that is not TensorFlow"
            says = f"The port of {each.task}, {each.address}, is taken by {who}: it {each.answer}."
            mend = f"End that program, or give {each.task} another port in the TF_CONFIG of every task."
            yield Finding("taken port", says, mend, each.task)


def differ(facts: Facts) -> Iterator[Finding]:
    """Do the tasks have different addresses for one of them?"""
    told: list[tuple[str, Config]] = [(f"{one.task} ({one.pid})", one.config) for one in facts.processes]
    told += [] if facts.source.startswith("process") else [(facts.source, facts.config)]
    for task in dict.fromkeys(task for _, own in told for task in own.addresses):
        said = {who: own.addresses.get(task, "no address") for who, own in told}
        if len(set(said.values())) == 1:
            continue
        listens = {number for one in facts.of(task) for number in one.listens}
        votes = Counter(said.values())
        right = max(votes, key=lambda address: (port(address) in listens, address != "no address", votes[address]))
        for who, address in said.items():
            if address != right:
                where = f"it listens at {right}" if port(right) in listens else f"others have {right}"
                says = f"The TF_CONFIG of {who} has {task} at {address}; {where}."
                yield Finding("addresses differ", says, f"Mend TF_CONFIG there. {SAME}", who.partition(" ")[0], (task,))
    for each in facts.endpoints:
        for one in facts.of(each.task):
            if each.answer == REFUSED and one.listens and port(each.address) not in one.listens:
                where = ", ".join(map(str, one.listens))
                says = f"{each.task} ({one.pid}) listens at port {where}; TF_CONFIG has it at {each.address}, which refuses."
                yield Finding("wrong port", says, f"Give it that port, or mend TF_CONFIG. {SAME}", each.task)


def evaluator(facts: Facts) -> Iterator[Finding]:
    """Does the cluster have an evaluator, for whom everybody waits?"""
    for each in facts.endpoints:
        if each.task.startswith("evaluator:") and (each.answer != "speaks gRPC" or not each.says):
            says = f"The cluster has {each.task} at {each.address}, which {each.answer}: who connects waits for it."
            mend = 'An evaluator is no part of "cluster": leave that job out everywhere; its own "task" alone says evaluator.'
            yield Finding("evaluator", says, mend, each.task, tuple(facts.config.addresses))


def gone(facts: Facts) -> Iterator[Finding]:
    """Is there a task that nobody is?"""
    lost = {log.task for log in facts.logs if any(LOST.search(line) for line in log.lines)}
    absent = [each for each in facts.gone if each.task not in lost] or facts.gone
    if absent and len(facts.gone) == len(facts.endpoints) and not facts.processes and not lost:
        says = "No task runs: every address refuses, and no process here is one."
        yield Finding("nothing runs", says, "Start all of them; if they have ended, --logs FOLDER reads why.")
        return
    for each in absent:
        by = " and ".join(sorted(lost - {each.task}))
        died = f"It has died: {by} lost the connection to it" if by else "It has died"
        known = by or facts.states.get(each.task) in ("has come", "failed")
        how = died if known else "It was not started, or it has ended"
        where = "" if each.here else " on that machine"
        says = f"{each.task} is missing: {each.address} refuses, no program listens there{where}. {how}."
        mend = f"Start {each.task} (again), and then whoever lost it; its log says why it ended."
        yield Finding("gone", says, mend, each.task, tuple(facts.config.addresses))


def unreachable(facts: Facts) -> Iterator[Finding]:
    """Is there an address from which nothing comes back?"""
    for each in facts.endpoints:
        if each.answer == UNKNOWN:
            says = f"{each.task}: the host of {each.address} is not known here ({each.error})."
            yield Finding("unknown host", says, "Mend the name, or write the number of the address.", each.task)
        if each.answer == NO_ANSWER:
            also = [one.task for one in facts.processes if one.peers.get(each.address) == "SYN_SENT"]
            waits = f"; {' and '.join(also)} wait{'s' * (len(also) == 1)} for it, too" if also else ""
            says = f"{each.task}: nothing comes back from {each.address}{waits}. A firewall drops it, or the machine is off."
            mend = f"Let port {port(each.address)} in there; `across doctor --cluster --meet` on each shows which way is shut."
            yield Finding("no answer", says, mend, each.task)


def silent(facts: Facts) -> Iterator[Finding]:
    """Is there a program that takes connections and says nothing?"""
    for each in facts.endpoints:
        if each.answer == SILENT:
            says = f"{each.task}: {each.address} takes connections and says nothing: stopped, overloaded, or behind a proxy."
            yield Finding(
                "silent", says, f"Look at {_named(each.listeners) or 'the program'} on that machine.", each.task
            )


def not_come(facts: Facts) -> Iterator[Finding]:
    """Is there a task that the leader has never seen?"""
    for task, state in facts.states.items():
        if state != "has come":
            yield Finding("not come", f"{task} {state}, says the coordination service.", f"Look at {task}'s log.", task)


def _ports(log: Log) -> set[int]:
    """The ports in the lines that say that a server could not listen."""
    return {
        int(found) for line in log.lines if IN_USE.search(line) for found in re.findall(r"[\d\]]:(\d{2,5})\b", line)
    }


def _named(programs: list[Program] | tuple[Program, ...]) -> str:
    return " and ".join(f"{program.name} ({program.pid})" for program in programs)
