"""Assembling: the student's sources in our notebook, and nothing else of theirs."""

import copy
import time
from dataclasses import replace

import nbformat
import pytest

from autograder.job.assemble import SKIP, assemble, executed
from autograder.model import course
from autograder.model.course import Chapter, Limits
from autograder.submissions.intake import Submission
from autograder.submissions.unanswered import blank

NAME = "01_tiny"


def cell(source, grade_id="", kind="code", tags=(), **flags):
    made = {"cell_type": kind, "id": f"c{abs(hash((source, grade_id)))}", "metadata": {"tags": list(tags)}}
    made["source"] = source.splitlines(keepends=True)  # nbformat on disk
    if grade_id:
        made["metadata"]["nbgrader"] = {"grade_id": grade_id, "schema_version": 3, **flags}
    return made | ({"outputs": [], "execution_count": None} if kind == "code" else {})


def checked(name, *answers):
    made = cell(f"check({name})", f"check_{name}", grade=True, locked=True, points=2)
    made["metadata"]["across"] = {"exercise": name, "answers": list(answers)}
    return made


def chapter() -> Chapter:
    why = cell("Your answer.", "why", "markdown", grade=True, solution=True, points=1)
    why["metadata"]["across"] = {"exercise": "why"}
    cells = [
        cell("# Tiny", kind="markdown"),
        cell("import tensorflow as tf"),
        cell("base = measure()", tags=["show"]),
        cell("picture = draw(base)", tags=["show"]),
        cell("def pick(names):  # your turn\n    raise NotImplementedError", "pick", solution=True),
        checked("pick", "pick"),
        cell("def spread(n):\n    # roughly 2 lines\n    raise NotImplementedError", "spread", solution=True),
        checked("spread", "pick", "spread"),
        checked("both", "pick", "spread"),
        why,
        cell("%matplotlib inline\nplot(picture)", tags=["show"]),
    ]
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python"}}
    release = {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells}
    return Chapter(NAME, "Tiny", release, course.exercises(NAME, release), Limits())


CHAPTER = chapter()


def submitted(**answers: str) -> Submission:
    return Submission("ada", NAME, {**CHAPTER.answers, **answers})


def ran(notebook) -> list[str]:
    return [c.source for c in notebook.cells if c.cell_type == "code" and SKIP not in c.metadata.get("tags", [])]


def test_only_the_answers_are_the_students():
    before = copy.deepcopy(CHAPTER.release)
    notebook = assemble(submitted(pick="def pick(names): return names[0]", why="Because."), CHAPTER)
    assert CHAPTER.release == before, "the release itself was changed"
    changed = {}
    for ours, theirs in zip(before["cells"], notebook.cells, strict=True):
        assert ours["metadata"].get("nbgrader") == theirs.metadata.get("nbgrader")
        if course.text(ours) != theirs.source:
            changed[theirs.metadata["nbgrader"]["grade_id"]] = theirs.source
    assert changed == {"pick": "def pick(names): return names[0]", "why": "Because."}
    assert notebook.metadata == before["metadata"]
    nbformat.validate(notebook)


def test_a_grade_id_that_is_no_answer_is_not_taken():
    assert "mine" not in str(assemble(submitted(check_pick="mine", nobody="mine"), CHAPTER))


def test_what_could_not_be_taken_stays_as_released():
    notebook = assemble(Submission("ada", NAME, {}, {"pick": "twice"}), CHAPTER)
    assert [c.source for c in notebook.cells] == [course.text(c) for c in CHAPTER.release["cells"]]


def test_no_output_of_anybody_is_kept():
    release = copy.deepcopy(CHAPTER.release)
    release["cells"][1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "old"}]
    release["cells"][1]["execution_count"] = 7
    notebook = assemble(submitted(), replace(CHAPTER, release=release))
    assert all(c.outputs == [] and c.execution_count is None for c in notebook.cells if c.cell_type == "code")


def test_checks_are_not_executed_and_shown_cells_only_when_used():
    assert ran(assemble(submitted(), CHAPTER)) == [
        "import tensorflow as tf",
        CHAPTER.answers["pick"],
        CHAPTER.answers["spread"],
    ]


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("def pick(names): return names[base]", ["base = measure()"]),
        (
            "def pick(names):\n    def inner(): return picture\n    return inner",
            ["base = measure()", "picture = draw(base)"],
        ),
        ("def pick(base): return base", []),
        ("def pick(names): return 'base'  # base", []),
        ("%time base", ["base = measure()"]),  # no Python: every word counts
        ("def pick(:\n  picture", ["base = measure()", "picture = draw(base)"]),
        ("if pick:\n    del base", ["base = measure()"]),
        # looked up by its text
        ("from __main__ import base\nbase()", ["base = measure()"]),
        ("import __main__\nbase = __main__.base\nbase()", ["base = measure()"]),
        ("import sys\nx = sys.modules['__main__'].base", ["base = measure()"]),
        ("base = globals()['base']\nbase()", ["base = measure()"]),
        ("base = get_ipython().user_ns['base']\nbase()", ["base = measure()"]),
        ("exec('x = base')", ["base = measure()"]),
        # its own helper: a shown cell further down that has the name for something else would take it away
        ("import base\n\ndef pick(names):\n    return base.first(names)", []),
        ("def pick(names):\n    return base(names)\n\ndef base(n): return base(n - 1)", []),
        ("def pick(names):\n    return base\n\npick(3)\nbase = 3", ["base = measure()"]),
    ],
)
def test_a_shown_cell_is_executed_when_an_answer_uses_what_it_binds(source, shown):
    got = ran(assemble(submitted(pick=source), CHAPTER))
    assert [each for each in got if each in ("base = measure()", "picture = draw(base)")] == shown


@pytest.mark.parametrize(
    ("source", "own"),
    [
        ("import x.y\nx.y()", True),
        ("from y import z as x\nx()", True),
        ("class x: pass\nx()", True),
        ("x = 1\ndef pick(): return x", False),  # called later: it reads what another cell has bound by then
        ("x = x + 1\nprint(x)", False),
        ("try:\n    import x\nexcept ImportError:\n    pass\nprint(x)", False),
        ("x: int\nprint(x)", False),
        ("from y import *\nprint(x)", False),
        ("@x\ndef x(): pass", False),
        ("del x", False),
    ],
)
def test_a_name_that_a_cell_binds_itself_before_it_reads_it_is_nobody_elses(source, own):
    assert executed(["show", "plain"], ["x = measure()", source]) == [not own, True]


def test_hostile_sources_are_assembled():
    for source in (
        "(" * 60000,
        "-" * 60000 + "1",
        "\x00",
        "x." * 30000 + "y",
        "\ufffd",
        "lambda:" * 9000 + "1",
        "lambda:" * 600 + "1",  # shallow enough for Python's symbol table, too deep to be walked through
        "def pick(names):\n    return " + "lambda:" * 600 + "1",
        "".join(" " * n + ("def f():\n", "class f:\n")[n % 2] for n in range(90)) + " " * 90 + "base += 1",
        "a" * 65536,
    ):
        assert any(c.source == source for c in assemble(submitted(pick=source), CHAPTER).cells)
        blank(submitted(pick=source), CHAPTER)


@pytest.mark.parametrize("before", ["x=", "def pick(names):\n    raise NotImplementedError\n", "# x\n"])
def test_a_source_that_is_slow_to_cut_into_tokens_does_not_keep_the_grader_busy(before):
    source = before + "'\\" * 32000 + "1"  # no box and no time limit holds here: 34 s, in each cell
    started = time.process_time()
    submission = submitted(pick=source)
    assemble(submission, CHAPTER)
    assert "pick" not in blank(submission, CHAPTER)
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    "source",
    [
        "def pick(names):  # your turn\n    raise NotImplementedError",
        "\n\ndef pick(names):\n\n        # thinking\n        raise   NotImplementedError  # later\n\n",
        "# only a remark\ndef pick( names ):\n\traise NotImplementedError",
    ],
)
def test_comments_and_whitespace_do_not_make_an_attempt(source):
    assert "pick" in blank(submitted(pick=source), CHAPTER)


@pytest.mark.parametrize("source", ["", "pass", "def pick(names):\n    raise ValueError", "def pick(names:\n", "'''"])
def test_any_other_code_is_an_attempt(source):
    assert "pick" not in blank(submitted(pick=source), CHAPTER)


@pytest.mark.parametrize(("prose", "untouched"), [(" Your answer.\n", True), ("Your  answer.", False), ("", False)])
def test_prose_is_compared_as_it_is(prose, untouched):
    assert ("why" in blank(submitted(why=prose), CHAPTER)) == untouched


def test_an_exercise_of_several_cells_is_blank_when_its_own_is():
    pick = "def pick(names): return names[0]"
    assert blank(submitted(pick=pick), CHAPTER) == {"spread", "why"}
    assert blank(submitted(), CHAPTER) == {"pick", "spread", "both", "why"}


def test_a_missing_answer_is_blank_and_one_that_cannot_be_taken_is_not():
    assert blank(Submission("ada", NAME), CHAPTER) == {"pick", "spread", "both", "why"}
    assert blank(Submission("ada", NAME, {}, {"pick": "twice"}), CHAPTER) == {"spread", "why"}
