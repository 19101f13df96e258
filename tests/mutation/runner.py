"""Runs the tests against a mutant in a process of its own, a fork of this one."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import hypothesis.stateful  # noqa: F401 - imported here once instead of in every fork
import pytest

from tests.mutation.mutants import Mutant
from tests.mutation.plugin import install
from tests.support.paths import ROOT

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
    "delta.core.ratify_writes": ("unit/delta/test_*",),
    "delta.core.decide": ("unit/delta/test_*",),
    "delta.core.head": ("unit/delta/test_*",),
    "delta.core.state_writes": ("unit/delta/test_*",),
    "catalog.core.rows": ("unit/catalog/test_*", "unit/gc/test_*", "unit/history/test_*"),
    "catalog.core.table_heads": ("unit/delta/test_*", "unit/catalog/test_*", "unit/gc/test_*"),
    "catalog.core.location_rows": (
        "unit/catalog/test_*",
        "unit/clone/test_*",
        "unit/gc/test_*",
        "functional/transfer/test_import*",
    ),
    "catalog.core.request_rows": ("unit/catalog/test_*", "unit/delta/test_*"),
    "catalog.clone.core": ("unit/catalog/test_*clauses*", "unit/clone/test_*"),
    "access.core.client_rows": ("unit/access/test_*",),
    "coordination.core.named_ref": ("unit/coordination/test_*", "unit/gc/test_*"),
    "coordination.core.ref_rights": ("unit/coordination/test_*", "unit/access/test_*"),
    "coordination.core.rows": ("unit/coordination/test_*",),
    "gc.core": ("unit/gc/test_*", "unit/delta/test_*"),
    "iceberg.locations": ("functional/iceberg/test_*",),
    "catalog.catalogs": ("unit/catalog/test_*", "functional/access/test_*"),
    "catalog.external": ("unit/catalog/test_*", "unit/clone/test_*"),
    "catalog.create": ("unit/catalog/test_*", "unit/clone/test_*"),
    "transfer.imports": ("unit/catalog/test_*", "functional/transfer/test_import*"),
}
"""Which tests notice a mutant of a module first, as globs below ``tests``."""


@dataclass(frozen=True)
class Verdict:
    """``killer`` is the test that noticed, empty when none did."""

    mutant: Mutant
    killer: str


def judge(number: int, mutant: Mutant, *, wide: bool = True) -> Verdict:
    """Run the nearest tests, then (``wide``) the model and the simulation, until one fails."""
    killer = _failed(number, _nearest(mutant))
    if not killer and wide:
        killer = _failed(
            number, ["tests/unit/delta/test_table_model.py", "tests/simulation/test_simulation.py", "-k", "hold_at"]
        )
    return Verdict(mutant, killer)


def failing_without(chosen: Sequence[tuple[int, Mutant]]) -> str:
    """The first of the tests that fails with nothing changed, which would make every verdict worthless."""
    tests = dict.fromkeys(test for _, mutant in chosen for test in _nearest(mutant))
    return _failed(None, list(tests))


def _nearest(mutant: Mutant) -> list[str]:
    patterns = NEAREST[mutant.module.removeprefix("turnstile.")]
    found = (ROOT / "tests" / pattern for pattern in patterns)
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
