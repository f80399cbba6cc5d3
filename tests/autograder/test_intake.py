"""Intake: a file may be anything; what is kept is the source of the answer cells."""

import copy
import io
import json
import os
import resource
from pathlib import Path

import classroom
import pytest
from classroom import NAME

from autograder.model.course import Limits
from autograder.submissions import intake, members
from autograder.submissions.intake import Found, Submission

CHAPTER = classroom.chapter()
CODE = "def pick():\n    return '/CPU:1'"


@pytest.fixture
def student(tmp_path: Path) -> Path:
    folder = tmp_path / "class" / "ada"
    (folder / NAME).mkdir(parents=True)
    return folder


def answered(**answers: str) -> dict:
    """The released notebook with some sources replaced, by grade id."""
    return classroom.answered(CHAPTER, **answers)


def by_id(notebook: dict, grade_id: str) -> dict:
    return next(c for c in notebook["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") == grade_id)


def handed_in(student: Path, content: object) -> Submission:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    (student / NAME / f"{NAME}.ipynb").write_bytes(data)
    return read(student)


def read(student: Path) -> Submission:
    return intake.read(Found("ada", student), CHAPTER)


def test_an_answer_is_taken_by_its_grade_id(student):
    got = handed_in(student, answered(pick=CODE, why="Because."))
    assert got.answers == {"pick": CODE, "spread": CHAPTER.answers["spread"], "why": "Because."}
    assert (got.invalid, got.refused, got.notes) == ({}, "", ())


def test_a_source_may_be_a_list_of_lines(student):
    notebook = answered()
    by_id(notebook, "pick")["source"] = CODE.splitlines(keepends=True)
    assert handed_in(student, notebook).answers["pick"] == CODE


@pytest.mark.parametrize(
    "flags",
    [
        {"grade": True, "locked": True, "solution": False, "points": 1e9, "schema_version": 99},
        {"schema_version": "x", "solution": None},
        {},
    ],
)
def test_other_flags_of_the_cell_do_not_matter(student, flags):
    notebook = answered(pick=CODE)
    by_id(notebook, "pick")["metadata"] = {"nbgrader": {"grade_id": "pick", **flags}, "tags": ["skip-execution"]}
    got = handed_in(student, notebook)
    assert (got.answers["pick"], got.invalid) == (CODE, {})


def test_a_duplicate_grade_id_costs_only_the_exercises_that_look_at_it(student):
    notebook = answered(pick=CODE, spread="def spread(): ...")
    notebook["cells"].append(copy.deepcopy(by_id(notebook, "spread")))
    got = handed_in(student, notebook)
    assert got.answers.keys() == {"pick", "why"}
    assert 'cell "spread": 2 cells have this grade id (cells 5, 8)' in got.invalid["spread"]
    assert got.invalid.keys() == {"spread"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"cell_type": "markdown"}, 'its type is "markdown", expected "code"'),
        ({"cell_type": ["code"]}, 'its type is a list, expected "code"'),
        ({"source": 3.5}, "its source is a number, expected text"),
        ({"source": ["a", 1]}, "its source is a list, expected text"),
        ({"source": "#" * (Limits().cell_bytes + 1)}, "has 65537 bytes, at most 65536 are read"),
        ({"source": "é" * (Limits().cell_bytes // 2 + 1)}, "has 65538 bytes, at most 65536 are read"),
    ],
)
def test_a_cell_that_cannot_be_taken_is_invalid_and_the_others_stand(student, change, says):
    notebook = answered(why="Because.")
    by_id(notebook, "pick").update(change)
    got = handed_in(student, notebook)
    assert says in got.invalid["pick"]
    assert got.invalid["pick"].startswith(f'{NAME}, cell "pick": ')
    assert got.answers["why"] == "Because."


def test_broken_characters_are_replaced_so_that_any_file_can_hold_the_answer(student):
    got = handed_in(student, json.dumps(answered(pick="x = '\ud800\x00'")).encode())
    assert got.answers["pick"] == "x = '\ufffd\ufffd'"
    assert "broken characters" in got.notes[0]


def test_what_was_changed_outside_the_answers_is_noted_and_does_not_count(student):
    notebook = answered(check_pick="assert True", pick=CODE)
    notebook["metadata"]["kernelspec"] = {"name": "\x1b[2Jmine\n"}
    notebook["cells"].insert(2, classroom.cell("code", "mine = 1"))
    notebook["cells"].insert(3, classroom.cell("code", "x", "nobody_knows", grade=True, points=100))
    notes = "\n".join(handed_in(student, notebook).notes)
    assert 'locked cell "check_pick" was changed' in notes
    assert "Of your own cells these were not executed, as no answer needs what they bind: `mine = 1`." in notes
    assert 'unknown grade id "nobody_knows"' in notes
    assert r'kernelspec name is "\x1b[2Jmine\n", ours "python3"' in notes


def copied(notebook: dict, *, but: int | None = None) -> dict:
    """The cells' types and texts alone, as copying them into a new notebook leaves them; without number `but`."""
    bare = [{"cell_type": each["cell_type"], "source": each["source"], "metadata": {}} for each in notebook["cells"]]
    return {"nbformat": 4, "metadata": {}, "cells": [each for n, each in enumerate(bare) if n != but]}


def test_answers_whose_cells_lost_their_ids_are_found_by_their_def_line_and_their_place_and_it_is_said(student):
    answers = {"pick": CODE, "spread": f"import os\n\n{CODE.replace('pick', 'spread')}", "why": "Because."}
    got = handed_in(student, copied(answered(**answers)))
    assert got.answers == answers
    assert (got.added, got.invalid, got.refused) == ((), {}, "")
    assert got.notes[0] == (
        "please look: answer cells had lost their ids and were found all the same: "
        "pick (by its def line), spread (by its def line), why (by its place)"
    )
    assert not any("locked cell" in note for note in got.notes)


def test_a_helper_beside_answers_that_lost_their_ids_stays_the_students_own(student):
    notebook = copied(answered(pick="def pick():\n    return mine()", why="Because."))
    notebook["cells"].insert(2, {"cell_type": "code", "source": "def mine():\n    return 1", "metadata": {}})
    got = handed_in(student, notebook)
    assert [source for _, _, source in got.added] == ["def mine():\n    return 1"]
    assert (got.answers["pick"], got.answers["why"]) == ("def pick():\n    return mine()", "Because.")


def test_an_answer_that_may_be_in_two_cells_is_missing_and_none_of_the_two(student):
    notebook = copied(answered(pick=CODE, why="Because."))
    notebook["cells"].insert(3, {"cell_type": "code", "source": f"{CODE}  # again", "metadata": {}})
    notebook["cells"].insert(7, {"cell_type": "markdown", "source": "More.", "metadata": {}})
    got = handed_in(student, notebook)
    assert "pick" not in got.answers
    assert "why" not in got.answers
    assert {'answer cell "pick" is missing', 'answer cell "why" is missing'} <= set(got.notes)


def test_in_a_notebook_that_has_its_ids_nothing_is_looked_for(student):
    notebook = answered(pick=CODE)
    notebook["cells"].insert(2, classroom.cell("code", "def spread():\n    return 1"))
    got = handed_in(student, notebook)
    assert got.answers["spread"] == CHAPTER.answers["spread"]
    assert not any("lost" in note for note in got.notes)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"\x00\x01\x02", "is not JSON"),
        (b"\xff{}", "is not UTF-8 text (byte 0)"),
        (b"\xff\xfe{\x00}\x00", "its `cells` is missing"),
        (b"\xff\xfe{", "is not UTF-8 text (byte 0)"),
        (b'{"cells": [', "is not JSON"),
        (b"[" * 1_000_000, "is nested too deeply"),
        (b"null", "is missing, not a notebook"),
        (b"{}", "its `cells` is missing, not a list"),
        (b'{"cells": {"0": {}}}', "its `cells` is an object, not a list"),
        (b'{"nbformat": 3, "worksheets": [{"cells": []}]}', "is in the old notebook format 3"),
        (b'{"cells": [' + b"0," * 2000 + b"0]}", "has 2001 cells, at most 2000 are read"),
        (b" " * (Limits().notebook_bytes + 1), "has 5242881 bytes, at most 5242880 are read"),
    ],
)
def test_a_file_that_is_no_notebook_is_refused_with_the_mend(student, content, says):
    got = handed_in(student, content)
    assert got.refused.startswith(f"{NAME}.ipynb: ")
    assert says in got.refused
    assert ";" in got.refused, "no mend"


@pytest.mark.parametrize(
    ("content", "note"),
    [
        (json.dumps(answered(pick=CODE), ensure_ascii=False).encode("utf-16"), None),
        (b"\xef\xbb\xbf" + json.dumps(answered(pick=CODE)).encode(), None),
        (json.dumps(answered(pick=CODE) | {"nbformat": float("nan")}).encode(), "notebook format is nan"),
        (json.dumps(answered(pick=CODE) | {"nbformat": 5}).encode(), "notebook format is 5"),
        (b'{"cells": [], ' + json.dumps(answered(pick=CODE)).encode()[1:], None),
        (b'{"nbformat_minor": ' + b"9" * 1_000_000 + b"," + json.dumps(answered(pick=CODE)).encode()[1:], None),
        (b'{"x": 1' + b"0" * 1_000_000 + b".5, " + json.dumps(answered(pick=CODE)).encode()[1:], None),
        (json.dumps(answered(pick=CODE) | {"metadata": [1, 2]}).encode(), "kernelspec name is None"),
    ],
)
def test_an_odd_file_is_read_all_the_same(student, content, note):
    got = handed_in(student, content)
    assert (got.answers.get("pick"), got.refused) == (CODE, "")
    assert note is None or any(note in each for each in got.notes)


def test_odd_cells_cost_nothing_and_notes_are_bounded(student):
    odd = [None, 3, "cell", [], {}, {"metadata": 3}, {"metadata": {"nbgrader": {"grade_id": 5}}}, *[7] * 1900]
    got = handed_in(student, {**answered(pick=CODE), "cells": [*odd, *answered(pick=CODE)["cells"]]})
    assert (got.answers["pick"], got.refused, len(got.notes)) == (CODE, "", intake.NOTES)


@pytest.mark.parametrize("place", ["student", "chapter", "file"])
def test_symbolic_links_are_refused(student, tmp_path, place):
    handed_in(student, answered(pick=CODE))
    path = {"student": student, "chapter": student / NAME, "file": student / NAME / f"{NAME}.ipynb"}[place]
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    got = read(student)
    assert got.answers == {}
    assert "plain" in got.refused


def failing(monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    """Have the system refuse to open a notebook."""
    real = os.open

    def fake(path, flags, *args, **kwargs):
        if str(path).endswith(".ipynb"):
            raise error
        return real(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", fake)


@pytest.mark.parametrize("kind", ["pipe", "unreadable"])
def test_what_is_no_plain_file_is_refused_without_waiting(student, monkeypatch, kind):
    path = student / NAME / f"{NAME}.ipynb"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_text("{}")
        failing(monkeypatch, PermissionError(13, "Permission denied"))
    got = read(student)
    assert got.refused
    assert not got.answers


def test_a_failing_disk_is_not_the_students_fault(student, monkeypatch):
    handed_in(student, answered())
    failing(monkeypatch, OSError(5, "Input/output error"))
    with pytest.raises(OSError, match="Input/output error"):
        read(student)


def test_a_file_that_grows_while_it_is_read_stays_bounded(student, monkeypatch):
    handed_in(student, answered())
    asked, real = [], members.capped

    class Endless(io.BytesIO):
        def read(self, count):
            asked.append(count)
            return b" " * count

    monkeypatch.setattr(members, "capped", lambda file, cap: real(Endless(), cap))
    assert "at most" in read(student).refused
    assert sum(asked) <= CHAPTER.limits.notebook_bytes + 1


def test_nothing_handed_in_is_told_apart_from_something_unreadable(student):
    got = read(student)
    assert (got.nothing, got.refused, got.answers) == (True, "", {})
    assert got.notes[0].startswith("nothing was submitted")
    assert not handed_in(student, b"").nothing


def test_a_notebook_under_another_name_is_pointed_out(student):
    (student / NAME / f"{NAME} (1).ipynb").write_text("{}")
    assert read(student).refused == f"handed in {NAME} (1).ipynb; call it {NAME}.ipynb"


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        (b"2026-11-21 02:38:11.123456 UTC\n", "2026-11-21 02:38:11.123456 UTC"),
        (b"2026-11-21 02:38:11 Europe/Zurich", "2026-11-21 02:38:11 Europe/Zurich"),
        (b"2026-11-21T02:38:11+01:00", "2026-11-21T02:38:11+01:00"),
        (b"2026-13-41 02:38:11 UTC", None),
        (b"2026-11-21 02:38:11 ../../etc/passwd", None),
        (b"now", None),
        (b"1" * 1000, None),
    ],
)
def test_a_timestamp_is_kept_only_if_it_is_one(student, content, kept):
    (student / NAME / "timestamp.txt").write_bytes(content)
    got = handed_in(student, answered())
    assert got.timestamp == kept
    assert bool(got.notes) == (kept is None)


def test_every_folder_is_a_student_and_nothing_else_is(tmp_path):
    for name in ("bob", "ada", ".ipynb_checkpoints"):
        (tmp_path / name).mkdir()
    (tmp_path / "list.csv").write_text("x")
    (tmp_path / "link").symlink_to("/")
    assert [found.student for found in intake.collect(tmp_path, CHAPTER)] == ["ada", "bob", "link"]


def test_no_file_descriptor_is_left_open(student):
    before = len(os.listdir("/proc/self/fd"))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for content in (answered(), b"", b"[" * 100_000, b" " * (6 << 20)):
        handed_in(student, content)
    (student / NAME / f"{NAME}.ipynb").unlink()
    read(student)
    assert len(os.listdir("/proc/self/fd")) == before
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard)


def test_a_students_name_cannot_be_markup_or_a_pattern():
    shown = intake.student_name('<img src=x onerror=alert(1)> & "[a-z]*?"')
    assert not set(shown) & set('<>&"[]*?')
    assert intake.student_name("Zoë O'Brien-2 (b)") == "Zoë O'Brien-2 (b)"
