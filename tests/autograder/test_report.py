"""The class page and what the terminal says: whole, true to the marks, harmless."""

import base64
import hashlib
import io
import re
import shlex
from dataclasses import replace

import classroom
import pytest
from bs4 import BeautifulSoup
from classroom import BLANK, FAILED, HALF, HOSTILE, INVALID, PASSED, TIMEOUT, TINY
from rich.console import Console

from autograder.commands import terminal
from autograder.gradebook import late_penalty, record, roll
from autograder.gradebook.record import Recorder
from autograder.model.verdict import Evidence, Halt, Lost, Outcome, Result, Stop
from autograder.report import changes, class_page, course_page, rendering, standing
from autograder.report.changes import Change, Changes
from autograder.submissions.roster import Enrolled

NOISE = "what came confused the driver: 3 frames"


ADDED = "sum_instead_of_mean"
CLASS = (
    classroom.verdict("ada", PASSED, PASSED, seconds=0.4),
    classroom.mistaken(classroom.verdict("bo", FAILED, HALF, BLANK, seconds=0.5), ADDED),
    classroom.mistaken(classroom.verdict("cy", (*FAILED[:2], "You added them, all 4."), PASSED, seconds=0.6), ADDED),
    classroom.verdict("di", TIMEOUT, BLANK, BLANK, seconds=121.25, notes=('cell "pick": timeout, killed',)),
    classroom.verdict("mal lory's %#", INVALID, INVALID, INVALID, notebook=TINY.release),
)


@pytest.fixture
def out(tmp_path):
    classroom.record(tmp_path, *CLASS)
    return tmp_path


@pytest.fixture
def page(out):
    return classroom.shown(class_page.write(out, TINY))


def charts(page):
    return [chart["aria-label"] for chart in page.find_all("svg", role="img")]


def policy_of(page) -> str:
    return page.find("meta", attrs={"http-equiv": "Content-Security-Policy"})["content"]


def digest(tag) -> str:
    return base64.b64encode(hashlib.sha256(tag.text.encode()).digest()).decode()


def printed(what) -> str:
    console = Console(width=200, file=io.StringIO())
    with console.capture() as captured:
        console.print(what)
    return captured.get()


def test_every_chart_says_its_data_in_words(page):
    points, exercises = charts(page)
    assert points == "Students by points. 0 to 1: 1; 2 to 3: 1; 4 to 5: 1; 6 to 7: 1"  # of 7: `why` waits for its marks
    assert "pick: passed 1, failed 3, blank or invalid 1" in exercises
    assert "why: by hand 2, blank or invalid 3" in exercises


def test_the_same_misconception_counts_together_whatever_the_message(out, page):
    [first, *_] = class_page.mistakes(class_page.records(out, TINY))
    assert (first.name, first.students) == ("sum_instead_of_mean", ("bo", "cy"))
    assert "sum_instead_of_mean" in page.find(string="Commonest mistakes").find_next("table").text


def need(page, title):
    return page.find(class_="alarm").find("h3", string=re.compile(title)).find_parent("details").table.tbody.text


def test_what_needs_a_person_stands_first_each_kind_with_whom_and_what_was_seen(out):
    odd = Evidence((Outcome("pick", "test_it", False, kind=Lost.PROTOCOL),), (Halt(Stop.OUTPUT, "spread", note=NOISE),))
    broke = Evidence((Outcome("pick", "test_it", False, kind="TypeError: <b>no</b>"),))
    classroom.record(out, classroom.verdict("mo", FAILED, HALF, evidence=odd), classroom.verdict("ed", evidence=broke))
    text = class_page.write(out, TINY, faults={"zed": "no space left"}, unmade={"ada": "too long"}).read_text("utf-8")
    page = BeautifulSoup(text, "html.parser")
    said = {
        "Not graded": ("zed", "no space left"),
        "Checks that broke": ("ed", "pick", "test_it", "TypeError: <b>no</b>"),
        "without their notebook": ("ada", "too long"),
        "Confused": ("mo", "pick", "spread", NOISE),
        "Stopped at a limit": ("di", "pick", "time limit"),
        "Could not be read": ("mal lory's %#", "is no JSON"),
        "not listed": ("mo", "bo, ed, mo", "all of them to one device"),
        "Waiting": ("ada, cy, ed, mo", "why", "4 answers"),
    }
    for title, parts in said.items():
        for part in parts:
            assert part in need(page, title), title
    assert "test_01_tiny.py" in page.find(class_="alarm").text
    assert "sum_instead_of_mean" not in page.find(class_="alarm").text  # a listed mistake needs nobody
    assert page.find(class_="alarm").sourceline < page.find("svg").sourceline


def test_who_is_late_by_minutes_is_listed_and_who_is_late_by_days_is_not(out):
    late_penalty.settle(out, TINY, "2026-03-02T00:00+00:00", "10%", None)
    classroom.record(out, classroom.verdict("flo"), at="2026-03-02 00:14:00 UTC")
    classroom.record(out, classroom.verdict("gus"), at="2026-03-04 00:14:00 UTC")
    late = need(classroom.shown(class_page.write(out, TINY)), "Late by minutes")
    assert "14 min late, 0.5 points taken off" in late
    assert "gus" not in late


def test_what_is_not_marked_yet_is_in_neither_the_median_nor_the_histogram(out, page):
    assert "median 3 of 7 points without why, not marked yet" in page.text
    assert "1 could not be read, and is not counted" in page.text
    with record.book(out, TINY) as book:
        for student in ("ada", "cy"):
            book.find_grade("why", TINY.name, TINY.name, student).manual_score = 2.0
        book.db.commit()
    after = classroom.shown(class_page.write(out, TINY))
    assert "median 4 of 9 points ·" in after.text
    assert "8 to 9: 1" in charts(after)[0]


def test_a_line_to_copy_explains_a_student_whatever_they_are_called(out):
    name = "-x'; touch owned; $(id) '"
    classroom.record(out, classroom.verdict(name))
    page = classroom.shown(class_page.write(out, TINY, command="autograder --course /c"))
    lines = [shlex.split(each.text) for each in page.find(id="everyone").find_all(class_="line")]
    begin = ["autograder", "--course", "/c", "explain", "--out", str(out), "--"]
    assert [*begin, name, TINY.name] in lines
    assert [*begin, "ada", TINY.name] in lines


def test_the_class_links_to_each_students_page(out, page):
    links = [link["href"] for link in page.find(string="The class").find_next("table").find_all("a")]
    assert links == [
        *(f"feedback/{student}/01_tiny/01_tiny.html" for student in ("ada", "bo", "cy", "di")),
        "feedback/mal%20lory%27s%20%25%23/01_tiny/01_tiny.html",
    ]


def test_under_an_id_stands_the_name_of_the_roster_and_it_is_no_markup(out):
    enrolled = {"ada": Enrolled("Ada", "Lovelace"), "bo": Enrolled("<b>Bo</b>", "")}
    roll.enter(out, TINY, enrolled)
    for written in (
        class_page.write(out, TINY),
        course_page.write(out, [standing.Standing(TINY, record.records(out, TINY))]),
    ):
        table = classroom.shown(written).find("table", id="everyone")
        heads = {
            row.th.find(string=True).strip(): row.th.get_text("|", strip=True) for row in table.tbody.find_all("tr")
        }
        assert (heads["ada"], heads["bo"], heads["cy"]) == ("ada|Ada Lovelace", "bo|<b>Bo</b>", "cy")


def test_the_page_stands_alone_and_runs_nothing_but_our_script(out):
    classroom.record(
        out, classroom.mistaken(classroom.verdict("eve", (*FAILED[:2], HOSTILE), notes=(HOSTILE,)), HOSTILE)
    )
    text = class_page.write(out, TINY, faults={"<b>zed": HOSTILE}).read_text(encoding="utf-8")
    page = BeautifulSoup(text, "html.parser")
    assert not page.find_all(["link", "img", "iframe", "i", "b", "form", "base", "object"])
    assert not [tag for tag in page.find_all(True) if set(tag.attrs) & {"src", "style", "onload", "onclick"}]
    [script], [style] = page.find_all("script"), page.find_all("style")
    policy = dict(part.split(" ", 1) for part in policy_of(page).split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == f"'sha256-{digest(script)}'"
    assert policy["style-src"] == f"'sha256-{digest(style)}'"
    assert script.text == (rendering.TEMPLATES / "table.js").read_text(encoding="utf-8")  # nothing of the class's
    assert not re.search(r"url\(|@import|https?://", text)
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\ud800-\udfff]", text)


def test_quartiles_and_what_tells_students_apart_are_of_whose_answers_could_be_read(tmp_path):
    half = (Result.PARTIAL, 0.5, "Half.")
    with Recorder(tmp_path, TINY) as recorder:
        for number in range(12):
            marks = (PASSED, PASSED) if number < 4 else (FAILED, half) if number < 8 else (FAILED, FAILED)
            recorder.write(classroom.verdict(f"s{number:02}", *marks, BLANK))
        recorder.write(classroom.verdict("zip", INVALID, INVALID, INVALID))
    text = classroom.shown(class_page.write(tmp_path, TINY)).text
    assert "median 2 (the middle half 0 to 7) of 9 points" in text
    assert "mean 33%, discrimination 0.87" in text  # pick: 1 for 4 of 12; the others' points are 4, 2 or 0
    assert "mean 50%, discrimination 0.87" in text


def test_a_class_of_nobody_has_a_page_too(tmp_path):
    with Recorder(tmp_path, TINY):
        pass
    assert "0 submissions" in class_page.write(tmp_path, TINY).read_text("utf-8")


def test_the_terminals_table_has_a_row_a_student_with_their_points(out):
    rows = [line for line in printed(class_page.class_table(out, TINY)).splitlines() if line.startswith("│")]
    assert [re.sub(r"\s+", "", row) for row in rows][:2] == ["│ada│7│●●✎││", "│bo│2│○◐·││"]


def test_of_a_large_class_the_terminal_shows_the_most_urgent_and_counts_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(class_page, "ROWS", 3)
    right, unlisted = (PASSED, PASSED), (FAILED, PASSED)
    class_ = {"ada": right, "bo": unlisted, "cem": unlisted, "di": unlisted, "eve": right, "zoe": (TIMEOUT, PASSED)}
    classroom.record(tmp_path, *(classroom.verdict(student, *marks) for student, marks in class_.items()))
    said = printed(class_page.class_table(tmp_path, TINY))
    rows = [line.split("│")[1].strip() for line in said.splitlines() if line.startswith("│")]
    assert rows == ["bo", "cem", "zoe"]
    assert "3 of 6 students are not shown: see report_01_tiny.html" in said


def test_no_character_of_a_students_moves_the_cursor_of_an_instructors_terminal(monkeypatch):
    evil = "\x1b]52;c;aGk=\x1b\\\x1b[1A\x1b[2K\u202edouble: [bold]passed[/]\nand more\x9b2J"
    seen = io.StringIO()
    for name in ("console", "errors"):
        monkeypatch.setattr(terminal, name, Console(file=seen, force_terminal=True, width=200))
    terminal.say(evil)
    terminal.warn("not graded", evil)
    change = Change("ada", "double", 0, 1, "failed", "passed", evil, "")
    found = Changes((change, replace(change, because="checks")), (change,))
    Console(file=seen, width=200).print(changes.table(found))
    said = seen.getvalue()
    assert not set(re.sub("\x1b\\[[0-9;]*m", "", said)) & set("\x1b\x9b\u202e")  # but for rich's own colours
    assert said.count("\\x1b[2K") == 5
    assert said.count("[bold]passed[/]") == 5
