"""The shape of the tests: what they share is support code, every test asserts something, no folder is a heap."""

from __future__ import annotations

import ast
import functools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.support.repository import ROOT

TESTS = ROOT / "tests"
MOST_FILES = 26
"""In one folder."""
LIBRARIES = {"raises", "fail", "warns", "validate", "compile", "run_state_machine_as_test"}
"""Calls of libraries that fail a test."""
ERRORS = {"AssertionError", "Violation", "Failed"}
"""Raised by helpers when something is wrong."""


@functools.cache
def modules() -> dict[Path, ast.Module]:
    """Path below ``tests`` -> syntax tree."""
    return {path.relative_to(TESTS): ast.parse(path.read_text()) for path in sorted(TESTS.rglob("*.py"))}


def imported(tree: ast.Module) -> Iterator[str]:
    """Dotted names of everything that a module imports, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def of_tests(name: str) -> bool:
    """Whether an imported name is a test module or a conftest, or comes from one."""
    parts = name.split(".")
    paths = [ROOT.joinpath(*parts).with_suffix(".py"), ROOT.joinpath(*parts[:-1]).with_suffix(".py")]
    return any(path.name.startswith(("test_", "conftest")) and path.is_file() for path in paths)


def test_nothing_imports_from_a_test_module() -> None:
    """What several tests need is in tests/support, and fixtures are in a conftest, which gives them without an import."""
    names = {str(path): [name for name in imported(tree) if of_tests(name)] for path, tree in modules().items()}
    assert {path: found for path, found in names.items() if found} == {}


def test_an_import_from_a_test_module_would_be_noticed() -> None:
    tree = ast.parse("from tests.repository.test_tests import of_tests\nfrom tests.support.repository import ROOT")
    assert [of_tests(name) for name in imported(tree)] == [True, False]
    assert of_tests("tests.conftest.stack") and of_tests("tests.repository.test_tests")


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def name_of(node: ast.expr) -> str:
    """The last part of a dotted name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def called(function: ast.FunctionDef) -> set[str]:
    """Names of what a function calls, or hands on to be called."""
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    return {name_of(part) for call in calls for part in (call.func, *call.args)}


def asserts(function: ast.FunctionDef) -> bool:
    """By itself."""
    for node in ast.walk(function):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and name_of(node.exc.func) in ERRORS:
            return True
        if isinstance(node, ast.Assert):
            return True
    return bool(called(function) & LIBRARIES)


def asserting(trees: Iterable[ast.Module]) -> set[str]:
    """Names of functions that assert something, by themselves or by a function that they call."""
    calls: dict[str, set[str]] = defaultdict(set)
    names = set()
    for function in (function for tree in trees for function in functions(tree)):
        calls[function.name] |= called(function)
        if asserts(function):
            names.add(function.name)
    while more := {name for name, callees in calls.items() if name not in names and callees & names}:
        names |= more
    return names


def test_every_test_asserts_something() -> None:
    """By itself or by a helper; helpers are known by name, and the fakes' own checks are none."""
    helpers = asserting(tree for path, tree in modules().items() if "fakes" not in path.parts)
    tests = [function for path, tree in modules().items() if path.name[:5] == "test_" for function in functions(tree)]
    assert {test.name for test in tests if test.name.startswith("test_") and test.name not in helpers} == set()


def test_a_test_that_asserts_nothing_would_be_noticed() -> None:
    tree = ast.parse("def test_a():\n    b()\ndef b():\n    c.d()\ndef d():\n    assert x\ndef test_e():\n    f()\n")
    assert asserting([tree]) == {"test_a", "b", "d"}


def test_no_folder_holds_too_many_files() -> None:
    folders = Counter(str(path.parent) for path in modules() if path.name != "__init__.py")
    assert {folder: count for folder, count in folders.items() if count > MOST_FILES} == {}
