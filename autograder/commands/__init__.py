"""The command `autograder`."""
