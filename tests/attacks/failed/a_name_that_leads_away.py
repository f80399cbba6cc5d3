"""Is called by newlines, HTML, a formula and dots, and has files with such names beside its notebook."""

from corpus import NOTHING, answered, dumps

EXERCISE = "where"
STUDENT = "..\n=HYPERLINK(1) <script>alert(1)<x> $(touch x) \u202e *"


def submission(release, solved):
    def write(path):
        path.write_bytes(dumps(answered(release, EXERCISE, NOTHING.format(name=EXERCISE))))
        for name in ("..\\..\\x", "a\nb", "-rf", "$(touch x)", "=cmd()", "<script>alert(1)<", "x" * 255, "\x1b[2J"):
            (path.parent / name).touch()
        (path.parent / "timestamp.txt").symlink_to("/etc/passwd")

    return write
