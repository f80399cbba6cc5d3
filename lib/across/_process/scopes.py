"""What a piece of a syntax tree reads and binds at the level of its module, by Python's rules of scopes.

By the tree alone: Python's own symbol table shows a comprehension as a scope on 3.11 and as none from 3.12 on, and what a mark
rests on must not hang on that.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

Function = ast.FunctionDef | ast.AsyncFunctionDef
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(frozen=True)
class _Read:
    """A name that an inner scope reads of what is around it."""

    name: str
    later: bool  # when something calls it, and not where it stands
    everywhere: bool = (
        False  # the global one, whatever is around it: `global`, or a class's own name before that is bound
    )


@dataclass
class _Scope:
    """What one scope says of names at its own level, inner ones aside."""

    reads: set[str] = field(default_factory=set)
    binds: set[str] = field(default_factory=set)
    typed: set[str] = field(default_factory=set)  # `x: int`: a function's own, and bound by nothing
    declared: set[str] = field(default_factory=set)  # global
    outer: set[str] = field(default_factory=set)  # nonlocal
    inner: list[ast.AST] = field(default_factory=list)

    def look(self, node: ast.AST | None) -> None:
        """Take in a node, and what is below it in this scope."""
        match node:
            case None:
                return
            case ast.Name(id=name, ctx=context):
                (self.reads if isinstance(context, ast.Load) else self.binds).add(name)
                if isinstance(context, ast.Del):
                    self.reads.add(name)
            case ast.AugAssign(target=ast.Name(id=name)):
                self.reads.add(name)
            case ast.AnnAssign(target=ast.Name(id=name), value=None, annotation=annotation):
                self.typed.add(name)
                self.look(annotation)
                return
            case ast.Global(names=names):
                self.declared.update(names)
            case ast.Nonlocal(names=names):
                self.outer.update(names)
            case ast.Import() | ast.ImportFrom():
                self.binds |= {(each.asname or each.name).partition(".")[0] for each in node.names} - {"*"}
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                self.binds.add(name)
            case ast.MatchMapping(rest=str(name)):
                self.binds.add(name)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                self.binds.add(node.name)
        if isinstance(node, Function | ast.ClassDef | ast.Lambda):
            types = _types(node)
            of_types = _Scope()
            for each in header(node):
                of_types.look(each)
            self.reads |= of_types.reads - types
            self.binds |= of_types.binds
            self.inner += [*of_types.inner, node]
        elif isinstance(node, Comprehension):
            self.look(node.generators[0].iter)
            self.binds |= _named(node)
            self.inner.append(node)
        elif type(node).__name__ == "TypeAlias":  # from 3.12 on: `type Pair = tuple[A, A]`
            self.look(getattr(node, "name"))  # noqa: B009
            self.inner.append(node)
        else:
            for child in ast.iter_child_nodes(node):
                self.look(child)


def header(node: ast.AST) -> list[ast.AST]:
    """The parts of a function or a class that run where it stands."""
    match node:
        case ast.ClassDef():
            return [*node.decorator_list, *node.bases, *node.keywords]
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
            arguments = node.args
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
            found: list[ast.AST | None] = [*arguments.defaults, *arguments.kw_defaults]
            found += [each.annotation for each in every if each]
            if not isinstance(node, ast.Lambda):
                found += [*node.decorator_list, node.returns]
            return [each for each in found if each is not None]
    return []


def _types(node: ast.AST) -> set[str]:
    """The names of `[T]`, from Python 3.12 on."""
    return {each.name for each in getattr(node, "type_params", [])}


def _named(node: ast.AST) -> set[str]:
    """The names of `:=` in a comprehension, which are those of the scope around it."""
    if isinstance(node, ast.Lambda):
        return set()
    own = {node.target.id} if isinstance(node, ast.NamedExpr) else set[str]()
    return own.union(*(_named(child) for child in ast.iter_child_nodes(node)))


def _inside(node: ast.AST) -> set[_Read]:
    """What an inner scope, and those in it, read of what is around it."""
    scope = _Scope()
    later, own = True, set[str]()
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
            arguments = node.args
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
            own = {each.arg for each in every if each}
            for each in node.body if isinstance(node.body, list) else [node.body]:
                scope.look(each)
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            later = isinstance(node, ast.GeneratorExp)
            first = node.generators[0]
            parts = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
            for each in (*parts, first.target, *first.ifs, *node.generators[1:]):
                scope.look(each)
        case ast.ClassDef():
            for each in node.body:
                scope.look(each)
            return _in_class(scope, _types(node))
        case _:
            scope.look(getattr(node, "value"))  # noqa: B009  # a TypeAlias
    own |= _types(node) | ((scope.binds | scope.typed) - scope.declared - scope.outer)
    found = {_Read(name, later, name in scope.declared) for name in scope.reads - own}
    for each in scope.inner:
        for read in _inside(each):
            if read.everywhere or read.name in scope.declared:
                found.add(_Read(read.name, later or read.later, True))
            elif read.name not in own:
                found.add(_Read(read.name, later or read.later))
    return found


def _in_class(scope: _Scope, types: set[str]) -> set[_Read]:
    """The same of a class: what it binds itself it may read before, and then the global one; its functions never see it."""
    found = {_Read(name, False, name in scope.binds | scope.declared) for name in scope.reads - types}
    return found | {read for each in scope.inner for read in _inside(each) if read.everywhere or read.name not in types}


def reads(node: ast.AST) -> tuple[set[str], set[str]]:
    """The global names that are read when this runs at the cell's own level, and those that are read later."""
    scope = _Scope()
    scope.look(node)
    inner = {read for each in scope.inner for read in _inside(each)}
    return scope.reads | {read.name for read in inner if not read.later}, {read.name for read in inner if read.later}


def bound(*nodes: ast.AST) -> set[str]:
    """The names that these bind at the cell's own level."""
    scope = _Scope()
    for node in nodes:
        scope.look(node)
    return scope.binds
