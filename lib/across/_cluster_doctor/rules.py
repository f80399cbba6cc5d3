"""Causes, told from facts alone: each rule is a question, and the first that finds an answer is the likeliest cause."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from across._cluster_doctor import rules_of_addresses, rules_of_programs
from across._cluster_doctor.facts import Facts, Finding

Rule = Callable[[Facts], Iterator[Finding]]
RULES: tuple[Rule, ...] = (
    rules_of_addresses.config,
    rules_of_programs.stopped,
    rules_of_addresses.same_task,
    rules_of_addresses.taken,
    rules_of_addresses.differ,
    rules_of_programs.versions,
    rules_of_programs.disk,
    rules_of_programs.mismatch,
    rules_of_addresses.evaluator,
    rules_of_programs.ended,
    rules_of_programs.fewer,
    rules_of_addresses.gone,
    rules_of_programs.nan,
    rules_of_addresses.unreachable,
    rules_of_addresses.silent,
    rules_of_programs.clock,
    rules_of_programs.stands,
    rules_of_programs.settings,
    rules_of_addresses.nothing,
)
FOLLOW = {
    "gone",
    "nothing runs",
    "ended",
    "collectives",
    "silent",
    "stands",
    "settings",
}  # what another cause may bring about


def diagnose(facts: Facts) -> list[Finding]:
    """The causes that the facts support, the likeliest first. What another one explains is not said again."""
    found: list[Finding] = []
    for rule in RULES:
        explained = {task for finding in found for task in (finding.task, *finding.explains)}
        found += [
            each for each in rule(facts) if each.key not in FOLLOW or not found or each.task not in explained | {""}
        ]
    return found
