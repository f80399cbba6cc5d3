"""Verifying checks: what the trials of a chapter say of its checks, and what is written of it."""

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import courses
import pytest
from classroom import BY_HAND, FAILED, HALF, NAME, PASSED, chapter, verdict
from small_course import CHECKS, CODE, command

from autograder.authoring import build, check_answer, checks_page, mutants, trials, unboxed, verify
from autograder.authoring import worth as worth_of
from autograder.authoring.unboxed import Answered, Found
from autograder.authoring.verify import Trial, Verified
from autograder.authoring.worth import Tried
from autograder.model.course import Course, CourseError, find
from autograder.model.rubric import PlannedTest
from autograder.model.verdict import Evidence, Outcome
from autograder.probe import listed
from autograder.probe.listed import Equivalent, Variant
from fixture import CHAPTER

with_mutants = pytest.mark.skipif(not find_spec("cosmic_ray"), reason="cosmic_ray is not installed: uv sync --group ci")
TINY = chapter()
STRANGER = '\n\n@exercise("nobodys")\ndef test_stranger(student):\n    pass\n'
SAYS = "divide by how many"  # in the message of classroom.FAILED
WRONG = Variant(NAME, "pick", "sum_for_mean", False, "x = 1", says=SAYS, exercise="pick")
RIGHT = replace(WRONG, name="another_way", correct=True, says="")
SOURCE = "def pick(names):\n    return names[0]\n"


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    """A course of one chapter that lists nothing."""
    monkeypatch.setattr(listed, "variants", lambda file: [WRONG, RIGHT])
    monkeypatch.setattr(listed, "equivalents", lambda file: [])


def found(*results):
    """What is found of (trial, verdict)s."""
    made = Verified(NAME, "d" * 64, len(TINY.exercises))
    exercises = {exercise.name for exercise in TINY.exercises}
    verify._judge(TINY, Path("listed.toml"), made, dict(results), exercises)
    return made


def trial(kind, of=None, seed=1):
    return Trial(kind, getattr(of, "name", ""), seed, {}, of)


def graded(pick=PASSED, spread=PASSED, passed=None, kind="", misconception=""):
    made = verdict("x", pick=pick, spread=spread, why=BY_HAND)
    passed = False if misconception else passed
    outcomes = () if passed is None else (Outcome("pick", "test_pick", passed, 1.0, kind, "", misconception),)
    return replace(made, evidence=Evidence(outcomes))


def test_checks_that_do_what_they_must_are_good():
    made = found(
        (trial("reference"), graded(passed=True)),
        (trial("wrong", WRONG), graded(pick=FAILED, passed=False, kind="assert", misconception=WRONG.name)),
        (trial("right", RIGHT), graded(passed=True)),
    )
    assert (made.good, made.faults, made.tests) == (True, [], 1)


@pytest.mark.parametrize(
    ("one", "graded_as", "says"),
    [
        (trial("reference", seed=7), graded(pick=FAILED), "the reference is failed with seed 7"),
        (trial("blank"), graded(pick=HALF, spread=FAILED), "a blank answer gets 1.5 points"),
        (trial("wrong", WRONG), graded(), "is wrong and gets full points"),
        (trial("wrong", WRONG), graded(pick=HALF), "is not told"),
        (trial("wrong", WRONG), graded(pick=FAILED, misconception="another"), "their sentences are alike"),
        (trial("right", RIGHT), graded(pick=HALF), "is right and partial"),
        (
            trial("wrong", WRONG),
            graded(pick=FAILED, passed=False, kind="TypeError: x", misconception=WRONG.name),
            "met",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_check_does_wrong_is_one_line(one, graded_as, says):
    made = found((one, graded_as))
    assert not made.good
    assert says in made.faults[0]
    assert made.faults[0].startswith(TINY.checks)


def mutant_trials(*survived):
    """A mutant for each item, which says whether it survived."""
    some = mutants.mutants("pick", SOURCE)
    assert len(some) >= len(survived)
    for mutant, full in zip(some, survived, strict=False):
        yield trial("mutant", mutant), graded(pick=PASSED if full else FAILED)


@with_mutants
def test_mutants_that_live_survive():
    made = found(*mutant_trials(False, True))
    assert (made.killed, len(made.survivors), made.share, made.good) == (1, 1, 0.5, False)
    assert "full points for a mutant of pick" in "".join(verify.complaints(made))


def list_equivalent(monkeypatch, change):
    each = Equivalent(NAME, "pick", change, "it does the same")
    monkeypatch.setattr(listed, "equivalents", lambda file: [each])


@with_mutants
def test_an_equivalent_mutant_is_not_counted_but_listed(monkeypatch):
    list_equivalent(monkeypatch, None)
    made = found(*mutant_trials(False, True))
    assert (made.mutants, made.share, made.good) == (1, 1.0, True)
    assert "it does the same" in checks_page.section(made)


@with_mutants
def test_a_mutant_listed_as_equivalent_that_is_killed_is_the_authors_fault(monkeypatch):
    list_equivalent(monkeypatch, ("names[0]", "names[-1]"))
    first = next(each for each in mutants.mutants("pick", SOURCE) if each.operator == "LastForFirst")
    made = found((Trial("mutant", "", 1, {}, first), graded(pick=FAILED)))
    assert "take it out of the list" in made.faults[0]


def test_a_section_replaces_the_one_that_its_chapter_had(tmp_path):
    course = Course(tmp_path, "tiny", "Tiny", (NAME,))
    made = found((trial("reference"), graded(passed=True)))
    checks_page.write(course, made)
    checks_page.write(course, replace(made, digest="e" * 64, ticked=["pick: sums"]))
    assert "Ticked in the notebook and refused in grading: `pick: sums`" in checks_page.path(course).read_text("utf-8")
    assert checks_page.digests(course) == {NAME: "e" * 64}


def test_the_page_of_checks_has_a_good_section_of_every_chapter(monkeypatch):
    monkeypatch.undo()
    page = checks_page.path(find()).read_text()
    sections = {name: (digest, rest) for name, digest, rest in checks_page.SECTION.findall(page)}
    assert sorted(sections) == list(find().chapters)
    for name, (_, rest) in sections.items():
        head, _, cells = (line.strip("| \n").split(" | ") for line in rest.strip().splitlines()[:3])
        row = dict(zip(head, cells, strict=True))
        assert float(row["killed"].rstrip("%")) >= 95, name
        assert row["flakes"] == "0", name


@with_mutants
def test_one_exercise_alone_has_its_own_listed_answers_and_mutants_tried():
    pick, other = (exercise for exercise in TINY.exercises if exercise.name in ("pick", "spread"))
    reference = {name: SOURCE for exercise in (pick, other) for name in exercise.answer_ids}
    file = Path("listed.toml")
    tried = {each.name: list(trials.trials_of(TINY, [each], file, reference, 2)) for each in (pick, other)}
    kinds = {name: {each.kind for each in of} for name, of in tried.items()}
    assert kinds["pick"] == {"reference", "blank", "wrong", "right", "mutant"}
    assert kinds["spread"] == {"reference", "blank", "mutant"}
    mutated = {each.of.answer for of in tried.values() for each in of if isinstance(each.of, mutants.Mutant)}
    assert mutated == {*pick.answer_ids, *other.answer_ids}
    picked = {each.of.answer for each in tried["pick"] if isinstance(each.of, mutants.Mutant)}
    assert not picked & set(other.answer_ids)


@with_mutants
def test_a_trial_fills_in_what_its_exercise_looks_at_and_leaves_the_rest_blank():
    reference = {name: SOURCE for exercise in TINY.exercises for name in exercise.answer_ids}
    for trial in trials.trials_of(TINY, TINY.exercises, Path("listed.toml"), reference, 2):
        if trial.kind == "reference":
            assert trial.answers == reference
        elif isinstance(trial.of, mutants.Mutant):
            looking = [each for each in TINY.exercises if trial.of.answer in each.answer_ids]
            assert trial.answers.keys() == {name for each in looking for name in each.answer_ids}


def test_an_exercise_that_is_none_is_named_with_those_there_are():
    course = find()
    with pytest.raises(CourseError, match=r"no checked exercise .explian."):
        verify.verify(course, course.chapters[0], exercises=["explian"])


@pytest.mark.slow
@pytest.mark.parametrize("name", find().chapters)
def test_the_checks_of_a_chapter_do_what_they_must(name, monkeypatch):
    monkeypatch.undo()
    made = verify.verify(find(), name, seeds=3)
    assert list(verify.complaints(made)) == []
    assert made.good


def test_an_answer_without_a_thought_is_a_constant_or_what_was_given():
    made = dict(unboxed.trivial("def pick(names, *, last=False):\n    return names[0]\n"))
    assert {"None", "[]", "True", "names"} < made.keys()
    scope: dict = {}
    exec(made["names"], scope)
    assert scope["pick"]([1, 2], last=True) == [1, 2]
    assert dict(unboxed.trivial("guess = {'a': None}\n")) == {}


def test_wrong_rules_and_thoughtless_answers_that_earn_too_much_and_strict_visible_checks_are_the_authors_faults():
    def worth(kind, earned, visible=""):
        asked = Answered("pick", "pick", SOURCE, tuple(range(1, len(earned) + 1)))
        return list(worth_of.faults("test_x.py", Tried(kind, "pick: some", asked), Found(earned, visible)))

    assert worth("wrong", (0.0, 0.5), "✗ no") == worth("trivial", (0.0,)) == worth("right", (1.0,)) == []
    wrong = Tried("wrong", "pick: some", Answered("pick", "pick", SOURCE, (1,)))
    assert [worth_of.ticked(wrong, Found((0.0,), said)) for said in ("", "✗ no")] == [True, False]
    assert worth("wrong", (0.5, 0.75), "✗ no") == [
        'test_x.py, exercise "pick": the wrong rule pick: some earns 75% with seed 2, and may 50%; ask what tells it from '
        "the right one on every seed, or weigh that more"
    ]
    assert "earns 25% with seed 1" in worth("trivial", (0.25, 0.0))[0]
    assert "the visible check refuses what is right" in worth("right", (1.0,), "✗ pick: not yet.")[0]


@pytest.mark.whole
def test_an_answer_is_asked_on_each_seed_and_looked_at_by_the_visible_check(fixture_course):
    right = build.solution_source(fixture_course, CHAPTER)["place"]
    wrong = right.replace("placed[op.variable] if op.variable else op.pin or default", "op.pin or default")
    raises = "def place(ops, default, before):\n    1/0\n"
    asked = [Answered("place", "place", source, (1, 2)) for source in (right, wrong, raises)]
    found = unboxed.ask(fixture_course, CHAPTER, asked)
    assert (found[0].earned, found[0].visible) == ((1.0, 1.0), "")
    assert {each.passed for each in found[0].said} == {True}
    assert {each.seed for each in found[0].said} == {1, 2}
    assert max(found[1].earned) < 1
    assert found[1].visible.startswith("✗ ")
    assert found[2].earned == (0.0, 0.0)
    assert found[2].visible.startswith("✗ ")
    assert "division by zero" in found[2].visible


def test_seeds_are_left_out_after_a_while_but_for_the_first_few(fixture_course):
    asked = check_answer.Asked(fixture_course, CHAPTER)
    seeds = range(1, 7)
    assert [len({each.seed for each in asked.ask("place", {}, seeds, seconds)}) for seconds in (0.0, 60.0)] == [3, 6]


def test_a_visible_check_works_in_a_folder_of_its_own_with_the_chapters_files(fixture_course, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Course, "beside", lambda self, name: (("data/some.txt", b"given"),))
    right = build.solution_source(fixture_course, CHAPTER)["place"]
    keeps = "from pathlib import Path\nassert not Path('kept').exists(), 'of the one before'\nPath('kept').touch()\n"
    keeps += "assert Path('data/some.txt').read_text() == 'given'\n"
    asked = Answered("place", "place", keeps + right, (1,))
    assert [unboxed.visible(fixture_course, CHAPTER, asked) for _ in range(2)] == ["", ""]
    assert list(tmp_path.iterdir()) == []


PERCENT = """# ---
# jupyter:
#   across:
#     rows: S1
# ---

# %% [markdown]
# Read this.

# %% answer="pick"
def pick():
    return 1

# %% [markdown] answer="explain" points=3
# In words.
"""


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("Read this.", "Read that, and this.", True),
        ("# %% [markdown]\n# Read this.\n\n", "", True),
        ("# %% [markdown]\n# Read", "# %% [markdown]\n# Look.\n\n# %% [markdown]\n# Read", True),
        ("#     rows: S1", "#     rows: S1\n#     # house: words: two tables", True),
        ("#     rows: S1", "#     rows: S1\n#     limits: {cell_seconds: 1}", False),
        ("return 1", "return 2", False),
        ("# %% answer", '# %% tags=["show"]\n1\n\n# %% answer', False),
        ("In words.", "In other words.", False),
        ("points=3", "points=2", False),
    ],
)
def test_prose_does_not_decide_what_is_found(old, new, same):
    assert old in PERCENT
    assert (verify.tried(PERCENT.replace(old, new, 1)) == verify.tried(PERCENT)) is same


def test_a_listed_answer_is_told_its_sentence_and_judged_alike():
    def said(seed, passed, says="", kind="assert"):
        return check_answer.Said(PlannedTest("pick", "test_pick"), seed, passed, "" if passed else kind, says, "")

    tried = Tried("wrong", "pick: some", Answered("pick", "pick", SOURCE, (1, 2, 3, 4)), "divide")
    told = Found((0.0,) * 4, "✗ no", tuple(said(seed, False, "divide by 3") for seed in (1, 2, 3, 4)))
    assert list(worth_of.faults("test_x.py", tried, told)) == list(worth_of.flakes(tried, told)) == []
    odd = Found((0.0,) * 4, "✗ no", (said(1, False, "other"), said(2, False, "another"), said(4, False, "divide")))
    (fault,) = worth_of.faults("test_x.py", tried, odd)
    assert "is not told 'divide' with seed 1, but 'other'" in fault
    luck = Found((0.0, 0.5, 0.0), "✗ no", (said(1, False, "divide"), said(2, True), said(3, False, "divide")))
    says = "test_pick judges one answer (wrong pick: some) now so, now so: passed 1, failed 2"
    assert list(worth_of.flakes(tried, luck)) == [says]
    broke = Found((0.0,), "✗ no", (said(1, False, "divide", "KeyError"),))
    assert "met KeyError on the wrong pick: some" in next(worth_of.faults("test_x.py", tried, broke))
    right = Tried("right", "pick: other", Answered("pick", "pick", SOURCE, (1, 2)))
    assert "earns 50% with seed 2 (no)" in next(
        worth_of.faults("test_x.py", right, Found((1.0, 0.5), "", (said(2, False, "no"),)))
    )


@pytest.mark.parametrize(
    ("name", "says"),
    [("97_unchecked", "no check is of shift; add one"), ("98_stranger", "nobodys: no exercise of 98_stranger")],
)
def test_an_exercise_without_a_check_and_a_check_of_no_exercise_are_told_apart(tmp_path, name, says):
    checks = CHECKS.replace('@exercise("shift")', '@exercise("double")') if "un" in name else CHECKS + STRANGER
    course = courses.write(tmp_path, name, CODE, checks)
    done = command("check", name, "double", root=course.root, code=2)
    assert says in " ".join(done.stderr.split())
