"""Programs that run at the same time: they meet, and the first failure ends all of them and is what is shown."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from processes import ended, forked

from across import fresh, programs

pytestmark = forked


def meet_but_one(meeting: programs.Meeting, bad: int, how: str, folder: str) -> None:
    """All come to the meeting but process `bad`, which fails once the others are on their way."""
    Path(folder, f"pid.{meeting.number}").write_text(str(os.getpid()))
    if meeting.number == bad:
        meeting.all("started")
        match how:
            case "raises":
                raise ValueError(f"number {bad} is broken")
            case "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "exits":
                os._exit(0)
    try:
        meeting.all("started")
        meeting.all("never")
    except TimeoutError:
        Path(folder, "waited to the end").touch()
        raise


EXPECTED: dict[str, tuple[type[BaseException], str]] = {
    "raises": (ValueError, "number {0} is broken"),
    "killed": (fresh.Died, r"^process {0} \(counting from 0\) of meet_but_one .*signal SIGKILL"),
    "exits": (fresh.Died, r"^process {0} \(counting from 0\) of meet_but_one .*exit code 0"),
}


@pytest.mark.parametrize(("bad", "how"), list(enumerate(EXPECTED)))
def test_the_first_failure_ends_all_and_is_what_is_shown(bad: int, how: str, tmp_path: Path):
    kind, says = EXPECTED[how]
    with pytest.raises(kind, match=says.format(bad)) as caught:
        programs.together(meet_but_one, 3, bad, how, str(tmp_path))
    assert not (tmp_path / "waited to the end").exists()
    assert all(ended(int(file.read_text())) for file in tmp_path.glob("pid.*"))
    if how == "raises":
        (note,) = caught.value.__notes__
        assert note.startswith(f"in process {bad} (counting from 0), in meet_but_one, line ")
        assert note.endswith(': raise ValueError(f"number {bad} is broken")')


def test_results_come_in_order():
    def number(meeting: programs.Meeting, plus: int) -> int:
        meeting.all("here")
        return meeting.number + plus

    assert programs.together(number, 3, 10) == [10, 11, 12]


def test_a_meeting_that_is_missed_tells_by_whom(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(programs, "DEADLINE", 0.0)
    programs.Meeting(str(tmp_path), 1, 3).done("full")
    with pytest.raises(TimeoutError, match=r"process 0 waited 0 s at 'full' for process 2"):
        programs.Meeting(str(tmp_path), 0, 3).all("full")


def test_what_is_not_done_in_time_is_ended_and_named(tmp_path: Path):
    def one_hangs(meeting: programs.Meeting, folder: str) -> Any:
        Path(folder, str(meeting.number)).write_text(str(os.getpid()))
        if meeting.number == 1:
            signal.pause()

    fresh.run(int)
    with pytest.raises(TimeoutError, match=r"process 1 \(counting from 0\): no return from one_hangs within 3 s"):
        programs.together(one_hangs, 2, str(tmp_path), timeout=3.0)
    assert ended(int((tmp_path / "1").read_text()))
