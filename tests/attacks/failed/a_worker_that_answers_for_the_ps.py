"""Claims the address of a ps that runs, answers for it, and hands in what its clients are told."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import os
import select
import signal
import socket
import time

import tensorflow as tf

v1 = tf.compat.v1
os.environ["TF_GRPC_REUSE_PORT"] = "1"  # two servers may share a port
held = [socket.socket() for _ in range(2)]
for one in held:
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    one.bind(("127.0.0.1", 0))
spec = dict(zip(("ps", "worker"), ([f"127.0.0.1:{one.getsockname()[1]}"] for one in held), strict=True))


def serve(job, cluster):
    if os.fork() == 0:
        try:  # one that cannot have its port must end here: it would go on as a second kernel, and take questions
            os.setsid()
            tf.distribute.Server(cluster, job, 0).join()
        finally:
            os._exit(1)


def wait_for(address):
    until = time.monotonic() + 4
    while time.monotonic() < until:
        try:
            return socket.create_connection(address.rsplit(":", 1), 1).close()
        except OSError:
            time.sleep(0.01)


serve("ps", spec)
wait_for(spec["ps"][0])
serve("worker", spec)
serve("ps", spec)  # by the worker's side: it claims the ps's address
with open("/proc/net/tcp") as table:  # and that of everybody else who listens
    others = {int(line.split()[1].rpartition(":")[2], 16) for line in table.readlines()[1:] if line.split()[3] == "0A"}
for port in others - {one.getsockname()[1] for one in held}:
    serve("ps", {"ps": [f"127.0.0.1:{port}"]})
wait_for(spec["worker"][0])


def ask():
    config = v1.ConfigProto(operation_timeout_in_ms=1_000)
    with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
        told = tf.constant("/CPU:2")
        with v1.Session(f"grpc://{spec['worker'][0]}", config=config) as session:
            return session.run(told)


def told_within(seconds):  # by a process, for which of two servers has the connection is chance, and one may never answer
    told, tell = os.pipe()
    asking = os.fork()
    if asking == 0:
        try:
            os.write(tell, ask())
        finally:
            os._exit(0)
    os.close(tell)
    answered = select.select([told], [], [], seconds)[0]
    os.kill(asking, signal.SIGKILL)
    os.waitpid(asking, 0)
    return os.read(told, 100).decode() if answered else ""


answer = told_within(4) or "/CPU:2"


def where(tensor):
    return answer
""",
)
