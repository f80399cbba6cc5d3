"""Hands in a symbolic link to a file of the instructor's machine."""

EXERCISE = "where"


def submission(release, solved):
    return lambda path: path.symlink_to("/etc/passwd")
