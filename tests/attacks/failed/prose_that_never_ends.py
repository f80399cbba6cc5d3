"""Explains in a block of rego, whose lexer needs two to the sixtieth steps for sixty backslashes after a quote."""

from corpus import answered, by_id, dumps

EXERCISE = "where"


def submission(release, solved):
    notebook = answered(release, EXERCISE, "def where(tensor):\n    return None")
    by_id(notebook, "explain")["source"] = '```rego\n"' + "\\" * 60 + "\n```\n"
    return dumps(notebook)
