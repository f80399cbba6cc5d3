"""The English messages of a file: what it says by gettext, and the fixed words in its pictures, found in its source."""

from __future__ import annotations

import ast
import re

Found = dict[str, tuple[str, ...]]  # the messages, and what stands in the places {0}, {1} ... of each

WORD = re.compile(r"[A-Za-z][a-z]+")
SAY = re.compile(r'\bsay\("([^"\\\n]+)"')
SAYS = frozenset(("said", "marked"))  # of across._language.catalogue
DRAWS = frozenset("bars timeline plot ladder annotate text render".split())  # and whatever begins with "draw"
SHOWS = re.compile(r"(show|mark)$|.*_picture$")  # what is to be drawn is given to these, a chapter's own and a watch's
NAMED = frozenset(
    "title x y unit label lanes headings each done".split()
)  # keyword arguments, and attributes, that are shown


def of_source(source: str) -> Found:
    """What a module says by `said("...", value)`, or marks by `marked("...")`. Raises SyntaxError."""
    found: Found = {}
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    for call in sorted(calls, key=lambda call: call.lineno):
        if _name(call) in SAYS and call.args and (text := _text(call.args[0])):
            found.setdefault(text, tuple(map(ast.unparse, call.args[1:])))
    return found


def of_page(source: str) -> Found:
    """The texts that a template or a script says by `say("...")`."""
    return {call[1]: () for call in SAY.finditer(source)}


def of_pictures(source: str) -> Found:
    """The fixed words that a chapter's code puts into its pictures, and into the line of a check that passed.

    A picture's title, or its alt text, is an argument of the call that draws it, or stands in a dictionary by the argument's
    name. A bar's name is the key of a dictionary: of one in such a call, or stored alone, `times["8 in one machine"] = ...`;
    of one that is made in a cell that draws, where it is no single word; and so is what is written out there for a loop or for
    `zip`, `for ..., way in ((..., "by a ring"), ...)`. A text with values has places for them, `f"Built under {D[0]}"`. Raises
    SyntaxError.
    """
    shown: list[ast.expr] = []
    made: list[ast.expr] = []  # keys of dictionaries, and what loops and `zip` go over
    draws = False
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            here = _name(node) in DRAWS or _name(node).startswith("draw")
            draws |= here
            for argument in node.args if here or SHOWS.match(_name(node)) else ():
                shown += filter(None, argument.keys) if isinstance(argument, ast.Dict) else [argument]
            shown += [each.value for each in node.keywords if each.arg in NAMED]
            if _name(node) == "zip":
                made += [each for argument in node.args for each in _parts(argument)]
        elif isinstance(node, ast.Assign) and any(getattr(each, "attr", "") in NAMED for each in node.targets):
            shown.append(node.value)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            shown.append(node.slice)
        elif isinstance(node, ast.Dict):
            made += filter(None, node.keys)
            shown += [value for key, value in zip(node.keys, node.values, strict=True) if key and _text(key) in NAMED]
        elif isinstance(node, ast.DictComp):
            made.append(node.key)
        for over in _over(node):
            made += [each for row in _parts(over) for each in (row, *_parts(row))]
    shown += [each for each in made if draws and " " in _text(each)]
    shown += [part for each in shown for part in (*_parts(each), *_branches(each))]
    return {text: () for text in map(_text, shown) if WORD.search(text)}


def _over(node: ast.AST) -> list[ast.expr]:
    """What a loop goes over, or a dictionary that is made by one."""
    if isinstance(node, ast.DictComp):
        return [each.iter for each in node.generators]
    return [node.iter] if isinstance(node, ast.For) else []


def _parts(node: ast.expr) -> list[ast.expr]:
    """What is written out in a tuple or a list; nothing of any other expression."""
    return node.elts if isinstance(node, ast.Tuple | ast.List) else []


def _branches(node: ast.expr) -> list[ast.expr]:
    """The values of `... if ... else ...` and `... or ...`, also in a text's places; nothing of any other expression."""
    if isinstance(node, ast.JoinedStr):
        return [part for each in node.values if isinstance(each, ast.FormattedValue) for part in _branches(each.value)]
    if isinstance(node, ast.BoolOp):
        return node.values
    return [node.body, node.orelse] if isinstance(node, ast.IfExp) else []


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _text(node: ast.expr) -> str:
    """A text that is written out, with {0}, {1} ... for its values; "" for any other expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if not isinstance(node, ast.JoinedStr):
        return ""
    places = iter(range(len(node.values)))
    parts = [str(part.value) if isinstance(part, ast.Constant) else f"{{{next(places)}}}" for part in node.values]
    return "".join(parts)
