"""The layers between a program and a GPU, each with what of it is on a machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from across._language import pictured
from across._language.catalogue import given, marked, said
from across.diagnosis import Facts

if TYPE_CHECKING:
    from across.pictures import Picture


@dataclass(frozen=True)
class Layer:
    """One layer: what it is for, and what was found of it; `there` tells whether that is enough."""

    name: str
    job: str
    found: str
    there: bool


def layers(facts: Facts) -> list[Layer]:
    """The layers from the program down to the GPU, as `facts` found them."""
    import tensorflow as tf

    cuda = pictured.said("built for CUDA {0}", facts.cuda) if facts.cuda else pictured.said("built without CUDA")
    return [
        Layer(marked("your program"), "tf.matmul(a, b)", marked("runs"), True),
        Layer("TensorFlow", marked("picks code for an op"), f"{tf.__version__}, {cuda}", bool(facts.cuda)),
        _library("cuDNN, cuBLAS", marked("convolutions, matrix products"), ("cudnn", "cublas"), facts),
        _library("CUDA runtime", marked("starts work, moves memory"), ("cuda-runtime",), facts),
        Layer(
            marked("driver"),
            marked("speaks to the GPU"),
            facts.driver or marked("none"),
            bool(facts.driver or facts.libcuda),
        ),
        Layer("GPU", marked("computes"), f"{facts.cards or facts.open or 'none'}", bool(facts.cards or facts.open)),
    ]


def draw(facts: Facts, *, title: str = marked("What is here, layer by layer")) -> Picture:
    """Draw the layers of a machine: filled where there is what is wanted, dashed where not."""
    from across.pictures import FONT, INK, PALETTE, readable_on, render, sheet

    shown = layers(facts)
    figure, axes = sheet(7.5, 0.5 * len(shown) + 0.45)
    axes.text(0.1, 0.22, title, color=INK, fontsize=FONT + 1, fontweight="bold", va="center")
    for row, layer in enumerate(shown):
        y = 0.65 + 0.5 * row
        fill = PALETTE[0] if layer.there else "none"
        ink = readable_on(fill) if layer.there else INK
        style = "-" if layer.there else "--"
        axes.barh(y, 3.6, left=0.15, height=0.42, color=fill, edgecolor=INK, linestyle=style, linewidth=1.0)
        axes.text(0.3, y, layer.name, color=ink, fontsize=FONT, fontweight="bold", va="center")
        axes.text(1.55, y, layer.job, color=ink, fontsize=FONT - 0.5, va="center")
        axes.text(3.95, y, layer.found, color=INK, fontsize=FONT, va="center")
    told = [
        said("{0}: {1}", given(layer.name), given(layer.found)) + ("" if layer.there else said(" (missing)"))
        for layer in shown
    ]
    return render(figure, said("Six layers, {0}. {1}.", given(title), said("; ").join(told)))


def _library(name: str, job: str, stems: tuple[str, ...], facts: Facts) -> Layer:
    """A layer of CUDA packages; one that is not unmet is there, whatever its number."""
    missing = [stem for stem in stems if any(stem in package for package in facts.unmet)]
    found = pictured.said("no package for {0} here", ", ".join(missing)) if missing else marked("installed")
    return Layer(name, job, found, not missing)
