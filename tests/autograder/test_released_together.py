"""Several chapters released to one folder stand there together; what was there stays, and the same again changes nothing."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from pathlib import Path

import courses
import pytest
from small_course import CHECKS, LEAKY, LONG, NAME, SOURCE, command

from autograder.model.address import Address
from autograder.model.course import Course, find
from autograder.release import bundle

OTHER = "91_other"
ADDRESS = "https://github.com/owner/a-course"


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """A course of two chapters."""
    root = tmp_path_factory.mktemp("together") / "course"
    courses.write(root, OTHER, SOURCE.replace("# # Small", "# # Other"), CHECKS)
    return courses.write(root, NAME, SOURCE, CHECKS)


def released(course: Course, out: Path, chapter: str, published: str = "") -> None:
    address = Address.read("", published) if published else None
    bundle.release(course, course.full_name(chapter), out, published=address)


def state(out: Path) -> dict[str, tuple[bytes, int]]:
    """Every file, and when it was written."""
    files = sorted(path for path in out.rglob("*") if path.is_file())
    return {path.relative_to(out).as_posix(): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def test_the_readme_lists_both_and_what_lies_there_besides_stays(course: Course, tmp_path: Path):
    out = tmp_path / "handout"
    released(course, out, "91")
    alone = state(out)
    (out / ".git").mkdir()
    (out / ".git" / "HEAD").write_text("ref: refs/heads/main")
    (out / "notebooks" / "mine.md").write_text("mine")
    (out / "lib" / "across" / "gone.py").write_text("x = 1")  # of an earlier version
    released(course, out, "90")
    readme = (out / "README.md").read_text()
    assert readme.startswith("# " + course.title)
    assert re.findall(r"^- \*(\w+)\*: \[(\w+)", readme, re.MULTILINE) == [("Small", NAME), ("Other", OTHER)]
    assert readme.count("3 exercises worth 6 points") == 2
    links = re.findall(r"\]\(([^)]+)\)", readme)
    assert [link for link in links if not (out / link).exists()] == []
    project = tomllib.loads((out / "pyproject.toml").read_text())
    assert project["project"]["dependencies"] == ["across-tensorflow[lab]"]
    assert project["project"]["name"] == f"{course.id}-chapters"
    now = state(out)
    assert {path for path in now if path not in alone} == {f"notebooks/{NAME}.ipynb", ".git/HEAD", "notebooks/mine.md"}
    assert {path for path in alone if now[path] != alone[path]} == {"README.md"}


def test_in_whatever_order_they_come_the_folder_is_the_same_and_the_same_again_changes_nothing(
    course: Course, tmp_path: Path
):
    one, other = tmp_path / "one", tmp_path / "other"
    for out, names in ((one, ("90", "91")), (other, ("91", "90"))):
        for name in names:
            released(course, out, name)
    assert {path: content for path, (content, _) in state(one).items()} == {
        path: content for path, (content, _) in state(other).items()
    }
    before = state(one)
    for name in ("91", "90", "91"):
        released(course, one, name)
    assert state(one) == before


def test_a_chapter_that_students_have_stays_as_they_have_it(course: Course, tmp_path: Path):
    out = tmp_path / "handout"
    released(course, out, "91")
    given = out / "notebooks" / f"{OTHER}.ipynb"
    given.write_text(given.read_text().replace("# Other", "# Other, as it was"))
    before = given.read_bytes()
    released(course, out, "90")
    assert given.read_bytes() == before


def test_the_address_is_known_from_then_on_and_both_have_their_links(course: Course, tmp_path: Path):
    out = tmp_path / "handout"
    released(course, out, "91")
    released(course, out, "90", ADDRESS)
    before = state(out)
    released(course, out, "91")
    assert state(out) == before
    links = re.findall(r"\[Open in Colab\]\(.*/(colab/[^)]+)\)", (out / "README.md").read_text())
    assert links == [f"colab/{NAME}.ipynb", f"colab/{OTHER}.ipynb"]
    assert [link for link in links if not (out / link).is_file()] == []


def test_an_answer_of_a_chapter_that_is_there_already_is_no_more_handed_out_by_another(course: Course, tmp_path: Path):
    root, told = tmp_path / "course", LONG.replace("\n", "\n# ")
    courses.write(root, OTHER, SOURCE + f"\n# %% [markdown]\n# ```python\n# {told}\n# ```\n", CHECKS)
    course = courses.write(root, NAME, LEAKY, CHECKS)
    out = tmp_path / "handout"
    released(course, out, "90")
    before = state(out)
    done = command("release", "91", "--out", out, root=course.root, code=2)
    assert f'notebooks/{OTHER}.ipynb: holds the reference of "double"' in done.stderr
    assert state(out) == before


def test_another_courses_folder_is_refused(course: Course, tmp_path: Path):
    out, root = tmp_path / "handout", tmp_path / "course"
    released(course, out, "90")
    shutil.copytree(course.root, root)
    said = (root / "course.toml").read_text()
    (root / "course.toml").write_text(re.sub(r"^id = .*", 'id = "elsewhere"', said, flags=re.MULTILINE))
    done = command("release", "90", "--out", out, root=root, code=2)
    assert f"holds chapters of the course {course.id!r}" in done.stderr


def test_the_words_in_pictures_of_two_translated_chapters_are_there_of_both(tmp_path: Path):
    out, course = tmp_path / "handout", find()
    released(course, out, "01")
    first = json.loads((out / "notebooks" / "zh" / ".words.json").read_text())
    released(course, out, "02")
    both = json.loads((out / "notebooks" / "zh" / ".words.json").read_text())
    assert first.items() < both.items()
    assert {path.name for path in (out / "notebooks" / "zh").glob("*.ipynb")} == {
        "01_gpu_setup.ipynb",
        "02_gpu_memory.ipynb",
    }
    assert not [path for path in (out / "notebooks").rglob("*.po")]
