"""Runs the tests against a mutant in a process of its own, a fork of this one."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import hypothesis.stateful  # noqa: F401 - imported here once instead of in every fork
import pytest

from tests.mutation.mutants import Mutant
from tests.mutation.plugin import install

ROOT: Final = Path(__file__).parents[2]

OPTIONS: Final = (
    "-x",
    "-q",
    "--no-header",
    "-p",
    "no:cacheprovider",
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
    "-m",
    "not slow and not stack",
)
NEAREST: Final = {
    "ratify": ("test_core_clauses", "test_decide_*", "test_core_agreement", "test_traps_commit", "test_traps_replay"),
    "decide": ("test_decide_*", "test_core_floor", "test_core_agreement", "test_traps_commit", "test_traps_replay"),
    "positions": (
        "test_decide_*",
        "test_core_floor",
        "test_core_agreement",
        "test_core_ticket",
        "test_traps_commit",
        "test_traps_replay",
    ),
    "floor": (
        "test_core_clauses",
        "test_core_floor",
        "test_core_agreement",
        "test_publish",
        "test_traps_commit",
        "test_traps_replay",
    ),
    "stuck": ("test_core_clauses", "test_publish*", "test_traps*"),
    "recover": ("test_core_clauses", "test_recover*", "test_traps*"),
    "gc_rows": ("test_core_clauses", "test_gc_*", "test_traps*"),
    "gc_plan": ("test_gc_*", "test_traps*"),
    "catalog_rows": ("test_core_clauses", "test_catalog_*", "test_gc_history", "test_traps*"),
    "catalog_heads": ("test_core_clauses", "test_catalog_*", "test_traps*"),
    "clone_holds": ("test_catalog_clauses", "test_catalog_clone*"),
    "clones": ("test_catalog_clauses", "test_catalog_clone*"),
    "location_rows": ("test_core_clauses", "test_catalog_*", "test_traps*"),
    "import_claims": ("test_catalog_clauses", "../functional/test_import_claims", "../functional/test_import_crashes"),
    "client_rows": ("test_clients",),
    "named_ref": ("test_core_rows", "test_named_refs", "test_gc_refs", "test_ref_rights"),
    "ref_rights": ("test_ref_rights",),
    "request_rows": ("test_core_rows",),
    "lease": ("test_lease",),
    "updateable": ("test_tasks",),
    "places": ("../functional/test_iceberg_*",),
    "catalogs": ("test_catalog_*", "../functional/test_access_changes"),
    "external": ("test_catalog_*",),
    "register": ("test_catalog_*", "test_traps*"),
    "importing": (
        "test_catalog_*",
        "../functional/test_import",
        "../functional/test_import_claims",
        "../functional/test_import_crashes",
        "../functional/test_import_http",
    ),
}
"""Which tests notice a mutant of a module first: files of ``tests/unit``."""


@dataclass(frozen=True)
class Verdict:
    """``killer`` is the test that noticed, empty when none did."""

    mutant: Mutant
    killer: str


def judge(number: int, mutant: Mutant, *, wide: bool = True) -> Verdict:
    """Run the nearest tests, then (``wide``) the model and the simulation, until one fails."""
    killer = _failed(number, _nearest(mutant))
    if not killer and wide:
        killer = _failed(number, ["tests/unit/test_model.py", "tests/simulation/test_simulation.py", "-k", "hold_at"])
    return Verdict(mutant, killer)


def failing_without(chosen: Sequence[tuple[int, Mutant]]) -> str:
    """The first of the tests that fails with nothing changed, which would make every verdict worthless."""
    tests = dict.fromkeys(test for _, mutant in chosen for test in _nearest(mutant))
    return _failed(None, list(tests))


def _nearest(mutant: Mutant) -> list[str]:
    patterns = NEAREST[mutant.module.rsplit(".", 1)[-1]]
    found = (ROOT / "tests/unit" / pattern for pattern in patterns)
    return [str(path) for one in found for path in sorted(one.parent.resolve().glob(f"{one.name}.py"))]


def _failed(number: int | None, tests: list[str]) -> str:
    """The first test that fails in a fork of this process, which has the libraries imported but no module of ours."""
    with tempfile.TemporaryFile("w+") as told:
        child = os.fork()
        if child == 0:
            code = 70  # whatever happens in the fork must end there
            try:
                os.dup2(told.fileno(), 1)
                os.dup2(told.fileno(), 2)
                os.environ["TURNSTILE_SEEDS"] = "200"
                if number is not None:
                    install(number)
                code = int(pytest.main([*OPTIONS, *tests]))
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        told.seek(0)
        said = told.read()
    code = os.waitstatus_to_exitcode(status)
    if code in (0, 5):
        return ""
    lines = [line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if code != 1 and not lines:
        raise RuntimeError(f"pytest ended with {code}:\n{said[-3000:]}")
    return lines[0] if lines else "a test"
