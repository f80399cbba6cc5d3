"""Answers by a script, a formula and an escape sequence, for whoever reads the feedback."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    r"""
from IPython.display import HTML, Javascript, display

EVIL = "<script>alert('across-was-here')</script><img src=x onerror=alert('across-was-here')>"
display(HTML(EVIL), Javascript("alert('across-was-here')"))
print(EVIL)


def where(tensor):
    return '=HYPERLINK("http://x","' + EVIL + "\x1b]0;title\x07\x1b[2J\u202e\x00"
""",
)
