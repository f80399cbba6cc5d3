"""Bytecode is kept: what is imported once is compiled once, for every later command, kernel and server."""

from __future__ import annotations

import os
import sys


def keep() -> None:
    """Have this process, and those that it starts, write down the bytecode of what they import, whatever the machine says.

    Images of Python for containers often set PYTHONDONTWRITEBYTECODE: TensorFlow's import then takes 6 s each time, not 2.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
