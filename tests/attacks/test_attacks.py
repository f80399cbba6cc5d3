"""The corpus of attacks, graded as one class together with honest students: none scores, none hurts, none stays."""

import re
import subprocess
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console

import attacks
from attacks import CHAPTER, HONEST, Graded
from autograder.job import forkserver, grade
from autograder.model.course import Course
from autograder.model.verdict import Result
from autograder.sandbox import boxes
from autograder.submissions import intake

ATTACKS = attacks.corpus()

pytestmark = [
    pytest.mark.classes,
    pytest.mark.skipif(boxes.problem() != "", reason=f"no sandbox here: {boxes.problem()}"),
]


@pytest.fixture(scope="module")
def graded(fixture_course: Course, tmp_path_factory) -> Graded:
    return attacks.run(fixture_course, tmp_path_factory.mktemp("class"), ATTACKS)


def test_every_attack_gets_its_verdict_and_what_its_honest_part_earns_and_leaves_nothing(
    fixture_course, graded, capsys
):
    with capsys.disabled():
        Console(width=140).print("\n", attacks.table(fixture_course, graded, ATTACKS))
    assert graded.rows.keys() == {attack.student for attack in ATTACKS} | set(HONEST)
    assert attacks.wrongs(fixture_course, graded, ATTACKS) == []


def test_honest_students_among_attackers_have_full_marks(fixture_course, graded):
    full = {each.name: 0.0 if each.manual else each.max_points for each in fixture_course.chapter(CHAPTER).exercises}
    assert [graded.points(student) for student in HONEST] == [full] * len(HONEST)


def test_a_limit_that_was_reached_is_named_as_the_fault(graded):
    for attack in ATTACKS:
        if attack.expected in ("timeout", "memory", "output"):
            row = graded.row(attack)
            assert (row["fault"], bool(row["message"])) == ("LIMIT", True), attack.name


def test_whatever_is_wrong_is_said(fixture_course, graded):
    attacker, honest = ATTACKS[0].student, HONEST[0]
    swapped = {**graded.rows, honest: graded.rows[attacker], attacker: graded.rows[honest]}
    seen = Graded(graded.out, swapped, 1.0, "check_where", ["sleep"], ["j1-1"], ["box"])
    said = " ".join(attacks.wrongs(fixture_course, seen, ATTACKS))
    for part in (f"{honest}, an honest student", f"{ATTACKS[0].name}: expected ", "points for where; earned 0"):
        assert part in said
    for part in ("process was left: sleep", "group was left: j1-1", "folder was left: box", "holds a secret"):
        assert part in said


def test_a_daemon_that_leaves_its_session_is_seen():
    before = set(attacks.children())
    with attacks.adopting():
        subprocess.run(["sh", "-c", "setsid sh -c 'trap : TERM; sleep 100' & exit 0"], check=True)
        assert attacks.orphans(before, deadline=0.3) == ["sh"]


def test_nothing_was_written_outside_a_box(graded):
    assert [str(path) for path in Path("/tmp").glob("across_*")] == []
    assert not Path("/tmp/i_was_here").exists()


def test_the_hosts_accounts_are_in_no_output(graded):
    ours = [line for line in Path("/etc/passwd").read_text().splitlines() if line.startswith("root:")]
    for path in graded.out.glob("**/*"):
        if path.is_file():
            assert not any(line.encode() in path.read_bytes() for line in ours), path


class Runs(HTMLParser):
    """What a page would run, as a browser sees it: text that only looks like a script is none."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.script = tag == "script"
        if tag in ("iframe", "object", "embed", "base", "form"):
            self.seen.append(tag)
        for name, value in attrs:
            if name.startswith("on") or (value or "").strip().lower().startswith("javascript:"):
                self.seen.append(f"{tag} {name}={value}")

    def handle_data(self, data: str) -> None:
        if self.script and ("alert" in data or "across-was-here" in data):
            self.seen.append(data[:200])

    def handle_endtag(self, tag: str) -> None:
        self.script = False


def test_a_page_that_runs_a_script_is_seen():
    for page in ("<script>alert(1)</script>", "<svg onload=x>", "<iframe srcdoc=x>", "<a href=' javascript:x'>"):
        parser = Runs()
        parser.feed(page)
        assert parser.seen, page


def test_no_feedback_runs_a_students_script(graded):
    pages = list(graded.out.glob("feedback/**/*.html"))
    assert len(pages) >= len(ATTACKS)
    for page in [*pages, graded.out / "report.html"]:
        parser = Runs()
        parser.feed(page.read_text(encoding="utf-8"))
        assert parser.seen == [], page


def test_no_output_steers_a_terminal_or_turns_text_around(graded):
    steering = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
    for path in [graded.out / "marks.csv", *graded.out.glob("**/*.html")]:
        seen = steering.search(path.read_text(encoding="utf-8"))
        assert not seen, (path, seen)


def test_what_an_attack_tries_is_said_in_one_line():
    for attack in ATTACKS:
        assert attack.tries.endswith("."), attack.name
        assert "\n" not in attack.tries, attack.name
        assert len(attack.tries) < 120, attack.name


def test_no_two_attacks_have_one_name():
    assert [name for name, count in Counter(attack.name for attack in ATTACKS).items() if count > 1] == []


@pytest.mark.parametrize("name", ["imports_the_checks", "looks_for_other_students", "network_connection"])
def test_it_is_the_sandbox_that_stops_an_attack(fixture_course, tmp_path, name):
    attack = next(attack for attack in ATTACKS if attack.name == name)
    path = tmp_path / "student" / CHAPTER / f"{CHAPTER}.ipynb"
    path.parent.mkdir(parents=True)
    content = attack.submission(fixture_course.chapter(CHAPTER).release, {})
    assert isinstance(content, bytes)
    path.write_bytes(content)
    submission = intake.read(intake.Found("student", tmp_path / "student"), fixture_course.chapter(CHAPTER))
    rubric = forkserver.make_rubric(fixture_course, CHAPTER, sandboxed=False)
    verdict = grade.grade_job(grade.Job(submission, rubric, seed=1), fixture_course)
    (mark,) = [mark for mark in verdict.marks if mark.exercise == attack.exercise]
    assert mark.result == Result.PASSED, "the attack fails by itself, so that its failing in the sandbox says nothing"
