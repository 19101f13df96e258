"""The widths of integers: JSON and Python know none, those who read what we write do.

The annotated types are for members of Structs: a number out of range is refused where it is decoded, with the member's
path. A number beyond ``long`` would get into files that no client can read again.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

INT_MAX: Final = 2**31 - 1
"""The largest ``int`` of Java and Iceberg, 32 bits; the smallest is one more below zero."""

LONG_MAX: Final = 2**63 - 1
"""The largest ``long``, 64 bits."""

EXACT_MAX: Final = 2**53 - 1
"""The largest integer that every JSON reader holds exactly."""

Int32 = Annotated[int, Meta(ge=-INT_MAX - 1, le=INT_MAX)]
"""``int``: an id; -1 is one that was not assigned yet."""

NonNegative32 = Annotated[int, Meta(ge=0, le=INT_MAX)]
"""``int``: a position or a width."""

Positive32 = Annotated[int, Meta(ge=1, le=INT_MAX)]
"""``int``: how many to keep."""

Int64 = Annotated[int, Meta(ge=-LONG_MAX - 1, le=LONG_MAX)]
"""``long``: the id of an Iceberg snapshot."""

NonNegative64 = Annotated[int, Meta(ge=0, le=LONG_MAX)]
"""``long``: a time in ms since 1970, a sequence number, bytes, rows."""

Positive64 = Annotated[int, Meta(ge=1, le=LONG_MAX)]
"""``long``: an age in ms."""

NonNegativeExact = Annotated[int, Meta(ge=0, le=EXACT_MAX)]
"""A version, a time or a number of bytes in APIs whose clients read JSON numbers as doubles."""
