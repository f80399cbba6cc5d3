"""The ring all-reduce as a schedule: who sends which piece to whom in each step; played out, and drawn.

    schedule = [[(0, 1, 0), (1, 0, 1)], ...]       # steps; in each, messages: sender, receiver, piece
    held = ring.play(schedule, 2)                  # who holds which tower's share of which piece, after each step
    ring.draw(schedule, 2)
    ring.walk(schedule, [[3, 1], [2, 5]])          # the same with numbers, step by step

In the first n - 1 steps the receiver adds a piece to its own; after that it replaces its own. All messages of a step cross
at once. Follows Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms" (2009).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from across._language import pictured
from across._language.catalogue import given, marked, said
from across.pictures import ALERT, FONT, INK, PALETTE, Picture, Stepper, new_figure, readable_on, render

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Message = tuple[int, int, int]  # sender, receiver, piece
Held = list[list[tuple[int, ...]]]  # of each device, of each piece: how often each tower's own is in it
SHOWN = 12  # steps in one picture


def play(schedule: Sequence[Sequence[Message]], n: int, adds: int | None = None) -> list[Held]:
    """What `n` devices hold before the first step and after each one: [step][device][piece][tower], counts.

    In the first `adds` steps, n - 1 of them by default, what comes is added; then it replaces. A piece is whole where each
    tower's own is in it once. Raises ValueError for a device or a piece that there is not.
    """
    adds = n - 1 if adds is None else adds
    held: Held = [[tuple(int(tower == device) for tower in range(n)) for _ in range(n)] for device in range(n)]
    found = [held]
    for step, messages in enumerate(schedule):
        after = [list(pieces) for pieces in held]
        for sender, receiver, piece in messages:
            if not all(0 <= number < n for number in (sender, receiver, piece)):
                raise ValueError(f"step {step}: {(sender, receiver, piece)}; devices and pieces are 0 to {n - 1}")
            came, own = held[sender][piece], after[receiver][piece]
            after[receiver][piece] = tuple(map(sum, zip(came, own, strict=True))) if step < adds else came
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
        axes.set_title(
            pictured.said("after step {0}", number - 1) if number else marked("before"),
            color=INK,
            fontsize=FONT,
            loc="left",
        )
        _board(axes, held, schedule[number - 1] if number else (), lambda shares: str(sum(shares)), FONT)
        if number % columns == 0:
            axes.set_ylabel(marked("device"), color=INK, fontsize=FONT - 2)
        whole = sum(all(s == 1 for s in shares) for pieces in held for shares in pieces)
        words.append(said("{0} of {1}", whole, n * n))
    figure.set_layout_engine("constrained")
    told = said(", ").join(words)
    alt = said(
        "Ring of {0} devices, {1}: whole pieces before the first step and after each: {2}.", n, given(title), told
    )
    return render(figure, alt)


def walk(
    schedule: Sequence[Sequence[Message]], rows: Sequence[Sequence[float]], *, adds: int | None = None, title: str
) -> Stepper:
    """Step through a schedule with numbers: `rows` has of each device its own, one a piece. `adds` as in `play`."""
    n = len(rows)
    states, found = play(schedule, n, adds), dict[str, Picture]()
    for number, held in enumerate(states):
        messages = schedule[number - 1] if number else ()
        sums = [[_sum(rows, piece, shares) for piece, shares in enumerate(pieces)] for pieces in held]
        figure = new_figure(5.0, 0.9 + 0.42 * n)
        axes = figure.add_subplot()
        axes.set_title(title, color=INK, fontsize=FONT + 1, fontweight="bold", loc="left")
        numbers = iter([each for pieces in sums for each in pieces])
        _board(axes, held, messages, lambda _shares, numbers=numbers: f"{next(numbers):g}", FONT + 2)
        axes.set_ylabel(marked("device"), color=INK, fontsize=FONT)
        figure.set_layout_engine("constrained")
        step, last, sent = number - 1, len(schedule) - 1, len(messages)
        words = (
            said("after step {0} of 0 to {1}: {2} pieces were sent, and added", step, last, sent)
            if number <= (n - 1 if adds is None else adds)
            else said(
                "after step {0} of 0 to {1}: {2} pieces were sent, and put in the place of their own", step, last, sent
            )
        )
        rest = said("; ").join(
            said("device {0} has {1}", i, ", ".join(f"{each:g}" for each in has)) for i, has in enumerate(sums)
        )
        came = said(", ").join(
            said("piece {0} from device {1} to {2}", piece, sender, receiver) for sender, receiver, piece in messages
        )
        found[words if number else said("before the first step")] = render(
            figure, said("{0}. {1}. {2}.", given(title), came or said("Before"), rest)
        )
    return Stepper(found, title)


def _sum(rows: Sequence[Sequence[float]], piece: int, shares: Sequence[int]) -> float:
    return float(sum(count * row[piece] for count, row in zip(shares, rows, strict=True)))


def _board(
    axes: Axes, held: Held, messages: Sequence[Message], text: Callable[[Sequence[int]], str], size: float
) -> None:
    """Draw what each device holds of each piece, with `text` in it, framed where a message has just come."""
    from matplotlib.patches import Rectangle

    n, moved = len(held), {(receiver, piece) for _, receiver, piece in messages}
    for device, pieces in enumerate(held):
        for piece, shares in enumerate(pieces):
            whole, twice = all(each == 1 for each in shares), max(shares) > 1
            fill = PALETTE[2] if whole else PALETTE[7] if twice else PALETTE[0] if sum(shares) > 1 else "#dddddd"
            edge, width = (ALERT, 1.8) if (device, piece) in moved else (INK, 0.6)
            style = {"facecolor": fill, "edgecolor": edge, "linewidth": width}
            axes.add_patch(Rectangle((piece + 0.06, device + 0.06), 0.88, 0.88, **style))
            shown, middle = f"{text(shares)}{'!' * twice}", (piece + 0.5, device + 0.5)
            axes.text(*middle, shown, ha="center", va="center", fontsize=size - 1, color=readable_on(fill))
    axes.set_xlim(0, n)
    axes.set_ylim(n, 0)
    axes.set_xticks([i + 0.5 for i in range(n)], [str(i) for i in range(n)])
    axes.set_yticks([i + 0.5 for i in range(n)], [str(i) for i in range(n)])
    axes.tick_params(colors=INK, labelsize=size - 2, length=0)
    axes.set_xlabel(marked("piece"), color=INK, fontsize=size - 2)
    for spine in axes.spines.values():
        spine.set_visible(False)
