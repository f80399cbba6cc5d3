"""Writes the reference into locked cells and prose, empties the checks, and leaves its answers as released."""

import copy

from corpus import dumps, text

EXERCISE = "where"


def submission(release, solved):
    notebook = copy.deepcopy(release)
    for cell, right in zip(notebook["cells"], solved["cells"], strict=True):
        meta = cell["metadata"].get("nbgrader", {})
        if meta.get("grade") and not meta.get("solution"):
            cell["source"] = "print('Passed.')"
        elif not meta.get("solution") and cell["cell_type"] == "code":
            cell["source"] = "\n".join(text(each) for each in solved["cells"] if answers(each))
        assert right["cell_type"] == cell["cell_type"]
    return dumps(notebook)


def answers(cell):
    return cell["cell_type"] == "code" and cell["metadata"].get("nbgrader", {}).get("solution")
