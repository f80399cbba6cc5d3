"""Returns a list that holds itself, and a dictionary whose key is its own value."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
turn = [0]


def where(tensor):
    turn[0] += 1
    ring = ["/CPU:0"]
    ring.append(ring)
    loop = {}
    loop["/CPU:0"] = loop
    return (ring, loop, (ring, loop))[turn[0] % 3]
""",
)
