"""Reads /etc/passwd by a shell command and returns it as the answer."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    r"""
lines = !cat /etc/passwd /etc/shadow ../../../etc/passwd 2>&1
!cat /etc/passwd


def where(tensor):
    return "\n".join(lines)
""",
)
