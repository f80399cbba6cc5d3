"""Tags its check cells skip-execution and raises-exception, and answers nothing."""

import copy

from corpus import by_id, dumps

EXERCISE = "where"


def submission(release, solved):
    notebook = copy.deepcopy(release)
    for grade_id in ("where", "check_where"):
        by_id(notebook, grade_id)["metadata"]["tags"] = ["skip-execution", "raises-exception", "across-skip"]
    return dumps(notebook)
