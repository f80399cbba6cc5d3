"""What `across doctor --cluster` does: look, tell, and end with 1 where something was found."""

from __future__ import annotations

import os
from pathlib import Path

from rich.console import Console

from across._cluster_doctor import gathering, processes, report, rules

FOUND, NOTHING = 1, 0  # exit codes


def look(pid: int | None, folder: Path | None, json: bool) -> int:
    """Say why the cluster's job hangs, as seen from here; return the exit code. Raises gathering.NoCluster."""
    facts = gathering.gather(os.environ.get(processes.VARIABLE), pid, folder)
    found = rules.diagnose(facts)
    if json:
        import json as text

        print(text.dumps(report.as_json(facts, found), indent=2))
    else:
        Console().print(report.rendered(facts, found))
    return FOUND if found else NOTHING
