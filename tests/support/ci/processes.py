"""Which tests start processes, derived from the syntax of their modules.

A test starts a process if it, a fixture that it needs, or a function or class of ``tests`` that one
of them names (transitively) calls one of ``STARTS``. Fixtures are looked for as pytest does: in the
module, then in each ``conftest.py`` above it. Annotations name types only and are left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.repository import full_name, imported_names, syntax_tree

STARTS: Final = frozenset({
    "multiprocessing.Process", "multiprocessing.get_context", "os.fork", "pyspark.sql.SparkSession.builder",
    "subprocess.Popen", "subprocess.call", "subprocess.check_call", "subprocess.check_output", "subprocess.run",
    "turnstile_local.Stack.start", "turnstile_server.Server.start", "turnstile_spark.session",
})  # fmt: skip
"""Calls that start a process, by full name."""
BY_NAME: Final = "getfixturevalue"
"""A function that calls it names fixtures by strings, its own or its parameters'."""


class Definition(NamedTuple):
    """A function, class or variable of a module, by the names in it."""

    calls: frozenset[str]
    """Full names of the functions that it calls, by the module's imports."""
    names: frozenset[str]
    """Names, parameters included, and dotted names of one dot."""


class Module(NamedTuple):
    path: Path
    imports: dict[str, str]
    """Full names of what it imports, by local name."""
    definitions: dict[str, Definition]


def starts_a_process(path: Path, names: Iterable[str], root: Path) -> bool:
    """Returns whether one of these functions or fixtures of the test module ``path`` starts a
    process. ``root`` is the folder of tests."""
    return any(_starts(path, name, root) for name in names)


def direct_starts(path: Path) -> list[str]:
    """The functions and classes of a module that call one of ``STARTS`` themselves."""
    return [name for name, definition in _module(path).definitions.items() if definition.calls & STARTS]


def names_of_tests(path: Path) -> list[str]:
    """The test functions of a module."""
    return [name for name in _module(path).definitions if name.startswith("test_")]


@cache
def _starts(path: Path, name: str, root: Path) -> bool:
    seen: set[tuple[Path, str]] = set()
    todo = [(path, name)]
    while todo:
        at = todo.pop()
        if at in seen:
            continue
        seen.add(at)
        found = _find(*at, root)
        if found is None:
            continue
        module, definition = found
        if definition.calls & STARTS:
            return True
        todo += [(module.path, other) for other in definition.names]
    return False


def _find(path: Path, name: str, root: Path) -> tuple[Module, Definition] | None:
    """The definition of a name in a module, in the module that it is imported from, or of a
    fixture."""
    module = _module(path)
    if name in module.definitions:
        return module, module.definitions[name]
    head, _, member = name.partition(".")
    full = module.imports.get(head, "")
    if full:
        return _imported(f"{full}.{member}" if member else full, root)
    for folder in path.parents if not member else ():
        conftest = folder / "conftest.py"
        if conftest.is_file() and name in (fixtures := _module(conftest)).definitions:
            return fixtures, fixtures.definitions[name]
        if folder == root:
            break
    return None


def _imported(full: str, root: Path) -> tuple[Module, Definition] | None:
    module, _, name = full.rpartition(".")
    if not module.startswith(root.name):
        return None
    path = root.parent.joinpath(*module.split(".")).with_suffix(".py")
    return _find(path, name, root) if path.is_file() else None


@cache
def _module(path: Path) -> Module:
    tree = syntax_tree(path.read_text())
    imports = imported_names(tree)
    definitions: dict[str, Definition] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            definitions[node.name] = _definition(node, imports)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            made = _definition(node, imports)
            definitions |= {target.id: made for target in targets if isinstance(target, ast.Name)}
    return Module(path, imports, definitions)


def _definition(node: ast.AST, imports: dict[str, str]) -> Definition:
    parts = list(_without_annotations(node))
    calls = {full_name(part.func, imports) for part in parts if isinstance(part, ast.Call)}
    names = {part.id for part in parts if isinstance(part, ast.Name)}
    names |= {part.arg for part in parts if isinstance(part, ast.arg)}
    names |= {
        f"{part.value.id}.{part.attr}"
        for part in parts
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name)
    }
    if any(isinstance(part, ast.Attribute) and part.attr == BY_NAME for part in parts):
        texts = (part.value for part in parts if isinstance(part, ast.Constant))
        names |= {text for text in texts if isinstance(text, str) and text.isidentifier()}
    return Definition(frozenset(calls), frozenset(names))


def _without_annotations(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns"):
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.AST):
                yield from _without_annotations(part)
