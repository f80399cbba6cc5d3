"""nbgrader's hidden tests and marking schemes in a source: students would get them, so they are refused."""

from __future__ import annotations

import pytest
from small_course import NAME, SOURCE, command

from autograder.model.course import Course

HIDDEN = "### BEGIN HIDDEN TESTS\nassert double(21) == 42\n### END HIDDEN TESTS\n"


@pytest.mark.parametrize(
    ("after", "added", "says"),
    [
        ('"twice 2 is 4"\n', HIDDEN, f'{NAME}, cell "check_double" (line 13): `BEGIN HIDDEN TESTS`'),
        ('"twice 2 is 4"\n', HIDDEN.replace("### ", "    #"), 'cell "check_double"'),
        ("import numpy as np\n", HIDDEN, f"{NAME}, code cell (line 4): `BEGIN HIDDEN TESTS`"),
        (
            "# # Small\n",
            "#\n# === BEGIN MARK SCHEME ===\n# 2 points for\n# === END MARK SCHEME ===\n",
            "`BEGIN MARK SCHEME`",
        ),
    ],
)
def test_a_region_that_nbgrader_would_clear_is_refused_with_the_mend(
    own_small: Course, after: str, added: str, says: str
):
    released = own_small.notebook(NAME).read_bytes()
    own_small.source(NAME).write_text(SOURCE.replace(after, after + added))
    done = command("build", root=own_small.root)
    assert (done.returncode, says in done.stderr) == (2, True), done.stderr
    assert "students would see it" in done.stderr
    assert own_small.notebook(NAME).read_bytes() == released


def test_it_says_where_such_tests_belong(own_small: Course):
    own_small.source(NAME).write_text(SOURCE.replace('"twice 2 is 4"\n', '"twice 2 is 4"\n' + HIDDEN))
    assert "checks/test_90_small.py" in command("build", root=own_small.root).stderr
