"""Programs that name a GPU, run on simulated ones: what they print, beside what documents say that cards do.

The programs stand in gpu_programs.toml. Each is run in a process of its own with two GPUs of 2 GiB: cards or pieces of one
where there is one, else simulated ones. An exception is printed as its type and first line.

uv run python tools/gpu_programs.py            # run all; say what is not as it is written
uv run python tools/gpu_programs.py --write    # ... and write it, and docs/gpu_programs.md
"""

from __future__ import annotations

import linecache
import re
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from across import fresh

__all__ = ["GPUS", "PAGE", "Program", "page", "printed", "read"]

FILE = Path(__file__).with_suffix(".toml")
PAGE = FILE.parents[1] / "docs" / "gpu_programs.md"
GPUS, MEMORY = 2, "2 GiB"
CARD = "one NVIDIA H200, 2026-11-27"
SAME = re.compile(r"/job:localhost/replica:0/task:0")  # begins the name of every device of one process
WHERE = (
    "Graph execution error:",
    "Detected at node",
    "  File ",
    "    ",
    "<stack",
    "Node: ",
    "2 root error",
)  # an error of a graph begins so


@dataclass(frozen=True)
class Program:
    """One program, and what is known of it."""

    name: str  # what it shows
    source: str  # which document has it, or its like
    code: str  # reads tf, v1 (tf.compat.v1), np
    prints: str  # with simulated GPUs
    documents: str = ""  # what documents and recorded cards say; "" if just this
    differs: bool = False  # a card says something else
    card: str = ""  # what CARD said, where that differs
    cards: int = 0  # so many whole ones show it; 0: pieces of one do
    env: tuple[tuple[str, str], ...] = ()


def read() -> list[Program]:
    """All programs, in their order."""
    rows = tomllib.loads(FILE.read_text(encoding="utf-8"))["program"]
    return [Program(**{**row, "env": tuple(row.get("env", {}).items())}) for row in rows]


def printed(program: Program) -> str:
    """What it prints here, in a fresh process. Raises what ends that process."""
    outcome = fresh.call(_run, program.code, 1 if program.cards == 1 else GPUS, env=dict(program.env), timeout=120)
    outcome.result()
    return SAME.sub("", outcome.stdout).strip()


def _run(code: str, pieces: int) -> None:
    import numpy as np
    import tensorflow as tf

    from across import devices

    devices.gpus(pieces if tf.config.list_physical_devices("GPU") else GPUS, MEMORY)
    tf.get_logger().setLevel("ERROR")
    names: dict[str, Any] = {"tf": tf, "v1": tf.compat.v1, "np": np, "placed": _placed}
    linecache.cache["<program>"] = (len(code), None, code.splitlines(keepends=True), "<program>")  # AutoGraph reads it
    try:
        exec(compile(code, "<program>", "exec"), names)
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line and not line.startswith(WHERE)]
        print(f"{type(error).__name__}: {lines[0]}")


def _placed(fetches: Any, **config: Any) -> None:
    """Run `fetches` of the default graph in a session with `config`; print where each of its operations ran, by name."""
    import tensorflow as tf

    v1: Any = tf.compat.v1
    mine = {operation.name for operation in v1.get_default_graph().get_operations()}
    options = {"options": v1.RunOptions(output_partition_graphs=True), "run_metadata": v1.RunMetadata()}
    settings = v1.ConfigProto(**config)
    settings.graph_options.rewrite_options.disable_meta_optimizer = True
    settings.graph_options.optimizer_options.opt_level = v1.OptimizerOptions.L0
    with v1.Session(config=settings) as session:
        session.run(v1.global_variables_initializer())
        session.run(fetches, **options)
    nodes = [node for part in options["run_metadata"].partition_graphs for node in part.node if node.name in mine]
    for node in sorted(nodes, key=lambda node: node.name):
        print(f"{node.name}: {node.device.rpartition('device:')[2]}")


def page(programs: Sequence[Program]) -> str:
    """The table as a Markdown page."""
    two = sum(program.cards > 1 for program in programs)
    other = sum(program.differs and program.cards < 2 for program in programs)
    lines = [
        "# Programs on simulated GPUs",
        "",
        f"Written by `python tools/gpu_programs.py --write`. Each of these {len(programs)} programs was run in a process",
        f"of its own with {GPUS} simulated GPUs of {MEMORY} ([what they are](gpu.md#simulated-gpus)).",
        f"On a card ({CARD}; cut in two pieces where a program names two GPUs) {len(programs) - two - other} printed the same,",
        f"and {other} something else, as is said below them. {two} want two cards: not run on any. Where a document says",
        "something else than TensorFlow does, that is said, too.",
        "`placed` runs operations in a session of TensorFlow 1 and prints where each ran.",
    ]
    for source in dict.fromkeys(program.source for program in programs):
        lines += ["", f"## {source}"]
        for program in programs:
            if program.source == source:
                env = [f"{name}={value}" for name, value in program.env]
                lines += ["", f"### {program.name}{' (differs)' if program.differs else ''}", "", "```python"]
                lines += [
                    *(f"# {each}" for each in env),
                    program.code.strip(),
                    "```",
                    "```text",
                    program.prints.strip(),
                    "```",
                ]
                lines += ["", f"Documents: {program.documents}"] if program.documents else []
                lines += ["", f"On the card: `{program.card}`"] if program.card else []
                lines += ["", "Not run on two cards."] if program.cards > 1 else []
    return "\n".join(lines) + "\n"


def _written(program: Program, prints: str) -> str:
    """The program as it stands in the file."""
    lines = ["[[program]]", f"name = {_quoted(program.name)}", f"source = {_quoted(program.source)}"]
    lines += ["differs = true"] if program.differs else []
    lines += [f"cards = {program.cards}"] if program.cards else []
    lines += [f"card = {_quoted(program.card)}"] if program.card else []
    lines += (
        [f"env = {{{', '.join(f'{name} = {_quoted(value)}' for name, value in program.env)}}}"] if program.env else []
    )
    lines += [f"documents = {_quoted(program.documents)}"] if program.documents else []
    return "\n".join([*lines, f"code = '''\n{program.code.strip()}\n'''", f"prints = '''\n{prints}\n'''"]) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


if __name__ == "__main__":
    known, found = read(), []
    for each in known:
        found.append(printed(each))
        if found[-1] != each.prints.strip():
            print(f"{each.name}\n  written: {each.prints.strip()}\n  printed: {found[-1]}", flush=True)
    if "--write" in sys.argv[1:]:
        head = FILE.read_text(encoding="utf-8").partition("[[program]]")[0]
        FILE.write_text(head + "\n".join(map(_written, known, found)), encoding="utf-8")
        PAGE.write_text(page(read()), encoding="utf-8")
