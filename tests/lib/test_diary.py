"""The diary of `across lab --diary`: what it says of each exercise; without the option nothing is written."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from processes import across

from across._jupyter import chapters, progress, spent, validating
from across._process import diary, recorded
from across._process.recorded import NOT_YET, OPEN, PASSES, Standing

pytestmark = pytest.mark.usefixtures("user")
START = 1_700_000_000.0


def tick(path: Path, source: str, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the check of `pick` says in its cell of the answer `source`."""
    monkeypatch.setattr(recorded, "_ran", lambda: [source])
    recorded.tick("pick", state, "", str(path))


def written(user: Path) -> list[str]:
    """The files in the user's folder that could be a diary."""
    return [each.name for each in user.rglob("*") if each.is_file() and "01_first-" not in each.name]


def at(minutes: float, exercise: str, chapter: str = "01_first", **said: str) -> dict[str, Any]:
    event = {"event": diary.SAID if said else diary.AT, "chapter": chapter, "exercise": exercise}
    return {"time": START + 60 * minutes, **event, **said}


def server(course: Path) -> Any:
    """A server with our extension: its page's settings, and its routes."""
    routes: list[str] = []
    made = SimpleNamespace(settings={"base_url": "/"}, add_handlers=lambda _, found: routes.extend(r for r, _ in found))
    validating._load_jupyter_server_extension(SimpleNamespace(web_app=made, root_dir=str(course)))
    return SimpleNamespace(page=made.settings.get("page_config_data", {}), routes=routes)


def test_without_the_option_nothing_is_written_and_the_page_is_not_told_to_say_anything(
    path: Path, user: Path, monkeypatch: pytest.MonkeyPatch
):
    tick(path, "def pick(): return 1", PASSES, monkeypatch)
    recorded.write(path, [Standing("place", 2, "place", PASSES, answers="a")], {})
    diary.note(diary.AT, path, "pick")
    assert set(recorded.read(path)) == {"place"}
    assert written(user) == []
    started = server(path.parent)
    assert "acrossDiary" not in started.page
    assert "/across/diary" not in started.routes


def test_with_it_each_outcome_is_written_for_its_owner_alone_and_nothing_of_an_answer(
    path: Path, user: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(diary.ASKED_FOR, "1")
    assert server(path.parent).page["acrossDiary"] == "yes"
    diary.note(diary.AT, path, "pick")
    tick(path, "def pick(): return 'secret'", NOT_YET, monkeypatch)
    recorded.write(
        path,
        [
            Standing("pick", 2, "pick", PASSES, answers="0123456789"),
            Standing("place", 2, "place", PASSES, answers="a", again=False),
        ],
        {},
    )
    events = [(each["event"], each["exercise"], each.get("state")) for each in diary.read()]
    assert events == [("at", "pick", None), ("said", "pick", NOT_YET), ("said", "pick", PASSES)]
    assert written(user) == ["diary.jsonl"]
    assert diary.file().stat().st_mode & 0o077 == 0
    held = diary.file().read_text()
    assert "secret" not in held
    assert "0123456789" not in held


def test_a_pause_of_more_than_five_minutes_counts_nothing_and_the_same_answer_is_one_try():
    found = spent.by_exercise(
        [
            at(0, ""),
            at(4, "pick"),
            at(5, "pick"),
            at(5.5, "pick", state=NOT_YET, answer="a"),
            at(6, "pick", state=NOT_YET, answer="a"),
            at(7, "place", "02_second"),
            at(9, "pick"),
            at(9.5, "pick", state=PASSES, answer="b"),
            at(9.6, "place", state=OPEN, answer="c"),
            at(9.6, "last", state=OPEN, answer="d"),
            at(20, "pick"),
            at(21, "place"),
        ]
    )
    first, second = found["01_first"], found["02_second"]
    assert [round(first[name].seconds / 60, 1) for name in ("", "pick", "place")] == [4, 4, 0]
    assert round(second["place"].seconds / 60, 1) == 2
    assert (len(first["pick"].tries), first["pick"].state) == (2, PASSES)
    assert (len(first["place"].tries), first["place"].state) == (0, OPEN)
    assert first["pick"].began == START + 240
    assert found["01_first"]["last"].began == 0  # Validate said of it that nobody has begun it


def test_the_table_stands_beside_the_promised_minutes_and_a_broken_line_costs_nothing(path: Path):
    diary.file().parent.mkdir(parents=True)
    lines = [json.dumps(each) for each in (at(0, "pick"), at(3, "pick"), at(3, "pick", state=PASSES, answer="a"))]
    diary.file().write_text("\n".join([lines[0], "{", "3", '{"time": "x"}', *lines[1:]]) + "\n")
    ended = across("diary", COLUMNS="100")
    assert ended.returncode == 0, ended.stderr
    assert "01_first: 3.0 of 20 promised minutes" in ended.stdout
    assert re.search(r"│ pick +│ \d\d-\d\d \d\d:\d\d │ 3\.0 +│ 1 +│ passes", ended.stdout)
    assert re.search(r"│ place +│ +│ +│ +│ +│", ended.stdout)
    assert ended.stdout.strip().endswith("diary.jsonl")


@pytest.mark.usefixtures("path")
def test_where_there_is_none_the_command_says_how_to_have_one():
    ended = across("diary")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "`uv run across lab --diary` keeps one" in ended.stdout
    assert spent.rendered(progress.course()) is None
    assert chapters.names() == ["01_first"]
