"""The late policy: nbgrader's plugin, with a percentage of the score a day added to its "none" and "zero".

Due dates, percentage and grace stand in OUT/nbgrader_config.py, where nbgrader's own programs (`autograde`, the
formgrader) read the same ones. `grade --due --late-per-day --grace` writes them there, between two marks.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from nbgrader.plugins import LateSubmissionPlugin
from nbgrader.preprocessors import AssignLatePenalties
from traitlets import Dict, Float, Unicode
from traitlets.config.loader import Config

from autograder.gradebook import database
from autograder.model import harmless, headers
from autograder.model.course import Chapter, CourseError
from autograder.store import files

DAY = 86400
UNITS = {"s": 1, "m": 60, "h": 3600, "d": DAY}
BEGIN = "# >>> the late policy, as `autograder grade --due --late-per-day --grace` wrote it"
END = "# <<< the late policy"
BLOCK = re.compile(rf"^{re.escape(BEGIN)}$.*?^{re.escape(END)}\n?", re.MULTILINE | re.DOTALL)


class LatePerDay(LateSubmissionPlugin):
    """Takes `per_day` of the score off for each day that has started after the due date.

    Within the grace nothing is taken off; after it, days count from the due date. Rounded to the nearest hundredth of a
    point, and never more than the score. `penalty_method = "zero"` goes before it.
    """

    per_day = Float(0.0, min=0.0, max=1.0, help="the share of the score that a started day costs").tag(config=True)
    grace_seconds = Float(0.0, min=0.0, help="how late nothing is taken off, in seconds").tag(config=True)
    due = Dict(help="chapter -> its due date, ISO 8601 with an offset; goes before the chapter's header").tag(
        config=True
    )
    zone = Unicode(help="where the class is: dates are shown so, and Moodle's read; Europe/Vienna, +01:00").tag(
        config=True
    )

    def late_submission_penalty(self, student_id: str, score: float, total_seconds_late: float) -> float | None:
        """The points that are taken off; None for none."""
        if total_seconds_late <= self.grace_seconds:
            return None
        if self.penalty_method != "none" or not self.per_day:
            return super().late_submission_penalty(student_id, score, total_seconds_late)
        days = math.ceil(total_seconds_late / DAY)
        return max(0.0, min(score, round(score * min(1.0, self.per_day * days), 2)))


def due(config: Config, chapter: Chapter) -> str | None:
    """When a chapter is due: what OUT's configuration says, else what its header does."""
    return config.LatePerDay.get("due", {}).get(chapter.name) or chapter.due or None


def applied(config: Config, chapter: Chapter) -> str | None:
    """What decides a penalty besides the time: as long as it is the same, a recorded penalty stands."""
    rest = {}
    for name in ("AssignLatePenalties", "LateSubmissionPlugin", "LatePerDay"):
        if said := {key: str(value) for key, value in config[name].items() if key not in ("due", "zone")}:
            rest[name] = said
    when = due(config, chapter)
    return f"{when} {json.dumps(rest, sort_keys=True)}" if when and rest else when


def policy(out: Path) -> Callable[[str, float, float], float]:
    """The late policy of OUT: of a student, their points and the seconds that they are late, the points that it takes off.

    Raises CourseError where OUT/nbgrader_config.py names a plugin that cannot be had, or sets one as it cannot be set.
    """
    plugin: Any = _step(Path(out) / "nbgrader_config.py", database.load_config(Path(out))).plugin_inst

    def off(student: str, points: float, seconds: float) -> float:
        said = plugin.late_submission_penalty(student, points, seconds) if seconds > 0 else None
        return max(0.0, min(points, float(said or 0.0)))

    return off


def _step(path: Path, config: Config) -> AssignLatePenalties:
    """nbgrader's own step, with its plugin."""
    setting = f"c.AssignLatePenalties.plugin_class = {config.AssignLatePenalties.get('plugin_class')!r}"
    mend = "name a late policy that can be imported here, or take that line out of the file"
    try:
        step = AssignLatePenalties(config=config)
        setting, mend = f"c.{step.plugin_class.__name__}", "mend that setting"
        step.init_plugin()
    except Exception as error:  # of the plugin's module, too
        why = error.__cause__ or error
        raise CourseError(f"{path}: {setting}: {type(why).__name__}: {harmless.line(str(why))}; {mend}") from error
    return step


def settle(
    out: Path, chapter: Chapter, when: str | None, per_day: str | None, grace: str | None, db_url: str | None = None
) -> None:
    """Write what is given of a policy into OUT/nbgrader_config.py; what is not given stays as it was.

    `when` is an ISO 8601 date with an offset, or with the zone of the class behind it; `per_day` a percentage, `grace` a
    number with a unit (`15m`). A plugin that the file has already stays. Raises CourseError for what cannot be read, for a
    percentage with no due date, and for one that another plugin would not ask.
    """
    date = None if when is None else headers.date(f"--due {when!r}", when)
    share = None if per_day is None else _share(per_day)
    seconds = None if grace is None else _seconds(grace)
    path = Path(out) / "nbgrader_config.py"
    with files.only_writer(out):
        text = path.read_text(encoding="utf-8") if path.exists() else database.default_config(chapter.course, db_url)
        config = database.load_config(Path(out)) if path.exists() else Config()
        plugin = _step(path, config).plugin_class
        named = "plugin_class" in config.AssignLatePenalties
        if (per_day or grace) and named and not issubclass(plugin, LatePerDay):
            raise CourseError(
                f"{path}: c.AssignLatePenalties.plugin_class is {plugin.__name__}, which asks neither --late-per-day nor "
                "--grace; leave these out, or take that line out of the file"
            )
        ours: dict[str, Any] = dict(config.LatePerDay)
        dates = {**ours.get("due", {}), **({chapter.name: date} if date else {})}
        if not dates.get(chapter.name) and not chapter.due:
            raise CourseError(
                f"--late-per-day and --grace: nothing says when {chapter.name} is due; add --due, with an offset"
            )
        share = ours.get("per_day", 0.0) if share is None else share
        seconds = ours.get("grace_seconds", 0.0) if seconds is None else seconds
        named = ours.get("zone", "")
        there = named if when is None else headers.zone_of(when) or (named if "/" in named else _offset(when))
        block = _block(dates, share, seconds, there)
        new = BLOCK.sub(lambda _: block, text) if BLOCK.search(text) else f"{text.rstrip()}\n\n{block}"
        files.replace(path, new.encode(), mode=0o600)


def zone(out: Path) -> str:
    """Where the class of OUT is, as its due dates were said: a zone's name, an offset; empty if nobody said."""
    if not (Path(out) / "nbgrader_config.py").exists():
        return ""
    return database.load_config(Path(out)).LatePerDay.get("zone", "")


def _offset(when: str) -> str:
    return datetime.fromisoformat(when.strip()).isoformat()[-len("+01:00") :]


def _block(dates: dict[str, str], share: float, seconds: float, there: str) -> str:
    return f"""{BEGIN}
try:
    from autograder.gradebook.late_penalty import LatePerDay

    if "plugin_class" not in c.AssignLatePenalties:  # a plugin of yours goes before it
        c.AssignLatePenalties.plugin_class = LatePerDay
    c.LatePerDay.due = {dates!r}
    c.LatePerDay.per_day = {share!r}  # of the score, for each day that has started
    c.LatePerDay.grace_seconds = {seconds!r}
    c.LatePerDay.zone = {there!r}
except ImportError:  # another environment's nbgrader
    pass
{END}
"""


def _share(said: str) -> float:
    found = re.fullmatch(r"\s*(\d{1,3}(?:\.\d{1,4})?)\s*%\s*", said)
    if not found or float(found[1]) > 100:
        raise CourseError(f"--late-per-day {said!r} is no percentage; write it like 10%")
    return round(float(found[1]) / 100, 6)


def _seconds(said: str) -> float:
    found = re.fullmatch(r"\s*(\d{1,6})\s*([smhd])\s*", said)
    if not found:
        raise CourseError(f"--grace {said!r} is no time; write it like 15m (s, m, h or d)")
    return float(int(found[1]) * UNITS[found[2]])
