"""Across: the library behind the notebooks. It shows where TensorFlow runs things, and draws it.

`__all__` names what serves programs of one's own; what else is here is part of a chapter. Importing this package is cheap: it
does not import TensorFlow. It only arranges that TensorFlow's own import, whenever it comes, does not print its start-up log
into the reader's notebook (see `across._process.quiet`).
"""

# pyright: reportUnsupportedDunderAll=false
# the names are modules, imported when they are asked for
from across._process import quiet

__all__ = [
    "clusters",
    "devices",
    "fresh",
    "gpu_traffic",
    "graphs",
    "kernels",
    "memory",
    "pictures",
    "placement",
    "study",
    "timeline",
    "traffic",
]

quiet.install()
