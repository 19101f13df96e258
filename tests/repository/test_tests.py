"""The shape of the tests: what they share is support code, every test asserts something, no folder
is a heap."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.support.repository import ROOT, syntax_tree

TESTS = ROOT / "tests"
MOST_FILES = 26
"""In one folder."""
GLOBAL_PATCH = re.compile(r"""(setattr|patch(\.object)?)\(["']?(\w+\.)*(time|threading)\b(, |\.\w+["'])""")
"""A function of ``time`` or ``threading`` is replaced for all threads."""
LIBRARIES = {"raises", "fail", "warns", "validate", "compile"}
"""Calls of libraries that fail a test."""
ERRORS = {"AssertionError", "Violation", "Failed"}
"""Raised by helpers when something is wrong."""
IMPORT = re.compile(r"^ *(?:from|import) +(tests[\w.]*)(?: +import +(\w+))?", re.MULTILINE)


def modules() -> list[Path]:
    return sorted(TESTS.rglob("*.py"))


def from_tests(text: str) -> list[str]:
    """The test modules and conftests that a module imports, or imports from."""
    parts = [(*module.split("."), name) if name else module.split(".") for module, name in IMPORT.findall(text)]
    modules = {".".join(some) for full in parts for some in (full, full[:-1])}
    return sorted(
        name
        for name in modules
        if name.rpartition(".")[2].startswith(("test_", "conftest"))
        and ROOT.joinpath(*name.split(".")).with_suffix(".py").is_file()
    )


def test_nothing_imports_from_a_test_module() -> None:
    """What several tests need is in tests/support, and fixtures are in a conftest, which gives them
    without an import."""
    names = {str(path.relative_to(TESTS)): from_tests(path.read_text()) for path in modules()}
    assert {path: found for path, found in names.items() if found} == {}


def test_an_import_from_a_test_module_would_be_noticed() -> None:
    assert from_tests("from tests.repository.test_tests import (") == ["tests.repository.test_tests"]
    assert from_tests("    from tests.repository import test_tests") == ["tests.repository.test_tests"]
    assert from_tests("import tests.conftest") == ["tests.conftest"]
    assert from_tests("from tests.support.repository import ROOT, syntax_tree") == []


def name_of(node: ast.expr) -> str:
    """The last part of a dotted name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def inside(tree: ast.Module) -> Iterator[tuple[tuple[str, ...], ast.Call | ast.Assert | ast.Raise]]:
    """Calls, assertions and raised errors, each with the functions that it is in."""
    todo: list[tuple[tuple[str, ...], ast.AST]] = [((), tree)]
    while todo:
        functions, node = todo.pop()
        if isinstance(node, ast.Call | ast.Assert | ast.Raise):
            yield functions, node
        elif isinstance(node, ast.FunctionDef):
            functions = (*functions, node.name)
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, ast.AST):
                todo.append((functions, value))
            elif type(value) is list:
                todo += [(functions, part) for part in value if isinstance(part, ast.AST)]


def asserting(trees: Iterable[ast.Module]) -> set[str]:
    """Names of functions that assert something, by themselves or by a function that they call or
    hand on."""
    calls: dict[str, set[str]] = defaultdict(set)
    names = set()
    for functions, node in (pair for tree in trees for pair in inside(tree)):
        if isinstance(node, ast.Call):
            called = {name_of(part) for part in (node.func, *node.args)}
            for function in functions:
                calls[function] |= called
            if called & LIBRARIES:
                names.update(functions)
        elif isinstance(node, ast.Assert) or (isinstance(node.exc, ast.Call) and name_of(node.exc.func) in ERRORS):
            names.update(functions)
    while more := {name for name, callees in calls.items() if name not in names and callees & names}:
        names |= more
    return names


def test_every_test_asserts_something() -> None:
    """By itself or by a helper; helpers are known by name, and the fakes' own checks are none."""
    texts = [path.read_text() for path in modules() if path.parent.name != "fakes"]
    tests = {name for text in texts for name in re.findall(r"^ *def (test_\w+)", text, re.MULTILINE)}
    assert tests - asserting(map(syntax_tree, texts)) == set()


def test_a_test_that_asserts_nothing_would_be_noticed() -> None:
    tree = ast.parse("def test_a():\n    b()\ndef b():\n    c.d()\ndef d():\n    assert x\ndef test_e():\n    f()\n")
    assert asserting([tree]) == {"test_a", "b", "d"}


def patches_of_clocks(text: str) -> list[str]:
    """The lines that replace a function of ``time`` or ``threading`` for every thread of the
    process."""
    return [line.strip() for line in text.splitlines() if GLOBAL_PATCH.search(line)]


def test_no_test_replaces_a_clock_or_a_thread_for_the_whole_process() -> None:
    """Other threads of the process wait by the same functions: give the module under test its own
    name for it."""
    patches = {str(path.relative_to(TESTS)): patches_of_clocks(path.read_text()) for path in modules()}
    assert {path: lines for path, lines in patches.items() if lines and path != "repository/test_tests.py"} == {}


def test_a_patch_of_the_whole_process_would_be_noticed() -> None:
    for line in (
        'monkeypatch.setattr(time, "sleep", None)',
        'monkeypatch.setattr(command.time, "sleep", None)',
        'monkeypatch.setattr("time.sleep", None)',
        'monkeypatch.setattr(threading, "Thread", None)',
        'mock.patch.object(time, "monotonic")',
    ):
        assert patches_of_clocks(line) == [line]
    assert patches_of_clocks('monkeypatch.setattr(command, "sleep", None)') == []


def test_no_folder_holds_too_many_files() -> None:
    folders = Counter(str(path.parent.relative_to(TESTS)) for path in modules() if path.name != "__init__.py")
    assert {folder: count for folder, count in folders.items() if count > MOST_FILES} == {}
