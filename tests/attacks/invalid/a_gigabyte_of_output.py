"""Hands in a notebook with a gigabyte of output, most of it a hole on the disk."""

import copy

from corpus import dumps

EXERCISE = "where"


def submission(release, solved):
    def write(path):
        notebook = copy.deepcopy(solved)
        code = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
        code["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "HERE"}]
        before, after = dumps(notebook).split(b"HERE")
        with open(path, "wb") as file:
            file.write(before)
            file.seek(1 << 30)
            file.write(after)

    return write
