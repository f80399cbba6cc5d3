"""Sends one message of 3,000 parts of 1 MB on the output channel."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import time

session = get_ipython().kernel.session
socket = get_ipython().kernel.iopub_socket
part = b"x" * 1_000_000
for _ in range(3):
    session.send(socket, "stream", {"name": "stdout", "text": "x"}, buffers=[part] * 3000)
    time.sleep(1)
time.sleep(1000)
""",
)
