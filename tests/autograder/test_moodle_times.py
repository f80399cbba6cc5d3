"""Through the command: who is late in a Moodle download, whose members have the time of the download; and times like these."""

import csv
import os
from datetime import datetime, timedelta
from pathlib import Path

import classroom
import courses
import lms_downloads
import pytest
from boxed import needs_a_box
from classroom import TINY
from lms_downloads import MADE
from small_course import NAME, RIGHT, command
from test_canvas_times import taken_off

from autograder.gradebook import late_penalty
from autograder.model.course import CourseError
from autograder.report import rendering
from autograder.submissions import moments
from autograder.submissions.times import Times

DUE = "2026-11-15T23:59 Europe/Vienna"  # before the download
HEAD = ("Identifier", "Full name", "Status", "Grade", "Maximum Grade", "Last modified (submission)", "Feedback")


def worksheet(path: Path, said: dict[int, str], delimiter: str = ",") -> Path:
    """As Moodle writes it: participant -> when, in words."""
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        rows = [(f"Participant {number}", "X", "Submitted", "", "5.00", when, "") for number, when in said.items()]
        csv.writer(file, delimiter=delimiter).writerows([HEAD, *rows])
    return path


@needs_a_box
def test_in_a_moodle_download_only_the_worksheet_and_the_instructor_say_who_is_late(small, tmp_path):
    source = lms_downloads.moodle(tmp_path / "moodle.zip", NAME, courses.answered(small, NAME, RIGHT))
    out = tmp_path / "out"
    grade = ("grade", NAME, "--submissions", source, "--out", out)
    done = command(*grade, "--due", DUE, "--late-per-day", "10%", root=small.root)
    assert set(taken_off(small, out).values()) == {(0.0, 0.0)}
    said = "moodle.zip: nothing says when 7 students handed in, so nothing is taken off: all files of a Moodle download"
    assert said in done.stderr
    assert not list((out / "submitted").glob("*/*/timestamp.txt"))

    told = {200: "Sunday, 15 November 2026, 11:59 PM", 204: "Monday, 16 November 2026, 9:14 AM", 205: "-"}
    done = command(*grade, "--handed-in", worksheet(tmp_path / "worksheet.csv", told), root=small.root)
    found = taken_off(small, out)
    assert found.pop("Eve Adams") == (9 * 3600 + 15 * 60, 0.5)  # 10% of 5 points
    assert set(found.values()) == {(0.0, 0.0)}
    assert "nothing says when 5 students" in done.stderr


@pytest.mark.parametrize(
    ("said", "when"),
    [
        ("Sunday, 25 October 2026, 1:30 AM", "2026-10-24 23:30"),  # the clock goes back that night
        ("Sunday, 25 October 2026, 9:30 AM", "2026-10-25 08:30"),
        ("Sunday, 25 Oct 2026, 9:30\u202fAM", "2026-10-25 08:30"),
        ("Sunday, 5 July 2026, 21:30", "2026-07-05 19:30"),
    ],
)
def test_a_worksheets_times_are_those_of_the_zone_in_which_moodle_shows_them(tmp_path, said, when):
    table = Times(worksheet(tmp_path / "w.csv", {200: said}, ";"), classroom.NAME, "Europe/Vienna")
    found = table.find("ada", "200")
    assert found
    assert found.when == f"{when}:00.000000 UTC"


def test_a_worksheets_time_without_a_zone_is_refused_with_the_mend(tmp_path):
    path = worksheet(tmp_path / "w.csv", {200: "Sunday, 25 October 2026, 1:30 AM"})
    with pytest.raises(CourseError, match=r"w\.csv, line 2: .* does not say where; name the zone .* --due '"):
        Times(path, classroom.NAME)
    with pytest.raises(CourseError, match=r"line 2: .* does not say where"):  # clocks change
        Times(path, classroom.NAME, "+01:00")
    with pytest.raises(CourseError, match=r"w\.csv.*this machine knows no zone 'Europe/Wien'"):
        Times(path, classroom.NAME, "Europe/Wien")


def test_the_zone_of_a_due_date_is_kept_for_the_class(tmp_path):
    late_penalty.settle(tmp_path, TINY, "2026-01-05T12:00+01:00", "10%", None)
    assert late_penalty.zone(tmp_path) == "+01:00"
    late_penalty.settle(tmp_path, TINY, "2026-07-05T12:00 Europe/Vienna", None, None)
    assert "'2026-07-05T10:00:00Z'" in (tmp_path / "nbgrader_config.py").read_text()
    late_penalty.settle(tmp_path, TINY, "2026-01-05T12:00+01:00", None, None)
    assert late_penalty.zone(tmp_path) == "Europe/Vienna"
    for said, kept in (("2026-01-05T12:00 UTC", "UTC"), ("2026-01-05T12:00+0100", "UTC")):
        late_penalty.settle(tmp_path / kept, TINY, said, None, None)
    assert late_penalty.zone(tmp_path / "UTC") == "+01:00"
    with pytest.raises(CourseError, match="this machine knows no zone 'Foo/Bar'"):
        late_penalty.settle(tmp_path, TINY, "2026-01-05T12:00+01:00 Foo/Bar", None, None)


@pytest.mark.parametrize(
    ("zone", "shown"),
    [
        ("UTC", "2026-01-05 12:00 UTC"),
        ("CET", "2026-01-05 13:00 CET"),
        ("Europe/Vienna", "2026-01-05 13:00 Europe/Vienna"),
        ("-03:30", "2026-01-05 08:30 -03:30"),
        ("", "2026-01-05 12:00 UTC"),
        ("Foo/Bar", "2026-01-05 12:00 UTC"),
    ],
)
def test_a_moment_is_shown_where_the_class_is(zone, shown):
    assert rendering.moment(datetime(2026, 1, 5, 12), zone) == shown


@needs_a_box
@pytest.mark.whole
def test_times_that_only_grow_from_file_to_file_stop_the_command_where_somebody_is_late(small, tmp_path):
    notebook = courses.answered(small, NAME, RIGHT)
    (tmp_path / "class").mkdir()
    for number, student in enumerate(("ada", "bob", "cem")):
        path = tmp_path / "class" / f"{student}_90_small.ipynb"
        path.write_bytes(notebook)
        when = MADE.timestamp() + number
        os.utime(path, (when, when))
    pattern = ("--name-pattern", r"(?P<student_id>[a-z]+)_(?P<file_id>.+)")
    grade = ("grade", NAME, "--submissions", tmp_path / "class", "--out", tmp_path / "out", *pattern)
    command(*grade, "--due", "2026-12-24T12:00Z", "--late-per-day", "10%", root=small.root)
    done = command(*grade, "--due", "2026-11-15T12:00Z", root=small.root, code=2)
    assert "3 are late by times that only grow from file to file, ada for one" in done.stderr
    assert {off for _, off in taken_off(small, tmp_path / "out").values()} == {0.0}
    command(*grade, "--anyway", root=small.root)
    assert all(off > 0 for _, off in taken_off(small, tmp_path / "out").values())


def test_a_class_that_hands_in_over_hours_is_no_download():
    def after(*seconds):
        return [MADE + timedelta(seconds=each) for each in seconds]

    assert moments.streamed(after(0, 0, 2, 40))
    assert not moments.streamed(after(0, 30, 20))
    assert not moments.streamed(after(0, 30, 3600))
    assert not moments.streamed(after(0, 1))
