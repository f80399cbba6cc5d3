"""The English messages of a file: what may be shown to a student, found in its source.

A message is a text in the code. Of an f-string it is a template: `f"{n} names; expected {wanted}"` is "{0} names; expected
{1}", braces of the text doubled (`across._language.sentences` reads it). Texts that are added up are one. What is told by
its place is left out: docstrings, keys of a subscript, names of fields, arguments of `exercise`. Whether what is left is a
sentence or a name of something nobody can tell but a reader: a translator repeats what is to stay as it is.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from autograder.report import words

WORD = re.compile(r"[A-Za-z][a-z]+")
FORMAT = re.compile(r"\{(\d*)\}")
SAY = re.compile(r'\bsay\("([^"\\\n]+)"')  # in a template, or in JavaScript
ALONE = re.compile(
    r"an? [A-Za-z0-9]+|\([a-z]+\)|first|second|third|fourth|given|taken|yours"
)  # words that stand in sentences and are told by themselves
NO_TALK = re.compile(
    r"<\w+ |\w=\"|\(\?|-src |\\\\|\\d|@media|Bus-Id|MiB /|\A\n(?:[A-Z]\w*\s*)+\Z|  +\w+  "
)  # HTML, patterns, lists of ops, tables
CODE = re.compile(r"^[\w.\[\]()=%/:<>{}*+#$\\-]*$")  # no blank in it: a name, a path, a format
PASSED = frozenset(  # functions whose text arguments are shown, be it one word
    "text set_title set_xlabel set_ylabel annotate legend step plot bar style bars timeline draw table_text table_html Layer "
    "_one named Expected".split()
)
SHOWN = frozenset("title x y unit label each done note words".split())  # keyword arguments that are
STYLE = frozenset("loc textcoords where linestyle ha va style".split())  # keyword arguments that never are
LEFT = frozenset(
    "exercise getattr setattr hasattr device_count env split startswith endswith removeprefix replace".split()
)


@dataclass(frozen=True)
class Message:
    """One text, and where it stands."""

    text: str
    line: int
    values: tuple[str, ...] = ()  # the expressions in the places of a template


def of_source(source: str, tests: bool = False) -> list[Message]:
    """The messages of a file's source, in order, each once; with `tests` also what holds when a test passed.

    Raises SyntaxError.
    """
    tree = ast.parse(source)
    found: dict[str, Message] = {}
    for message in _Walk().of(tree):
        found.setdefault(message.text, message)
    for node in tree.body if tests else ():
        for name in _tests(node):
            text = words.held(name)
            found.setdefault(text, Message(text, node.lineno))
    return sorted(found.values(), key=lambda each: each.line)


def of_page(source: str) -> list[Message]:
    """The texts that a template or a script says by `say("...")`, in order, each once."""
    found: dict[str, Message] = {}
    for call in SAY.finditer(source):
        found.setdefault(call[1], Message(call[1], source.count("\n", 0, call.start()) + 1))
    return list(found.values())


def template(node: ast.expr) -> tuple[str, tuple[str, ...]] | None:
    """A text of the code as a template and the expressions in its places; None for what is no text."""
    parts = list(_parts(node))
    if not any(isinstance(part, str) for part in parts):
        return None
    text, values = "", []
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and FORMAT.search(node.value):  # for str.format
        return FORMAT.sub(lambda place: place[0] if place[1] else "{0}", node.value), ("",)
    for part in parts:
        if isinstance(part, str):
            text += part.replace("{", "{{").replace("}", "}}")
        else:
            text += f"{{{len(values)}}}"
            values.append(ast.unparse(part))
    return text, tuple(values)


def _parts(node: ast.expr) -> Iterator[str | ast.expr]:
    """A text's fixed parts and the expressions between them."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                yield part.value
            else:
                yield from _parts(part)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and (_is_text(node.left) or _is_text(node.right)):
        yield from _parts(node.left)
        yield from _parts(node.right)
    else:
        yield node


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _is_text(node.left) or _is_text(node.right)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _tests(node: ast.stmt) -> Iterable[str]:
    names: list[str] = []
    if isinstance(node, ast.FunctionDef):
        names = [node.name]
    elif isinstance(node, ast.Assign):
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
    return [name for name in names if name.startswith("test_")]


class _Walk:
    """One walk over a file's tree."""

    def of(self, node: ast.AST, shown: bool = False) -> Iterator[Message]:
        """The messages in `node`; `shown` where it stands as an argument that is put before a student."""
        if isinstance(node, ast.expr) and _is_text(node):
            yield from self._text(node, shown)
            return
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in LEFT:
                return
            yield from self.of(node.func)
            for argument in node.args:
                yield from self.of(argument, name in PASSED)
            for keyword in (each for each in node.keywords if each.arg not in STYLE):
                yield from self.of(keyword.value, keyword.arg in SHOWN)
            return
        if isinstance(node, ast.Assign) and any(getattr(each, "id", "") == "_COLUMNS" for each in node.targets):
            yield from self.of(node.value, True)  # a table's head
            return
        if isinstance(node, ast.Dict):
            for child in filter(None, (*node.keys, *node.values)):
                one = isinstance(child, ast.Constant) and re.fullmatch("[A-Z][a-z]+", str(child.value))
                yield from self.of(child, bool(one) and child in node.values)
            return
        if isinstance(node, ast.Subscript):
            yield from self.of(node.value)
            if isinstance(node.ctx, ast.Store):  # `times["8 in one machine"] = ...`
                yield from self.of(node.slice)
            return
        if isinstance(node, (ast.IfExp, ast.BoolOp, ast.List, ast.Tuple, ast.Starred)):
            for child in ast.iter_child_nodes(node):
                yield from self.of(child, shown)
            return
        if isinstance(node, ast.arg):  # an annotation
            return
        body = getattr(node, "body", None)
        document = body[0] if isinstance(body, list) and body and not isinstance(node, ast.Lambda) else None
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Expr) and child is document and isinstance(child.value, ast.Constant):
                continue
            if isinstance(node, (ast.FunctionDef, ast.AnnAssign)) and child in (
                getattr(node, "returns", None),
                getattr(node, "annotation", None),
            ):
                continue
            yield from self.of(child)

    def _text(self, node: ast.expr, shown: bool) -> Iterator[Message]:
        found = template(node)
        if found is None:  # "": an f-string or a sum without any fixed part
            found = ("", ())
        text, values = found
        fixed = re.sub(r"\{\d+\}", "\0", text)
        if _is_message(fixed, shown):
            yield Message(text, node.lineno, values)
        for part in _parts(node):
            if isinstance(part, ast.expr):
                yield from self.of(part, shown)


def _is_message(fixed: str, shown: bool) -> bool:
    """Whether a text, with a NUL in place of each value, may be one that people read."""
    found = WORD.findall(fixed.replace("TensorFlow", ""))
    if shown and found:
        return True
    bare = fixed.strip()
    if ALONE.fullmatch(bare):
        return True
    if (
        NO_TALK.search(fixed)
        or not found
        or " " not in fixed.strip("\0")
        or CODE.match(bare.replace("\0", "x"))
        or "\n    " in fixed
    ):
        return False
    return len(re.findall("[A-Za-z]+", fixed)) > 1 or (" " in fixed and "\0" in fixed)
