"""Answers code by a markdown cell and makes its source an object."""

from corpus import answered, by_id, dumps

EXERCISE = "where"


def submission(release, solved):
    notebook = answered(release, EXERCISE, "x")
    by_id(notebook, EXERCISE).update(cell_type="markdown", source={"text": "x"})
    return dumps(notebook)
