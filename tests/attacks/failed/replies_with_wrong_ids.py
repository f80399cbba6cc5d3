"""Answers requests that nobody made, with the ids of other sessions, of the past and of none."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import uuid

kernel = get_ipython().kernel
OK = {"status": "ok", "execution_count": 1, "user_expressions": {}, "payload": []}
parent = kernel.get_parent()
for msg_id in ("", "0", None, str(uuid.uuid4()), "../../x", 7, {"a": 1}, parent["header"]["msg_id"]):
    header = {**parent["header"], "msg_id": msg_id, "session": str(uuid.uuid4())}
    for kind, content in (("execute_reply", OK), ("status", {"execution_state": "idle"}), ("execute_result", {})):
        try:
            kernel.session.send(kernel.iopub_socket, kind, content, parent={"header": header})
        except Exception:
            pass


def where(tensor):
    return None
""",
)
