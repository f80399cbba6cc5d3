"""Watching: what arrives is graded once it has come to rest, the newest wins, and it ends when it is told to."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import classroom
import courses
import lms_downloads
import pytest
from boxed import needs_a_box
from classroom import NAME, TINY
from lms_downloads import wait_for
from small_course import NAME as SMALL
from small_course import RIGHT, command

from autograder.commands import grading
from autograder.gradebook import record
from autograder.store import files
from autograder.submissions import arrivals, downloads
from autograder.submissions.arrivals import Rest
from autograder.submissions.handed_in import HandedIn, Line

BIN = Path(sys.executable).parent


def hand_in(folder, student, data=b"{}", chapter=NAME):
    place = folder / student / chapter
    place.mkdir(parents=True, exist_ok=True)
    (place / ".new").write_bytes(data)
    os.replace(place / ".new", place / f"{chapter}.ipynb")


def test_a_file_is_at_rest_once_it_stayed_the_same_for_long_enough():
    now = [0.0]
    rest = Rest(2.0, lambda: now[0])
    seen = []
    for now[0], size in ((0, 1), (1, 2), (2, 2), (3, 2), (4, 3), (6, 3)):
        seen.append(rest.look({"a": (size,)}))
    assert seen == [{}, {}, {}, {"a": (2,)}, {}, {"a": (3,)}]


class Watched:
    """`batches` in a thread: what each held."""

    def __init__(self, source, settle=0.1, **how):
        self.batches, self.complaints = [], []
        self.thread = threading.Thread(target=self.run, args=(source,), kwargs={"settle": settle, **how})
        self.thread.start()

    def run(self, source, **how):
        for found in arrivals.batches(source, TINY, complain=self.complaints.append, **how):
            files = {each: found.folder / each / NAME / f"{NAME}.ipynb" for each in found.students}
            self.batches.append({each: file.read_bytes() for each, file in files.items()})

    def last(self):
        return self.batches[-1] if self.batches else None


@pytest.fixture
def watched(monkeypatch):
    made = []
    monkeypatch.setattr(arrivals, "LOOK", 0.02)

    def start(source, **how):
        made.append(Watched(source, seconds=20.0, **how))
        return made[-1]

    yield start
    monkeypatch.setattr(arrivals, "time", _Over())
    for each in made:
        each.thread.join(20)
        assert not each.thread.is_alive()


class _Over:
    """A clock that says that it is over."""

    monotonic = staticmethod(lambda: time.monotonic() + 1e6)
    sleep = staticmethod(time.sleep)


def test_what_arrives_makes_a_batch_and_what_did_not_change_makes_none(tmp_path, watched):
    hand_in(tmp_path, "ada", b"1")
    seen = watched(tmp_path)
    wait_for(lambda: seen.last() == {"ada": b"1"})
    hand_in(tmp_path, "bob", b"1")
    wait_for(lambda: seen.last() == {"ada": b"1", "bob": b"1"})
    hand_in(tmp_path, "ada", b"22")
    wait_for(lambda: seen.last() == {"ada": b"22", "bob": b"1"})
    assert len(seen.batches) == 3


def test_an_archive_that_is_replaced_is_read_again_and_a_broken_one_waited_for(tmp_path, watched):
    source = tmp_path / "x.zip"
    seen = watched(source)
    source.write_bytes(b"PK\3\4 half")
    wait_for(lambda: seen.complaints)
    os.replace(lms_downloads.canvas(tmp_path / "new", NAME), source)
    wait_for(lambda: seen.last() and len(seen.last()) == 6)
    os.replace(lms_downloads.moodle(tmp_path / "new", NAME), source)
    wait_for(lambda: len(seen.last()) == 7)
    assert len(seen.complaints) == 1


def test_one_who_keeps_writing_holds_up_nobody_else(tmp_path, watched):
    hand_in(tmp_path, "ada", b"1")
    seen = watched(tmp_path, settle=0.5)
    place = tmp_path / "eve" / NAME / f"{NAME}.ipynb"
    size = [1]

    def written():
        size[0] += 1
        hand_in(tmp_path, "eve", bytes(size[0]))
        return seen.last() == {"ada": b"1"}

    wait_for(written)
    assert place.exists()
    wait_for(lambda: "eve" in seen.last())


def test_who_came_while_a_long_batch_was_graded_is_in_the_next_one(tmp_path, monkeypatch):
    monkeypatch.setattr(arrivals, "LOOK", 0.02)
    looks = []

    def idle():
        looks.append(time.monotonic())
        if len(looks) == 2:  # seen, and not yet at rest, when ada is
            hand_in(tmp_path, "carol")

    hand_in(tmp_path, "ada")
    batches = arrivals.batches(tmp_path, TINY, settle=0.3, seconds=20.0, idle=idle)
    assert "ada" in next(batches).students
    hand_in(tmp_path, "bob")
    time.sleep(0.5)  # the batch
    assert next(batches).students == ("ada", "bob", "carol")


def test_who_is_not_done_writing_is_not_told_of_and_is_in_the_list():
    found = HandedIn(Path(), lines=(Line("a/x.ipynb", "a", "later", note="it is still being written"),))
    assert found.trouble() == []
    assert found.lines[0].taken == "later"


@pytest.fixture
def another(tmp_path, monkeypatch):
    """Starts a process that holds OUT until it is waited for, and returns its id."""
    code = "import sys, pathlib\nfrom autograder.store import files\nout = pathlib.Path(sys.argv[1])\n"
    code += "with files.{}: print('holds', flush=True); sys.stdin.read()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    made = []

    def end(seconds):
        made[0].communicate("", timeout=60)

    def start(holds="only_writer(out)"):
        made.append(subprocess.Popen([sys.executable, "-c", code.format(holds), str(tmp_path / "out")], **pipes))
        assert made[0].stdout.readline() == "holds\n"
        monkeypatch.setattr(files, "time", SimpleNamespace(monotonic=time.monotonic, sleep=end), raising=False)
        return made[0].pid

    yield start
    if made and made[0].poll() is None:
        end(0)


@pytest.fixture
def graded(small, tmp_path, monkeypatch):
    """One who watches a class, whom the machine may fail at: what was graded and told is listed, and nothing is run."""
    for student in ("ada", "bob", "eve"):
        hand_in(tmp_path / "in", student, courses.answered(small, SMALL, RIGHT), SMALL)
    request = courses.asked(small, SMALL, tmp_path / "in", tmp_path / "out")
    listed, faults = [], {}

    def verdicts(request, class_, into):
        class_.result = SimpleNamespace()
        listed.append(request.students)
        return SimpleNamespace(faults={each: why for each, why in faults.items() if each in request.students})

    def tell(request, class_):
        class_.result = None
        listed.append("class")
        return 0

    monkeypatch.setattr(grading, "_verdicts", verdicts)
    monkeypatch.setattr(grading, "_tell_class", tell)
    monkeypatch.setattr(grading._Class, "due", lambda class_: False)
    found = replace(request.handed_in, students=("ada", "bob", "eve"))
    return SimpleNamespace(watching=grading.Watching(request), found=found, listed=listed, faults=faults)


def test_one_who_watches_waits_for_another_who_writes_into_out_and_loses_nothing(graded, another, capsys):
    holder = another()
    graded.watching._batch(graded.found)
    graded.watching.idle()
    assert graded.listed == [["ada", "bob", "eve"], "class"]
    told = capsys.readouterr().err
    assert told.count("waiting") == 1
    assert f"(process {holder}) writes there; this goes on after it" in told


@pytest.fixture
def clock(monkeypatch):
    """The clock of who watches; it stands still until it is set."""
    now = [1000.0]
    monkeypatch.setattr(grading, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_who_was_left_is_tried_again_when_nothing_arrives_three_times_and_no_more(graded, clock, tmp_path, capsys):
    graded.faults["eve"] = "no memory"
    watching = graded.watching
    watching._batch(graded.found)
    hand_in(tmp_path / "in", "ada", b"another", SMALL)
    clock[0] += grading.AGAIN[0]
    watching._batch(graded.found)
    assert graded.listed == [["ada", "bob", "eve"], ["ada"]]  # whose page waits for nobody who was left
    for pause in grading.AGAIN:
        clock[0] += pause + 1
        assert watching.idle()
        assert not watching.idle()  # what cannot be gathered is not gathered at each look
        watching._batch(graded.found)
        clock[0] += pause + 1
        assert not watching.idle()  # the next pause is longer
    assert graded.listed.count(["eve"]) == 3
    assert "not graded: eve: failed 4 times" in capsys.readouterr().err
    clock[0] += 1e6
    assert not watching.idle()
    watching._batch(graded.found)
    assert graded.listed.count(["eve"]) == 3
    hand_in(tmp_path / "in", "eve", b"another", SMALL)
    watching._batch(graded.found)
    assert graded.listed[-1] == ["eve"]
    clock[0] += grading.AGAIN[0] + 1
    assert watching.idle()  # as often as anybody's


def test_nobody_of_a_large_batch_waits_for_all_of_it(graded, monkeypatch):
    monkeypatch.setattr(grading, "AT_ONCE", 2)
    graded.watching._batch(graded.found)
    assert graded.listed == [["ada", "bob"], ["eve"]]


def test_who_was_left_and_is_graded_then_is_tried_no_more(graded, clock):
    graded.faults["eve"] = "no memory"
    graded.watching._batch(graded.found)
    graded.faults.clear()
    clock[0] += grading.AGAIN[0] + 1
    graded.watching._batch(graded.found)
    assert graded.listed[-1] == ["eve"]
    clock[0] += 1e6
    assert not graded.watching.idle()


def test_the_class_is_told_though_one_keeps_writing_what_is_no_submission(graded, monkeypatch):
    graded.watching._batch(graded.found)
    graded.watching._batch(graded.found)  # not yet due
    assert graded.listed == [["ada", "bob", "eve"]]
    monkeypatch.setattr(grading._Class, "due", lambda class_: True)
    graded.watching._batch(graded.found)
    assert graded.listed == [["ada", "bob", "eve"], "class"]


def test_a_class_in_which_nothing_changed_is_gathered_where_it_is_asked_for(tmp_path):
    hand_in(tmp_path, "ada")
    batches = arrivals.batches(tmp_path, TINY, settle=0.0, seconds=20.0, idle=lambda: True)
    assert [next(batches).students for _ in range(2)] == [("ada",), ("ada",)]


def test_whoever_waits_for_out_waits_so_long_and_not_longer(tmp_path, another):
    another()
    told = []
    with pytest.raises(files.BusyError, match="wait until it has ended"):
        files.patient_writer(tmp_path / "out", 0.0, told.append).__enter__()
    assert told == []


def test_a_second_one_who_watches_a_chapter_is_refused_for_neither_would_ever_end(graded, another, tmp_path):
    holder = another(f"only_watcher(out, {SMALL!r})")
    says = rf"another grader \(process {holder}\) watches {SMALL} there; wait until it has ended, or give another --out"
    with pytest.raises(files.BusyError, match=says):
        graded.watching.to_the_end(iter(()))
    with files.only_watcher(tmp_path / "out", "07_other"), files.only_writer(tmp_path / "out"):
        pass


@pytest.fixture
def typed(small, tmp_path, monkeypatch):
    """What follows a verb that a person types while somebody watches, in an OUT in which Ada was graded."""
    out, chapter = tmp_path / "out", small.chapter(SMALL)
    classroom.record(out, classroom.verdict("ada", tiny=chapter), tiny=chapter)
    (out / files.SEED).write_bytes(bytes(32))
    [ada] = record.records(out, chapter)
    (tmp_path / "term.toml").write_text('attempt = "last"')
    hand_in(tmp_path / "in", "ada", courses.answered(small, SMALL, RIGHT), SMALL)
    monkeypatch.setattr(grading, "grade_to_the_end", lambda request: 0)
    return {
        "report": [SMALL],
        "feedback": [SMALL, "--zip", "folders", "--waiting"],
        "contest": [ada.code, "double", "--reply", "Try it with 3."],
        "term": [tmp_path / "term.toml"],
        "forget": ["ada", "--yes"],
        "grade": [SMALL, "--submissions", tmp_path / "in"],
        "grade --due": [SMALL, "--submissions", tmp_path / "in", "--due", "2026-11-30T23:59+01:00"],
    }


@pytest.mark.parametrize("verb", ["report", "feedback", "contest", "term", "forget", "grade", "grade --due"])
def test_whatever_a_person_types_waits_for_a_batch(small, tmp_path, another, typed, verb):
    another()
    done = command(verb.split()[0], *typed[verb], "--out", tmp_path / "out", root=small.root)
    assert done.stderr.count("waiting: ") == 1


def test_a_class_of_one_is_told_in_the_singular(small, tmp_path, typed):
    out = tmp_path / "out"
    assert "term.html: 1 student, 1 chapter\n" in command("term", *typed["term"], "--out", out, root=small.root).stdout
    assert ".zip: of 1 student\n" in command("feedback", *typed["feedback"], "--out", out, root=small.root).stdout
    assert "1 student · 1 chapter<" in (out / "term.html").read_text(encoding="utf-8")


def test_who_waited_gathers_the_class_after_that_for_it_may_be_newer(small, tmp_path, another, typed, monkeypatch):
    another()
    events, end, gathered = [], files.time.sleep, downloads.gathered
    monkeypatch.setattr(files.time, "sleep", lambda seconds: (events.append("waited"), end(seconds)))
    monkeypatch.setattr(downloads, "gathered", lambda *a, **how: (events.append("gathered"), gathered(*a, **how))[1])
    command("grade", *typed["grade"], "--out", tmp_path / "out", root=small.root)
    assert events == ["waited", "gathered"]


def test_no_folder_is_made_where_there_is_none_to_wait_for(small, tmp_path, typed):
    nowhere = tmp_path / "misspelt"
    assert "nothing was graded" in command("term", *typed["term"], "--out", nowhere, root=small.root, code=2).stderr
    assert not nowhere.exists()


@pytest.fixture
def grader(small, tmp_path):
    """`autograder grade --watch` on a small chapter, in a process of its own."""
    submissions, out, log = tmp_path / "in", tmp_path / "out", tmp_path / "log"
    submissions.mkdir()

    def give(student, **answers):
        hand_in(submissions, student, courses.answered(small, SMALL, RIGHT | answers), SMALL)

    with open(log, "wb") as file:
        call = [BIN / "autograder", "--course", small.root, "grade", SMALL]
        call += ["--submissions", submissions, "--out", out, "--watch"]
        process = subprocess.Popen([str(each) for each in call], stdout=file, stderr=file, start_new_session=True)
    try:
        yield process, give, lambda: (out / "marks.csv").read_text() if (out / "marks.csv").exists() else "", log
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@needs_a_box
@pytest.mark.whole
def test_the_command_marks_what_arrives_and_ends_at_ctrl_c(grader):
    process, give, marks, log = grader
    give("ada", double="def double(x):\n    return 3 * x")
    wait_for(lambda: f"ada,{SMALL},double,0" in marks(), 120)
    give("bob")
    wait_for(lambda: f"bob,{SMALL},double,2" in marks(), 60)
    his = log.parent / "out" / "feedback" / "bob" / SMALL / f"{SMALL}.html"
    before = his.stat().st_mtime_ns
    give("ada")
    wait_for(lambda: f"ada,{SMALL},double,2" in marks(), 60)
    wait_for(lambda: log.read_text().count("watching;") == 4)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0, log.read_text()
    assert "watched: 3 batches graded" in log.read_text()
    assert his.stat().st_mtime_ns == before  # nobody's page is made anew because another handed in
