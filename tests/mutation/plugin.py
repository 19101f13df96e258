"""Imports one module with a mutant applied."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Sequence

import hypothesis

from tests.mutation.mutants import Mutant, mutants, mutated, source


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
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


def install(number: int) -> None:
    """Apply a mutant to this process, before anything imports its module."""
    hypothesis.settings.register_profile(
        "mutant", phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate], database=None
    )
    hypothesis.settings.load_profile("mutant")
    mutant = mutants()[number]
    if mutant.module in sys.modules:
        raise RuntimeError(f"{mutant.module} is imported already")
    sys.meta_path.insert(0, _Finder(mutant))
