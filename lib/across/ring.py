"""The ring all-reduce as a schedule: who sends which piece to whom in each step; played out, and drawn.

    schedule = [[(0, 1, 0), (1, 0, 1)], ...]       # steps; in each, messages: sender, receiver, piece
    held = ring.play(schedule, 2)                  # who holds which tower's share of which piece, after each step
    ring.draw(schedule, 2)

In the first n - 1 steps the receiver adds a piece to its own; after that it replaces its own. All messages of a step cross
at once. Follows Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms" (2009).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from across.pictures import ALERT, FONT, INK, PALETTE, Picture, new_figure, readable_on, render

if TYPE_CHECKING:
    from matplotlib.patches import Rectangle

__all__ = ["draw", "play"]

Message = tuple[int, int, int]  # sender, receiver, piece
Held = list[list[tuple[int, ...]]]  # of each device, of each piece: how often each tower's own is in it
SHOWN = 12  # steps in one picture


def play(schedule: Sequence[Sequence[Message]], n: int) -> list[Held]:
    """What `n` devices hold before the first step and after each one: [step][device][piece][tower], counts.

    A piece is whole where each tower's own is in it once. Raises ValueError for a device or a piece that there is not.
    """
    held: Held = [[tuple(int(tower == device) for tower in range(n)) for _ in range(n)] for device in range(n)]
    found = [held]
    for step, messages in enumerate(schedule):
        after = [list(pieces) for pieces in held]
        for sender, receiver, piece in messages:
            if not all(0 <= number < n for number in (sender, receiver, piece)):
                raise ValueError(f"step {step}: {(sender, receiver, piece)}; devices and pieces are 0 to {n - 1}")
            came, own = held[sender][piece], after[receiver][piece]
            after[receiver][piece] = tuple(map(sum, zip(came, own, strict=True))) if step < n - 1 else came
        held = after
        found.append(held)
    return found


def draw(schedule: Sequence[Sequence[Message]], n: int, *, title: str = "") -> Picture:
    """Draw who holds what after each step: a row a device, a column a piece; the number says how many shares are in it.

    Whole pieces are green, those with a share more than once are marked by "!". Raises ValueError as `play` does.
    """
    states = play(schedule, n)[: SHOWN + 1]
    columns = min(len(states), 4)
    rows = -(-len(states) // columns)
    figure = new_figure(7.2, 0.5 + rows * (0.62 + 0.24 * n))
    figure.suptitle(title, color=INK, fontsize=FONT + 1, fontweight="bold", x=0.02, ha="left")
    words = []
    for number, held in enumerate(states):
        axes = figure.add_subplot(rows, columns, number + 1)
        moved = {(receiver, piece) for _, receiver, piece in schedule[number - 1]} if number else set()
        axes.set_title(f"after step {number - 1}" if number else "before", color=INK, fontsize=FONT, loc="left")
        for device, pieces in enumerate(held):
            for piece, shares in enumerate(pieces):
                whole, twice = all(each == 1 for each in shares), max(shares) > 1
                fill = PALETTE[2] if whole else PALETTE[7] if twice else PALETTE[0] if sum(shares) > 1 else "#dddddd"
                edge, width = (ALERT, 1.8) if (device, piece) in moved else (INK, 0.6)
                box = (piece + 0.06, device + 0.06)
                axes.add_patch(_square(box, fill, edge, width))
                text = f"{sum(shares)}{'!' * twice}"
                middle = (piece + 0.5, device + 0.5)
                axes.text(*middle, text, ha="center", va="center", fontsize=FONT - 1, color=readable_on(fill))
        axes.set_xlim(0, n)
        axes.set_ylim(n, 0)
        axes.set_xticks([i + 0.5 for i in range(n)], [str(i) for i in range(n)])
        axes.set_yticks([i + 0.5 for i in range(n)], [str(i) for i in range(n)])
        axes.tick_params(colors=INK, labelsize=FONT - 2, length=0)
        axes.set_xlabel("piece", color=INK, fontsize=FONT - 2)
        if number % columns == 0:
            axes.set_ylabel("device", color=INK, fontsize=FONT - 2)
        for spine in axes.spines.values():
            spine.set_visible(False)
        words.append(f"{sum(all(s == 1 for s in shares) for pieces in held for shares in pieces)} of {n * n}")
    figure.set_layout_engine("constrained")
    alt = f"Ring of {n} devices, {title}: whole pieces before the first step and after each: {', '.join(words)}."
    return render(figure, alt)


def _square(corner: tuple[float, float], fill: str, edge: str, width: float) -> Rectangle:
    from matplotlib.patches import Rectangle

    return Rectangle(corner, 0.88, 0.88, facecolor=fill, edgecolor=edge, linewidth=width)
