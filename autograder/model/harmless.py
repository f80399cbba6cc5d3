"""What students wrote, made harmless to show: in files, in CSV, in HTML, in nbgrader's own pages.

Every text may hold any characters, and every output may have been forged by the code that made it. nbgrader's pages
put the HTML of Markdown cells and of outputs into the page as it is, where a script would run with the rights of the
instructor who is logged in: so the notebooks that it gets hold no such thing to begin with.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

import bleach
import nbformat
from bleach.css_sanitizer import CSSSanitizer
from nbformat import NotebookNode
from nbformat.v4 import new_output

from autograder.model import unseen

TEXT = 100_000  # characters of one output; what is more is cut out of its middle
IMAGE = 4 << 20  # bytes of one picture
MARKDOWN = 8_000  # characters of one cell; the time that rendering odd Markdown takes grows with their square
OUTPUTS = 500  # of one cell
IMAGES = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}

UNENCODABLE = re.compile("[\x00\ud800-\udfff]")
COLOUR = re.compile("(\x1b\\[[0-9;]{0,40}m)")
FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20")  # the last four are as wide as Chinese characters
# Where a spreadsheet may begin a cell: at the start, and after a semicolon, which parts cells where a comma is decimal
CELL = re.compile(rf"((?:^|;) *)(?='*[{''.join(map(re.escape, FORMULA))}])")
QUOTED = re.compile(rf"((?:^|;) *)'(?='*[{''.join(map(re.escape, FORMULA))}])")

TAGS = frozenset(
    "a abbr b blockquote br caption code dd del details div dl dt em h1 h2 h3 h4 h5 h6 hr i img kbd li ol p pre s samp"
    " small span strong sub summary sup table tbody td th thead tr tt u ul var".split()
)
ATTRIBUTES = {
    "*": ["class", "title"],
    "a": ["href", "title"],
    "img": ["alt", "src", "width", "height"],
    "td": ["colspan", "rowspan", "style"],
    "th": ["colspan", "rowspan", "scope", "style"],
    "ol": ["start"],
}
PICTURE = re.compile(r"data:image/(?:png|jpeg);base64,[A-Za-z0-9+/=\s]+")

# Markdown that can only make text: no tag, no link but to a page, nothing of MathJax that makes links or attributes.
TAG = re.compile(r"<[A-Za-z/!?]")
LINK = re.compile(r"\]\s*(?:\(|:)\s*<?\s*(?!https?://|mailto:|#)\S", re.IGNORECASE)
REFERENCE = re.compile(r"^ {0,3}\[[^\]]*\]:\s*<?(?!https?://|mailto:|#)", re.MULTILINE | re.IGNORECASE)
MATH = re.compile(r"\\(?:href|html\w*|style|class|cssId|require|unicode|def|newcommand|let)\b")
SCHEME = re.compile(r"(?:javascript|vbscript|data)\s*(?::|&)", re.IGNORECASE)
FENCE = re.compile("`{3,}|~{3,}")


def visible(text: object) -> str:
    """Return `text` with everything that is not seen, or that changes how the rest is seen, written as an escape."""
    shown = text if isinstance(text, str) else repr(text)
    return unseen.IN_PROSE.sub(lambda match: unseen.escape(match[0]), shown.replace("\r\n", "\n"))


def line(text: object, width: int = 0) -> str:
    """Return `text` visible and on one line, of at most `width` characters if that is not 0."""
    shown = " ".join(visible(text).split())
    return shown if not width or len(shown) <= width else shown[: width - 1] + "…"


def field(text: object) -> str:
    """Return `text` as a field of a CSV file that no spreadsheet takes for a formula (OWASP, CSV injection).

    Different lines give different fields: `unfield` tells which it was.
    """
    return CELL.sub(r"\1'", line(text))


def unfield(shown: str) -> str:
    """The text of one line that `field` returned `shown` for."""
    return QUOTED.sub(r"\1", shown)


def link(*parts: str) -> str:
    """Return a relative URL to a file, its parts quoted."""
    return "/".join(quote(part, safe="") for part in parts)


def html(markup: object) -> str:
    """Return HTML without what could run, load or frame anything; what is not allowed is shown as text.

    A filter for nbconvert's templates in place of its `clean_html`, which takes paragraphs and headings for unsafe.
    """
    text = markup.decode("utf-8", "replace") if isinstance(markup, bytes) else str(markup)
    return bleach.clean(
        UNENCODABLE.sub(lambda match: unseen.escape(match[0]), text),
        tags=TAGS,
        attributes=_allowed,
        protocols={"http", "https", "mailto", "data"},
        css_sanitizer=CSSSanitizer(allowed_css_properties=["text-align"]),
    )


def _allowed(tag: str, name: str, value: str) -> bool:
    if name not in (*ATTRIBUTES["*"], *ATTRIBUTES.get(tag, ())):
        return False
    if name == "src":
        return PICTURE.fullmatch(value) is not None
    return not (name == "href" and value.strip().lower().startswith("data:"))


def markdown(source: str) -> str:
    """Return a student's Markdown, as a literal block if its rendering could be anything but text, or take long."""
    source = UNENCODABLE.sub(lambda match: unseen.escape(match[0]), source)
    if len(source) > MARKDOWN:
        return f"*Shown as it was typed: it has more than {MARKDOWN:,} characters.*\n\n" + literal(source)
    if not any(pattern.search(source) for pattern in (TAG, LINK, REFERENCE, MATH, SCHEME)):
        return source
    return "*Shown as it was typed: it holds HTML or an unusual link.*\n\n" + literal(source)


def literal(source: str) -> str:
    """Return Markdown that shows `source` as it is."""
    longest = max((len(fence) for fence in FENCE.findall(source)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{visible(source)}\n{fence}"


def outputs(found: Iterable[Any]) -> list[NotebookNode]:
    """Return a cell's outputs, made anew from their texts and pictures: nothing else of them is taken."""
    made: list[NotebookNode] = []
    for index, output in enumerate(found):
        if index == OUTPUTS:
            made.append(new_output("stream", name="stdout", text="(more outputs are not shown)\n"))
            break
        if isinstance(output, dict):
            made += _output(output)
    return made


def _output(output: dict[str, Any]) -> list[NotebookNode]:
    kind = output.get("output_type")
    if kind == "stream":
        name = "stderr" if output.get("name") == "stderr" else "stdout"
        return [new_output("stream", name=name, text=_text(output.get("text", "")))]
    if kind == "error":
        lines = output.get("traceback")
        traceback = [_text(each) for each in lines[:OUTPUTS]] if isinstance(lines, list) else []
        ename, evalue = _text(output.get("ename", "")), _text(output.get("evalue", ""))
        return [new_output("error", ename=ename, evalue=evalue, traceback=traceback or [f"{ename}: {evalue}"])]
    data = output.get("data")
    if kind not in ("display_data", "execute_result") or not isinstance(data, dict):
        return []
    shown = {mime: picture for mime in IMAGES if (picture := _picture(mime, data.get(mime)))}
    if "text/plain" in data:
        shown["text/plain"] = _text(data["text/plain"])
    elif not shown:
        kinds = ", ".join(sorted(line(mime, 60) for mime in data)[:5]) or "nothing"
        shown["text/plain"] = f"(not shown: {kinds})"
    return [new_output("display_data", data=shown)]


def _text(value: Any) -> str:
    """A text output: colours stay, everything else that is hidden is written out."""
    text = "".join(map(str, value)) if isinstance(value, list) else str(value)
    if len(text) > TEXT:
        text = f"{text[: TEXT // 2]}\n... {len(text) - TEXT} characters left out ...\n{text[-TEXT // 2 :]}"
    return "".join(part if i % 2 else visible(part) for i, part in enumerate(COLOUR.split(text)))


def _picture(mime: str, value: Any) -> str | None:
    """A picture's base64, coded anew; None if it is none, or too big."""
    if isinstance(value, list):
        value = "".join(map(str, value))
    if not isinstance(value, str) or len(value) > 2 * IMAGE:
        return None
    try:
        data = base64.b64decode("".join(value.split()).encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError, ValueError):
        return None
    return base64.b64encode(data).decode() if data.startswith(IMAGES[mime]) and len(data) <= IMAGE else None


def notebook(found: dict[str, Any]) -> NotebookNode:
    """Return a copy of a notebook (nbformat 4) whose prose and outputs are harmless to render by anything.

    Cells are the release's (`assemble` made them): what is the student's in them is the source of the solution cells
    and every output.
    """
    made = nbformat.from_dict(found)
    assert isinstance(made, NotebookNode)
    for cell in made.cells:
        source = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
        students = cell.metadata.get("nbgrader", {}).get("solution", False)
        cell.source = UNENCODABLE.sub(lambda match: unseen.escape(match[0]), source)
        if cell.cell_type == "code":
            cell.outputs = outputs(cell.get("outputs", ()))
        elif students:
            cell.source = markdown(source)
    return made
