"""Writes bidirectional controls, ANSI sequences and links for terminals into its source, output and errors."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    r"""
SAYS = "\u202e\u2066passed\u2069\u202c \x1b]8;;http://x\x07link\x1b]8;;\x07 "
SAYS += "\x1b[2J\x1b[1;1H\x1b[32mPassed.\x1b[0m \x9b31m \x08\x08\r"
print(SAYS * 100)


def where(tensor):  # ‮ rekcehc eht ot ‬ and so on
    raise ValueError(SAYS)
""",
)
