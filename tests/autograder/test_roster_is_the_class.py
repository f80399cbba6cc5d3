"""Through the command: with a roster everyone in the class has marks: who handed in a PDF, typed a text, or did nothing."""

import courses
import lms_downloads
import pytest
from boxed import needs_a_box
from lms_downloads import zipped
from nbgrader.api import Gradebook
from small_course import NAME, RIGHT, command

pytestmark = needs_a_box
ROSTER = "id,name,lms id\nada,Ada Lovelace,100\nbob,Bob Brown,101\ncem,Cem Öztürk,102\ndan,Dana Scully,103\neve,Eve Adams,104\n"


def said(out):
    """Student -> what stands of each exercise, and of the whole."""
    rows: dict[str, set[tuple[str, str]]] = {}
    for row in courses.table(out / "marks.csv"):
        rows.setdefault(row["student"], set()).add((row["verdict"], row["message"]))
    return rows, {line["student"]: (line["total"], line["note"]) for line in courses.table(out / "totals.csv")}


@pytest.fixture
def grade(small, tmp_path):
    (tmp_path / "roster.csv").write_text(ROSTER, encoding="utf-8")

    def run(source, *more, verb="grade"):
        how = ("--submissions", source, *more) if verb == "grade" else ()
        return command(verb, NAME, *how, "--out", tmp_path / "out", root=small.root)

    return run


def test_of_two_of_one_name_without_numbers_nobody_is_absent_and_the_exit_code_is_2(small, tmp_path):
    source = lms_downloads.moodle(tmp_path / "moodle.zip", NAME, courses.answered(small, NAME, RIGHT))
    roster = tmp_path / "roster.csv"
    roster.write_text("id,name\nbob1,Bob Brown\nbob2,Bob Brown\nada,Ada Lovelace\nzoe,Zoe Zed\n", encoding="utf-8")
    asked = ("--submissions", source, "--roster", roster, "--out", tmp_path / "out")
    done = command("grade", NAME, *asked, root=small.root, code=2)
    assert "Brown_201): " in done.stderr
    assert "2 students are called so; give the lms id of each (lms id 201 is one of them)" in done.stderr
    assert "2 files are somebody's, but nobody of the class gets a mark for them" in done.stderr
    rows, totals = said(tmp_path / "out")
    assert {"Bob Brown_201", "Bob Brown_299", "ada"} <= set(rows)
    assert {student for student, (_, note) in totals.items() if note == "absent"} == {"zoe"}


def test_everyone_on_the_roster_has_a_mark_and_report_and_terminal_list_who_is_absent(small, tmp_path, grade):
    source, out, right = tmp_path / "submissions.zip", tmp_path / "out", courses.answered(small, NAME, RIGHT)
    files = {f"lovelaceada_100_1_{NAME}.ipynb": right, "brownbob_LATE_101_2_report.pdf": b"%PDF"}
    zipped(source, files := {**files, "öztürkcem_102_text.html": b"<p>my answer</p>"})
    done = grade(source, "--roster", tmp_path / "roster.csv")
    rows, totals = said(out)
    assert set(rows) == set(totals) == {"ada", "bob", "cem", "dan", "eve"}
    assert rows["bob"] == {("invalid", f"handed in report.pdf; hand in the notebook {NAME}.ipynb")}
    assert rows["cem"] == {("invalid", f"handed in text.html; hand in the notebook {NAME}.ipynb")}
    assert rows["dan"] == rows["eve"] == {("absent", "Absent: nothing was handed in.")}
    assert totals == {
        "ada": ("5", ""),
        "bob": ("0", f"handed in report.pdf; hand in the notebook {NAME}.ipynb"),
        "cem": ("0", f"handed in text.html; hand in the notebook {NAME}.ipynb"),
        "dan": ("0", "absent"),
        "eve": ("0", "absent"),
    }
    assert "2 of the roster handed in nothing: dan, eve" in done.stdout
    with Gradebook(f"sqlite:///{out / 'gradebook.db'}", small.id) as book:
        assert {each.id: (each.first_name, each.last_name) for each in book.students} == {
            line.split(",")[0]: tuple(line.split(",")[1].split()) for line in ROSTER.splitlines()[1:]
        }
    assert "dan, eve" in (out / "report.html").read_text(encoding="utf-8")

    grade(None, verb="report")
    assert said(out)[1]["eve"] == ("0", "absent")

    zipped(source, {**files, f"adamseve_104_3_{NAME}.ipynb": right})
    grade(source, "--roster", tmp_path / "roster.csv")
    totals = said(out)[1]
    assert (totals["eve"], totals["dan"]) == (("5", ""), ("0", "absent"))


def test_a_roster_goes_with_nbgraders_folders_and_says_whose_is_nobodys(small, tmp_path, grade):
    for student in ("ada", "zoe"):
        courses.hand_in(tmp_path / "class", student, NAME, courses.answered(small, NAME, RIGHT))
    (tmp_path / "class" / "bob").mkdir()  # another chapter's, perhaps
    done = grade(tmp_path / "class", "--roster", tmp_path / "roster.csv", "--student", "ada", "--student", "bob")
    rows, _ = said(tmp_path / "out")
    assert set(rows) == {"ada", "bob", "cem", "dan", "eve"}  # zoe is no absentee: she was only not asked for
    assert {verdict for verdict, _ in rows["bob"] | rows["cem"]} == {"absent"}
    assert "zoe (zoe): " in done.stderr
    assert "roster.csv: no such id; add a line" in done.stderr
