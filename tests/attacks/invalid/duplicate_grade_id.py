"""Gives two cells the same grade id, one of them right."""

import copy

from corpus import answered, by_id, dumps, text

EXERCISE = "where"


def submission(release, solved):
    notebook = answered(release, EXERCISE, text(by_id(solved, EXERCISE)))
    notebook["cells"].insert(0, copy.deepcopy(by_id(notebook, EXERCISE)) | {"id": "copied"})
    return dumps(notebook)
