"""How much there is of everything: lines, words, distributions, public names.

uv run python tools/count.py
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
WRITTEN = "\nWritten by `"  # near the top of a page that is generated
GENERATED = re.compile(r"<!-- \w+: generated .*?<!-- \w+: end -->", re.DOTALL)  # in a page that is not


def lines(paths: Iterable[Path]) -> int:
    """Of these files together."""
    return sum(path.read_text(encoding="utf-8").count("\n") for path in paths)


def python(*folders: str) -> list[Path]:
    """The Python files below folders of the repository."""
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def words(paths: Iterable[Path]) -> tuple[int, int]:
    """Of these pages: written by hand, and generated."""
    by_hand = generated = 0
    for path in paths:
        text = path.read_text(encoding="utf-8")
        rest = "" if WRITTEN in text[:2000] else GENERATED.sub("", text)
        by_hand += len(rest.split())
        generated += len(text.split()) - len(rest.split())
    return by_hand, generated


def installed(*options: str) -> int:
    """The distributions that `uv sync` with these options installs on this machine, by the lock."""
    command = [
        "uv",
        "export",
        "--frozen",
        "--offline",
        "--quiet",
        "--no-hashes",
        "--no-annotate",
        "--no-header",
        *options,
    ]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    asked = [Requirement(line) for line in done.stdout.splitlines() if not line.startswith("-e ")]
    return sum(each.marker is None or each.marker.evaluate() for each in asked) + done.stdout.count("-e ")


def promised(tree: ast.Module) -> list[str] | None:
    """The names of a module's `__all__`; None where it has none."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    return None


def public(tree: ast.Module) -> Iterator[str]:
    """The names that a module itself binds at its top, without those that begin with an underscore."""
    for node in tree.body:
        names = [node.name] if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else []
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        names += [name.id for each in targets for name in ast.walk(each) if isinstance(name, ast.Name)]
        yield from (name for name in names if not name.startswith("_"))


def main() -> None:
    """Print the table."""
    library, harness = python("lib/across"), python("autograder")
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (*library, *harness)]
    lists = [promised(tree) for tree in trees]
    bare = [tree for tree, names in zip(trees, lists, strict=True) if names is None]
    by_hand, generated = words((ROOT / "docs").glob("*.md"))
    made = Table("what", "how many")
    made.columns[1].justify = "right"
    for what, count in {
        "product lines: lib/across": lines(library),
        "product lines: autograder": lines(harness),
        "product lines: checks": lines(python("checks")),
        "lines of solutions/": lines((ROOT / "solutions").glob("*.py")),
        "lines of listed answers": lines((ROOT / "checks").glob("listed_*.toml")),
        "lines of tools/": lines(python("tools")),
        "lines of tests/": lines((ROOT / "tests").rglob("*.py")),
        "words of docs/, by hand": by_hand,
        "words of README and CONTRIBUTING": words(ROOT / name for name in ("README.md", "CONTRIBUTING.md"))[0],
        "words of docs/, generated": generated,
        "distributions of the default install": installed(),
        "distributions of a student's": installed("--package", "across-tensorflow", "--no-dev"),
        "names in an __all__ (lib, autograder)": sum(len(names) for names in lists if names is not None),
        "public names of modules without one": sum(len(set(public(tree))) for tree in bare),
        "modules without one": len(bare),
    }.items():
        made.add_row(what, f"{count:,}")
    Console().print(made)


if __name__ == "__main__":
    main()
