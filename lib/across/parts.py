"""What each replica gets of each batch, drawn: a lane a replica, a square an example.

    parts.draw({"two replicas": [[5, 5]], "four replicas": [[3, 3, 3, 1]]}, title="A batch of 10")

Compare `tf.distribute.Strategy.experimental_distribute_dataset`, which deals them out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from across._language import pictured
from across._language.catalogue import given, marked, said
from across.pictures import FONT, INK, PALETTE, Picture, readable_on, render, sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FULL, FEWER = PALETTE[0], PALETTE[1]  # as many as the largest share of this batch, and fewer
SQUARE, GAP, SIDE, TOP = 0.2, 0.22, 0.95, 0.3  # inches: an example, between batches, a lane's name, a case's name
MOST = 32  # examples in a row of a picture


def draw(cases: Mapping[str, Sequence[Sequence[int]]], *, title: str = "") -> Picture:
    """Draw for each case its batches side by side, of each batch how many examples every replica has.

    A share that is smaller than the batch's largest has a colour and a hatch of its own; one without examples is said to be
    empty. All cases have squares of one size. Raises ValueError where there is nothing to draw, or too much for a page.
    """
    if not cases or not all(batches and all(batches) for batches in cases.values()):
        raise ValueError("parts.draw: no batches")
    widest = max(_width(batches) for batches in cases.values())
    if widest > SQUARE * MOST + GAP * 8:
        raise ValueError(f"parts.draw: more than {MOST} examples in a row")
    heights = [TOP + SQUARE * (len(batches[0]) + 0.4) for batches in cases.values()]
    figure, axes = sheet(SIDE + max(widest, 3.6) + 0.1, 0.3 + sum(heights) + 0.25)
    axes.text(0.06, 0.06, title, color=INK, fontsize=FONT + 1, fontweight="bold", va="top")
    y, words, kinds = 0.3, [], set()
    for (name, batches), tall in zip(cases.items(), heights, strict=True):
        axes.text(0.06, y + TOP / 2, name, color=INK, fontsize=FONT, va="center")
        kinds |= _case(axes, batches, y + TOP)
        shares = "; ".join(", ".join(map(str, batch)) for batch in batches)
        words.append(said("{0}: the replicas get {1}", given(name), shares))
        y += tall
    x = SIDE
    for kind, fill, hatch in ((marked("full share"), FULL, ""), (marked("fewer"), FEWER, "////")):
        if kind in kinds:
            _square(axes, x, y + 0.02, fill, hatch)
            axes.text(x + SQUARE * 1.3, y + 0.02 + SQUARE / 2, kind, color=INK, fontsize=FONT - 1, va="center")
            x += 1.1
    told = said(". ").join(words)
    return render(figure, said("{0}. Of each batch: {1}.", given(title), told) if title else said("{0}.", told))


def _case(axes: Axes, batches: Sequence[Sequence[int]], top: float) -> set[str]:
    """Draw the lanes of one case; which kinds of shares it has."""
    from matplotlib.patches import Rectangle

    kinds, across = set(), _width(batches)
    for replica in range(len(batches[0])):
        y = top + replica * SQUARE
        axes.add_patch(Rectangle((SIDE, y + 0.015), across, SQUARE - 0.03, fc=INK, ec="none", alpha=0.09))
        axes.text(
            SIDE - 0.08,
            y + SQUARE / 2,
            pictured.said("replica {0}", replica),
            color=INK,
            fontsize=FONT - 1,
            ha="right",
            va="center",
        )
    x, first = SIDE, 0
    for batch in batches:
        for replica, count in enumerate(batch):
            y = top + replica * SQUARE
            fewer = count < max(batch)
            kinds |= {"fewer" if fewer else "full share"} if count else set()
            for i in range(count):
                fill, hatch = (FEWER, "////") if fewer else (FULL, "")
                _square(axes, x + i * SQUARE, y, fill, hatch, str(first + i))
            if not count:
                axes.text(x + 0.04, y + SQUARE / 2, marked("empty"), color=INK, fontsize=FONT - 1.5, va="center")
            first += count
        x += SQUARE * max(max(batch), 2) + GAP
    return kinds


def _square(axes: Axes, x: float, y: float, fill: str, hatch: str, text: str = "") -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(
        Rectangle((x + 0.01, y + 0.01), SQUARE - 0.02, SQUARE - 0.02, fc=fill, ec="#ffffff55", lw=0.5, hatch=hatch)
    )
    ink = readable_on(fill)
    axes.text(x + SQUARE / 2, y + SQUARE / 2, text, color=ink, fontsize=FONT - 2.5, ha="center", va="center")


def _width(batches: Sequence[Sequence[int]]) -> float:
    return sum(SQUARE * max(max(batch), 2) + GAP for batch in batches) - GAP
