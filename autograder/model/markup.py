"""What students wrote, made harmless to render: their prose, their code, and HTML that was made of either.

nbgrader's pages put the HTML of Markdown cells and of outputs into the page as it is, where a script would run with the
rights of the instructor who is logged in, where MathJax makes links of formulas, and where one lexer that needs years
holds everybody up: so the notebooks that it gets hold no such thing to begin with.
"""

from __future__ import annotations

import re
from functools import lru_cache
from html import escape
from html.parser import HTMLParser
from typing import Any

import nbformat
import nh3
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from autograder.model import course, harmless, recorded_notebook
from autograder.model.harmless import UNENCODABLE, visible

MARKDOWN = 8_000  # characters of one cell; the time that rendering odd Markdown takes grows with their square
ADDED = 8 * MARKDOWN  # of all cells that a student added: there are no more than so many times the longest time
COLOURED = 4_000  # characters of a cell of code; the time that colouring takes grows with their square, too
TAGS = frozenset(
    "a abbr b blockquote br caption code dd del details div dl dt em h1 h2 h3 h4 h5 h6 hr i img kbd li ol p pre s samp"
    " small span strong sub summary sup table tbody td th thead tr tt u ul var".split()
)
ATTRIBUTES = {
    "*": {"class", "title"},
    "a": {"href"},
    "img": {"alt", "src", "width", "height"},
    "td": {"colspan", "rowspan", "style"},
    "th": {"colspan", "rowspan", "scope", "style"},
    "ol": {"start"},
}
PICTURE = re.compile(r"data:image/(?:png|jpeg);base64,[A-Za-z0-9+/=\s]+")
RULE = re.compile(r"\s*text-align\s*:\s*(?:left|right|center|justify)\s*;?\s*", re.IGNORECASE)

# Markdown that can only make text: no tag, no picture, no link but to a page, nothing of MathJax that makes links,
# attributes, styles or commands of its own.
TAG = re.compile(r"<[A-Za-z/!?]")
LINK = re.compile(r"\]\s*(?:\(|:)\s*<?\s*(?!https?://|mailto:|#)\S", re.IGNORECASE)
REFERENCE = re.compile(r"^ {0,3}\[[^\]]*\]:\s*<?(?!https?://|mailto:|#)\S", re.MULTILINE | re.IGNORECASE)
MATH = re.compile(
    r"\\(?:(?:href|url|html\w*|data|style|class|cssId|mmlToken|unicode|bbox|fcolorbox|enclose|includegraphics|texttip"
    r"|mathtip|tooltip|toggle|ref|eqref|require|setoptions|[gex]?def|(?:re|provide)?newcommand|renewcommand"
    r"|(?:re)?newenvironment|let|futurelet|global|Newextarrow|DeclarePairedDelimiters\w*|newtagform\w*)(?![A-Za-z])"
    r"|[bx]?cancel(?:to)?\s*\[)"
)
SCHEME = re.compile(r"(?:javascript|vbscript)\s*(?::|&)", re.IGNORECASE)
FENCE = re.compile("`{3,}|~{3,}")
LANGUAGE = re.compile(r"^(?P<fence>[ \t>*+\-0-9.):]*(?:`{3,}(?=[^`\n]*$)|~{3,}))[ \t]*[^\s`~][^\n]*$", re.MULTILINE)
RENDERED = frozenset(
    "a blockquote br code dd del dl dt em h1 h2 h3 h4 h5 h6 hr input li ol p pre strong table tbody td th thead tr ul".split()
)
LINKS = re.compile("https?://|mailto:|#", re.IGNORECASE)


def html(markup: object) -> str:
    """Return HTML without what could run, load or frame anything; of what is not allowed only the text stays.

    A filter for nbconvert's templates in place of its `clean_html`, which takes paragraphs and headings for unsafe.
    """
    text = markup.decode("utf-8", "replace") if isinstance(markup, bytes) else str(markup)
    return nh3.clean(
        encodable(text),
        tags=set(TAGS),
        clean_content_tags=set(),
        attributes=ATTRIBUTES,
        attribute_filter=_attribute,
        url_schemes={"http", "https", "mailto", "data"},
        link_rel=None,
    )


def _attribute(tag: str, name: str, value: str) -> str | None:
    if name == "src":
        return value if PICTURE.fullmatch(value) else None
    if name == "style":
        return value if RULE.fullmatch(value) else None
    return None if name == "href" and value.strip().lower().startswith("data:") else value


def encodable(text: str) -> str:
    """Return `text` with what no file or page can hold, halves of surrogate pairs and zeros, written as escapes."""
    return UNENCODABLE.sub(lambda match: harmless.escape(match[0]), text)


def coloured(source: str, language: str | None = None, metadata: dict[str, Any] | None = None) -> str:
    """Return code as HTML, coloured as Python up to `COLOURED` characters, whatever language it says that it is in.

    A filter for nbconvert's templates in place of its `highlight_code`, which takes `%%perl` at its word, and minutes.
    """
    if len(source) > COLOURED:
        return uncoloured(source)
    return highlight(source, PythonLexer(), HtmlFormatter(cssclass="highlight hl-ipython3"))


def uncoloured(source: str) -> str:
    """Return code as HTML, without colours."""
    return f'<div class="highlight"><pre>{escape(source)}</pre></div>\n'


@lru_cache(maxsize=256)  # what was left as released is the same in every submission
def markdown(source: str) -> str:
    """Return a student's Markdown without pictures and languages of its fences, which would call any lexer.

    As a literal block if its rendering could be anything but text, or take long.
    """
    source = encodable(source)
    if len(source) > MARKDOWN:
        return as_typed(source, MARKDOWN)
    plain = LANGUAGE.sub(r"\g<fence>", source).replace("![", "! [")
    if any(pattern.search(plain) for pattern in (TAG, LINK, REFERENCE, MATH, SCHEME)) or not _only_text(plain):
        return "*Shown as it was typed: it holds HTML, an unusual link or an unusual formula.*\n\n" + literal(source)
    return plain


def as_typed(source: str, most: int) -> str:
    """Return Markdown that shows `source` as it is, for there is more of it than `most` characters."""
    return f"*Shown as it was typed: it has more than {most:,} characters.*\n\n" + literal(encodable(source))


def literal(source: str) -> str:
    """Return Markdown that shows `source` as it is."""
    longest = max((len(fence) for fence in FENCE.findall(source)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{visible(source)}\n{fence}"


def _only_text(source: str) -> bool:
    """Whether what nbconvert renders of Markdown is text: the source alone may hide it in entities and escapes."""
    renderer = _Renderer(escape=False, exclude_anchor_links=True)
    try:
        page = _Page()
        page.feed(MarkdownWithMath(renderer=renderer).render(source))
        page.close()
    except Exception:  # a renderer that fails here fails there
        return False
    return not (renderer.odd or page.odd or MATH.search(page.text) or SCHEME.search(page.text))


class _Renderer(IPythonRenderer):
    """nbconvert's own, which notes what calls a lexer or loads a picture instead of doing so."""

    odd = False

    def block_code(self, code: str, info: str | None = None) -> str:
        self.odd = self.odd or bool(info)
        return f"<pre><code>{escape(code)}</code></pre>"

    def image(self, text: str, url: str, title: str | None = None) -> str:
        self.odd = True
        return ""


class _Page(HTMLParser):
    """The text of rendered prose, and whether there is anything beside text and links to pages."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.odd = "", False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.odd = self.odd or tag not in RENDERED
        for name, value in attrs:
            safe = name in ("class", "title", "style", "start", "id", "type", "disabled", "checked")
            self.odd = self.odd or not (LINKS.match(value or "") if name == "href" else safe)

    def handle_data(self, data: str) -> None:
        self.text += data


def notebook(found: dict[str, Any]) -> NotebookNode:
    """Return a copy of a notebook (nbformat 4) whose prose and outputs are harmless to render by anything, in bounded time.

    Cells are the release's (`assemble` made them): what is the student's in them is the source of the solution cells, cells
    that they added, and every output.
    """
    made = nbformat.from_dict(recorded_notebook.rebuilt(found, found))
    assert isinstance(made, NotebookNode)
    left = ADDED
    for cell in made.cells:
        source = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
        theirs = course.students(cell)
        if theirs and cell.cell_type != "code" and "added" in cell.metadata.get("across", {}):
            left -= len(source)
            cell.source = markdown(source) if left >= 0 else as_typed(source, ADDED)
        else:
            cell.source = markdown(source) if theirs and cell.cell_type != "code" else encodable(source)
    return made
