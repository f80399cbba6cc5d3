"""Through the command: who is late in a Canvas download, whose members all have the time of the download."""

import zipfile

import classroom
import courses
import lms_downloads
import pytest
from boxed import needs_a_box
from classroom import TINY
from small_course import NAME, RIGHT, command

from autograder.model.course import CourseError
from autograder.submissions.downloads import gathered

DUE = "2026-11-15T23:59+00:00"
LATE = ("--due", DUE, "--late-per-day", "10%")


def taken_off(course, out):
    """Student -> how late, and what was taken off."""
    from autograder.gradebook import record

    return {each.student: (each.seconds_late, each.penalty) for each in record.records(out, course.chapter(NAME))}


@needs_a_box
@pytest.mark.whole
def test_in_a_canvas_download_only_late_and_a_time_cost_points(small, tmp_path):
    source = lms_downloads.canvas(
        tmp_path / "submissions.zip", NAME, courses.answered(small, NAME, RIGHT)
    )  # all its members: after the due date
    out = tmp_path / "out"
    done = command("grade", NAME, "--submissions", source, "--out", out, *LATE, root=small.root)
    assert set(taken_off(small, out).values()) == {(0.0, 0.0)}
    assert "adamseve_104): Canvas says LATE, and not when: nothing is taken off until" in done.stderr
    assert "lovelaceada" not in done.stderr
    assert not list((out / "submitted").glob("*/*/timestamp.txt"))

    times = tmp_path / "times.csv"
    times.write_text("id,handed in\nadamseve_104,2026-11-16T12:00+00:00\nlovelaceada_100,2026-11-20T12:00+00:00\n")
    again = ("--handed-in", times)
    done = command("grade", NAME, "--submissions", source, "--out", out, *again, root=small.root)
    found = taken_off(small, out)
    assert found.pop("adamseve_104") == (43260.0, 0.5)  # 10% of 5 points
    assert set(found.values()) == {(0.0, 0.0)}
    assert "times.csv: Canvas does not say LATE of 1 whom it names: they are on time" in done.stderr


@pytest.mark.parametrize("download", [lms_downloads.canvas, lms_downloads.moodle])
def test_a_folder_into_which_a_download_was_unpacked_tells_no_times_either(tmp_path, download):
    with zipfile.ZipFile(download(tmp_path / "c.zip", classroom.NAME)) as archive:
        archive.extractall(tmp_path / "unpacked")
    with gathered(tmp_path / "unpacked", TINY) as found:
        assert not list(found.folder.glob("*/*/timestamp.txt"))
        assert {line.when for line in found.lines} == {""}


def times(tmp_path, text):
    path = tmp_path / "times.csv"
    path.write_text(text, encoding="utf-8")
    return path


def stamps(source, table):
    with gathered(source, TINY, times=table) as found:
        said = {each.parent.parent.name: each.read_text() for each in found.folder.glob("*/*/timestamp.txt")}
        return said, [line.note for line in found.lines if line.file == "times.csv"]


def test_the_columns_of_canvass_api_are_read_and_its_late_goes_before_the_name(tmp_path):
    source = lms_downloads.canvas(tmp_path / "c.zip", classroom.NAME)
    text = "user_id,submitted_at,late\n100,2026-12-01T01:00:00+01:00,true\n104,2026-12-02T00:00:00Z,false\n105,,false\n"
    said, notes = stamps(source, times(tmp_path, text))
    assert said == {"lovelaceada_100": "2026-12-01 00:00:00.000000 UTC"}
    assert notes == []


def test_a_table_of_times_goes_before_a_files_own_time_elsewhere_and_names_whom_nobody_is(tmp_path):
    source = lms_downloads.moodle(tmp_path / "m.zip", classroom.NAME)
    text = f"id,handed in,chapter\nEve Adams,2026-11-30T12:00Z,{classroom.NAME}\nEve Adams,2026-11-01T12:00Z,09_other\n"
    said, notes = stamps(source, times(tmp_path, f"{text}Zoe,2026-11-30T12:00Z,\n"))
    assert said["Eve Adams"] == "2026-11-30 12:00:00.000000 UTC"
    (note,) = notes
    assert note.endswith("line 4 (Zoe): of nobody who handed in")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("id,when\nada,x\n", "its first line must name the columns"),
        ("id,handed in\nada,yesterday\n", r"line 2: 'yesterday' is no date; write it like"),
        ("id,handed in\nada,2026-11-30T12:00\n", "line 2: .* add the offset"),
        ("id,handed in\nada,2026-11-30T12:00Z\nada,2026-11-29T12:00Z\n", "line 3: ada stands on an earlier line"),
        ("id,handed in,late\nada,2026-11-30T12:00Z,maybe\n", "line 2: late: 'maybe'; write yes or no"),
        ("id,handed in\n,2026-11-30T12:00Z\n", "line 2: it says a time, but of nobody"),
    ],
)
def test_a_table_of_times_that_cannot_be_right_is_refused_with_its_line(tmp_path, text, says):
    with pytest.raises(CourseError, match=rf"times\.csv.*{says}"):
        stamps(lms_downloads.canvas(tmp_path / "c.zip", classroom.NAME), times(tmp_path, text))


def test_nbgraders_folders_say_themselves_when(tmp_path):
    (tmp_path / "class" / "ada" / classroom.NAME).mkdir(parents=True)
    with pytest.raises(CourseError, match=r"timestamp\.txt; write it there"):
        stamps(tmp_path / "class", times(tmp_path, "id,handed in\nada,2026-11-30T12:00Z\n"))
