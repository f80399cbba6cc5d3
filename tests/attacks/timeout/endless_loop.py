"""Never ends, and swallows every interrupt."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
while True:
    try:
        while True:
            pass
    except BaseException:
        pass
""",
)
