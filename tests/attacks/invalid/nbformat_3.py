"""Hands in notebook format 3, with worksheets and the reference in them."""

from corpus import dumps, text

EXERCISE = "where"


def submission(release, solved):
    cells = [
        {"cell_type": cell["cell_type"], "input": text(cell), "source": text(cell), "language": "python"}
        | {"metadata": cell["metadata"], "outputs": []}
        for cell in solved["cells"]
    ]
    return dumps({"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [{"cells": cells}]})
