"""docs/term.md, followed step by step: every command on it is run on a small class, as an instructor would."""

from __future__ import annotations

import csv
import re
import tarfile
import zipfile
from pathlib import Path

import courses
import lms_downloads
import pytest
from boxed import needs_a_box
from followed import BLOCK, follow, page
from small_course import CHECKS, RIGHT, SOURCE

from autograder.model.course import Course

pytestmark = [pytest.mark.classes, needs_a_box]

PAGE = page("term.md")
NAME = "03_small"
HALF = {**RIGHT, "shift": "def shift(x, by):\n    return x"}
CLASS = {100: ("lovelaceada", RIGHT), 101: ("brownbob", HALF), 104: ("adamseve_LATE", RIGHT)}  # Cem handed in nothing
GRADEBOOK = [
    ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Small (7001)", "Term total (7002)"],
    ["    Points Possible", "", "", "", "", "6", "100"],
    *(["Somebody", number, f"s-{number}", "", "A", "", ""] for number in ("100", "101", "102", "104")),
]


def handed_in(folder: Path, course: Course) -> None:
    """Canvas's zip of the class, and its gradebook."""
    with zipfile.ZipFile(folder / "submissions.zip", "w") as archive:
        for number, (name, answers) in CLASS.items():
            data = courses.answered(course, NAME, answers)
            lms_downloads.put(archive, f"{name}_{number}_9{number}_{NAME}.ipynb", data)
    with (folder / "gradebook.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(GRADEBOOK)


def totals(folder: Path) -> dict[str, float]:
    return {row["student"]: float(row["total"]) for row in courses.table(folder / "class" / "totals.csv")}


def column(folder: Path, title: str) -> dict[str, float]:
    """What Canvas's import has in a column, by the user's number."""
    rows = courses.table(folder / "class" / "export" / "gradebook.csv")
    return {row["ID"]: float(row[title]) for row in rows if row["ID"] and row[title]}


@pytest.fixture(scope="module")
def term(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, dict[str, str], list[dict[str, float]], dict[str, float]]:
    """The course's folder after the page was followed; what each block printed; the totals after each command that grades;
    and what `export` had for Canvas first."""
    folder = tmp_path_factory.mktemp("term")
    course = courses.write(folder, NAME, SOURCE, CHECKS)
    (folder / "kept").mkdir()
    printed, seen, marks = {}, [], {}
    for block in BLOCK.finditer(PAGE):
        content = block["content"]
        if block["file"]:
            (folder / block["file"]).write_text(content, encoding="utf-8")
        elif block["language"] == "bash":
            if "--submissions" in content and not (folder / "submissions.zip").exists():
                handed_in(folder, course)
            if "contest" in content:
                page_ = (folder / "class" / "feedback" / "bob" / NAME / f"{NAME}.html").read_text(encoding="utf-8")
                (code,) = re.findall(r"code of this page: ([a-z2-7]{4}-[a-z2-7]{4})", page_)
                content = content.replace("k7q2-9xhb split", f"{code} shift")
            printed[content] = follow(folder, content)
            if "--submissions" in content:
                seen.append(totals(folder))
            if "export 03" in content:
                marks = column(folder, "Small (7001)")
    return folder, printed, seen, marks


def test_every_command_of_the_page_was_run(term):
    assert len(term[1]) == PAGE.count("```bash") > 8


def test_lateness_and_an_extension_count_in_the_totals(term):
    first, extended, rehearsed = term[2]
    assert first == {"ada": 5.0, "bob": 2.0, "cem": 0.0, "eve": 4.5}
    assert extended == rehearsed == {**first, "eve": 5.0}


def test_only_whose_time_changed_is_graded_again(term):
    said = next(said for commands, said in term[1].items() if "--extensions" in commands)
    assert "1 graded, 2 unchanged" in said


def test_canvas_gets_every_total_of_who_handed_in(term):
    assert term[3] == {"100": 5, "101": 2, "104": 5}


def test_a_contested_mark_is_graded_again_and_answered_on_the_page(term):
    said = next(said for commands, said in term[1].items() if "contest" in commands)
    assert "bob, 03_small, as recorded on" in said
    assert "The sum is off. now: the same the same mistake: nobody else" in said
    assert said.endswith(f"kept, and shown by class/feedback/bob/{NAME}/{NAME}.html")


def test_canvas_gets_the_total_of_the_term(term):
    assert column(term[0], "Term total (7002)") == {"100": 83.33, "101": 33.33, "104": 83.33}  # of 6 points


def test_feedback_goes_back_to_everyone_who_handed_in_a_notebook(term):
    with zipfile.ZipFile(term[0] / "class" / "export" / f"feedback_{NAME}_canvas.zip") as archive:
        names = archive.namelist()
    assert sorted(re.findall(r"_(1\d\d)_", " ".join(names))) == ["100", "101", "104"]


def test_the_archive_is_the_class_as_it_was_and_the_one_who_was_forgotten_is_gone(term):
    with tarfile.open(term[0] / "kept" / "class.tar.gz") as archive:
        assert f"./autograded/bob/{NAME}/{NAME}.ipynb" in archive.getnames()
    assert not (term[0] / "class" / "autograded" / "bob").exists()
    assert "bob" not in (term[0] / "class" / "totals.csv").read_text()
