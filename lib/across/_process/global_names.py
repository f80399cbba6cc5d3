"""Which global names the source of a cell reads, binds and changes. Where it is no plain Python, every word in it counts."""

from __future__ import annotations

import ast
import re
import threading
import warnings
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache

from across._process import scopes

CELL = "<cell>"  # the file that it is said to be
NAME = re.compile(r"[^\W\d]\w*")
MAGIC = re.compile(r"^(?P<indent>[ \t]*)[%!](?!%).*$", re.MULTILINE)  # a line that IPython runs, and Python does not
# what gives a cell's names by their text
BY_TEXT = frozenset("__main__ eval exec f_globals __globals__ f_locals get_ipython globals locals vars".split())
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError)  # a magic such as %%timeit, or worse
# Python quotes what it warns of, an escape for one, on the instructor's terminal: a line for each of the student's
warnings.filterwarnings("ignore", module=re.escape(CELL))


_ONE = threading.Lock()


def parsed(source: str | bytes, file: str = CELL) -> ast.Module:
    """`ast.parse`, by one thread at a time: Python 3.11 counts the depth of all threads as one, and raises SystemError."""
    with _ONE:
        return ast.parse(source, file)


@lru_cache(maxsize=512)
def _cell(source: str) -> tuple[ast.Module, frozenset[str]]:
    """A cell's tree, and the words of the lines in it that IPython runs. Raises one of UNREADABLE."""
    try:
        return parsed(source), frozenset()
    except SyntaxError:
        lines = [found[0] for found in MAGIC.finditer(source)]
        if not lines:
            raise
        return parsed(MAGIC.sub(r"\g<indent>pass", source)), _words("\n".join(lines))


def _words(source: str) -> frozenset[str]:
    return frozenset(NAME.findall(source))


@lru_cache(maxsize=512)
def uses(source: str) -> frozenset[str]:
    """The global names that a cell reads, now or when its functions are called."""
    try:
        tree, words = _cell(source)
        return words.union(*scopes.reads(tree))
    except UNREADABLE:
        return _words(source)


@lru_cache(maxsize=512)
def binds(source: str) -> frozenset[str]:
    """The global names that a cell binds."""
    try:
        tree, words = _cell(source)
        return words | _everywhere_bound(tree)
    except UNREADABLE:
        return _words(source)


def last_that_binds(name: str, sources: Sequence[str]) -> str | None:
    """The last of these cells that binds a name, what is no Python left out; None if none does."""
    for source in reversed(sources):
        try:
            if name in _everywhere_bound(_cell(source)[0]):
                return source
        except UNREADABLE:
            continue
    return None


def _everywhere_bound(tree: ast.Module) -> set[str]:
    """What a cell binds, its functions by `global` included."""
    return scopes.bound(tree) | {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}


@lru_cache(maxsize=512)
def needs(source: str, closed: bool = False) -> frozenset[str]:
    """The global names that a cell reads and that another cell can have bound: of its `uses` those that are not its own.

    Its own is what the cell itself has bound, come what may, before it reads it, and what no function reads: that one may
    be called later, when another cell has bound the name anew. A `for` is taken to run once. A `closed` cell's functions mean
    what it has bound: an answer's helper may be called as a picture is further down. Where names are looked up by their text,
    every word counts.
    """
    words = _words(source)
    if words & BY_TEXT:
        return words | uses(source)
    try:
        return _flowing(source, closed)[0]
    except UNREADABLE:
        return uses(source)


@lru_cache(maxsize=512)
def binds_surely(source: str) -> frozenset[str]:
    """The global names that a cell binds whenever it runs to its end."""
    try:
        return _flowing(source, True)[1]
    except UNREADABLE:
        return frozenset()


def _flowing(source: str, closed: bool) -> tuple[frozenset[str], frozenset[str]]:
    tree, words = _cell(source)
    flow = _Flow(closed)
    flow.run(tree.body, True)
    return frozenset(flow.found) | words, frozenset(flow.bound)


class _Flow:
    """A cell's statements in order: `found` are the names that it needs, `bound` those that are its own by now."""

    def __init__(self, closed: bool) -> None:
        self.closed = closed
        self.found: set[str] = set()
        self.bound: set[str] = set()
        self._branches: list[set[str]] = []  # what each block that may not be run has bound, the outermost first
        self._waiting: set[str] = set()  # what functions that nobody can have called yet read

    def run(self, body: Iterable[ast.stmt], whole: bool = False) -> None:
        """Take statements in; `whole`: they are all of the cell."""
        for statement in body:
            quiet = whole and self.closed and _is_quiet(statement)
            if not quiet:
                self._act()
            self._step(statement, quiet)
        if whole:
            self._act()

    def _act(self) -> None:
        """Something may be called."""
        self.found |= self._waiting - self.bound
        self._waiting.clear()

    def _read(self, node: ast.AST, quiet: bool = False) -> None:
        at_once, later = scopes.reads(node)
        self.found |= at_once - self.bound
        if quiet:
            self._waiting |= later
        else:
            self.found |= later - self.bound if self.closed else later

    def _bind(self, names: Collection[str]) -> None:
        fresh = set(names) - self.bound
        self.bound |= fresh
        for each in self._branches:
            each |= fresh

    def _branch(self, body: Iterable[ast.stmt], more: Collection[str] = ()) -> set[str]:
        """Take in statements that may not be run; what they bind if they are."""
        inside: set[str] = set()
        self._branches.append(inside)
        self._bind(more)
        self.run(body)
        self._branches.pop()
        self._unbind(inside)
        return inside

    def _unbind(self, names: Collection[str]) -> None:
        self.bound -= set(names)
        for each in self._branches:
            each -= set(names)

    def _step(self, statement: ast.stmt, quiet: bool) -> None:
        match statement:
            case ast.For(target=target, iter=header):
                self._read(header)
                self._read(target)
                self._bind(scopes.bound(target))
                self.run([*statement.body, *statement.orelse])
            case ast.With(items=items):
                for item in items:
                    self._read(item.context_expr)
                    self._bind(scopes.bound(item.optional_vars) if item.optional_vars else ())
                self.run(statement.body)
            case ast.If(test=test):
                self._read(test)
                self._bind(scopes.bound(test))
                one = self._branch(statement.body)
                self._bind(one & self._branch(statement.orelse))
            case ast.While(test=test):
                self._read(test)
                self._branch([*statement.body, *statement.orelse])
            case ast.Try():
                self._branch([*statement.body, *statement.orelse])
                for handler in statement.handlers:
                    if handler.type is not None:
                        self._read(handler.type)
                    self._branch(handler.body, [handler.name] if handler.name else [])
                self._bind(self._branch(statement.finalbody))
            case ast.Match() | ast.TryStar() | ast.AsyncFor() | ast.AsyncWith():
                self._read(statement)
            case ast.Delete():
                self._read(statement)
                self._unbind(scopes.bound(statement))
            case _:
                self._read(statement, quiet)
                self._bind(scopes.bound(statement))


def _is_quiet(statement: ast.stmt) -> bool:
    """Whether a statement calls nothing of the cell's."""
    if isinstance(statement, scopes.Function) and not statement.decorator_list:
        return not any(isinstance(node, ast.Call) for each in scopes.header(statement) for node in ast.walk(each))
    return isinstance(statement, ast.Import | ast.ImportFrom) or _defines(statement)


@lru_cache(maxsize=512)
def only_defines(source: str) -> bool:
    """Whether a cell does nothing but make functions, classes and constants, which nobody notices who uses none of them."""
    try:
        return all(_defines(statement) for statement in parsed(source).body)
    except UNREADABLE:
        return False


def _defines(statement: ast.stmt) -> bool:
    match statement:
        case ast.FunctionDef(decorator_list=[]):
            return all(_is_written_out(each) for each in scopes.header(statement))
        case ast.ClassDef(bases=[], keywords=[], decorator_list=[], body=body):
            return all(_defines(each) for each in body)
        case ast.Assign(targets=targets, value=value):
            return all(isinstance(each, ast.Name) for each in targets) and _is_written_out(value)
        case ast.Expr(value=value):
            return isinstance(value, ast.Constant)
        case _:
            return isinstance(statement, ast.Pass)


def _is_written_out(node: ast.AST) -> bool:
    """Whether that is a constant, or a tuple or list of constants: it cannot fail, and to make it runs nothing of anybody."""
    parts = ast.Constant | ast.Tuple | ast.List | ast.Load
    return all(isinstance(each, parts) for each in ast.walk(node))


@lru_cache(maxsize=512)
def changes(source: str) -> frozenset[str]:
    """The names of which a cell may leave another value than it found, imports aside: bound, deleted, or changed in place.

    In place changes what is assigned to a part of (`rows[0] = 1`, `table["sum"] += 2`), or has a method called for nothing
    but its effect (`rows.append(1)`). What a function does to its arguments is not seen.
    """
    try:
        tree, _ = _cell(source)
    except UNREADABLE:
        return _words(source)
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            found.add(_root(node))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            found.add(_root(node.value.func) if isinstance(node.value.func, ast.Attribute) else "")
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del):
            found.add(node.id)
    return frozenset(found | _everywhere_bound(tree)) - imports(source) - {""}


def _root(node: ast.expr) -> str:
    """The name that `a.b[c].d` begins with; empty where it begins with none."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _importing(source: str) -> list[ast.Import | ast.ImportFrom]:
    try:
        tree, _ = _cell(source)
    except UNREADABLE:
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


@lru_cache(maxsize=512)
def imports(source: str) -> frozenset[str]:
    """The names that a cell binds by importing."""
    found = (alias.asname or alias.name for node in _importing(source) for alias in node.names)
    return frozenset(name.partition(".")[0] for name in found)


def modules(source: str) -> frozenset[str]:
    """The modules that a cell imports, as it names them."""
    found: set[str] = set()
    for node in _importing(source):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif node.module and not node.level:
            found.add(node.module)
    return frozenset(found)
