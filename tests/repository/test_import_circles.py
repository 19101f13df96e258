"""The shape of the product: imports form no circle, also late ones and ones for types alone; and no
folder of the layer and no module grows too large."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from collections.abc import Set as AbstractSet
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.support.repository import ROOT, syntax_tree

ROOTS = ("layers", "server", "http_client", "spark_client", "python_client", "infra", "cli", "benchmarks")
MOST_MODULES = 20
"""In one folder."""
MOST_LINES = 500
"""Of one module of the product."""
PRODUCT = ("layers", "functions", "server", "http_client", "spark_client", "python_client", "infra", "cli")


def modules(root: str) -> dict[str, list[ast.stmt]]:
    """Dotted name -> imports, also those in functions, for every module below ``root``."""
    folder = ROOT / root
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = imports(syntax_tree(path.read_text()))
    return found


def imports(tree: ast.Module) -> list[ast.stmt]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def imported(nodes: list[ast.stmt], known: AbstractSet[str]) -> set[str]:
    """The modules among ``known`` that these imports name."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                names.add(full if full in known else node.module)
    return names & known


@pytest.mark.parametrize("root", ROOTS)
def test_imports_form_no_circle(root: str) -> None:
    found = modules(root)
    graph = {name: imported(nodes, found.keys()) - {name} for name, nodes in found.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def test_a_circle_would_be_noticed() -> None:
    (late,) = imports(ast.parse("def function():\n    from x.b import name"))
    assert imported([late], {"x.b"}) == {"x.b"}
    a = ast.parse("from x.b import name")
    b = ast.parse("import x.a")
    graph = {"x.a": imported(a.body, {"x.a", "x.b"}), "x.b": imported(b.body, {"x.a", "x.b"})}
    with pytest.raises(CycleError):
        TopologicalSorter(graph).prepare()


@pytest.mark.parametrize("root", [*PRODUCT, "benchmarks"])
def test_no_folder_of_the_product_holds_too_many_modules(root: str) -> None:
    modules_of = Counter(path.parent for path in (ROOT / root).rglob("*.py"))
    crowded = {str(folder.relative_to(ROOT)): count for folder, count in modules_of.items() if count > MOST_MODULES}
    assert not crowded, f"more than {MOST_MODULES} modules, give a subject of them a folder of its own: {crowded}"


@pytest.mark.parametrize("root", PRODUCT)
def test_no_module_of_the_product_is_too_long(root: str) -> None:
    lines = {str(path.relative_to(ROOT)): count_of_lines(path) for path in (ROOT / root).rglob("*.py")}
    too_long = {path: count for path, count in lines.items() if count > MOST_LINES}
    assert not too_long, f"more than {MOST_LINES} lines, give a part with a name of its own a module: {too_long}"


def count_of_lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_every_subject_has_a_place_in_the_import_contract() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    places = next(each["layers"] for each in settings["contracts"] if each["type"] == "layers")
    named = {name.strip().rpartition(".")[2] for place in places for name in place.split("|")}
    folders = {path.parent.name for path in (ROOT / "layers" / "turnstile").glob("*/__init__.py")}
    assert folders - named == set(), "give each a floor in pyproject.toml, 'Arrows point down between subjects'"
