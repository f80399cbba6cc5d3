"""Causes that lie in what programs do: stopped, ended, full disks, NaN, other collectives, other versions, other clocks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import psutil

from across._cluster_doctor import logs, words
from across._cluster_doctor.facts import Facts, Finding, Frame, Process

IDLE, BUSY = 0.05, 0.5  # processors: below the first a program waits, above the second it computes
TRAINS = ("chief", "worker")  # the jobs that step together
VERSION = re.compile(r"\b(TensorFlow|Keras|Python)(?: version)?:? v?(\d+\.\d+\.\w+)")
LIBRARY = re.compile(r"/site-packages/|/dist-packages/|/lib/python3|^<frozen|/across/_process/|__autograph_generated")
ROOM = "Make room there, or write checkpoints elsewhere; then start all again: the last whole checkpoint is good."
ORDER = "Every worker makes the same collectives in the same order: no reduce, save or print of a sum under `if chief`."
EVEN = "Give each worker the same number of batches: `repeat()` and count steps, or drop what is over everywhere."
KILLED = f"Exit code 137 or -9: it was killed, mostly when memory is out (`dmesg`, the scheduler). 0: {EVEN}"
CLOCK = "Set the clock by NTP (`timedatectl`); a program waits by `time.monotonic()`, which nobody sets."
INSIDE = "Inside of one `tf.function` the order of collectives may differ: look for a branch on the task, or on data."


def stopped(facts: Facts) -> Iterator[Finding]:
    """Is a process stopped?"""
    for one in facts.processes:
        if one.state in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP):
            says = f"{one.task} (process {one.pid}) is stopped, by SIGSTOP, Ctrl-Z or a debugger: it lives, and does nothing."
            mend = f"`kill -CONT {one.pid}`, or end it and start all again."
            yield Finding("stopped", says, mend, one.task, tuple(facts.config.addresses))


def versions(facts: Facts) -> Iterator[Finding]:
    """Have tasks different versions, by what they print?"""
    for what in ("TensorFlow", "Python", "Keras"):
        lines = ((log.task, line) for log in facts.logs if log.task for line in log.lines)
        known = {task: found[2] for task, line in lines for found in VERSION.finditer(line) if found[1] == what}
        if len(set(known.values())) > 1:
            odd = min(reversed(sorted(known)), key=lambda task: list(known.values()).count(known[task]))
            told = ", ".join(f"{task} {known[task]}" for task in sorted(known))
            says = f"The tasks have different versions of {what}: {told}."
            yield Finding("versions", says, f"Install the same {what} everywhere.", odd, tuple(known))


def disk(facts: Facts) -> Iterator[Finding]:
    """Is a disk full?"""
    for log in facts.logs:
        for told in words.full(log.lines):
            says = f"{log.task or log.path} could not write: “{told}”."
            yield Finding("full disk", says, ROOM, log.task, tuple(facts.config.addresses))
            return


def nan(facts: Facts) -> Iterator[Finding]:
    """Is a loss not a number?"""
    found = []
    for log in facts.logs:
        first = next((number for number, line in enumerate(log.lines) if words.no_number(line)), None)
        if first is not None:
            line, step = log.lines[first], words.step(log.lines[first])
            finite = sum(
                words.step(before) == step for before in log.lines[:first]
            )  # lines of this step that were numbers
            found.append((step if step >= 0 else 1 << 60, finite if step >= 0 else 0, log.task or log.path, line))
    if found:
        *when, task, line = min(found)
        says = f"{task} has the first NaN: “{words.quoted(line)}”. A sum over all replicas carries it to all of them."
        mend = f"Look at the batch that {task} had then; `tf.debugging.enable_check_numerics()` names the op."
        if len({who for *at, who, _ in found if at == when}) > 1:  # the sum that all have shows nobody
            task, says = "", f"The loss is NaN: “{words.quoted(line)}”, and the logs do not tell whose was it first."
            mend = (
                "Log each replica's own loss, before it is added; `tf.debugging.enable_check_numerics()` names the op."
            )
        yield Finding("NaN", says, mend, task, tuple(facts.config.addresses))


def mismatch(facts: Facts) -> Iterator[Finding]:
    """Does TensorFlow say that collectives do not fit?"""
    for log in facts.logs:
        for line in log.lines:
            if found := words.MISMATCH.search(line):
                told = words.quoted(found[0])
                says = f"{log.task or log.path}: “{told}”. They call other collectives, or in another order."
                yield Finding("collectives", says + _lines(facts), ORDER, _odd(facts), tuple(facts.config.addresses))
                return


def ended(facts: Facts) -> Iterator[Finding]:
    """Has a task ended by an error, while others wait for it?"""
    for log in facts.logs:
        error = words.error(log.lines) if facts.away(log.task) else ""
        if error and not words.LOST.search(error):  # who lost another one is not to blame
            says = f"{log.task} has ended: “{words.quoted(error)}”.{_lines(facts)} The others wait for it."
            mend = "Mend that error; then start all of them again."
            yield Finding("ended", says, mend, log.task, tuple(facts.config.addresses))


def fewer(facts: Facts) -> Iterator[Finding]:
    """Has a task ended without an error, and made fewer steps than others, who wait?"""
    of_task = {task: [log.lines for log in facts.logs if log.task == task] for task in facts.config.addresses}
    told = {task: words.steps(facts.log(task)) for task in of_task}
    last = {task: steps[-1] for task, steps in told.items() if steps}
    waiting = {task for task in last if not facts.away(task) or any(map(words.unfinished, of_task[task]))}
    known = last.keys() if facts.over else {each.task for each in facts.gone}
    shown = ", ".join(f"{task} is at step {step}" for task, (_, step) in last.items())
    for task in [task for task in last if task in known and task not in waiting]:
        between, (epoch, step) = words.interval(told[task]), last[task]
        if any(map(words.error, of_task[task])) or not between:
            continue
        if any(last[other] >= (epoch, step + between) for other in waiting):
            if any(words.breaks_off(lines) for lines in of_task[task] if words.steps(lines)):
                says = (
                    f"{task}'s log breaks off at step {step}, without an error, and others wait for its next: {shown}."
                )
                yield Finding("ended", says, KILLED, task, tuple(facts.config.addresses))
            else:
                says = f"{task} has ended without an error, and others wait for its next step: {shown}."
                yield Finding("uneven data", says, EVEN, task, tuple(facts.config.addresses))


def clock(facts: Facts) -> Iterator[Finding]:
    """Is a clock off?"""
    for log in facts.logs:
        if off := logs.clock(log):
            how = f"was set back by {-off:.0f} s while it ran" if off < 0 else f"is {off:.0f} s ahead"
            says = f"The clock of {log.task or log.path} {how}, as the times in its log show."
            yield Finding("clock", says, CLOCK, log.task)


def stands(facts: Facts) -> Iterator[Finding]:
    """Where do those wait that step together?"""
    if facts.config.job("ps"):
        return  # who serves stands still
    stacks = {one.pid: facts.stack(one.task) for one in facts.processes if one.task.partition(":")[0] in TRAINS}
    trainers = [one for one in facts.processes if stacks.get(one.pid)]
    waiting = [one for one in trainers if one.cpu < IDLE and "/tensorflow/" in stacks[one.pid][0].file]
    for one in trainers:
        if waiting and one not in waiting:
            does = "computes" if one.cpu > BUSY else f"sleeps in {one.waits_in or 'the system'}"
            who = f"{_names(waiting)} wait{'s' * (len(waiting) == 1)}"
            says = f"{who} for {one.task}, which {does} at {where(stacks[one.pid])}."
            yield Finding("late", says, f"Find out why {one.task} does not come to its next step.", one.task)
    if len(waiting) < 2 or len(waiting) < len(trainers):
        return
    if len({own(stacks[one.pid]) for one in waiting}) == 1:
        says = f"All wait at the same line, {where(stacks[waiting[0].pid])}, and use no processor."
        yield Finding("stands", says, INSIDE)
    else:
        steps = {one.task: told[-1][1] for one in waiting if (told := words.steps(facts.log(one.task)))}
        told = "".join(f" {task} is at step {step}." for task, step in steps.items() if len(set(steps.values())) > 1)
        says = f"They wait for each other at different lines.{_lines(facts)}{told}"
        yield Finding("collectives", says, ORDER, _odd(facts))


def settings(facts: Facts) -> Iterator[Finding]:
    """Have tasks of one job different settings?"""
    trainers = [one for one in facts.processes if one.task.partition(":")[0] in TRAINS]
    for name in sorted({name for one in trainers for name in one.settings}):
        values = {one.task: one.settings.get(name, "not set") for one in trainers}
        if len(set(values.values())) > 1:
            told = ", ".join(f"{task} {value}" for task, value in values.items())
            yield Finding("settings", f"{name} differs: {told}.", "Give all tasks the same.")


def where(stack: Sequence[Frame]) -> str:
    """The line of the program itself in a stack."""
    return str(own(stack) or stack[0])


def own(stack: Sequence[Frame]) -> Frame | None:
    """The innermost line of the program itself."""
    return next((frame for frame in stack if not LIBRARY.search(frame.file)), None)


def _odd(facts: Facts) -> str:
    """The one task that stands at another line than all others, which are two at least; "" if there is none."""
    stands = {task: own(stack) for task in facts.config.addresses if (stack := facts.stack(task))}
    alone = [task for task, line in stands.items() if list(stands.values()).count(line) == 1]
    return alone[0] if len(alone) == 1 and len(set(stands.values())) == 2 else ""


def _lines(facts: Facts) -> str:
    told = [f"{task} at {where(stack)}" for task in facts.config.addresses if (stack := facts.stack(task))]
    return f" {', '.join(told)}." if told else ""


def _names(of: Sequence[Process]) -> str:
    return " and ".join(one.task for one in of)
