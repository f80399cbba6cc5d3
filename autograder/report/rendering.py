"""The templates of the pages, and how they show a value: escaped, and with every character of it seen."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from autograder.gradebook.record import number
from autograder.model import harmless

CODE = re.compile("`([^`<>]{1,200})`")


def render(template: str, **values: Any) -> str:
    """Return the page of a template in `templates/`. Whatever a value holds is text there, unless it is Markup."""
    return PAGES.get_template(template).render(values)


def prose(text: str) -> Markup:
    """Return a message as HTML: what stands between backticks as code, nothing hidden, nothing that is markup."""
    return Markup(CODE.sub(r"<code>\1</code>", str(lines(text))))  # by a Markup, sub would escape


def lines(text: str) -> Markup:
    """Return a text as HTML, line by line."""
    return Markup(str(escape(harmless.visible(text))).replace("\n", "<br>"))


def duration(seconds: float) -> str:
    """Seconds as people say them: `2 d 3 h`, `45 min`."""
    hours, minutes = divmod(round(seconds / 60), 60)
    days, hours = divmod(hours, 24)
    said = [f"{count} {unit}" for count, unit in ((days, "d"), (hours, "h"), (minutes, "min")) if count]
    return " ".join(said) or "less than a minute"


def moment(when: datetime) -> str:
    """A date in UTC as people read it."""
    return f"{when:%Y-%m-%d %H:%M} UTC"


def _tenth(length: float) -> str:
    return f"{length:.1f}"


def _seen(value: Any) -> Any:
    """What a template puts out: a text with all that is hidden in it written as escapes."""
    return harmless.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


PAGES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    finalize=_seen,
)
PAGES.filters |= {
    "number": number,
    "line": harmless.line,
    "lines": lines,
    "prose": prose,
    "duration": duration,
    "moment": moment,
    "tenth": _tenth,
}
