"""The late policy: a percentage a started day, in nbgrader's own plugin and configuration."""

from dataclasses import replace
from inspect import signature
from typing import Any

import classroom
import pytest
from classroom import NAME, TINY, write
from small_course import NAME as SMALL
from small_course import command
from stock import nbgrader
from typer.main import get_command

from autograder.commands import instructors
from autograder.gradebook import late_penalty, record
from autograder.gradebook.late_penalty import DAY, LatePerDay
from autograder.model.course import CourseError
from autograder.report import outputs

DUE = "2026-01-05T12:00+00:00"


@pytest.mark.parametrize(
    ("score", "seconds", "how", "points"),
    [
        *((10.0, seconds, {}, off) for seconds, off in ((1, 1.0), (DAY, 1.0), (DAY + 1, 2.0), (3 * DAY, 3.0))),
        *((10.0, days * DAY, {}, 10.0) for days in (10, 400)),  # never more than the score
        (10.0, 900, {"grace_seconds": 900.0}, None),
        (10.0, 901, {"grace_seconds": 900.0}, 1.0),  # after the grace days count from the due date
        (10.0, DAY + 1, {"grace_seconds": 900.0}, 2.0),
        (4.0, 1, {"per_day": 0.0333}, 0.13),  # rounded to a hundredth of a point
        (0.0, 1, {}, 0.0),
        (7.0, 1, {"penalty_method": "zero"}, 7.0),  # nbgrader's goes before the percentage
    ],
)
def test_a_started_day_costs_its_percentage_after_the_grace(score, seconds, how, points):
    policy = LatePerDay(**{"per_day": 0.1} | how)
    assert policy.late_submission_penalty("ada", score, seconds) == points


def test_the_policy_reaches_the_gradebook_and_what_is_recorded_already(tmp_path):
    when = "2026-01-06 13:00:00 UTC"  # the second day has started
    assert write(tmp_path, when).penalty == 0.0
    late_penalty.settle(tmp_path, TINY, DUE, "10%", None)
    assert write(tmp_path, when).penalty == 1.0  # of 5 points
    late_penalty.settle(tmp_path, TINY, None, "20%", None)
    assert write(tmp_path, when).penalty == 2.0
    late_penalty.settle(tmp_path, TINY, None, None, "2d")
    assert write(tmp_path, when).penalty == 0.0


def test_a_mark_by_hand_changes_what_the_percentage_is_of_also_for_nbgrader(tmp_path):
    late_penalty.settle(tmp_path, TINY, DUE, "10%", None)
    assert write(tmp_path, "2026-01-06 13:00:00 UTC").penalty == 1.0  # two days of 5 points
    exercise = TINY.exercises[0]
    classroom.by_hand(tmp_path, 0.0, cell=exercise.grade_id)
    [now] = record.records(tmp_path, TINY)
    assert now.penalty == pytest.approx(0.2 * (5.0 - exercise.max_points))
    outputs.write(tmp_path, TINY)
    with record.book(tmp_path, TINY) as book:
        assert book.find_submission(NAME, "ada").late_submission_penalty == now.penalty


def test_a_policy_written_again_leaves_the_rest_of_the_configuration_as_it_is(tmp_path):
    config = tmp_path / "nbgrader_config.py"
    config.write_text('c = get_config()\nc.Mine.colour = "blue"\n')
    late_penalty.settle(tmp_path, TINY, DUE, "10%", "15m")
    late_penalty.settle(tmp_path, replace(TINY, name="02_other"), "2026-02-01T00:00:00+01:00", None, None)
    text = config.read_text()
    assert 'c.Mine.colour = "blue"' in text
    assert text.count("LatePerDay.per_day = 0.1 ") == 1
    assert f"'{NAME}': '2026-01-05T12:00:00Z', '02_other': '2026-01-31T23:00:00Z'" in text


OWN = """\
from nbgrader.plugins import LateSubmissionPlugin
from autograder.gradebook.late_penalty import LatePerDay

class Half(LateSubmissionPlugin):
    def late_submission_penalty(self, student_id, score, total_seconds_late):
        return score / 2

class Gentle(LatePerDay):
    def late_submission_penalty(self, student_id, score, total_seconds_late):
        return (super().late_submission_penalty(student_id, score, total_seconds_late) or 0.0) / 2

c = get_config()
"""


def own_plugin(config, name, below=""):
    config.write_text(f"{OWN}{below}\nc.AssignLatePenalties.plugin_class = {name}\n", encoding="utf-8")


def test_a_plugin_of_the_instructors_own_stays_wherever_it_is_named(tmp_path):
    config = tmp_path / "nbgrader_config.py"
    own_plugin(config, "Half")
    late_penalty.settle(tmp_path, TINY, DUE, None, None)
    assert write(tmp_path, "2026-01-05 13:00:00 UTC").penalty == 2.5  # of 5 points
    own_plugin(config, "Half", below=late_penalty.BLOCK.findall(config.read_text(encoding="utf-8"))[0])
    assert late_penalty.policy(tmp_path)("ada", 5.0, 3600) == 2.5


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            'AssignLatePenalties.plugin_class = "mine.Half"',
            "= 'mine.Half': ModuleNotFoundError: No module named 'mine'",
        ),
        ('AssignLatePenalties.plugin_class = "json.Half"', "= 'json.Half': ImportError: "),
        ("AssignLatePenalties.plugin_class = int", "= <class 'int'>: TraitError: "),
        ('LateSubmissionPlugin.penalty_method = "half"', "c.LateSubmissionPlugin: TraitError: "),
    ],
)
def test_a_plugin_that_cannot_be_had_is_the_authors_fault_with_the_mend_and_nobodys_mark(tmp_path, line, says):
    config = tmp_path / "nbgrader_config.py"
    config.write_text(f"c = get_config()\nc.{line}\n", encoding="utf-8")
    asked = [
        lambda: late_penalty.settle(tmp_path, TINY, DUE, None, None),
        lambda: late_penalty.policy(tmp_path),
        lambda: write(tmp_path, "2026-01-05 13:00:00 UTC"),
    ]
    for ask in asked:
        with pytest.raises(CourseError) as error:
            ask()
        assert str(error.value).startswith(f"{config}: c.{line.split()[0].split('.')[0]}")
        assert says in str(error.value)
        assert str(error.value).endswith(("or take that line out of the file", "; mend that setting"))


def test_a_plugin_that_asks_for_the_percentage_goes_with_it(tmp_path):
    own_plugin(tmp_path / "nbgrader_config.py", "Gentle")
    late_penalty.settle(tmp_path, TINY, DUE, "20%", None)
    assert late_penalty.policy(tmp_path)("ada", 5.0, 3600) == 0.5


@pytest.mark.parametrize("name", ["Half", "LateSubmissionPlugin"])
@pytest.mark.parametrize(("per_day", "grace"), [("10%", None), (None, "15m")])
def test_a_percentage_that_another_plugin_would_not_ask_is_refused_and_nothing_is_written(
    tmp_path, name, per_day, grace
):
    config = tmp_path / "nbgrader_config.py"
    own_plugin(config, name)
    before = config.read_bytes()
    with pytest.raises(CourseError) as error:
        late_penalty.settle(tmp_path, TINY, DUE, per_day, grace)
    assert str(error.value).startswith(f"{config}: c.AssignLatePenalties.plugin_class is {name}, which asks neither")
    assert str(error.value).endswith("leave these out, or take that line out of the file")
    assert config.read_bytes() == before


def test_whatever_is_kept_of_a_policy_is_an_option_that_grade_hands_on_and_no_rehearsal_takes(small, tmp_path):
    asked = signature(late_penalty.settle).parameters.keys() - {"out", "chapter", "db_url"}
    verbs: Any = get_command(instructors.app)
    options = [each for each in verbs.commands["grade"].params if str(each.help).startswith("kept in OUT: ")]
    assert len(options) == len(asked)
    for each in options:
        call = ("grade", SMALL, "--submissions", tmp_path, "--out", tmp_path / "out", "--dry-run", each.opts[0], "10%")
        said = " ".join(command(*call, root=small.root, columns=400, code=2).stderr.split())
        assert "--dry-run goes with neither --watch nor" in said
        assert each.opts[0] in said


def test_stock_nbgrader_takes_the_same_points_off(tmp_path):
    late_penalty.settle(tmp_path, TINY, DUE, "10%", None)
    before = write(tmp_path, "2026-01-06 13:00:00 UTC")
    nbgrader("autograde", NAME, "--force", cwd=tmp_path, home=tmp_path / "home")
    after = next(iter(record.records(tmp_path, TINY)))
    assert (after.penalty, after.seconds_late) == (before.penalty, before.seconds_late) == (1.0, 90000.0)


@pytest.mark.parametrize(
    ("when", "per_day", "grace", "says"),
    [
        ("tomorrow", None, None, "write it like 2026"),
        ("2026-01-05T12:00", None, None, "add the offset"),
        (DUE, "ten", None, "write it like 10%"),
        (DUE, "101%", None, "write it like 10%"),
        (DUE, "10%", "soon", "write it like 15m"),
        (None, "10%", None, "add --due"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_mend_and_nothing_is_written(tmp_path, when, per_day, grace, says):
    with pytest.raises(CourseError, match=says):
        late_penalty.settle(tmp_path, TINY, when, per_day, grace)
    assert not (tmp_path / "nbgrader_config.py").exists()


def test_a_due_date_of_the_class_goes_before_the_chapters(tmp_path):
    due = replace(TINY, due="2026-01-01T12:00:00Z")
    assert write(tmp_path, "2026-01-05 12:00:00 UTC", tiny=due).seconds_late == 4 * DAY
    late_penalty.settle(tmp_path, due, DUE, None, None)
    assert write(tmp_path, "2026-01-05 12:00:00 UTC", tiny=due).seconds_late == 0.0
