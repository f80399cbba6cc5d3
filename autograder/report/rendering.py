"""The templates of the pages, and how they show a value: escaped, and with every character of it seen."""

from __future__ import annotations

import base64
import hashlib
import re
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from autograder.gradebook.record import number, some
from autograder.model import harmless, headers
from autograder.model.course import CourseError
from autograder.report.words import ENGLISH

CODE = re.compile("`([^`<>]{1,1000})`")
PARTS = re.compile("(?<!<)([_/:]+)(?=[^ <]{4})")  # after which a long name may go on in the next line
TEMPLATES = Path(__file__).parent / "templates"
NOTHING_ELSE = "default-src 'none'; base-uri 'none'; form-action 'none'"


def render(template: str, *, script: str = "", pictures: bool = False, code_style: str = "", **values: Any) -> str:
    """Return the page of a template in `templates/`. Whatever a value holds is text there, unless it is Markup.

    The page's policy lets a browser load nothing, and run nothing but `script`, a file of `templates/`, if there is one:
    by its digest, so that no other script runs wherever it may come from. `code_style` is added to the style; `pictures`
    lets the page show those that it holds, and styles that its tables' cells have.
    """
    style, run = _file("style.css") + code_style, _file(script) if script else ""
    policy = [NOTHING_ELSE, "style-src 'unsafe-inline'; img-src data:" if pictures else f"style-src {_digest(style)}"]
    policy += [f"script-src {_digest(run)}"] if run else []
    page = {"policy": Markup("; ".join(policy)), "style": Markup(style), "script": Markup(run)}
    return PAGES.get_template(template).render({"words": ENGLISH} | values | page)


@cache
def _file(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _digest(inline: str) -> str:
    """How a Content-Security-Policy names a script or a style on the page itself (CSP Level 3, "hash-source")."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()}'"


def identifier(name: str) -> Markup:
    """Return a name as HTML that may be parted where its parts meet, and nowhere else."""
    return Markup(_parted(str(escape(harmless.line(name)))))


def prose(text: str) -> Markup:
    """Return a message as HTML: what stands between backticks as code, nothing hidden, nothing that is markup."""
    return Markup(_parted(CODE.sub(r"<code>\1</code>", str(lines(text)))))  # by a Markup, sub would escape


def _parted(escaped: str) -> str:
    """HTML that may be parted where a name has parts; neither entities nor the tags that `prose` makes are."""
    return PARTS.sub(r"\1<wbr>", escaped)


def lines(text: str) -> Markup:
    """Return a text as HTML, line by line."""
    return Markup(str(escape(harmless.visible(text))).replace("\n", "<br>"))


def duration(seconds: float) -> str:
    """Seconds as people say them: `2 d 3 h`, `45 min`."""
    hours, minutes = divmod(round(seconds / 60), 60)
    days, hours = divmod(hours, 24)
    said = [f"{count} {unit}" for count, unit in ((days, "d"), (hours, "h"), (minutes, "min")) if count]
    return " ".join(said) or "less than a minute"


def moment(when: datetime, zone: str = "") -> str:
    """A moment in UTC as people read it, where the class is: `2026-11-30 23:59 Europe/Vienna`; without a zone in UTC."""
    try:
        there = headers.there(zone)
    except CourseError:  # written by hand, or another machine's
        zone, there = "", UTC
    here = when.replace(tzinfo=UTC).astimezone(there)
    return f"{here:%Y-%m-%d %H:%M} {'UTC' if zone in ('', '+00:00') else zone}"


@pass_context
def _said(context: Context, line: str, *values: object) -> Markup:
    """A line of the page in its language: `{{ say("{0} of {1} points", got, all) }}`. Values are escaped, the line is ours."""
    return Markup(context["words"].filled(line, *(escape(_seen(value)) for value in values)))


def _tenth(length: float) -> str:
    return f"{length:.1f}".removesuffix(".0")


def _seen(value: Any) -> Any:
    """What a template puts out: a text with all that is hidden in it written as escapes."""
    return harmless.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


PAGES = Environment(
    loader=FileSystemLoader(TEMPLATES),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    finalize=_seen,
)
PAGES.globals["say"] = _said
PAGES.filters |= {
    "number": number,
    "some": some,
    "line": harmless.line,
    "lines": lines,
    "identifier": identifier,
    "prose": prose,
    "duration": duration,
    "moment": moment,
    "tenth": _tenth,
}
