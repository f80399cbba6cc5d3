"""Never ends when it is asked."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
def where(tensor):
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
""",
)
