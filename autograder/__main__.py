"""python -m autograder: the command."""

from autograder.cli import main

main()
