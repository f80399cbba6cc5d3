"""What the warm servers give to the processes that they fork: hashes that a rerun has again, and nothing of our environment."""

import os
import secrets
import subprocess
import sys
from pathlib import Path

import courses
import pytest
from small_course import CHECKS, NAME, SOURCE

from autograder.job import forkserver
from autograder.job.kernel_process import KernelProcess
from autograder.model.course import Limits
from autograder.probe import asking
from autograder.probe.asking import probe
from autograder.sandbox import boxes, owners

pytestmark = pytest.mark.skipif(bool(boxes.problem()), reason=boxes.problem())
SECRET = secrets.token_hex(8)
HASH = "print(hash('across'))"


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """Servers of a small chapter of their own, started by a process whose environment holds a secret."""
    course = courses.write(tmp_path_factory.mktemp("course"), NAME, SOURCE, CHECKS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SECRET", SECRET)
        yield forkserver.servers(course, forkserver.make_rubric(course, NAME))


@probe
def hashes(student):
    import subprocess
    import sys

    said = subprocess.run([sys.executable, "-c", "print(hash('across'))"], capture_output=True, text=True)
    return [hash("across"), int(said.stdout)]


def test_a_kernel_and_what_it_starts_have_the_hashes_of_every_other_box(servers):
    kernel = KernelProcess(servers.student.path, owners.new_name("j"), Limits())
    try:
        kernel.ready()
        got = asking.Student(asking.by_socket(kernel.questions), deadline=90.0).ask(hashes)
    finally:
        kernel.close()
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    want = subprocess.run([sys.executable, "-c", HASH], env=environment, capture_output=True, text=True, check=True)
    assert got == [int(want.stdout)] * 2


@pytest.mark.parametrize("name", ["student", "checker", "driver"])
def test_no_server_has_our_environment(servers, name):
    environment = Path(f"/proc/{getattr(servers, name).process.pid}/environ").read_text()
    assert "PATH=" in environment
    assert SECRET not in environment


@pytest.mark.parametrize("path", [None, "", os.pathsep])
def test_what_lies_in_the_folder_where_one_grades_is_imported_by_no_server(tmp_path, monkeypatch, path):
    folder = tmp_path / "a submission"
    folder.mkdir()
    for name in ("across", "autograder", "numpy", "zmq", "pytest", "ipykernel", "sitecustomize"):
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'a').write(__name__)")
    course = courses.write(tmp_path / "course", NAME, SOURCE, CHECKS)
    monkeypatch.chdir(folder)
    if path is not None:
        monkeypatch.setenv("PYTHONPATH", path)
    started = forkserver.servers(course, forkserver.make_rubric(course, NAME))
    kernel = KernelProcess(started.student.path, owners.new_name("j"), Limits())
    try:
        kernel.ready()
        first = asking.Student(asking.by_socket(kernel.questions), deadline=90.0).ask(where)
    finally:
        kernel.close()
    assert not (tmp_path / "imported").exists()
    assert first == "", "a notebook imports what lies beside it"


@probe
def where(student):
    import sys

    return sys.path[0]
