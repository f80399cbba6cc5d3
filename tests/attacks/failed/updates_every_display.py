"""Displays hundreds of handles, then updates all of them at once by one long text: 256 MB of one megabyte sent."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
from IPython.display import display, update_display

for _ in range(400):
    display({"text/plain": ""}, raw=True, display_id="all")
update_display({"text/plain": "<" * 600_000}, raw=True, display_id="all")


def where(tensor):
    return None
""",
)
