"""nbgrader's gradebook, and our verdicts beside it."""
