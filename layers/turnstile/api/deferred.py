"""Imports some modules of libraries at their first use. Libraries import them for help texts and
other parts that requests seldom need, so each start would import them.

    turnstile.api.starts          calls ``install`` before other modules are imported
    DeferredModule                is in the place of a module until an attribute of it is needed
    use                           imports the module itself, and returns it

Another module may take a function or a class from it by name (``from botocore.docs.method import
document_model_driven_method``). It gets a function that calls the right one, so a listed class must
be called only: it is no base class, and no ``except`` names it.
"""

from __future__ import annotations

import _thread
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

MODULES: Final[Mapping[str, tuple[str, ...]]] = {
    "aws_lambda_powertools.utilities.jmespath_utils": (),
    "botocore.docs.bcdoc.restdoc": ("DocumentStructure",),
    "botocore.docs.method": ("document_model_driven_method",),
    "botocore.docs.paginator": ("document_paginate_method",),
    "botocore.docs.service": ("ServiceDocumenter",),
    "botocore.docs.waiter": ("document_wait_method",),
    "calendar": ("timegm",),
    "configparser": (),
    "dateutil.parser": ("parse",),
    "importlib.metadata": ("version",),
    "jmespath": (),
    "tokenize": (),
}
"""Modules to defer, with the names that other modules take from them when they are imported."""


def install(modules: Mapping[str, tuple[str, ...]] = MODULES) -> None:
    """Defers the import of ``modules``. Those that are imported already stay as they are."""
    sys.meta_path.insert(0, DeferringFinder(modules))


class DeferringFinder:
    """A finder of ``sys.meta_path``. It finds each of ``modules`` once, to defer it, and after that
    leaves it to the other finders."""

    def __init__(self, modules: Mapping[str, tuple[str, ...]]) -> None:
        self._modules = dict(modules)

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns the specification of a deferred module; None for every other."""
        names = self._modules.pop(name, None)
        if names is None:
            return None
        loader: Any = DeferringLoader(names)  # without importlib's base class, which is slow to import
        return ModuleSpec(name, loader)


class DeferringLoader:
    """Makes a deferred module, with functions in the place of ``names``."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return DeferredModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        for name in self._names:
            setattr(module, name, _call_later(module.__name__, name))


class DeferredModule(ModuleType):
    """A module that is imported at the first use of an attribute. ``from module import name`` reads
    its ``__path__``, which is therefore no use: the folders are found when a module below it is
    imported."""

    def __getattr__(self, name: str) -> Any:
        return _DeferredPath(self.__name__) if name == "__path__" else getattr(use(self.__name__), name)


class _DeferredPath:
    """The folders of a deferred package."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __iter__(self) -> Iterator[str]:
        return iter(use(self._name).__path__)


def use(name: str) -> ModuleType:
    """Imports a deferred module, the first time, and returns it. Several threads may do so."""
    with _LOCK:  # not around the import, which has locks of its own
        if isinstance(sys.modules.get(name), DeferredModule):
            del sys.modules[name]
    __import__(name)
    return sys.modules[name]


_LOCK: Final = _thread.allocate_lock()


def _call_later(module: str, name: str) -> Callable[..., Any]:
    """Returns a function that calls the one of that name in the module."""

    def call(*arguments: Any, **options: Any) -> Any:
        return getattr(use(module), name)(*arguments, **options)

    return call
