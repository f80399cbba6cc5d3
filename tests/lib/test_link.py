"""A link between two processes is measured by what really arrives."""

from __future__ import annotations

from across import link


def test_every_size_is_sent_as_often_as_asked():
    found = link.measure([0, 1000, 3_000_000], repeats=3)
    assert {size: len(seconds) for size, seconds in found.items()} == {0: 3, 1000: 3, 3_000_000: 3}


def test_a_transfer_takes_time():
    assert min(link.measure([1000], repeats=2)[1000]) > 0
