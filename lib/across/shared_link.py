"""A link with a bandwidth, simulated: transfers that are under way at the same time share its rate.

    link = SharedLink(25e6)                    # bytes a second
    link.send(1_000_000)                       # returns after 40 ms; later if others send meanwhile

Nothing is sent. A transfer takes the time that a fair link would take: n of them under way get 1/n of the rate each
(processor sharing; Kleinrock, "Queueing Systems", volume 2, section 4.4).
"""

from __future__ import annotations

import threading
import time


class SharedLink:
    """One link for the threads of a process."""

    def __init__(self, bytes_per_second: float) -> None:
        self.bytes_per_second = bytes_per_second
        self._changed = threading.Condition()
        self._left: dict[int, float] = {}  # bytes that each transfer under way still has to move
        self._settled = 0.0  # until when that is accounted for
        self._number = 0

    def send(self, size: float) -> None:
        """Wait until `size` bytes have moved. Any number of threads may send at the same time."""
        with self._changed:
            self._settle()
            self._number += 1
            number = self._number
            self._left[number] = float(size)
            self._changed.notify_all()
            while self._left[number] > 0:
                self._changed.wait(self._left[number] * len(self._left) / self.bytes_per_second)
                self._settle()
            del self._left[number]
            self._changed.notify_all()

    def _settle(self) -> None:
        now = time.monotonic()
        if moving := [number for number, left in self._left.items() if left > 0]:
            moved = (now - self._settled) * self.bytes_per_second / len(moving)
            for number in moving:
                self._left[number] = max(0.0, self._left[number] - moved)
        self._settled = now
