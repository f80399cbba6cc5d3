"""Takes the grade ids away from its cells and the ids from all."""

import copy

from corpus import dumps

EXERCISE = "where"


def submission(release, solved):
    notebook = copy.deepcopy(solved)
    for cell in notebook["cells"]:
        cell.pop("id", None)
        cell["metadata"].get("nbgrader", {}).pop("grade_id", None)
    return dumps(notebook)
