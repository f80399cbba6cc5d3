"""Looks for the folders, boxes, processes and sockets of other students."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import glob
import os

GOT = []
for pattern in ("/dev/shm/*/*/*", "/tmp/*/*/*", "/box/../*box*/*", "/*/submi*", "/*/*/submi*", "/*/*/*/submi*", "/*/*honest*"):
    GOT += [path for path in glob.glob(pattern) if "honest" in path or path.endswith(".ipynb") or "submi" in path]
for file in glob.glob("/proc/[0-9]*/cgroup") + glob.glob("/proc/[0-9]*/mountinfo") + ["/proc/net/unix"]:
    try:
        said = open(file).read()
    except OSError:
        continue
    if "honest" in said or "submissions" in said:
        GOT.append(file)
here = {int(name) for name in os.listdir("/proc") if name.isdigit()}
for pid in range(1, 40000):
    if pid in here:
        continue
    try:
        os.kill(pid, 0)
        if not any(os.path.exists(f"/proc/{each}/task/{pid}") for each in here):
            GOT.append(pid)  # alive, and not of this box
    except OSError:
        pass


def where(tensor):
    if GOT:  # then this answer is right, and the attack is seen to have got through
        return "/" + tensor.backing_device.split("device:")[-1]
    return None
""",
)
