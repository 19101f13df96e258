"""The list of mutants: every clause and action of every conditional write, every branch of the pure
decisions.

A mutant is a change of one module's syntax tree, applied when the module is imported
(``runner.install``). Its name has the function, the kind of change and the changed text, so that it
stays the same while lines move.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tests.mutation.modules import MODULES, Mutated, source

ACTIONS: Final = {"Set", "SetSum", "Append", "Include", "Exclude", "Drop"}
CLAUSES: Final = {"Clause", "new_row"}
_EDGES: Final = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
_SUMS: Final = {ast.Add: ast.Sub, ast.Sub: ast.Add}
_CHECK: Final = re.compile(r"_?(require|check)(_|$)")
_HELD: Final = "__import__('tests.mutation.harmless', fromlist=['x']).HELD"
_NOTHING: Final = "__import__('tests.mutation.harmless', fromlist=['x']).NOTHING"


@dataclass(frozen=True)
class Mutant:
    """One change. ``place`` counts the nodes of its kind in the module."""

    module: str
    kind: str
    place: int
    name: str

    def __str__(self) -> str:
        return f"{self.module}: {self.name}"


def mutants() -> list[Mutant]:
    """Every mutant, in source order."""
    created: list[Mutant] = []
    for module, mutated_in in MODULES.items():
        tree = ast.parse(source(module).read_text())
        for kind in _kinds(mutated_in):
            names: Counter[str] = Counter()
            for place, (function, node) in enumerate(_nodes(tree, kind)):
                text = f"{function}: {kind} {_label(node)}"
                names[text] += 1
                created.append(Mutant(module, kind, place, text + (f" ({names[text]})" if names[text] > 1 else "")))
    return created


def _kinds(module: Mutated) -> tuple[str, ...]:
    return (
        *(("clause", "action") if module.writes else ()),
        *(("branch", "operand", "edge") if module.decides else ()),
        *(("check", "sum", "term", "member") if module.guards else ()),
    )


def mutated(mutant: Mutant) -> ast.Module:
    """The module's tree with the change."""
    tree = ast.parse(source(mutant.module).read_text())
    for place, (_, node) in enumerate(_nodes(tree, mutant.kind)):
        if place == mutant.place:
            _change(tree, node, mutant.kind)
            return ast.fix_missing_locations(tree)
    raise LookupError(str(mutant))


def _nodes(tree: ast.Module, kind: str) -> Iterator[tuple[str, ast.AST]]:
    seen: set[ast.AST] = set()
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for node in _of_kind(function, kind):
                if node not in seen:  # a function within another one is walked with that one already
                    seen.add(node)
                    yield function.name, node


def _of_kind(function: ast.FunctionDef, kind: str) -> Iterator[ast.AST]:
    for node in ast.walk(function):
        match kind:
            case "clause" | "action":
                wanted = CLAUSES if kind == "clause" else ACTIONS
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in wanted:
                    yield node
            case "branch":
                if isinstance(node, ast.If):
                    yield node
            case "operand":
                for condition in _conditions(node):
                    for part in ast.walk(condition):
                        if isinstance(part, ast.BoolOp):
                            yield from part.values
            case "check":
                if (
                    isinstance(node, ast.Expr)
                    and isinstance(node.value, ast.Call)
                    and _CHECK.match(_called(node.value))
                ):
                    yield node
            case "sum":
                if isinstance(node, ast.Compare):
                    yield from (
                        part for part in ast.walk(node) if isinstance(part, ast.BinOp) and type(part.op) in _SUMS
                    )
            case "term":
                kept = node.value if isinstance(node, ast.Assign | ast.Return) else None
                if isinstance(kept, ast.BoolOp) and not _gives_a_default(kept):
                    yield from kept.values
            case "member":
                if isinstance(node, ast.Call) and _called(node) == "replace":
                    yield from node.keywords
            case _:
                if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _EDGES:
                    yield node


def _gives_a_default(condition: ast.BoolOp) -> bool:
    """Whether it is ``given or what else``, which decides nothing."""
    return isinstance(condition.op, ast.Or) and isinstance(condition.values[-1], ast.Call | ast.Name)


def _called(call: ast.Call) -> str:
    """The last part of the name of the called function."""
    function = call.func
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def _conditions(node: ast.AST) -> list[ast.expr]:
    """The deciding part of ``node``; an ``or`` elsewhere gives a value."""
    if isinstance(node, ast.If | ast.IfExp):
        return [node.test]
    return node.ifs if isinstance(node, ast.comprehension) else []


def _label(node: ast.AST) -> str:
    if isinstance(node, ast.Call):
        if _called(node) == "Clause" and isinstance(node.args[0], ast.Constant):
            return repr(node.args[0].value)
        return ast.unparse(node)[:70]
    return ast.unparse(node.test if isinstance(node, ast.If) else node)[:70]


def _change(tree: ast.Module, node: ast.AST, kind: str) -> None:
    match kind:
        case "branch":
            assert isinstance(node, ast.If)
            node.test = ast.Constant(value=False)
        case "edge":
            assert isinstance(node, ast.Compare)
            node.ops = [_EDGES[type(node.ops[0])]()]
        case "check":
            assert isinstance(node, ast.Expr)
            node.value = ast.Constant(value=None)
        case "sum":
            assert isinstance(node, ast.BinOp)
            node.op = _SUMS[type(node.op)]()
        case "member":
            call = next(part for part in ast.walk(tree) if isinstance(part, ast.Call) and node in part.keywords)
            call.keywords.remove(node)  # type: ignore[arg-type]
        case "operand" | "term":
            condition = next(part for part in ast.walk(tree) if isinstance(part, ast.BoolOp) and node in part.values)
            _Replace(node, ast.Constant(value=isinstance(condition.op, ast.And))).visit(tree)
        case _:
            harmless = ast.parse(_HELD if kind == "clause" else _NOTHING, mode="eval").body
            _Replace(node, harmless).visit(tree)


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.expr) -> None:
        self._old = old
        self._new = new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else self.generic_visit(node)
