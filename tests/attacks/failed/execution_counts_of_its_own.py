"""Numbers its cells by half a surrogate, by HTML and by lists, which end the class or the formgrader's page."""

from corpus import answered, by_id, dumps

EXERCISE = "where"
ENTERS = """
import json

kernel = get_ipython().kernel
kernel.session.pack = lambda value: json.dumps(value, default=str).encode()


def numbered(count):
    content = {"name": "stdout", "text": "hello", "execution_count": count}
    kernel.session.send(kernel.iopub_socket, "stream", content, parent=kernel.get_parent())


numbered("\\ud800")


def where(tensor):
    return None
"""


def submission(release, solved):
    notebook = answered(release, EXERCISE, ENTERS)
    for name, count in (("prediction", "'<script>alert(1)</script>'"), ("place", "[[0] * 9] * 9"), ("split", "2**70")):
        by_id(notebook, name)["source"] = f"numbered({count})"
    return dumps(notebook)
