"""A simulated link: nothing arrives early, and who sends alone is sooner done."""

from __future__ import annotations

import threading
import time

from across.shared_link import SharedLink


def seconds(link: SharedLink, sizes: list[float]) -> list[float]:
    """How long each transfer took, all begun together."""
    took: list[float] = [0.0] * len(sizes)
    gate = threading.Barrier(len(sizes))

    def send(i: int) -> None:
        gate.wait(10)
        begin = time.monotonic()
        link.send(sizes[i])
        took[i] = time.monotonic() - begin

    threads = [threading.Thread(target=send, args=(i,), daemon=True) for i in range(len(sizes))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    return took


def test_a_transfer_alone_takes_its_bytes_over_the_rate():
    assert min(seconds(SharedLink(100.0), [5.0])) >= 0.05 - 1e-3


def test_the_link_moves_no_more_than_its_rate():
    link = SharedLink(100.0)
    begin = time.monotonic()
    seconds(link, [2.0, 2.0, 2.0])
    assert time.monotonic() - begin >= 0.06 - 1e-3
