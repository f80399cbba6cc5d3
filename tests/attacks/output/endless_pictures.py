"""Displays pictures for ever, and clears each."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
from IPython.display import clear_output, display

while True:
    display({"image/png": "A" * 10_000, "text/html": "<b>x</b>"}, raw=True)
    clear_output()
""",
)
