"""Through `autograder report`: chapters of one OUT overwrite nothing of each other, and the course has a page of its own."""

import classroom
import courses
import pytest
from classroom import FAILED, HALF
from small_course import NAME, OTHER, command, with_another

from autograder.gradebook import roll
from autograder.report import outputs


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """Two chapters of 6 points each: Ada did both, Bob the first; of the other one Cem was left, and Dan absent."""
    root = tmp_path_factory.mktemp("course")
    course, out = with_another(root / "course"), root / "out"
    first, other = course.chapter(NAME), course.chapter(OTHER)
    classroom.record(out, *(classroom.verdict(student, tiny=first) for student in ("ada", "bob")), tiny=first)
    classroom.record(out, classroom.verdict("ada", HALF, FAILED, tiny=other), tiny=other)
    outputs.write(out, other, faults={"cem": "no <space> left"}, workers=1)
    roll.keep_absent(out, other, ["dan"])
    said = []
    for name in (OTHER, NAME):
        done = command("report", name, "--out", out, root=course.root)
        said.append(done.stdout)
    return out, said


def test_the_second_chapter_overwrites_nothing_of_the_first(graded):
    out, said = graded
    assert {(row["chapter"], row["student"]) for row in courses.table(out / "marks.csv")} == {
        (NAME, "ada"), (NAME, "bob"), (OTHER, "ada"), (OTHER, "cem"), (OTHER, "dan"),
    }  # fmt: skip
    assert {(line["chapter"], line["student"]): line["total"] for line in courses.table(out / "totals.csv")} == {
        (NAME, "ada"): "3.5", (NAME, "bob"): "3.5", (OTHER, "ada"): "1", (OTHER, "cem"): "", (OTHER, "dan"): "0",
    }  # fmt: skip
    for name, title in ((NAME, "Small"), (OTHER, "Other")):
        assert f"<h1>{title}</h1>" in (out / f"report_{name}.html").read_text(encoding="utf-8")
        assert any(f"report_{name}.html" in each for each in said)
    assert "report.html" in said[-1]


def test_who_was_left_by_a_fault_stays_so_whatever_chapter_is_written_next(graded):
    out, _ = graded
    faults = {
        row["student"]: row["message"] for row in courses.table(out / "marks.csv") if row["fault"] == "INFRASTRUCTURE"
    }
    assert faults == {"cem": "no <space> left"}


def test_the_page_of_the_course_has_everyone_by_chapter_with_a_total(graded):
    out, _ = graded
    page = classroom.shown(out / "report.html")
    head, *rows = page.find_all("table")[-1].find_all("tr")
    assert [cell.text for cell in head.find_all("th")] == ["student", f"{OTHER} /6", f"{NAME} /6", "total /12"]
    for label in page.find_all(class_="label"):  # of cards on a phone
        label.extract()
    assert [[cell.text for cell in row.find_all(["th", "td"])] for row in rows] == [
        ["ada", "1 ✎", "3.5 ✎", "4.5"],
        ["bob", "", "3.5 ✎", "3.5"],
        ["cem", "?", "", "0 ?"],
        ["dan", "–", "", "0"],
    ]
    assert "no <space> left" in page.find(class_="alarm").text
    links = {link["href"] for link in page.find_all("a")}
    assert {f"report_{NAME}.html", f"report_{OTHER}.html", f"feedback/ada/{NAME}/{NAME}.html"} <= links
    assert all((out / link).is_file() for link in links)
    assert len(page.find_all("script")) == 1
    assert not page.find_all(["img", "link", "space"])
    cells = [row.find_all(["th", "td"]) for row in page.find(string="Chapters").find_next("table").tbody.find_all("tr")]
    assert [[cell.text for cell in row[1:3]] for row in cells] == [["1", "1"], ["2", "0"]]
    assert "not graded: 1" in cells[0][4].text
    assert "waiting for a mark: 2" in cells[1][4].text
