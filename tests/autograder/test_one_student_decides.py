"""No student decides what another handed in, loses it, or stops the command: layouts, accounts, numbers of files."""

import csv
import os
from datetime import UTC, datetime, timedelta

import courses
import pytest
from classroom import NAME, TINY
from lms_downloads import zipped
from small_course import NAME as SMALL
from small_course import command
from test_handed_in import line, roster, take

from autograder.model import harmless
from autograder.model.course import CourseError
from autograder.submissions import arrivals, downloads, exchange, folders, intake
from autograder.submissions.downloads import gathered
from autograder.submissions.filenames import Layout

STAMP = "2026-11-30 12:00:00.000000 UTC"


def lay(folder, files):
    """Write files below a folder: path -> bytes."""
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder


def canvas(count=6):
    return {f"s{n}_{100 + n}_{9000 + n}_{NAME}.ipynb": b"%d" % n for n in range(count)}


def moodle(count=6):
    return {f"Student {n}_{100 + n}_assignsubmission_file_/{NAME}.ipynb": b"%d" % n for n in range(count)}


def everyone(count=6):
    return {f"s{n}_{100 + n}": b"%d" % n for n in range(count)}


# who named the files


def test_the_root_of_an_exchange_is_refused_with_the_course_to_give_instead(tmp_path):
    lay(tmp_path, {f"across/inbound/ada+{NAME}+{STAMP}+x/{NAME}.ipynb": b"", "across/outbound/x": b""})
    with pytest.raises(CourseError, match=r"give the course's own folder.*/across"):
        take(tmp_path)


@pytest.mark.parametrize("unpacked", [False, True])
def test_a_file_named_like_moodles_does_not_make_canvas_a_moodle_download(tmp_path, unpacked):
    files = {**canvas(), f"eve_5_6_x_9_assignsubmission_file_{NAME}.ipynb": b"hers"}
    (tmp_path / "in").mkdir()
    source = lay(tmp_path / "in", files) if unpacked else zipped(tmp_path / "x.zip", files)
    taken, _, found = take(source)
    assert found.layout is Layout.CANVAS
    assert taken == everyone() | {"eve_5": b"hers"}


def test_backslashes_of_an_archive_made_on_windows_part_folders(tmp_path):
    named = {name.replace("/", "\\"): data for name, data in moodle().items()}
    assert len(take(zipped(tmp_path / "x.zip", named, system=0))[0]) == 6


def test_notebooks_that_do_not_fit_the_layout_are_an_error_and_the_others_are_taken(tmp_path):
    strange = {"strange.ipynb": b"", f"Ada_1_assignsubmission_file_/{NAME}.ipynb": b"", "readme.txt": b""}
    files, _, found = take(zipped(tmp_path / "x.zip", {**canvas(), **strange}))
    assert files == everyone()
    assert {each.file for each in found.lines if each.lost} == set(strange) - {"readme.txt"}
    assert found.lost == 2
    assert "not taken" in found.trouble(1)[0]  # the worst comes first


def test_a_download_that_lies_among_nbgraders_folders_is_an_error(tmp_path):
    lay(tmp_path, {f"ada/{NAME}/{NAME}.ipynb": b"", f"bob_1_2_{NAME}.ipynb": b"", "notes.ipynb": b""})
    with gathered(tmp_path, TINY) as found:  # which are used as they are
        assert (found.folder, found.layout, found.students) == (tmp_path, Layout.NBGRADER, ())
        assert [each.file for each in found.lines if each.lost] == [f"bob_1_2_{NAME}.ipynb"]


def test_what_a_mac_adds_to_an_archive_is_nobodys(tmp_path):
    files = {
        f"class/ada/{NAME}/{NAME}.ipynb": b"hers",
        f"__MACOSX/class/ada/{NAME}/._{NAME}.ipynb": b"",
        ".DS_Store": b"",
    }
    taken, _, found = take(zipped(tmp_path / "x.zip", files))
    assert (taken, found.lost) == ({"ada": b"hers"}, 0)


# whose they are


def test_two_numbers_that_a_roster_takes_for_one_student_are_neither(tmp_path):
    files = {"lovelaceada_5_6_x.ipynb": b"hers", "lovelaceada_9_99_x.ipynb": b"forged"}
    source = zipped(tmp_path / "x.zip", {**canvas(1), **files})
    taken, _, found = take(source, roster=roster(tmp_path, "id,name\nal1,Ada Lovelace\ns0,s0\n"))
    assert taken == {"s0": b"0"}
    assert {each.file for each in found.lines if each.lost} == set(files)
    assert "5, 9" in line(found, "lovelaceada_5").note


def test_a_roster_with_lms_ids_tells_namesakes_and_impostors_apart(tmp_path):
    files = {"lovelaceada_5_6_x.ipynb": b"hers", "lovelaceada_9_99_x.ipynb": b"forged"}
    text = "id,name,lms id\nal1,Ada Lovelace,5\n"
    taken, _, found = take(zipped(tmp_path / "x.zip", files), roster=roster(tmp_path, text))
    assert taken == {"al1": b"hers", "lovelaceada_9": b"forged"}
    assert "al1" in line(found, "lovelaceada_9").note


@pytest.mark.parametrize("text", ["id,name,lms id\nal1,Ada Lovelace,5\n", "id,name,lms id\nal1,,5\n"])
def test_a_display_name_that_is_anothers_id_takes_nothing_of_theirs(tmp_path, text):
    files = {f"al1_9_assignsubmission_file_/{NAME}.ipynb": b"forged"}
    taken, _, _ = take(zipped(tmp_path / "x.zip", files), roster=roster(tmp_path, text))
    assert "al1" not in taken
    files[f"Ada Lovelace_5_assignsubmission_file_/{NAME}.ipynb"] = b"hers"
    taken, _, _ = take(zipped(tmp_path / "y.zip", files), roster=roster(tmp_path, text))
    assert taken["al1"] == b"hers"


def test_a_name_and_a_number_of_two_students_are_taken_for_neither(tmp_path):
    text = "id,name,lms id\nal1,Ada Lovelace,5\nbb1,Bob Brown,7\n"
    files = {f"brownbob_5_6_{NAME}.ipynb": b"?", f"brownbob_7_8_{NAME}.ipynb": b"his"}
    taken, _, found = take(zipped(tmp_path / "x.zip", files), roster=roster(tmp_path, text))
    assert taken == {"bb1": b"his", "brownbob_5": b"?"}
    assert "correct one" in line(found, "brownbob_5").note


def test_a_display_name_with_anothers_number_in_it_does_not_go_before_their_own(tmp_path):
    # Canvas leaves `_12 3_` of a name alone and drops the blank after that
    forged = f"lovelaceada_123_99999_105_777_{NAME}.ipynb"
    files = {"lovelaceada_123_9001_mine.ipynb": b"hers", forged: b"forged"}
    taken, _, found = take(zipped(tmp_path / "x.zip", files))
    assert taken == {"lovelaceada_123": b"hers"}
    assert "another" in line(found, "105_777").note


def test_a_canvas_name_with_an_underscore_a_nameless_student_and_a_file_of_no_name_are_read(tmp_path):
    files = {f"van_derbob_7_8_{NAME}.ipynb": b"his", f"_9_8_{NAME}.ipynb": b"nameless", "eve_5_6_.ipynb": b"hers"}
    taken, _, found = take(zipped(tmp_path / "x.zip", {**canvas(1), **files}))
    assert taken == everyone(1) | {"van_derbob_7": b"his", "_9": b"nameless", "eve_5": b"hers"}
    assert not found.lost


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a folder away")
def test_in_an_exchange_a_folder_for_another_user_of_the_machine_is_not_taken(tmp_path, monkeypatch):
    lay(tmp_path, {f"inbound/ada+{NAME}+{STAMP}+x/{NAME}.ipynb": b"forged", "outbound/x": b""})
    os.chown(tmp_path / "inbound" / f"ada+{NAME}+{STAMP}+x", 12345, -1)
    assert take(tmp_path)[0] == {"ada": b"forged"}  # nobody here is called so: who knows
    monkeypatch.setattr(exchange, "number_of", lambda name: 999 if name == "ada" else None)
    files, _, found = take(tmp_path)
    assert files == {}
    assert found.lost == 1


def handed(root, owners):
    """An exchange on a hub whose users are called otherwise than its students: (name, hour) -> the user's number."""
    (root / "outbound").mkdir(parents=True, exist_ok=True)
    for (name, hour), owner in owners.items():
        place = root / "inbound" / f"{name}+{NAME}+2026-11-30 {hour:02}:00:00.000000 UTC+x"
        lay(place, {f"{NAME}.ipynb": f"{owner}".encode()})
        os.chown(place, owner, -1)
    return root


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give folders away")


@needs_root
def test_who_hands_in_under_several_names_takes_nobodys_place(tmp_path):
    ada, mallory = 12345, 12346
    source = handed(tmp_path, {("ada", 10): ada, ("ada", 23): mallory, ("mallory", 9): mallory, ("bob", 1): 12347})
    files, _, found = take(source)
    assert files == {"ada": b"12345", "bob": b"12347"}
    assert any("2 names" in says for says in found.trouble())


@needs_root
def test_of_two_who_hand_in_under_one_name_neither_is_taken(tmp_path):
    files, _, found = take(handed(tmp_path, {("ada", 10): 12345, ("ada", 23): 12346, ("bob", 1): 12347}))
    assert files == {"bob": b"12347"}
    assert found.lost == 2


@needs_root
@pytest.mark.parametrize("hour", [9, 23])
def test_who_takes_anothers_name_keeps_nobody_out_who_never_had_another(tmp_path, hour):
    ada, mallory = 12345, 12346
    before = f"mallory+02_other+{STAMP}+x"  # her name in another chapter
    lay(tmp_path, {f"inbound/{before}/02_other.ipynb": b"hers"})
    os.chown(tmp_path / "inbound" / before, mallory, -1)
    source = handed(tmp_path, {("ada", hour): mallory, ("bob", 1): 12347})
    assert take(source)[0] == {"ada": b"12346", "bob": b"12347"}  # noted, while nobody else is called so
    files, _, found = take(handed(source, {("ada", 10): ada}))
    assert files == {"ada": b"12345", "bob": b"12347"}
    assert any("12346" in says and "not taken" in says for says in found.trouble())
    assert not found.lost


@needs_root
def test_where_all_students_are_one_user_everybody_is_taken(tmp_path):
    files, _, found = take(handed(tmp_path, {("ada", 10): 12345, ("bob", 1): 12345, ("eve", 2): 0}))
    assert set(files) == {"ada", "bob", "eve"}
    assert not found.lost


def at(root, hours, student, owner):
    """Hand in some hours ago, as the folder's name and the file's own time say."""
    when = datetime.now(UTC) - timedelta(hours=hours)
    place = root / "inbound" / f"{student}+{NAME}+{when:%Y-%m-%d %H:%M:%S.%f} UTC+x"
    lay(place, {f"{NAME}.ipynb": b"{}"})
    os.utime(place / f"{NAME}.ipynb", (when.timestamp(), when.timestamp()))
    os.chown(place, owner, -1)


def changed(root):
    """Whose file the system saw change later than it says."""
    return {line.student for line in take(root)[2].lines if "the file was last changed at " in line.note}


@needs_root
def test_a_time_that_a_student_set_back_leaves_a_note_and_a_restored_exchange_none(tmp_path):
    (tmp_path / "outbound").mkdir()
    for number, student in enumerate(("ada", "bob")):
        at(tmp_path, 0, student, 12345 + number)
    at(tmp_path, 30, "copied", 0)
    at(tmp_path, 30, "mallory", 12349)
    assert changed(tmp_path) == {"mallory"}
    for number, student in enumerate(("cem", "dan", "eve")):
        at(tmp_path, 20, student, 12350 + number)
    assert changed(tmp_path) == set()


def test_a_copy_in_a_folder_of_the_submission_does_not_go_before_the_submission(tmp_path):
    place = f"inbound/ada+{NAME}+{STAMP}+x"
    lay(tmp_path, {f"{place}/{NAME}.ipynb": b"it", f"{place}/old/{NAME}.ipynb": b"old", "outbound/x": b""})
    assert take(tmp_path)[0] == {"ada": b"it"}
    front = "Ada_1_assignsubmission_file_"
    taken, _, _ = take(
        zipped(tmp_path / "x.zip", {f"{front}/{NAME}.ipynb": b"it", f"{front}/old/{NAME}.ipynb": b"old"})
    )
    assert taken == {"Ada": b"it"}


# how many


@pytest.fixture
def few(monkeypatch):
    """Low caps."""
    from autograder.submissions import members

    monkeypatch.setattr(members, "FILES", 20)
    monkeypatch.setattr(members, "NOTEBOOKS", 10)
    monkeypatch.setattr(members, "SEEN", 30)


def test_a_students_files_without_number_cost_only_that_student(tmp_path, few):
    many = {f"Eve_5_assignsubmission_file_/{n}.txt": b"" for n in range(100)}
    files = {**many, **moodle(), f"Eve_5_assignsubmission_file_/a/{NAME}.ipynb": b"hers"}
    (tmp_path / "in").mkdir()
    for source in (zipped(tmp_path / "x.zip", files), lay(tmp_path / "in", files)):
        taken, _, found = take(source)
        assert {name: data for name, data in taken.items() if name != "Eve"} == {
            f"Student {n}": b"%d" % n for n in range(6)
        }
        assert "Eve" in found.students
        assert len(found.lines) < 60
        assert any("Eve" in says and "20 other files" in says for says in found.trouble())


def test_a_notebook_beside_a_folder_of_many_files_is_found(tmp_path, few):
    place = f"inbound/ada+{NAME}+{STAMP}+x"
    lay(tmp_path, {f"{place}/.venv/{n}/{n}.py": b"" for n in range(100)})
    lay(tmp_path, {f"{place}/{NAME}.ipynb": b"hers", "outbound/x": b""})
    assert take(tmp_path)[0] == {"ada": b"hers"}


@needs_root
def test_folders_without_number_under_anothers_name_do_not_use_up_their_files(tmp_path, few):
    lay(tmp_path, {f"inbound/ada+{NAME}+{STAMP}+x/{NAME}.ipynb": b"hers", "outbound/x": b""})
    for n in range(40):
        forged = tmp_path / "inbound" / f"ada+{NAME}+2099-01-01 00:00:00 UTC+{n}"
        lay(forged, {f"{NAME}.ipynb": b"forged"})
        os.chown(forged, 12345, -1)
    monkey = take(tmp_path)[2]
    assert line(monkey, STAMP).file.startswith("ada+")


def test_a_watched_class_goes_on_beside_a_student_of_many_files(tmp_path, few):
    lay(tmp_path, {f"ada/{NAME}/{NAME}.ipynb": b"hers"} | {f"eve/{NAME}/{n}.txt": b"" for n in range(100)})
    batches = arrivals.batches(tmp_path, TINY, seconds=5.0, settle=0.0)
    found = next(batches)
    assert "ada" in found.students
    batches.close()


def test_a_student_who_takes_their_folder_away_does_not_end_the_watch(tmp_path):
    lay(tmp_path, {f"{name}/{NAME}/{NAME}.ipynb": b"{}" for name in ("ada", "eve")})
    batches = arrivals.batches(tmp_path, TINY, seconds=5.0, settle=0.0)
    found = next(batches)
    os.rename(tmp_path / "eve", tmp_path.parent / "gone")
    assert {each.student for each in intake.collect(found.folder, TINY)} >= set(found.students) == {"ada", "eve"}
    batches.close()


def test_a_folder_that_is_swapped_for_a_link_is_not_listed(tmp_path, monkeypatch):
    lay(tmp_path, {"others/secret.ipynb": b"x", "in/eve/x.ipynb": b"x"})
    real = folders.top

    def swapped(source):
        listed = real(source)
        os.rename(source / "eve", tmp_path / "gone")
        (source / "eve").symlink_to(tmp_path / "others")
        return listed

    monkeypatch.setattr(folders, "top", swapped)
    found = folders.listed(tmp_path / "in", lambda name: True, lambda parts, user: parts[:1])
    assert [member.path for member in found] == ["eve"]
    assert "cannot be opened" in found[0].why_not


def test_what_is_no_class_yet_does_not_end_the_watch(tmp_path):
    lay(tmp_path, {"eve/inbound/x": b"", "eve/outbound/x": b""})  # as an exchange's root would look
    told = []

    def more(says):
        told.append(says)
        lay(tmp_path, {f"ada/{NAME}/{NAME}.ipynb": b"{}"})

    batches = arrivals.batches(tmp_path, TINY, seconds=20.0, settle=0.0, complain=more)
    assert "ada" in next(batches).students
    assert len(told) == 1
    batches.close()


def test_one_students_lines_do_not_hide_the_others(tmp_path):
    odd = {f"aaa_1_{n}_{n}.png": b"" for n in range(500)}
    _, _, found = take(zipped(tmp_path / "x.zip", {**odd, **canvas(), "zoe_7_8_other.ipynb": b""}))
    assert any("zoe" in says for says in found.trouble())
    assert sum("aaa_1" in each.file for each in found.lines) <= 110
    assert any("399 more" in each.note for each in found.lines if "aaa_1" in each.file)


def test_a_class_of_more_bytes_than_are_read_costs_its_largest(tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "TOTAL", 20)
    files, _, found = take(zipped(tmp_path / "x.zip", {"aa_1_2_x.ipynb": bytes(19), **canvas()}))
    assert files == everyone() | {"aa_1": b""}
    assert "the class has more" in line(found, "aa_1").note


def test_an_honest_notebook_of_much_equal_output_is_read(tmp_path):
    data = b'{"cells": [' + b'"loss: 0.1", ' * 300_000 + b'""]}'
    assert take(zipped(tmp_path / "x.zip", {f"ada_1_2_{NAME}.ipynb": data}))[0] == {"ada_1": data}


def test_a_folder_that_cannot_be_opened_costs_only_its_student(tmp_path):
    if os.geteuid():
        pytest.skip("needs root, to be nobody for a while")
    place = tmp_path / "in"
    lay(place, {**moodle(2), f"Eve_5_assignsubmission_file_/{NAME}.ipynb": b""})
    os.chmod(place / "Eve_5_assignsubmission_file_", 0)
    for above in (place, *place.parents):
        if above.stat().st_mode & 0o755 != 0o755 and above != above.parent:
            os.chmod(above, 0o755)
    os.seteuid(65534)
    try:
        taken, _, found = take(place)
    finally:
        os.seteuid(0)
    assert set(taken) == {"Student 0", "Student 1"}
    assert "Eve" in found.students


# what they are called

UNSEEN = "\u3164\u115f\u1160\u2800\u034f\uffa0\u17b4\u180b\ufe0f\U000e0100\u200b\u00ad\u2028\U0001d159\U00016fe4"


@pytest.mark.parametrize("character", UNSEEN, ids=lambda c: f"U+{ord(c):04X}")
def test_a_character_that_is_not_seen_is_shown(character):
    assert character not in intake.student_name(f"ada{character}")
    assert intake.student_name(f"ada{character}") != intake.student_name("ada")
    assert character not in harmless.visible(f"ada{character}")


def test_an_emoji_keeps_its_looks_in_prose():
    assert harmless.visible("done ✔\ufe0f") == "done ✔\ufe0f"


NAMES = (
    "=x",
    "'=x",
    "''=x",
    "a b",
    "a  b",
    "a b ",
    " a b",
    "\uff1dx",
    "a;=x",
    "a;'=x",
    "a; =x",
    "-1",
    "a\u3164b",
    "a\\u3164b",
)


def test_names_that_a_file_could_make_alike_stay_different_students_everywhere(tmp_path):
    for name in NAMES:
        lay(tmp_path, {f"{name}/{NAME}/{NAME}.ipynb": b""})
    students = [each.student for each in intake.collect(tmp_path, TINY)]
    fields = [harmless.field(student) for student in students]
    assert len(set(fields)) == len(NAMES)
    assert [harmless.unfield(each) for each in fields] == students
    assert [harmless.line(student) for student in students] == students
    assert not [each for each in fields if harmless.line(each).startswith(harmless.FORMULA)]


@pytest.mark.parametrize(
    "text", ["\uff1d1+1", "\uff0b1", "\uff0d1", "\uff201", "a;=1+1", "a; =1", ";;@x", "a;\uff1d1", "\t=1"]
)
def test_every_way_to_begin_a_formula_is_taken_for_text(text):
    shown = harmless.field(text)
    for cell in next(csv.reader([shown], delimiter=";")):
        assert not cell.strip().startswith(("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20"))
    assert harmless.unfield(shown) == harmless.line(text)


def test_a_name_cannot_be_made_to_look_like_anothers_long_one():
    shown = intake.student_name("x" * 250)
    assert intake.student_name(shown) != shown


# the command


def test_the_command_grades_everyone_else_keeps_them_apart_and_ends_with_2(small, hand_in, tmp_path):
    for name in NAMES:
        folder = hand_in(name, {})
    (folder / f"bob_1_2_{SMALL}.ipynb").write_bytes(b"")
    out = tmp_path / "out"
    ran = command("grade", "small", "--submissions", folder, "--out", out, "--anyway", root=small.root, code=2)
    assert f"bob_1_2_{SMALL}.ipynb" in ran.stderr
    marked = {harmless.unfield(row["student"]) for row in courses.table(out / "marks.csv")}
    assert marked == {intake.student_name(name) for name in NAMES}
    assert len(marked) == len(NAMES)
    assert len(list((out / "feedback").iterdir())) == len(NAMES)
