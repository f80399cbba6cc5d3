"""Answers by as many empty lists as fit into a reply, to fill the checker's memory."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
def where(tensor):
    return [[]] * 500_000
""",
)
