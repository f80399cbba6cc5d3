"""The wheels, installed and used outside of any checkout: an empty HOME, and no variable but what uv needs to download.

    uv build --all-packages --out-dir dist
    python3 tools/outside.py dist --python 3.12

The library alone runs a program; with the grader's wheel a course is made and graded; `uvx` grades students of the demo's
class in a folder that holds the course's content and nothing else. Needs Python, uv and bubblewrap. Says what each took.
"""

from __future__ import annotations

import argparse
import csv
import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COURSE = ("course.toml", "solutions", "notebooks", "files", "checks")  # all that grading needs of this course
KEPT = ("PATH", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR")  # and every UV_...: where a machine's packages come from
PROGRAM = """\
import importlib
import importlib.util

import across
from across import fresh

for name in across.__all__:
    importlib.import_module(f"across.{name}")
assert not [name for name in ("autograder", "jupyterlab", "nbgrader") if importlib.util.find_spec(name)]


def counted():
    import tensorflow as tf

    return len(tf.config.list_logical_devices("CPU"))


if __name__ == "__main__":
    assert fresh.call(counted, cpus=3, timeout=300).result() == 3  # nothing of TensorFlow is compiled yet
    print(across.__file__)
"""
DEMO = """\
import sys
from pathlib import Path

sys.path.append(sys.argv[1])
import demo
from autograder.model.course import find

demo.make(find(), Path("submitted"))
"""
WHO = {"ada": True, "alan": True, "bela": False}  # of the demo's class: whether all that is marked by checks is right


@dataclass(frozen=True)
class Outside:
    """A folder that is nobody's checkout, with a HOME in it."""

    place: Path
    dist: Path
    python: str

    def run(self, what: str, *words: str | Path, cwd: str = ".") -> str:
        """Run a command there, say what it took, and return what it printed. Ends the program where it fails."""
        kept = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith("UV_")}
        for name in ("UV_PYTHON", "UV_PROJECT_ENVIRONMENT"):
            kept.pop(name, None)
        env = kept | {"HOME": str(self.place / "home")}
        (self.place / "home").mkdir(exist_ok=True)
        begun = time.monotonic()
        command = [str(word) for word in words]
        done = subprocess.run(command, cwd=self.place / cwd, env=env, capture_output=True, text=True, check=False)
        print(f"{time.monotonic() - begun:7.1f} s  {what}", flush=True)
        if done.returncode:
            raise SystemExit(
                f"{' '.join(command)}\nended with {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
            )
        return done.stdout

    def wheel(self, name: str) -> Path:
        """The one wheel of a distribution."""
        (found,) = self.dist.glob(f"{name}-*.whl")
        return found

    def environment(self, name: str, what: str, *wheels: Path) -> Path:
        """A new environment with these wheels; the folder of its programs."""
        self.run(f"an environment, Python {self.python}", "uv", "venv", "--python", self.python, name)
        programs = self.place / name / "bin"
        self.run(f"{what}, downloads included", "uv", "pip", "install", "--python", programs / "python", *wheels)
        return programs


def marks(path: Path) -> list[dict[str, str]]:
    """The rows of a class's marks.csv."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def library(outside: Outside) -> None:
    """Install the library's wheel alone; run a program that uses it."""
    programs = outside.environment("alone", "the library and TensorFlow", outside.wheel("across_tensorflow"))
    (outside.place / "program.py").write_text(PROGRAM, encoding="utf-8")
    said = outside.run(
        "a program imports all of it, and runs a function in a fresh process", programs / "python", "program.py"
    )
    assert Path(said.splitlines()[-1]).is_relative_to(outside.place), said


def grader(outside: Outside) -> None:
    """Install both; make the smallest course and grade it."""
    wheels = (outside.wheel("across_tensorflow"), outside.wheel("across_autograder"))
    programs = outside.environment("both", "the grader and JupyterLab", *wheels)
    outside.run("across doctor", programs / "across", "doctor")
    outside.run("autograder new", programs / "autograder", "new", "means")
    grade = ("grade", "01", "--submissions", "submitted", "--out", "graded")
    outside.run("its student is graded", programs / "autograder", *grade, cwd="means")
    rows = marks(outside.place / "means" / "graded" / "marks.csv")
    assert [(row["student"], row["points"], row["misconception"]) for row in rows] == [("ada", "0", "columns")], rows


def demo(outside: Outside) -> None:
    """Grade students of the demo's class by `uvx`, which makes an environment of its own."""
    for name in COURSE:
        to = outside.place / "course" / name
        to.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, to, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, to)
    python = outside.place / "both" / "bin" / "python"
    outside.run("the demo's class is made", python, "-c", DEMO, ROOT / "tools", cwd="course")
    chosen = [word for name in WHO for word in ("--student", name)]
    from_wheels = ("--python", outside.python, "--find-links", outside.dist, "--from", "across-autograder")
    grade = ("autograder", "grade", "03", "--submissions", "submitted", "--out", "graded", *chosen)
    outside.run("uvx: an environment, warm servers, three students", "uvx", *from_wheels, *grade, cwd="course")
    rows = [row for row in marks(outside.place / "course" / "graded" / "marks.csv") if row["verdict"] != "manual"]
    right = {name: all(row["points"] == row["max_points"] for row in rows if row["student"] == name) for name in WHO}
    assert ({row["student"] for row in rows}, right) == (set(WHO), WHO), rows


def main() -> None:
    """Try all three."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dist", type=Path, help="the folder of both wheels")
    parser.add_argument("--python", default="3.12", help="as uv takes it: 3.12, or the path of one")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="outside-") as place:
        Path(place).chmod(0o755)
        outside = Outside(Path(place), asked.dist.resolve(), asked.python)
        for each in (library, grader, demo):
            each(outside)


if __name__ == "__main__":
    main()
