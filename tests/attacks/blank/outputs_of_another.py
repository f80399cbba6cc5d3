"""Carries the outputs and execution counts of a solved notebook, and answers nothing."""

import copy

from corpus import dumps

EXERCISE = "where"


def submission(release, solved):
    notebook = copy.deepcopy(release)
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code":
            cell["execution_count"] = number
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "looks right so far"}]
    return dumps(notebook)
