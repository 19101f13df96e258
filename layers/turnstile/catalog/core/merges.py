"""Updates of numeric properties that are computed when they are applied: counters and bounds
(TreeCat, "Merge"). A merge is an operation on a number, not a result. So two merges never conflict,
their order does not matter, and a client need not read the number first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from operator import add
from typing import Final, Literal

import msgspec

from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.limits import LONG_MAX

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,30}")
"""As path queries read numbers (``query.core``). Python's ``int`` also accepts "1_0", " 1" and
digits of other scripts."""

_OPERATIONS: Final[Mapping[str, Callable[[int, int], int]]] = {"add": add, "min": min, "max": max}


class Merge(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The operation on a property that is a whole number: ``add`` ``value`` to it, or keep the
    smaller (``min``) or the greater (``max``) of the two. A property that does not exist becomes
    ``value``.
    """

    op: Literal["add", "min", "max"]
    value: int


def apply_merges(properties: Mapping[str, str], merges: Mapping[str, Merge]) -> dict[str, str]:
    """Returns ``properties`` after ``merges``. Raises InvalidRequest for a value that is no whole
    number, or would not fit into 64 bits."""
    after = dict(properties)
    for name, merge in merges.items():
        stored = after.get(name)
        if stored is not None and not _WHOLE.fullmatch(stored):
            problem = f"property {name!r} is {stored!r}, which is no whole number"
            raise InvalidRequest(problem, field=f"merge.{name}", remedy="set it to a number first")
        number = merge.value if stored is None else _OPERATIONS[merge.op](int(stored), merge.value)
        if not -LONG_MAX - 1 <= number <= LONG_MAX:
            problem = f"property {name!r} would be {number}"
            raise InvalidRequest(problem, field=f"merge.{name}", remedy="stay within 64 bits")
        after[name] = str(number)
    return after
