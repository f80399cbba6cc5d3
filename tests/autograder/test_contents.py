"""What a file holds counts where its name does not tell: no blank notebook goes before an answered one; a zip."""

import io
import json
import zipfile

import classroom
import courses
import pytest
from boxed import needs_a_box
from classroom import NAME, TINY
from lms_downloads import zipped
from small_course import NAME as SMALL
from small_course import RIGHT, command

from autograder.submissions import intake
from autograder.submissions.downloads import gathered

BLANK = json.dumps(classroom.answered(TINY)).encode()
DONE = json.dumps(classroom.answered(TINY, pick="def pick(names):\n    return names[0]")).encode()


def take(tmp_path, **files):
    """What is taken of these files of one Canvas zip, by student; what is found."""
    with gathered(zipped(tmp_path / "c.zip", {f"fay_1_1_{NAME}.ipynb": DONE, **files}), TINY) as found:
        files = {each.parent.parent.name: each.read_bytes() for each in found.folder.glob(f"*/{NAME}/{NAME}.ipynb")}
        return files, found


def packed(*notebooks: bytes, more: str = "readme.txt") -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(more, b"?")
        for number, notebook in enumerate(notebooks):
            archive.writestr(f"work/{number}.ipynb", notebook)
    return data.getvalue()


def test_a_blank_notebook_never_goes_before_an_answered_one_of_the_same_attempt_and_a_person_is_told(tmp_path):
    files, found = take(tmp_path, **{f"ada_2_2_{NAME}.ipynb": DONE, f"ada_2_3_{NAME}-1.ipynb": BLANK})
    assert files["ada_2"] == DONE
    says = f"ada_2_2_{NAME}.ipynb was taken: ada_2_3_{NAME}-1.ipynb is blank, and nothing says that it came later"
    assert found.doubts == {"ada_2": says}
    assert any(says in line.note for line in found.lines)
    assert found.attempts["ada_2"] == "1 of 2"


def test_of_two_answered_or_two_blank_notebooks_the_newest_counts_as_ever(tmp_path):
    other = DONE.replace(b"names[0]", b"names[1]")
    files, found = take(
        tmp_path,
        **{f"ada_2_2_{NAME}.ipynb": DONE, f"ada_2_3_{NAME}-1.ipynb": other},
        **{f"bob_4_4_{NAME}.ipynb": BLANK, f"bob_4_5_{NAME}-1.ipynb": BLANK + b" "},
        **{f"cem_6_6_{NAME}.ipynb": DONE, f"cem_6_7_{NAME}-1.ipynb": b"no notebook"},
    )
    assert (files["ada_2"], files["bob_4"], files["cem_6"]) == (other, BLANK + b" ", b"no notebook")
    assert found.doubts == {}


def test_a_blank_notebook_whose_time_is_later_counts_and_a_person_is_told(tmp_path):
    for when, data in (("2026-11-30 12:00:00.000000", DONE), ("2026-11-30 13:00:00.000000", BLANK)):
        place = tmp_path / "inbound" / f"ada+{NAME}+{when} UTC+abc"
        place.mkdir(parents=True)
        (place / f"{NAME}.ipynb").write_bytes(data)
    with gathered(tmp_path / "inbound", TINY) as found:
        assert (found.folder / "ada" / NAME / f"{NAME}.ipynb").read_bytes() == BLANK
        assert "was taken, which is blank: it is newer than" in found.doubts["ada"]


@pytest.mark.parametrize("file", [f"{NAME}.ipynb.txt", f"{NAME}.json", "work.zip"])
def test_a_notebook_under_another_ending_or_alone_in_a_zip_is_read(tmp_path, file):
    data = packed(DONE, more="__MACOSX/._0.ipynb") if file.endswith(".zip") else DONE
    files, found = take(tmp_path, **{f"ada_2_2_{file}": data})
    assert files["ada_2"] == DONE
    assert any("by what it holds it is the notebook: taken" in line.note for line in found.lines)
    assert found.instead == {}


@pytest.mark.parametrize(
    ("file", "data"),
    [
        ("settings.json", b'{"a": 1}'),
        ("two.zip", packed(DONE, DONE)),
        ("none.zip", packed()),
        ("bomb.zip", packed(bytes(50 << 20))),
        ("broken.zip", packed(DONE)[:200]),
        ("inner.zip", packed(packed(DONE))),
    ],
)
def test_what_is_no_notebook_for_certain_is_not_taken_for_one(tmp_path, file, data):
    files, found = take(tmp_path, **{f"ada_2_2_{file}": data})
    assert set(files) == {"fay_1"}
    assert found.instead == {"ada_2": intake.student_name(file)}


def test_of_two_files_that_may_be_the_notebook_none_is_taken(tmp_path):
    files, _ = take(tmp_path, **{f"ada_2_2_{NAME}.json": DONE, "ada_2_3_work.zip": packed(DONE)})
    assert set(files) == {"fay_1"}


@needs_a_box
def test_what_was_taken_with_a_doubt_needs_a_person_in_the_report(small, tmp_path):
    files = {f"ada_2_2_{SMALL}.ipynb": RIGHT, f"ada_2_3_{SMALL}-1.ipynb": {}}
    files = {name: courses.answered(small, SMALL, answers) for name, answers in files.items()}
    source = zipped(tmp_path / "c.zip", files)
    command("grade", SMALL, "--submissions", source, "--out", tmp_path / "out", root=small.root)
    assert courses.marks(tmp_path / "out")["ada_2", "double"]["verdict"] == "passed"
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Taken, and perhaps not what was meant" in page
    assert "is blank, and nothing says that it came later" in page
