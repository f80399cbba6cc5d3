"""Across: the library behind the notebooks. It shows where TensorFlow runs things, and draws it.

Importing this package is cheap: it does not import TensorFlow. It only arranges that TensorFlow's own import, whenever
it comes, does not print its start-up log into the reader's notebook (see `across._process.quiet`).
"""

from across._process import quiet

quiet.install()
