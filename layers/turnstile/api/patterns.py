"""Gives a start the regular expressions of its modules as the layer's build compiled them. ``re``
compiles in Python, and some 140 patterns of libraries were a tenth of a start.

    layers/patterns.json           the patterns that starts compile; made by ``make patterns``
    layers/build.py                writes ``patterns.pack`` into the layer
    turnstile.api.starts           calls ``install`` before other modules are imported

They are put into the cache of ``re``, so ``re.compile`` finds them. A pattern that is not among
them is compiled as usual, and so is each with another Python: a pack begins with the magic numbers
of compiled modules and of compiled patterns.
"""

from __future__ import annotations

import _sre  # type: ignore[import-not-found]
import marshal
import re
from importlib.util import MAGIC_NUMBER
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

NAME: Final = "patterns.pack"
MOST: Final = 500
"""Patterns in a pack; ``re`` forgets patterns above 512."""

_HEADER: Final = MAGIC_NUMBER + _sre.MAGIC.to_bytes(4, "little")

Pattern = tuple[str | bytes, int]
"""A pattern, and the flags that ``re.compile`` was called with."""


def install(folder: str) -> int:
    """Reads the pack of the layer in ``folder``. Returns the number of its patterns; 0, and changes
    nothing, if there is none for this Python."""
    cache: dict[Any, Any] | None = getattr(re, "_cache", None)
    try:
        with open(f"{folder}/{NAME}", "rb") as file:  # noqa: PTH123  pathlib is late
            pack = file.read()
    except OSError:
        return 0
    if not pack.startswith(_HEADER) or type(cache) is not dict:
        return 0
    compiled = marshal.loads(memoryview(pack)[len(_HEADER) :])  # noqa: S302  of the same layer
    for called, arguments in compiled:
        cache[type(arguments[0]), arguments[0], called] = _sre.compile(*arguments)
    return len(compiled)


def pack(patterns: Iterable[Pattern]) -> bytes:
    """Returns the pack of these patterns, for the Python that runs this."""
    pack: bytes = _HEADER + marshal.dumps([(flags, _arguments(pattern, flags)) for pattern, flags in patterns])
    return pack


def _arguments(pattern: str | bytes, flags: int) -> tuple[Any, ...]:
    """Returns the arguments of the call of ``_sre.compile`` that ``re.compile`` makes, as plain
    values."""
    compiler: Any = re._compiler  # type: ignore[attr-defined]  # noqa: SLF001
    calls: list[tuple[Any, ...]] = []

    class Recorder:
        def __getattr__(self, name: str) -> Any:
            return getattr(_sre, name)

        def compile(self, *arguments: Any) -> None:
            calls.append(arguments)

    compiler._sre = Recorder()  # noqa: SLF001
    try:
        compiler.compile(pattern, flags)
    finally:
        compiler._sre = _sre  # noqa: SLF001
    text, all_flags, code, groups, names, indices = calls[0]
    return text, int(all_flags), [int(each) for each in code], int(groups), dict(names), tuple(indices)
