"""Causes that lie in what programs do: stopped, ended, full disks, NaN, other collectives, other versions, other clocks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

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
MISMATCH = re.compile(
    r"mismatch in the collective instance|collective instance.*(?:expected|got)|group_key", re.IGNORECASE
)
ERROR = re.compile(r"^(?:[a-z_][\w.]*\.)?([A-Z]\w*(?:Error|Exception|Interrupt))\b:?\s*(.*)")
STEP = re.compile(r"\bstep\D{0,3}(\d+)", re.IGNORECASE)
LIBRARY = re.compile(r"/site-packages/|/dist-packages/|/lib/python3|^<frozen|/across/_process/|__autograph_generated")


def stopped(facts: Facts) -> Iterator[Finding]:
    """Is a process stopped?"""
    for one in facts.processes:
        if one.state in "Tt":
            says = f"{one.task} (process {one.pid}) is stopped, by SIGSTOP, Ctrl-Z or a debugger: it lives, and does nothing."
            yield Finding("stopped", says, f"`kill -CONT {one.pid}`, or end it and start all again.", one.task)


def versions(facts: Facts) -> Iterator[Finding]:
    """Have tasks different versions?"""
    yield from _different("TensorFlow", {one.task: one.tensorflow for one in facts.processes})
    yield from _different("Python", {one.task: one.python for one in facts.processes})
    keras = {
        one.task: "Keras 2" if one.settings.get("TF_USE_LEGACY_KERAS") in ("1", "true", "True") else "Keras 3"
        for one in facts.processes
    }
    yield from _different("Keras", keras, " (TF_USE_LEGACY_KERAS)")


def disk(facts: Facts) -> Iterator[Finding]:
    """Is a disk full?"""
    said = False
    for log in facts.logs:
        for line in log.lines:
            if NO_SPACE.search(line) and not said:
                said = True
                full = [folder for folder in facts.folders if folder.free < FULL]
                where = f" {full[0].path} has {_bytes(full[0].free)} left." if full else ""
                says = f"{log.task or log.path} could not write: “{_quoted(line)}”.{where}"
                yield Finding("full disk", says, _ROOM, log.task, tuple(facts.config.addresses))
    for folder in facts.folders:
        if folder.free < FULL and not said:
            yield Finding("full disk", f"{folder.path} is full: {_bytes(folder.free)} are left.", _ROOM)


def nan(facts: Facts) -> Iterator[Finding]:
    """Is a loss not a number?"""
    found = []
    for log in facts.logs:
        first = next((number for number, line in enumerate(log.lines) if NAN.search(line)), None)
        if first is not None:
            line = log.lines[first]
            step = STEP.search(line)
            at = logs.stamp(line, log.written)
            found.append((int(step[1]) if step else 1 << 60, at or log.written, first, log.task or log.path, line))
    if found:
        *_, task, line = min(found)
        says = f"{task} has the first NaN: “{_quoted(line)}”. A sum over all replicas carries it to all of them."
        mend = f"Look at the batch that {task} had then; `tf.debugging.enable_check_numerics()` names the op."
        yield Finding("NaN", says, mend, task)


def mismatch(facts: Facts) -> Iterator[Finding]:
    """Does TensorFlow say that collectives do not fit?"""
    for log in facts.logs:
        for line in log.lines:
            if MISMATCH.search(line):
                says = (
                    f"{log.task or log.path}: “{_quoted(line)}”. The tasks call other collectives, or in another order."
                )
                yield Finding("collectives", says + _lines(facts), _ORDER, log.task, tuple(facts.config.addresses))
                return


def ended(facts: Facts) -> Iterator[Finding]:
    """Has a task ended while others wait for it?"""
    silent = {each.task for each in facts.gone}
    for log in facts.logs:
        if not log.task or facts.of(log.task) or log.task not in silent:
            continue
        error = next((found for line in reversed(log.lines) if (found := ERROR.match(line))), None)
        if error and LOST.search(error[0]):
            continue  # it lost somebody else
        steps = {task: step for task in facts.config.addresses if (step := _last_step(facts.log(task)))}
        if error:
            says = f"{log.task} has ended: “{_quoted(error[0])}”. The others wait for it."
            yield Finding("ended", says, "Mend that error; then start all of them again.", log.task)
        elif log.lines and steps and any(step > steps.get(log.task, step) for step in steps.values()):
            told = ", ".join(f"{task} step {step}" for task, step in steps.items())
            says = f"{log.task} has ended without an error, and the others wait for its next step: {told}."
            yield Finding("uneven data", says, _EVEN, log.task)


def clock(facts: Facts) -> Iterator[Finding]:
    """Is a clock off?"""
    for log in facts.logs:
        off = logs.clock(log)
        if off:
            how = f"was set back by {-off:.0f} s while it ran" if off < 0 else f"is {off:.0f} s ahead"
            says = f"The clock of {log.task or log.path} {how}, as the times in its log show."
            yield Finding("clock", says, _CLOCK, log.task)
    for folder in facts.folders:
        if folder.ahead > OFF:
            says = f"{folder.path}/{folder.newest} was written {folder.ahead:.0f} s ahead of this machine's clock."
            yield Finding("clock", says, _CLOCK)


def stands(facts: Facts) -> Iterator[Finding]:
    """Where do they wait?"""
    trainers = [one for one in facts.processes if one.task.partition(":")[0] in TRAINS and one.stack]
    waiting = [one for one in trainers if one.cpu < IDLE and _in_tensorflow(one)]
    for one in trainers:
        if waiting and one not in waiting:
            does = "computes" if one.cpu > BUSY else f"sleeps in {one.waits_in or 'the system'}"
            says = f"{_names(waiting)} wait{'s' * (len(waiting) == 1)} for {one.task}, which {does} at {where(one)}."
            yield Finding("late", says, f"Find out why {one.task} does not come to its next step.", one.task)
    if len(waiting) > 1 and len(waiting) == len(trainers):
        if len({_own(one.stack) for one in waiting}) > 1:
            says = "They wait for each other at different lines." + _lines(facts)
            steps = {one.task: step for one in waiting if (step := _last_step(facts.log(one.task)))}
            says += "".join(
                f" {task} came to step {step}." for task, step in steps.items() if len(set(steps.values())) > 1
            )
            yield Finding("collectives", says, _ORDER)
        else:
            says = f"All wait at the same line, {where(waiting[0])}, and use no processor."
            yield Finding("stands", says, _INSIDE)


def settings(facts: Facts) -> Iterator[Finding]:
    """Have tasks of one job different settings?"""
    trainers = [one for one in facts.processes if one.task.partition(":")[0] in TRAINS]
    for name in sorted({name for one in trainers for name in one.settings} - {"TF_USE_LEGACY_KERAS"}):
        values = {one.task: one.settings.get(name, "not set") for one in trainers}
        if len(set(values.values())) > 1:
            told = ", ".join(f"{task} {value}" for task, value in values.items())
            yield Finding("settings", f"{name} differs: {told}.", "Give all tasks the same.")


_ROOM = "Make room there, or write checkpoints elsewhere; then start all again: the last whole checkpoint is good."
_ORDER = (
    "Every worker makes the same collectives in the same order: no reduce, save or print of a sum under `if chief`."
)
_EVEN = "Give each worker the same number of batches: `repeat()`, or count steps; or `drop_remainder=True` and equal shards."
_CLOCK = "Set the clock by NTP (`timedatectl`). Programs measure with `time.monotonic()`."
_INSIDE = "Inside of one `tf.function` the order of collectives may differ: look for a branch on the task, or on data."


def _different(what: str, by_task: Mapping[str, str], more: str = "") -> Iterator[Finding]:
    known = {task: value for task, value in by_task.items() if value}
    if len(set(known.values())) > 1:
        told = ", ".join(f"{task} {value}" for task, value in known.items())
        values = list(known.values())
        odd = min(known, key=lambda task: (values.count(known[task]), task != list(known)[-1]))
        yield Finding(
            "versions",
            f"The tasks have different versions of {what}: {told}{more}.",
            f"Install the same {what} everywhere.",
            odd,
        )


def _own(stack: Sequence[Frame]) -> Frame | None:
    """The innermost line of the program itself."""
    return next((frame for frame in stack if not LIBRARY.search(frame.file)), None)


def _in_tensorflow(one: Process) -> bool:
    return "/tensorflow/" in one.stack[0].file


def where(one: Process) -> str:
    """The line of its program at which a process stands."""
    return str(_own(one.stack) or one.stack[0])


def _lines(facts: Facts) -> str:
    told = [f"{one.task} at {where(one)}" for one in facts.processes if one.stack]
    return f" {', '.join(told)}." if told else ""


def _names(of: Sequence[Process]) -> str:
    return " and ".join(one.task for one in of)


def _last_step(lines: Sequence[str]) -> int:
    """The last step that a task wrote about; 0 if none."""
    return next((int(found[1]) for line in reversed(lines) if (found := STEP.search(line))), 0)


def _quoted(line: str) -> str:
    line = line.strip()
    return line if len(line) <= SHORT else line[: SHORT - 3] + "..."


def _bytes(count: int) -> str:
    return f"{count / (1 << 20):.1f} MiB" if count >= 1 << 20 else f"{count / 1024:.0f} KiB"
