"""Sends signed replies on shell, control, stdin, iopub and the heartbeat: idle, ok, errors of others."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import time

kernel = get_ipython().kernel
parent = kernel.get_parent()
OK = {"status": "ok", "execution_count": 1, "user_expressions": {}, "payload": []}
ids = parent.get("identities", []) if isinstance(parent, dict) else []
sockets = [getattr(kernel, name, None) for name in ("shell_stream", "control_stream", "stdin_socket", "iopub_socket")]
sockets += [getattr(get_ipython().kernel.parent, name, None) for name in ("shell_socket", "control_socket", "heartbeat")]
for socket in sockets:
    for kind, content in (
        ("status", {"execution_state": "idle"}),
        ("execute_reply", OK),
        ("shutdown_reply", {"status": "ok", "restart": False}),
        ("input_request", {"prompt": "", "password": True}),
        ("error", {"ename": "Error", "evalue": "of another", "traceback": []}),
    ):
        for ident in (None, b"", *(ids or [])):
            try:
                kernel.session.send(socket, kind, content, parent=parent, ident=ident)
            except Exception:
                pass


def where(tensor):
    return None
""",
)
