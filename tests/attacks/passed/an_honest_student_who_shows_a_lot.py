"""No attack: shows hundreds of tables, progress bars, a live line and a picture that changes, and answers rightly."""

from corpus import answered, by_id, dumps, text

EXERCISE = "where"
EARNS = {"where": 2.0}
SHOWS = """
import base64
import sys

from IPython.display import HTML, Image, clear_output, display, update_display

for step in range(600):
    display(HTML(f"<b>step {step}</b>"))
for stream in (sys.stdout, sys.stderr):
    for step in range(301):
        print(f"\\r{step / 3:5.1f}%|{'#' * (step // 15):20}| {step}/300", end="", file=stream, flush=True)
    print(file=stream)
for step in range(100):
    clear_output(wait=True)
    print("epoch", step)
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg=="
display(Image(data=base64.b64decode(PIXEL)), display_id="curve")
for step in range(100):
    update_display(Image(data=base64.b64decode(PIXEL)), display_id="curve")
"""


def submission(release, solved):
    notebook = answered(release, EXERCISE, "")
    by_id(notebook, EXERCISE)["source"] = SHOWS + "\n\n" + text(by_id(solved, EXERCISE))
    return dumps(notebook)
