"""What became of the names of TensorFlow that a course's sources use, and where a chapter runs each of them.

The names stand in the course's docs/crosswalk.toml, with what became of each; a name runs where a cell's code has it, as
`tf.X`, `v1.X` or `tf.compat.v1.X`. A link leads to that cell of the released notebook, as JupyterLab opens it; or to a
file that lies beside a chapter. For a name that no cell has the page shows a program, or says why nothing here can run it.

uv run python tools/crosswalk.py       # writes docs/crosswalk.md
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from autograder.authoring import build
from autograder.model.course import Course, CourseError, find, text

BECAME = {
    "same": "still `tf.{0}`",
    "v1": "`tf.compat.v1.{0}` only",
    "gone": "gone",
}
PLACES = 3  # at most so many chapters in a row
ROOTS = ("tf.compat.v1.", "v1.", "tf.")
OWN = re.compile(r'^# /// script\n(?:#.*\n)*?# dependencies = .*"tensorflow(?:-cpu)?==([\w.]+)"', re.MULTILINE)
BELOW = "Run by no chapter"
ANCHOR = BELOW.lower().replace(" ", "-")


@dataclass(frozen=True)
class Name:
    """One name of the sources, without its "tf."."""

    name: str
    became: str  # a key of BECAME
    now: str = ""  # with its "tf."
    note: str = ""
    member: bool = False  # a cell shows its last part only
    code: str = ""  # or this, as in "server.join"
    tried: str = ""  # a program with it, as no cell has it
    cannot: str = ""  # why nothing here runs it


@dataclass(frozen=True)
class Place:
    """A cell of a chapter, and the heading above it; or a file beside the chapter, and its name."""

    chapter: str
    heading: str
    cell: str = field(default="", compare=False)  # its id in the released notebook: the first one under that heading
    number: int = field(default=0, compare=False)  # of the cell, from the top
    file: str = ""  # from the course's folder
    tensorflow: str = ""  # that the file's header asks for: it runs in an environment of its own


def names(course: Course) -> list[Name]:
    """The names of docs/crosswalk.toml. Raises CourseError for a row that says something else."""
    path = course.root / "docs" / "crosswalk.toml"
    found = []
    for name, row in tomllib.loads(path.read_text(encoding="utf-8")).items():
        try:
            found.append(Name(name.removeprefix("tf."), **row))
        except TypeError as error:
            raise CourseError(f"{path}, {name}: {error}") from None
        if found[-1].became not in BECAME:
            raise CourseError(f"{path}, {name}: became {found[-1].became!r}; write one of {', '.join(BECAME)}")
    return found


def there_is(name: str, root: ModuleType) -> bool:
    """Whether `root.name` exists, where a field of a protocol buffer counts as an attribute."""
    found: Any = root
    for part in name.split("."):
        fields = getattr(getattr(found, "DESCRIPTOR", None), "fields_by_name", {})
        if part in fields:
            return True  # the last part: no source names a field of a field
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True


def became(name: str, tensorflow: ModuleType) -> str:
    """What the installed `tensorflow` says became of a name: a key of BECAME."""
    if there_is(name, tensorflow):
        return "same"
    return "v1" if there_is(name, tensorflow.compat.v1) else "gone"


def run(course: Course) -> dict[str, list[Place]]:
    """Where the chapters' code has each dotted name, TensorFlow's without root, and each attribute or argument, as ".name"."""
    found: dict[str, list[Place]] = {}
    for chapter in course.chapters:
        heading, solved = "", build.solution_source(course, chapter)
        for number, cell in enumerate(course.chapter(chapter).release["cells"]):
            source = solved.get(cell["metadata"].get("nbgrader", {}).get("grade_id", ""), text(cell))
            if cell["cell_type"] == "markdown":
                titles = [line.lstrip("# ") for line in source.splitlines() if line.startswith("#")]
                heading = titles[-1].partition(" (")[0] if titles else heading  # without an exercise's points
            elif cell["cell_type"] == "code":
                for name in set(_used(source)):
                    places, here = found.setdefault(name, []), Place(chapter, heading, cell["id"], number)
                    if here not in places:
                        places.append(here)
    return found


def beside(course: Course) -> dict[str, list[Place]]:
    """The same of the Python files that lie beside chapters."""
    found: dict[str, list[Place]] = {}
    for chapter in course.chapters:
        for path, content in course.beside(chapter):
            if path.endswith(".py"):
                source = content.decode("utf-8")
                own = OWN.search(source)
                place = Place(chapter, path, file=f"files/{chapter}/{path}", tensorflow=own[1] if own else "")
                for name in set(_used(source)):
                    found.setdefault(name, []).append(place)
    return found


def page(course: Course) -> str:
    """The crosswalk as a Markdown page."""
    ran, files, listed = run(course), beside(course), names(course)
    counts = ", ".join(f"{sum(each.became == kind for each in listed)} {kind}" for kind in BECAME)
    cannot = sum(bool(each.cannot) for each in listed)
    bare = [each for each in listed if not where(each, ran)]
    lines = [
        "# Crosswalk",
        "",
        "Every name of TensorFlow in the four sources of this course and in its list of rows, what became of it in TensorFlow",
        "2.21, and a link to the first cell of a chapter that runs it; JupyterLab opens it at the cell.",
        f"Written by `tools/crosswalk.py` from `docs/crosswalk.toml`: {counts}.",
        "",
        f"{len(bare)} names stand in no cell. Their rows link to a cell with the name of today, to a file that lies beside a",
        "chapter and runs in an environment of its own, with an older TensorFlow, or to a program at",
        f"[the end of this page](#{ANCHOR}). {cannot} cannot run here; their rows say why.",
        "",
        "| in the sources | what became of it | today | runs in |",
        "|---|---|---|---|",
    ]
    for each in listed:
        today = "; ".join(filter(None, [f"`{each.now}`" if each.now else "", each.note]))
        places = "; ".join(_runs_in(each, ran, files, listed))
        lines.append(f"| `tf.{each.name}` | {BECAME[each.became].format(each.name)} | {today} | {places} |")
    return "\n".join([*lines, "", *_programs(listed)]) + "\n"


def _runs_in(
    name: Name, ran: dict[str, list[Place]], files: dict[str, list[Place]], listed: list[Name]
) -> Iterator[str]:
    """All that the last column says of a name."""
    own = where(name, ran)
    if own:
        yield _shown(own)
    if (name.became == "gone" or not own) and (lying := where(name, files)):  # a cell can only show that it is gone
        yield _shown(lying)
    if not own and (later := _today(name, ran, listed)):
        yield f"today's: {_shown(later)}"
    if name.tried:
        yield f"[a program](#{ANCHOR})"
    if name.cannot:
        yield f"not here: {name.cannot}"


def _programs(listed: list[Name]) -> list[str]:
    """The section of the programs; they may be pasted as one."""
    tried = [each for each in listed if each.tried]
    lines = [
        f"## {BELOW}",
        "",
        "No cell has these names. Each program has one, or the name of today where it is gone, and a test runs it.",
        "",
        f"<details><summary>{len(tried)} programs</summary>",
        "",
        "```python",
        "import tensorflow as tf",
        "",
        "v1 = tf.compat.v1",
    ]
    for each in tried:
        gone = f", today {each.now}" if each.became == "gone" else ""
        lines += ["", f"# tf.{each.name}{gone}", each.tried.strip()]
    return [*lines, "```", "", "</details>"]


def where(name: Name, ran: dict[str, list[Place]]) -> list[Place]:
    """The first place in each chapter whose code has `name`, or a name in it."""
    key = name.code or ("." + name.name.rpartition(".")[2] if name.member else name.name)
    spots = [place for used, places in ran.items() if used == key or used.startswith(f"{key}.") for place in places]
    first: dict[str, Place] = {}
    for place in sorted(spots, key=lambda place: (place.chapter, place.number)):
        first.setdefault(place.chapter, place)
    return list(first.values())


def _today(name: Name, ran: dict[str, list[Place]], listed: list[Name]) -> list[Place]:
    """Where the name of today runs; how a cell shows it, its own row says if it has one."""
    now = name.now.removeprefix("tf.")
    return where(next((each for each in listed if each.name == now), Name(now, "same")), ran) if now else []


def _shown(places: list[Place]) -> str:
    more = f"; and {len(places) - PLACES} more" if len(places) > PLACES else ""
    return "; ".join(map(_link, places[:PLACES])) + more


def _link(place: Place) -> str:
    if place.file:
        own = f", in an environment of its own with TensorFlow {place.tensorflow}" if place.tensorflow else ""
        return f"[{place.chapter[:2]} {place.heading}](../{place.file}){own}"
    return f"[{place.chapter[:2]} {place.heading}](../notebooks/{place.chapter}.ipynb#cell-id={place.cell})"


def _used(source: str) -> Iterator[str]:
    """The dotted names in a cell, those of TensorFlow without their root, and attributes and keyword arguments as ".name"."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except SyntaxError:  # a cell with a command of IPython
        return
    for node in nodes:
        if isinstance(node, ast.keyword) and node.arg:
            yield f".{node.arg}"
        if isinstance(node, ast.Attribute):
            yield f".{node.attr}"
            if dotted := _dotted(node):
                yield dotted.removeprefix(next((root for root in ROOTS if dotted.startswith(root)), ""))


def _dotted(node: ast.expr) -> str:
    """`a.b.c`, also of `a.b().c`; empty if it is something else."""
    if isinstance(node, ast.Call):
        return _dotted(node.func)
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return before and f"{before}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


if __name__ == "__main__":
    here = find()
    path = here.root / "docs" / "crosswalk.md"
    path.write_text(page(here), encoding="utf-8")
    print(f"wrote {path}")
