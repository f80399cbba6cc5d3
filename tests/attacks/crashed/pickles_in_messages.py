"""Sends pickles as buffers, comms, widgets and MIME types to the client that listens to its kernel."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import pickle


class Bomb:
    def __reduce__(self):
        import os

        return os.system, ("touch /tmp/across_pickle_was_loaded",)


bomb = pickle.dumps(Bomb())
kernel = get_ipython().kernel
send = lambda kind, content: kernel.session.send(
    kernel.iopub_socket, kind, content, parent=kernel.get_parent(), buffers=[bomb], metadata={"pickle": True}
)
send("comm_open", {"comm_id": "1", "target_name": "jupyter.widget", "data": {"buffer_paths": [["x"]], "state": {}}})
send("comm_msg", {"comm_id": "1", "data": {"method": "update", "buffer_paths": [["x"]], "state": {}}})
send("display_data", {"data": {"application/x-pickle": bomb.hex(), "application/python": "x"}, "metadata": {}})
send("update_display_data", {"data": {"text/plain": "x"}, "metadata": {}, "transient": {"display_id": "../../x"}})


def where(tensor):
    return None
""",
)
