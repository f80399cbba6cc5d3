"""Write every generated file anew that takes seconds: versions, notebooks, catalogues, docs/coverage.md, docs/crosswalk.md.

    uv run python tools/refresh.py

What takes minutes says so of itself: docs/checks.md (`autograder verify`), the attacks' table (`tools/attacks.py --write`), the
golden book (`tools/golden.py --write`), the pictures that chapters begin with (`tools/openings.py`).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STEPS = (
    ("tools/version.py",),
    ("-m", "autograder", "build"),
    ("tools/translate.py",),
    ("tools/coverage.py",),
    ("tools/crosswalk.py",),
)

if __name__ == "__main__":
    sys.exit(max(subprocess.run([sys.executable, *step], cwd=ROOT, check=False).returncode for step in STEPS))
