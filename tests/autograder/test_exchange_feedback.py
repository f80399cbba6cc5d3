"""Our page is nbgrader's feedback: its own commands, run in OUT, release it into an exchange, and students fetch it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import classroom
import courses
import pytest
from boxed import needs_a_box
from classroom import TINY
from nbgrader.api import Gradebook
from nbgrader.utils import notebook_hash
from small_course import NAME, RIGHT, command
from stock import Exchange

from autograder.engine import class_run
from autograder.export import into_exchange
from autograder.gradebook import receipts
from autograder.model.course import Course, CourseError
from autograder.report import outputs
from autograder.submissions import exchange, intake

ON_ITS_OWN = {"mallory": b"\xff\xfe no text", "empty": b"", "long": b"a" * 1000, "none": None}


@pytest.fixture
def there(small: Course, tmp_path: Path) -> Exchange:
    return Exchange(tmp_path, small.id, NAME, small.notebook(NAME).read_bytes())


@needs_a_box
def test_a_page_goes_from_the_exchange_and_back_to_its_student_by_nbgraders_own_commands(
    small: Course, there: Exchange, tmp_path: Path
):
    ada = there.submit("ada", courses.answered(small, NAME, RIGHT))
    hers = next((there.root / small.id / "inbound").iterdir())
    his = shutil.copytree(hers, hers.with_name(hers.name.replace("ada+", "bob+", 1)))
    (his / exchange.SECRET).write_text("b" * 128)
    wrong = {**RIGHT, "shift": "def shift(x, by):\n    return x"}
    (his / f"{NAME}.ipynb").write_bytes(courses.answered(small, NAME, wrong))
    shutil.copytree(his, his.with_name(f"bob+{NAME}+2026-01-01 10:00:00 UTC"))
    out = tmp_path / "out"
    source = there.root / small.id
    command("grade", NAME, "--submissions", source, "--out", out, root=small.root)
    attempts = {row["student"]: row["file_of_download"] for row in courses.table(out / "totals.csv")}
    assert attempts == {"ada": "1 of 1", "bob": "2 of 2"}
    with Gradebook(f"sqlite:///{out / 'gradebook.db'}", small.id) as book:
        grade: Any = book.find_grade("why", NAME, NAME, "ada")
        grade.manual_score, grade.needs_manual_grade = 1.0, False
        book.db.commit()
    there.run(out, "generate_feedback", NAME, "--force")
    there.run(out, "release_feedback", NAME)
    there.run(ada, "fetch_feedback", NAME, "--CourseDirectory.student_id=ada")
    [page] = (ada / NAME / "feedback").glob(f"*/{NAME}.html")
    assert said(page) == ("ada", "6")
    his_page = there.root / small.id / "feedback" / f"{notebook_hash(secret='b' * 128, notebook_id=NAME)}.html"
    assert said(his_page) == ("bob", "2")
    assert page.read_bytes() == (out / "feedback" / "ada" / NAME / f"{NAME}.html").read_bytes()


def said(page: Path) -> tuple[str, str]:
    """Whose page of ours it is, and the points on it."""
    read: Any = classroom.shown(page)
    return read.find("p", class_="quiet").text, read.find(class_="total").strong.text


def recorded(out: Path, *students: str) -> None:
    classroom.record(out, *(classroom.verdict(student) for student in students))
    outputs.write(out, TINY, workers=1)


def test_who_handed_in_elsewhere_stops_nobodys_release_and_their_page_is_fetched_by_nobody(tmp_path: Path):
    out, there = tmp_path / "out", Exchange(tmp_path, "across", NAME)
    class_run.secret(out)
    recorded(out, "ada", "bob")
    receipts.keep(out, classroom.NAME, "ada", "a" * 128)
    outputs.write(out, TINY, workers=1)
    there.run(out, "release_feedback", classroom.NAME)
    first = {path.name for path in (there.root / "across" / "feedback").iterdir()}
    assert len(first) == 2
    outputs.write(out, TINY, workers=1)
    there.run(out, "release_feedback", classroom.NAME)
    assert {path.name for path in (there.root / "across" / "feedback").iterdir()} - first == set()


def test_pages_that_are_given_back_at_once_are_found_by_their_students_and_by_nobody_who_lists(tmp_path: Path):
    out, there = tmp_path / "out", Exchange(tmp_path, "across", NAME)
    (there.root / "across" / "feedback").rmdir()
    class_run.secret(out)
    recorded(out, "ada", "bob")
    receipts.keep(out, classroom.NAME, "ada", "a" * 128)
    before = os.umask(0o077)
    try:
        place = into_exchange.folder(there.root / "across" / "inbound")
        [trouble] = into_exchange.give(place, out, TINY, ["ada", "bob"])
    finally:
        os.umask(before)
    assert trouble.startswith("bob: handed in without a secret")
    [page] = place.iterdir()
    assert page.name == f"{notebook_hash(secret='a' * 128, notebook_id=classroom.NAME)}.html"
    assert said(page)[0] == "ada"
    assert [each.stat().st_mode & 0o777 for each in (place, page)] == [0o711, 0o644]


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o771, 0o2773])
def test_pages_go_into_no_folder_that_others_may_write(tmp_path: Path, mode: int):
    there = Exchange(tmp_path, "across", NAME)
    place = there.root / "across" / "feedback"
    place.chmod(mode)
    with pytest.raises(CourseError, match="chmod 711"):
        into_exchange.folder(there.root / "across")
    place.chmod(0o2771)  # a group's, as nbgrader makes it where several grade
    assert into_exchange.folder(there.root / "across") == place


def test_pages_go_into_no_folder_of_anothers_and_into_nothing_that_is_no_exchange(tmp_path: Path, monkeypatch: Any):
    there = Exchange(tmp_path, "across", NAME)
    with pytest.raises(CourseError, match="no folder of nbgrader's exchange"):
        into_exchange.folder(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(CourseError, match="another user's"):
        into_exchange.folder(there.root / "across")


def test_a_student_chooses_no_secret_that_stops_the_release_or_is_anothers(tmp_path: Path):
    for student, secret in (*ON_ITS_OWN.items(), ("ada", b"b" * 128), ("eve", b"c" * 128), ("eves twin", b"c" * 128)):
        place = tmp_path / student / classroom.NAME
        place.mkdir(parents=True)
        if secret is not None:
            (place / exchange.SECRET).write_bytes(secret)
    (tmp_path / "linked" / classroom.NAME).mkdir(parents=True)
    (tmp_path / "linked" / classroom.NAME / exchange.SECRET).symlink_to(
        tmp_path / "ada" / classroom.NAME / exchange.SECRET
    )
    found = exchange.secrets(intake.collect(tmp_path, TINY), TINY)
    assert {student for student, secret in found.items() if secret} == {"ada"}
    assert set(found) == {*ON_ITS_OWN, "ada", "eve", "eves twin", "linked"}


@needs_a_box
def test_who_is_graded_alone_has_no_secret_that_is_anothers(small: Course, hand_in: Any, tmp_path: Path):
    """As each batch is that arrives while `grade --watch` runs."""
    for student in ("ada", "eve"):
        folder = hand_in(student, {})
        (folder / student / NAME / exchange.SECRET).write_text("a" * 128)
    courses.graded(small, NAME, folder, tmp_path / "out", students=["eve"])
    assert receipts.beside(tmp_path / "out", NAME, "eve")[exchange.SECRET] != b"a" * 128
