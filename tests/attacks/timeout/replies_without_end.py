"""Sends signed replies on the shell channel without end, so that who listens never comes to look at the clock."""

from corpus import answering

EXERCISE = "where"
EARNS = {"split": 3.0}
submission = answering(
    EXERCISE,
    """
kernel = get_ipython().kernel
parent = kernel.get_parent()
ident = getattr(kernel, "_parent_ident", {}).get("shell")
socket = kernel.parent.shell_socket
OK = {"status": "ok", "execution_count": 1, "user_expressions": {}, "payload": []}
while True:
    try:
        while True:
            for kind in ("execute_reply", "complete_reply"):
                kernel.session.send(socket, kind, OK, parent={}, ident=ident)
    except BaseException:
        pass
""",
    honest=tuple(EARNS),
)
