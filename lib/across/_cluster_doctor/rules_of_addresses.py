"""Causes that lie in TF_CONFIG, in ports, or between machines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from across._cluster_doctor import words
from across._cluster_doctor.config import port
from across._cluster_doctor.facts import GRPC, NO_ANSWER, OTHER, REFUSED, SILENT, UNKNOWN, Facts, Finding, Log, Program

PORT = "End that program, often an old run, or give {task} another port in the TF_CONFIG of every task."
SAME = 'The "cluster" of TF_CONFIG is the same text for every task; only "task" differs.'


def config(facts: Facts) -> Iterator[Finding]:
    """Is TF_CONFIG wrong by itself?"""
    told = {facts.source: facts.config, **{who: own for who, _, own in facts.told}}
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
    again = next((found for log in facts.logs for line in log.lines if (found := words.CAME_AGAIN.search(line))), None)
    if again:
        task = f"{again[1]}:{again[2]}"
        says = f"{task} came to the leader a second time, as another process: it was started again, or two have its TF_CONFIG."
        yield Finding("same task", says, f"Start all of them again. {SAME}", task, tuple(absent))
    for log in facts.logs:
        if (other := _taken_for(log, facts)) and facts.away(log.task):
            says = f"{log.task} was told to be {other}, as its log shows, and has ended or waits: nobody is {log.task}."
            mend = f"One TF_CONFIG was copied. {SAME} Start that one as {log.task}."
            yield Finding("same task", says, mend, log.task, (other, log.task, *absent))


def _taken_for(log: Log, facts: Facts) -> str:
    """The other task that whoever wrote a log was told to be: by its TF_CONFIG, else by the port that it could not have."""
    if log.task not in facts.config.addresses:
        return ""
    if log.config:
        right = any(own.task == log.task for _, _, own in facts.told)  # then its name counts otherwise
        return "" if right or log.config.task == log.task else log.config.task
    ports = {task: port(address) for task, address in facts.config.addresses.items()}
    if not (failed := _ports(log)) or ports[log.task] in failed:
        return ""
    return next((task for task, number in ports.items() if number in failed), "")


def taken(facts: Facts) -> Iterator[Finding]:
    """Is the port of a task another program's?"""
    own = {one.pid for one in facts.processes}
    for each in facts.endpoints:
        others = [program for program in each.listeners if program.pid not in own]
        if (others or each.answer == OTHER) and not each.says and each.answer in (OTHER, SILENT):
            who = _named(others) if others else "a program that is not TensorFlow"
            says = f"The port of {each.task}, {each.address}, is taken by {who}: it {each.answer}."
            yield Finding("taken port", says, PORT.format(task=each.task), each.task)
    for log in facts.logs:
        at = facts.endpoint(log.task)
        if at is None or not facts.away(log.task) or _taken_for(log, facts):
            continue
        if any(words.IN_USE.search(line) for line in words.after_steps(log.lines)):
            sure = log.config is not None
            or_else = f", or it was told to be another task: its log shows no TF_CONFIG (nobody is {log.task})"
            says = f"{log.task} could not listen at {at.address}: another program had that port then{'' if sure else or_else}."
            yield Finding("taken port", says, f"`ss -ltnp` there. {PORT.format(task=log.task)}", log.task)


def differ(facts: Facts) -> Iterator[Finding]:
    """Do the tasks have different addresses for one of them?"""
    told = facts.told
    if not facts.source.startswith("process"):
        told = [*told, (facts.source, facts.config.task, facts.config)]
    voters = {
        task: who for who, task, _ in reversed(told)
    }  # a task once, though our environment may have its text, too
    for task in dict.fromkeys(task for _, _, own in told for task in own.addresses):
        said = {who: own.addresses.get(task, "no address") for who, _, own in told}
        if len(set(said.values())) == 1:
            continue
        listens = {number for one in facts.of(task) for number in one.listens}
        votes = Counter(said[who] for who in voters.values())
        itself = said.get(voters.get(task, ""))
        right = max(
            votes,
            key=lambda address: (address != "no address", votes[address], port(address) in listens, address == itself),
        )
        for who, its, own in told:
            address = own.addresses.get(task, "no address")
            if address != right:
                where = f"others have {right}" if votes[right] > 1 else f"{task} itself has {right}"
                where = f"it listens at {right}" if port(right) in listens else where
                says = f"The TF_CONFIG of {who} has {task} at {address}; {where}."
                yield Finding("addresses differ", says, f"Mend TF_CONFIG there. {SAME}", its, (task,))
    for each in facts.endpoints:
        for one in facts.of(each.task):
            if each.answer == REFUSED and one.listens and port(each.address) not in one.listens:
                where = ", ".join(map(str, one.listens))
                says = f"{each.task} ({one.pid}) listens at port {where}; TF_CONFIG has it at {each.address}, which refuses."
                yield Finding("wrong port", says, f"Give it that port, or mend TF_CONFIG. {SAME}", each.task)


def evaluator(facts: Facts) -> Iterator[Finding]:
    """Does the cluster have an evaluator, for whom everybody waits?"""
    for each in facts.endpoints:
        if each.task.startswith("evaluator:") and (each.answer != GRPC or not each.says):
            says = f"The cluster has {each.task} at {each.address}, which {each.answer}: the chief waits for it."
            mend = 'An evaluator is no part of "cluster": leave that job out everywhere; its own "task" alone says evaluator.'
            yield Finding("evaluator", says, mend, each.task, tuple(facts.config.job("chief")))


def gone(facts: Facts) -> Iterator[Finding]:
    """Is there a task that nobody is?"""
    lost = {log.task for log in facts.logs if any(words.LOST.search(line) for line in log.lines)}
    if not lost and any(nothing(facts)):
        return
    missing = list(facts.endpoints) if facts.over and lost else facts.gone
    for each in [each for each in missing if each.task not in lost] or missing:
        by = " and ".join(sorted(lost - {each.task}))
        died = f"It has died: {by} lost the connection to it"
        unknown = f"It was not started, or has ended, or this TF_CONFIG's port is wrong: compare {each.task}'s"
        where = "" if each.here else " on that machine"
        refuses = f"{each.address} refuses, no program listens there{where}"
        at = refuses if each.answer == REFUSED else f"no TensorFlow answers at {each.address}, which {each.answer}"
        says = f"{each.task} is missing: {at}. {died if by else unknown}."
        mend = f"Start {each.task} (again), and then whoever lost it; its log says why it ended."
        yield Finding("gone", says, mend, each.task, tuple(facts.config.addresses))


def nothing(facts: Facts) -> Iterator[Finding]:
    """Does no task run?"""
    refuse = all(each.answer == REFUSED for each in facts.endpoints)
    if facts.over and facts.endpoints and (refuse or facts.logs):
        at = "every address refuses" if refuse else "no TensorFlow answers at any address"
        says = f"No task runs: {at}, and no process here is one."
        if facts.logs:
            says += f" The logs ({len(facts.logs)}) show no cause."
            mend = "Start all of them; let each log its TF_CONFIG, its steps and its own loss, and an exit code."
        else:
            mend = "Start all of them; if they have ended, --logs FOLDER reads why."
        yield Finding("nothing runs", says, mend)


def unreachable(facts: Facts) -> Iterator[Finding]:
    """Is there an address from which nothing comes back?"""
    if any(nothing(facts)):  # of what is over, or another network's, logs alone tell
        return
    for each in facts.endpoints:
        if each.answer == UNKNOWN:
            says = f"{each.task}: the host of {each.address} is not known here ({each.error})."
            yield Finding("unknown host", says, "Mend the name, or write the number of the address.", each.task)
        if each.answer == NO_ANSWER:
            also = [one.task for one in facts.processes if one.peers.get(each.address) == "SYN_SENT"]
            waits = f"; {' and '.join(also)} wait{'s' * (len(also) == 1)} for it, too" if also else ""
            says = f"{each.task}: nothing comes back from {each.address}{waits}. A firewall drops it, or the machine is off."
            mend = f"Let port {port(each.address)} in there; `nc -vz HOST PORT` on each shows which way is shut."
            yield Finding("no answer", says, mend, each.task)


def silent(facts: Facts) -> Iterator[Finding]:
    """Is there a program that takes connections and says nothing?"""
    for each in facts.endpoints:
        if each.answer == SILENT:
            says = f"{each.task}: {each.address} takes connections and says nothing: stopped, overloaded, or behind a proxy."
            yield Finding(
                "silent", says, f"Look at {_named(each.listeners) or 'the program'} on that machine.", each.task
            )


def _ports(log: Log) -> set[int]:
    """The ports in the lines that say that a server could not listen."""
    return {
        int(found)
        for line in log.lines
        if words.IN_USE.search(line)
        for found in re.findall(r"[\d\]]:(\d{2,5})\b", line)
    }


def _named(programs: list[Program] | tuple[Program, ...]) -> str:
    return " and ".join(f"{program.name} ({program.pid})" for program in programs)
