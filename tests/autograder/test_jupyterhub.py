"""A JupyterHub on this machine: each student's server, nbgrader's list, the grader's service, and a page that comes back.

The hub, its proxy, its servers and its users are real (`a_hub`); nobody stands between a student's "Submit" and the page.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import a_hub
import classroom
import pytest
from boxed import needs_a_box, root_only
from visitors import Visitor

from autograder.authoring import build
from autograder.model import course

CHAPTER = "03_device_placement"
NOTEBOOK = f"{CHAPTER}/{CHAPTER}.ipynb"
ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "jupyterhub.md").read_text(encoding="utf-8")
STARTS, GRADED, ENDS = 400.0, 300.0, 120.0  # seconds; deadlines
NO_PROXY = "no configurable-http-proxy here: npm install --global configurable-http-proxy@5.1.0"
GRADE = ["--course", str(ROOT), "grade", CHAPTER, "--submissions", "{exchange}", "--out", "{home}/class"]
SERVICE = [sys.executable, "-m", "autograder", *GRADE, "--watch", "--release-feedback"]

pytestmark = [
    pytest.mark.slow,
    root_only,
    needs_a_box,
    pytest.mark.skipif(not a_hub.proxy(), reason=NO_PROXY),
    pytest.mark.skipif(not (a_hub.BIN / "jupyterhub").exists(), reason="no jupyterhub here: uv sync --group ci"),
]


@dataclass
class Hub:
    """A hub that serves, the folder in which all of it is, and who has signed in."""

    address: str
    pid: int
    folder: Path
    visitors: dict[str, Visitor]

    def as_user(self, name: str, code: str) -> str:
        """What Python code says that a user of the hub runs."""
        number = a_hub.FIRST + [*a_hub.STUDENTS, a_hub.GRADER].index(name)
        become = ["setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups", sys.executable, "-c", code]
        command = ["nsenter", "--mount", f"--target={self.pid}", *become]
        return subprocess.run(command, cwd="/", capture_output=True, text=True, check=True, timeout=60).stdout.strip()


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    folder = Path(tempfile.mkdtemp(prefix="across-hub-", dir="/tmp"))  # pytest's own are closed to others
    folder.chmod(0o755)
    program = ["unshare", "--mount", sys.executable, a_hub.__file__, str(folder)]
    command = [*program, str(ROOT / "notebooks" / f"{CHAPTER}.ipynb"), *SERVICE]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen(command, start_new_session=True, text=True, **pipes)
    assert process.stdin
    assert process.stdout
    try:
        assert select.select([process.stdout], [], [], STARTS)[0], log(folder)
        said = json.loads(process.stdout.readline() or "null")
        assert said, log(folder)
        visitors = {name: Visitor(said["address"], name, a_hub.PASSWORD) for name in a_hub.STUDENTS}
        for visitor in visitors.values():
            visitor.start()
        yield Hub(said["address"], said["pid"], folder, visitors)
    finally:
        process.stdin.close()
        try:
            process.wait(ENDS)
        finally:
            end_all(process.pid)
            shutil.rmtree(folder)


def end_all(group: int) -> None:
    for pid in owned(*range(a_hub.FIRST, a_hub.FIRST + 3)):
        os.kill(pid, signal.SIGKILL)
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def owned(*users: int) -> list[int]:
    """The processes of these users."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if path.stat().st_uid in users:
                found.append(int(path.name))
        except FileNotFoundError:  # ended meanwhile
            continue
    return found


def log(folder: Path) -> str:
    path = folder / "hub" / "log"
    return path.read_text(errors="replace")[-4000:] if path.exists() else "the hub was not started"


@pytest.fixture(scope="module")
def pages(hub: Hub) -> dict[str, Path]:
    """Both fetch, one answers, both submit; the page that each has in the end, and nobody did anything for it."""
    reference = build.solution_source(course.find(ROOT), CHAPTER)
    for name, visitor in hub.visitors.items():
        visitor.exchange("fetch", CHAPTER, a_hub.COURSE)
        if name == a_hub.STUDENTS[0]:
            answer(visitor, reference)
        visitor.exchange("submit", CHAPTER, a_hub.COURSE)
    return {name: hub.folder / "home" / name / fetched(hub, visitor) for name, visitor in hub.visitors.items()}


def answer(visitor: Visitor, answers: dict[str, str]) -> None:
    """Open the chapter, write the answers into it and save it, as JupyterLab does."""
    model = json.loads(visitor.ask(f"api/contents/{NOTEBOOK}")[1])
    for cell in model["content"]["cells"]:
        grade_id = cell["metadata"].get("nbgrader", {}).get("grade_id")
        cell["source"] = answers.get(grade_id, cell["source"])
    body = {"type": "notebook", "format": "json", "content": model["content"]}
    assert visitor.ask(f"api/contents/{NOTEBOOK}", body, method="PUT")[0] == 200


def fetched(hub: Hub, visitor: Visitor) -> str:
    """Press "Fetch Feedback" until there is a page; where it lies."""
    until = time.monotonic() + GRADED
    while time.monotonic() < until:
        said: Any = visitor.exchange("fetch_feedback", CHAPTER, a_hub.COURSE)["value"]
        [submission] = next(each["submissions"] for each in said if each["status"] == "submitted")
        [notebook] = submission["notebooks"]
        if notebook["local_feedback_path"]:
            return notebook["local_feedback_path"]
        time.sleep(0.5)
    raise AssertionError(f"no page for {visitor.name}:\n{log(hub.folder)}")


def points(page: Path) -> tuple[str, float]:
    read: Any = classroom.shown(page)
    return read.find("p", class_="quiet").text, float(read.find(class_="total").strong.text)


def test_who_has_not_the_password_is_not_let_in(hub: Hub):
    stranger = Visitor(hub.address, "ada", "another word")
    assert stranger.signed_in[0] == 403
    assert stranger.ask("lab")[0] == 403


def test_each_has_a_server_of_their_own_with_our_start_page_our_validate_and_nbgraders_list(hub: Hub):
    for place, (name, visitor) in enumerate(hub.visitors.items()):
        status, page = visitor.ask("across/start")
        assert status == 200
        assert f"/user/{name}/lab/tree/" in page
        assert json.loads(visitor.ask("across/validate")[1]) == {}
        assert visitor.ask("assignments/validate")[0] == 404
        assert json.loads(visitor.ask("courses")[1])["value"] == [a_hub.COURSE]
        commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in owned(a_hub.FIRST + place)]
        assert any(b"jupyterhub-singleuser" in each for each in commands)


def test_kernels_are_forked_from_a_warm_process_of_the_same_user(hub: Hub):
    ada = hub.visitors["ada"]
    status, said = ada.ask("api/kernels", {"name": "python3"})
    assert status == 201
    commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in owned(a_hub.FIRST)]
    assert any(b"across._process.warm" in each for each in commands)
    assert ada.ask(f"api/kernels/{json.loads(said)['id']}", method="DELETE")[0] == 204


def test_what_is_submitted_comes_back_as_a_page_with_its_marks(pages: dict[str, Path]):
    (ada, hers), (bob, his) = points(pages["ada"]), points(pages["bob"])
    assert (ada, bob) == ("ada", "bob")
    assert hers > 10
    assert his == 0


def test_a_student_reaches_nothing_of_anothers(hub: Hub, pages: dict[str, Path]):
    bob, place = hub.visitors["bob"], hub.folder / "exchange" / a_hub.COURSE
    assert bob.ask("lab", whose="ada")[0] in (403, 404)
    assert bob.ask(f"api/contents/{NOTEBOOK}", whose="ada")[0] in (403, 404)
    tries = [f"os.listdir({str(place / folder)!r})" for folder in ("inbound", "feedback")]
    tries += [f"os.listdir({str(hub.folder / 'home' / who)!r})" for who in ("ada", a_hub.GRADER)]
    tries += [f"open({str(pages['ada'])!r}).read()", f"os.rename({str(place)!r}, {str(place) + '.mine'!r})"]
    tries += [f"open({str(place / 'feedback' / 'x.html')!r}, 'w')"]
    code = "import os\n"
    for each in tries:
        code += f"try:\n    {each}\n    print('done')\nexcept PermissionError:\n    print('refused')\n"
    assert hub.as_user("bob", code).split() == ["refused"] * len(tries)
    assert hub.as_user("ada", f"print(open({str(pages['ada'])!r}).read()[:9])") == "<!DOCTYPE"


def test_the_marks_are_the_graders_and_no_box_was_left(hub: Hub, pages: dict[str, Path]):
    marks = hub.folder / "home" / a_hub.GRADER / "class" / "totals.csv"
    until = time.monotonic() + GRADED
    while marks.read_text().count("\n") < 3 and time.monotonic() < until:  # written when nothing arrives
        time.sleep(0.2)
    assert marks.read_text().count("\n") == 3
    assert marks.stat().st_uid == a_hub.FIRST + 2


def test_the_page_says_the_settings_of_this_hub():
    for line in ("c.Exchange.root =", "c.CourseDirectory.course_id =", "--release-feedback", "start_timeout"):
        assert line in PAGE
