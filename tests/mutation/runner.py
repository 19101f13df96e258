"""Runs the tests against a mutant in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.mutation.mutants import Mutant

ROOT: Final = Path(__file__).parents[2]

NEAREST: Final = {
    "ratify": ("test_core_clauses", "test_decide_*", "test_core_agreement", "test_traps_commit"),
    "decide": ("test_decide_*", "test_core_agreement", "test_traps_commit"),
    "positions": ("test_decide_*", "test_core_agreement", "test_core_ticket", "test_traps_commit"),
    "floor": ("test_core_clauses", "test_core_agreement", "test_publish", "test_traps_commit"),
    "stuck": ("test_core_clauses", "test_publish*", "test_traps*"),
    "gc_rows": ("test_core_clauses", "test_gc_*", "test_traps*"),
    "gc_plan": ("test_gc_*", "test_traps*"),
    "catalog_rows": ("test_core_clauses", "test_catalog_*", "test_traps*"),
    "catalog_heads": ("test_core_clauses", "test_catalog_*", "test_traps*"),
    "location_rows": ("test_core_clauses", "test_catalog_*", "test_traps*"),
}
"""Which unit tests notice a mutant of a module first."""


@dataclass(frozen=True)
class Verdict:
    """``killer`` is the test that noticed, empty when none did."""

    mutant: Mutant
    killer: str


def judge(number: int, mutant: Mutant, *, wide: bool = True) -> Verdict:
    """Run the nearest tests, then (``wide``) the model and the simulation, until one fails."""
    patterns = NEAREST[mutant.module.rsplit(".", 1)[-1]]
    unit = [str(path) for pattern in patterns for path in sorted((ROOT / "tests/unit").glob(f"{pattern}.py"))]
    killer = _failed(number, unit)
    if not killer and wide:
        killer = _failed(number, ["tests/unit/test_model.py", "tests/simulation/test_simulation.py", "-k", "hold_at"])
    return Verdict(mutant, killer)


def _failed(number: int, tests: list[str]) -> str:
    options = [
        "-x",
        "-q",
        "--no-header",
        "-p",
        "no:cacheprovider",
        "-p",
        "tests.mutation.plugin",
        "-m",
        "not slow and not stack",
    ]
    environment = os.environ | {
        "TURNSTILE_MUTANT": str(number),
        "TURNSTILE_SEEDS": "400",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode in (0, 5):
        return ""
    lines = [line for line in ran.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if ran.returncode != 1 and not lines:
        raise RuntimeError(f"pytest ended with {ran.returncode}:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    return lines[0] if lines else "a test"
