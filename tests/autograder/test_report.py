"""The class page and what the terminal says: whole, true to the marks, harmless."""

import io
import re
from dataclasses import replace

import classroom
import pytest
from bs4 import BeautifulSoup
from classroom import BLANK, FAILED, HALF, HOSTILE, INVALID, PASSED, TIMEOUT
from rich.console import Console

from autograder.gradebook.record import Recorder
from autograder.model.verdict import Evidence, Outcome
from autograder.report import class_page

TINY = classroom.chapter()


def added(verdict, name="sum_instead_of_mean"):
    return replace(verdict, marks=(replace(verdict.marks[0], misconception=name), *verdict.marks[1:]))


CLASS = (
    classroom.verdict("ada", PASSED, PASSED, seconds=0.4),
    added(classroom.verdict("bo", FAILED, HALF, BLANK, seconds=0.5)),
    added(classroom.verdict("cy", (*FAILED[:2], "You added them, all 4."), PASSED, seconds=0.6)),
    classroom.verdict("di", TIMEOUT, BLANK, BLANK, seconds=121.25, notes=('cell "pick": timeout, killed',)),
    classroom.verdict("mal lory's %#", INVALID, INVALID, INVALID, notebook=TINY.release),
)


@pytest.fixture
def out(tmp_path):
    with Recorder(tmp_path, TINY) as recorder:
        for verdict in CLASS:
            recorder.write(verdict)
    return tmp_path


@pytest.fixture
def page(out):
    return BeautifulSoup(class_page.write(out, TINY).read_text(encoding="utf-8"), "html.parser")


def charts(page):
    return [chart["aria-label"] for chart in page.find_all("svg")]


def printed(what) -> str:
    console = Console(width=200, file=io.StringIO())
    with console.capture() as captured:
        console.print(what)
    return captured.get()


def test_every_chart_says_its_data_in_words(page):
    points, exercises, slow = charts(page)
    assert points == "Students by points. 0 to 1: 2; 2 to 3: 1; 4 to 5: 1; 7 to 8: 1"
    assert "pick: passed 1, failed 3, blank or invalid 1" in exercises
    assert "why: by hand 2, blank or invalid 3" in exercises
    assert slow.startswith("Seconds that the slowest submissions took. di 121.25 s; cy 0.60 s")


def test_the_same_misconception_counts_together_whatever_the_message(out, page):
    [first, *_] = class_page.mistakes(class_page.records(out, TINY))
    assert (first.name, first.students) == ("sum_instead_of_mean", ("bo", "cy"))
    assert "sum_instead_of_mean" in page.find(string="Commonest mistakes").find_next("table").text


def test_who_crashed_or_hit_a_limit_is_listed_with_what_was_seen(page):
    listed = page.find(string=re.compile("^Crashed")).find_next("table").text
    assert "did not end within the time limit" in listed
    assert 'cell "pick": timeout, killed' in listed
    assert "is no JSON" in listed
    assert "ada" not in listed


def test_the_class_links_to_each_students_page(out, page):
    links = [link["href"] for link in page.find(string="The class").find_next("table").find_all("a")]
    assert links == [
        *(f"feedback/{student}/01_tiny/01_tiny.html" for student in ("ada", "bo", "cy", "di")),
        "feedback/mal%20lory%27s%20%25%23/01_tiny/01_tiny.html",
    ]


def test_the_page_stands_alone_and_runs_nothing(out):
    with Recorder(out, TINY) as recorder:
        recorder.write(added(classroom.verdict("eve", (*FAILED[:2], HOSTILE), notes=(HOSTILE,)), HOSTILE))
    text = class_page.write(out, TINY, faults={"<b>zed": HOSTILE}).read_text(encoding="utf-8")
    page = BeautifulSoup(text, "html.parser")
    assert not page.find_all(["script", "link", "img", "iframe", "i", "b"])
    assert not [tag for tag in page.find_all(True) if set(tag.attrs) & {"src", "onload", "onclick"}]
    assert not re.search(r"url\(|@import|https?://", text)
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\ud800-\udfff]", text)


def test_submissions_that_this_machine_failed_at_stand_on_top(out):
    page = BeautifulSoup(class_page.write(out, TINY, faults={"zed": "no space left"}).read_text("utf-8"), "html.parser")
    assert "no space left" in page.find(class_="alarm").text
    assert page.find(class_="alarm").sourceline < page.find("svg").sourceline


def test_a_class_of_nobody_has_a_page_too(tmp_path):
    with Recorder(tmp_path, TINY):
        pass
    assert "0 submissions" in class_page.write(tmp_path, TINY).read_text("utf-8")


def test_the_terminals_table_has_a_row_a_student_with_their_points(out):
    rows = [line for line in printed(class_page.class_table(out, TINY)).splitlines() if line.startswith("│")]
    assert [re.sub(r"\s+", "", row) for row in rows][:2] == ["│ada│●3│●4│✎│7││", "│bo│○0│◐2│·0│2││"]


def test_a_check_that_broke_is_listed_with_whom_it_met(out, page):
    assert "Checks that broke" not in page.text
    met = Outcome("pick", "test_it", False, kind="TypeError: <b>no</b>")
    with Recorder(out, TINY) as recorder:
        recorder.write(classroom.verdict("eve", FAILED, evidence=Evidence((met,))))
    listed = BeautifulSoup(class_page.write(out, TINY).read_text("utf-8"), "html.parser").find(class_="alarm").text
    for part in ("pick", "test_it", "TypeError: <b>no</b>", "eve", "test_01_tiny.py"):
        assert part in listed
