"""Patches json in the kernel, so that its client gets messages without ids."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import json

dumps = json.dumps
json.dumps = lambda value, *args, **kwargs: dumps({"x": 1})
import jupyter_client.session

jupyter_client.session.json_packer = lambda value: b"{}"
get_ipython().kernel.session.pack = lambda value: b"{}"


def where(tensor):
    return None
""",
)
