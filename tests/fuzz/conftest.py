"""The small chapter of tests/autograder is the fuzz tests' too."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "autograder"))
