"""Stock nbgrader opens the result: formgrader, manual marks, feedback, export, and its Autograde button runs nothing."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import nullcontext
from pathlib import Path

import classroom
import courses
import nbformat
import nbformat.v4 as v4
import pytest
from classroom import FAILED, HALF, INVALID, NAME, PASSED, TINY
from nbconvert.exporters import HTMLExporter
from nbgrader.server_extensions.formgrader import handlers
from stock import nbgrader
from traitlets.config import Config

from autograder.gradebook import database, record

DEADLINE = 180.0
TOKEN = "for-this-test-only"
SCRIPT = "<script>document.title='owned'</script>"


class Formgrader:
    """JupyterLab's server in OUT, asked over HTTP."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/formgrader"

    def get(self, path, data=None, method="GET"):
        body = None if data is None else json.dumps(data).encode()
        headers = {"Authorization": f"token {TOKEN}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/{path}", body, headers, method=method)
        with urllib.request.urlopen(request, timeout=DEADLINE) as reply:
            return reply.read().decode()

    def answers(self) -> bool:
        """Whether it listens by now; where it does not, only after a moment."""
        try:
            return self.api("status") == {"status": True}
        except (urllib.error.URLError, ConnectionError):
            return threading.Event().wait(0.2)

    def api(self, path, data=None, method="GET"):
        return json.loads(self.get(f"api/{path}", data, method))

    def grade_ids(self, student):
        [submission] = [each for each in self.api(f"submitted_notebooks/{NAME}/{NAME}") if each["student"] == student]
        grades = self.api(f"grades?submission_id={submission['id']}")
        return submission["id"], {grade["name"]: grade for grade in grades}


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    out = tmp_path_factory.mktemp("course")
    ran = f"open({str(out / 'ran')!r}, 'w').close()"
    outputs = [v4.new_output("display_data", data={"text/html": SCRIPT, "text/plain": "a table"})]
    hostile = classroom.answered(TINY, outputs, pick=ran, why=f"Because. {SCRIPT}")
    classroom.record(out, classroom.verdict("ada", PASSED, HALF), at="2026-01-05 12:00:00 +0100")
    classroom.record(out, classroom.verdict("bo", FAILED, HALF))
    classroom.record(out, classroom.verdict("mallory", FAILED, FAILED, notebook=hostile), at="2026-01-05 12:00:00 UTC")
    classroom.record(out, classroom.verdict("torn", INVALID, INVALID, INVALID, notebook=TINY.release))
    exchange = out.parent / f"{out.name}-exchange"
    exchange.mkdir()
    with (out / "nbgrader_config.py").open("a") as settings:
        settings.write(f"c.Exchange.root = {str(exchange)!r}\n")
    return out


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """An environment without the settings of whoever runs the tests, the programs of this one first on PATH."""
    home = tmp_path_factory.mktemp("home")
    kept = {key: value for key, value in os.environ.items() if not key.startswith("JUPYTER")}
    return {**kept, "HOME": str(home), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture(scope="module")
def formgrader(out, environment):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = [f"--port={port}", "--ServerApp.port_retries=0", "--no-browser", "--allow-root"]
    command = [sys.executable, "-m", "jupyterlab", *settings, f"--IdentityProvider.token={TOKEN}"]
    log = out.parent / "server.log"
    with log.open("w") as file, subprocess.Popen(command, cwd=out, env=environment, stderr=file) as server:
        try:
            formgrader = Formgrader(port)
            until = time.monotonic() + DEADLINE
            while not formgrader.answers():
                assert server.poll() is None, log.read_text()
                assert time.monotonic() < until, log.read_text()
            yield formgrader
        finally:
            server.terminate()
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                server.kill()


def test_the_class_stands_in_the_formgrader(formgrader):
    class_ = {each["student"]: each for each in formgrader.api(f"submissions/{NAME}")}
    assert {student: each["score"] for student, each in class_.items()} == {"ada": 5, "bo": 2, "mallory": 0, "torn": 0}
    assert class_["ada"]["max_score"] == 9
    assert class_["ada"]["needs_manual_grade"]
    assert not class_["torn"]["needs_manual_grade"]
    assert all(formgrader.api(f"submission/{NAME}/{student}")["autograded"] for student in class_)


@pytest.mark.parametrize("page", ["manage_assignments", f"manage_submissions/{NAME}", f"gradebook/{NAME}/{NAME}"])
def test_its_pages_open(formgrader, page):
    assert "<title>nbgrader formgrade</title>" in formgrader.get(page)


def test_a_submissions_page_shows_the_message_and_nothing_that_runs(formgrader):
    submission, _ = formgrader.grade_ids("mallory")
    page = formgrader.get(f"submissions/{submission}/")
    assert "divide by how many there are" in page
    assert SCRIPT not in page
    assert "owned" in page


@pytest.mark.parametrize(("ours", "clean"), [(True, True), (False, False)])
def test_the_settings_in_out_clean_what_nbgraders_own_page_would_show(out, ours, clean):
    settings = database.load_config(out) if ours else Config()
    settings.HTMLExporter.template_name = "formgrade"
    settings.HTMLExporter.extra_template_basedirs = [handlers.template_path]
    outputs = [v4.new_output("display_data", data={"text/html": SCRIPT})]
    notebook = classroom.answered(TINY, outputs, why=SCRIPT)
    page, _ = HTMLExporter(config=settings).from_notebook_node(notebook, {"total": 1, "index": 0})
    assert (SCRIPT not in page) is clean


@pytest.mark.parametrize("source", ["%%julia\n'" + "\\" * 60, "\t \n" * 20_000], ids=["julia", "long"])
def test_the_settings_in_out_ask_no_lexer_that_may_take_for_ever(out, monkeypatch, source):
    def lexer(*_, **__):
        raise LookupError("a lexer was asked")

    monkeypatch.setattr("nbconvert.filters.highlight._pygments_highlight", lexer)
    notebook = classroom.answered(TINY, pick=source)
    for settings, asked in ((database.load_config(out), False), (Config(), True)):
        settings.HTMLExporter.template_name = "formgrade"
        settings.HTMLExporter.extra_template_basedirs = [handlers.template_path]
        with pytest.raises(LookupError) if asked else nullcontext():
            page, _ = HTMLExporter(config=settings).from_notebook_node(notebook, {"total": 1, "index": 0})
            assert "julia" in page or "\t \n" * 1000 in page


def test_a_mark_and_a_comment_given_in_the_formgrader_survive_a_regrade(formgrader, out):
    submission, grades = formgrader.grade_ids("ada")
    formgrader.api(f"grade/{grades['why']['id']}", {"manual_score": 1.5, "extra_credit": 0.25}, "PUT")
    comments = formgrader.api(f"comments?submission_id={submission}")
    [comment] = [each for each in comments if each["name"] == "why"]
    formgrader.api(f"comment/{comment['id']}", {"manual_comment": "Which of them?"}, "PUT")
    classroom.record(out, classroom.verdict("ada", FAILED, HALF, digest="e" * 64), at="2026-01-05 12:00:00 +0100")
    _, grades = formgrader.grade_ids("ada")
    assert grades["check_pick"]["auto_score"] == 0.0
    assert grades["why"]["manual_score"] == 1.5
    row = next(row for row in record.rows(out, TINY) if (row.student, row.exercise) == ("ada", "why"))
    assert (row.points, row.verdict.value, row.comment) == (1.75, "manual", "Which of them?")


def test_its_autograde_button_replays_the_record_and_runs_nothing(formgrader, out):
    said = formgrader.api(f"submission/{NAME}/mallory/autograde", {}, "POST")
    assert said["success"], said
    _, grades = formgrader.grade_ids("mallory")
    assert grades["check_pick"]["auto_score"] == 0.0
    assert grades["why"]["needs_manual_grade"]
    assert not (out / "ran").exists()


def test_its_feedback_buttons_make_our_page_and_release_it(formgrader, out):
    assert not (out / "feedback").exists()
    for button in ("generate_feedback", "release_feedback"):
        said = formgrader.api(f"assignment/{NAME}/{button}", {}, "POST")
        assert said["success"], said
    released = list((out.parent / f"{out.name}-exchange").glob("*/feedback/*.html"))
    assert len(released) == len(list((out / "feedback").glob(f"*/{NAME}/{NAME}.html"))) == 4
    [page] = [text for each in released if '<p class="quiet">mallory</p>' in (text := each.read_text())]
    assert "divide by how many there are" in page
    assert "Exercise by exercise" in page  # ours, and not nbgrader's
    assert SCRIPT not in page


def test_nbgraders_export_has_the_class(formgrader, out):
    nbgrader("export", "--to", "grades.csv", cwd=out, home=out.parent / "home")
    rows = {row["student_id"]: row for row in courses.table(out / "grades.csv")}
    assert {student: float(row["score"]) for student, row in rows.items() if student != "ada"} == {
        "bo": 2.0,
        "mallory": 0.0,
        "torn": 0.0,
    }
    assert float(rows["ada"]["max_score"]) == 9.0


def test_generating_the_assignment_again_changes_nothing_that_students_get(formgrader, out):
    release = out / "release" / NAME / f"{NAME}.ipynb"
    before = [(cell.source, cell.metadata.get("nbgrader")) for cell in nbformat.read(release, 4).cells]
    nbgrader("generate_assignment", NAME, "--force", cwd=out, home=out.parent / "home")
    assert [(cell.source, cell.metadata.get("nbgrader")) for cell in nbformat.read(release, 4).cells] == before
