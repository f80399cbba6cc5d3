"""What checks on TF_CONFIG are made of: random clusters, the texts of their tasks, and texts with faults that are known."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

JOBS = ("chief", "worker", "ps", "evaluator")
Jobs = dict[str, list[str]]

RULES = {
    "json": "it is no JSON text.",
    "no cluster": "there is no cluster in it.",
    "job": "the only jobs are chief, worker, ps and evaluator.",
    "chief": "there is at most one chief, and where a ps is, there is one.",
    "evaluator": "there is at most one evaluator.",
    "port": "an address ends with `:` and a whole number.",
    "twice": "no two tasks have one address, not even tasks of two jobs.",
    "task": "the task's job is one of the cluster's; only an evaluator need not be.",
    "index": "of a job in the cluster the index is from 0 to one less than it has tasks; as text, too.",
}


def hosts(rng: np.random.Generator, count: int) -> list[str]:
    """Different addresses, on few machines."""
    names = rng.choice(["n1", "n2", "gpu-a", "10.0.0.7", "[::1]", "trainer-0.svc"], size=count)
    return [f"{name}:{port}" for name, port in zip(names, 2000 + rng.permutation(900)[:count], strict=True)]


def cluster(rng: np.random.Generator, *, chief: bool, ps: int, workers: int, evaluator: bool = False) -> Jobs:
    """A cluster without a fault, its jobs in any order."""
    counts = {"chief": int(chief), "worker": workers, "ps": ps, "evaluator": int(evaluator)}
    left = hosts(rng, sum(counts.values()))
    made = {job: [left.pop() for _ in range(count)] for job, count in counts.items() if count}
    return {job: made[job] for job in rng.permutation(list(made)).tolist()}


def text(jobs: Any, job: Any, index: Any) -> str:
    """TF_CONFIG of one task."""
    return json.dumps({"cluster": jobs, "task": {"type": job, "index": index}})


Case = tuple[str, set[str]]  # a text, its faults


def single(rng: np.random.Generator) -> list[Case]:
    """One text for each way to have one fault, among texts without any and with several."""
    n = int(rng.integers(2, 5))
    full = cluster(rng, chief=True, ps=int(rng.integers(2, 4)), workers=n)
    plain = cluster(rng, chief=False, ps=0, workers=n)
    without = {job: full[job] for job in full if job != "chief"}
    found: list[Case] = [
        (text(full, "worker", n - 1), set()),
        (text(full, "evaluator", 0), set()),
        (text(plain, "worker", 0), set()),
        (text({**plain, "evaluator": ["e:1"]}, "worker", 0), set()),
        (text({**plain, "evaluator": ["e:1"]}, "evaluator", 1), {"index"}),
        (text(full, "worker", n), {"index"}),
        (text(full, "worker", -1), {"index"}),
        (text(full, "worker", str(int(rng.integers(n)))), set()),
        (text(full, "worker", str(n)), {"index"}),
        (text({**plain, "evaluator": ["e:1", "e:2"]}, "worker", 0), {"evaluator"}),
        (text({**full, "evaluator": ["e:1", "f:1", "g:1"]}, "evaluator", 2), {"evaluator"}),
        (text(full, "chief", 1), {"index"}),
        (json.dumps({"cluster": full, "task": {"type": "worker"}}), {"index"}),
        (text(plain, "ps", 0), {"task"}),
        (json.dumps({"cluster": full}), {"task"}),
        (text({**plain, "master": ["m:1"]}, "worker", 0), {"job"}),
        (text({"trainer": plain["worker"]}, "trainer", 0), {"job"}),
        (text(without, "worker", 0), {"chief"}),
        (text({**full, "chief": ["c1:1", "c2:1"]}, "chief", 0), {"chief"}),
        (text({**full, "chief": ["c1:1", "c2:1", "c3:1"]}, "chief", 0), {"chief"}),
        (text({**plain, "worker": [*plain["worker"][:-1], plain["worker"][0]]}, "worker", 0), {"twice"}),
        (text({**full, "ps": [*full["ps"][:-1], full["worker"][-1]]}, "ps", 0), {"twice"}),
        (text({**full, "ps": [*full["ps"][:-1], "n9"]}, "ps", 0), {"port"}),
        (text({**plain, "worker": ["8080", *plain["worker"][1:]]}, "worker", 0), {"port"}),
        (text({**plain, "worker": ["n9:port", *plain["worker"][1:]]}, "worker", 0), {"port"}),
        (text({**plain, "worker": ["n9:", *plain["worker"][1:]]}, "worker", 0), {"port"}),
        (text({**plain, "worker": ["n9:8.0", *plain["worker"][1:]]}, "worker", 0), {"port"}),
        (text({**plain, "worker": ["n9:x80", *plain["worker"][1:]]}, "worker", 0), {"port"}),
        (text({**plain, "worker": [*plain["worker"][:-1], "n9:80x"]}, "worker", 0), {"port"}),
        (text({"worker": ["[::1]:2001", "[::1]:2002"]}, "worker", 0), set()),
        (text({**plain, "worker": ["n1", "n1"]}, "worker", 0), {"port", "twice"}),
        (text({"master": ["m:1"], "ps": ["p:1"]}, "ps", 1), {"job", "chief", "index"}),
        ("{", {"json"}),
        (json.dumps({"task": {"type": "worker", "index": 0}}), {"no cluster"}),
    ]
    return [found[i] for i in rng.permutation(len(found))]


def several(rng: np.random.Generator) -> list[Case]:
    """Texts with more than one fault."""
    plain, n = cluster(rng, chief=False, ps=0, workers=3), 3
    full = cluster(rng, chief=True, ps=2, workers=n)
    found: list[Case] = [
        (text({"worker": ["n1", "n2:1", "n1"]}, "worker", 0), {"port", "twice"}),
        (text({**plain, "ps": ["p:1"]}, "worker", n), {"chief", "index"}),
        (text({**plain, "ps": ["p"], "master": ["m:1"]}, "worker", "3"), {"chief", "port", "job", "index"}),
        (text({**full, "evaluator": ["e:1", "e:1"]}, "boss", 0), {"evaluator", "twice", "task"}),
        (text({**full, "chief": ["c:1", "c:1"]}, "boss", 0), {"chief", "twice", "task"}),
        (text({**full, "ps": ["p:x", *full["worker"][:1]]}, "ps", 2), {"port", "twice", "index"}),
        (text(full, "ps", 1), set()),
        (text({**full, "master": ["m:1"]}, "boss", 0), {"job", "task"}),
        (text({**full, "master": ["m:1"]}, "chief", 1), {"job", "index"}),
    ]
    return [found[i] for i in rng.permutation(len(found))]


def why(wanted: set[str], got: set[str]) -> str:
    """Which word is missing, or too much, and what its rule is."""
    missing, extra = sorted(wanted - got), sorted(got - wanted)
    word = (missing or extra)[0]
    return f"{word!r} is {'missing' if missing else 'not so'}: {RULES[word]}"
