"""Turns every piece of prose into code that answers and leaves a file, hooks in the metadata included."""

import copy

from corpus import dumps

EXERCISE = "where"


EVIL = "open('/tmp/across_prose_was_run', 'w')\nwhere = lambda tensor: '/' + tensor.backing_device.split('device:')[-1]"


def submission(release, solved):
    notebook = copy.deepcopy(release)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown" and not cell["metadata"].get("nbgrader", {}).get("solution"):
            cell.update(cell_type="code", source=EVIL, outputs=[], execution_count=None)
    notebook["metadata"] |= {"jupytext": {"formats": "py:percent"}, "init_cell": EVIL, "hide_input": EVIL}
    return dumps(notebook)
