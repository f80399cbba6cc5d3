"""Where a class comes from: whose each file is, which one is taken, and that hostile archives cost nobody else."""

import csv
import os
import stat
import struct
import zipfile

import lms_downloads
import pytest
from classroom import NAME, TINY
from lms_downloads import put, zipped
from stock import Exchange

from autograder.model.course import CourseError
from autograder.submissions import folders, handed_in, intake, members
from autograder.submissions.downloads import gathered
from autograder.submissions.filenames import Layout, pattern


def take(source, names="", **how):
    """What is gathered: student -> the file's bytes; and the lines."""
    with gathered(source, TINY, names=pattern(names), **how) as found:
        files = {each.parent.parent.name: each.read_bytes() for each in found.folder.glob(f"*/{NAME}/{NAME}.ipynb")}
        stamps = {each.parent.parent.name: each.read_text() for each in found.folder.glob("*/*/timestamp.txt")}
        return files, stamps, found


def good_and(path, **members):
    return zipped(path, {f"good_1_2_{NAME}.ipynb": b"good", **members})


def line(found, part):
    return next(each for each in found.lines if part in each.file)


# downloads


def test_a_canvas_download_gives_each_student_their_newest_file(tmp_path):
    files, _, found = take(lms_downloads.canvas(tmp_path / "submissions.zip", NAME, b"newest"))
    assert set(files) == {
        "lovelaceada_100", "brownbob_101", "öztürkcem_102", "scullydana_103", "adamseve_104", "wrayfay_105",
    }  # fmt: skip
    assert set(files.values()) == {b"newest"}
    assert found.layout is Layout.CANVAS
    assert "LATE" in line(found, "adamseve").note
    assert line(found, "-2.ipynb").note.startswith("the newest of 3 files")
    assert sorted(each.file for each in found.lines if each.taken == "older") == [
        f"wrayfay_105_8000_{NAME}-9.ipynb", f"wrayfay_105_9005_{NAME}.ipynb",
    ]  # fmt: skip
    assert "no notebook" in line(found, "photo.png").note
    assert (found.attempts["wrayfay_105"], found.attempts["brownbob_101"]) == ("3 of 3", "1 of 1")


def test_an_attempt_is_told_by_when_it_came_and_not_by_which_one_counts(tmp_path):
    source = good_and(tmp_path / "x.zip", **{f"eve_5_60_{NAME}.ipynb": b"named", "eve_5_61_other.ipynb": b"later"})
    files, _, found = take(source)
    assert (files["eve_5"], found.attempts["eve_5"]) == (b"named", "1 of 2")


def test_a_moodle_download_gives_each_student_their_file_and_tells_namesakes_apart(tmp_path):
    files, stamps, found = take(lms_downloads.moodle(tmp_path / "moodle.zip", NAME))
    assert set(files) == {
        "Ada Lovelace", "Bob Brown_201", "Bob Brown_299", "Cem Öztürk", "Dana Scully", "Eve Adams", "Fay Wray",
    }  # fmt: skip
    assert stamps == {}
    assert line(found, "Eve Adams_204_assignsubmission_file_").when_from == "a Moodle download does not say"
    assert "no notebook" in line(found, "onlinetext").note


def test_moodles_download_without_folders_and_an_unpacked_one_are_read_too(tmp_path):
    flat = tmp_path / f"Ada Lovelace_200_assignsubmission_file_{NAME}.ipynb"
    flat.write_bytes(b"flat")
    assert take(tmp_path)[0] == {"Ada Lovelace": b"flat"}
    with zipfile.ZipFile(lms_downloads.moodle(tmp_path / "moodle.zip", NAME)) as archive:
        archive.extractall(tmp_path / "unpacked")
    assert len(take(tmp_path / "unpacked")[0]) == 7


def test_a_students_timestamp_in_a_download_is_not_believed(tmp_path):
    front = "Eve_5_assignsubmission_file_"
    files = {f"{front}/{NAME}.ipynb": b"", f"{front}/timestamp.txt": b"2020-01-01 00:00:00 UTC"}
    assert take(zipped(tmp_path / "m.zip", files))[1] == {}


def test_a_zip_of_nbgraders_folders_is_read_with_its_timestamps(tmp_path):
    hers = {f"class/ada/{NAME}/{NAME}.ipynb": b"hers", f"class/ada/{NAME}/timestamp.txt": b"2026-11-29 10:00 UTC"}
    files, stamps, found = take(zipped(tmp_path / "x.zip", {**hers, f"class/bob/{NAME}/{NAME}.ipynb": b"his"}))
    assert files == {"ada": b"hers", "bob": b"his"}
    assert stamps["ada"] == "2026-11-29 10:00:00.000000 UTC"
    assert line(found, "ada").when_from == "timestamp.txt"


def test_a_pattern_of_nbgrader_zip_collect_serves(tmp_path):
    source = zipped(tmp_path / "x.zip", {"ps1_bitdiddle_attempt_2016-01-30-15-00-00_01_tiny.ipynb": b"his"})
    pattern = r".*?_(?P<student_id>\w+)_attempt_(?P<timestamp>[0-9\-]+)_(?P<file_id>\w+)"
    files, stamps, _ = take(source, names=pattern)
    assert files == {"bitdiddle": b"his"}
    assert stamps == {"bitdiddle": "2016-01-30 15:00:00.000000 UTC"}


@pytest.mark.parametrize(("pattern", "says"), [("(", "no regular expression"), ("x", "names no group file_id")])
def test_a_pattern_that_cannot_serve_is_refused(tmp_path, pattern, says):
    with pytest.raises(CourseError, match=says):
        take(good_and(tmp_path / "x.zip"), names=pattern)


# the roster


def roster(tmp_path, text):
    path = tmp_path / "roster.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_roster_says_who_is_who_by_number_and_by_name(tmp_path):
    text = 'id,name,lms id\nal1,,100\nbb2,Bob Brown,\nco3,"Öztürk, Cem",\n'
    files, _, found = take(lms_downloads.canvas(tmp_path / "c.zip", NAME), roster=roster(tmp_path, text))
    assert {"al1", "bb2", "co3", "scullydana_103"} <= set(files)
    assert "add a line" in line(found, "scullydana").note


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name\nAda\n", "must name the columns"),
        ("id,name\nada,Ada\nada,Ada L\n", "line 3: the id 'ada' stands on an earlier line"),
        ("id,lms id\nada,1\nbob,1\n", "line 3: the lms id 1 is another"),
        ("id,name\n../x,Ada\n", "line 2: '../x' is no id"),
    ],
)
def test_a_roster_that_cannot_be_right_is_refused_with_its_line(tmp_path, text, says):
    with pytest.raises(CourseError, match=says):
        take(good_and(tmp_path / "x.zip"), roster=roster(tmp_path, text))


def test_a_name_that_two_students_have_is_nobodys(tmp_path):
    text = "id,name\nb1,Bob Brown\nb2,Bob Brown\n"
    files, _, found = take(lms_downloads.canvas(tmp_path / "c.zip", NAME), roster=roster(tmp_path, text))
    assert "brownbob_101" in files
    assert "2 students are called so" in line(found, f"brownbob_101_9001_{NAME}").note


# nbgrader's exchange, by the stock commands


@pytest.fixture(scope="module")
def exchange(tmp_path_factory):
    """An exchange into which three students submitted by `nbgrader submit`, one of them twice."""
    made = Exchange(tmp_path_factory.mktemp("exchange"), "across", NAME)
    for student, says in (("ada", b"1"), ("ada", b"2"), ("ceyda", b"1")):
        made.submit(student, says)
    return made


def test_what_students_submitted_by_nbgrader_is_found_newest_first(exchange):
    for source in (exchange.root / "across", exchange.root / "across" / "inbound"):
        files, stamps, found = take(source)
        assert found.layout is Layout.EXCHANGE
        assert files["ada"] == b"2"
        assert files["ceyda"] == b"1"
        assert all(intake.DATE.fullmatch(stamp) for stamp in stamps.values())


@pytest.mark.whole
def test_what_nbgrader_collects_of_the_exchange_is_read_as_folders(exchange, tmp_path):
    exchange.run(tmp_path, "collect", NAME)
    with gathered(tmp_path / "submitted", TINY) as found:
        assert found.layout is Layout.NBGRADER
        read = {each.student: each.folder / NAME / f"{NAME}.ipynb" for each in intake.collect(found.folder, TINY)}
        assert read["ada"].read_bytes() == b"2"


def test_a_backdated_timestamp_does_not_count(tmp_path):
    place = tmp_path / "inbound" / f"ada+{NAME}+2026-11-30 12:00:00.000000 UTC+abc"
    place.mkdir(parents=True)
    (place / f"{NAME}.ipynb").write_bytes(b"")
    (place / "timestamp.txt").write_text("2026-11-01 12:00:00 UTC")
    _, stamps, found = take(tmp_path / "inbound")
    assert stamps == {"ada": "2026-11-30 12:00:00.000000 UTC"}
    assert "older than the folder's name" in found.lines[0].note


# hostile archives


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        (f"../../good_1_9_{NAME}.ipynb", b"out", "leads out"),
        (f"/good_1_9_{NAME}.ipynb", b"out", "leads out"),
        (f"..\\good_1_9_{NAME}.ipynb", b"out", "leads out"),
        (f"C:/good_1_9_{NAME}.ipynb", b"out", "leads out"),
        (f"{'x' * 1100}_5_6_{NAME}.ipynb", b"long", "at most 1000"),
        (f"{'x' * 300}_5_6_{NAME}.ipynb", b"long", "too long for a file"),
        ("eve_5_6_more.zip", b"PK", "not one notebook in a zip"),
        ("readme.txt", b"?", "is none of"),
    ],
)
def test_a_name_that_misleads_is_passed_over_with_the_reason(tmp_path, name, data, says):
    files, _, found = take(good_and(tmp_path / "x.zip", **{name: data}))
    assert files == {"good_1": b"good"}
    assert [each.note for each in found.lines if each.taken in ("no", "instead") and says in each.note]


def test_a_bomb_costs_only_its_student(tmp_path):
    files, _, found = take(good_and(tmp_path / "x.zip", **{f"eve_5_6_{NAME}.ipynb": bytes(50 << 20)}))
    assert files == {"good_1": b"good", "eve_5": b""}
    assert "no notebook does" in line(found, "eve").note


def test_a_large_notebook_is_read_no_further_than_the_cap(tmp_path):
    noise = os.urandom(1 << 20) * 8
    files, _, _ = take(good_and(tmp_path / "x.zip", **{f"eve_5_6_{NAME}.ipynb": noise}))
    assert len(files["eve_5"]) == TINY.limits.notebook_bytes + 1


def test_names_of_newlines_controls_and_case_stay_different_students(tmp_path):
    strange = [f"e\nve_5_6_{NAME}.ipynb", f"e\u202eve_7_8_{NAME}.ipynb", f"GOOD_1_2_{NAME}.ipynb"]
    _, _, found = take(good_and(tmp_path / "x.zip", **dict.fromkeys(strange, b"")))
    assert found.students == ("GOOD_1", "e\\nve_5", "e\\u202eve_7", "good_1")
    path = handed_in.write_list(tmp_path / "out", found, NAME)
    with open(path, encoding="utf-8", newline="") as file:
        assert len(list(csv.reader(file))) == 5
    assert len(path.read_text().splitlines()) == 5


def test_a_member_written_twice_counts_once(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        put(archive, f"ada_1_2_{NAME}.ipynb", b"first")
        with pytest.warns(UserWarning, match="Duplicate"):
            put(archive, f"ada_1_2_{NAME}.ipynb", b"second")
    files, _, found = take(tmp_path / "x.zip")
    assert files == {"ada_1": b"second"}
    assert [each.taken for each in found.lines] == ["yes", "older"]


@pytest.mark.parametrize(
    ("offset", "value", "says"),
    [
        (8, struct.pack("<H", 1), "encrypted"),
        (10, struct.pack("<H", 14), "method"),
        (16, b"\0\0\0\0", "damaged"),
        (38, struct.pack("<I", 0o120777 << 16), "no plain file"),
        (20, struct.pack("<I", 1 << 30), "overlaps"),
    ],
)
def test_a_member_that_lies_costs_only_its_student(tmp_path, offset, value, says):
    source = good_and(tmp_path / "x.zip", **{f"eve_5_6_{NAME}.ipynb": b"hers", f"fay_7_8_{NAME}.ipynb": b"hers"})
    data = bytearray(source.read_bytes())
    at = data.rfind(b"PK\1\2", 0, data.rfind(b"eve_5_6"))
    data[at + offset : at + offset + len(value)] = value
    source.write_bytes(bytes(data))
    files, _, found = take(source)
    assert files == {"good_1": b"good", "eve_5": b"", "fay_7": b"hers"}
    assert says in line(found, "eve").note


@pytest.mark.parametrize(
    "data", [b"", b"plain text", b"PK\3\4" + bytes(500), b"\x1f\x8b" + bytes(50), b"\xfd7zXZ\0" + bytes(99)]
)
def test_what_is_no_archive_is_refused_with_the_mend(tmp_path, data):
    (tmp_path / "x.zip").write_bytes(data)
    with pytest.raises(CourseError, match=r"x\.zip: .*(download it again|unpack it)"):
        take(tmp_path / "x.zip")


def test_an_archive_of_strangers_names_is_refused_with_the_mend(tmp_path):
    with pytest.raises(CourseError, match="--name-pattern"):
        take(zipped(tmp_path / "x.zip", {"notes.txt": b""}))


def test_a_link_in_an_exchange_is_not_followed(tmp_path):
    place = tmp_path / "inbound" / f"ada+{NAME}+2026-11-30 12:00:00.000000 UTC+abc"
    place.mkdir(parents=True)
    (tmp_path / "secret").write_bytes(b"secret")
    (place / f"{NAME}.ipynb").symlink_to(tmp_path / "secret")
    assert take(tmp_path / "inbound")[0] == {"ada": b""}


def test_a_file_swapped_for_a_link_after_the_look_is_not_followed(tmp_path):
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "class" / "a").mkdir(parents=True)
    (tmp_path / "class" / "a" / "x").write_bytes(b"hers")
    (member,) = folders.listed(tmp_path / "class", lambda name: True, lambda parts, user: parts)
    (tmp_path / "class" / "a" / "x").unlink()
    (tmp_path / "class" / "a" / "x").symlink_to(tmp_path / "secret")
    with pytest.raises(members.UnreadableError):
        member.read(100)


def test_the_private_folder_is_private_and_gone_afterwards(tmp_path):
    with gathered(good_and(tmp_path / "x.zip"), TINY) as found:
        assert stat.S_IMODE(found.folder.stat().st_mode) == 0o700
    assert not found.folder.exists()
