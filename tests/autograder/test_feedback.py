"""The page that a student reads: everything that matters to them, nothing that runs."""

import re
from dataclasses import replace

import classroom
import nbformat.v4 as v4
import pytest
from bs4 import BeautifulSoup
from classroom import BLANK, FAILED, HOSTILE, INVALID, TIMEOUT, TINY

from across._language import catalogue
from autograder.gradebook import late_penalty, record
from autograder.model.verdict import Evidence, Fault, Outcome
from autograder.report import feedback, words

CHINESE = words.Words("zh", labels=catalogue.translations(words.OURS / "zh" / "autograder.po"))
ATTACKS = [
    "<script>alert(1)</script>",
    "<svg onload=alert(1)><script>alert(1)</script></svg>",
    '<iframe src="https://example.org"></iframe>',
    "<img src=x onerror=alert(1)>",
    "<img src=https://example.org/seen.png>",
    "<a href='javascript:alert(1)'>x</a>",
    "<a href='data:text/html,<script>1</script>'>x</a>",
    "<style>body{display:none}</style>",
    "<form action=https://example.org><input></form>",
    "<div onclick=alert(1) style='position:fixed'>x</div>",
    "</pre></body></html><script>1</script>",
    "[x](javascript:alert(1))",
]


@pytest.fixture
def page(tmp_path):
    def made(*args, **more):
        classroom.record(tmp_path, classroom.verdict("ada", *args, **more))
        [kept] = record.whole(tmp_path, TINY)
        return classroom.shown(feedback.write(tmp_path, TINY, kept))

    return made


def assert_harmless(page):
    assert not page.find_all(["script", "svg", "iframe", "object", "embed", "form", "link", "base"])
    assert len(page.find_all("style")) == 1
    for tag in page.find_all(True):
        assert not [name for name in tag.attrs if name.startswith("on")], tag
        assert re.match(r"https?:|mailto:|#|$", tag.get("href", "")), tag
        assert re.match(r"data:image/(png|jpeg);base64,|$", tag.get("src", "")), tag


def test_each_exercise_says_points_verdict_message_and_what_to_try_next(page):
    pick, spread, why = page(FAILED, TIMEOUT, BLANK).find_all("section")
    for part in ("Not right yet", "0 / 3", "divide by how many", "What to try next", "follow your answer through it"):
        assert part in pick.text
    for part in ("it took too long", "0 / 4", "time limit", "never ends"):
        assert part in spread.text
    for part in ("Not answered", "0 / 2", "Not attempted"):
        assert part in why.text


def test_whose_fault_it_was_is_said_only_where_it_was_not_the_students(page):
    mine = page(FAILED).text
    broke = classroom.verdict("ada", FAILED).marks
    theirs = page(FAILED, marks=(replace(broke[0], fault=Fault.AUTHOR), *broke[1:])).text
    assert "fault" not in mine
    assert "the course's fault: it will be mended and graded again" in theirs


def test_points_and_what_waits_are_said_first(page):
    said = page().text
    assert "5 of 9 points" in said
    assert "1 of 3 exercises is right" in said
    assert "2 of the points are given by hand" in said


@pytest.mark.parametrize(
    ("spoken", "says"),
    [
        (words.ENGLISH, ("0 of 1 point\n", "1 of the points is given by hand, and was not given yet.")),
        (CHINESE, ("0 分，满分 1 分", "有 1 分由老师批阅，目前还没有给出。")),
    ],
)
def test_one_point_is_said_as_one(tmp_path, spoken, says):
    classroom.record(tmp_path, classroom.verdict("ada"))
    [kept] = record.whole(tmp_path, TINY)
    why = TINY.exercises[2]
    tiny, row = replace(TINY, exercises=(replace(why, max_points=1.0),)), replace(kept.rows[2], max_points=1.0)
    page = BeautifulSoup(feedback.render(tiny, replace(kept, rows=(row,)), spoken), "html.parser").text
    assert [each for each in says if each not in page] == []


def test_the_checks_that_passed_are_listed_in_words_and_those_that_did_not_are_not(page):
    outcomes = (
        Outcome("spread", "test_all_of_them_are_used", True),
        Outcome("spread", "test_any_number[3]", True),
        Outcome("spread", "test_any_number[4]", True),
        Outcome("spread", "test_the_secret_case", False, kind="assert", says="No."),
        Outcome("pick", "test_before_it_was_lost", True),
    )
    pick, spread, _ = page(TIMEOUT, evidence=Evidence(outcomes)).find_all("section")
    assert [each.text for each in spread.find_all("li")] == ["All of them are used", "Any number"]
    assert "secret case" not in spread.text
    assert not pick.find_all("li")  # what a lost kernel had passed earns nothing: it is not told as if it did


def test_a_student_reads_which_points_rest_on_what_their_own_program_says(page):
    outcomes = (Outcome("spread", "test_it_says_so", True, weak=True), Outcome("pick", "test_it_is_so", True))
    pick, spread, _ = page(evidence=Evidence(outcomes)).find_all("section")
    assert "rests on what your own program says that it did" in spread.text
    assert "your own program" not in pick.text


def test_an_exercise_leads_to_its_cell_in_the_notebook(page):
    shown = page()
    links = {link.text: link["href"] for link in shown.find_all("a") if link.code}
    assert links == {"pick": "#answer-pick", "spread": "#answer-spread", "why": "#answer-why"}
    assert "return names[0]" in shown.find(id="answer-pick").text
    assert len({tag["id"] for tag in shown.find_all(id=True)}) == len(shown.find_all(id=True))


def commented(tmp_path, said):
    classroom.record(tmp_path, classroom.verdict("ada"))
    with record.book(tmp_path, TINY) as book:
        book.find_comment("why", TINY.name, TINY.name, "ada").manual_comment = said
        book.db.commit()
    [kept] = record.whole(tmp_path, TINY)
    return BeautifulSoup(feedback.render(TINY, kept), "html.parser")


def test_a_comment_given_by_hand_is_rendered(tmp_path):
    said = commented(tmp_path, "Look at **both** ends:\n\n- the [page](https://example.org)\n- `pick`").find(
        class_="comment"
    )
    assert said.strong.text == "both"
    assert [each.text for each in said.find_all("li")] == ["the page", "pick"]
    assert said.a["href"] == "https://example.org"


@pytest.mark.parametrize(
    "attack",
    [*ATTACKS, "![x](https://example.org/x.png)", "```perl\nx\n```", HOSTILE.replace("\ud800", "").replace("\x00", "")],
)
def test_nothing_of_a_comment_that_quotes_a_student_runs_or_loads(tmp_path, attack):
    shown = commented(tmp_path, f"You wrote {attack}")
    assert_harmless(shown)
    assert not shown.find("img")
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e]", str(shown))


def test_who_is_late_reads_which_due_date_counted_where_the_class_is(tmp_path):
    late_penalty.settle(tmp_path, TINY, "2026-03-02T01:00+01:00", "10%", None)
    classroom.record(tmp_path, classroom.verdict("ada"), at="2026-03-04 12:30:00 UTC")
    with record.book(tmp_path, TINY) as book:  # as the formgrader grants it
        book.grant_extension(TINY.name, "ada", days=1)
    classroom.record(tmp_path, classroom.verdict("ada"), at="2026-03-04 12:30:00 UTC")
    [kept] = record.whole(tmp_path, TINY)
    said = BeautifulSoup(feedback.render(TINY, kept), "html.parser").text
    assert "due on 2026-03-03 01:00 +01:00 and came on 2026-03-04 13:30 +01:00, 1 d 12 h 30 min late" in said
    assert "1 point taken off" in said


def test_the_executed_notebook_is_shown_with_pictures(page):
    outputs = [v4.new_output("display_data", data={"image/png": classroom.PICTURE}), v4.new_output("stream", text="hi")]
    shown = page(notebook=classroom.answered(TINY, outputs, pick="def pick(names):\n    return names[-1]"))
    assert shown.find("img")["src"].endswith(classroom.PICTURE)
    assert "return names[-1]" in shown.text
    assert "hi" in shown.text


def test_a_submission_that_could_not_be_read_gets_its_page(page):
    shown = page(INVALID, INVALID, INVALID, notebook=TINY.release)
    assert "is no JSON; open it in JupyterLab" in shown.find("section").text


def test_a_part_of_the_points_says_how_it_was_rounded(page):
    assert "A part of an exercise's points is rounded down to a multiple of 0.25." in page().text
