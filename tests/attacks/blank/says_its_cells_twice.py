"""Says `cells` twice, for readers that take the first and for those that take the last."""

from corpus import dumps

EXERCISE = "where"


def submission(release, solved):
    right, blank = dumps(solved).decode(), dumps(release).decode()
    return (right.rstrip().removesuffix("}") + "," + blank.lstrip().removeprefix("{")).encode()
