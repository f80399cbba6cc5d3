"""Displays thousands of little things, each of which is a box on the page and a row in the gradebook."""

from corpus import answered, by_id, dumps

EXERCISE = "where"
FLOOD = """
from IPython.display import display

for _ in range(700):
    display({"text/plain": "x" * 99}, raw=True)


def where(tensor):
    return None
"""


def submission(release, solved):
    notebook = answered(release, EXERCISE, FLOOD)
    for name in ("prediction", "place", "split", "variables_on"):
        by_id(notebook, name)["source"] = FLOOD
    return dumps(notebook)
