"""A course as a value: where it lies, what its `course.toml` says of it, and its chapters as they are released.

    course = find()                     # of the working folder or one above it, else this checkout
    course = Course.read(folder)
    course.chapter("03_device_placement")

Whoever needs something of a course is given it: nothing here remembers one.
"""

from __future__ import annotations

import ast
import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from across._process.global_names import parsed
from autograder.model import headers, pictures, stubs
from autograder.model.limits import CAPS, STEP, CheckerCaps, CourseError, Limits, checked, near

FILE = "course.toml"
KERNELS_OWN = ("run", "connection.json")  # that lie in a kernel's working folder already


@dataclass(frozen=True)
class Exercise:
    """One graded cell of a chapter."""

    name: str  # "round_robin"
    grade_id: str  # of the graded cell: "check_round_robin"; a manual exercise is its own graded cell
    answer_ids: tuple[str, ...]  # grade ids of the student's cells that it looks at
    max_points: float
    # marked by hand; without answers it is nbgrader's task: whatever the student has added is its answer
    manual: bool = False


@dataclass(frozen=True)
class Chapter:
    """A chapter as released: what students open, what is worth points in it, and what its header says of grading it."""

    name: str
    title: str
    release: dict[str, Any] = field(repr=False)  # notebooks/NAME.ipynb: nbformat 4 JSON, without its prose's pictures
    exercises: tuple[Exercise, ...]
    limits: Limits
    gpus: int = 0  # GPUs that a submission has when it is graded; 0: none, whatever is in the machine
    simulated: bool = False  # these are made of host memory, in this run; else cards are leased
    checker: CheckerCaps = CAPS
    allowed_ops: tuple[str, ...] = ()  # that its graphs may hold besides those of `probe.graphs`
    due: str = ""  # ISO 8601, in UTC; empty: never
    course: str = "course"  # the course's id
    checks: str = ""  # the file of its checks, from the course's folder: to tell its author
    step: float = STEP  # points: parts of an exercise are rounded down to a multiple of it; 0: they are not rounded
    follow_through: float | None = None  # see `job.carried`; None: no answer is asked again on top of the reference's
    assignment: str = ""  # nbgrader's name of what it was imported from, and of the notebook in it; empty if it was not
    notebook: str = ""
    # that lie beside it, for students and kernels: path, content
    files: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)
    # what notebooks of other languages say in its place
    english: stubs.English = field(default_factory=dict, repr=False)

    @property
    def cards(self) -> int:
        """How many cards are leased for a submission in this run."""
        return 0 if self.simulated else self.gpus

    @property
    def answers(self) -> dict[str, str]:
        """The student's cells as released: grade id -> stub."""
        return {
            meta["grade_id"]: text(cell)
            for cell in self.release["cells"]
            if (meta := cell["metadata"].get("nbgrader", {})).get("solution")
        }

    @property
    def handed_in_as(self) -> tuple[tuple[str, str], ...]:
        """A student's folders and files that may be of this chapter: ours, then those of the nbgrader course it came from."""
        ours = (self.name, f"{self.name}.ipynb")
        theirs = (self.assignment, f"{self.notebook}.ipynb")
        return (ours, theirs) if self.assignment and theirs != ours else (ours,)

    @property
    def folders(self) -> tuple[str, ...]:
        """The names of a student's folder of it."""
        return tuple(folder for folder, _ in self.handed_in_as)

    @property
    def max_points(self) -> float:
        """What the whole chapter is worth."""
        return sum(exercise.max_points for exercise in self.exercises)


@dataclass(frozen=True)
class Course:
    """What `course.toml` says, and the folder that it lies in."""

    root: Path  # absolute
    id: str
    title: str
    chapters: tuple[str, ...]  # names, in order
    checks: str = "checks"  # the folder of the trusted checks, from `root`
    preload: tuple[str, ...] = ()  # modules that warm servers import before they fork kernels and checkers
    needs: tuple[tuple[str, tuple[str, ...]], ...] = ()  # the chapters that each builds on
    step: float = STEP  # see `Chapter.step`
    published: str = ""  # where released folders are pushed to: see `model.address`; empty: nobody has said
    follow_through: float | None = None  # of chapters whose header says nothing of it

    @classmethod
    def read(cls, folder: Path) -> Course:
        """The course whose `course.toml` lies in `folder`. Raises CourseError."""
        path = folder.absolute() / FILE
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise CourseError(
                f'{path}: there is none; write one, with id = "..." and title = "...": docs/adding-a-course.md'
            ) from None
        except (OSError, ValueError) as error:
            raise CourseError(f"{path}: cannot be read: {error}") from None
        found = headers.course_file(str(path), values)
        for name in found.chapters:
            if not headers.NUMBERED.match(name) and not (path.parent / "solutions" / f"{name}.ipynb").is_file():
                raise CourseError(
                    f'{path}: chapters: {name!r}; write names in order, as in chapters = ["01_pipes"]; a chapter that was '
                    "imported is called like its notebook in solutions/"
                )
        sources = (each.stem for each in (path.parent / "solutions").glob("[0-9][0-9]_*.py"))
        names = found.chapters or tuple(sorted(sources))
        _needs(path, found.needs, names)
        return cls(
            root=path.parent,
            **{name: getattr(found, name) for name in "id title checks preload step published follow_through".split()},
            chapters=names,
            needs=tuple(found.needs.items()),
        )

    def dumps(self) -> str:
        """Itself as text, to be told to another process."""
        return msgspec.json.encode(self, enc_hook=str).decode()

    @classmethod
    def loads(cls, text: str) -> Course:
        """What `dumps` wrote."""
        return msgspec.json.decode(text, type=cls, dec_hook=lambda kind, value: kind(value))

    def place(self, name: str) -> dict[str, list[str]]:
        """What a chapter's notebook says of its place in the course, for the start page: the chapters that it needs."""
        needs = dict(self.needs).get(name)
        return {headers.NEEDS: list(needs)} if needs else {}

    @property
    def file(self) -> Path:
        """Its `course.toml`."""
        return self.root / FILE

    def source(self, name: str) -> Path:
        """The one source of a chapter: ours, or the notebook that it was imported as."""
        imported = self.root / "solutions" / f"{name}.ipynb"
        return imported if imported.is_file() else self.root / "solutions" / f"{name}.py"

    def notebook(self, name: str) -> Path:
        """The chapter as it is released, built from its source."""
        return self.root / "notebooks" / f"{name}.ipynb"

    def files(self, name: str) -> Path:
        """The folder of the files that lie beside a chapter's notebook, if it has any."""
        return self.root / "files" / name

    def beside(self, name: str) -> tuple[tuple[str, bytes], ...]:
        """Their paths, as seen from the notebook, and their contents. Raises CourseError."""
        return _files(self.files(name))

    def check_file(self, name: str) -> Path:
        """The trusted checks of a chapter."""
        return self.root / self.checks / f"test_{name}.py"

    def listed_file(self, name: str) -> Path:
        """The answers to a chapter that its author knows of, if there is such a file: see `probe.listed`."""
        return self.root / self.checks / f"listed_{name}.toml"

    def check_sources(self, name: str) -> list[Path]:
        """The files that a chapter's checks are made of: its own, the answers that it lists, what it imports by name.

        Of an imported chapter the source, too: its test cells are in it.

        A file that is missing or is no Python is listed, too, and imports nothing: whoever needs it says so.
        """
        folder = self.check_file(name).parent
        found, fresh = {}, [self.check_file(name)]
        while fresh:
            path = fresh.pop()
            if path in found:
                continue
            found[path] = None
            fresh += [folder / f"{module}.py" for module in _imported(path) if (folder / f"{module}.py").is_file()]
        own, *others = found
        listed = self.listed_file(name)
        source = self.source(name)
        more = [path for path in (listed, source) if path.is_file() and path.suffix != ".py"]
        return [own, *more, *sorted(others)]

    @property
    def private(self) -> tuple[str, ...]:
        """The folders that no student's code may see: the course's own, and one by one what lies in it."""
        names = ("solutions", self.checks, "files", "tests", "docs", ".git")
        return (str(self.root), *(str(self.root / name) for name in names))

    def full_name(self, name: str) -> str:
        """The one chapter that `name` means: `03_device_placement`, `device_placement` or `03`. Raises CourseError."""
        found = meant(name, self.chapters)
        if len(found) != 1:
            raise CourseError(f"no chapter {Path(name).stem!r}; there are: {', '.join(self.chapters) or 'none'}")
        return found[0]

    def chapter(self, name: str) -> Chapter:
        """Read a chapter from its built notebook. Raises CourseError when it is missing or does not say what it must."""
        path = self.notebook(name)
        try:
            release = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise CourseError(f"{path}: {error}; run `autograder build`") from None
        for cell in release["cells"]:
            if cell["cell_type"] == "markdown" and (prose := pictures.without(text(cell))) != text(cell):
                cell["source"] = prose
        ours = release["metadata"].get("across", {})
        says = headers.header(str(path), {key: value for key, value in ours.items() if key not in headers.OURS})
        return Chapter(
            name=name,
            title=title(release) or name,
            release=release,
            exercises=exercises(name, release),
            limits=Limits(**checked(f"{path}: limits", says.limits, Limits)),
            checker=CheckerCaps(**checked(f"{path}: checker", says.checker, CheckerCaps)),
            allowed_ops=says.allowed_ops,
            gpus=says.gpus,
            due=headers.date(str(path), says.due) if says.due else "",
            course=self.id,
            checks=f"{self.checks}/{self.check_file(name).name}",
            step=self.step,
            follow_through=self.follow_through if says.follow_through is None else says.follow_through,
            assignment=ours.get("assignment", ""),
            notebook=ours.get("notebook", ""),
            files=self.beside(name),
            english=stubs.english(path.parent, name, release),
        )


def checkout() -> Path:
    """The folder that this package lies in: the checkout, with a course of its own, if it is one."""
    return Path(__file__).resolve().parents[2]


def find(folder: Path | None = None) -> Course:
    """The course in `folder`; else that of the working folder or one above it, else of this checkout.

    Its checks will be run with our rights: of what is merely found, only our own and root's are taken. Raises CourseError.
    """
    if folder is not None:
        return Course.read(folder)
    here = Path.cwd()
    for place in (here, *here.parents):
        if (place / FILE).is_file():
            if place.resolve() != checkout() and hasattr(os, "getuid"):
                owner = (place / FILE).stat().st_uid
                if owner not in (os.getuid(), 0):
                    raise CourseError(f"{place / FILE} belongs to another user; if you trust it: --course {place}")
            return Course.read(place)
    if (checkout() / FILE).is_file():
        return Course.read(checkout())
    raise CourseError(f"no {FILE} in {here} or above it; start in the course's folder, or add --course DIR")


def text(cell: Mapping[str, Any]) -> str:
    """The source of a notebook cell, which nbformat allows as a string or as a list of lines."""
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


def title(release: Mapping[str, Any]) -> str:
    """The first heading of a notebook."""
    for cell in release["cells"]:
        if cell["cell_type"] == "markdown" and text(cell).startswith("# "):
            return text(cell).splitlines()[0][2:].strip()
    return ""


def exercises(name: str, release: Mapping[str, Any]) -> tuple[Exercise, ...]:
    """The graded cells of a built notebook, in order (`autograder build` wrote their metadata)."""
    found = []
    for cell in release["cells"]:
        meta = cell["metadata"].get("nbgrader", {})
        task = bool(meta.get("task"))
        if not (meta.get("grade") or task):
            continue
        across = cell["metadata"].get("across", {})
        if "exercise" not in across:
            raise CourseError(f'{name}, cell "{meta.get("grade_id")}": no exercise named; run `autograder build`')
        manual = task or bool(meta.get("solution"))
        answers = () if task else (meta["grade_id"],) if manual else tuple(across["answers"])
        found.append(Exercise(across["exercise"], meta["grade_id"], answers, float(meta["points"]), manual))
    return tuple(found)


def students(cell: Mapping[str, Any]) -> bool:
    """Whether the source of an assembled notebook's cell is the student's: an answer, or a cell that they added."""
    meta = cell["metadata"]
    return bool(meta.get("nbgrader", {}).get("solution") or meta.get("across", {}).get("added"))


def _files(folder: Path) -> tuple[tuple[str, bytes], ...]:
    """The plain files below a folder; hidden ones and links are none."""
    found = []
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        name = path.relative_to(folder)
        if name.parts[0] in KERNELS_OWN:
            raise CourseError(f"{path}: a kernel has a {name.parts[0]} of its own; give it another name")
        if path.is_file() and not path.is_symlink() and not any(part[0] == "." for part in name.parts):
            found.append((name.as_posix(), path.read_bytes()))
    return tuple(found)


def meant(said: str, chapters: Iterable[str]) -> list[str]:
    """Which of these chapters `03_device_placement`, `device_placement`, `03` or `3` may be."""
    said = Path(said).stem
    return [
        full
        for full in chapters
        if said == full or (headers.NUMBERED.match(full) and said in (full[:2], full[:2].removeprefix("0"), full[3:]))
    ]


def _needs(path: Path, needs: Mapping[str, tuple[str, ...]], chapters: tuple[str, ...]) -> None:
    """Raise CourseError unless each chapter needs chapters that stand before it."""
    for name, before in needs.items():
        for each in (name, *before):
            if each not in chapters:
                raise CourseError(f"{path}: needs: there is no chapter {each!r}; {near(each, chapters)}")
        late = [each for each in before if chapters.index(each) >= chapters.index(name)]
        if late:
            raise CourseError(f"{path}: needs: {name} comes before {late[0]}, which it needs; change their order")


def _imported(path: Path) -> set[str]:
    """The last part of every name that a file imports: `placing` of `from placing import x`."""
    try:
        tree = parsed(path.read_bytes(), str(path))
    except (OSError, ValueError, SyntaxError):
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {node.module or "", *(alias.name for alias in node.names)}
    return {name.rpartition(".")[2] for name in names}
