"""What the warm servers give to the processes that they fork: hashes that a rerun has again, and nothing of our environment."""

import os
import secrets
import subprocess
import sys
from pathlib import Path

import courses
import pytest
from boxed import needs_a_box
from small_course import CHECKS, NAME, SOURCE

from autograder.job import forkserver
from autograder.probe import asking
from autograder.probe.asking import probe

pytestmark = needs_a_box
SECRET = secrets.token_hex(8)
HASH = "print(hash('across'))"


@pytest.fixture(
    scope="module", params=[os.pathsep, *(pytest.param(each, marks=pytest.mark.slow) for each in (None, ""))]
)
def folder(request, tmp_path_factory):
    """Where somebody grades: it holds a submission whose files are called like our modules. The parameter is PYTHONPATH."""
    made = tmp_path_factory.mktemp("grades") / "a submission"
    made.mkdir()
    for name in ("across", "autograder", "numpy", "zmq", "pytest", "ipykernel", "sitecustomize"):
        (made / f"{name}.py").write_text(f"open({str(made / 'imported')!r}, 'a').write(__name__)")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        patch.setenv("SECRET", SECRET)
        if request.param is not None:
            patch.setenv("PYTHONPATH", request.param)
        yield made


@pytest.fixture(scope="module")
def servers(folder, tmp_path_factory):
    """Servers of a small chapter, started there by a process whose environment holds a secret."""
    course = courses.write(tmp_path_factory.mktemp("course"), NAME, SOURCE, CHECKS)
    yield forkserver.servers(course, forkserver.make_rubric(course, NAME))
    courses.close(course.root)


@pytest.fixture
def student(servers):
    """A notebook that they forked."""
    with courses.kernel(servers) as kernel:
        yield asking.Student(asking.by_socket(kernel.questions), deadline=90.0)


@probe
def hashes(student):
    import subprocess
    import sys

    said = subprocess.run([sys.executable, "-c", "print(hash('across'))"], capture_output=True, text=True)
    return [hash("across"), int(said.stdout)]


def test_a_kernel_and_what_it_starts_have_the_hashes_of_every_other_box(student):
    got = student.ask(hashes)
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    want = subprocess.run(
        [sys.executable, "-P", "-c", HASH], env=environment, cwd="/", capture_output=True, text=True, check=True
    )
    assert got == [int(want.stdout)] * 2


@pytest.mark.parametrize("name", ["student", "checker", "driver"])
def test_no_server_has_our_environment(servers, name):
    environment = Path(f"/proc/{getattr(servers, name).process.pid}/environ").read_text()
    assert "PATH=" in environment
    assert SECRET not in environment


def test_what_lies_in_the_folder_where_one_grades_is_imported_by_no_server(folder, student):
    assert student.ask(where) == "", "a notebook imports what lies beside it"
    assert not (folder / "imported").exists()


@probe
def where(student):
    import sys

    return sys.path[0]
