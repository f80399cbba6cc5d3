"""What `across doctor` says of this machine, asked once in a process of its own: TensorFlow takes seconds to look."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from across._language.catalogue import said

SECONDS = 120.0  # that it may take
SAID = "ACROSS_MACHINE"  # a file with what it said: where many servers are on one machine, one asks for all
COMMAND = (sys.executable, "-c", "from across.cli import main; main()", "doctor", "--json")

_asked: asyncio.Task[dict[str, Any]] | None = None


def shows(wanted: int, gpus: int, simulated: bool = False) -> str:
    """What a chapter that can use `wanted` devices shows with so many GPUs, which may be simulated ones."""
    if gpus >= wanted and simulated:
        return (
            said("runs on {0} simulated GPUs: placement, copies and errors are real, speed is not", wanted)
            if wanted > 1
            else said("runs on 1 simulated GPU: placement, copies and errors are real, speed is not")
        )
    if gpus >= wanted:
        return (
            said("runs on {0} GPUs: placement, copies and speed are real", wanted)
            if wanted > 1
            else said("runs on 1 GPU: placement, copies and speed are real")
        )
    if wanted > 1 and not gpus:
        return said("runs on {0} logical CPUs (no GPU): placement, copies and errors are real, speed is not", wanted)
    if wanted > 1:
        return (
            said("runs on {0} pieces of {1} GPUs, which share their speed: placement and errors are real", wanted, gpus)
            if gpus > 1
            else said("runs on {0} pieces of one GPU, which share its speed: placement and errors are real", wanted)
        )
    return said("runs on the CPU")


def known() -> dict[str, Any] | None:
    """What it says, {} if it said nothing; None while it looks, which the first call begins. Call in an event loop."""
    global _asked
    if _asked is None:
        _asked = asyncio.get_running_loop().create_task(facts())
    return _asked.result() if _asked.done() else None


async def facts(seconds: float = SECONDS) -> dict[str, Any]:
    """What it says, within so many seconds, or what $ACROSS_MACHINE holds of it; {} if it failed."""
    if file := os.environ.get(SAID):
        with contextlib.suppress(OSError, ValueError, TypeError):
            return dict(json.loads(Path(file).read_text(encoding="utf-8")))
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    try:
        ended = await asyncio.to_thread(
            subprocess.run, COMMAND, timeout=seconds, env=env, check=True, capture_output=True
        )
        return json.loads(ended.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
