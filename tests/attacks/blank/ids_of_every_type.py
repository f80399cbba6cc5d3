"""Gives its cells grade ids that are lists, numbers, paths, a megabyte long, or somebody's table."""

import copy

from corpus import dumps

EXERCISE = "where"


ODD = (
    ["where"],
    7,
    1e999,
    {"where": 1},
    "../../../etc/passwd",
    "where\u0000",
    "x" * 1_000_000,
    "'; drop table grade; --",
    True,
)


def submission(release, solved):
    notebook = copy.deepcopy(release)
    for number, cell in enumerate(solved["cells"]):
        added = copy.deepcopy(cell) | {"id": f"odd{number}"}
        if meta := added["metadata"].get("nbgrader"):
            meta["grade_id"] = ODD[number % len(ODD)]
            notebook["cells"].append(added)
    return dumps(notebook)
