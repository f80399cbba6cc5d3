"""A class's answers to real exercises of this course, by what an honest student may choose; and disguised copies of them."""

from __future__ import annotations

import ast
import itertools
import random
import re
import tomllib
from pathlib import Path

from autograder.probe import listed

ROOT = Path(__file__).parents[2]
CHOICE = re.compile("«([^«»]*)»")
PLANS: dict[tuple[str, str], list[str]] = {
    (chapter, answer): its["plans"]
    for chapter, answers in tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")).items()
    for answer, its in answers.items()
}


def drawn(plan: str, rng: random.Random) -> str:
    """A plan with a choice made at each place."""
    while CHOICE.search(plan):
        plan = CHOICE.sub(lambda found: rng.choice(found[1].split("¦")), plan)
    return plan


def theirs(chapter: str, answer: str) -> list[str]:
    """The reference, and what the course lists: right and wrong."""
    source = (ROOT / "solutions" / f"{chapter}.py").read_text("utf-8")
    cell = source.split(f'# %% answer="{answer}"')[1].split("# %%")[0].split("\n", 1)[1]
    reference = "\n".join(line for line in cell.splitlines() if not line.strip().startswith("#"))
    found = listed.variants(ROOT / "checks" / f"listed_{chapter}.toml")
    return [reference, *(each.written_over(reference) for each in found if each.answer == answer)]


def honest(chapter: str, answer: str, count: int, rng: random.Random) -> list[str]:
    """What `count` students write on their own: a third what the course knows, most of these the reference's way."""
    known = theirs(chapter, answer)
    made = [rng.choice([known[0], rng.choice(known)]) for _ in range(count // 3)]
    made += [drawn(rng.choice(PLANS[chapter, answer]), rng) for _ in range(count - len(made))]
    return [disguised(styled(each, rng), rng, 0) for each in made]


WORDS = "a b c d e g h k m p q r s t u v w x y z all_of_it buffer entry group item left part queued right rest tmp work".split()
NOTHING = ("print({!r})", "assert True", "_ = None", "{!r}", "tmp_ = []", "pass")


class Renamed(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.copy_location(ast.Name(self.names.get(node.id, node.id), node.ctx), node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.copy_location(ast.arg(self.names.get(node.arg, node.arg)), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.name = self.names.get(node.name, node.name)
        return node


class Styled(ast.NodeTransformer):
    """What one student writes so, and the next one otherwise, wherever there is a place for it."""

    def __init__(self, rng: random.Random, share: float = 0.35) -> None:
        self.rng, self.share, self.made = rng, share, 0

    def _wants(self) -> bool:
        return self.rng.random() < self.share

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        turned = {
            ast.Lt: ast.Gt,
            ast.Gt: ast.Lt,
            ast.LtE: ast.GtE,
            ast.GtE: ast.LtE,
            ast.Eq: ast.Eq,
            ast.NotEq: ast.NotEq,
        }
        if len(node.ops) == 1 and type(node.ops[0]) in turned and self._wants():
            return ast.Compare(node.comparators[0], [turned[type(node.ops[0])]()], [node.left])
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Mult) and self._wants():
            return ast.BinOp(node.right, node.op, node.left)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        if self._wants():
            left = ast.parse(ast.unparse(node.target), mode="eval").body
            return ast.Assign([node.target], ast.BinOp(left, node.op, node.value))
        return node

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        self.generic_visit(node)
        if self._wants():
            return ast.Call(ast.Name("list", ast.Load()), [ast.GeneratorExp(node.elt, node.generators)], [])
        return node

    def visit_List(self, node: ast.List) -> ast.AST:
        return ast.parse("list()", mode="eval").body if not node.elts and self._wants() else node

    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        if node.orelse and self._wants():
            node.test, node.body, node.orelse = ast.UnaryOp(ast.Not(), node.test), node.orelse, node.body
        elif (
            isinstance(node.test, ast.BoolOp)
            and isinstance(node.test.op, ast.And)
            and not node.orelse
            and self._wants()
        ):
            [first, *others] = node.test.values
            rest = ast.BoolOp(ast.And(), others) if len(others) > 1 else others[0]
            return ast.If(first, [ast.If(rest, node.body, [])], [])
        return node

    def visit_For(self, node: ast.For) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        [*_, last] = node.body
        if isinstance(node.target, ast.Tuple) and self._wants():
            whole = self._name()
            took = ast.Assign([node.target], ast.Name(whole, ast.Load()))
            node.target, node.body = ast.Name(whole, ast.Store()), [took, *node.body]
        if isinstance(last, ast.If) and not last.orelse and self._wants():
            inverted = ast.If(ast.UnaryOp(ast.Not(), last.test), [ast.Continue()], [])
            node.body[-1:] = [inverted, *last.body]
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        call = node.value
        if isinstance(call, ast.Call) and call.args and not isinstance(call.args[0], ast.Name) and self._wants():
            name = self._name()
            named = ast.Assign([ast.Name(name, ast.Store())], call.args[0])
            call.args[0] = ast.Name(name, ast.Load())
            return [named, node]
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        [target], value = node.targets, node.value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and self._wants():
            return [ast.Assign([a], b) for a, b in zip(target.elts, value.elts, strict=True)]
        if isinstance(value, ast.Call) and value.args and isinstance(value.args[0], ast.Call) and self._wants():
            name = self._name()
            inner, value.args[0] = value.args[0], ast.Name(name, ast.Load())
            return [ast.Assign([ast.Name(name, ast.Store())], inner), node]
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        if node.value is not None and not isinstance(node.value, ast.Name | ast.Constant) and self._wants():
            name = self._name()
            return [ast.Assign([ast.Name(name, ast.Store())], node.value), ast.Return(ast.Name(name, ast.Load()))]
        return node

    def _name(self) -> str:
        self.made += 1
        return f"own_{self.made}"


def styled(source: str, rng: random.Random) -> str:
    return ast.unparse(ast.fix_missing_locations(Styled(rng).visit(ast.parse(source))))


def disguised(source: str, rng: random.Random, changes: int = 3) -> str:
    """The answer under other names and without its comments; `changes`: how many kinds of disguise more."""
    tree = ast.parse(source)
    [top] = [each for each in tree.body if isinstance(each, ast.FunctionDef)][-1:]
    bound = {n.id for n in ast.walk(top) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    bound |= {a.arg for a in ast.walk(top) if isinstance(a, ast.arg)}
    bound |= {f.name for f in ast.walk(top) if isinstance(f, ast.FunctionDef) and f is not top}
    words = rng.sample(WORDS, len(WORDS)) + [f"name_{i}" for i in range(40)]
    tree = Renamed(dict(zip(sorted(bound), words, strict=False))).visit(tree)
    for change in rng.sample([_swap, _insert, _other_loop, _spell_out, _swap], changes):
        change(tree, rng)
    return ast.unparse(ast.fix_missing_locations(tree))


def _blocks(tree: ast.AST) -> list[list[ast.stmt]]:
    found = [getattr(node, name, None) for node in ast.walk(tree) for name in ("body", "orelse")]
    return [each for each in found if isinstance(each, list) and each and not isinstance(tree, ast.Lambda)]


def _names(node: ast.AST, stored: bool) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and stored <= isinstance(n.ctx, ast.Store)}


def _swap(tree: ast.AST, rng: random.Random) -> None:
    """Swap neighbours that have nothing to do with each other."""
    for block in _blocks(tree):
        for i, (a, b) in enumerate(itertools.pairwise(block)):
            simple = all(isinstance(each, ast.Assign | ast.Expr | ast.AugAssign) for each in (a, b))
            if simple and not (_names(a, True) & _names(b, False) or _names(b, True) & _names(a, False)):
                block[i], block[i + 1] = b, a
                break


def _insert(tree: ast.AST, rng: random.Random) -> None:
    """Statements that do nothing, here and there."""
    blocks = [block for block in _blocks(tree) if not isinstance(block[0], ast.FunctionDef)]
    for block in rng.sample(blocks, min(3, len(blocks))):
        block[:0] = ast.parse(rng.choice(NOTHING).format(rng.choice(WORDS))).body


def _other_loop(tree: ast.AST, rng: random.Random) -> None:
    """A `for` becomes a `while`, or what appends to a list in a `for` a comprehension."""
    for block in _blocks(tree):
        for i, each in enumerate(block):
            if isinstance(each, ast.For) and not any(isinstance(n, ast.Continue) for n in ast.walk(each)):
                it = ast.unparse(each.iter)
                body = ast.unparse(each.target)
                made = ast.parse(f"rows = list({it})\nwhile rows:\n    {body} = rows.pop(0)")
                made.body[1].body += each.body  # type: ignore[attr-defined]
                block[i : i + 1] = made.body
                return


def _spell_out(tree: ast.AST, rng: random.Random) -> None:
    """`a += b` is spelled out, and comparisons are turned round."""
    for block in _blocks(tree):
        for i, each in enumerate(block):
            if isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name):
                target, value = ast.unparse(each.target), each.value
                made = ast.parse(f"{target} = {target} + 0").body[0]
                made.value.op, made.value.right = each.op, value  # type: ignore[attr-defined]
                block[i] = made
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Gt | ast.Lt):
            node.left, node.comparators = node.comparators[0], [node.left]
            node.ops = [ast.Lt() if isinstance(node.ops[0], ast.Gt) else ast.Gt()]
