"""Answer cells that no interpreter could run: an author's slip, told before students meet it."""

from __future__ import annotations

import ast

from IPython.core.inputtransformer2 import TransformerManager


def slips(where: str, reference: str, stub: str) -> list[str]:
    """A line for the reference and for the stub of an answer cell where they are no Python; magics are."""
    found = []
    for source, what in ((reference, "the reference"), (stub, "the stub")):
        try:
            ast.parse(TransformerManager().transform_cell(source))
        except SyntaxError as error:
            found.append(f"{where}: {what} is no Python: {error.msg}, line {error.lineno} of that cell")
    return found
