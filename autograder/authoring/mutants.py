"""Automatic mutants of a reference: small faults that a check which asks for understanding must notice.

The classic ones (another operator, comparison, number or truth value, `not` added, `break` for `continue`, a loop that is
never run, a decorator removed) are cosmic-ray's operators. Ours are those of this course's subject, and what cosmic-ray
has not: another device, a scope left out, the sum for the mean and its like, arguments swapped or left out, a statement
left out, the last for the first.
"""

from __future__ import annotations

import ast
import difflib
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType

from autograder.model.course import CourseError

CLASSIC = re.compile(
    "core/(AddNot|ReplaceTrueWithFalse|ReplaceFalseWithTrue|ReplaceAndWithOr|ReplaceOrWithAnd|ReplaceBreakWithContinue"
    "|ReplaceContinueWithBreak|NumberReplacer|RemoveDecorator|ZeroIterationForLoop|ReplaceUnaryOperator_Delete_\\w+"
    "|ReplaceUnaryOperator_USub_UAdd"
    "|ReplaceBinaryOperator_(Add_Sub|Sub_Add|Mul_Div|Div_Mul|FloorDiv_Div|Mod_FloorDiv|Mod_Add|Pow_Mul|BitOr_BitAnd)"
    "|ReplaceComparisonOperator_(Eq_NotEq|NotEq_Eq|Lt_LtE|Lt_GtE|LtE_Lt|LtE_Gt|Gt_GtE|Gt_LtE|GtE_Gt|GtE_Lt|Is_IsNot|IsNot_Is"
    "|In_NotIn|NotIn_In))"
)
OTHERS = {  # a name and what is easily taken for it
    "reduce_mean": "reduce_sum",
    "reduce_sum": "reduce_mean",
    "mean": "sum",
    "sum": "max",
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "argmin": "argmax",
    "argmax": "argmin",
    "ceil": "floor",
    "floor": "ceil",
    "append": "extend",
    "keys": "values",
    "values": "keys",
    "backing_device": "device",
    "startswith": "endswith",
    "endswith": "startswith",
    "cycle": "chain",
    "pairwise": "permutations",
}
DEVICES = re.compile(r"\b(CPU|GPU)(:?)(\d?)")


@dataclass(frozen=True)
class Mutant:
    """One answer cell with one fault."""

    answer: str  # grade id
    operator: str  # what was done
    source: str  # the whole cell
    reference: str

    @property
    def diff(self) -> str:
        """The fault as a unified diff without headers."""
        lines = difflib.unified_diff(self.reference.splitlines(), self.source.splitlines(), lineterm="", n=1)
        return "\n".join(line for line in list(lines)[2:] if not line.startswith("@@"))


def mutants(answer: str, reference: str) -> list[Mutant]:
    """Every mutant of a cell's source, in a fixed order; none twice, none that compiles to what the reference does.

    Raises CourseError where cosmic-ray is not installed.
    """
    seen, made = {_code(reference)}, []
    for operator, source in (*_ours(reference), *_classic(reference)):
        code = _code(source)
        if code and code not in seen:
            seen.add(code)
            made.append(Mutant(answer, operator, source, reference))
    return made


def of_another_type(answer: str, reference: str) -> list[Mutant]:
    """The reference with what it returns, or else what it binds last, as text or in a list."""
    tree = ast.parse(reference)
    values = [node.value for node in ast.walk(tree) if isinstance(node, ast.Return) and node.value is not None]
    if not values and tree.body and isinstance(last := tree.body[-1], ast.Assign):
        values = [last.value]
    made = []
    for value in values:
        text = _text(reference, value)
        for operator, other in (("AsText", f"str({text})"), ("InAList", f"[{text}]")):
            made.append(Mutant(answer, operator, _at(reference, value, other), reference))
    return made


def same(mutant: Mutant, answer: str, change: tuple[str, str] | None) -> bool:
    """Whether `mutant` is the reference of `answer` with `change`, (old, new), made in it; None: with any."""
    if change is None:
        return mutant.answer == answer
    old, new = change
    once = mutant.answer == answer and mutant.reference.count(old) == 1
    return once and _code(mutant.reference.replace(old, new)) == _code(mutant.source)


def _code(source: str) -> str:
    """What decides whether two sources are the same program: their bytecode; empty if it is none."""
    try:
        return _bytecode(compile(source, "cell", "exec", dont_inherit=True))
    except (SyntaxError, ValueError):
        return ""


def _bytecode(code: CodeType) -> str:
    constants = [_bytecode(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts]
    return repr((code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants))


def _classic(source: str) -> Iterator[tuple[str, str]]:
    try:
        from cosmic_ray.mutating import mutate_code
        from cosmic_ray.plugins import get_operator, operator_names
    except ImportError:
        says = "mutants need cosmic-ray: uv sync --extra verify, or pip install -e './autograder[verify]'"
        raise CourseError(says) from None
    for name in sorted(operator_names()):
        if CLASSIC.fullmatch(name):
            for occurrence in range(200):
                mutated = mutate_code(source, get_operator(name)(), occurrence)
                if mutated is None:
                    break
                yield name.removeprefix("core/"), mutated


def _ours(source: str) -> Iterator[tuple[str, str]]:
    yield from _tokens(source)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.With | ast.AsyncWith):
            last = node.items[-1]
            end = _end(last.optional_vars or last.context_expr)
            yield "ScopeLeftOut", _replaced(source, (node.lineno, node.col_offset), end, "if True")
        if isinstance(node, ast.Call):
            yield from _arguments(source, node)
        if isinstance(node, ast.stmt) and not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Import | ast.Pass):
            yield from _left_out(source, node)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == 0:
            yield "LastForFirst", _at(source, node.slice, "-1")
        if isinstance(node, ast.IfExp):
            body, other = (ast.unparse(part) for part in (node.body, node.orelse))
            yield "BranchesSwapped", _at(source, node, f"({other} if {ast.unparse(node.test)} else {body})")


def _left_out(source: str, node: ast.stmt) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Return):
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield "ReturnsNone", _at(source, node, "return None")
    elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):  # a docstring does nothing
        yield "StatementLeftOut", _at(source, node, "pass")


def _arguments(source: str, node: ast.Call) -> Iterator[tuple[str, str]]:
    in_any_order = isinstance(node.func, ast.Name) and node.func.id in ("min", "max")
    for one, two in [] if in_any_order else zip(node.args, node.args[1:], strict=False):
        if not isinstance(one, ast.Starred) and not isinstance(two, ast.Starred):
            swapped = _at(source, two, _text(source, one))
            yield "ArgumentsSwapped", _at(swapped, one, _text(source, two))
    for at in range(len(node.keywords)):
        left = [*node.args, *(keyword for n, keyword in enumerate(node.keywords) if n != at)]
        listed = ", ".join(ast.unparse(each) for each in left)
        yield "KeywordLeftOut", _at(source, node, f"{ast.unparse(node.func)}({listed})")


def _tokens(source: str) -> Iterator[tuple[str, str]]:
    """Another device in any text, another name for one that is easily taken for it."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME and token.string in OTHERS:
            yield "Lookalike", _replaced(source, token.start, token.end, OTHERS[token.string], characters=True)
        if token.type in (tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1)):
            for found in DEVICES.finditer(token.string):
                kind, colon, number = found.groups()
                others = [f"{'GPU' if kind == 'CPU' else 'CPU'}{colon}{number}"]
                if number:
                    others.append(f"{kind}{colon}{(int(number) + 1) % 10}")
                for other in others:
                    text = token.string[: found.start()] + other + token.string[found.end() :]
                    yield "AnotherDevice", _replaced(source, token.start, token.end, text, characters=True)


def _end(node: ast.expr) -> tuple[int, int]:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset


def _at(source: str, node: ast.expr | ast.stmt, text: str) -> str:
    return _replaced(source, (node.lineno, node.col_offset), _end(node), text)  # type: ignore[arg-type]


def _text(source: str, node: ast.expr) -> str:
    return ast.get_source_segment(source, node) or ast.unparse(node)


def _replaced(source: str, start: tuple[int, int], end: tuple[int, int], text: str, characters: bool = False) -> str:
    """`source` with `text` from `start` to `end`: lines from 1, and bytes of UTF-8 as in `ast`, or `characters`."""
    lines = [line if characters else line.encode() for line in source.splitlines(keepends=True)]
    before, after = lines[start[0] - 1][: start[1]], lines[end[0] - 1][end[1] :]
    parts = [*lines[: start[0] - 1], before, text if characters else text.encode(), after, *lines[end[0] :]]
    return "".join(part if isinstance(part, str) else part.decode() for part in parts)
