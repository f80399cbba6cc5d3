"""Grade the same class in several ways, in turns, on this machine: the same as `autograder bench`.

uv run python benchmarks/grade_class.py --students 8 --repeats 1
"""

import sys

from autograder.commands import verbs

if __name__ == "__main__":
    verbs.app(["bench", *sys.argv[1:]])
