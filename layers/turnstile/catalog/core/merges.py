"""Updates of numeric properties that are computed when they are applied: counters and bounds (TreeCat, "Merge").

A merge says what to do with a number, not what it becomes. So two merges never conflict, in whatever order they are
applied, and a client need not read the number first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.integers import LONG_MAX

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,30}")
"""As path queries read numbers (``query.core``). Python's ``int`` also accepts "1_0", " 1" and digits of other
scripts."""


class Merge(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to do with a property that is a whole number: ``add`` ``value`` to it, or keep the smaller (``min``) or the
    greater (``max``) of the two. A property that does not exist becomes ``value``."""

    op: Literal["add", "min", "max"]
    value: int


def apply_merges(properties: Mapping[str, str], merges: Mapping[str, Merge]) -> dict[str, str]:
    """Returns ``properties`` after ``merges``. Raises InvalidRequest for what is no whole number, or would not fit into
    64 bits."""
    after = dict(properties)
    for name, merge in merges.items():
        number = _merged(name, after.get(name), merge)
        if not -LONG_MAX - 1 <= number <= LONG_MAX:
            raise InvalidRequest(
                f"property {name!r} would be {number}", field=f"merge.{name}", remedy="stay within 64 bits"
            )
        after[name] = str(number)
    return after


def _merged(name: str, stored: str | None, merge: Merge) -> int:
    if stored is None:
        return merge.value
    if not _WHOLE.fullmatch(stored):
        raise InvalidRequest(
            f"property {name!r} is {stored!r}, which is no whole number",
            field=f"merge.{name}",
            remedy="set it to a number first",
        )
    number = int(stored)
    if merge.op == "add":
        return number + merge.value
    return min(number, merge.value) if merge.op == "min" else max(number, merge.value)
