"""Says schema_version 99 everywhere, and that every cell is neither graded nor locked."""

import copy

from corpus import dumps

EXERCISE = "where"


def submission(release, solved):
    notebook = copy.deepcopy(release)
    for cell in notebook["cells"]:
        if meta := cell["metadata"].get("nbgrader"):
            meta.update(schema_version=99, grade=False, locked=False, checksum="0")
    return dumps(notebook)
