"""A student's code and the machine's cards: without a lease it reaches none, and what it leaves behind holds none.

Only a machine with NVIDIA cards can show this. On others these tests say so and skip.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys

import pytest

from autograder.sandbox import boxes, entering

pytestmark = pytest.mark.gpu

CAPS = boxes.Caps(memory=8 << 30, pids=512, file=4 << 20, tmp=8 << 20, cpu_seconds=120)
ON_A_CARD = """
import ctypes
from autograder.sandbox import seccomp
ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
seccomp.install(seccomp.program())
import tensorflow as tf
with tf.device("/GPU:0"):
    product = tf.linalg.matmul(tf.ones([64, 64]), tf.ones([64, 64]))
print(product.backing_device, float(product[0, 0]))
"""


@pytest.fixture(autouse=True)
def cards() -> None:
    """Skip where there is no card."""
    if shutil.which("nvidia-smi") is None or used() == []:
        pytest.skip("no NVIDIA card on this machine: not shown here that squatting on one is stopped")


def used() -> list[int]:
    """MiB in use on each card."""
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return [int(line) for line in said.stdout.split()] if said.returncode == 0 else []


def squat() -> list[object]:
    """What a student would do: find the card's files, start CUDA, take nine tenths of a card."""
    files = [name for name in os.listdir("/dev") if name.startswith("nvidia")]
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return [files, "no libcuda", 0]
    started = cuda.cuInit(0)
    device, context, free, total, place = (ctypes.c_int(), ctypes.c_void_p(), *(ctypes.c_size_t() for _ in range(3)))
    cuda.cuDeviceGet(ctypes.byref(device), 0)
    cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device)
    cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    cuda.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(free.value * 9 // 10))
    return [files, "started" if started == 0 else "refused", place.value]


@pytest.mark.skipif(bool(boxes.problem()), reason=boxes.problem())
def test_without_a_lease_no_card_is_in_reach_and_none_stays_taken():
    before, (read, write) = used(), os.pipe()
    with boxes.Box(f"squat-{os.getpid()}", CAPS) as box:
        child = os.fork()
        if child == 0:
            try:
                entering.enter(box.request())
                os.write(write, json.dumps(squat()).encode())
            finally:
                os._exit(0)
        os.close(write)
        with open(read) as answer:
            files, cuda, place = json.loads(answer.read())
        os.waitpid(child, 0)
    assert (files, place) == ([], 0)
    assert cuda in ("refused", "no libcuda")
    assert all(after <= mib + 64 for mib, after in zip(before, used(), strict=True))


def test_the_filter_of_system_calls_lets_a_card_compute():
    said = subprocess.run([sys.executable, "-c", ON_A_CARD], capture_output=True, text=True, timeout=300, check=True)
    device, value = said.stdout.split()
    assert "GPU:0" in device
    assert float(value) == 64.0
