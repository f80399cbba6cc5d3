"""Causes that lie in what programs do: stopped, ended, full disks, NaN, other collectives, other versions, other clocks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from across._cluster_doctor import logs
from across._cluster_doctor.facts import Facts, Finding, Frame, Process
from across._cluster_doctor.rules_of_addresses import LOST

IDLE, BUSY = 0.05, 0.5  # processors: below the first a program waits, above the second it computes
FULL = 16 << 20  # bytes that are left in a folder that counts as full
OFF = 10.0  # seconds by which a file's time counts as off
TRAINS = ("chief", "worker")  # the jobs that step together
SHORT = 110  # characters of a line that is quoted
NO_SPACE = re.compile(r"no space left on device|ENOSPC|disk quota exceeded|file too large", re.IGNORECASE)
NAN = re.compile(r"(?<![\w./-])[-+]?nan(?![\w./-])|\bTensor had (?:NaN|Inf) values", re.IGNORECASE)
MISMATCH = re.compile(r"(?:Shape mismatch in the collective|Collective instance \d+ expected|Inconsistent group)[^{}]*")
ERROR = re.compile(r"^(?:[a-z_][\w.]*\.)?([A-Z]\w*(?:Error|Exception|Interrupt))\b:?\s*(.*)")
STEP = re.compile(r"\bstep\D{0,3}(\d+)", re.IGNORECASE)
VERSION = re.compile(r"\b(TensorFlow|Keras|Python)(?: version)?:? v?(\d+\.\d+\.\w+)")
PREFIX = re.compile(r"^[IWEF]0000 \S+\s+\d+ \S+\] |^[\d-]*[T ]?\d\d:\d\d:\d\d\S* |^[\w.]+errors_impl\.")
DEVICE = re.compile(r"/job:(\w+)/replica:\d+/task:(\d+)(?:/device:\w+:\d+)?")
LIBRARY = re.compile(r"/site-packages/|/dist-packages/|/lib/python3|^<frozen|/across/_process/|__autograph_generated")
ROOM = "Make room there, or write checkpoints elsewhere; then start all again: the last whole checkpoint is good."
ORDER = "Every worker makes the same collectives in the same order: no reduce, save or print of a sum under `if chief`."
EVEN = "Give each worker the same number of batches: `repeat()` and count steps, or drop what is over everywhere."
CLOCK = "Set the clock by NTP (`timedatectl`); a program waits by `time.monotonic()`, which nobody sets."
INSIDE = "Inside of one `tf.function` the order of collectives may differ: look for a branch on the task, or on data."


def stopped(facts: Facts) -> Iterator[Finding]:
    """Is a process stopped?"""
    for one in facts.processes:
        if one.state in "Tt":
            says = f"{one.task} (process {one.pid}) is stopped, by SIGSTOP, Ctrl-Z or a debugger: it lives, and does nothing."
            mend = f"`kill -CONT {one.pid}`, or end it and start all again."
            yield Finding("stopped", says, mend, one.task, tuple(facts.config.addresses))


def versions(facts: Facts) -> Iterator[Finding]:
    """Have tasks different versions, by what they print, or else have loaded?"""
    keras = {one.task: one.settings.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true") for one in facts.processes}
    loaded = {
        "TensorFlow": {one.task: one.tensorflow for one in facts.processes},
        "Python": {one.task: one.python for one in facts.processes},
        "Keras": {task: "2" if legacy else "3" for task, legacy in keras.items()},
    }
    for what, by_task in loaded.items():
        lines = ((log.task, line) for log in facts.logs if log.task for line in log.lines)
        printed = {task: found[2] for task, line in lines for found in VERSION.finditer(line) if found[1] == what}
        known = printed if len(printed) > 1 else {task: version for task, version in by_task.items() if version}
        if len(set(known.values())) > 1:
            odd = min(reversed(sorted(known)), key=lambda task: list(known.values()).count(known[task]))
            told = ", ".join(f"{task} {known[task]}" for task in sorted(known))
            says = f"The tasks have different versions of {what}: {told}."
            yield Finding("versions", says, f"Install the same {what} everywhere.", odd, tuple(known))


def disk(facts: Facts) -> Iterator[Finding]:
    """Is a disk full?"""
    full = [folder for folder in facts.folders if folder.free < FULL]
    left = f" {full[0].path} has {_bytes(full[0].free)} left." if full else ""
    for log in facts.logs:
        for line in log.lines:
            if found := NO_SPACE.search(line):
                told = _quoted(line[max(0, found.start() - SHORT + 30) : found.end()])
                says = f"{log.task or log.path} could not write: “{told}”.{left}"
                yield Finding("full disk", says, ROOM, log.task, tuple(facts.config.addresses))
                return
    if full:
        yield Finding("full disk", f"A disk is full.{left}", ROOM)


def nan(facts: Facts) -> Iterator[Finding]:
    """Is a loss not a number?"""
    found = []
    for log in facts.logs:
        first = next((number for number, line in enumerate(log.lines) if NAN.search(line)), None)
        if first is not None:
            line, step = log.lines[first], _step(log.lines[first])
            finite = sum(_step(before) == step for before in log.lines[:first])  # lines of this step that were numbers
            at = logs.stamp(line, log.written) or log.written
            found.append((step or 1 << 60, finite, at, log.task or log.path, line))
    if found:
        *_, task, line = min(found)
        says = f"{task} has the first NaN: “{_quoted(line)}”. A sum over all replicas carries it to all of them."
        mend = f"Look at the batch that {task} had then; `tf.debugging.enable_check_numerics()` names the op."
        yield Finding("NaN", says, mend, task, tuple(facts.config.addresses))


def mismatch(facts: Facts) -> Iterator[Finding]:
    """Does TensorFlow say that collectives do not fit?"""
    for log in facts.logs:
        for line in log.lines:
            if found := MISMATCH.search(line):
                says = (
                    f"{log.task or log.path}: “{_quoted(found[0])}”. They call other collectives, or in another order."
                )
                yield Finding("collectives", says + _lines(facts), ORDER, _odd(facts), tuple(facts.config.addresses))
                return


def ended(facts: Facts) -> Iterator[Finding]:
    """Has a task ended while others wait for it?"""
    absent = {each.task for each in facts.gone}
    steps = {task: step for task in facts.config.addresses if (step := _last_step(facts.log(task)))}
    for log in facts.logs:
        if log.task not in absent:
            continue
        error = next((found for line in reversed(log.lines) if (found := ERROR.match(line))), None)
        if error and not LOST.search(error[0]):  # who lost another one is not to blame
            says = f"{log.task} has ended: “{_quoted(error[0])}”.{_lines(facts)} The others wait for it."
            mend = "Mend that error; then start all of them again."
            yield Finding("ended", says, mend, log.task, tuple(facts.config.addresses))
        elif not error and any(step > steps.get(log.task, step) for step in steps.values()):
            told = ", ".join(f"{task} is at step {step}" for task, step in steps.items())
            says = f"{log.task} has ended without an error, and others wait for its next step: {told}."
            yield Finding("uneven data", says, EVEN, log.task, tuple(facts.config.addresses))


def clock(facts: Facts) -> Iterator[Finding]:
    """Is a clock off?"""
    for log in facts.logs:
        if off := logs.clock(log):
            how = f"was set back by {-off:.0f} s while it ran" if off < 0 else f"is {off:.0f} s ahead"
            says = f"The clock of {log.task or log.path} {how}, as the times in its log show."
            yield Finding("clock", says, CLOCK, log.task)
    for folder in facts.folders:
        if folder.ahead > OFF:
            says = f"{folder.path}/{folder.newest} was written {folder.ahead:.0f} s ahead of this machine's clock."
            yield Finding("clock", says, CLOCK)


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
        steps = {one.task: step for one in waiting if (step := _last_step(facts.log(one.task)))}
        told = "".join(f" {task} is at step {step}." for task, step in steps.items() if len(set(steps.values())) > 1)
        says = f"They wait for each other at different lines.{_lines(facts)}{told}"
        yield Finding("collectives", says, ORDER, _odd(facts))


def settings(facts: Facts) -> Iterator[Finding]:
    """Have tasks of one job different settings?"""
    trainers = [one for one in facts.processes if one.task.partition(":")[0] in TRAINS]
    for name in sorted({name for one in trainers for name in one.settings} - {"TF_USE_LEGACY_KERAS"}):
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


def _last_step(lines: Sequence[str]) -> int:
    """The last step that a task wrote about; 0 if none."""
    return next((step for line in reversed(lines) if (step := _step(line))), 0)


def _step(line: str) -> int:
    """The step that a line is about; 0 if none."""
    found = STEP.search(line)
    return int(found[1]) if found else 0


def _quoted(line: str) -> str:
    """A line of a log, in short: without its time, and with tasks as we call them."""
    line = DEVICE.sub(r"\1:\2", PREFIX.sub("", line).strip())
    return line if len(line) <= SHORT else line[: SHORT - 3] + "..."


def _bytes(count: int) -> str:
    return f"{count / (1 << 20):.1f} MiB" if count >= 1 << 20 else f"{count / 1024:.0f} KiB"
