"""A study that its student plans: what the notebook and grading read alike, and the rules that both decide by.

plan = read(plan, "`plan` is", PLAN)
fault = controlled(plan)                       # None, or a Fault: the mistake's name, and a sentence
text = record(study, follow_up)                # what was stated, and when each run ended, to hand in
fault = stated_first(recorded(text), plan)

A run is {"replicas": 2, "batch": 512, "messages": 1, "threads": 1}. All sentences are for the student.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from across.expecting import between, dict_of, entries, list_of, maybe, number, one_of, row, shown, text, whole
from across.study import Study

__all__ = [
    "FOLLOW_UP",
    "PLAN",
    "RECORD",
    "RUNS",
    "Fault",
    "contrasted",
    "controlled",
    "followed",
    "one_thing",
    "record",
    "recorded",
    "stated_first",
    "tells",
    "within_budget",
]

RUNS = 48  # of the plan and its follow-up together, which has two configurations
FEWEST = 6  # repeats: five coins cannot reach a chance below 0.05
APART = 1.1  # times: two predictions that are nearer tell nothing
ROUNDED = 0.01  # of a prediction: typed again with two digits it is the same
LONGEST = 100_000  # characters of a record
SUSPECTS = {"messages": ("messages",), "own ops": ("batch",), "cores": ("threads", "replicas")}

_RUN = entries(
    {
        "replicas": between(1, 8, whole),
        "batch": between(8, 4096, whole),
        "messages": between(1, 16, whole),
        "threads": between(1, 8, whole),
    }
).named('a run: {"replicas": 1, "batch": 512, "messages": 1, "threads": 1}')
_FASTER = between(0.01, 100)
PLAN = entries(
    {
        "question": one_of(["batch", "messages"]),
        "repeats": between(1, 100, whole),
        "configurations": dict_of(_RUN),
        "base": text,
        "control": text,
        "predicted": dict_of(_FASTER),
    }
)
FOLLOW_UP = entries(
    {"suspect": one_of(SUSPECTS), "of": text, "run": _RUN, "if it is so": _FASTER, "if it is not": _FASTER}
)
_MEASURED = entries(
    {"stated": number, "predicted": dict_of(number), "runs": dict_of(list_of(maybe(row(number, maybe(number)))))}
)
RECORD = entries({"plan": _MEASURED, "follow-up": maybe(_MEASURED)}).named("the text that the check printed")


class Fault(NamedTuple):
    """What is wrong: the mistake's name, and a sentence for the student."""

    name: str
    says: str


def within_budget(plan: Mapping[str, Any]) -> Fault | None:
    """Enough repeats for a chance below 0.05, and no more runs than there are with the follow-up's; each can be run."""
    runs, repeats = plan["configurations"], plan["repeats"]
    uneven = next((name for name, run in runs.items() if run["batch"] % run["replicas"]), None)
    if uneven is not None:
        return Fault("uneven_shares", f"{shown(uneven)}: its replicas cannot share {runs[uneven]['batch']} evenly")
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
    if abs(plan["predicted"][control] - 1) > 1e-9:
        return Fault("control_not_one", "the control is the base once more; expected the prediction 1 for it")
    return None


def contrasted(plan: Mapping[str, Any]) -> Fault | None:
    """Two configurations of as many replicas, two at least, that differ in what is asked alone.

    Of "batch": one has the base's, the other as many times that as there are replicas.
    """
    runs, asked = plan["configurations"], plan["question"]
    batch = runs[plan["base"]]["batch"] if plan["base"] in runs else 0  # `controlled` says that it is none
    pairs = [(one, other) for one in runs.values() for other in runs.values() if _changed(one, other) == [asked]]
    many = [pair for pair in pairs if pair[0]["replicas"] > 1]
    if not many:
        words = f'the question is "{asked}": no two configurations differ in `{asked}` alone'
        name = "one_replica_only" if pairs else "nothing_contrasted"
        return Fault(name, f"{words}{', both with two replicas or more: one sends no messages' if pairs else ''}")
    if asked == "batch" and not any(
        (one["batch"], other["batch"]) == (batch, batch * one["replicas"]) for one, other in many
    ):
        words = "expected the base's for all replicas together, and the base's for each"
        return Fault("neither_strong_nor_weak", f'the question is "batch": {words}')
    return None


def _changed(one: Mapping[str, int], other: Mapping[str, int]) -> list[str]:
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
    if new["batch"] % new["replicas"]:
        return Fault("uneven_shares", f"the replicas of the run cannot share {new['batch']} evenly")
    if new in runs.values():
        return Fault("measured_already", "the run is one of your plan; expected one whose result you do not know yet")
    return None


def tells(follow_up: Mapping[str, Any]) -> Fault | None:
    """What is predicted if the explanation is right differs from what is predicted if it is wrong."""
    so, not_so = follow_up["if it is so"], follow_up["if it is not"]
    if max(so, not_so) / min(so, not_so) < APART:
        words = f"{so:g} if it is so and {not_so:g} if it is not: no result of this run can refute the explanation"
        return Fault("cannot_refute", f"{words}; expected two numbers with a tenth between them, or more")
    return None


def stated_first(record: Mapping[str, Any], plan: Mapping[str, Any]) -> Fault | None:
    """The plan's predictions stood before the first run, and each configuration has all of its runs."""
    said = {name: value for name, value in plan["predicted"].items() if name in plan["configurations"]}
    return _measured(record["plan"], said, set(plan["configurations"]), plan["repeats"])


def followed(record: Mapping[str, Any], plan: Mapping[str, Any], follow_up: Mapping[str, Any]) -> Fault | None:
    """The follow-up was stated when the plan's runs had ended, and before its own."""
    measured = record["follow-up"]
    if measured is None:
        return Fault("not_followed", "the record has no follow-up")
    said = {"follow-up": follow_up["if it is so"]}
    fault = _measured(measured, said, {follow_up["of"], "follow-up"}, plan["repeats"])
    last = max((run[0] for runs in record["plan"]["runs"].values() for run in runs if run), default=math.inf)
    if fault is None and measured["stated"] < last:
        return Fault("follow_up_first", "the follow-up was stated before the plan's runs had ended")
    return fault


def _measured(
    measured: Mapping[str, Any], predicted: Mapping[str, float], names: set[str], repeats: int
) -> Fault | None:
    for name in sorted(names):
        runs = measured["runs"].get(name, [])
        if len(runs) < repeats or not all(runs):
            return Fault("runs_missing", f"{sum(map(bool, runs))} of {repeats} runs of {shown(name)} are in it")
    if any(at < measured["stated"] for runs in measured["runs"].values() for at, _ in filter(None, runs)):
        return Fault("stated_later", "a run had ended before the prediction was stated")
    stated = measured["predicted"]
    off = next(
        (each for each in predicted if abs(stated.get(each, 0) - predicted[each]) > ROUNDED * predicted[each]), None
    )
    if off is not None:
        seen = shown(measured["predicted"].get(off))
        return Fault("changed_later", f"{shown(off)} was predicted {seen} there; now it is {predicted[off]:g}")
    return None


def recorded(told: str) -> dict[str, Any]:
    """What a record says. Raises AssertionError for other texts."""
    try:
        value = json.loads(told) if len(told) < LONGEST else None
    except (ValueError, RecursionError):
        value = None
    return RECORD(value, "`record` holds")


def record(plan: Study, follow_up: Study) -> str:
    """The predictions that count, and of all runs when they ended and the milliseconds of a step, to hand in as text.

    Seconds count from when the plan was stated. Raises AssertionError where nothing was.
    """
    stated = plan.stated()
    assert stated is not None
    parts = [f'"{name}": {_kept(study, stated.at)}' for name, study in (("plan", plan), ("follow-up", follow_up))]
    return "{" + ",\n".join(parts) + "}"


def _kept(study: Study, start: float) -> str:
    """A study as JSON, a line for each configuration."""
    stated = study.stated()
    assert stated is not None
    runs: dict[str, list[Any]] = {name: [None] * study.repeats for name in study.configurations}
    for each in study.runs():
        milliseconds = None if each.seconds is None else round(1000 * each.seconds, 1)
        runs[each.name][each.repeat] = [round(each.at - start, 2), milliseconds]
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(several)}" for name, several in runs.items())
    return f'{{"stated": {stated.at - start:.2f},\n"predicted": {json.dumps(stated.values)},\n"runs": {{\n{lines}}}}}'
