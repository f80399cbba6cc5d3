"""No attack: a converter took the grade ids from its cells and the ids from all; its answers are known by their names."""

import copy

from corpus import dumps

EXERCISE = "where"
EARNS = {
    "where": 2.0,
    "prediction": 1.0,
    "place": 3.0,
    "split": 3.0,
    "variables_on": 2.0,
    "round_robin": 3.0,
    "soonest": 3.0,
}


def submission(release, solved):
    notebook = copy.deepcopy(solved)
    for cell in notebook["cells"]:
        cell.pop("id", None)
        cell["metadata"].get("nbgrader", {}).pop("grade_id", None)
    return dumps(notebook)
