"""The same answer in another hand: other names inside its functions, results kept before they are returned, no comment kept."""

from __future__ import annotations

import ast
import builtins
import symtable


def rewritten(source: str) -> str:
    """A source that does what `source` does. Arguments keep their place, and what a cell binds keeps its name."""
    tree = ast.parse(source)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            _Renamed(_local(source, node.name)).visit(node)
    tree = ast.fix_missing_locations(_Kept().visit(tree))
    assert isinstance(tree, ast.Module)
    tree.body = [ast.parse("_in_another_hand = True").body[0], *tree.body]
    return ast.unparse(tree) + "\n"


def _local(source: str, function: str) -> set[str]:
    """The names that are local to a function, and to those within it."""
    table = next(
        each for each in symtable.symtable(source, "<cell>", "exec").get_children() if each.get_name() == function
    )
    found: set[str] = set()
    tables = [table]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        found |= {each.get_name() for each in table.get_symbols() if each.is_local() or each.is_parameter()}
    keywords = {each.arg for each in ast.walk(ast.parse(source)) if isinstance(each, ast.keyword)}
    return {name for name in found - keywords if not hasattr(builtins, name) and not name.startswith((".", "__"))}


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: set[str]) -> None:
        self.names = names

    def _new(self, name: str) -> str:
        return f"my_{name}" if name in self.names else name

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self._new(node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.arg = self._new(node.arg)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.name = self._new(node.name)
        self.generic_visit(node)
        return node

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.Nonlocal:
        node.names = [self._new(name) for name in node.names]
        return node


class _Kept(ast.NodeTransformer):
    def visit_Return(self, node: ast.Return) -> list[ast.stmt] | ast.Return:
        if node.value is None:
            return node
        name = ast.Name("the_result", ast.Store())
        return [ast.Assign([name], node.value), ast.Return(ast.Name("the_result", ast.Load()))]
