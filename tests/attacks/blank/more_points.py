"""Gives its check cells a million points and empties them."""

import copy

from corpus import dumps

EXERCISE = "where"


def submission(release, solved):
    notebook = copy.deepcopy(release)
    for cell in notebook["cells"]:
        meta = cell["metadata"].get("nbgrader", {})
        if meta.get("grade") and not meta.get("solution"):
            meta["points"] = 1e6
            cell["source"] = ""
    return dumps(notebook)
