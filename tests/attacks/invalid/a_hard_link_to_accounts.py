"""Hands in a second name of a file of the instructor's, which no look at links shows."""

from pathlib import Path

EXERCISE = "where"


def submission(release, solved):
    def write(path):
        theirs = path.parents[2] / "of_the_instructor"
        if not theirs.exists():
            theirs.write_bytes(Path("/etc/passwd").read_bytes())
        path.hardlink_to(theirs)

    return write
