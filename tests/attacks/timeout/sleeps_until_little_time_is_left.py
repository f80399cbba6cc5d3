"""Sleeps in its cells until seconds of the submission's time are left, then in the second test of an exercise."""

import json

from corpus import dumps, from_test

EXERCISE = "place"
SLEEPER = """
import time

time.sleep(55)


def {name}(*args, **kwargs):
    return None
"""


def submission(release, solved):
    notebook = json.loads(from_test(EXERCISE, 1, "import time; time.sleep(100)")(release, solved))
    for cell in notebook["cells"]:
        name = cell["metadata"].get("nbgrader", {}).get("grade_id")
        if name in ("where", "split", "variables_on"):
            cell["source"] = SLEEPER.format(name=name)
    return dumps(notebook)
