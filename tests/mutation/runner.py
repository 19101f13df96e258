"""Runs tests against a mutant, in a process of its own: a fork of this one."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import tempfile
import traceback
import types
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import hypothesis
import hypothesis.stateful  # here once instead of in every fork
import pytest

from tests.mutation.modules import nearest, source
from tests.mutation.mutants import Mutant, mutants, mutated
from tests.support.repository import ROOT

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
WIDE: Final = (
    ROOT / "tests/unit/delta/test_table_model.py",
    ROOT / "tests/simulation/test_simulation.py",
)
"""What every mutant meets that the nearest tests did not notice: the model of a table, and the
simulation."""


@dataclass(frozen=True)
class Verdict:
    """``killer`` is the test that noticed, empty when none did."""

    mutant: Mutant
    killer: str


def try_mutant(number: int, mutant: Mutant) -> Verdict:
    """Runs the nearest tests, then the wide ones, until one fails."""
    killer = _first_failure(number, nearest(mutant.module)) or _first_failure(number, WIDE, "-k", "hold_at or TestI")
    return Verdict(mutant, killer)


def failing_without(chosen: Iterable[tuple[int, Mutant]]) -> str:
    """The first of the tests that fails with nothing changed, which would make every verdict
    worthless."""
    modules = dict.fromkeys(mutant.module for _, mutant in chosen)
    return _first_failure(None, list(dict.fromkeys(path for module in modules for path in nearest(module))))


def install(number: int) -> None:
    """Applies a mutant to this process, before anything imports its module."""
    hypothesis.settings.register_profile(
        "mutant", phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate], database=None
    )
    hypothesis.settings.load_profile("mutant")
    mutant = mutants()[number]
    if mutant.module in sys.modules:
        raise RuntimeError(f"{mutant.module} is imported already")
    sys.meta_path.insert(0, _Finder(mutant))


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module with a mutant applied."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self._mutant.module:
            return None
        return importlib.util.spec_from_file_location(name, source(name), loader=self)

    def exec_module(self, module: types.ModuleType) -> None:
        exec(compile(mutated(self._mutant), str(source(module.__name__)), "exec"), module.__dict__)


def _first_failure(number: int | None, tests: Sequence[Path], *options: str) -> str:
    """The first test that fails in a fork of this process, which has the libraries imported but no
    module of ours."""
    with tempfile.TemporaryFile("w+") as output:
        child = os.fork()
        if child == 0:
            code = 70  # whatever happens in the fork must end there
            try:
                os.dup2(output.fileno(), 1)
                os.dup2(output.fileno(), 2)
                os.environ["TURNSTILE_SEEDS"] = "200"
                if number is not None:
                    install(number)
                code = int(pytest.main([*OPTIONS, *map(str, tests), *options]))
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        output.seek(0)
        text = output.read()
    code = os.waitstatus_to_exitcode(status)
    if code == 0:
        return ""
    failures = [line for line in text.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if code == pytest.ExitCode.NO_TESTS_COLLECTED or (code != 1 and not failures):
        raise RuntimeError(f"pytest ended with {code}:\n{text[-3000:]}")
    return failures[0] if failures else "a test"
