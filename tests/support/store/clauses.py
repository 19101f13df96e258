"""The clauses of conditional writes by invariant; ``python -m tests.support.store.clauses`` prints
them (docs/invariants.md)."""

from __future__ import annotations

import ast
import functools
from collections import defaultdict

from tests.support.repository import ROOT

DOMAIN = ROOT / "layers/turnstile"


@functools.cache
def clauses() -> dict[str, set[str]]:
    """Invariant -> ``subject/module: clause`` for every clause in a core."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted(DOMAIN.rglob("*.py")):
        place = path.relative_to(DOMAIN).with_suffix("").parts
        if "core" not in place:
            continue
        module = "/".join(part for part in place if part != "core")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Clause":
                name, invariant = (getattr(argument, "value", None) for argument in node.args[:2])
                if isinstance(name, str) and isinstance(invariant, str):
                    found[invariant].add(f"{module}: {name}")
    return found


def main() -> None:
    for invariant, named in sorted(clauses().items(), key=lambda item: int(item[0].removeprefix("I"))):
        for clause in sorted(named):
            print(invariant, clause)


if __name__ == "__main__":
    main()
