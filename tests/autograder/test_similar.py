"""Similarity: disguised copies are found, honest students are not named, and nothing that the course says is evidence."""

import hashlib
import json
import random
from dataclasses import asdict
from itertools import chain

import class_answers
import classroom
import followed
import pytest
from bs4 import BeautifulSoup
from classroom import NAME

from autograder.gradebook import evidence, record
from autograder.gradebook.evidence import Basis
from autograder.gradebook.record import Recorder
from autograder.report import class_page, similar
from autograder.report.similar import Alike, Pair, compared, shapes
from autograder.submissions.intake import Submission

HONEST, COPIES = 100, 20
TINY = classroom.chapter()
LONG = """def pick(names):
    chosen = {}
    for position, name in enumerate(sorted(names, key=len)):
        if name.endswith(":GPU") and position % 3 == 1:
            chosen.setdefault(name[:4].upper(), []).append(position * 7)
    return max(chosen.items(), key=lambda each: sum(each[1]), default=("CPU", []))[0]
"""
DISGUISED = """def pick(devices):
    # mine
    found = dict()
    found = {}
    print("here")
    for i, d in enumerate(sorted(devices, key=len)):
        if d.endswith(":GPU") and 1 == i % 3:
            found.setdefault(d[:4].upper(), []).append(7 * i)
    return max(found.items(), key=lambda pair: sum(pair[1]), default=("CPU", []))[0]
"""


def known(chapter: str, answer: str) -> frozenset[int]:
    return frozenset(chain.from_iterable(map(shapes, class_answers.theirs(chapter, answer))))


def tried(chapter: str, answer: str, seed: int) -> tuple[int, int]:
    """How many of the 20 disguised copies in a class of 120 are found, and how many honest pairs are named."""
    rng = random.Random(seed)
    honest = class_answers.honest(chapter, answer, HONEST, rng)
    of = [rng.randrange(HONEST // 3, HONEST) for _ in range(COPIES)]
    texts = honest + [class_answers.disguised(honest[each], rng) for each in of]
    whose = {str(number): first for number, first in enumerate([*range(HONEST), *of])}
    found = compared(answer, {str(number): shapes(text) for number, text in enumerate(texts)}, known(chapter, answer))
    right = [pair.students for pair in found.pairs if len({whose[each] for each in pair.students}) == 1]
    copies = {each for pair in right for each in pair if int(each) >= HONEST}
    wrong = [pair for pair in found.pairs if pair.students not in right and max(map(int, pair.students)) < HONEST]
    return len(copies), len(wrong)


@pytest.mark.parametrize(("exercise", "seed"), [*zip(class_answers.PLANS, (1, 2, 4), strict=True)], ids=str)
def test_20_disguised_copies_among_120_answers_are_found_and_at_most_2_honest_pairs_are_named(exercise, seed):
    found, named = tried(*exercise, seed)
    assert found == COPIES
    assert named <= 2


def test_in_24_classes_of_120_as_many_are_found_and_named_as_the_instructors_page_says():
    found, named = [], []
    for exercise in class_answers.PLANS:
        copies, pairs = zip(*(tried(*exercise, seed) for seed in range(1, 9)), strict=True)
        assert sum(copies) >= 0.95 * 8 * COPIES
        assert max(pairs) <= 2
        found, named = [*found, *copies], [*named, *pairs]
    of = f"Of {24 * COPIES} copies that a generator disguised, in 24 classes of {HONEST + COPIES}"
    said = f"{of}, {sum(found)} were found, and {sum(named)} honest pairs were named, never more than {max(named)} in a class"
    assert said in " ".join(followed.page("instructor.md").split())


def test_what_the_course_says_and_what_many_wrote_is_no_evidence():
    chapter, answer = next(iter(class_answers.PLANS))
    rng = random.Random(1)
    theirs = class_answers.theirs(chapter, answer)
    class_ = {str(n): shapes(class_answers.disguised(theirs[n % len(theirs)], rng)) for n in range(60)}
    assert not compared(answer, class_, known(chapter, answer)).pairs
    honest = class_answers.honest(chapter, answer, 60, rng)
    many = {str(n): shapes(text) for n, text in enumerate(honest + [LONG] * 30)}
    assert not [pair for pair in compared(answer, many, frozenset()).pairs if int(pair.students[1]) >= 60]
    two = {str(n): shapes(text) for n, text in enumerate([*honest, LONG, DISGUISED])}
    assert ("60", "61") in [pair.students for pair in compared(answer, two, frozenset()).pairs]


@pytest.mark.parametrize(
    ("chapter", "answer", "short"),
    [
        ("03_device_placement", "where", True),
        ("09_replication", "update", True),
        ("03_device_placement", "forward", False),
        ("08_sharded_variables", "lookup", False),
    ],
)
def test_answers_of_two_lines_are_too_short_to_tell_and_few_are_named_where_some_have_more(chapter, answer, short):
    rng = random.Random(1)
    theirs = class_answers.theirs(chapter, answer)
    class_ = {str(n): shapes(class_answers.styled(theirs[n % len(theirs)], rng)) for n in range(120)}
    found = compared(answer, class_, known(chapter, answer))
    assert (found.told < 2) == short
    assert len(found.pairs) <= (0 if short else 2)


@pytest.mark.parametrize(
    "source",
    ["(" * 5000, "-" * 15_000 + "1", "a" + ".b" * 9000, "x = '\ud800'", "def f(:", "%%timeit\nx", "1+" * 40_000],
)
def test_what_cannot_be_read_is_like_nothing(source):
    assert not shapes(source)


def test_pairs_that_hang_together_are_one_group():
    pairs = [Pair(students, 1.0, 50.0) for students in (("a", "b"), ("c", "d"), ("b", "e"))]
    assert Alike("x", 9, 9, tuple(pairs)).groups == {("a", "b", "e"): [pairs[0], pairs[2]], ("c", "d"): [pairs[1]]}


def page(out):
    return BeautifulSoup(class_page.write(out, TINY).read_text("utf-8"), "html.parser")


@pytest.fixture
def out(tmp_path):
    """12 students who pick in their own ways; cy and di have the same unusual one."""
    with Recorder(tmp_path, TINY) as recorder:
        for number in range(10):
            pick = f"def pick(names):\n    return names[{number}] + min(names, key=len) * {number}"
            add(recorder, f"s{number:02}", pick)
        add(recorder, "cy", LONG)
        add(recorder, "di", DISGUISED)
    return tmp_path


def add(recorder, student, pick, why="Because."):
    answers = Submission(student, NAME, {"pick": pick, "spread": "def spread(n):\n    return n", "why": why})
    recorder.write(classroom.verdict(student), None, answers)


def test_the_page_names_who_is_alike_in_which_exercise_and_says_that_it_proves_nothing(out):
    heading = page(out).find(string="Alike answers")
    assert "It proves nothing" in heading.find_next("p").text
    [row] = heading.find_next("tbody").find_all("tr")
    assert [link["href"] for link in row.find_all("a")] == [
        f"feedback/{each}/{NAME}/{NAME}.html" for each in ("cy", "di")
    ]
    assert "pick" in row.text
    assert "Too short to tell: spread, why." in " ".join(page(out).text.split())


def test_who_hands_in_another_answer_is_named_no_more_and_prose_is_compared_too(out):
    said = "The weights stay on the GPU as each copy costs ten times what the matrix product itself costs on that old card, "
    said += "and who moves them back for every batch has only his own patience to blame when an epoch takes all night."
    with Recorder(out, TINY) as recorder:
        add(recorder, "di", "def pick(names):\n    return names", said)
        add(recorder, "s01", "def pick(names):\n    return names", said.upper().replace(",", " "))
    [row] = page(out).find(string="Alike answers").find_next("tbody").find_all("tr")
    assert row.find("code").text == "why"
    assert [link.text for link in row.find_all("a")] == ["di", "s01"]


def keep(out, text):
    name = hashlib.sha256(text.encode()).hexdigest()
    (out / evidence.FOLDER).mkdir(exist_ok=True)
    (out / evidence.FOLDER / name).write_text(text)
    return name


def test_what_the_verdicts_rest_on_is_what_the_course_says(out):
    wrong = 'says = "no", change = ["position % 3 == 1", "position % 3 == 2"]'
    files = {
        "solutions/01_tiny.py": f'# %% [markdown]\n# Tiny\n\n# %% answer="pick"\n{LONG}',
        "tests/listed_01_tiny.toml": f"[pick.wrong]\nanother_third = {{ {wrong} }}",
    }
    basis = Basis(NAME, "", False, {}, {}, 0, False, True, {name: keep(out, text) for name, text in files.items()})
    with Recorder(out, TINY) as recorder:
        recorder.basis = keep(out, json.dumps(asdict(basis)))
        add(recorder, "eve", LONG.replace("position % 3 == 1", "position % 3 == 2"))
    with record.book(out, TINY) as book:
        said = {each.exercise: each for each in similar.of_class(book, out, TINY)}
    assert (said["pick"].answers, said["pick"].told, said["pick"].pairs) == (13, 0, ())
