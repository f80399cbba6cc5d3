"""Grade the same class in several ways, in turns, on this machine: the same as `autograder bench`.

uv run python benchmarks/grade_class.py --students 8 --repeats 1
"""

import sys

from autograder.commands import cli

if __name__ == "__main__":
    sys.argv[1:1] = ["bench"]
    cli.main()
