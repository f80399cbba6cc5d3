"""Which global names the source of a cell reads, binds and changes: what Python's own symbol table and syntax tree say.

Where a source is no plain Python, every word in it counts.
"""

from __future__ import annotations

import ast
import re
import symtable
import warnings
from functools import lru_cache

CELL = "<cell>"  # the file that it is said to be
NAME = re.compile(r"[^\W\d]\w*")
MAGIC = re.compile(r"^(?P<indent>[ \t]*)[%!](?!%).*$", re.MULTILINE)  # a line that IPython runs, and Python does not
# what gives a cell's names by their text
BY_TEXT = frozenset("__main__ eval exec f_globals __globals__ f_locals get_ipython globals locals vars".split())
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError)  # a magic such as %%timeit, or worse
# Python quotes what it warns of, an escape for one, on the instructor's terminal: a line for each of the student's
warnings.filterwarnings("ignore", module=re.escape(CELL))


@lru_cache(maxsize=512)
def uses(source: str) -> frozenset[str]:
    """The global names that a cell reads, now or when its functions are called."""
    try:
        return frozenset(_reads(symtable.symtable(source, CELL, "exec")) | _taken(ast.parse(source, CELL)))
    except UNREADABLE:
        return frozenset(NAME.findall(source))


def _taken(node: ast.AST, scope: frozenset[str] | None = None) -> set[str]:
    """The global names that are augmented or deleted, which the symbol table does not call read.

    `scope` has the names that a function declares as global; what a class's body changes it has read first.
    """
    found = _changed(node) if scope is None else _changed(node) & scope
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        scope = frozenset(name for each in ast.walk(node) if isinstance(each, ast.Global) for name in each.names)
    elif isinstance(node, ast.ClassDef):
        scope = None
    return found.union(*(_taken(each, scope) for each in ast.iter_child_nodes(node)))


def _changed(node: ast.AST) -> set[str]:
    targets = [node.target] if isinstance(node, ast.AugAssign) else node.targets if isinstance(node, ast.Delete) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}


@lru_cache(maxsize=512)
def needs(source: str, answer: bool = False) -> frozenset[str]:
    """The global names that a cell reads and that another cell can have bound: of its `uses` those that are not its own.

    Its own is what a statement of the cell itself has bound, come what may, before any other reads it, and what no function
    reads: that one may be called later, when another cell has bound the name anew. An `answer`'s functions mean what it has
    bound: its helper may be called as a picture is further down. Where names are looked up by their text, every word counts.
    """
    words = frozenset(NAME.findall(source))
    if words & BY_TEXT:
        return words | uses(source)
    try:
        table = symtable.symtable(source, CELL, "exec")
        body = ast.parse(source, CELL).body
        later = set[str]() if answer else set[str]().union(*(_reads(child) for child in table.get_children()))
    except UNREADABLE:
        return uses(source)
    first: dict[str, int] = {}  # name -> the statement that binds it
    read: dict[str, int] = {}  # name -> the first statement that reads it
    acts = len(body)  # the next statement that may call something
    for number, statement in reversed([*enumerate(body)]):
        for name in _bound(statement):
            first[name] = number
        defines = isinstance(statement, ast.FunctionDef) and not statement.decorator_list
        inside: set[int] = set()  # of its body, which is run when something calls it
        if answer and isinstance(statement, ast.FunctionDef) and defines:
            inside = {id(node) for each in statement.body for node in ast.walk(each)}
        for node in ast.walk(statement):
            at = acts if id(node) in inside else number
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
                read[node.id] = min(at, read.get(node.id, at))
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                read[node.target.id] = min(at, read.get(node.target.id, at))
        if not (defines or isinstance(statement, ast.Import | ast.ImportFrom)):
            acts = number
    return frozenset(name for name in uses(source) if name in later or first.get(name, len(body)) >= read.get(name, -1))


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a statement binds whenever it ends; those of blocks, which may not be run, are left out."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _reads(table: symtable.SymbolTable) -> set[str]:
    """The global names that are read; a class's body reads a global one, too, until it has bound that name of its own."""
    whole = table.get_type() in ("module", "class")
    names = {
        symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced() and (whole or symbol.is_global())
    }
    return names.union(*(_reads(child) for child in table.get_children()))


@lru_cache(maxsize=512)
def binds(source: str) -> frozenset[str]:
    """The global names that a cell binds."""
    try:
        table = symtable.symtable(source, CELL, "exec")
        tree = ast.parse(source, CELL)
    except UNREADABLE:
        return frozenset(NAME.findall(source))
    bound = {s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}
    declared = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    return frozenset(bound | declared)


@lru_cache(maxsize=512)
def changes(source: str) -> frozenset[str]:
    """The names of which a cell may leave another value than it found, imports aside: bound, deleted, or changed in place.

    In place changes what is assigned to a part of (`rows[0] = 1`, `table["sum"] += 2`), or has a method called for nothing
    but its effect (`rows.append(1)`). What a function does to its arguments is not seen.
    """
    source = MAGIC.sub(r"\g<indent>pass", source)
    try:
        tree = ast.parse(source, CELL)
    except UNREADABLE:
        return frozenset(NAME.findall(source))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            found.add(_root(node))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            found.add(_root(node.value.func) if isinstance(node.value.func, ast.Attribute) else "")
    return frozenset(found | (binds(source) - imports(source)) | _deleted(tree)) - imports(source) - {""}


@lru_cache(maxsize=512)
def imports(source: str) -> frozenset[str]:
    """The names that a cell binds by importing."""
    try:
        tree = ast.parse(MAGIC.sub(r"\g<indent>pass", source), CELL)
    except UNREADABLE:
        return frozenset()
    found = (node.names for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    return frozenset((alias.asname or alias.name).partition(".")[0] for names in found for alias in names)


def _deleted(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del)}


def _root(node: ast.expr) -> str:
    """The name that `a.b[c].d` begins with; empty where it begins with none."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def modules(source: str) -> frozenset[str]:
    """The modules that a cell imports, as it names them."""
    try:
        tree = ast.parse(MAGIC.sub(r"\g<indent>pass", source), CELL)
    except UNREADABLE:
        return frozenset()
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return frozenset(found)
