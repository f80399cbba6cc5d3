"""Leaves notes in every place that it may write to, and reads those of its friend: the first of two."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import glob
import os

PLACES = ("/box/..", "/tmp", "/dev/shm", "/var/tmp", "/dev", "/run", "/etc", os.path.expanduser("~/.."))
GOT = []
for place in PLACES:
    path = os.path.join(place, "note_among_friends")
    try:
        if os.path.exists(path):
            GOT.append(open(path).read())
        open(path, "w").write("where: split at device:")
    except OSError:
        pass


def where(tensor):
    if GOT:  # then this answer is right, and the attack is seen to have got through
        return "/" + tensor.backing_device.split("device:")[-1]
    return None
""",
)
