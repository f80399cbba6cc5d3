"""Which cells of a notebook each of its checks needs: those before it on which it depends, told by the names in them.

A cell tagged `show` binds nothing that is used later, and a check needs no other exercise's answer but by its name. What no
name tells, a setting for one, is in a cell without a tag: each of these before a check is needed, unless it only defines.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import symtable
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

FILE = "<cell of the notebook>"
NAME = re.compile(r"[^\W\d]\w*")
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)  # a magic for one
warnings.filterwarnings("ignore", module=re.escape(FILE))


@dataclass(frozen=True)
class Slice:
    """One check of a notebook, and what has to run before it."""

    exercise: str
    cell: int  # which of the notebook's cells it is
    before: tuple[int, ...]  # cells, in order
    after: tuple[str, ...]  # exercises that have to pass first: `attempt(..., after=)`

    def digest(self, sources: Mapping[int, str], here: Sequence[str], passed: Iterable[str]) -> str:
        """Of all that decides what the check says: sources by cell, what is installed `here`, which others have passed."""
        seen = [*(sources[cell] for cell in self.before), sources[self.cell]]
        ready = [name in passed for name in self.after]
        return hashlib.sha256(json.dumps([seen, list(here), ready]).encode()).hexdigest()


def slices(cells: Sequence[Mapping[str, Any]]) -> list[Slice]:
    """Every check of a notebook (its cells as nbformat has them, sources as text), in order."""
    code = {number: str(cell["source"]) for number, cell in enumerate(cells) if cell["cell_type"] == "code"}
    always = {n for n, source in code.items() if _always(cells[n]["metadata"]) and not only_defines(source)}
    found = []
    for number, source in code.items():
        metadata = cells[number]["metadata"]
        if is_check(metadata):
            names = metadata.get("across", {}).get("exercise") or metadata["nbgrader"]["grade_id"]
            answers = metadata.get("across", {}).get("answers", [])
            own = {each for each in code if cells[each]["metadata"].get("nbgrader", {}).get("grade_id") in answers}
            before = _closure(source, {each: text for each, text in code.items() if each < number}, always | own)
            found.append(Slice(names, number, before, waits_for(source)))
    return found


def is_check(metadata: Mapping[str, Any]) -> bool:
    """Whether a code cell is graded and not the student's."""
    nbgrader = metadata.get("nbgrader", {})
    return bool(nbgrader.get("grade") and not nbgrader.get("solution"))


def _always(metadata: Mapping[str, Any]) -> bool:
    """Whether a cell is neither answer nor check, and does not only show something."""
    nbgrader = metadata.get("nbgrader", {})
    own = bool(nbgrader.get("grade") or nbgrader.get("solution"))
    return not own and "show" not in metadata.get("tags", [])


def _closure(source: str, code: Mapping[int, str], always: set[int]) -> tuple[int, ...]:
    """The cells of `code`, all before a check with that `source`, that it needs: those that bind what it or another needs."""
    needed = {number for number in code if number in always}
    wanted = {(name, max(code, default=0) + 1) for name in reads(source, last=True)}
    wanted |= {(name, number) for number in needed for name in reads(code[number])}
    while wanted:
        fresh = {number for name, reader in wanted for number in _binders(name, reader, code)} - needed
        needed |= fresh
        wanted = {(name, number) for number in fresh for name in reads(code[number])}
    return tuple(sorted(needed))


def _binders(name: str, reader: int, code: Mapping[int, str]) -> set[int]:
    """The cells whose `name` the cell `reader` may mean: a function may run later than where it stands.

    None before one that defines the name anew before the reader, and cannot fail.
    """
    found = {number for number, source in code.items() if name in binds(source)}
    anew = [number for number in found if number < reader and only_defines(code[number])]
    return {number for number in found if number >= max(anew, default=number)}


@lru_cache(maxsize=2048)
def waits_for(source: str) -> tuple[str, ...]:
    """The exercises that a check names in `attempt(..., after=)`."""
    try:
        tree = ast.parse(source, FILE)
    except UNREADABLE:
        return ()
    values = (
        keyword.value
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "attempt"
        for keyword in call.keywords
        if keyword.arg == "after"
    )
    return tuple(
        str(each.value)
        for value in values
        for each in (value.elts if isinstance(value, ast.List | ast.Tuple) else [value])
        if isinstance(each, ast.Constant)
    )


@lru_cache(maxsize=2048)
def only_defines(source: str) -> bool:
    """Whether a cell does nothing but make functions, classes and constants, which nobody notices who uses none of them."""
    try:
        return all(_defines(statement) for statement in ast.parse(source, FILE).body)
    except UNREADABLE:
        return False


def _defines(statement: ast.stmt) -> bool:
    match statement:
        case ast.FunctionDef(args=arguments, decorator_list=[], returns=returned):
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
            computed = [
                *arguments.defaults,
                *arguments.kw_defaults,
                *(each.annotation for each in every if each),
                returned,
            ]
            return all(each is None or _is_written_out(each) for each in computed)
        case ast.ClassDef(bases=[], keywords=[], decorator_list=[], body=body):
            return all(_defines(each) for each in body)
        case ast.Assign(targets=targets, value=value):
            return all(isinstance(each, ast.Name) for each in targets) and _is_written_out(value)
        case ast.Expr(value=value):
            return isinstance(value, ast.Constant)
        case _:
            return isinstance(statement, ast.Pass)


def _is_written_out(node: ast.expr) -> bool:
    """Whether that is a constant, or a tuple or list of constants: it cannot fail, and to make it runs nothing of anybody."""
    parts = ast.Constant | ast.Tuple | ast.List | ast.Load
    return all(isinstance(each, parts) for each in ast.walk(node))


@lru_cache(maxsize=2048)
def binds(source: str) -> frozenset[str]:
    """The global names that a cell binds; of what is no plain Python every word."""
    try:
        tree = _parsed(source)
        names = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
        return _bound(tree) | names
    except UNREADABLE:
        return frozenset(NAME.findall(source))


@lru_cache(maxsize=2048)
def reads(source: str, last: bool = False) -> frozenset[str]:
    """The global names that a cell needs from others: those that it reads before it has bound them for sure.

    What its functions read counts in any case: they may be called when another cell has bound the name anew. Not so in the
    `last` cell that is run: there a function reads what was bound for sure before the statement that makes it.
    """
    try:
        return frozenset(_read(_parsed(source).body, set(), last))
    except UNREADABLE:
        return frozenset(NAME.findall(source))


def _read(body: Iterable[ast.stmt], bound: set[str], last: bool) -> set[str]:
    """The names that statements read before these, or `bound`, have bound them; `bound` grows."""
    found: set[str] = set()

    def read(node: ast.AST) -> None:
        at_once, later = _top(node)
        found.update(at_once - bound, later - bound if last else later)

    def branch(statements: Sequence[ast.stmt], more: Iterable[str] = ()) -> set[str]:
        inside = {*bound, *more}
        found.update(_read(statements, inside, last))
        return inside

    for statement in body:
        match statement:
            case ast.For(target=target, iter=header):
                read(header)
                bound |= _top_bound(target)
                found |= _read([*statement.body, *statement.orelse], bound, last)
            case ast.With(items=items):
                for item in items:
                    read(item.context_expr)
                    bound |= _top_bound(item.optional_vars) if item.optional_vars else set()
                found |= _read(statement.body, bound, last)
            case ast.If(test=test):
                read(test)
                bound |= branch(statement.body) & branch(statement.orelse)
            case ast.While(test=test):
                read(test)
                branch([*statement.body, *statement.orelse])
            case ast.Try():
                branch([*statement.body, *statement.orelse])
                for handler in statement.handlers:
                    if handler.type is not None:
                        read(handler.type)
                    branch(handler.body, [handler.name] if handler.name else [])
                bound |= branch(statement.finalbody)
            case ast.Match() | ast.TryStar() | ast.AsyncFor() | ast.AsyncWith():
                read(statement)
            case _:
                read(statement)
                bound |= _bound(statement)
    return found


def _top(node: ast.AST) -> tuple[set[str], set[str]]:
    """The global names that are read when this runs at the cell's own level, and those that its functions read later."""
    table = symtable.symtable(ast.unparse(node), FILE, "exec")
    at_once = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()} | _added_to(node)
    later: set[str] = set()
    for child in table.get_children():
        (at_once if _comprehends(child) else later).update(_inner(child))
    return at_once, later


AT_ONCE = "__at_once__"


class _Scoped(ast.NodeTransformer):
    """Gives a list, set or dict made by `for` a scope that the symbol table shows: from Python 3.12 on it has none."""

    def visit(self, node: ast.AST) -> ast.AST:
        node = self.generic_visit(node)
        match node:
            case ast.ListComp() | ast.SetComp():
                element = node.elt
            case ast.DictComp():
                element = ast.Tuple([node.key, node.value], ast.Load())
            case _:
                return node
        own = ast.arguments([], [ast.arg(AT_ONCE)], None, [], [], None, [])
        return ast.Lambda(own, ast.GeneratorExp(element, node.generators))


def _parsed(source: str) -> ast.Module:
    tree = ast.parse(source, FILE)
    _Scoped().visit(tree)
    return ast.fix_missing_locations(tree)


def _comprehends(table: symtable.SymbolTable) -> bool:
    """Whether that is the scope of a list, set or dict made by `for`, which runs where it stands, and nothing in it later."""
    if AT_ONCE not in table.get_identifiers():
        return False
    *in_its_source, generator = table.get_children()
    return all(_comprehends(child) for child in (*in_its_source, *generator.get_children()))


def _top_bound(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def _added_to(node: ast.AST) -> set[str]:
    """The name of `x += 1` at the cell's own level, which reads x but is no reading for the symbol table."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
        return set()
    own = {node.target.id} if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) else set()
    return own.union(*(_added_to(child) for child in ast.iter_child_nodes(node)))


def _bound(node: ast.AST) -> frozenset[str]:
    """The names that this binds at the cell's own level, also by `:=` inside of what is made by `for`."""
    table = symtable.symtable(ast.unparse(node), FILE, "exec")
    bound = {s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}
    return frozenset(bound | _named(node))


def _named(node: ast.AST) -> set[str]:
    """The names of `:=` at the cell's own level, where what is made by `for` is."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return set()
        case ast.Lambda(args=arguments) if AT_ONCE not in {each.arg for each in arguments.args}:
            return set()
    own = {node.target.id} if isinstance(node, ast.NamedExpr) else set()
    return own.union(*(_named(child) for child in ast.iter_child_nodes(node)))


def _inner(table: symtable.SymbolTable) -> set[str]:
    """The global names that a function reads, or a class, or adds to."""
    names = {
        symbol.get_name()
        for symbol in table.get_symbols()
        if symbol.is_global() and (symbol.is_referenced() or symbol.is_assigned())
    }
    return names.union(*(_inner(child) for child in table.get_children()))
