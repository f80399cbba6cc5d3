"""Attaches scripts, pages and a hundred pictures under names that are paths."""

import copy

from corpus import dumps

EXERCISE = "where"


def submission(release, solved):
    notebook = copy.deepcopy(release)
    evil = {"text/html": "<script>alert('across-was-here')</script>", "image/svg+xml": "<svg onload=alert(1)>"}
    names = ["../../../tmp/across_attached", "/etc/cron.d/x", "a\nb", "", *(f"{n}.png" for n in range(100))]
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["attachments"] = {name: evil | {"image/png": "AAAA"} for name in names}
    return dumps(notebook)
