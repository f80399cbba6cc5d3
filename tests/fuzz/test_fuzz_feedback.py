"""What a student's kernel may show, and what a student may write: shown in every page, running in none.

Pages are read by two real parsers: html5lib, which reads as browsers do, and Python's own, which forgives differently.
"""

import csv
import json
import re
from random import Random

import classroom
import nbformat
import pytest
import tinycss2
from bs4 import BeautifulSoup
from classroom import NAME, PICTURE
from fuzzing import bounded, examples
from hypothesis import given
from hypothesis import strategies as st
from nbconvert.filters import markdown_mistune

from autograder.gradebook import record
from autograder.gradebook.record import Record, Recorder, Row
from autograder.model import harmless, markup, recorded_notebook
from autograder.model.verdict import Fault, Result
from autograder.report import class_page, feedback, rendering
from autograder.submissions import intake

TINY = classroom.chapter()
LOADS = {"src", "href", "srcset", "action", "formaction", "background", "poster", "data", "ping", "xlink:href", "style"}
TAGS = markup.TAGS | set("html head meta title style body section div wbr".split())
HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")

PIECES = (  # that make HTML, Markdown, MathJax, ANSI or nothing when they are put together
    *"< > / \" ' ` = & ; # ! ? [ ] ( ) { } $ * _ ~ | : \\ - + \n \t a 1".split(" "),
    "\n\n",
    " ",
    "<script>",
    "</script>",
    "<script src=//example.org>",
    "<img src=x onerror=alert(1)>",
    "<svg><animate onbegin=alert(1)>",
    "<a href=",
    "javascript:alert(1)",
    "java\tscript:alert(1)",
    "&#106;avascript:",
    "data:text/html,<script>1</script>",
    "data:image/png;base64,",
    "<style>@import 'https://example.org'</style>",
    " style='background:url(https://example.org)'",
    " onload=alert(1) ",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    "</pre>",
    "</body></html>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "<template>",
    "<base href=//example.org>",
    "<meta http-equiv=refresh content=0>",
    "<iframe srcdoc=x>",
    "<object data=x>",
    "<details open ontoggle=alert(1)>",
    "![x](https://example.org/seen.png)",
    "![x](data:image/svg+xml,<svg onload=alert(1)>)",
    "[x](javascript:alert(1))",
    "<javascript:alert(1)>",
    "[x]: javascript:alert(1)",
    "[x]",
    "![a][x]",
    "$\\href{javascript:alert(1)}{x}$",
    "\\unicode{<img src=x onerror=alert(1)>}",
    "\\mmlToken{mi}[href='https://example.org']",
    "\\bbox[background:url(//example.org)]",
    "\\cancel",
    "&#36;",
    "&#92;",
    "&#109;mlToken",
    "mmlToken",
    "](https://example.org)",
    "\n```rego\n",
    "\n> ~~~ ruby x\n",
    "```",
    "~~~",
    "> ",
    "- ",
    "| a |\n|---|\n",
    "attachment:x.png",
    "$title",
    "${notebook}",
    "{{ 7 * 7 }}",
    "{% raw %}",
    "\x1b[31m",
    "\x1b[0m",
    "\x1b[38;2;1;2;3m",
    "\x1b[38;5;",
    "\x1b]8;;javascript:alert(1)\x07x\x1b]8;;\x07",
    "\x00",
    "\x08",
    "\r",
    "\u202e",
    "\u2028",
    "\ud800",
    "\U000e0041",
)
ODD = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=12).map("".join)
DEEP = st.sampled_from((100, 480, 900)).map(lambda depth: json.loads("[" * depth + "]" * depth))
VALUES = (
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | ODD,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ODD, inner, max_size=3),
        max_leaves=8,
    )
    | DEEP
)
MIMES = st.sampled_from(
    "text/plain text/html text/markdown text/latex image/svg+xml image/png image/jpeg image/gif application/json"
    " application/javascript application/pdf application/vnd.jupyter.widget-view+json application/vnd.plotly.v1+json".split()
)
BUNDLES = st.dictionaries(MIMES | ODD, VALUES | st.just(PICTURE) | ODD.map(lambda odd: PICTURE + odd), max_size=4)
KINDS = st.sampled_from(["stream", "error", "display_data", "execute_result", "update_display_data"]) | ODD
OUTPUTS = st.fixed_dictionaries(
    {"output_type": KINDS | VALUES},
    optional={
        "name": st.sampled_from(["stdout", "stderr"]) | VALUES,
        "text": ODD | VALUES,
        "data": BUNDLES | VALUES,
        "metadata": BUNDLES | VALUES,
        "ename": ODD | VALUES,
        "evalue": ODD | VALUES,
        "traceback": st.lists(ODD, max_size=4) | VALUES,
        "execution_count": VALUES,
        "transient": VALUES,
    },
)


def page(outputs: list, pick: str = "", why: str = "", message: str = "") -> str:
    """The page of a submission with these outputs, answers and message."""
    notebook = classroom.answered(TINY, pick=pick, why=why)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell["outputs"] = outputs
    row = Row("ada", NAME, "pick", 0.0, 3.0, Result.FAILED, Fault.STUDENT, message, comment=message)
    return feedback.render(TINY, Record(classroom.verdict("ada", tiny=TINY, notebook=notebook), (row,)))


def assert_runs_nothing(text: str) -> None:
    """Whoever reads the page, nothing of it runs, loads, frames, refreshes, or hides."""
    text.encode()  # no halves of pairs
    assert not HIDDEN.search(text), repr(HIDDEN.search(text))
    for parser in ("html5lib", "html.parser"):
        read = BeautifulSoup(text, parser)
        found = read.find_all(True)
        assert {tag.name for tag in found} <= TAGS, parser
        assert len(read.find_all("style")) == 1, parser
        assert len(read.find_all("meta")) == 4, parser
        assert read.find("meta", attrs={"http-equiv": True})["content"].startswith("default-src 'none'")
        for tag in found:
            for name, value in tag.attrs.items():
                assert not name.startswith("on"), (parser, tag)
                if name in LOADS:
                    assert_loads_nothing(tag.name, name, value)


def assert_loads_nothing(tag: str, name: str, value: str) -> None:
    if name == "src":
        assert re.fullmatch(r"data:image/(png|jpeg);base64,[A-Za-z0-9+/=\s]+", value), (tag, name, value)
    elif name == "href":
        assert tag == "a", (tag, name, value)
        scheme = re.match("([^/?#]*):", re.sub("[\x00- ]", "", value))  # as browsers read it
        assert scheme is None or scheme[1].lower() in ("http", "https", "mailto"), (tag, name, value)
    elif name == "style":
        rules = tinycss2.parse_declaration_list(value, skip_whitespace=True)
        assert all(rule.type == "declaration" for rule in rules), (tag, name, value)
        assert {rule.name for rule in rules} <= {"text-align", "color", "background-color"}, (tag, name, value)
        tokens = [token for rule in rules for token in rule.value]
        assert not [token for token in tokens if token.type == "url"], value
        assert {token.lower_name for token in tokens if token.type == "function"} <= {"rgb"}, value
    else:
        raise AssertionError((tag, name, value))


def test_the_parsers_see_what_they_are_there_to_see():
    sound = page([])
    assert_runs_nothing(sound)
    for bad in (
        "<script>",
        "<b onclick=x>",
        "<img src=https://example.org>",
        "<a href='javascript:1'>",
        "<p style='x:url(a)'>",
    ):
        with pytest.raises(AssertionError):
            assert_runs_nothing(sound.replace("</body>", bad + "</body>"))


@examples(250)
@given(st.lists(OUTPUTS | VALUES, max_size=4), st.builds(lambda *odd: "".join(odd), ODD, ODD, ODD), ODD)
def test_no_output_answer_or_message_runs_in_the_page(outputs, answer, message):
    assert_runs_nothing(page(outputs, pick=answer, why=answer, message=message))


@examples(200)
@given(st.lists(OUTPUTS | VALUES, max_size=4), ODD)
def test_what_nbgrader_gets_is_a_sound_notebook_of_texts_and_pictures(outputs, why):
    notebook = classroom.answered(TINY, why=why)
    notebook.cells[2]["outputs"] = outputs
    made = markup.notebook(notebook)
    nbformat.validate(made)
    json.dumps(made, allow_nan=False, ensure_ascii=False).encode()
    for output in made.cells[2].outputs:
        assert set(output.get("data", {})) <= {"text/plain", "image/png", "image/jpeg"}
        assert not output.get("metadata")


@examples(200)
@given(st.lists(OUTPUTS | VALUES, max_size=6), VALUES)
def test_what_is_recorded_is_recorded_again_as_it_is(outputs, count):
    notebook = classroom.answered(TINY)
    notebook.cells[2]["outputs"], notebook.cells[2]["execution_count"] = outputs, count
    once = recorded_notebook.rebuilt(notebook, notebook)
    assert recorded_notebook.rebuilt(once, once) == once
    assert {cell.get("execution_count") for cell in once["cells"]} <= {None, 1}


class LexerError(Exception):
    """A lexer was asked for."""


@examples(400)
@given(ODD)
def test_prose_is_text_and_links_to_pages_in_nbgraders_pages(odd):
    """As its formgrader renders it, where MathJax reads what stands outside of code."""

    def lexer(*_, **__):
        raise LexerError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(markdown_mistune, "get_lexer_by_name", lexer)
        rendered = markdown_mistune.markdown2html_mistune(markup.markdown(odd))
    page = BeautifulSoup(rendered, "html.parser")
    assert not page.find_all(["img", "script", "iframe", "svg", "math", "style", "div"])
    for tag in page.find_all(True):
        assert re.match("https?://|mailto:|#", tag.get("href", "#"), re.IGNORECASE), tag
        assert not tag.get("src"), tag
    for code in page.find_all(["pre", "code"]):
        code.decompose()
    assert not markup.MATH.search(page.text)


@examples(200)
@given(ODD)
def test_markup_that_was_cleaned_stays_clean(odd):
    once = markup.html(odd)
    for parser in ("html5lib", "html.parser"):
        for tag in BeautifulSoup(f"<!DOCTYPE html><html><body>{once}</body></html>", parser).find_all(True):
            assert tag.name in TAGS, (parser, once)
            for name, value in tag.attrs.items():
                assert not name.startswith("on"), (parser, once)
                if name in LOADS:
                    assert_loads_nothing(tag.name, name, value)


@pytest.mark.whole
def test_a_class_of_odd_students_is_recorded_and_shown(tmp_path):
    """From the verdict through the gradebook to every file that a person opens."""
    rng = Random(4)

    def odd(most: int = 8) -> str:
        return "".join(rng.choices(PIECES, k=rng.randint(1, most)))

    kinds = list(Result)
    names = sorted({intake.student_name(odd().replace("/", "_").replace("\0", "_") + str(n)) for n in range(40)})
    with Recorder(tmp_path, TINY) as recorder:
        for name in names:
            outputs = [
                {"output_type": "display_data", "data": {odd(): odd(), "text/html": odd(), "text/plain": odd()}},
                {"output_type": "stream", "name": odd(), "text": odd(30)},
                {"output_type": "error", "ename": odd(), "evalue": odd(), "traceback": [odd(), odd()]},
            ]
            marks = [(rng.choice(kinds), rng.random(), odd()) for _ in range(3)]
            notebook = classroom.answered(TINY, pick=odd(30), spread=odd(), why=odd(30))
            notebook.cells[2]["outputs"] = outputs
            recorder.write(classroom.verdict(name, *marks, tiny=TINY, notebook=notebook), timestamp=None)
    kept = list(record.whole(tmp_path, TINY))
    assert [each.student for each in kept] == names
    for each in kept:
        assert_runs_nothing(feedback.write(tmp_path, TINY, each).read_text(encoding="utf-8"))
        path = tmp_path / "autograded" / each.student / NAME / f"{NAME}.ipynb"
        nbformat.validate(nbformat.read(path, 4))
    marks = record.write_marks(tmp_path, [row for each in kept for row in each.rows])
    with open(marks, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert len(rows) == 1 + len(names) * len(TINY.exercises)
    assert not [field for row in rows for field in row if field.startswith(harmless.FORMULA) or HIDDEN.search(field)]
    page = class_page.write(tmp_path, TINY)
    shown = BeautifulSoup(page.read_text(encoding="utf-8"), "html5lib")
    assert [script.string for script in shown.find_all("script")] == [rendering._file("table.js")]  # ours alone
    assert not shown.find_all(["iframe", "object", "embed", "form", "base", "link", "img"])
    assert not [tag for tag in shown.find_all(True) for name in tag.attrs if name.startswith("on")]
    assert not [a for a in shown.find_all("a") if re.match(r"\s*(javascript|data|vbscript):", a.get("href", ""), re.I)]


UNITS = [
    "[",
    "[a](",
    "[]",
    "![",
    "*a ",
    "*",
    ">",
    "`",
    "`a",
    "|a",
    "$",
    "\\",
    "&#",
    "<",
    "_a ",
    "**a*",
    "- ",
    "1. ",
    "~~a",
]
UNITS += [
    "(",
    "a.",
    "1+",
    "**",
    "a,",
    "\t \n",
    "\x0c",
    "%",
    "@a\n",
    "f'{",
    '"""',
    "a[0]",
    "\\\n",
    "\x1b[31m",
    "&",
    "\n",
]


OF_EACH_KIND = (
    "[a](",
    "*a ",
    ">",
    "`a",
    "|a",
    "&",
    "a.",
    "f'{",
    "\x1b[31m",
)  # that Markdown, Python or a terminal reads


@pytest.mark.parametrize(
    "unit", [pytest.param(each, marks=() if each in OF_EACH_KIND else pytest.mark.slow) for each in UNITS], ids=repr
)
@pytest.mark.whole
def test_a_page_is_made_within_bounds_whatever_is_written_again_and_again(unit):
    answer = (unit * TINY.limits.cell_bytes)[: TINY.limits.cell_bytes]
    short = answer[: markup.COLOURED]
    prose = answer[: markup.MARKDOWN]
    page([])  # what is made once is not this answer's

    def made() -> None:
        assert_bounded(page([], pick=answer, why=answer))
        assert_bounded(page([{"output_type": "stream", "text": answer}], pick=short, why=prose))

    bounded(made, seconds=20, mebibytes=1000)


def assert_bounded(text: str) -> None:
    assert len(text) < 10_000_000
