"""docs/studies.md says what its records say."""

import json
import re
import statistics
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = re.split(r"^## ", (DOCS / "studies.md").read_text(), flags=re.MULTILINE)[1:]


def ratios(runs: dict[str, list[list[float]]], base: str, name: str) -> list[float]:
    return [one[1] / other[1] for one, other in zip(runs[base], runs[name], strict=True)]


@pytest.mark.parametrize("page", PAGES, ids=[page.splitlines()[0] for page in PAGES])
def test_a_page_says_what_its_record_says(page: str) -> None:
    record = json.loads((DOCS / re.findall(r"\((studies/\w+\.json)\)", page)[0]).read_text())
    plan, then = record["plan"], record["follow-up"]
    assert plan["stated"] < min(run[0] for each in plan["runs"].values() for run in each)
    assert then["stated"] < min(run[0] for each in then["runs"].values() for run in each)
    rows = re.findall(r"^\| ([^|]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) to ([\d.]+) \| 6 \| 0 \|", page, re.MULTILINE)
    base = next(iter(plan["runs"]))
    assert [name for name, *_ in rows] == [name for name in plan["runs"] if name != base]
    for name, said, *measured in rows:
        assert float(said) == plan["predicted"][name]
        found = ratios(plan["runs"], base, name)
        wanted = (statistics.median(found), min(found), max(found))
        assert [float(each) for each in measured] == pytest.approx(
            wanted, abs=0.011
        )  # a record has tenths of milliseconds
    of, again = then["runs"]
    found = ratios(then["runs"], of, again)
    numbers = [
        float(each) for each in re.findall(r"\d+\.\d\d\b", page.split("**Difference.**")[1].split("**On other")[0])
    ]
    for wanted in (then["predicted"][again], statistics.median(found), min(found), max(found)):
        assert any(abs(wanted - each) < 0.011 for each in numbers), wanted
