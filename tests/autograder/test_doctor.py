"""`autograder doctor`: what it says of a machine that grades, and of one that cannot."""

import os
import subprocess
import sys

import pytest
from boxed import needs_a_box


def doctor(course, **environment):
    command = [sys.executable, "-m", "autograder", "--course", str(course.root), "doctor"]
    env = {**os.environ, **environment}
    ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    return ran.returncode, " ".join((ran.stdout + ran.stderr).split())


@needs_a_box
@pytest.mark.whole
def test_a_machine_that_grades_is_told_so(fixture_course):
    code, said = doctor(fixture_course)
    assert (code, said.partition(": ")[2]) == (
        0,
        "its own answers and its blank are graded here as they should be; 2 pages",
    )


def test_a_machine_without_a_sandbox_reads_what_grade_says_of_it(fixture_course, tmp_path):
    code, said = doctor(fixture_course, PATH=str(tmp_path))
    assert code == 1
    assert "bubblewrap" in said
    assert "does not grade" in said
