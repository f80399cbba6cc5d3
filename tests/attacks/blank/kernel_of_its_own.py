"""Names a kernel and a language of its own, whose command would be run."""

import copy

from corpus import dumps

EXERCISE = "where"


def submission(release, solved):
    notebook = copy.deepcopy(release)
    notebook["metadata"]["kernelspec"] = {"name": "../../evil", "argv": ["touch", "/tmp/x"], "language": "bash"}
    notebook["metadata"]["papermill"] = {"parameters": {"trust": True}}
    return dumps(notebook)
