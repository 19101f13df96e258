"""The modules that are mutated: what each is mutated in, and which tests notice that soonest.

A table, in one place: a module that builds conditional writes and is not in it fails a test, and so does a pattern that
matches no test file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.repository import ROOT

LAYER: Final = ROOT / "layers"


@dataclass(frozen=True)
class Mutated:
    """
    Args:
        nearest: tests to run, soonest first, as globs below ``tests``.
        writes: it builds conditional writes: each clause always holds; each action does nothing.
        decides: it decides: each branch is never taken; each operand of ``and`` and ``or`` counts for nothing; each
            comparison is off by one.
    """

    nearest: tuple[str, ...]
    writes: bool = True
    decides: bool = False


_CLAUSES = "unit/store/test_conditional_writes.py"
_RATIFIED = (
    "unit/delta/test_decide_*.py",
    "unit/delta/test_write_agrees_with_decision.py",
    "unit/delta/test_ratified_once_and_in_bounds.py",
    "unit/delta/test_late_and_doubled_writes.py",
)
_CATALOG = ("unit/catalog/test_*.py", "unit/history/test_*.py", "unit/clone/test_*.py")

MODULES: Final = {
    "turnstile.delta.core.ratify_writes": Mutated(
        (_CLAUSES, *_RATIFIED, "unit/delta/test_floor.py", "unit/delta/test_*.py"), decides=True
    ),
    "turnstile.delta.core.decide": Mutated((*_RATIFIED, "unit/delta/test_*.py"), writes=False, decides=True),
    "turnstile.delta.core.head": Mutated(
        (*_RATIFIED, "unit/delta/test_ticket_bytes.py", "unit/delta/test_*.py"), writes=False, decides=True
    ),
    "turnstile.delta.core.state_writes": Mutated(
        (_CLAUSES, "unit/delta/test_publish*.py", "unit/delta/test_re*.py", "unit/delta/test_*.py", *_CATALOG)
    ),
    "turnstile.catalog.core.rows": Mutated((_CLAUSES, "unit/catalog/test_clauses.py", *_CATALOG, "unit/gc/test_*.py")),
    "turnstile.catalog.core.location_rows": Mutated(
        (_CLAUSES, *_CATALOG, "unit/gc/test_*.py", "functional/transfer/test_import*.py")
    ),
    "turnstile.catalog.core.request_rows": Mutated(
        ("unit/coordination/test_reference_and_request_rows.py", "unit/catalog/test_*.py")
    ),
    "turnstile.catalog.clone.core": Mutated(("unit/catalog/test_clauses.py", "unit/clone/test_*.py")),
    "turnstile.catalog.catalogs": Mutated(("unit/catalog/test_*.py", "functional/access/test_changes.py")),
    "turnstile.catalog.external": Mutated(_CATALOG),
    "turnstile.catalog.create": Mutated(_CATALOG),
    "turnstile.access.core.client_rows": Mutated(("unit/auth/test_registered_clients.py", "unit/access/test_*.py")),
    "turnstile.coordination.core.named_ref": Mutated(
        (
            "unit/coordination/test_reference_and_request_rows.py",
            "unit/coordination/test_named_references.py",
            "unit/gc/test_refs.py",
            "unit/access/test_reference_rights.py",
        )
    ),
    "turnstile.coordination.core.ref_rights": Mutated(("unit/access/test_reference_rights.py",)),
    "turnstile.coordination.core.rows": Mutated(
        ("unit/coordination/test_lease.py", "unit/coordination/test_tasks.py", "unit/coordination/test_*.py")
    ),
    "turnstile.gc.core": Mutated(("unit/gc/test_*.py", "unit/delta/test_*.py"), writes=False, decides=True),
    "turnstile.iceberg.locations": Mutated(("functional/iceberg/test_*.py",)),
    "turnstile.transfer.imports": Mutated(
        ("unit/catalog/test_*.py", "functional/transfer/test_import*.py", "functional/transfer/test_http.py")
    ),
}


def source(module: str) -> Path:
    """The module's file."""
    return LAYER / (module.replace(".", "/") + ".py")


def nearest(module: str) -> list[Path]:
    """Test files that notice a mutant of the module soonest, in order.

    Raises:
        LookupError: a pattern matches no file.
    """
    files: dict[Path, None] = {}
    for pattern in MODULES[module].nearest:
        matching = sorted((ROOT / "tests").glob(pattern))
        if not matching:
            raise LookupError(f"{module}: no test file matches tests/{pattern}")
        files |= dict.fromkeys(matching)
    return list(files)


SURVIVORS: Final[dict[str, str]] = {
    "turnstile.catalog.external: drop: clause 'own'": "the row's key holds the table's id already, so it is no other table's",
}
"""Mutants that no test notices, each with the reason why none should."""
