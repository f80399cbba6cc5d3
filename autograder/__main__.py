"""python -m autograder: the command."""

from autograder.commands.cli import main

main()
