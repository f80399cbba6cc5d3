"""docs/security.md shows every attack of the corpus."""

import attacks

ATTACKS = attacks.corpus()


def test_the_page_shows_exactly_the_attacks_there_are_what_each_tries_and_gets():
    text = attacks.PAGE.read_text(encoding="utf-8")
    assert attacks.page(ATTACKS, text) == text, "docs/security.md: run `uv run python tools/attacks.py --write`"


def test_what_was_recorded_of_stock_nbgrader_stays_and_what_was_not_is_told():
    recorded = "| `deletes_asserts` | Deletes a \\| b. | failed, 0 points | **17 points**; **aborts the class** |"
    some = [attack for attack in ATTACKS if attack.name in ("deletes_asserts", "cat_passwd")]
    lines = "\n".join(attacks.rows(some, recorded))
    assert lines.count("| **17 points**; **aborts the class** |") == 1
    assert lines.count(f"| {attacks.UNMEASURED} |") == 1


def test_the_table_is_written_between_its_marks_and_nowhere_else():
    made = attacks.page([], f"before\n{attacks.BEGIN}\nold\n{attacks.END}\nafter\n")
    table = "| attack | what it tries | here | stock nbgrader |\n|---|---|---|---|"
    assert made == f"before\n{attacks.BEGIN}\n\n{table}\n\n{attacks.END}\nafter\n"
