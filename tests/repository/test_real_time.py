"""No test compares elapsed real time: a busy machine makes every interval longer.

A test counts requests, or waits for a state (``tests.support.stack.until``), or moves a clock of
its own. A figure may be printed. Benchmarks are no tests.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.repository import ROOT

TESTS: Final = ROOT / "tests"
CLOCKS: Final = frozenset({"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"})
NAMED: Final = ("time.time", "monotonic", "perf_counter")
ORDERS: Final = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
EXCEPTIONS: Final = {
    "simulation/__main__.py": "prints its progress every ten seconds",
}
"""Modules that compare an interval, with the reason."""


def _is_clock(node: ast.AST) -> bool:
    """Whether ``node`` is a call of a clock of the machine."""
    if not isinstance(node, ast.Call):
        return False
    called = ast.unparse(node.func)
    return called in CLOCKS - {"time"} or (called.removeprefix("time.") in CLOCKS and called.startswith("time."))


def _target(node: ast.AST) -> str:
    """A name, or an attribute of any object; empty for other nodes."""
    return node.id if isinstance(node, ast.Name) else f".{node.attr}" if isinstance(node, ast.Attribute) else ""


class Intervals:
    """Names and attributes in a scope that are moments or intervals of real time. ``attributes``
    are intervals by other scopes.

    A moment is assigned from an expression with a call of a clock, or with a moment in it. An
    interval is a difference in which a moment occurs, and what is assigned from one or collects
    one.
    """

    def __init__(self, tree: ast.AST, attributes: Iterable[str] = ()) -> None:
        self._moments: set[str] = set()
        self._intervals = set(attributes)
        nodes = list(ast.walk(tree))
        while True:
            known = len(self._moments) + len(self._intervals)
            for node in nodes:
                self._learn(node)
            if len(self._moments) + len(self._intervals) == known:
                return

    @property
    def attributes(self) -> set[str]:
        return {name for name in self._intervals if name.startswith(".")}

    def _learn(self, node: ast.AST) -> None:
        value: ast.expr | None = None
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            value = node.value
            targets = node.targets
        elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
            value = node.value
            targets = [node.target]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
            value = node.args[0] if node.args else None
            targets = [node.func.value]
        names = {name for name in map(_target, targets) if name}
        if value is None or not names:
            return
        if self.is_interval(value):
            self._intervals |= names
        elif _is_clock(value) or _target(value) in self._moments:
            self._moments |= names

    def is_interval(self, expression: ast.AST) -> bool:
        """Whether a part of an expression is an interval."""
        return any(self._is_one(node) for node in ast.walk(expression))

    def _is_one(self, node: ast.AST) -> bool:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            return any(_is_clock(part) or _target(part) in self._moments for part in (node.left, node.right))
        return _target(node) in self._intervals


def comparisons(tree: ast.Module) -> Iterator[str]:
    """Yields each comparison of an interval in the functions of a module."""
    scopes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    attributes = {name for scope in scopes for name in Intervals(scope).attributes}
    found: dict[int, str] = {}
    for scope in scopes:
        intervals = Intervals(scope, attributes)
        for node in ast.walk(scope):
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], ORDERS) and intervals.is_interval(node):
                found[node.lineno] = ast.unparse(node)
    yield from found.values()


def comparisons_in(path: Path) -> list[str]:
    """The comparisons of a module; without parsing if it names no clock."""
    text = path.read_text()
    return list(comparisons(ast.parse(text))) if any(clock in text for clock in NAMED) else []


def test_no_test_compares_elapsed_real_time() -> None:
    found = {str(path.relative_to(TESTS)): comparisons_in(path) for path in sorted(TESTS.rglob("*.py"))}
    assert {name: lines for name, lines in found.items() if lines and name not in EXCEPTIONS} == {}
    assert [name for name in EXCEPTIONS if not found.get(name)] == [], "these need no exception any more"


@pytest.mark.parametrize(
    "body",
    [
        "began = time.perf_counter()\n    call()\n    assert time.perf_counter() - began < 1",
        "began = now = monotonic()\n    spent = monotonic() - began\n    assert spent < 1",
        "began = time.time()\n    spent = []\n    spent.append(time.time() - began)\n    assert min(spent) < 0.045",
        "assert 0 < end_s - time.time() <= 900",
        "began = time.time_ns()\n    return 'slow' if time.time_ns() - began > 5 else ''",
    ],
)
def test_a_comparison_of_elapsed_real_time_would_be_noticed(body: str) -> None:
    assert len(list(comparisons(ast.parse(f"def test_a():\n    {body}\n")))) == 1


def test_an_interval_that_an_object_keeps_would_be_noticed() -> None:
    text = (
        "class Load:\n    def run(self):\n        began = time.monotonic()\n"
        "        self.longest_s = max(self.longest_s, time.monotonic() - began)\n"
        "def test_a(load):\n    assert load.longest_s < 1\n"
    )
    assert len(list(comparisons(ast.parse(text)))) == 1


@pytest.mark.parametrize(
    "body",
    [
        "end = time.monotonic() + 60\n    while not done():\n        assert time.monotonic() < end",
        "clock.now_s += 5\n    assert clock.now_s - before == 5",
        "began = time.time()\n    print(time.time() - began)",
        "time.sleep(max(0.0, end_s + 1 - time.time()))",
    ],
)
def test_a_wait_for_a_state_and_a_printed_figure_are_allowed(body: str) -> None:
    assert list(comparisons(ast.parse(f"def test_a():\n    {body}\n"))) == []
