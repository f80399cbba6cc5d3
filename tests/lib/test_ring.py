"""A schedule is played as it stands: messages of a step cross at once, and what is wrong with it can be seen."""

from __future__ import annotations

import pytest

from across import ring


def schedule(n: int) -> list[list[tuple[int, int, int]]]:
    return [[(i, (i + 1) % n, (i - step) % n) for i in range(n)] for step in range(2 * (n - 1))]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
def test_after_the_ring_every_piece_is_whole_everywhere(n):
    held = ring.play(schedule(n), n)
    assert len(held) == 2 * (n - 1) + 1
    assert all(shares == (1,) * n for pieces in held[-1] for shares in pieces)
    whole = [[shares == (1,) * n for shares in pieces] for pieces in held[n - 1]]
    assert all(sum(column) == 1 for column in zip(*whole, strict=True)) or n == 1


def test_messages_of_one_step_cross_at_once_and_a_share_that_comes_twice_is_counted_twice():
    assert ring.play([[(0, 1, 0), (1, 0, 0)]], 2)[1] == [[(1, 1), (1, 0)], [(1, 1), (0, 1)]]
    assert ring.play([[(0, 1, 0)], [(0, 1, 0)]], 3)[2][1][0] == (2, 1, 0)
    with pytest.raises(ValueError, match="step 1"):  # of a device that there is not
        ring.play([[(0, 1, 0)], [(1, 2, 0)]], 2)


def test_the_picture_says_how_many_pieces_are_whole():
    drawn = ring.draw(schedule(3), 3, title="three")
    assert "0 of 9, 0 of 9, 3 of 9, 6 of 9, 9 of 9" in drawn.alt
    assert ring.draw([], 2).alt.endswith("0 of 4.")


def test_a_walk_tells_the_numbers_of_each_step_and_ends_with_the_sums():
    rows = [[1, 2, 3], [10, 20, 30], [100, 200, 300]]
    walked = ring.walk(schedule(3), rows, title="three")
    words, pictures = zip(*walked.steps.items(), strict=True)
    assert len(walked.steps) == 5
    assert words[0] == "before the first step"
    assert words[1] == "after step 0 of 0 to 3: 3 pieces were sent, and added"
    assert words[3].endswith("and put in the place of their own")
    assert "device 1 has 11, 20, 30" in pictures[1].alt
    assert all(f"device {i} has 111, 222, 333" in pictures[-1].alt for i in range(3))


def test_a_walk_by_the_middle_adds_in_its_first_step_alone():
    middle = [[(1, 0, 0), (1, 0, 1)], [(0, 1, 0), (0, 1, 1)]]
    walked = ring.walk(middle, [[1, 2], [10, 20]], adds=1, title="middle")
    assert "device 0 has 11, 22; device 1 has 11, 22" in list(walked.steps.values())[-1].alt
