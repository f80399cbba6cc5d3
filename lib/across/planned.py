"""A study that its student plans: what the notebook and grading read alike, and the rules that both decide by.

plan = read(plan, "`plan` is", PLAN)
fault = controlled(plan)                       # None, or a Fault: the mistake's name, and a sentence
text = record(study, follow_up)                # what was stated, when each run ended and what it saw, to hand in
fault = stated_first(recorded(text), plan)

A run is {"way": "all-reduce", "replicas": 2, "batch": 512, "packs": 1, "table": 0, "slow": 0.0, "rate": 1e8}; see chapter 14.
All sentences are for the student.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from across._planned_runs import own_file, record
from across.expecting import (
    Expected,
    between,
    dict_of,
    entries,
    list_of,
    maybe,
    number,
    one_of,
    row,
    shown,
    text,
    whole,
)
from across.study import seed_of

__all__ = [
    "FOLLOWED",
    "FOLLOW_UP",
    "PLAN",
    "QUESTIONS",
    "RECORD",
    "RUNS",
    "Fault",
    "contrasted",
    "controlled",
    "followed",
    "machines",
    "one_thing",
    "own_file",
    "ran",
    "record",
    "recorded",
    "runnable",
    "side_by_side",
    "stated_first",
    "tells",
    "within_budget",
]

RUNS = 48  # of the plan and its follow-up together, which has two configurations
FEWEST = 6  # repeats: five coins cannot reach a chance below 0.05
APART = 1.1  # times: two predictions that are nearer tell nothing
STEPS = 5  # that a run times: it takes as many times its milliseconds, at least
NEAR = 2e-3  # of a loss that two machines compute
SLOW = 0.02  # seconds from which a replica counts as slow
LARGE = 10_000  # rows from which a table counts as large
LONGEST = 100_000  # characters of a record
WAYS = ("all-reduce", "servers", "gpus")
QUESTIONS = {  # name -> the argument in which two configurations differ, what else they need, and the mistake's name
    "share": (
        "batch",
        "the way all-reduce; the base's batch for all replicas, and the base's for each",
        "neither_strong_nor_weak",
    ),
    "table": ("way", f"all-reduce and servers, one table of {LARGE:,} rows or more, nobody slow", "small_table"),
    "slow": ("way", f"all-reduce and servers, one slow replica, {SLOW} s or more, no table", "slow_with_a_table"),
    "packs": ("packs", "the way gpus", "packs_of_a_ring"),
    "gpus": ("replicas", "the way gpus, and 2 and 4 replicas", "replicas_of_a_ring"),
}
SUSPECTS = {
    "link": ("rate",),
    "messages": ("packs",),
    "own ops": ("batch",),
    "cores": ("replicas",),
    "table": ("table",),
    "slow replica": ("slow",),
    "way": ("way",),
}
FASTER = {"rate": 1, "packs": 1, "slow": -1, "table": -1}  # whether more of it makes a run faster, if it matters at all

_RUN = entries(
    {
        "way": one_of(WAYS),
        "replicas": between(1, 8, whole),
        "batch": between(8, 4096, whole),
        "packs": between(0, 1, whole),
        "table": between(0, 100_000, whole),
        "slow": between(0, 1),
        "rate": between(1e7, 1e12),
    },
    others="no run reads it",
)
_FASTER = between(0.01, 100)
PLAN = entries(
    {
        "question": one_of(QUESTIONS),
        "repeats": between(1, 100, whole),
        "configurations": dict_of(_RUN),
        "base": text,
        "control": text,
        "predicted": dict_of(_FASTER),
        "dollars": between(0.001, 1000),
    }
)
FOLLOW_UP = entries(
    {"suspect": one_of(SUSPECTS), "of": text, "run": _RUN, "if it is so": _FASTER, "if it is not": _FASTER}
)
# beside a record, which says what was stated
FOLLOWED = entries({"suspect": one_of(SUSPECTS), "of": text, "run": _RUN})
_TOOK = Expected("milliseconds, or an error", lambda value: value if type(value) is str else maybe(number).read(value))
_RAN = row(number, _TOOK, maybe(number)).named("when a run ended, its milliseconds or its error, its first loss")
_MEASURED = entries({"stated": number, "predicted": dict_of(number), "runs": dict_of(list_of(maybe(_RAN)))})
RECORD = entries({"plan": _MEASURED, "follow-up": maybe(_MEASURED)}).named("the text that the notebook printed")


class Fault(NamedTuple):
    """What is wrong: the mistake's name, and a sentence for the student."""

    name: str
    says: str


def machines(run: Mapping[str, Any]) -> int:
    """How many machines, or GPUs, a run pays for: one for each replica, and the server."""
    return run["replicas"] + (run["way"] == "servers")


def runnable(name: str, run: Mapping[str, Any]) -> Fault | None:
    """Its replicas share the batch evenly, and its way knows what is asked of it."""
    if run["batch"] % run["replicas"]:
        return Fault("uneven_shares", f"{shown(name)}: its replicas cannot share {run['batch']} evenly")
    if run["way"] == "gpus" and (run["replicas"] not in (1, 2, 4) or run["table"] or run["slow"]):
        return Fault("not_on_gpus", f"{shown(name)}: the way gpus has 1, 2 or 4 replicas, no table, and nobody slow")
    return None


def within_budget(plan: Mapping[str, Any]) -> Fault | None:
    """Enough repeats for a chance below 0.05, and no more runs than there are with the follow-up's; each can be run."""
    runs, repeats = plan["configurations"], plan["repeats"]
    fault = next(filter(None, (runnable(name, run) for name, run in runs.items())), None)
    if fault is not None:
        return fault
    if repeats < FEWEST:
        lowest = f"{2 / 2**repeats:.4g}"
        return Fault("too_few_repeats", f"{repeats} repeats cannot reach a chance below {lowest}; 0.05 is asked for")
    asked = (len(runs) + 2) * repeats
    if asked > RUNS:
        words = f"{len(runs)} configurations and two of the follow-up, {repeats} times each, are {asked} runs"
        return Fault("over_budget", f"{words}; the budget is {RUNS}")
    return None


def controlled(plan: Mapping[str, Any]) -> Fault | None:
    """A base of one replica, and the same run under another name, which is predicted to be as fast."""
    runs, base, control = plan["configurations"], plan["base"], plan["control"]
    if base not in runs or runs[base]["replicas"] != 1:
        return Fault("base_of_many", f"the base, {shown(base)}, is no configuration with one replica")
    if control not in runs or control == base:
        return Fault("no_control", f"the control, {shown(control)}, is no configuration of its own beside the base")
    if runs[control] != runs[base]:
        return Fault("another_run", f"the control, {shown(control)}, is another run than the base; expected the same")
    missing = next((name for name in runs if name != base and name not in plan["predicted"]), None)
    if missing is not None:
        return Fault("not_predicted", f"{shown(missing)} has no prediction")
    unknown = next((name for name in plan["predicted"] if name not in runs), None)
    if unknown is not None:
        return Fault("predicted_of_nothing", f"{shown(unknown)} has a prediction and is no configuration")
    if plan["predicted"].get(base, 1) != 1:
        return Fault("base_not_one", "the base is what the others are divided by; expected 1, or no prediction for it")
    if abs(plan["predicted"][control] - 1) > 1e-9:
        return Fault("control_not_one", "the control is the base once more; expected the prediction 1 for it")
    return None


def contrasted(plan: Mapping[str, Any]) -> Fault | None:
    """Two configurations of two replicas or more that differ in what is asked alone, and are what the question needs."""
    runs, asked = plan["configurations"], plan["question"]
    key, needed, mistake = QUESTIONS[asked]
    pairs = [(one, other) for one in runs.values() for other in runs.values() if _changed(one, other) == [key]]
    many = [(one, other) for one, other in pairs if min(one["replicas"], other["replicas"]) > 1]
    words = f'the question is "{asked}": no two configurations differ in `{key}` alone'
    if not pairs:
        return Fault("nothing_contrasted", words)
    if not many:
        return Fault("one_replica_only", f"{words}, both with two replicas or more: one alone exchanges nothing")
    base = runs[plan["base"]]["batch"] if plan["base"] in runs else 0  # `controlled` says that it is none
    if not any(_answers(asked, one, other, base) for one, other in many):
        return Fault(mistake, f'the question is "{asked}": expected, beside `{key}` alone, {needed}')
    return None


def _answers(asked: str, one: Mapping[str, Any], other: Mapping[str, Any], base: int) -> bool:
    """Whether these two, in this order, are what the question needs."""
    ways = (one["way"], other["way"])
    if asked == "share":
        return ways == ("all-reduce",) * 2 and (one["batch"], other["batch"]) == (base, base * one["replicas"])
    if asked in ("packs", "gpus"):
        return ways == ("gpus",) * 2
    large, slow = one["table"] >= LARGE, one["slow"] >= SLOW
    if asked == "table":
        return ways == ("all-reduce", "servers") and large and not one["slow"]
    return ways == ("all-reduce", "servers") and slow and not one["table"]


def _changed(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return [key for key in one if one[key] != other[key]]


def one_thing(plan: Mapping[str, Any], follow_up: Mapping[str, Any]) -> Fault | None:
    """The follow-up's run differs from one of the plan in one argument, one that the suspect depends on, and is new."""
    runs, of, suspect, new = plan["configurations"], follow_up["of"], follow_up["suspect"], follow_up["run"]
    if of not in runs:
        return Fault("of_nothing", f"{shown(of)} is no configuration of your plan")
    changed = _changed(runs[of], new)
    if len(changed) != 1:
        words = " and ".join(f"`{each}`" for each in changed) or "nothing"
        name = "two_things" if changed else "no_change"
        return Fault(name, f"the run changes {words} of {shown(of)}; expected one argument")
    if changed[0] not in SUSPECTS[suspect]:
        words = " or ".join(f"`{each}`" for each in SUSPECTS[suspect])
        return Fault(
            "another_thing", f'the suspect is "{suspect}", and the run changes `{changed[0]}`; expected {words}'
        )
    fault = runnable("the run", new) or _idle(runs[of], new, changed[0])
    if fault is not None:
        return fault
    if new in runs.values():
        return Fault("measured_already", "the run is one of your plan; expected one whose result you do not know yet")
    return None


def _idle(old: Mapping[str, Any], new: Mapping[str, Any], key: str) -> Fault | None:
    """An argument that a run does not read, or a change of it that nobody could see."""
    if key == "packs" and new["way"] != "gpus":
        return Fault("packs_unread", "the run changes `packs`, which only gpus read; expected a change that it notices")
    if key in ("packs", "rate") and new["replicas"] == 1 and new["way"] != "servers":
        return Fault("nothing_sent", f"one replica sends nothing, so its `{key}` changes nothing; take more replicas")
    small, large = sorted((old[key], new[key])) if key != "way" else (0, 1)
    if (key == "slow" and large - small < SLOW) or (small and large / small < APART):
        words = f"the run changes `{key}` from {old[key]:g} to {new[key]:g}"
        return Fault("too_little", f"{words}; expected a change that can be seen, by a tenth at least")
    return None


def tells(plan: Mapping[str, Any], follow_up: Mapping[str, Any]) -> Fault | None:
    """What is predicted if the explanation is right differs from what is predicted if it is wrong, and to the right side."""
    so, not_so = follow_up["if it is so"], follow_up["if it is not"]
    low, high = sorted((so, not_so))
    words = f"{so:g} if it is so and {not_so:g} if it is not"
    if low <= 0 or high / low < APART:
        says = f"{words}: no result of this run can refute the explanation"
        return Fault("cannot_refute", f"{says}; expected two numbers with a tenth between them, or more")
    new, old = follow_up["run"], plan["configurations"].get(follow_up["of"], follow_up["run"])
    for key in _changed(old, new):
        more = new[key] > old[key] if key in FASTER else None
        if more is not None and (so > not_so) != (more == (FASTER[key] > 0)):
            told = f"`{key}` is {'higher' if more else 'lower'}, and the predictions are {words}"
            slower = "slower" if so < not_so else "faster"
            return Fault("wrong_way", f"{told}; will the run be {slower} if the suspect is right than if it is not?")
    return None


def stated_first(record: Mapping[str, Any], plan: Mapping[str, Any]) -> Fault | None:
    """The plan's predictions stood before the first run, and each configuration has all of its runs."""
    return _measured(record["plan"], set(plan["predicted"]), set(plan["configurations"]), plan["repeats"])


def followed(record: Mapping[str, Any], plan: Mapping[str, Any], follow_up: Mapping[str, Any]) -> Fault | None:
    """The follow-up was stated when the plan's runs had ended, and before its own."""
    measured = record["follow-up"]
    if measured is None:
        return Fault("not_followed", "the record has no follow-up")
    fault = _measured(measured, {"follow-up"}, {follow_up["of"], "follow-up"}, plan["repeats"])
    last = max((run[0] for runs in record["plan"]["runs"].values() for run in runs if run), default=math.inf)
    if fault is None and measured["stated"] < last:
        return Fault("follow_up_first", "the follow-up was stated before the plan's runs had ended")
    # this counts, whatever `follow_up` says now; older records lack what comes if it is not
    stated = measured["predicted"]
    if fault is None and "if it is not" in stated:
        numbers = {"if it is so": stated["follow-up"], "if it is not": stated["if it is not"]}
        fault = tells(plan, {**follow_up, **numbers})
        fault = fault and Fault(fault.name, f"by the record, {fault.says}")
    return fault


def side_by_side(record: Mapping[str, Any]) -> Fault | None:
    """Each repeat's runs ended before those of the next one, one after the other, each after the time that it took."""
    for part, measured in record.items():
        if not measured:
            continue
        rows, before = list(measured["runs"].values()), measured["stated"]
        for repeat in range(1, min(map(len, rows), default=0)):
            last = max((runs[repeat - 1][0] for runs in rows if runs[repeat - 1]), default=-math.inf)
            if any(runs[repeat] and runs[repeat][0] < last for runs in rows):
                words = f"of the {part}, a run of repeat {repeat + 1} ended before one of repeat {repeat}"
                return Fault("repeats_mixed", f"{words}; expected the repeats one after the other")
        for ended, milliseconds in sorted((run[0], _took(run) or 0.0) for runs in rows for run in runs if run):
            if ended - before < STEPS * milliseconds / 1000 - 0.02:  # of both times two digits are kept
                words = f"of the {part}, a run ended {ended - before:.2f} s after what stood before it"
                return Fault("no_time", f"{words}; its {STEPS} steps of {milliseconds:g} ms take longer")
            before = ended
    return None


def ran(
    record: Mapping[str, Any],
    plan: Mapping[str, Any],
    follow_up: Mapping[str, Any],
    loss: Callable[[Mapping[str, Any], int], float],
) -> Fault | None:
    """Each run saw the first loss of its own data, which the prediction that was stated decides.

    `loss(run, seed)` is that loss. Where a run failed there is none.
    """
    both = {follow_up["of"]: plan["configurations"].get(follow_up["of"]), "follow-up": follow_up["run"]}
    for part, configurations in (("plan", plan["configurations"]), ("follow-up", both)):
        measured = record[part]
        for name, runs in measured["runs"].items() if measured else ():
            for repeat, each in enumerate(runs):
                run = configurations.get(name)
                if run is None or each is None or _took(each) is None:
                    continue
                words = f"run {repeat + 1} of {shown(name)} has"
                if each[2] is None:
                    return Fault("no_loss", f"{words} no first loss")
                wanted = loss(run, seed_of(measured["predicted"], name, repeat))
                if not abs(each[2] - wanted) < NEAR * max(1.0, abs(wanted)):
                    seen = f"the first loss {each[2]:.4f}"
                    return Fault("not_run", f"{words} {seen}; that run, under that prediction, has another")
    return None


def _measured(measured: Mapping[str, Any], predicted: set[str], names: set[str], repeats: int) -> Fault | None:
    for name in sorted(names):
        runs = measured["runs"].get(name, [])
        if len(runs) < repeats or not all(runs):
            return Fault("runs_missing", f"{sum(map(bool, runs))} of {repeats} runs of {shown(name)} are in it")
        for repeat, run in enumerate(runs):
            took = run[1]
            if not (took.strip() if isinstance(took, str) else took is not None and took > 0):
                words = f"run {repeat + 1} of {shown(name)} has {shown(took)} for its milliseconds"
                return Fault("no_clock", f"{words}; expected a number above 0, or the error of a run that failed")
        failed = sum(_took(run) is None for run in runs)
        if 2 * failed >= repeats:
            words = f"{failed} of {repeats} runs of {shown(name)} failed"
            return Fault("runs_failed", f"{words}; expected fewer than half: a row without pairs answers nothing")
    if any(run[0] < measured["stated"] for runs in measured["runs"].values() for run in filter(None, runs)):
        return Fault("stated_later", "a run had ended before the prediction was stated")
    unsaid = next((name for name in sorted(predicted) if name not in measured["predicted"]), None)
    return Fault("not_predicted_there", f"{shown(unsaid)} has no prediction in it") if unsaid is not None else None


def _took(run: tuple[float, float | str | None, float | None]) -> float | None:
    """Its milliseconds; None where it failed."""
    return None if isinstance(run[1], str) else run[1]


def recorded(told: str) -> dict[str, Any]:
    """What a record says, in the fence of a code block, too. Raises AssertionError for other texts."""
    told = told.strip().strip("`").removeprefix("json")
    value: Any = told
    if len(told) < LONGEST:
        try:
            value = json.loads(told)
        except json.JSONDecodeError as error:
            whole = 'the text that the notebook printed, from `{"plan"` to the last `}`'
            raise AssertionError(
                f"`record` cannot be read from its line {error.lineno} on; expected {whole}."
            ) from None
        except (ValueError, RecursionError):
            pass
    return RECORD(value, "`record` holds")
